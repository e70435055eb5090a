//! The port to the file system.
//!
//! The queue does nothing to the world but through [`Storage`]. Each method is one step, or a few that no queue
//! depends on being one: the same queue code runs on the real disk ([`Disk`]) and, in the tests, on a modelled file
//! system in which every step is a point where another process may come in between.

use std::io;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

mod disk;

pub use disk::Disk;

/// A process, as the audit names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The machine's name.
    pub host: String,
    /// The process id.
    pub pid: u32,
    /// When the process started, in the system's own unit (Linux: clock ticks since boot; 0 where unknown). With the
    /// pid it names one process even after the pid is used again.
    pub start: u64,
}

/// The steps that a queue takes in the world.
///
/// Errors are those of the operating system. A call that is interrupted by a signal is repeated by the
/// implementation, never reported.
pub trait Storage {
    /// An open file, positioned by the implementation: a file opened by [`open_append`](Storage::open_append) is
    /// written at its end, any other one from its start on. Dropping it closes it.
    type File;
    /// An open lock file. Dropping it gives up the lock, if it is held, and closes the file.
    type Lock;

    /// Opens a file and reads all of it.
    ///
    /// # Errors
    /// [`io::ErrorKind::FileTooLarge`] if it is longer than `limit` bytes.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// Opens a file for writing in place and empties it; creates it if there is none.
    fn open_truncated(&self, path: &Path) -> io::Result<Self::File>;

    /// Creates a file for writing; fails if the name is taken.
    fn create_new(&self, path: &Path) -> io::Result<Self::File>;

    /// Opens a file for reading and for writing at its end; creates it if there is none.
    fn open_append(&self, path: &Path) -> io::Result<Self::File>;

    /// The last `limit` bytes of a file opened by [`open_append`](Storage::open_append), or all if it is shorter.
    fn read_tail(&self, file: &mut Self::File, limit: u64) -> io::Result<Vec<u8>>;

    /// Writes all of `bytes`, by one call if the system takes them at once.
    fn write(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;

    /// Waits until the file's bytes are on the disk (fdatasync).
    fn sync(&self, file: &mut Self::File) -> io::Result<()>;

    /// Waits until a directory's names are on the disk.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Gives a file a new name, replacing whatever had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name; fails if that is taken.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory; fails if the name is taken.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted. Names that are not UTF-8 are left out: the queue makes none.
    fn list_dir(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Opens a lock file; creates it if there is none.
    fn open_lock(&self, path: &Path) -> io::Result<Self::Lock>;

    /// Takes the lock, waiting for as long as it takes.
    fn lock(&self, lock: &mut Self::Lock) -> io::Result<()>;

    /// Takes the lock if nobody else holds it, and says whether it did.
    fn try_lock(&self, lock: &mut Self::Lock) -> io::Result<bool>;

    /// Gives the lock up.
    fn unlock(&self, lock: &mut Self::Lock) -> io::Result<()>;

    /// The time of day.
    fn now(&self) -> Timestamp;

    /// The time since some fixed moment. It never goes back.
    fn monotonic(&self) -> Duration;

    /// Waits.
    fn sleep(&self, duration: Duration);

    /// Who we are.
    fn process(&self) -> Process;

    /// A number that this process has not been given before.
    fn serial(&self) -> u64;
}
