//! Whether a concurrent run kept every task.

use std::collections::BTreeMap;

use queue_core::Document;

use super::ops::{Kind, Outcome};
use super::world::World;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// An actor was refused: it met something that it could not work with, and said so.
    Refused,
    /// A file is no queue any more at the end, and nobody said so.
    Torn,
    /// No actor met an error, and this is what became of the tasks.
    Silent(Fate),
}

/// What became of the tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Generated, but neither executed nor still there.
    pub(crate) lost: Vec<String>,
    /// Executed more than once, claimed twice under one number, or both executed and still there.
    pub(crate) duplicated: Vec<String>,
}

impl Verdict {
    pub(crate) fn is_clean(&self) -> bool {
        *self == Verdict::Silent(Fate::default())
    }
}

/// Compares what was generated with what was executed and what is left.
pub(crate) fn judge(kind: Kind, initial: &[&str], outcomes: &[Outcome], world: &World) -> Verdict {
    let mut generated: Vec<String> = initial.iter().map(|&id| id.to_owned()).collect();
    let mut executed = Vec::new();
    let mut claims = Vec::new();
    for outcome in outcomes {
        match outcome.clone() {
            Outcome::Pushed { id, new: true } => generated.push(id),
            Outcome::Claimed(Some(claim)) => claims.push(claim),
            Outcome::Completed(id) => executed.push(id),
            Outcome::Processed { done, pushed } => {
                executed.extend(done);
                generated.extend(pushed);
            }
            Outcome::Refused(_) => return Verdict::Refused,
            _ => {}
        }
    }
    let Some(left) = left(kind, world) else {
        return Verdict::Torn;
    };

    let mut fate: BTreeMap<&str, usize> = generated.iter().map(|id| (&**id, 0)).collect();
    for id in executed.iter().chain(&left) {
        *fate.entry(id).or_default() += 1;
    }
    let with = |fits: fn(usize) -> bool| {
        let ids = fate.iter().filter(|&(_, &count)| fits(count));
        ids.map(|(&id, _)| id.to_owned()).collect::<Vec<_>>()
    };
    let mut found = Fate { lost: with(|count| count == 0), duplicated: with(|count| count > 1) };
    claims.sort();
    for pair in claims.windows(2).filter(|pair| pair[0] == pair[1]) {
        found.duplicated.push(pair[0].0.clone());
    }
    Verdict::Silent(found)
}

/// The ids in the queue's files at the end. None: one of them is no queue.
pub(crate) fn left(kind: Kind, world: &World) -> Option<Vec<String>> {
    let of_queue = |path: &str| match kind.is_sharded() {
        false => path == kind.path(),
        true => path.starts_with("queues/queue_") && path.ends_with(".json"),
    };
    let mut ids = Vec::new();
    for (path, bytes) in world.files() {
        if path.to_str().is_some_and(of_queue) {
            let document = Document::parse(bytes).ok()?;
            ids.extend(document.tasks().iter().map(|task| task.id().to_owned()));
        }
    }
    Some(ids)
}
