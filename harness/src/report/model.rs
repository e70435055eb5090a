//! The result of one scenario, as every reporter gets it.

use std::{collections::BTreeMap, path::PathBuf};

use super::Part;
use crate::{
    oracle::Film,
    scenario::{Expect, Kind},
    world::{Run, Warning},
};

/// A verdict has three values: right, wrong, unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No explored order loses anything.
    Clean,
    /// The most severe kind found.
    Anomaly(Kind),
    /// Control was lost or unsure, or the oracle could not decide.
    CannotTell,
}

/// Why the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum EndedBy {
    Exhausted,
    Found,
    Schedules,
    Time,
    Interrupt,
    LostControl,
}

/// What was explored.
#[derive(Clone, Debug, PartialEq)]
pub struct Explored {
    /// Exploration runs, those cut by sleep sets included.
    pub schedules: u64,
    /// Distinct classes executed to their end.
    pub classes: u64,
    /// Runs that turned out to repeat a class.
    pub redundant: u64,
    /// Steps of all exploration runs.
    pub steps: u64,
    /// Every class was executed.
    pub exhausted: bool,
    /// Why it ended.
    pub ended_by: EndedBy,
    /// The search in words: `timeline`, `source-dpor`, `source-dpor, then portfolio`, ...
    pub search: String,
    /// The seed.
    pub seed: u64,
    /// Real seconds.
    pub seconds: f64,
    /// `pct-3` -> probability that every PCT run missed a bug of that depth.
    pub miss_bound: Option<BTreeMap<String, f64>>,
    /// Distinct outcomes seen (files, exits, outputs).
    pub outcomes: u64,
    /// SHA-256 (hex) over the sorted names of the classes: the same for the same set of classes, in whatever order and
    /// in however many parts they were executed.
    pub classes_hash: Option<String>,
}

/// One step as shown and as in the JSON report.
#[derive(Clone, Debug, PartialEq)]
pub struct StepLine {
    /// From 1.
    pub n: usize,
    /// The actor's name.
    pub actor: String,
    /// The operation's name.
    pub op: String,
    /// Its path (`a -> b` for two).
    pub path: String,
    /// The result in words.
    pub result: String,
    /// Virtual milliseconds since the start.
    pub time_ms: u64,
    /// Version of the file read or written, when it is JSON with a `version`, and other notes: `reads v1`, `writes v2`.
    pub note: Option<String>,
    /// False for steps that no order can affect (shown only with `-v`).
    pub chosen: bool,
}

/// One anomaly.
#[derive(Clone, Debug, PartialEq)]
pub struct Anomaly {
    /// Its kind.
    pub kind: Kind,
    /// The story in one sentence.
    pub summary: String,
    /// Ids (or files, keys) that are lost.
    pub lost: Vec<String>,
    /// Ids delivered twice.
    pub duplicated: Vec<String>,
    /// Names of the actors involved.
    pub actors: Vec<String>,
    /// What it needs besides an order: `early-wake`, `kill`, ...
    pub needs: Vec<String>,
    /// The schedule, shrunk.
    pub steps: Vec<StepLine>,
    /// The two steps (numbers) that must swap.
    pub pivot: Option<(usize, usize)>,
    /// Sentences shown below the lanes: who overwrote whom, byte ranges, locks held.
    pub evidence: Vec<String>,
    /// Path of the replay file.
    pub replay: Option<String>,
    /// The run behind it.
    pub run: Option<Box<Run>>,
    /// The run as a film: files, locks and what came because of what, step by step.
    pub film: Option<Box<Film>>,
}

/// The result of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// The scenario file, as the user named it; `None` when there is none (`explore`).
    pub file: Option<PathBuf>,
    /// What it tells.
    pub about: String,
    /// Names of the workers in scenario order (the lanes).
    pub workers: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// What was expected.
    pub expected: Option<Expect>,
    /// The verdict is as expected (`expected` absent: clean).
    pub as_expected: bool,
    /// Why cannot-tell.
    pub reason: Option<String>,
    /// What was explored.
    pub explored: Explored,
    /// The coverage statement.
    pub coverage: String,
    /// Found anomalies, most severe first.
    pub anomalies: Vec<Anomaly>,
    /// SHA-256 (hex) over all traces; `None` when wall-clock time or an interrupt ended the search.
    pub trace_hash: Option<String>,
    /// Replay file of the first anomaly.
    pub replay: Option<String>,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// What was decided on the way, a sentence each: shown when asked for.
    pub decisions: Vec<String>,
    /// Which part of the search this is, if it is only a part.
    pub part: Option<Part>,
}
