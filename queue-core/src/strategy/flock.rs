//! A lock held around the whole read-modify-write.
//!
//! The lock is flock(2) (or, with [`Flock::kind`], an open-file-description lock) on a file beside the data
//! (`queue.json` has `.queue.json.lock`), not on the data itself: the data is replaced by a new file at each write, and a
//! lock on an inode that has lost its name keeps nobody out. The lock file is created when it is first needed and never
//! removed, for the same reason. The kernel gives the lock up when its holder dies, however it dies, so no lock is ever
//! left behind.
//!
//! The new version is written to a file of its own and renamed over the old one: a reader without the lock, and a
//! crash at any moment, meets the old version or the new one, never a part. The new file gets the owner and the mode of
//! the old one as far as this process may give them; a symbolic link stays, and what it leads to is replaced.
//!
//! The kernel does not queue: whoever gives the lock up and wants it again usually is faster than the one that has to be
//! woken first. [`Flock::fair`] puts a second lock before it, the *gate*. Whoever waits for the lock holds the gate; so
//! the last holder, too, stands at the gate again and does not overtake.

use std::path::{Path, PathBuf};

use super::{Guard, IfMissing, Options, Strategy, record};
use crate::error::Error;
use crate::redo;
use crate::storage::{LockKind, Storage};
use crate::transaction::{Access, cannot_create};

/// The longest note that is read without the lock.
const MAX_NOTE: u64 = 4 * 1024;

/// A lock on a file beside the data, and replacement by rename.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flock {
    /// Which kind of lock.
    pub kind: LockKind,
    /// Whether those who have waited go first.
    pub fair: bool,
}

impl Flock {
    /// As the options say.
    pub fn new(options: &Options) -> Self {
        let kind = if options.ofd { LockKind::Ofd } else { LockKind::Flock };
        Flock { kind, fair: options.fair }
    }

    /// Takes the lock for a strategy of this name, which has to be one that shares it.
    ///
    /// # Errors
    /// As [`Strategy::enter`].
    pub(crate) fn hold<'a, S: Storage>(
        &self,
        access: &Access<'a, S>,
        file: &Path,
        if_missing: IfMissing,
        name: &str,
    ) -> Result<Held<'a, S>, Error> {
        let mut held = self.take(access, file, if_missing)?;
        let note = held.note();
        let noted = note.as_ref().is_some_and(|note| !note.trim_ascii().is_empty());
        record::check_family(access, file, name, noted)?;
        redo::settle(access, file)?;
        held.noted = note;
        Ok(held)
    }

    /// What the last writer left for the next one, read without the lock: it may be half of two notes, and then it proves
    /// nothing.
    pub(crate) fn peek<S: Storage>(&self, access: &Access<'_, S>, file: &Path) -> Option<Vec<u8>> {
        let (note, _) = access.storage.read(&lock_file_of(file), MAX_NOTE).ok()?;
        Some(note)
    }

    fn take<'a, S: Storage>(
        &self,
        access: &Access<'a, S>,
        file: &Path,
        if_missing: IfMissing,
    ) -> Result<Held<'a, S>, Error> {
        let path = lock_file_of(file);
        let open = |path: &Path| {
            let opened = access.storage.open_lock(path, self.kind);
            opened.map_err(|error| cannot_create(file, path, if_missing, "open the lock file", error))
        };
        let start = access.settings.timeout.map(|_| access.storage.monotonic());
        let acquire = |lock: S::Lock| -> Result<Held<'a, S>, Error> {
            // Made before the lock is taken, so that no way out of here leaves it locked.
            let mut held = Held { storage: access.storage, lock: Some(lock), fair: false, noted: None };
            let failed = |error| Error::io("lock", &path, error);
            let (Some(timeout), Some(start)) = (access.settings.timeout, start) else {
                // The kernel wakes us the moment the lock is free.
                let lock = held.lock.as_mut().unwrap_or_else(|| unreachable!("just put there"));
                access.storage.lock(lock).map_err(failed)?;
                return Ok(held);
            };
            let waited = || access.storage.monotonic().saturating_sub(start);
            let lock = held.lock.take().unwrap_or_else(|| unreachable!("just put there"));
            match access.storage.lock_within(lock, timeout.saturating_sub(waited())).map_err(failed)? {
                Some(lock) => Ok(Held { storage: access.storage, lock: Some(lock), fair: false, noted: None }),
                None => Err(Error::LockTimeout { path: path.clone(), waited: waited() }),
            }
        };
        if !self.fair {
            return acquire(open(&path)?);
        }
        let gate = acquire(open(&crate::paths::beside(file, ".gate"))?)?;
        let mut held = acquire(open(&path)?)?;
        drop(gate);
        held.fair = true;
        Ok(held)
    }
}

/// The lock file of a queue file.
pub fn lock_file_of(file: &Path) -> PathBuf {
    crate::paths::beside(file, ".lock")
}

impl<S: Storage> Strategy<S> for Flock {
    fn name(&self) -> &'static str {
        "flock"
    }

    fn enter<'a>(
        &'a self,
        access: &Access<'a, S>,
        file: &Path,
        if_missing: IfMissing,
    ) -> Result<Box<dyn Guard + 'a>, Error> {
        Ok(Box::new(self.hold(access, file, if_missing, "flock")?))
    }
}

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a, S: Storage> {
    storage: &'a S,
    /// None only while it is somebody else's.
    lock: Option<S::Lock>,
    fair: bool,
    /// The note, if it has been read and not been asked for.
    noted: Option<Vec<u8>>,
}

impl<S: Storage> Held<'_, S> {
    /// The same lock for as long as `storage` is there.
    pub(crate) fn rebind<'b>(mut self, storage: &'b S) -> Held<'b, S> {
        Held { storage, lock: self.lock.take(), fair: std::mem::take(&mut self.fair), noted: self.noted.take() }
    }
}

impl<S: Storage> Guard for Held<'_, S> {
    fn note(&mut self) -> Option<Vec<u8>> {
        match self.noted.take() {
            Some(note) => Some(note),
            None => self.storage.read_note(self.lock.as_mut()?).ok(),
        }
    }

    fn keep_note(&mut self, note: &[u8]) {
        self.noted = None;
        if let Some(lock) = self.lock.as_mut() {
            // Without it the next writer parses the file.
            let _ = self.storage.write_note(lock, note);
        }
    }
}

impl<S: Storage> Drop for Held<'_, S> {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.as_mut() {
            // Explicitly, because a child process may hold a copy of the descriptor for a moment. If it fails, closing
            // the descriptor gives the lock up all the same.
            let _ = self.storage.unlock(lock);
        }
        if self.fair {
            // Whoever waits at the gate gets a chance to go through it before we stand there again.
            self.storage.give_way();
        }
    }
}
