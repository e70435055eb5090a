//! What a finished run leaves behind: the part of it that judges compare.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

/// One node of a directory tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// A regular file.
    File {
        /// Permission bits.
        mode: u32,
        /// All its bytes.
        bytes: Arc<[u8]>,
    },
    /// A directory.
    Dir {
        /// Permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points.
        target: String,
    },
    /// A fifo, socket or device.
    Other {
        /// The file type and permission bits.
        mode: u32,
    },
}

/// How an actor ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorEnd {
    /// Exit code of its first process, if that exited.
    pub exit: Option<i32>,
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
    /// Who ended it, when it was not itself: `"kill"` (a fault), `"idle"`, `"deadlock"`, `"limit"`.
    pub ended_by: Option<String>,
    /// Everything it wrote to standard output (up to the limit).
    pub stdout: Vec<u8>,
    /// Everything it wrote to standard error (up to the limit).
    pub stderr: Vec<u8>,
}

/// What the check command said of a final world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// It exited with 0.
    pub passed: bool,
    /// Its exit code, if it exited.
    pub exit: Option<i32>,
    /// Its output, both streams.
    pub output: Vec<u8>,
}

/// The final state of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The final world: path relative to it -> node. Watched paths are there under their absolute names.
    pub files: BTreeMap<String, Node>,
    /// How each actor ended, in scenario order.
    pub actors: Vec<ActorEnd>,
    /// What the scenario's `state` command printed, and its exit code.
    pub state: Option<(Option<i32>, Vec<u8>)>,
    /// What the scenario's `check` command said.
    pub check: Option<CheckResult>,
}
