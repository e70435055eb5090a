//! Processes that are given one operation a line.

use std::{
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use super::{
    protocol::{Done, Op, Record, Role},
    run_slice::{SliceError, now},
    talker::{TalkError, Talker},
};

/// How long a process may take for one operation.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a task's text takes beside its padding.
const FRAME: usize = 20;

/// A task as it is given to them: JSON on one line.
pub(super) fn task(of: &str, bytes: usize) -> String {
    format!("{{\"of\":\"{of}\",\"params\":\"{}\"}}", "x".repeat(bytes.saturating_sub(FRAME)))
}

/// Says a line and hears one.
pub(super) fn ask(talker: &mut Talker, line: &str, interrupt: &AtomicBool) -> Result<String, TalkError> {
    // One that is gone does not answer.
    let _ = talker.say(line);
    talker.hear("ok", Instant::now() + PATIENCE, interrupt)
}

/// What they are to do.
pub(super) struct Driver<'a> {
    pub(super) task: String,
    pub(super) start: u64,
    pub(super) until: u64,
    pub(super) think: Duration,
    pub(super) interrupt: &'a AtomicBool,
}

impl Driver<'_> {
    /// Gives one process operations until the time is over.
    pub(super) fn drive(&self, mut talker: Talker, number: usize) -> Result<Vec<Record>, SliceError> {
        let mut records = Vec::new();
        std::thread::sleep(Duration::from_nanos(self.start.saturating_sub(now())));
        for n in 1u64.. {
            if now() >= self.until {
                break;
            }
            let id = format!("w{number}-{n}");
            let line = format!("push {id} {}", self.task);
            self.one(&mut talker, &mut records, Op::Push, &line, Some(&id))?;
            std::thread::sleep(self.think);
            if now() >= self.until {
                break;
            }
            if let Some(id) = self.one(&mut talker, &mut records, Op::Claim, "claim", None)? {
                self.one(&mut talker, &mut records, Op::Complete, &format!("complete {id}"), Some(&id))?;
            }
            std::thread::sleep(self.think);
        }
        Ok(records)
    }

    /// One operation; the id that a claim gave.
    fn one(
        &self,
        talker: &mut Talker,
        records: &mut Vec<Record>,
        op: Op,
        line: &str,
        id: Option<&str>,
    ) -> Result<Option<String>, SliceError> {
        let start = now();
        let said = ask(talker, line, self.interrupt).map_err(|why| SliceError::Talk { role: Role::Worker, why })?;
        let end = now();
        let given = said.strip_prefix("ok ").map(str::trim).filter(|id| !id.is_empty() && !id.contains(' '));
        let done = match (op, said.as_str()) {
            (Op::Push | Op::Complete, "ok") => Done::Ok,
            (Op::Claim, "none") => Done::Nothing,
            (Op::Claim, _) if given.is_some() => Done::Ok,
            _ => Done::Failed,
        };
        let given = given.filter(|_| op == Op::Claim).map(str::to_owned);
        let id = id.map(str::to_owned).or_else(|| given.clone()).map(Into::into);
        records.push(Record { op, done, start, waited: None, end, id, lock: None });
        Ok(given)
    }
}
