//! Windows and faults.

use std::time::Duration;

use toml::{Table, Value};

use crate::scenario::{FaultKind, Nth, format_duration};

/// A worker waits at a step, in virtual time: the window of an incident.
///
/// ```
/// use std::time::Duration;
/// use noclobber::{Delay, Harness, Kind};
///
/// let add = "read n < n; sleep 1; echo $((n + 1)) > n";
/// let report = Harness::new()
///     .file("n", "0\n")
///     .worker(add)
///     .worker(add)
///     .delay(Delay::after("B", "read n", Duration::from_secs(3)))
///     .without_replay_files()
///     .expect_anomaly();
/// assert_eq!(report.explored.schedules, 1);
/// assert!(report.explored.seconds < 60.0, "time is virtual");
/// ```
#[derive(Clone, Debug)]
pub struct Delay(Table);

impl Delay {
    /// It waits after the step: `read queue.json` (an operation or `*`, then perhaps a glob).
    pub fn after(worker: impl Into<String>, step: impl Into<String>, length: Duration) -> Self {
        Delay::at("after", worker.into(), step.into(), length)
    }

    /// It waits before the step.
    pub fn before(worker: impl Into<String>, step: impl Into<String>, length: Duration) -> Self {
        Delay::at("before", worker.into(), step.into(), length)
    }

    fn at(side: &str, worker: String, step: String, length: Duration) -> Self {
        let mut table = Table::new();
        table.insert("worker".into(), Value::String(worker));
        table.insert(side.into(), Value::String(step));
        table.insert("for".into(), Value::String(format_duration(length)));
        Delay(table)
    }

    /// The how manyeth step that matches, from 1.
    pub fn nth(mut self, nth: u32) -> Self {
        self.0.insert("nth".into(), Value::Integer(i64::from(nth)));
        self
    }

    pub(super) fn into_table(self) -> Table {
        self.0
    }
}

/// Something that goes wrong at a step; at every step where it can, one after the other, unless more is said.
///
/// ```
/// use noclobber::{Fault, FaultKind, Harness, Kind};
///
/// // The shell's `>` empties the file before the new content is written.
/// let report = Harness::new()
///     .file("f", "old\n")
///     .worker("echo new > f")
///     .worker("cat f")
///     .fault(Fault::new(FaultKind::Kill).worker("A").at("write f"))
///     .without_replay_files()
///     .expect(Kind::TornFile);
/// assert_eq!(report.anomalies[0].needs, ["kill"]);
/// ```
#[derive(Clone, Debug)]
pub struct Fault(Table);

impl Fault {
    /// A fault that hits any worker, anywhere.
    pub fn new(kind: FaultKind) -> Self {
        let mut table = Table::new();
        table.insert("kind".into(), Value::String(kind.to_string()));
        Fault(table)
    }

    /// Whom it hits.
    pub fn worker(mut self, worker: impl Into<String>) -> Self {
        self.0.insert("worker".into(), Value::String(worker.into()));
        self
    }

    /// At which steps: `rename queue.json`.
    pub fn at(mut self, step: impl Into<String>) -> Self {
        self.0.insert("at".into(), Value::String(step.into()));
        self
    }

    /// At which of them.
    pub fn nth(mut self, nth: Nth) -> Self {
        let value = match nth {
            Nth::Each => Value::String("each".into()),
            Nth::All => Value::String("all".into()),
            Nth::Number(n) => Value::Integer(i64::try_from(n).unwrap_or(i64::MAX)),
        };
        self.0.insert("nth".into(), value);
        self
    }

    pub(super) fn into_table(self) -> Table {
        self.0
    }
}
