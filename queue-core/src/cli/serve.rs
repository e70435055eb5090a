//! `queue serve` and `queue migrate`.

use std::time::Duration;

use serde_json::json;

use super::args::{Common, StrategyName};
use super::{Exit, operation, report};
use crate::error::Error;
use crate::strategy::{Flock, record, writer};

/// Writes for all.
pub(super) fn run(common: &Common, idle: Duration) -> Result<Exit, Error> {
    let queue = common.open()?;
    let mut told = Ok(());
    let served = writer::serve(&queue, Flock::new(&common.options()), idle, &mut |socket| {
        told = report::object(&json!({"op": "serve", "outcome": "serving", "socket": socket.display().to_string()}));
    });
    for warning in queue.take_warnings() {
        report::warning(&warning, common.json);
    }
    told?;
    let served = served?;
    report::object(&json!({
        "op": "serve", "outcome": "idle", "requests": served.requests, "batches": served.batches
    }))?;
    Ok(Exit::Done)
}

/// Changes the strategy of a queue file.
pub(super) fn migrate(common: &Common, to: Option<StrategyName>) -> Result<Exit, Error> {
    let to =
        to.or(common.strategy).ok_or_else(|| Error::Usage("say which strategy is to be used, with --to".into()))?;
    if to == StrategyName::Sharded {
        return Err(Error::Usage(
            "a file cannot become a directory of files: push the tasks of each account into a sharded queue".into(),
        ));
    }
    let queue = common.open()?;
    let from = operation(&queue, common, |queue| {
        let file = queue.resolve(queue.path())?;
        record::migrate(&queue.access(), &file, &common.options(), to.as_str())
    })?;
    report::object(&json!({"op": "migrate", "outcome": "migrated", "from": from, "to": to.as_str()}))?;
    Ok(Exit::Done)
}
