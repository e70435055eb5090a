//! What can be wrong with a scenario file, each with its place and the way out.

use std::{fmt, path::PathBuf};

use thiserror::Error;

use super::{DurationError, FaultKindError, GlobError, PatternError, UnknownName};

/// A place in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// From 1; 0 when the error is about the whole file.
    pub line: usize,
    /// From 1, counted in characters; 0 when the error is about the whole file.
    pub column: usize,
    /// The key, from the top: `search.seed`, `worker[2].after`. Empty when there is none.
    pub key: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // File names are untrusted too: no control character reaches the terminal.
        write!(f, "{}", crate::scenario::printable(&self.file.to_string_lossy()))?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.key.is_empty() {
            write!(f, " (key `{}`)", crate::scenario::printable(&self.key))?;
        }
        Ok(())
    }
}

/// A scenario file that cannot be used: where, what, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}\n  {}", problem.way_out())]
pub struct ScenarioError {
    /// Where.
    pub place: Place,
    /// What. Boxed, since results are passed through many hands.
    pub problem: Box<Problem>,
}

/// What is wrong with a scenario file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The file or folder cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The file is larger than a scenario may be.
    #[error("{bytes} bytes are more than a scenario file may have ({cap})")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The cap.
        cap: u64,
    },
    /// The file is not UTF-8.
    #[error("not UTF-8 text (byte {0})")]
    NotText(usize),
    /// Not TOML.
    #[error("not TOML: {0}")]
    Syntax(String),
    /// A key that nobody reads.
    #[error("unknown key `{}`; the nearest known is `{nearest}`", key.escape_debug())]
    UnknownKey {
        /// The key as written.
        key: String,
        /// The nearest known key.
        nearest: String,
        /// All keys of this table.
        known: Vec<String>,
        /// Another table in which this very key is known.
        belongs_to: Option<&'static str>,
    },
    /// A value of another type.
    #[error("{found} where {wanted} is wanted")]
    WrongType {
        /// What is wanted, with an example.
        wanted: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A number outside of its range.
    #[error("{found} is not between {from} and {to}")]
    OutOfRange {
        /// The number as written.
        found: String,
        /// The smallest allowed.
        from: u64,
        /// The largest allowed.
        to: u64,
    },
    /// A key that is needed and not there.
    #[error("`{key}` is missing in {table}")]
    Missing {
        /// The key.
        key: &'static str,
        /// Where.
        table: String,
        /// How it may look.
        example: &'static str,
    },
    /// Two keys that contradict each other, or none of two.
    #[error("{0}")]
    Conflict(&'static str, &'static str),
    /// A word that is none of the known ones.
    #[error(transparent)]
    UnknownName(#[from] UnknownName),
    /// A bad duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// A bad pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A bad glob.
    #[error(transparent)]
    Glob(#[from] GlobError),
    /// A bad kind of fault.
    #[error(transparent)]
    FaultKind(#[from] FaultKindError),
    /// A bad JSON pointer.
    #[error("`{}` is no JSON pointer: {why}", pointer.escape_debug())]
    Pointer {
        /// The text.
        pointer: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A worker's name that cannot be one.
    #[error("`{}` cannot be a worker's name: {why}", name.escape_debug())]
    WorkerName {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// A name that no worker has.
    #[error("no worker is named `{}`; the nearest is `{nearest}`", name.escape_debug())]
    UnknownWorker {
        /// The name as written.
        name: String,
        /// The nearest worker.
        nearest: String,
    },
    /// A name that two workers have.
    #[error("two workers are named `{}`", name.escape_debug())]
    DuplicateWorker {
        /// The name.
        name: String,
    },
    /// Workers that wait for each other.
    #[error("workers wait for each other: {}", .0.iter().map(|n| n.escape_debug().to_string()).collect::<Vec<_>>().join(" after "))]
    Cycle(Vec<String>),
    /// Nobody to run.
    #[error("no worker: there is nothing to run")]
    NoWorker,
    /// More workers than can be told apart.
    #[error("{found} workers are more than {cap}")]
    TooManyWorkers {
        /// How many.
        found: usize,
        /// The cap.
        cap: usize,
    },
    /// A path of `files` that would leave the world.
    #[error("`{}` does not stay in the world: {why}", path.escape_debug())]
    Escapes {
        /// The path.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// A NUL where the kernel takes none.
    #[error("a NUL character, which no path, command or variable can hold")]
    Nul,
    /// A variable's name that cannot be one.
    #[error("`{}` cannot be the name of a variable", .0.escape_debug())]
    VariableName(String),
    /// The scenario does not say what it expects.
    #[error("the scenario does not say what it expects")]
    NoExpectation,
    /// Nothing judges the runs.
    #[error("`serial = false`, and nothing else judges the runs: every outcome would pass")]
    NoJudge,
    /// A `dir` that is none.
    #[error("`{}` is no folder", .0.display())]
    NoFolder(PathBuf),
    /// A folder without scenarios.
    #[error("no scenario in this folder")]
    NothingFound,
    /// A key that can be written only as another type.
    #[error("{0} cannot be written to a scenario file: it is not UTF-8")]
    NotWritable(String),
}

impl Problem {
    /// What to do about it.
    pub fn way_out(&self) -> String {
        let list = |known: &[String]| known.iter().map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", ");
        match self {
            Problem::Unreadable(_) => "check the name and its permissions".into(),
            Problem::TooLarge { .. } => "keep large contents in a folder and name it with `dir`".into(),
            Problem::NotText(_) => "save the file as UTF-8".into(),
            Problem::Syntax(_) => "see https://toml.io for the syntax; strings need quotes".into(),
            Problem::UnknownKey { known, belongs_to, .. } => match belongs_to {
                Some(table) => format!("this key belongs to {table}; here are known: {}", list(known)),
                None => format!("known here: {}", list(known)),
            },
            Problem::WrongType { wanted, .. } => format!("write {wanted}"),
            Problem::OutOfRange { from, to, .. } => format!("give a whole number from {from} to {to}"),
            Problem::Missing { example, .. } => format!("add it, as in `{example}`"),
            Problem::Conflict(_, way_out) => (*way_out).into(),
            Problem::UnknownName(e) => format!("known: {}", list(&e.known)),
            Problem::Duration(_) => "units are us, ms, s, m, h".into(),
            Problem::Pattern(PatternError::Op(e)) => format!("known: `*`, {}", list(&e.known)),
            Problem::Pattern(_) => "write an operation or `*`, then perhaps a glob, as in `write queues/*.json`".into(),
            Problem::Glob(_) => "write a path with `*`, `?`, `[abc]` or `{a,b}`; `\\` makes the next character plain".into(),
            Problem::FaultKind(FaultKindError::Unknown(e)) => format!("known: {}", list(&e.known)),
            Problem::FaultKind(_) => "see the kinds of `[[fault]]` in the README".into(),
            Problem::Pointer { .. } => "write `/tasks/0/id`, or `FILE#/tasks/0/id` for one file".into(),
            Problem::WorkerName { .. } => "choose a short name like `A` or `writer`".into(),
            Problem::UnknownWorker { .. } => "name a `[[worker]]` of this file (`W`, or `W.1` for one of its copies)".into(),
            Problem::DuplicateWorker { .. } => "rename one of them, or write one worker with `count = 2`".into(),
            Problem::Cycle(_) => "take one of these out of an `after`".into(),
            Problem::NoWorker => "add a `[[worker]]` with `name` and `run`".into(),
            Problem::TooManyWorkers { cap, .. } => format!("lower `count`: at most {cap} workers"),
            Problem::Escapes { .. } => "name it relative to the world, without `..`; for paths outside see `watch`".into(),
            Problem::Nul => "take it out (`\\u0000`)".into(),
            Problem::VariableName(_) => "a name is not empty and has no `=`".into(),
            Problem::NoExpectation => {
                "add `expect = \"clean\"`, a kind such as `\"lost-update\"`, a list of kinds, or `\"anomaly\"`; or give --expect".into()
            }
            Problem::NoJudge => "add `check`, or `conserve` or `state` in [oracle], or take `serial = false` out".into(),
            Problem::NoFolder(_) => "name an existing folder, relative to the scenario file".into(),
            Problem::NothingFound => {
                "name a *.toml file with a `[[worker]]`; hidden folders, node_modules, target and virtual environments are skipped".into()
            }
            Problem::NotWritable(_) => "rename it".into(),
        }
    }
}
