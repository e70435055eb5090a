//! No protection at all: the queue of the incident.
//!
//! The file is read, changed in memory and rewritten in place; nothing is locked, and nobody checks that the version
//! read is still the one there. Whoever reads before another's write and writes after it takes that write back,
//! without an error anywhere and with a file that is valid all the time, except for a reader who comes between the
//! emptying of the file and the write. An interrupted write leaves half a file behind.
//!
//! It is here to be found out. Do not use it for more than one process.

use std::path::{Path, PathBuf};

use super::{Change, IfMissing, Strategy, Verdict};
use crate::error::Error;
use crate::snapshot::Publishing;
use crate::storage::Storage;
use crate::transaction::{Access, single_file};

/// In-place read-modify-write without a lock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Naive;

impl<S: Storage> Strategy<S> for Naive {
    fn name(&self) -> &'static str {
        "naive"
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
        let mut loaded = access.load(file, if_missing)?;
        let Verdict::Write { op, ids } = change(&mut loaded.document)? else {
            return Ok(());
        };
        let next = loaded.next_version(file)?;
        access.snapshot(file, &loaded, Publishing::InPlace)?;
        access.overwrite(file, &next.bytes)?;
        access.audit(file, op, &ids, &loaded.stamp, &next.stamp);
        Ok(())
    }
}
