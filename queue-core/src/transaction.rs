//! The steps that a read-modify-write is made of.
//!
//! Strategies put them together. Everything before the commit may fail and leaves the queue as it was; nothing after
//! it makes the operation fail, because it has happened.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::audit::{self, Commit, Stamp};
use crate::document::Document;
use crate::error::Error;
use crate::paths::{beside, directory_of};
use crate::snapshot::{self, Publishing};
use crate::storage::Storage;
use crate::strategy::IfMissing;

/// What an acknowledged operation survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A kill of every process. After a power cut the file may be an older version, empty, or gone.
    None,
    /// After a power cut the file is whole, but perhaps an older version.
    Data,
    /// A power cut too. With `naive` only from the end of its write on: an interrupted write in place is lost.
    #[default]
    Full,
}

/// The choices that are the same for every operation of a queue.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What an acknowledged operation survives.
    pub durability: Durability,
    /// How long to wait for a lock; none: as long as it takes.
    pub timeout: Option<Duration>,
    /// How many snapshots to keep; 0: take none.
    pub snapshots: u64,
    /// Whether to write audit lines.
    pub audit: bool,
    /// The longest queue file that is read, in bytes.
    pub max_bytes: u64,
}

impl Settings {
    /// The default of [`Settings::snapshots`].
    pub const SNAPSHOTS: u64 = 200;
    /// The default of [`Settings::max_bytes`]: 256 MiB.
    pub const MAX_BYTES: u64 = 256 * 1024 * 1024;
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            durability: Durability::default(),
            timeout: None,
            snapshots: Self::SNAPSHOTS,
            audit: true,
            max_bytes: Self::MAX_BYTES,
        }
    }
}

/// A queue file as it was read.
#[derive(Debug)]
pub struct Loaded {
    /// What it says. A change is made here.
    pub document: Document,
    /// Which state of the file it is.
    pub stamp: Stamp,
    /// Its bytes; none if there was no file.
    bytes: Option<Vec<u8>>,
}

/// A version that is ready to be written.
#[derive(Debug)]
pub struct Next {
    /// The file's new bytes.
    pub bytes: Vec<u8>,
    /// Their stamp.
    pub stamp: Stamp,
}

impl Loaded {
    /// The changed document as the version after the one that was read.
    ///
    /// # Errors
    /// [`Error::VersionExhausted`].
    pub fn next_version(&mut self, file: &Path) -> Result<Next, Error> {
        if !self.document.advance() {
            return Err(Error::VersionExhausted { path: file.to_owned() });
        }
        let bytes = self.document.to_bytes();
        let stamp = Stamp { version: self.document.version(), hash: audit::hash(&bytes) };
        Ok(Next { bytes, stamp })
    }
}

/// The world as a strategy sees it: where the steps go, and how they are to be made.
#[derive(Debug)]
pub struct Access<'a, S> {
    /// Where the steps go.
    pub storage: &'a S,
    /// How they are to be made.
    pub settings: &'a Settings,
    warnings: &'a RefCell<Vec<Error>>,
}

impl<'a, S: Storage> Access<'a, S> {
    /// Access to `storage`; what goes wrong after a commit is added to `warnings`.
    pub(crate) fn new(storage: &'a S, settings: &'a Settings, warnings: &'a RefCell<Vec<Error>>) -> Self {
        Access { storage, settings, warnings }
    }

    /// Reads a queue file.
    ///
    /// # Errors
    /// [`Error::Missing`] unless a new queue may be begun; [`Error::TooLarge`], [`Error::BadFile`], [`Error::Io`].
    pub fn load(&self, file: &Path, if_missing: IfMissing) -> Result<Loaded, Error> {
        let bytes = match self.storage.read(file, self.settings.max_bytes) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match if_missing {
                    IfMissing::Refuse => Err(Error::Missing { path: file.to_owned() }),
                    IfMissing::Create => {
                        Ok(Loaded { document: Document::empty(), stamp: Stamp::absent(), bytes: None })
                    }
                };
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(Error::TooLarge { path: file.to_owned(), limit: self.settings.max_bytes });
            }
            Err(error) => return Err(Error::io("read the queue", file, error)),
        };
        let document = Document::parse(&bytes).map_err(|malformed| Error::BadFile {
            path: file.to_owned(),
            malformed,
            snapshots: snapshot::directory_of(file),
        })?;
        let stamp = Stamp { version: document.version(), hash: audit::hash(&bytes) };
        Ok(Loaded { document, stamp, bytes: Some(bytes) })
    }

    /// Keeps the version that was read, if there was a file and snapshots are on.
    ///
    /// # Errors
    /// [`Error::Io`]: without a copy nothing is written.
    pub fn snapshot(&self, file: &Path, loaded: &Loaded, publishing: Publishing) -> Result<(), Error> {
        match &loaded.bytes {
            Some(bytes) if self.settings.snapshots > 0 => snapshot::before_write(
                self.storage,
                file,
                bytes,
                loaded.stamp.version,
                publishing,
                self.settings.snapshots,
            ),
            _ => Ok(()),
        }
    }

    /// Commits by a new file that is renamed over the old one.
    ///
    /// # Errors
    /// [`Error::Io`], and the queue is as before; [`Error::NotDurable`], and it holds the new version.
    pub fn replace(&self, file: &Path, bytes: &[u8]) -> Result<(), Error> {
        let (temporary, mut handle) = self.create_temporary(file)?;
        let mut publish = || {
            self.storage.write(&mut handle, bytes)?;
            if self.settings.durability != Durability::None {
                self.storage.sync(&mut handle)?;
            }
            self.storage.rename(&temporary, file)
        };
        if let Err(error) = publish() {
            // The first error is the one to report. A temporary file that stays is in nobody's way.
            let _ = self.storage.remove_file(&temporary);
            return Err(Error::io("write the new version", file, error));
        }
        self.sync_directory(file)
    }

    /// Commits in place: empties the file, then writes it.
    ///
    /// # Errors
    /// [`Error::Io`], and the file may be empty or cut off; [`Error::NotDurable`].
    pub fn overwrite(&self, file: &Path, bytes: &[u8]) -> Result<(), Error> {
        let mut handle = self
            .storage
            .open_truncated(file)
            .map_err(|error| cannot_create(file, file, IfMissing::Create, "open the queue for writing", error))?;
        self.storage.write(&mut handle, bytes).map_err(|error| Error::io("write the queue", file, error))?;
        if self.settings.durability != Durability::None {
            self.storage.sync(&mut handle).map_err(|source| Error::NotDurable { path: file.to_owned(), source })?;
        }
        self.sync_directory(file)
    }

    /// Records the commit, if audit lines are on. Too late to fail: trouble becomes a warning, and the next writer
    /// finds the file ahead of the last line.
    pub fn audit(&self, file: &Path, op: &'static str, ids: &[String], read: &Stamp, wrote: &Stamp) {
        if !self.settings.audit {
            return;
        }
        let commit = Commit { file, op, ids, read, wrote };
        if let Err(error) = audit::record(self.storage, &commit) {
            self.warnings.borrow_mut().push(error);
        }
    }

    /// Creates a directory, unless somebody else has been faster.
    ///
    /// # Errors
    /// [`Error::NoDirectory`] if its own parent is missing; [`Error::Io`].
    pub fn create_dir(&self, path: &Path) -> Result<(), Error> {
        match self.storage.create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::NoDirectory { path: directory_of(path).to_owned() })
            }
            Err(error) => Err(Error::io("create the directory", path, error)),
            Ok(()) => self.sync_directory(path),
        }
    }

    fn create_temporary(&self, file: &Path) -> Result<(PathBuf, S::File), Error> {
        let pid = self.storage.process().pid;
        loop {
            let path = beside(file, &format!(".{pid}-{}.tmp", self.storage.serial()));
            match self.storage.create_new(&path) {
                Ok(handle) => return Ok((path, handle)),
                // Left by a process of this pid that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Error::io("create a file for the new version", &path, error));
                }
            }
        }
    }

    /// With full durability, makes sure that the name of `file` survives.
    fn sync_directory(&self, file: &Path) -> Result<(), Error> {
        if self.settings.durability != Durability::Full {
            return Ok(());
        }
        self.storage.sync_dir(directory_of(file)).map_err(|source| Error::NotDurable { path: file.to_owned(), source })
    }
}

/// What to report when a file that belongs to the queue could not be created at `path`.
pub(crate) fn cannot_create(
    queue: &Path,
    path: &Path,
    if_missing: IfMissing,
    action: &'static str,
    error: io::Error,
) -> Error {
    // The call creates the file, so what is missing is the directory.
    match (error.kind(), if_missing) {
        (io::ErrorKind::NotFound, IfMissing::Refuse) => Error::Missing { path: queue.to_owned() },
        (io::ErrorKind::NotFound, IfMissing::Create) => Error::NoDirectory { path: directory_of(path).to_owned() },
        _ => Error::io(action, path, error),
    }
}

/// The files of a queue that is one file.
pub(crate) fn single_file(queue: &Path) -> Vec<PathBuf> {
    vec![queue.to_owned()]
}
