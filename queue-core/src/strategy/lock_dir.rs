//! A lock that is a directory: for file systems and systems without lock calls.
//!
//! - **Acquire**: a directory of our own, with one entry that names its owner, is renamed to the lock's name, which fails
//!   if that is taken. So a lock never exists without its owner's name in it.
//! - **Break**: nobody gives the lock up for an owner that died. Whoever finds one renames the owner's entry *inside* the
//!   lock to its own. Of several breakers exactly one succeeds: the entry they all want to rename is there once. (Removing
//!   the lock by its path, or renaming it away, after a look at its owner lets two in: by then the path may hold a fresh
//!   lock.) A lock without any entry, as a power cut may leave it, is removed: that cannot hit another.
//! - **Release**: the directory is renamed away, then deleted. So it is never there without an entry.
//!
//! The owner is named by pid, start time, boot, pid namespace and host. An owner that is alive, or of whom that cannot be
//! said because it lives on another host or in another namespace, is never broken: waiting ends with the time-out, which
//! names it. [`LockDir::break_after`] breaks such a lock too, after that time, and is **unsafe**: an owner that was merely
//! slow goes on writing beside the new one.
//!
//! Whoever waits is woken by a watch on the lock directory, and looks at its owner again after a short time anyway: nothing
//! tells of an owner's death.
//!
//! The lock goes with its owner, so the note for the next writer ([`Guard::note`]) is a file of its own, `.queue.json.note`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Guard, IfMissing, Strategy, record};
use crate::error::Error;
use crate::paths::beside;
use crate::storage::{Liveness, LockKind, Process, Storage};
use crate::transaction::{Access, cannot_create};

/// How long a waiter sleeps if nothing wakes it: between these, so that several do not look in step.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(60));

/// What the name of an owner's entry begins with.
const OWNER: &str = "owner-";

/// A directory beside the data, and replacement by rename.
#[derive(Debug, Clone, Copy, Default)]
pub struct LockDir {
    /// Unsafe: for how long an owner that may be alive is respected.
    pub break_after: Option<Duration>,
}

/// The lock directory of a queue file.
pub fn lock_dir_of(file: &Path) -> PathBuf {
    beside(file, ".lockdir")
}

impl<S: Storage> Strategy<S> for LockDir {
    fn name(&self) -> &'static str {
        "lock-dir"
    }

    fn enter<'a>(
        &'a self,
        access: &Access<'a, S>,
        file: &Path,
        if_missing: IfMissing,
    ) -> Result<Box<dyn Guard + 'a>, Error> {
        let storage = access.storage;
        if if_missing == IfMissing::Refuse
            && let Err(error) = storage.meta(file)
            && error.kind() == io::ErrorKind::NotFound
        {
            return Err(Error::Missing { path: file.to_owned() });
        }
        let held = Own::prepare(storage, file, if_missing)?.acquire(access, self.break_after)?;
        record::claim(access, file, if_missing, "lock-dir")?;
        Ok(Box::new(held))
    }
}

/// The name of an owner's entry. Everything that identifies the process is in it, so that no entry is ever half written.
/// The number tells the acquisitions of one process apart.
fn entry_of(process: &Process, serial: u64) -> String {
    let Process { host, pid, start, boot, namespace } = process;
    let host: String =
        host.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).take(64).collect();
    let boot: String = boot.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    format!("{OWNER}{pid}-{start}-{namespace}-{boot}-{serial}-{host}")
}

/// The process that an entry names, compared in the form that a name has; none: the name is not one of ours.
fn owner_of(entry: &str, me: &Process) -> Option<Process> {
    let mut parts = entry.strip_prefix(OWNER)?.splitn(6, '-');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (pid, start, namespace) = (u32::try_from(number()?).ok()?, number()?, number()?);
    let (boot, _serial, host) = (parts.next()?, parts.next()?, parts.next()?);
    let mine = entry_of(me, 0);
    let mut mine = mine.strip_prefix(OWNER)?.splitn(6, '-').skip(3);
    let (my_boot, _, my_host) = (mine.next()?, mine.next(), mine.next()?);
    // A name may have lost a few characters; what reads like ours is ours.
    let boot = if boot == my_boot { me.boot.clone() } else { boot.to_owned() };
    let host = if host == my_host { me.host.clone() } else { host.to_owned() };
    Some(Process { host, pid, start, boot, namespace })
}

/// Our own directory and entry, before they are the lock.
struct Own<'a, S: Storage> {
    storage: &'a S,
    lock: PathBuf,
    directory: PathBuf,
    entry: String,
    note: PathBuf,
}

impl<'a, S: Storage> Own<'a, S> {
    fn prepare(storage: &'a S, file: &Path, if_missing: IfMissing) -> Result<Self, Error> {
        let process = storage.process();
        loop {
            let serial = storage.serial();
            let directory = beside(file, &format!(".{}-{serial}.newlock", process.pid));
            match storage.create_dir(&directory) {
                Ok(()) => {}
                // Left by a process of this pid that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => {
                    return Err(cannot_create(file, &directory, if_missing, "prepare the lock directory", error));
                }
            }
            // Removed when dropped, from now on.
            let (lock, entry, note) = (lock_dir_of(file), entry_of(&process, serial), beside(file, ".note"));
            let own = Own { storage, lock, directory, entry, note };
            let path = own.directory.join(&own.entry);
            storage.create_new(&path, None).map_err(|error| Error::io("prepare the lock directory", &path, error))?;
            return Ok(own);
        }
    }

    fn acquire(mut self, access: &Access<'a, S>, break_after: Option<Duration>) -> Result<Held<'a, S>, Error> {
        let storage = self.storage;
        let lock = self.lock.clone();
        let failed = |error| Error::io("take the lock directory", &lock, error);
        let start = storage.monotonic();
        let mut owner = Owner::default();
        // Whether it is time to ask who has it: at first, and whenever nothing has happened for a while.
        let mut ask = true;
        loop {
            match storage.rename_new(&self.directory, &self.lock) {
                Ok(()) => {
                    // It is the lock now; nothing is left to be tidied up.
                    self.directory = PathBuf::new();
                    return Ok(self.held());
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) => {}
                Err(error) => return Err(failed(error)),
            }
            let now = storage.monotonic();
            if ask {
                match self.look(&mut owner, now, break_after).map_err(failed)? {
                    Found::Owned => {}
                    Found::Changed => continue,
                    Found::Ours => return Ok(self.held()),
                }
            }
            let waited = now.saturating_sub(start);
            let left = access.settings.timeout.map(|timeout| timeout.saturating_sub(waited));
            if left.is_some_and(|left| left.is_zero()) {
                let foreign = owner.liveness == Liveness::Unknown;
                return Err(Error::LockOwned { path: self.lock.clone(), waited, owner: owner.describe(), foreign });
            }
            let limit = pause(storage, now).min(left.unwrap_or(Duration::MAX));
            // What can be watched is there, and its end will be told. So there is no need to try once more before waiting.
            ask = match storage.watch(&self.lock) {
                Ok(mut watch) => !storage.wait(&mut watch, limit).map_err(failed)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                // No watches (left) on this system.
                Err(_) => {
                    storage.sleep(limit);
                    true
                }
            };
        }
    }

    /// Looks at who has the lock, and takes it over from the dead. It may be gone at any moment meanwhile; then we are told
    /// by NotFound.
    fn look(&self, owner: &mut Owner, now: Duration, break_after: Option<Duration>) -> io::Result<Found> {
        let storage = self.storage;
        let entries = match storage.list_dir(&self.lock) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Changed),
            Err(error) => return Err(error),
        };
        if entries.is_empty() {
            // None of us makes such a lock, but after a power cut the owner's entry may be missing: it is nobody's. Only
            // an empty directory can be removed, so that a fresh lock under this name stays.
            return match storage.remove_dir(&self.lock) {
                Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
                    Err(error)
                }
                _ => Ok(Found::Changed),
            };
        }
        let entry = entries.into_iter().find(|entry| entry.starts_with(OWNER));
        owner.process = entry.as_deref().and_then(|entry| owner_of(entry, &storage.process()));
        owner.liveness = owner.process.as_ref().map_or(Liveness::Unknown, |process| storage.liveness(process));
        let Some(entry) = entry else { return Ok(Found::Owned) };
        let since = match owner.seen.take() {
            Some((before, since)) if before == entry => since,
            _ => now,
        };
        let overdue = break_after.is_some_and(|limit| now.saturating_sub(since) >= limit);
        if owner.liveness != Liveness::Dead && !overdue {
            owner.seen = Some((entry, since));
            return Ok(Found::Owned);
        }
        match storage.rename(&self.lock.join(&entry), &self.lock.join(&self.entry)) {
            Ok(()) => Ok(Found::Ours),
            // Another breaker was faster, or the owner has given it up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Changed),
            Err(error) => Err(error),
        }
    }

    fn held(&self) -> Held<'a, S> {
        let (lock, entry, note) = (self.lock.clone(), self.entry.clone(), self.note.clone());
        Held { storage: self.storage, lock, entry, note, notes: None }
    }
}

/// What a look at a lock that is taken has shown.
enum Found {
    /// Somebody has it, and keeps it.
    Owned,
    /// It is another one now, or none.
    Changed,
    /// We have taken it over.
    Ours,
}

/// Who had the lock when that was last looked at.
struct Owner {
    process: Option<Process>,
    liveness: Liveness,
    /// The name of its entry, which tells its acquisitions apart, and since when it has been seen.
    seen: Option<(String, Duration)>,
}

impl Default for Owner {
    fn default() -> Self {
        Owner { process: None, liveness: Liveness::Unknown, seen: None }
    }
}

impl Owner {
    fn describe(&self) -> String {
        let Some(Process { host, pid, start, namespace, .. }) = &self.process else {
            return "nobody who can be named".to_owned();
        };
        format!("pid {pid} of {host} (started at {start}, pid namespace {namespace})")
    }
}

impl<S: Storage> Drop for Own<'_, S> {
    fn drop(&mut self) {
        if self.directory.as_os_str().is_empty() {
            return;
        }
        let _ = self.storage.remove_file(&self.directory.join(&self.entry));
        let _ = self.storage.remove_dir(&self.directory);
    }
}

/// A time within [`LOOK_AGAIN`] that differs from process to process and from time to time.
fn pause<S: Storage>(storage: &S, now: Duration) -> Duration {
    let (least, most) = LOOK_AGAIN;
    let mix = u64::from(storage.process().pid).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(now.subsec_nanos());
    least + (most - least) * u32::try_from(mix % 64).unwrap_or(0) / 64
}

/// The lock, held until this is dropped.
struct Held<'a, S: Storage> {
    storage: &'a S,
    lock: PathBuf,
    entry: String,
    /// Where the last writer's note is.
    note: PathBuf,
    /// The same, once it is open and ours alone.
    notes: Option<S::Lock>,
}

impl<S: Storage> Guard for Held<'_, S> {
    fn note(&mut self) -> Option<Vec<u8>> {
        let mut notes = self.storage.open_lock(&self.note, LockKind::Flock).ok()?;
        // Free, unless a slow owner whose lock was broken is still at it. And who looks at this folder sees by the lock that
        // it is no data.
        let free = self.storage.try_lock(&mut notes).unwrap_or(false);
        self.notes = free.then_some(notes);
        self.storage.read_note(self.notes.as_mut()?).ok()
    }

    fn keep_note(&mut self, note: &[u8]) {
        if let Some(notes) = self.notes.as_mut() {
            // Without it the next writer parses the file.
            let _ = self.storage.write_note(notes, note);
        }
    }
}

impl<S: Storage> Drop for Held<'_, S> {
    fn drop(&mut self) {
        // Before the next one is let in, who needs it.
        self.notes = None;
        let away = loop {
            let name = format!("{}-{}", self.storage.process().pid, self.storage.serial());
            let mut away = self.lock.clone().into_os_string();
            away.push(format!(".{name}.old"));
            let away = PathBuf::from(away);
            match self.storage.rename_new(&self.lock, &away) {
                Ok(()) => break away,
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) => {}
                // Somebody has broken it, which happens to the living with --break-after alone.
                Err(_) => return,
            }
        };
        let _ = self.storage.remove_file(&away.join(&self.entry));
        let _ = self.storage.remove_dir(&away);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_its_owner() {
        let me = Process {
            host: "a host-with.dashes/é".into(),
            pid: 7,
            start: 8,
            boot: "5f6d1b9e-0000-4000-8000-000000000001".into(),
            namespace: 4_026_531_836,
        };
        let entry = entry_of(&me, 3);
        assert!(!entry.contains('/') && entry.len() < 200, "{entry}");
        assert_eq!(owner_of(&entry, &me), Some(me.clone()));
        let other = Process { host: "b".into(), boot: "c".into(), ..me.clone() };
        assert_eq!(owner_of(&entry_of(&other, 1), &me), Some(other));
        for entry in
            ["", "owner-", "owner-x-1-2-b-3-h", "owner-1-2-3", "other-1-2-3-b-4-h", "owner-99999999999-1-2-b-3-h"]
        {
            assert_eq!(owner_of(entry, &me), None, "{entry}");
        }
    }
}
