//! A copy of the file before each write.
//!
//! This is what solved the incident: comparing neighbouring copies showed a fragment that one had and the next did
//! not. The copies of `queue.json` lie in `.queue.json.snapshots/`; a name holds time, version, pid and a number, as
//! in `20260131T120000.123456Z-v17-4242-3.json`, so that names sort by time.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::Error;
use crate::storage::Storage;

/// How a file is replaced, and with it how its present version can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publishing {
    /// By another file under the same name: the old inode is never written again, so a second name for it is a copy.
    Rename,
    /// In place: the bytes must be copied.
    InPlace,
}

/// The directory that holds a queue file's snapshots.
pub fn directory_of(file: &Path) -> PathBuf {
    crate::paths::beside(file, ".snapshots")
}

/// Keeps the version that is about to be replaced, and removes the oldest copies beyond `keep`.
///
/// Looking for old copies costs a directory listing, so it is done at every version that `keep / 8` divides: there are
/// never more than `keep + keep / 8` copies once the queue has been written that often.
pub(crate) fn before_write<S: Storage>(
    storage: &S,
    file: &Path,
    bytes: &[u8],
    version: u64,
    publishing: Publishing,
    keep: u64,
) -> Result<(), Error> {
    let directory = directory_of(file);
    let failed = |error| Error::io("write a snapshot", &directory, error);
    if version.is_multiple_of((keep / 8).max(1)) {
        prune(storage, &directory, keep.saturating_sub(1)).map_err(failed)?;
    }
    let time = storage.now();
    let pid = storage.process().pid;
    let attempt = || loop {
        let name = name(time, version, pid, storage.serial());
        match copy(storage, file, &directory.join(name), bytes, publishing) {
            // Left by an earlier process of this pid.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done,
        }
    };
    match attempt() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match storage.create_dir(&directory) {
                // Without a lock another process may have been faster.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(error));
                }
                _ => {}
            }
            attempt().map_err(failed)
        }
        done => done.map_err(failed),
    }
}

fn copy<S: Storage>(storage: &S, file: &Path, to: &Path, bytes: &[u8], publishing: Publishing) -> io::Result<()> {
    if publishing == Publishing::Rename {
        match storage.hard_link(file, to) {
            // No hard links here, or no more of them: copy instead.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied
                        | io::ErrorKind::Unsupported
                        | io::ErrorKind::CrossesDevices
                        | io::ErrorKind::TooManyLinks
                ) => {}
            done => return done,
        }
    }
    let mut copy = storage.create_new(to)?;
    storage.write(&mut copy, bytes)
}

fn name(time: Timestamp, version: u64, pid: u32, serial: u64) -> String {
    let time = time.strftime("%Y%m%dT%H%M%S.%6fZ");
    format!("{time}-v{version}-{pid}-{serial}.json")
}

/// Removes the oldest copies until `keep` are left.
fn prune<S: Storage>(storage: &S, directory: &Path, keep: u64) -> io::Result<()> {
    let names = match storage.list_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    let copies: Vec<_> = names.iter().filter(|name| is_snapshot(name)).collect();
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    for old in &copies[..copies.len().saturating_sub(keep)] {
        match storage.remove_file(&directory.join(old)) {
            // Without a lock another process may have been faster.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a name is one that [`name`] gives: nothing else in the directory is ever removed.
fn is_snapshot(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".json") else {
        return false;
    };
    let parts: Vec<&str> = stem.split('-').collect();
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(parts[..], [time, version, pid, serial]
        if time.len() == "20260131T120000.123456Z".len()
            && time.ends_with('Z')
            && version.strip_prefix('v').is_some_and(number)
            && number(pid)
            && number(serial))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_time_version_pid_and_number() {
        let time: Timestamp = "2026-01-31T12:00:00.123456789Z".parse().unwrap();
        let name = name(time, 17, 4242, 3);
        assert_eq!(name, "20260131T120000.123456Z-v17-4242-3.json");
        assert!(is_snapshot(&name));
    }

    #[test]
    fn only_our_own_names_are_snapshots() {
        for name in
            ["notes.json", "20260131-v1-2-3.json", "20260131T120000.123456Z-v17-4242-3.json.bak", "a-b-c-d.json"]
        {
            assert!(!is_snapshot(name), "{name}");
        }
    }
}
