//! Compute first, lock later.
//!
//! The file is read and the new version computed without any lock. Then the ordinary lock of [`flock`](super::flock) is
//! taken, the file read again, and only if it has the very bytes that the new version was made from is the new one
//! renamed into place; else everything is done again. So the lock is held for a time that does not grow with the time
//! that the computation takes.
//!
//! The comparison needs the lock: without one, another writer may come in between the comparison and the rename, and the
//! version check is the incident again, only rarer.
//!
//! A change that must not be made twice ([`Strategy::update_once`]) is made under the lock, as `flock` does it; so is one
//! that others have spoilt [`ATTEMPTS`] times, so that everybody gets on.

use std::path::Path;

use super::{Flock, Guard, IfMissing, Strategy};
use crate::error::Error;
use crate::redo;
use crate::storage::Storage;
use crate::transaction::{Access, Change, locked};

/// How often the change is made without the lock before it is made under it.
pub const ATTEMPTS: usize = 8;

/// A comparison under a lock, and replacement by rename.
#[derive(Debug, Clone, Copy, Default)]
pub struct Optimistic {
    /// The lock under which is compared.
    pub lock: Flock,
}

impl<S: Storage> Strategy<S> for Optimistic {
    fn name(&self) -> &'static str {
        "optimistic"
    }

    fn enter<'a>(
        &'a self,
        access: &Access<'a, S>,
        file: &Path,
        if_missing: IfMissing,
    ) -> Result<Box<dyn Guard + 'a>, Error> {
        Ok(Box::new(self.lock.hold(access, file, if_missing, "optimistic")?))
    }

    fn update(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        change: &mut dyn Change,
    ) -> Result<(), Error> {
        if redo::last(access.storage, file)?.is_some_and(|record| record.is_from_before()) {
            // To take the lock is to settle it.
            drop(self.lock.hold(access, file, if_missing, "optimistic")?);
        }
        for _ in 0..ATTEMPTS {
            let before = access.load(file, if_missing)?;
            let note = before.bytes().and_then(|_| self.lock.peek(access, file));
            let next = match access.prepare(file, &before, note.as_deref(), change) {
                // Half a version, met by a reader without the lock, where the file is exchanged: look under the lock.
                Err(Error::BadFile { .. }) if access.settings.spare => break,
                prepared => prepared?,
            };
            let Some(next) = next else {
                return Ok(());
            };
            let mut held = self.lock.hold(access, file, if_missing, "optimistic")?;
            // All bytes, not the version: a foreign writer need not count, and two different files may hash alike.
            if let Some(now) = access.load_again(file, if_missing, &before)? {
                return access.commit(file, &now, next, &mut held, access.settings.publishing());
            }
        }
        let mut held = self.lock.hold(access, file, if_missing, "optimistic")?;
        locked(access, file, if_missing, &mut held, access.settings.publishing(), change)
    }
}
