//! Which strategy a file is used with.
//!
//! `flock`, `optimistic` and `writer` share a lock, and whoever of them has written leaves a note in the lock file. Every
//! other strategy keeps out nobody but its own kind; so its first user writes its name into `queue.json.strategy`. It does
//! so under the lock of the former, and by a hard link, so that of two first users exactly one wins. Everybody looks at
//! the record *after* taking the lock: whoever waited for a lock while [`migrate`] changed the strategy finds out.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::flock::{Flock, lock_file_of};
use super::{IfMissing, Strategy};
use crate::error::Error;
use crate::storage::{LockKind, Storage};
use crate::transaction::{Access, Durability, cannot_create};

/// The strategies that take the same lock.
const FAMILY: [&str; 3] = ["flock", "optimistic", "writer"];

/// The longest record that is read.
const MAX_RECORD: u64 = 256;

/// Where the strategy of a queue file is recorded: `queue.json` has `queue.json.strategy`.
pub fn path_of(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".strategy");
    name.into()
}

/// The strategy that is recorded; none: one of those that share the lock, or none yet.
///
/// # Errors
/// [`Error::Io`].
pub fn recorded<S: Storage>(access: &Access<'_, S>, file: &Path) -> Result<Option<String>, Error> {
    let path = path_of(file);
    match access.storage.read(&path, MAX_RECORD) {
        Ok((name, _)) => Ok(Some(String::from_utf8_lossy(&name).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read which strategy is used", &path, error)),
    }
}

/// Refuses if the file is used with a strategy that does not share the lock. To be called by its holder; `noted` says
/// whether the lock file holds a note.
pub(crate) fn check_family<S: Storage>(
    access: &Access<'_, S>,
    file: &Path,
    wanted: &str,
    noted: bool,
) -> Result<(), Error> {
    if noted {
        return Ok(());
    }
    match recorded(access, file)? {
        Some(used) if !FAMILY.contains(&&*used) => Err(mixed(file, wanted, &used)),
        _ => Ok(()),
    }
}

/// Makes sure that the file is used with this strategy, which is not one of those that share the lock, and by nobody in
/// another way.
pub(crate) fn claim<S: Storage>(
    access: &Access<'_, S>,
    file: &Path,
    if_missing: IfMissing,
    wanted: &str,
) -> Result<(), Error> {
    match recorded(access, file)? {
        Some(used) if used == wanted => return Ok(()),
        Some(used) => return Err(mixed(file, wanted, &used)),
        None => {}
    }
    if if_missing == IfMissing::Refuse
        && let Err(error) = access.storage.meta(file)
        && error.kind() == io::ErrorKind::NotFound
    {
        return Err(Error::Missing { path: file.to_owned() });
    }
    let path = lock_file_of(file);
    let failed = |error| Error::io("record which strategy is used", &path_of(file), error);
    let open = |error| cannot_create(file, &path, if_missing, "open the lock file", error);
    let mut lock = access.storage.open_lock(&path, LockKind::Flock).map_err(open)?;
    access.storage.lock(&mut lock).map_err(failed)?;
    if !access.storage.read_note(&mut lock).map_err(failed)?.trim_ascii().is_empty() {
        return Err(mixed(file, wanted, "flock"));
    }
    write(access, file, wanted)?;
    access.storage.unlock(&mut lock).map_err(failed)
}

/// Links the record into place, unless it is there.
fn write<S: Storage>(access: &Access<'_, S>, file: &Path, name: &str) -> Result<(), Error> {
    let path = path_of(file);
    let failed = |error| Error::io("record which strategy is used", &path, error);
    let (temporary, mut handle) = access.create_temporary(file, None)?;
    let written = fill(access, &mut handle, name).and_then(|()| access.storage.hard_link(&temporary, &path));
    let _ = access.storage.remove_file(&temporary);
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match recorded(access, file)? {
            Some(used) if used == name => Ok(()),
            used => Err(mixed(file, name, used.as_deref().unwrap_or("another"))),
        },
        done => done.map_err(failed),
    }
}

/// Writes the record before it gets its name. It has to be whole after a power cut too, or the queue would be refused.
fn fill<S: Storage>(access: &Access<'_, S>, handle: &mut S::File, name: &str) -> io::Result<()> {
    access.storage.write(handle, format!("{name}\n").as_bytes())?;
    if access.settings.durability == Durability::None { Ok(()) } else { access.storage.sync(handle) }
}

/// Changes the strategy of a file for everybody, under the lock of the one it is used with now.
///
/// # Errors
/// As [`Strategy::enter`]; [`Error::Io`].
pub fn migrate<S: Storage + 'static>(
    access: &Access<'_, S>,
    file: &Path,
    options: &super::Options,
    to: &str,
) -> Result<String, Error> {
    let from = recorded(access, file)?.unwrap_or_else(|| "flock".to_owned());
    let old: Box<dyn Strategy<S>> = super::by_name(&from, options)
        .ok_or_else(|| Error::Usage(format!("{}: recorded is {from:?}, which is no strategy", file.display())))?;
    let failed = |error| Error::io("record which strategy is used", &path_of(file), error);
    let in_family = |name: &str| FAMILY.contains(&name);
    let mut guard = old.enter(access, file, IfMissing::Refuse)?;
    if in_family(&from) != in_family(to) || !in_family(to) {
        if in_family(to) {
            access.storage.remove_file(&path_of(file)).map_err(failed)?;
        } else if in_family(&from) {
            write(access, file, to)?;
            // The record is in place, so that nobody takes the missing note for a queue that nobody uses yet.
            guard.keep_note(&[b' '; 512]);
        } else {
            let (temporary, mut handle) = access.create_temporary(file, None)?;
            let written = fill(access, &mut handle, to);
            written.and_then(|()| access.storage.rename(&temporary, &path_of(file))).map_err(failed)?;
        }
    }
    drop(guard);
    Ok(from)
}

fn mixed(file: &Path, wanted: &str, used: &str) -> Error {
    Error::Mixed { path: file.to_owned(), wanted: wanted.to_owned(), used: used.to_owned() }
}

/// What `flock` would be refused for, asked without any lock: for reports.
///
/// # Errors
/// [`Error::Io`].
pub fn in_use<S: Storage>(access: &Access<'_, S>, file: &Path) -> Result<String, Error> {
    Ok(recorded(access, file)?.unwrap_or_else(|| Strategy::<S>::name(&Flock::default()).to_owned()))
}
