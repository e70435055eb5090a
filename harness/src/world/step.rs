//! One visible operation, from the stop before it to its result.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{Access, Inode};

/// An actor: one worker command with all its processes and threads, numbered in scenario order from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActorId(pub u16);

/// What a step does, in the words of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Op {
    Open,
    Create,
    Truncate,
    Read,
    Write,
    Rename,
    Exchange,
    Link,
    Symlink,
    Unlink,
    Mkdir,
    Rmdir,
    List,
    Stat,
    Access,
    Chmod,
    Utime,
    Xattr,
    Lock,
    Unlock,
    Sync,
    Map,
    Close,
    Exit,
    Spawn,
    Sleep,
    Connect,
    Accept,
    Send,
    Receive,
}

impl Op {
    /// Every operation, in the order of the contract.
    pub const ALL: [Op; 30] = [
        Op::Open,
        Op::Create,
        Op::Truncate,
        Op::Read,
        Op::Write,
        Op::Rename,
        Op::Exchange,
        Op::Link,
        Op::Symlink,
        Op::Unlink,
        Op::Mkdir,
        Op::Rmdir,
        Op::List,
        Op::Stat,
        Op::Access,
        Op::Chmod,
        Op::Utime,
        Op::Xattr,
        Op::Lock,
        Op::Unlock,
        Op::Sync,
        Op::Map,
        Op::Close,
        Op::Exit,
        Op::Spawn,
        Op::Sleep,
        Op::Connect,
        Op::Accept,
        Op::Send,
        Op::Receive,
    ];

    /// The name in reports, patterns and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Op::Open => "open",
            Op::Create => "create",
            Op::Truncate => "truncate",
            Op::Read => "read",
            Op::Write => "write",
            Op::Rename => "rename",
            Op::Exchange => "exchange",
            Op::Link => "link",
            Op::Symlink => "symlink",
            Op::Unlink => "unlink",
            Op::Mkdir => "mkdir",
            Op::Rmdir => "rmdir",
            Op::List => "list",
            Op::Stat => "stat",
            Op::Access => "access",
            Op::Chmod => "chmod",
            Op::Utime => "utime",
            Op::Xattr => "xattr",
            Op::Lock => "lock",
            Op::Unlock => "unlock",
            Op::Sync => "sync",
            Op::Map => "map",
            Op::Close => "close",
            Op::Exit => "exit",
            Op::Spawn => "spawn",
            Op::Sleep => "sleep",
            Op::Connect => "connect",
            Op::Accept => "accept",
            Op::Send => "send",
            Op::Receive => "receive",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the flag of a step that was hit by a fault begins with; the kind of fault follows.
pub const FAULT_FLAG: &str = "fault:";

/// What the flag of a write that a fault cut short begins with; the number of bytes it was to move follows.
pub const ASKED_FLAG: &str = "asked:";

/// What a flag of a power cut begins with, when the disk is as running programs saw it at some moment since a worker
/// ended or acknowledged something the last time: the number of steps before that moment follows.
pub const IN_ORDER_FLAG: &str = "in-order:";

/// A worker that looks this path up says: what I did is done.
pub const ACK_MARKER: &str = ".noclobber/ack";

/// How a step changed the world. Present only in runs with [`Plan::record`](super::Plan::record).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// A file's content after the step (`None`: larger than the recording cap).
    Content {
        /// Which file.
        inode: Inode,
        /// All its bytes after the step.
        after: Option<Arc<[u8]>>,
    },
    /// A world-relative path names this file from now on (`None`: it names nothing).
    Bind {
        /// The path, relative to the world.
        path: String,
        /// What it names.
        inode: Option<Inode>,
    },
}

/// One visible operation with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Whose step.
    pub actor: ActorId,
    /// The actor's task (process or thread), numbered from 0 in the order in which the actor made them.
    pub task: u32,
    /// What it does.
    pub op: Op,
    /// The world-relative path (`watch`ed paths are absolute), or a name for what has none (`pipe`, ...).
    pub path: Option<String>,
    /// The second path of rename, link, copy.
    pub path2: Option<String>,
    /// Flags in words: `trunc`, `append`, `excl`, `exclusive`, `shared`, `nonblock`, ...
    pub flags: Vec<String>,
    /// What the call returned; negative: minus the error number.
    pub ret: i64,
    /// The result in words for people: `18 bytes`, `ENOENT`, `locked`, ...
    pub result: String,
    /// BLAKE3 of the bytes moved (or of the listing or stat result), if any.
    pub bytes: Option<[u8; 32]>,
    /// The file operated on, if the step is about one.
    pub inode: Option<Inode>,
    /// Offset of a read or write in the file.
    pub offset: Option<u64>,
    /// The bytes read or written; present only in recorded runs and below the recording cap.
    pub data: Option<Arc<[u8]>>,
    /// For close and unlock: the last open writer (close) or lock (unlock) of this inode went, which publishes it.
    pub publishes: bool,
    /// What the step touched. Empty: nothing can depend on it.
    pub accesses: Vec<Access>,
    /// Ordered after every earlier step and before every later one, and not a race with any (a wake-up in fair time).
    pub barrier: bool,
    /// True when the scheduler chose this step; false for steps recorded along the way, which no order can affect.
    pub chosen: bool,
    /// The actors that could have been chosen here (in scenario order), the chosen one included; empty when not chosen.
    pub enabled: Vec<ActorId>,
    /// The actors whose sleep or time-out could have been ended early here, the chosen one included (adversarial time
    /// only). An actor is never in both lists: one that waits with a time-out is here while it cannot go on, and in
    /// `enabled` once it can.
    pub wakeable: Vec<ActorId>,
    /// Virtual time when it ran, microseconds since the start of the run.
    pub time_us: u64,
    /// What it changed; only in recorded runs.
    pub effects: Vec<Effect>,
}

impl Step {
    /// Whether swapping these two neighbouring steps could change a result.
    pub fn depends_on(&self, other: &Step) -> bool {
        self.barrier || other.barrier || self.accesses.iter().any(|a| other.accesses.iter().any(|b| a.conflicts(b)))
    }

    /// The fault that hit this step, as a scenario writes its kind: `kill`, `errno:ENOSPC`, ...
    pub fn fault(&self) -> Option<&str> {
        self.flags.iter().find_map(|flag| flag.strip_prefix(FAULT_FLAG))
    }

    /// Whether it looks up this marker, from whatever directory.
    pub fn looks_up(&self, marker: &str) -> bool {
        let looks =
            matches!(self.op, Op::Stat | Op::Access | Op::Open | Op::Create | Op::List | Op::Unlink | Op::Utime);
        let ends = |path: &str| path.strip_suffix(marker).is_some_and(|dir| dir.is_empty() || dir.ends_with('/'));
        looks && self.path.as_deref().is_some_and(ends)
    }

    /// Whether it failed.
    pub fn failed(&self) -> bool {
        self.ret < 0
    }
}
