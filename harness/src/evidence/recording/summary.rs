//! What was recorded, in numbers.

use serde::{Deserialize, Serialize};

/// What was recorded, as far as it is known when the commands have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The format.
    pub schema: u32,
    /// The folder.
    pub out: String,
    /// The exit code of each command; 128 and the signal's number for one that a signal ended.
    pub exits: Vec<i32>,
    /// The files of which there is evidence.
    pub files: Vec<RecordedFile>,
    /// Processes of the commands that go on, and are recorded until they end.
    pub running: Vec<u32>,
    /// What limits this.
    pub warnings: Vec<String>,
}

/// What was recorded of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    /// Its path.
    pub file: String,
    /// The folder of its copies and audit lines.
    pub evidence: String,
    /// Versions, the first one included.
    pub versions: u64,
    /// Processes that opened it.
    pub processes: usize,
    /// Writes that were not made from the version that they replaced.
    pub stale: u64,
}
