//! What is known of a watched process: the watched files that it has open, and what it has read.

use std::collections::{HashMap, HashSet};

use nix::unistd::Pid;

use crate::evidence::recording::Base;

/// After so many calls with a watched file open a process runs at full speed again.
pub(super) const PATIENCE: u32 = 1_000;

/// A watched file, as an index.
pub(super) type DocumentId = usize;

/// An open file description of a watched file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) document: DocumentId,
    /// Device and inode.
    pub(super) inode: (u64, u64),
    /// It can be written through.
    pub(super) writes: bool,
    /// Every write goes to the end.
    pub(super) appends: bool,
    /// Something was changed through it that is not published.
    pub(super) dirty: bool,
    /// What was read through it since it was opened.
    pub(super) read: Option<Base>,
    /// Descriptors of all processes that are this one.
    pub(super) references: usize,
    /// The process that opened it.
    pub(super) by: Pid,
}

/// What a process has read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) base: Base,
    /// When, as a count of everything that was seen.
    pub(super) when: u64,
    /// It did so itself, or a child of it that has ended; else it has it from its parent.
    pub(super) own: bool,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) parent: Option<Pid>,
    /// In clock ticks since boot; with the pid it names a process for good.
    pub(super) start: u64,
    /// Its threads, itself included.
    pub(super) threads: HashSet<Pid>,
    /// Its descriptors of watched files, by number: which description.
    pub(super) descriptors: HashMap<i32, usize>,
    pub(super) known: HashMap<DocumentId, Known>,
    /// Calls made while a watched file was open.
    pub(super) calls: u32,
    /// It has had a watched file open for too long: its calls are not looked at.
    pub(super) let_go: bool,
}

impl Process {
    pub(super) fn new(pid: Pid, parent: Option<Pid>) -> Process {
        Process {
            parent,
            start: start_of(pid),
            threads: HashSet::from([pid]),
            descriptors: HashMap::new(),
            known: HashMap::new(),
            calls: 0,
            let_go: false,
        }
    }

    /// Whether all calls of it are looked at.
    pub(super) fn is_followed(&self) -> bool {
        !self.descriptors.is_empty() && !self.let_go
    }

    /// A call while it is followed. Returns whether that was one too many.
    pub(super) fn lost_patience(&mut self) -> bool {
        self.calls += 1;
        self.let_go = self.calls > PATIENCE;
        self.let_go
    }

    /// Some descriptor was closed: patience begins anew when none is left.
    pub(super) fn closed_one(&mut self) {
        if self.descriptors.is_empty() {
            self.calls = 0;
            self.let_go = false;
        }
    }
}

/// When a process started, in clock ticks since boot.
pub(super) fn start_of(pid: Pid) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in brackets, may hold anything; the 22nd field is the 20th after it.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().nth(19).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Which process a thread belongs to.
pub(super) fn process_of(thread: Pid) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().map(Pid::from_raw)
}
