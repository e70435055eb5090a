//! A copy of the file before each write.
//!
//! This is what solved the incident: comparing neighbouring copies showed a fragment that one had and the next did
//! not. The copies of `queue.json` lie in `.queue.json.snapshots/`; a name holds time, version, pid and a number, as
//! in `20260131T120000.123456Z-v17-4242-3.json`, so that names sort by time.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// By a file that changes places with it: the displaced file itself is the copy, since its inode is not written again
    /// once it is one.
    Exchange,
}

/// The directory that holds a queue file's snapshots.
pub fn directory_of(file: &Path) -> PathBuf {
    crate::paths::beside(file, ".snapshots")
}

/// At how many versions the copies are looked through.
const PRUNE_EVERY: u64 = 25;

/// How many copies are removed at a time, so that no write waits long for it. More than are made in the meantime.
const PRUNE_AT_ONCE: usize = 2 * PRUNE_EVERY as usize;

/// At how many versions the sizes of all copies are added up, which costs a look at each.
const WEIGH_EVERY: u64 = 500;

/// The most bytes that all copies may have.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// How long one copy a second is kept, and one a minute.
const BY_SECOND: Duration = Duration::from_secs(60 * 60);
const BY_MINUTE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Keeps the version that is about to be replaced, and removes copies that need not be kept: beyond the newest `keep`,
/// one a second stays for an hour and one a minute for seven days, and all together have a gigabyte at most.
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
    if version.is_multiple_of(PRUNE_EVERY) {
        let weigh = version.is_multiple_of(WEIGH_EVERY) || bytes.len() as u64 > MAX_BYTES / WEIGH_EVERY;
        prune(storage, &directory, keep, weigh).map_err(failed)?;
    }
    if publishing == Publishing::Exchange {
        return Ok(());
    }
    keep_as(storage, file, version, |to| copy(storage, file, to, bytes, publishing)).map_err(failed)
}

/// Makes the file that was displaced by an exchange the copy of its version.
pub(crate) fn keep_displaced<S: Storage>(
    storage: &S,
    file: &Path,
    displaced: &Path,
    version: u64,
) -> Result<(), Error> {
    let kept = keep_as(storage, file, version, |to| storage.rename_new(displaced, to));
    kept.map_err(|error| Error::io("keep a snapshot", displaced, error))
}

/// Makes a copy under a new name.
fn keep_as<S: Storage>(
    storage: &S,
    file: &Path,
    version: u64,
    make: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let directory = directory_of(file);
    let time = storage.now();
    let pid = storage.process().pid;
    let attempt = || loop {
        let name = name(time, version, pid, storage.serial());
        match make(&directory.join(name)) {
            // Left by an earlier process of this pid.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done,
        }
    };
    match attempt() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match storage.create_dir(&directory) {
                // Without a lock another process may have been faster.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => attempt(),
            }
        }
        done => done,
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
    let mut copy = storage.create_new(to, None)?;
    storage.write(&mut copy, bytes)
}

fn name(time: Timestamp, version: u64, pid: u32, serial: u64) -> String {
    let time = time.strftime("%Y%m%dT%H%M%S.%6fZ");
    format!("{time}-v{version}-{pid}-{serial}.json")
}

/// Removes some of the copies that need not be kept.
fn prune<S: Storage>(storage: &S, directory: &Path, keep: u64, weigh: bool) -> io::Result<()> {
    let names = match storage.list_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    let copies: Vec<&str> = names.iter().map(|name| &**name).filter(|name| is_snapshot(name)).collect();
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    let mut surplus = surplus(&copies, storage.now(), keep);
    if weigh {
        let sizes = copies.iter().map(|name| storage.meta(&directory.join(name)).map_or(0, |meta| meta.size));
        let mut left: u64 = sizes.clone().sum();
        for (name, size) in copies.iter().zip(sizes) {
            if left <= MAX_BYTES {
                break;
            }
            left -= size;
            if !surplus.contains(name) {
                surplus.push(name);
            }
        }
    }
    for old in surplus.iter().take(PRUNE_AT_ONCE) {
        match storage.remove_file(&directory.join(old)) {
            // Without a lock another process may have been faster.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The copies, oldest first, that neither their number nor their time keeps.
fn surplus<'a>(copies: &[&'a str], now: Timestamp, keep: usize) -> Vec<&'a str> {
    let old = &copies[..copies.len().saturating_sub(keep)];
    // The part of a name that all copies of one second, or minute, have in common.
    let second = |name: &'a str| &name[.."20260131T120000".len()];
    let minute = |name: &'a str| &name[.."20260131T1200".len()];
    let since =
        |age: Duration| now.checked_sub(age).map_or(String::new(), |time| time.strftime("%Y%m%dT%H%M%S").to_string());
    let (hour_ago, week_ago) = (since(BY_SECOND), since(BY_MINUTE));
    let mut last = None;
    let goes = |name: &&'a str| {
        let period = match second(name) {
            time if *time >= *hour_ago => time,
            time if *time >= *week_ago => minute(name),
            _ => return true,
        };
        // The first of each period stays, and stays the first.
        last.replace(period) == Some(period)
    };
    old.iter().copied().filter(goes).collect()
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
    fn one_a_second_stays_for_an_hour_and_one_a_minute_for_a_week() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let copies = [
            "20260101T120000.000000Z-v1-1-1.json",
            "20260130T100000.000000Z-v2-1-1.json",
            "20260130T100001.000000Z-v3-1-1.json",
            "20260130T100100.000000Z-v4-1-1.json",
            "20260131T113000.000000Z-v5-1-1.json",
            "20260131T113000.500000Z-v6-1-1.json",
            "20260131T113001.000000Z-v7-1-1.json",
            "20260131T113001.100000Z-v8-1-1.json",
            "20260131T113001.200000Z-v9-1-1.json",
        ];
        assert_eq!(surplus(&copies, now, 2), [copies[0], copies[2], copies[5]]);
        assert_eq!(surplus(&copies, now, 100), [""; 0]);
        assert_eq!(surplus(&copies, now, 0), [copies[0], copies[2], copies[5], copies[7], copies[8]]);
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
