//! How competing processes are kept apart.
//!
//! A [`Strategy`] says which file holds a task, and who is kept out while it is changed. What is modified is not its
//! business: the queue's operations are written once ([`Operation`]), and so is the read-modify-write itself
//! ([`transaction`](crate::Access)). So each strategy is a few lines that differ in nothing but the question at hand: who
//! may come in between.
//!
//! | strategy | who may come in between |
//! |---|---|
//! | [`naive`] | anybody, at any step: the incident |
//! | [`flock`] | nobody who takes the lock of the file |
//! | [`lock_dir`] | nobody who takes the lock directory of the file |
//! | [`optimistic`] | anybody, while the new version is computed; then it is computed again |
//! | [`sharded`] | nobody who takes the lock of the same account's file |
//! | [`writer`] | nobody: one process writes for all |
//!
//! `flock`, `optimistic` and `writer` take one and the same lock, so they may be used on one file side by side. The
//! others keep nobody out but their own kind; which one a file is used with is [recorded](record) beside it, and another
//! one is refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::document::Document;
use crate::error::Error;
use crate::operation::{Operate, Operation, Reply};
use crate::storage::{Meta, Storage};
use crate::transaction::{Access, Change, locked};

pub mod flock;
pub mod lock_dir;
pub mod naive;
pub mod optimistic;
pub mod record;
pub mod sharded;
pub mod writer;

pub use flock::Flock;
pub use lock_dir::LockDir;
pub use naive::Naive;
pub use optimistic::Optimistic;
pub use sharded::Sharded;
pub use writer::Writer;

/// What a change made of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: there is nothing to write.
    Keep,
    /// Something: the document is to be written.
    Write {
        /// The operation's name in the audit line.
        op: &'static str,
        /// The tasks that were added, changed or removed.
        ids: Vec<String>,
    },
}

/// What to do about a file that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Begin with an empty queue.
    Create,
    /// Refuse with [`Error::Missing`].
    Refuse,
}

/// Others are kept out until this is dropped.
pub trait Guard {
    /// What the last writer left for the next one, if there is a place for it.
    fn note(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Leaves a note for the next writer. It only saves work, so that it need not succeed.
    fn keep_note(&mut self, note: &[u8]) {
        let _ = note;
    }

    /// Makes the next version durable before it is published, where there is a quicker way than to publish it durably, and
    /// says whether it has. `live` is the file that will be replaced.
    ///
    /// # Errors
    /// Those of the disk; nothing is published then.
    fn make_durable(&mut self, live: Option<&Meta>, version: u64, bytes: &[u8]) -> Result<bool, Error> {
        let _ = (live, version, bytes);
        Ok(false)
    }

    /// The version of the last [`make_durable`](Self::make_durable) could not be published, or not durably: it must not come
    /// back, and no other may rely on it.
    fn withdraw(&mut self) {}
}

/// A way to keep competing processes apart.
pub trait Strategy<S: Storage>: std::fmt::Debug {
    /// Its name, as on the command line.
    fn name(&self) -> &'static str;

    /// The file that holds an account's tasks.
    ///
    /// # Errors
    /// [`Error::BadTask`] if the account cannot be made into a safe file name.
    fn file_for(&self, queue: &Path, _account: &str) -> Result<PathBuf, Error> {
        Ok(queue.to_owned())
    }

    /// All files that hold tasks, in the order of their names.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no queue at all; [`Error::Io`].
    fn files(&self, _storage: &S, queue: &Path) -> Result<Vec<PathBuf>, Error> {
        Ok(vec![queue.to_owned()])
    }

    /// Whether each account has a file of its own.
    fn is_sharded(&self) -> bool {
        false
    }

    /// Keeps others out of a file until the guard is dropped.
    ///
    /// # Errors
    /// [`Error::LockTimeout`], [`Error::LockOwned`]; [`Error::Mixed`]; [`Error::Missing`], [`Error::NoDirectory`],
    /// [`Error::Io`].
    fn enter<'a>(
        &'a self,
        access: &Access<'a, S>,
        file: &Path,
        if_missing: IfMissing,
    ) -> Result<Box<dyn Guard + 'a>, Error>;

    /// Reads a file, changes the document, and writes it as the next version, with a snapshot before and an audit line
    /// after. Writes nothing at all if the change keeps the document or fails. The change is made once, while everybody
    /// else is kept out.
    ///
    /// # Errors
    /// Those of the change, of the steps, and of waiting for a lock. The file is unharmed unless the error or the
    /// strategy says otherwise.
    fn update_once(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        change: &mut dyn Change,
    ) -> Result<(), Error> {
        let mut guard = self.enter(access, file, if_missing)?;
        locked(access, file, if_missing, &mut *guard, access.settings.publishing(), change)
    }

    /// [`update_once`](Self::update_once) with a change that may be made several times, each on a newer document, where
    /// the strategy has a use for it.
    ///
    /// # Errors
    /// As [`update_once`](Self::update_once).
    fn update(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        change: &mut dyn Change,
    ) -> Result<(), Error> {
        self.update_once(access, file, if_missing, change)
    }

    /// Carries out an operation.
    ///
    /// # Errors
    /// As [`update`](Self::update), and those of [`Operation::apply`].
    fn operate(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        operation: &Operation,
    ) -> Result<Reply, Error> {
        let mut operate = Operate::new(operation, access.settings);
        self.update(access, file, if_missing, &mut operate)?;
        Ok(operate.reply())
    }

    /// Reads a file as it is, without waiting for anybody.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::BadFile`], [`Error::TooLarge`], [`Error::Io`].
    fn read(&self, access: &Access<'_, S>, file: &Path) -> Result<Document, Error> {
        access.load_unlocked(file)
    }
}

/// What can be chosen about strategies.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Take an open-file-description lock instead of flock(2). The two do not see each other, so all that use a queue
    /// must say the same.
    pub ofd: bool,
    /// Let those who have waited go first, at the price of some throughput.
    pub fair: bool,
    /// Unsafe: take a lock directory over after so long even if its owner may be alive.
    pub break_after: Option<Duration>,
    /// For [`Sharded`]: the strategy of each shard; none: `flock`.
    pub over: Option<String>,
    /// For [`Writer`]: how to start the process that writes for all.
    pub start: writer::Start,
}

/// The strategies by name, `naive` first, which is none.
pub const NAMES: [&str; 6] = ["naive", "flock", "lock-dir", "optimistic", "sharded", "writer"];

/// The strategy of this name; none: there is none, or it cannot be had with these options.
pub fn by_name<S: Storage + 'static>(name: &str, options: &Options) -> Option<Box<dyn Strategy<S>>> {
    let flock = Flock::new(options);
    Some(match name {
        "naive" => Box::new(Naive),
        "flock" => Box::new(flock),
        "lock-dir" => Box::new(LockDir { break_after: options.break_after }),
        "optimistic" => Box::new(Optimistic { lock: flock }),
        "writer" => Box::new(Writer::new(flock, options.start.clone())),
        "sharded" => {
            let inner = options.over.as_deref().unwrap_or("flock");
            // A directory of directories of files: no.
            if inner == "sharded" {
                return None;
            }
            let inner: Box<dyn Strategy<S>> = by_name(inner, options)?;
            Box::new(Sharded::over(inner))
        }
        _ => return None,
    })
}
