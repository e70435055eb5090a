//! What a step touches: the dependence relation is defined here and nowhere else.

use serde::{Deserialize, Serialize};

use super::ActorId;

/// A virtual inode number: a function of who created the file and that creator's own count, never of the order in
/// which actors ran. Files that exist at the start are numbered in path order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Inode(pub u64);

/// Something that two steps can meet on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Object {
    /// The bytes of a file.
    Content(Inode),
    /// Size, times, permission bits and link count of a file.
    Meta(Inode),
    /// Permission bits and owner of a file or directory.
    Perm(Inode),
    /// One name in one directory.
    Entry(Inode, String),
    /// The listing of a directory (and its size, times and link count).
    Listing(Inode),
    /// The flock(2) and open-file-description locks of a file (whole file: no range).
    Flock(Inode),
    /// The POSIX record locks of a file; accesses carry byte ranges. Open-file-description locks meet them here.
    Record(Inode),
    /// A pipe, socket or fifo shared by actors.
    Channel(u64),
    /// Signals to, and the life of, an actor.
    Life(ActorId),
    /// Free space of the disk (only with ENOSPC faults).
    Space,
}

/// How an object is touched. Two accesses of one object commute when both are [`Mode::Read`] or both are
/// [`Mode::Add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Looked at.
    Read,
    /// Changed in a way that commutes with other changes of the same kind: a name added to or removed from a
    /// directory's listing, a shared lock taken or given back.
    Add,
    /// Changed.
    Write,
}

/// What an access means for actors that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Sync {
    /// The step took the object (a lock); with `waits` it would have waited had the object been held.
    Take {
        /// True for a waiting acquisition (enabled only while it can succeed), false for a non-blocking attempt.
        waits: bool,
    },
    /// The step gave the object back or made it ready, so that waiters may go on.
    Free,
}

/// One object touched by one step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Access {
    /// What was touched.
    pub object: Object,
    /// How.
    pub mode: Mode,
    /// The half-open byte range touched, for record locks; `None` is the whole object.
    pub range: Option<(u64, u64)>,
    /// What it means for waiters, if anything.
    pub sync: Option<Sync>,
}

impl Access {
    /// A plain access without range or waiting.
    pub fn new(object: Object, mode: Mode) -> Self {
        Access { object, mode, range: None, sync: None }
    }

    /// Whether swapping two steps with these accesses could change a result.
    pub fn conflicts(&self, other: &Access) -> bool {
        let overlap = match (self.range, other.range) {
            (Some((a, b)), Some((c, d))) => a < d && c < b,
            _ => true,
        };
        let commute = matches!((self.mode, other.mode), (Mode::Read, Mode::Read) | (Mode::Add, Mode::Add));
        self.object == other.object && overlap && !commute
    }
}
