//! A scenario: what to run and what to expect. Plain data; `parse` makes it from TOML, `explore`'s command line too.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::world::{DiskModel, Op, TimeModel};

/// An anomaly kind, most severe first: the order of the variants is the order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Kind {
    LostUpdate,
    LostAfterCrash,
    DuplicateDelivery,
    TornFile,
    TornRead,
    BrokenLock,
    Unserializable,
    Deadlock,
    StaleLock,
    Livelock,
    CheckFailed,
    WorkerFailed,
}

/// What a scenario expects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expect {
    /// `"clean"`.
    Clean,
    /// `"anomaly"`: any kind.
    Anomaly,
    /// One of these kinds.
    Kinds(Vec<Kind>),
}

/// A command: a shell string or an argument list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Run by `/bin/sh -c`.
    Shell(String),
    /// Run directly.
    Args(Vec<String>),
}

/// When a worker is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ends {
    /// When it exits.
    #[default]
    Exit,
    /// When every remaining actor only repeats steps that change nothing; it then gets SIGTERM.
    Idle,
}

/// One worker, copies already expanded (`W.1`, `W.2`): worker i is actor i.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Its unique name.
    pub name: String,
    /// The name as written, shared by copies.
    pub group: String,
    /// What it runs.
    pub run: Command,
    /// Workers (indices) that must have ended first.
    pub after: Vec<usize>,
    /// Environment added for it.
    pub env: BTreeMap<String, String>,
    /// When it is over.
    pub ends: Ends,
    /// Exit codes that are no failure.
    pub exit: Vec<i32>,
    /// A line of its standard output that matches this glob says: what I did is done.
    pub acknowledges: Option<String>,
}

/// An op or `*`, then an optional glob that matches any path of the step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// The text as written.
    pub text: String,
    /// The operation; `None` is any.
    pub op: Option<Op>,
    /// The glob; `None` is any path.
    pub glob: Option<String>,
}

/// A delay of one worker at a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// The workers (indices; all copies of the named one).
    pub workers: Vec<usize>,
    /// True: after the step (for reads: after the last read through that open); false: before it.
    pub after: bool,
    /// Which step.
    pub at: Pattern,
    /// The how manyeth match, from 1.
    pub nth: u64,
    /// How long, in virtual time.
    pub duration: Duration,
}

/// The algorithm asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum SearchKind {
    #[default]
    Auto,
    Exhaustive,
    Portfolio,
    Random,
    Pos,
    Pct(u32),
    Timeline,
}

/// How to search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// The algorithm.
    pub search: SearchKind,
    /// Seed of everything random.
    pub seed: u64,
    /// Budget of exploration runs.
    pub max_schedules: u64,
    /// Budget of real time.
    pub time_limit: Option<Duration>,
    /// Anything less than exhausted is cannot-tell.
    pub exhaustive: bool,
    /// The model of time.
    pub time: TimeModel,
    /// What a power cut may do to the disk.
    pub disk: DiskModel,
    /// At most so many faults in one run.
    pub max_faults: u64,
}

impl Default for Search {
    fn default() -> Self {
        Search {
            search: SearchKind::Auto,
            seed: 0,
            max_schedules: 1000,
            time_limit: None,
            exhaustive: false,
            time: TimeModel::Fair,
            disk: DiskModel::Strict,
            max_faults: 1,
        }
    }
}

/// What is to be equal to a serial order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Serial {
    /// The default: operations are marked or inferred.
    #[default]
    Operations,
    /// Whole workers only.
    Workers,
    /// The serial judge is off.
    Off,
}

/// `ignore_pointer`: a place in JSON files that is not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnorePointer {
    /// Only in this file (glob); `None` is every JSON file.
    pub file: Option<String>,
    /// A JSON pointer (RFC 6901).
    pub pointer: String,
}

/// Conservation of ids in an array of a JSON file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conserve {
    /// The queue file, world-relative (a glob: several shards).
    pub file: String,
    /// JSON pointer of the array.
    pub pointer: String,
    /// The member that holds the id.
    pub id: String,
    /// A file of executed ids, or `stdout`.
    pub done: String,
    /// Executing twice is no fault.
    pub at_least_once: bool,
}

/// How runs are judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OracleConfig {
    /// The serial judge.
    pub serial: Serial,
    /// A shell command whose output is compared instead of the files.
    pub state: Option<String>,
    /// Whether each worker's stdout is compared (default true; `None` when not given).
    pub stdout: Option<bool>,
    /// Files (globs) and JSON arrays compared as multisets of lines or elements.
    pub multiset: Vec<String>,
    /// Files (globs) not compared.
    pub ignore: Vec<String>,
    /// Places in JSON files not compared.
    pub ignore_pointer: Vec<IgnorePointer>,
    /// Conservation of ids.
    pub conserve: Option<Conserve>,
    /// Kinds that are allowed.
    pub allow: Vec<Kind>,
    /// The workers are meant to share nothing.
    pub shares_nothing: bool,
}

/// Limits of one run; reaching one is cannot-tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Visible steps.
    pub steps: u64,
    /// CPU seconds of all workers.
    pub cpu_seconds: u64,
    /// Bytes of output kept per stream.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { steps: 20_000, cpu_seconds: 60, output_bytes: 4 << 20 }
    }
}

/// One `[[fault]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The workers (indices).
    pub workers: Vec<usize>,
    /// The kind as written: `kill`, `errno:ENOSPC`, ...
    pub kind: String,
    /// Where; `None` is any step.
    pub at: Option<Pattern>,
    /// Which match.
    pub nth: Nth,
}

/// Which matches of a fault's pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Nth {
    /// This one, from 1.
    Number(u64),
    /// One after the other, in separate runs.
    #[default]
    Each,
    /// Every time.
    All,
}

/// A whole scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it tells.
    pub about: String,
    /// What it expects; `None` (only from `explore`): no anomaly.
    pub expect: Option<Expect>,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    /// `SCENARIO_DIR`: the file's folder, or the caller's directory. Absolute.
    pub scenario_dir: PathBuf,
    /// Initial contents of the world, copied. Absolute.
    pub dir: Option<PathBuf>,
    /// `dir` is copied without `.git`, `target`, `node_modules` and virtual environments, and only up to a size
    /// (see [`contents`](super::contents)): the caller's directory as the default world of `explore`.
    pub dir_filtered: bool,
    /// Further initial files: path -> content.
    pub files: BTreeMap<String, String>,
    /// A shell command that prepares the world, once.
    pub setup: Option<String>,
    /// A shell command that accepts (0) or rejects a final world.
    pub check: Option<String>,
    /// Paths outside the world that workers share: private copies.
    pub watch: Vec<PathBuf>,
    /// Environment for all commands.
    pub env: BTreeMap<String, String>,
    /// HOME is a folder in the world.
    pub home_in_world: bool,
    /// The workers.
    pub workers: Vec<Worker>,
    /// Delays.
    pub delays: Vec<Delay>,
    /// Faults.
    pub faults: Vec<Fault>,
    /// How to search.
    pub search: Search,
    /// How to judge.
    pub oracle: OracleConfig,
    /// Limits.
    pub limits: Limits,
}
