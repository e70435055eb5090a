//! The port to the file system.
//!
//! The queue does nothing to the world but through [`Storage`]. Each method is one step, or a few that no queue
//! depends on being one: the same queue code runs on the real disk ([`Disk`]) and, in the tests, on a modelled file
//! system in which every step is a point where another process may come in between, or the power may fail.

use std::fmt::Debug;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

mod disk;
mod machine;
pub(crate) mod socket;

pub(crate) use disk::is_same_user;
pub use disk::{Disk, DiskLock, DiskWatch};

/// A process, named so that the name never means another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The machine's name.
    pub host: String,
    /// The process id.
    pub pid: u32,
    /// When the process started, in the system's own unit (Linux: clock ticks since boot; 0 where unknown). With the
    /// pid it names one process even after the pid is used again.
    pub start: u64,
    /// Which boot of the machine this is (Linux: its boot id; empty where unknown).
    pub boot: String,
    /// The pid namespace, in which alone the pid means anything (Linux: its inode; 0 where unknown).
    pub namespace: u64,
}

/// What is known about a process that left its name somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It runs.
    Alive,
    /// It is gone for certain.
    Dead,
    /// It lives where we cannot look: on another machine, or in another pid namespace.
    Unknown,
}

/// What a file is, beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// The file system's number.
    pub device: u64,
    /// The file's number on it.
    pub inode: u64,
    /// Its length in bytes.
    pub size: u64,
    /// When it was last changed in any way (ctime), nanoseconds since 1970.
    pub changed: i64,
    /// Its permission bits.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// A kind of lock that the kernel keeps on an open file. The two do not exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockKind {
    /// flock(2).
    #[default]
    Flock,
    /// An open-file-description lock, fcntl(2) `F_OFD_SETLKW`, on the whole file.
    Ofd,
}

/// The file system that holds a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Its type, as in `ext4`.
    pub name: String,
    /// Whether it is served by another machine or another program, so that locks and renames may not be what they are
    /// on a local disk.
    pub remote: bool,
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
    /// Somebody who watches a path.
    type Watch;

    /// The file that a path means: what a symbolic link leads to (which need not exist), else the path itself.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;

    /// Opens a file and reads all of it.
    ///
    /// # Errors
    /// [`io::ErrorKind::FileTooLarge`] if it is longer than `limit` bytes.
    fn read(&self, path: &Path, limit: u64) -> io::Result<(Vec<u8>, Meta)>;

    /// What a path leads to.
    fn meta(&self, path: &Path) -> io::Result<Meta>;

    /// Opens a file for writing in place and empties it; creates it if there is none.
    fn open_truncated(&self, path: &Path) -> io::Result<Self::File>;

    /// Creates a file for writing; fails if the name is taken. It gets the owner and the mode of `like`, as far as
    /// this process may give them.
    fn create_new(&self, path: &Path, like: Option<&Meta>) -> io::Result<Self::File>;

    /// Opens a file for writing from its start on, and leaves what it holds; creates it, as
    /// [`create_new`](Storage::create_new), if there is none.
    fn open_spare(&self, path: &Path, like: Option<&Meta>) -> io::Result<Self::File>;

    /// Opens a file for reading and for writing at its end; creates it if there is none.
    fn open_append(&self, path: &Path) -> io::Result<Self::File>;

    /// The last `limit` bytes of a file opened by [`open_append`](Storage::open_append), or all if it is shorter.
    fn read_tail(&self, file: &mut Self::File, limit: u64) -> io::Result<Vec<u8>>;

    /// Writes all of `bytes`, by one call if the system takes them at once.
    fn write(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;

    /// Cuts a file off at a length.
    fn cut(&self, file: &mut Self::File, length: u64) -> io::Result<()>;

    /// What an open file is.
    fn meta_of(&self, file: &Self::File) -> io::Result<Meta>;

    /// Waits until the file's bytes are on the disk (fdatasync).
    fn sync(&self, file: &mut Self::File) -> io::Result<()>;

    /// Waits until the bytes of the file with this name are on the disk, whoever has written them.
    fn sync_file(&self, path: &Path) -> io::Result<()>;

    /// Waits until a directory's names are on the disk.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Gives a file a new name, replacing whatever had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file or directory a new name; fails if that is taken.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the name is taken.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Lets two names change places.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where the system cannot.
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()>;

    /// Gives a file a second name; fails if that is taken.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory; fails if the name is taken.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted. Names that are not UTF-8 are left out: the queue makes none.
    fn list_dir(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Opens a lock file; creates it if there is none.
    fn open_lock(&self, path: &Path, kind: LockKind) -> io::Result<Self::Lock>;

    /// Takes the lock, waiting for as long as it takes.
    fn lock(&self, lock: &mut Self::Lock) -> io::Result<()>;

    /// Takes the lock if nobody else holds it, and says whether it did.
    fn try_lock(&self, lock: &mut Self::Lock) -> io::Result<bool>;

    /// Takes the lock, waiting for so long at most; none: it was not had.
    fn lock_within(&self, lock: Self::Lock, limit: Duration) -> io::Result<Option<Self::Lock>>;

    /// Gives the lock up.
    fn unlock(&self, lock: &mut Self::Lock) -> io::Result<()>;

    /// The beginning of the lock file, which holds a note of a few hundred bytes or nothing.
    fn read_note(&self, lock: &mut Self::Lock) -> io::Result<Vec<u8>>;

    /// Overwrites the beginning of the lock file.
    fn write_note(&self, lock: &mut Self::Lock, note: &[u8]) -> io::Result<()>;

    /// Begins to watch a directory, for [`wait`](Storage::wait).
    fn watch(&self, path: &Path) -> io::Result<Self::Watch>;

    /// Waits until the watched directory has been renamed or removed or an entry in it renamed, since the watch began,
    /// but no longer than `limit`, and says whether that has happened. It may say so for no reason.
    fn wait(&self, watch: &mut Self::Watch, limit: Duration) -> io::Result<bool>;

    /// The time of day.
    fn now(&self) -> Timestamp;

    /// The time since this machine was started, sleep included; it never goes back.
    fn since_boot(&self) -> Duration;

    /// The time since some fixed moment. It never goes back.
    fn monotonic(&self) -> Duration;

    /// Waits.
    fn sleep(&self, duration: Duration);

    /// Lets others have the processor.
    fn give_way(&self);

    /// Who we are.
    fn process(&self) -> Process;

    /// Whether a process still runs.
    fn liveness(&self, process: &Process) -> Liveness;

    /// A number that this process has not been given before.
    fn serial(&self) -> u64;

    /// The file system that holds a path.
    fn file_system(&self, path: &Path) -> io::Result<FileSystem>;

    /// Where the process listens that writes a queue file for all. The directory that holds the socket need not exist.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where there are no sockets, which is what this says unless it is written anew.
    fn meeting_point(&self, _file: &Path) -> io::Result<PathBuf> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Connects to a socket, if a process of the same user listens there.
    fn dial(&self, _socket: &Path) -> io::Result<UnixStream> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
