//! Watching programs that run as they please: nothing is held or ordered, time is real.
//!
//! A seccomp filter stops a task only where it opens, renames, links, unlinks or locks a file. While a process has a
//! watched file open its other calls are seen too, so that it is known which version it read, and when it had written
//! one. That window is short for programs that read and write whole files; a process that keeps a file open is let go
//! after 1,000 calls and its writes in place then count as one version until it unlocks or ends.
//!
//! `launch` starts the commands, `watch` hears what they do, `process` is what is known of each, `files` says which
//! paths are watched, `document` numbers the versions of a file and hands them to the evidence store. What calls mean
//! is in `calls` and `moves`.

mod calls;
mod document;
mod files;
mod launch;
mod moves;
mod process;
mod watch;

use std::path::PathBuf;

pub use launch::{LaunchError, record};

use crate::evidence::recording::Limits;

/// What is to be recorded.
#[derive(Clone, Debug)]
pub struct RecordRequest {
    /// The commands, each a list of words; all run at the same time.
    pub commands: Vec<Vec<String>>,
    /// Files that are watched; none: those below the current folder that more than one process has to do with.
    pub files: Vec<PathBuf>,
    /// The folder that evidence goes to.
    pub out: PathBuf,
    /// What it may take.
    pub limits: Limits,
}
