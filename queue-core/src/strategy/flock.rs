//! A lock held around the whole read-modify-write.
//!
//! The lock is flock(2) on a file beside the data (`queue.json` has `.queue.json.lock`), not on the data itself: the
//! data is replaced by a new file at each write, and a lock on an inode that has lost its name keeps nobody out. The
//! lock file is created when it is first needed and never removed, for the same reason. The kernel gives the lock up
//! when its holder dies, however it dies, so no lock is ever left behind.
//!
//! The new version is written to a file of its own and renamed over the old one: a reader without the lock, and a
//! crash at any moment, meets the old version or the new one, never a part.
//!
//! The rename gives the name to a *new* file: owner and mode are those of a file the process creates, and a symbolic
//! link in place of the queue file is replaced by a file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Change, IfMissing, Strategy, Verdict};
use crate::error::Error;
use crate::snapshot::Publishing;
use crate::storage::Storage;
use crate::transaction::{Access, cannot_create, single_file};

/// Time between two attempts when there is a time-out: doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(20);

/// A lock on a file beside the data, and replacement by rename.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flock;

/// The lock file of a queue file.
pub fn lock_file_of(file: &Path) -> PathBuf {
    crate::paths::beside(file, ".lock")
}

impl<S: Storage> Strategy<S> for Flock {
    fn name(&self) -> &'static str {
        "flock"
    }

    fn file_for(&self, queue: &Path, _account: &str) -> Result<PathBuf, Error> {
        Ok(queue.to_owned())
    }

    fn files(&self, _storage: &S, queue: &Path) -> Result<Vec<PathBuf>, Error> {
        Ok(single_file(queue))
    }

    fn update(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        change: &mut Change<'_>,
    ) -> Result<(), Error> {
        let _held = Held::acquire(access, file, if_missing)?;
        let mut loaded = access.load(file, if_missing)?;
        let Verdict::Write { op, ids } = change(&mut loaded.document)? else {
            return Ok(());
        };
        let next = loaded.next_version(file)?;
        access.snapshot(file, &loaded, Publishing::Rename)?;
        access.replace(file, &next.bytes)?;
        access.audit(file, op, &ids, &loaded.stamp, &next.stamp);
        Ok(())
    }
}

/// The lock, held until this is dropped.
struct Held<'a, S: Storage> {
    storage: &'a S,
    lock: S::Lock,
}

impl<'a, S: Storage> Held<'a, S> {
    fn acquire(access: &Access<'a, S>, file: &Path, if_missing: IfMissing) -> Result<Self, Error> {
        let path = lock_file_of(file);
        let storage = access.storage;
        let lock = storage
            .open_lock(&path)
            .map_err(|error| cannot_create(file, &path, if_missing, "open the lock file", error))?;
        // Made before the lock is taken, so that no way out of here leaves it locked.
        let mut held = Held { storage, lock };
        let failed = |error| Error::io("lock", &path, error);
        let Some(timeout) = access.settings.timeout else {
            // The kernel wakes us the moment the lock is free.
            storage.lock(&mut held.lock).map_err(failed)?;
            return Ok(held);
        };
        let start = storage.monotonic();
        let mut pause = FIRST_PAUSE;
        while !storage.try_lock(&mut held.lock).map_err(failed)? {
            let waited = storage.monotonic().saturating_sub(start);
            let Some(left) = timeout.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Err(Error::LockTimeout { path, waited });
            };
            storage.sleep(pause.min(left));
            pause = (pause * 2).min(LAST_PAUSE);
        }
        Ok(held)
    }
}

impl<S: Storage> Drop for Held<'_, S> {
    fn drop(&mut self) {
        // Explicitly, because a child process may hold a copy of the descriptor for a moment. If it fails, closing the
        // descriptor gives the lock up all the same.
        let _ = self.storage.unlock(&mut self.lock);
    }
}
