//! A storage that says how long its user was kept waiting, and when it had the lock.

use std::cell::Cell;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::storage::{FileSystem, Liveness, LockKind, Meta, Process, Storage};

/// Another storage, with the time that was spent in waiting for locks and for other processes.
#[derive(Debug)]
pub(super) struct Stopwatch<S> {
    inner: S,
    taken: Cell<Taken>,
}

/// What was seen since it was last asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    /// The time spent in waiting.
    pub(super) waited: Duration,
    /// When the lock was had that was taken last.
    pub(super) had: Option<Instant>,
    /// When it was begun to give up the one that was given up last.
    pub(super) gave: Option<Instant>,
}

impl<S> Stopwatch<S> {
    pub(super) fn new(inner: S) -> Self {
        Stopwatch { inner, taken: Cell::default() }
    }

    /// What was seen since this was last asked.
    pub(super) fn take(&self) -> Taken {
        self.taken.take()
    }

    fn note(&self, note: impl FnOnce(&mut Taken)) {
        let mut taken = self.taken.get();
        note(&mut taken);
        self.taken.set(taken);
    }

    fn waiting<T>(&self, wait: impl FnOnce(&S) -> T) -> T {
        let start = Instant::now();
        let done = wait(&self.inner);
        self.note(|taken| taken.waited += start.elapsed());
        done
    }

    fn had<T>(&self, done: T) -> T {
        self.note(|taken| taken.had = Some(Instant::now()));
        done
    }

    fn gave(&self) {
        self.note(|taken| taken.gave = Some(Instant::now()));
    }
}

/// Whether a directory of this name is a lock.
fn is_lock(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "lockdir")
}

/// Methods that the inner storage does as they are.
macro_rules! forward {
    ($(fn $name:ident(&self $(, $argument:ident: $kind:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self $(, $argument: $kind)*) $(-> $result)? { self.inner.$name($($argument),*) })*
    };
}

/// Methods in which one waits.
macro_rules! timed {
    ($(fn $name:ident(&self $(, $argument:ident: $kind:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self $(, $argument: $kind)*) $(-> $result)? {
            self.waiting(|inner| inner.$name($($argument),*))
        })*
    };
}

impl<S: Storage> Storage for Stopwatch<S> {
    type File = S::File;
    type Lock = S::Lock;
    type Watch = S::Watch;

    timed! {
        fn wait(&self, watch: &mut Self::Watch, limit: Duration) -> io::Result<bool>;
        fn sleep(&self, duration: Duration);
    }

    fn lock(&self, lock: &mut Self::Lock) -> io::Result<()> {
        self.waiting(|inner| inner.lock(lock)).map(|()| self.had(()))
    }

    fn lock_within(&self, lock: Self::Lock, limit: Duration) -> io::Result<Option<Self::Lock>> {
        self.waiting(|inner| inner.lock_within(lock, limit)).map(|lock| lock.map(|lock| self.had(lock)))
    }

    fn unlock(&self, lock: &mut Self::Lock) -> io::Result<()> {
        self.gave();
        self.inner.unlock(lock)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        if is_lock(from) {
            self.gave();
        }
        let done = self.inner.rename_new(from, to);
        if is_lock(to) && done.is_ok() {
            self.had(());
        }
        done
    }

    forward! {
        fn resolve(&self, path: &Path) -> io::Result<PathBuf>;
        fn read(&self, path: &Path, limit: u64) -> io::Result<(Vec<u8>, Meta)>;
        fn meta(&self, path: &Path) -> io::Result<Meta>;
        fn open_truncated(&self, path: &Path) -> io::Result<Self::File>;
        fn create_new(&self, path: &Path, like: Option<&Meta>) -> io::Result<Self::File>;
        fn open_spare(&self, path: &Path, like: Option<&Meta>) -> io::Result<Self::File>;
        fn open_append(&self, path: &Path) -> io::Result<Self::File>;
        fn read_tail(&self, file: &mut Self::File, limit: u64) -> io::Result<Vec<u8>>;
        fn write(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;
        fn cut(&self, file: &mut Self::File, length: u64) -> io::Result<()>;
        fn meta_of(&self, file: &Self::File) -> io::Result<Meta>;
        fn sync(&self, file: &mut Self::File) -> io::Result<()>;
        fn sync_file(&self, path: &Path) -> io::Result<()>;
        fn sync_dir(&self, path: &Path) -> io::Result<()>;
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
        fn exchange(&self, one: &Path, other: &Path) -> io::Result<()>;
        fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
        fn remove_file(&self, path: &Path) -> io::Result<()>;
        fn create_dir(&self, path: &Path) -> io::Result<()>;
        fn remove_dir(&self, path: &Path) -> io::Result<()>;
        fn list_dir(&self, path: &Path) -> io::Result<Vec<String>>;
        fn open_lock(&self, path: &Path, kind: LockKind) -> io::Result<Self::Lock>;
        fn try_lock(&self, lock: &mut Self::Lock) -> io::Result<bool>;
        fn read_note(&self, lock: &mut Self::Lock) -> io::Result<Vec<u8>>;
        fn write_note(&self, lock: &mut Self::Lock, note: &[u8]) -> io::Result<()>;
        fn watch(&self, path: &Path) -> io::Result<Self::Watch>;
        fn now(&self) -> Timestamp;
        fn since_boot(&self) -> Duration;
        fn monotonic(&self) -> Duration;
        fn give_way(&self);
        fn process(&self) -> Process;
        fn liveness(&self, process: &Process) -> Liveness;
        fn serial(&self) -> u64;
        fn file_system(&self, path: &Path) -> io::Result<FileSystem>;
        fn meeting_point(&self, file: &Path) -> io::Result<PathBuf>;
        fn dial(&self, socket: &Path) -> io::Result<UnixStream>;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Disk;

    #[test]
    fn waiting_is_counted_and_work_is_not() {
        let watch = Stopwatch::new(Disk);
        watch.sleep(Duration::from_millis(3));
        watch.serial();
        let Taken { waited, had, gave } = watch.take();
        assert!((had, gave) == (None, None));
        assert!(waited >= Duration::from_millis(3), "{waited:?}");
        std::thread::sleep(Duration::from_millis(3));
        watch.serial();
        assert_eq!(watch.take().waited, Duration::ZERO, "only what the storage waits for counts, and once");
    }

    #[test]
    fn a_lock_is_had_and_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let watch = Stopwatch::new(Disk);
        let mut lock = watch.open_lock(&path("lock"), LockKind::Flock).unwrap();
        watch.lock(&mut lock).unwrap();
        watch.unlock(&mut lock).unwrap();
        let Taken { had, gave, .. } = watch.take();
        assert!(had.unwrap() <= gave.unwrap());

        watch.create_dir(&path("own")).unwrap();
        watch.rename_new(&path("own"), &path(".q.lockdir")).unwrap();
        watch.create_dir(&path("other")).unwrap();
        assert!(watch.rename_new(&path("other"), &path(".q.lockdir")).is_err());
        let Taken { had, gave, .. } = watch.take();
        assert!(had.is_some() && gave.is_none(), "who fails to take it does not have it");
        watch.rename_new(&path(".q.lockdir"), &path("old")).unwrap();
        assert!(watch.take().gave.is_some());
        watch.rename_new(&path("old"), &path("older")).unwrap();
        let Taken { had, gave, .. } = watch.take();
        assert!((had, gave) == (None, None), "another name is no lock");
    }
}
