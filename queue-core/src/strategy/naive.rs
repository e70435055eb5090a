//! No protection at all: the queue of the incident.
//!
//! The file is read, changed in memory and rewritten in place; nothing is locked, and nobody checks that the version
//! read is still the one there. Whoever reads before another's write and writes after it takes that write back,
//! without an error anywhere and with a file that is valid all the time, except for a reader who comes between the
//! emptying of the file and the write. An interrupted write leaves half a file behind.
//!
//! It is here to be found out. Do not use it for more than one process.

use std::path::Path;

use super::{Guard, IfMissing, Strategy, record};
use crate::error::Error;
use crate::snapshot::Publishing;
use crate::storage::Storage;
use crate::transaction::{Access, Change, locked};

/// In-place read-modify-write without a lock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Naive;

/// Keeps nobody out.
struct Open;

impl Guard for Open {}

impl<S: Storage> Strategy<S> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn enter<'a>(
        &'a self,
        access: &Access<'a, S>,
        file: &Path,
        if_missing: IfMissing,
    ) -> Result<Box<dyn Guard + 'a>, Error> {
        record::claim(access, file, if_missing, "naive")?;
        Ok(Box::new(Open))
    }

    fn update_once(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        change: &mut dyn Change,
    ) -> Result<(), Error> {
        let mut open = Strategy::<S>::enter(self, access, file, if_missing)?;
        locked(access, file, if_missing, &mut *open, Publishing::InPlace, change)
    }
}
