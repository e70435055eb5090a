//! How competing processes are kept apart.
//!
//! A [`Strategy`] says which file holds a task and carries out a read-modify-write on it. What is modified is not its
//! business: the queue's operations are written once, as a [`Change`] of a document. So each strategy is a few lines
//! that differ in nothing but the question at hand: who may come in between.
//!
//! | strategy | who may come in between |
//! |---|---|
//! | [`naive`] | anybody, at any step: the incident |
//! | [`flock`] | nobody who takes the lock of the file |
//! | [`sharded`] | nobody who takes the lock of the same account's file |

use std::path::{Path, PathBuf};

use crate::document::Document;
use crate::error::Error;
use crate::storage::Storage;
use crate::transaction::Access;

pub mod flock;
pub mod naive;
pub mod sharded;

pub use flock::Flock;
pub use naive::Naive;
pub use sharded::Sharded;

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

/// A change of a document. A strategy may call it again on a newer document, and then only the last call counts.
///
/// Boxed calls rather than a type parameter, so that a strategy can be chosen at run time.
pub type Change<'a> = dyn FnMut(&mut Document) -> Result<Verdict, Error> + 'a;

/// What to do about a file that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Begin with an empty queue.
    Create,
    /// Refuse with [`Error::Missing`].
    Refuse,
}

/// A way to keep competing processes apart.
pub trait Strategy<S: Storage>: std::fmt::Debug {
    /// Its name, as on the command line.
    fn name(&self) -> &'static str;

    /// The file that holds an account's tasks.
    ///
    /// # Errors
    /// [`Error::BadTask`] if the account cannot be made into a safe file name.
    fn file_for(&self, queue: &Path, account: &str) -> Result<PathBuf, Error>;

    /// All files that hold tasks, in the order in which they are searched.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no queue at all; [`Error::Io`].
    fn files(&self, storage: &S, queue: &Path) -> Result<Vec<PathBuf>, Error>;

    /// Reads a file, changes the document, and writes it as the next version, with a snapshot before and an audit line
    /// after. Writes nothing at all if the change keeps the document or fails.
    ///
    /// # Errors
    /// Those of the change, of the steps, and of waiting for a lock. The file is unharmed unless the error or the
    /// strategy says otherwise.
    fn update(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        change: &mut Change<'_>,
    ) -> Result<(), Error>;

    /// Reads a file as it is, without waiting for anybody.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::BadFile`], [`Error::TooLarge`], [`Error::Io`].
    fn read(&self, access: &Access<'_, S>, file: &Path) -> Result<Document, Error> {
        Ok(access.load(file, IfMissing::Refuse)?.document)
    }
}
