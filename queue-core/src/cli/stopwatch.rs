//! A storage that says how long its user was kept waiting.

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
    waited: Cell<Duration>,
}

impl<S> Stopwatch<S> {
    pub(super) fn new(inner: S) -> Self {
        Stopwatch { inner, waited: Cell::default() }
    }

    /// The time since this was last asked.
    pub(super) fn take(&self) -> Duration {
        self.waited.take()
    }

    fn waiting<T>(&self, wait: impl FnOnce(&S) -> T) -> T {
        let start = Instant::now();
        let done = wait(&self.inner);
        self.waited.set(self.waited.get() + start.elapsed());
        done
    }
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
        fn lock(&self, lock: &mut Self::Lock) -> io::Result<()>;
        fn lock_within(&self, lock: Self::Lock, limit: Duration) -> io::Result<Option<Self::Lock>>;
        fn wait(&self, watch: &mut Self::Watch, limit: Duration) -> io::Result<()>;
        fn sleep(&self, duration: Duration);
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
        fn sync_dir(&self, path: &Path) -> io::Result<()>;
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
        fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
        fn exchange(&self, one: &Path, other: &Path) -> io::Result<()>;
        fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
        fn remove_file(&self, path: &Path) -> io::Result<()>;
        fn create_dir(&self, path: &Path) -> io::Result<()>;
        fn remove_dir(&self, path: &Path) -> io::Result<()>;
        fn list_dir(&self, path: &Path) -> io::Result<Vec<String>>;
        fn open_lock(&self, path: &Path, kind: LockKind) -> io::Result<Self::Lock>;
        fn try_lock(&self, lock: &mut Self::Lock) -> io::Result<bool>;
        fn unlock(&self, lock: &mut Self::Lock) -> io::Result<()>;
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
        let waited = watch.take();
        assert!(waited >= Duration::from_millis(3), "{waited:?}");
        std::thread::sleep(Duration::from_millis(3));
        watch.serial();
        assert_eq!(watch.take(), Duration::ZERO, "only what the storage waits for counts, and once");
    }
}
