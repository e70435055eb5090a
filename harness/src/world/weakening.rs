//! One protection taken away from the programs, which know nothing of it: to see whether a guard would notice.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What keeps programs apart, by the call that does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// flock(2). Weakened: it succeeds and locks nothing.
    Flock,
    /// A record lock of fcntl(2), of a process or of an open file description. Weakened: it succeeds and locks nothing.
    RecordLock,
    /// open(2) with `O_CREAT | O_EXCL`. Weakened: `O_EXCL` is ignored.
    ExclusiveCreate,
    /// mkdir(2). Weakened: a directory that is there already is no error.
    Mkdir,
    /// link(2). Weakened: a name that is there already is no error.
    Link,
    /// symlink(2). Weakened: a name that is there already is no error.
    Symlink,
    /// rename(2) with `RENAME_NOREPLACE`. Weakened: it replaces.
    NoReplace,
    /// rename(2). Weakened: a file is copied over its goal and then deleted, in steps of their own; a folder whose goal
    /// is there already, and not empty, is no error.
    Rename,
    /// fsync(2) and the like. Weakened: nothing is made durable. Only a power cut can tell.
    Sync,
}

impl Protection {
    /// The name in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Protection::Flock => "flock",
            Protection::RecordLock => "record-lock",
            Protection::ExclusiveCreate => "exclusive-create",
            Protection::Mkdir => "mkdir",
            Protection::Link => "link",
            Protection::Symlink => "symlink",
            Protection::NoReplace => "no-replace",
            Protection::Rename => "rename",
            Protection::Sync => "sync",
        }
    }

    /// What it is when it is weakened.
    pub fn weakened(self) -> &'static str {
        match self {
            Protection::Flock | Protection::RecordLock => "the lock call succeeds and locks nothing",
            Protection::ExclusiveCreate => "O_EXCL is ignored",
            Protection::Mkdir => "making a directory that exists succeeds",
            Protection::Link | Protection::Symlink => "making a name that exists succeeds",
            Protection::NoReplace => "what is there is replaced",
            Protection::Rename => "a file is copied over its goal, then deleted; a folder that is there is no error",
            Protection::Sync => "nothing is made durable",
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Every use of one protection on one path, weakened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weakening {
    /// Which protection.
    pub kind: Protection,
    /// The path as steps show it: relative to the world. Of a rename, either of its two.
    pub path: String,
    /// What is taken away at the same time: of locks that are held together any one may do.
    #[serde(default)]
    pub with: Vec<Weakening>,
}

impl Weakening {
    /// One protection alone.
    pub fn new(kind: Protection, path: impl Into<String>) -> Self {
        Weakening { kind, path: path.into(), with: Vec::new() }
    }

    /// All that is taken away.
    pub fn each(&self) -> impl Iterator<Item = &Weakening> {
        std::iter::once(self).chain(&self.with)
    }
}

impl fmt::Display for Weakening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.path)?;
        self.with.iter().try_for_each(|other| write!(f, " and {other}"))
    }
}
