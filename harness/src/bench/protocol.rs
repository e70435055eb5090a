//! What a benchmark and the processes it measures say to each other: lines of text on standard input and output.
//!
//! The benchmark starts the competitor's command several times, each for one *role*, and writes one JSON object:
//!
//! ```text
//! {"schema":1,"role":"worker","dir":"/tmp/x","worker":"w3","number":3,"processes":8,"accounts":1,"kept":100,
//!  "task_bytes":150,"think_us":0,"durability":"none"}
//! ```
//!
//! | role | what it does | what it answers |
//! |---|---|---|
//! | `serve` | what all others need, until its standard input ends: a server | `ready`, or `none` |
//! | `fill` | puts `kept` tasks with the ids `k-0`, `k-1`, ... into the empty queue | `done` |
//! | `worker` | see below | `ready` |
//! | `read` | says which tasks are in the queue now, claimed ones too | an id a line, then `end` |
//!
//! Whatever cannot run here answers `missing WHY`. A worker that is ready is told `go START UNTIL`, in nanoseconds of
//! `CLOCK_MONOTONIC`. It waits for START, and until UNTIL it pushes a new task (ids: its name, a hyphen, a number) and
//! takes one (claims it, then completes it) in turns, with `think_us` between the two. Then it writes a line for each
//! thing that it did, and `end`:
//!
//! ```text
//! push ok START WAITED END w3-1
//! claim ok START WAITED END k-0
//! complete ok START WAITED END k-0
//! ```
//!
//! WAITED are the nanoseconds it waited for the lock, or `-` where that is not known; in place of `ok` there may be
//! `fail`, and for a claim that found nothing `none`, with `-` for the id. Who knows may add two words, HAD and GAVE: the
//! nanoseconds from START until it had the lock and until it began to give it up.
//!
//! A program that does not want to keep time answers `ready lines` to any of these. It is then given one operation a
//! line: `push ID TASK` (answer `ok`), `claim` (`ok ID` or `none`), `complete ID` (`ok`), `list` (an id a line, then
//! `end`). Anything else is a failure. The times then hold two trips through a pipe, which is one of the floors.

use std::path::Path;

use serde::Serialize;
use thiserror::Error;

use super::Durability;

/// The longest line that is read from a competitor.
pub(super) const MAX_LINE: usize = 4096;

/// The longest id.
const MAX_ID: usize = 512;

/// What a process is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// To be there for the others.
    Serve,
    /// To put in what is there from the beginning.
    Fill,
    /// To be measured.
    Worker,
    /// To say what is left.
    Read,
}

/// The first line that a process is given.
#[derive(Clone, Debug, Serialize)]
pub struct Hello<'a> {
    /// 1.
    pub schema: u32,
    /// What for.
    pub role: Role,
    /// The folder that the queue is to be in; it is empty at first.
    pub dir: &'a Path,
    /// The process's name.
    pub worker: String,
    /// Its number, from 0.
    pub number: usize,
    /// How many workers there are.
    pub processes: usize,
    /// Over how many accounts tasks are spread; worker `n` uses account `n` modulo this.
    pub accounts: usize,
    /// How many tasks are kept in the queue.
    pub kept: usize,
    /// About how long a task's text is.
    pub task_bytes: usize,
    /// Microseconds between operations.
    pub think_us: u64,
    /// What a finished operation has to survive.
    pub durability: Durability,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A task was put in.
    Push,
    /// A task was handed out.
    Claim,
    /// A task was taken out.
    Complete,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was acknowledged.
    Ok,
    /// There was nothing to claim.
    Nothing,
    /// It failed: it may have happened or not.
    Failed,
}

/// One thing that a worker did, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What.
    pub op: Op,
    /// How it went.
    pub done: Done,
    /// When it began.
    pub start: u64,
    /// How much of the time was waiting, if that is known.
    pub waited: Option<u64>,
    /// When it was over.
    pub end: u64,
    /// The task.
    pub id: Option<Box<str>>,
    /// When it had the lock and when it began to give it up, if that is known.
    pub lock: Option<(u64, u64)>,
}

/// A line that is no record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}` is no report of an operation: {why}\n  write OP RESULT START WAITED END ID", .line.escape_debug())]
pub struct BadRecord {
    line: String,
    why: &'static str,
}

impl Record {
    /// Reads a report.
    ///
    /// # Errors
    /// [`BadRecord`] for anything else.
    pub fn parse(line: &str) -> Result<Record, BadRecord> {
        let bad = |why| BadRecord { line: line.chars().take(120).collect(), why };
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (op, done, start, waited, end, id, lock) = match words[..] {
            [op, done, start, waited, end, id] => (op, done, start, waited, end, id, None),
            [op, done, start, waited, end, id, had, gave] => (op, done, start, waited, end, id, Some((had, gave))),
            _ => return Err(bad("six words are wanted, or eight")),
        };
        let op = match op {
            "push" => Op::Push,
            "claim" => Op::Claim,
            "complete" => Op::Complete,
            _ => return Err(bad("the first word is push, claim or complete")),
        };
        let done = match done {
            "ok" => Done::Ok,
            "none" if op == Op::Claim => Done::Nothing,
            "fail" => Done::Failed,
            _ => return Err(bad("the second word is ok or fail, or none for a claim")),
        };
        let number = |word: &str| word.parse::<u64>().map_err(|_| bad("times are whole nanoseconds"));
        let (start, end) = (number(start)?, number(end)?);
        if end < start {
            return Err(bad("it ends before it begins"));
        }
        let waited = if waited == "-" { None } else { Some(number(waited)?.min(end - start)) };
        let lock = match lock {
            None => None,
            Some((had, gave)) => match (number(had)?, number(gave)?) {
                (had, gave) if had <= gave && gave <= end - start => Some((start + had, start + gave)),
                _ => return Err(bad("the lock is had, then given up, then it is over")),
            },
        };
        if id.len() > MAX_ID {
            return Err(bad("the id is too long"));
        }
        let id = (id != "-").then(|| id.into());
        if id.is_none() && (op != Op::Claim || done == Done::Ok) {
            return Err(bad("the id is missing"));
        }
        Ok(Record { op, done, start, waited, end, id, lock })
    }
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let op = match self.op {
            Op::Push => "push",
            Op::Claim => "claim",
            Op::Complete => "complete",
        };
        let done = match self.done {
            Done::Ok => "ok",
            Done::Nothing => "none",
            Done::Failed => "fail",
        };
        let waited = self.waited.map_or("-".to_owned(), |waited| waited.to_string());
        write!(f, "{op} {done} {} {waited} {} {}", self.start, self.end, self.id.as_deref().unwrap_or("-"))?;
        match self.lock {
            Some((had, gave)) => write!(f, " {} {}", had - self.start, gave - self.start),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_record_is_refused() {
        let cases = [
            "",
            "push ok 1 2 3",
            "push ok 1 2 3 a b",
            "pull ok 1 2 3 a",
            "push none 1 2 3 a",
            "push ok 5 0 3 a",
            "push ok -1 0 3 a",
            "push ok 1 x 3 a",
            "push ok 1 0 3 -",
            "claim ok 1 0 3 -",
            "complete fail 1 0 3 -",
            "push ok 1 0 3 a 1 x",
            "push ok 1 0 3 a 2 1",
            "push ok 1 0 3 a 1 3",
        ];
        for line in cases {
            assert!(Record::parse(line).is_err(), "{line}");
        }
        assert!(Record::parse(&format!("push ok 1 0 3 {}", "x".repeat(MAX_ID + 1))).is_err());
        assert_eq!(Record::parse("claim none 1 0 3 -").unwrap().done, Done::Nothing);
        assert_eq!(Record::parse("push ok 10 0 30 a 5 12").unwrap().lock, Some((15, 22)));
        assert_eq!(Record::parse("push ok 1 99 3 a").unwrap().waited, Some(2), "nobody waits longer than it takes");
    }

    proptest! {
        #[test]
        fn a_record_can_be_read_back(op in 0..3, done in 0..2, start in 0u64..1 << 60, took in 0u64..1 << 40,
                waited in prop::option::of(0u64..1 << 40), id in "[!-,.-~]{1,40}",
                lock in prop::option::of((0u64..1 << 40, 0u64..1 << 40))) {
            let record = Record {
                op: [Op::Push, Op::Claim, Op::Complete][op as usize],
                done: [Done::Ok, Done::Failed][done as usize],
                start,
                waited: waited.map(|waited| waited.min(took)),
                end: start + took,
                id: Some(id.into()),
                lock: lock.map(|(had, gave)| (start + had.min(gave).min(took), start + had.max(gave).min(took))),
            };
            prop_assert_eq!(Record::parse(&record.to_string()), Ok(record));
        }

        #[test]
        fn no_line_is_too_strange(line in ".{0,200}") {
            let _ = Record::parse(&line);
        }
    }
}
