//! Mistakes in the arguments; exit code 2.

use std::path::PathBuf;

use thiserror::Error;

use crate::scenario::{ContentsError, FaultKindError, ScenarioError};

/// A mistake in the arguments, with the way out.
#[derive(Debug, Error)]
pub enum ArgError {
    /// `explore` without commands.
    #[error("no command to run\n  write them after `--`, separated by `:::`: noclobber explore -- CMD ::: CMD")]
    NoCommand,
    /// Nothing between two separators.
    #[error("command {0} is empty\n  write `CMD ::: CMD`: a separator stands only between two commands")]
    EmptyCommand(usize),
    /// Something that looks like the separator and is none.
    #[error(
        "`{0}` does not separate commands\n  write `CMD ::: CMD`, with three colons; a shell command goes into quotes: 'a && b' ::: c"
    )]
    NearSeparator(String),
    /// More commands, or copies of them, than can be told apart.
    #[error("{found} workers are more than {cap}\n  lower --copies")]
    TooManyWorkers {
        /// How many.
        found: usize,
        /// The cap.
        cap: usize,
    },
    /// `--copies` takes away a copy that the scenario names.
    #[error("`--copies {copies}` leaves no worker `{name}`, which the scenario names\n  give more copies")]
    LostCopy {
        /// The number of copies.
        copies: usize,
        /// The worker.
        name: String,
    },
    /// `--dir` is no folder.
    #[error("--dir: `{}` is no folder\n  name an existing folder; it is copied, never written", .0.display())]
    NoFolder(PathBuf),
    /// The caller's directory is too large to be the world.
    #[error(transparent)]
    Contents(#[from] ContentsError),
    /// A fault that cannot be injected.
    #[error("--faults: {0}")]
    Fault(#[from] FaultKindError),
    /// The scenario file.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}
