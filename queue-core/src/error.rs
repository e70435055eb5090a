//! Everything that can go wrong, each with the place and the way out.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where in a text something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line, counted from 1.
    pub line: usize,
    /// Byte offset from the start of the text, counted from 0.
    pub offset: usize,
}

/// Why a text is not a queue document, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {} (byte {}): {reason}", position.line, position.offset)]
pub struct Malformed {
    /// The first place at which the text stops being a queue document.
    pub position: Position,
    /// What was found there, or what was expected.
    pub reason: String,
}

/// Why a queue operation did not happen.
///
/// Unless the variant says otherwise, the queue file is as it was before the operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The queue file does not exist, and only a push creates one.
    #[error("{}: no such queue; a push creates it, or name another one with --file", path.display())]
    Missing {
        /// The file (or, sharded, the directory) that was looked for.
        path: PathBuf,
    },
    /// The directory that should hold the queue does not exist.
    #[error("{}: no such directory for the queue; create it first, or name another queue with --file", path.display())]
    NoDirectory {
        /// The directory that was looked for.
        path: PathBuf,
    },
    /// The file is not a queue document.
    #[error(
        "{}: {malformed}; the file was left as it is: repair it by hand, or copy back the newest good one of {}",
        path.display(), snapshots.display()
    )]
    BadFile {
        /// The queue file.
        path: PathBuf,
        /// What is wrong with it.
        malformed: Malformed,
        /// The directory that holds its earlier versions, if snapshots are on.
        snapshots: PathBuf,
    },
    /// The file is longer than the size cap.
    #[error("{}: longer than the cap of {limit} bytes; raise it with --max-bytes if the file is really meant to be so large", path.display())]
    TooLarge {
        /// The queue file.
        path: PathBuf,
        /// The cap, in bytes.
        limit: u64,
    },
    /// The document is at the largest version there is.
    #[error("{}: `version` cannot grow beyond {}; set it to a smaller number by hand", path.display(), u64::MAX)]
    VersionExhausted {
        /// The queue file.
        path: PathBuf,
    },
    /// The file system refused a step.
    #[error("{}: cannot {action}: {source}{}", path.display(), way_out(source))]
    Io {
        /// What the step was, as in "cannot read the queue".
        action: &'static str,
        /// The path it was about.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The new version was published, but the system could not promise that it survives a power cut.
    #[error("{}: written, but not known to be on the disk: {source}; the operation is not acknowledged, look at the queue before repeating it", path.display())]
    NotDurable {
        /// The queue file. It holds the new version.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else held the lock for longer than the time-out.
    #[error("{}: still locked by another process after {waited:?}; wait longer with --timeout, or find the holder with `fuser`", path.display())]
    LockTimeout {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// No task has this id.
    #[error("no task {id:?}{}", if *done { ": it has been completed" } else { "; `list` shows what is there" })]
    UnknownId {
        /// The id asked for.
        id: String,
        /// Whether it was completed lately.
        done: bool,
    },
    /// Several accounts have a task of this id.
    #[error("task {id:?} is in more than one file ({}); say which one is meant with --account", names(files))]
    AmbiguousId {
        /// The id asked for.
        id: String,
        /// The queue files that hold it.
        files: Vec<PathBuf>,
    },
    /// The task is no longer held under the claim that the caller names.
    #[error("lease lost on task {id:?}: {claim} no longer holds it ({now}); do not act on its result")]
    LeaseLost {
        /// The task.
        id: String,
        /// The claim that the caller named.
        claim: String,
        /// Who holds the task now.
        now: String,
    },
    /// The queue is used with another strategy, which does not keep this one out.
    #[error("{}: this queue is used with `{used}`, which `{wanted}` does not keep out; say --strategy {used}, or change it for everybody with `queue migrate --to {wanted}`", path.display())]
    Mixed {
        /// The queue file.
        path: PathBuf,
        /// The strategy that was asked for.
        wanted: String,
        /// The strategy that the queue is used with.
        used: String,
    },
    /// The lock belongs to somebody who is alive, or of whom it cannot be said.
    #[error("{}: still locked after {waited:?} by {owner}; wait longer with --timeout{}", path.display(), if *foreign { ", or, if that process is gone for certain, remove the lock or use --break-after" } else { "" })]
    LockOwned {
        /// The lock.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
        /// Who holds it.
        owner: String,
        /// Whether the owner lives where we cannot look.
        foreign: bool,
    },
    /// Another worker has taken the account for itself.
    #[error("account {account:?} belongs to {owner}, which works with --own; stop it, or work on another account")]
    Owned {
        /// The account.
        account: String,
        /// Who has it.
        owner: String,
    },
    /// The file system is served by another machine or program.
    #[error("{}: on {name}, where locks and renames may not hold between machines; move the queue to a local disk, or accept that with --network-fs (`queue doctor` says what is known)", path.display())]
    NetworkFileSystem {
        /// The queue file.
        path: PathBuf,
        /// The file system's type.
        name: String,
    },
    /// Somebody wrote the queue without the library. A warning: the operation has happened.
    #[error("{}: written by somebody else since our last write (version {version}): `noclobber audit` shows where", path.display())]
    Foreign {
        /// The queue file.
        path: PathBuf,
        /// The version that was found.
        version: u64,
    },
    /// After a power cut the queue file was older than what was acknowledged, or damaged. A warning: the last version has been
    /// put back.
    #[error("{}: had lost its last version in a power cut; version {version} has been put back", path.display())]
    PutBack {
        /// The queue file.
        path: PathBuf,
        /// The version that it has again.
        version: u64,
    },
    /// Tasks lie in a file that is not their account's. A warning: they were passed over.
    #[error("{}: not claimed, because their account has another file: {}", path.display(), ids.join(", "))]
    Strays {
        /// The shard.
        path: PathBuf,
        /// The tasks.
        ids: Vec<String>,
    },
    /// The process that writes for all did not answer in time, or died after it was asked.
    #[error("{}: the writer has not answered; the operation may have happened or not, look at the queue before repeating it", path.display())]
    NoAnswer {
        /// The queue file.
        path: PathBuf,
    },
    /// The process that writes for all refused.
    #[error("{0}")]
    Remote(String),
    /// A task that must not be put into a queue.
    #[error("{what} {value:?} is not usable: {reason}")]
    BadTask {
        /// The part of the task: `id`, `account`, `params`.
        what: &'static str,
        /// The value, shortened.
        value: String,
        /// What to do instead.
        reason: String,
    },
    /// Arguments that do not go together.
    #[error("{0}")]
    Usage(String),
    /// The work between claim and completion could not be done.
    #[error("{what}: {source}")]
    Work {
        /// Which part of the work.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// An [`Error::Io`] about `path`.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Error::Io { action, path: path.to_owned(), source }
    }
}

/// The advice that belongs to a refusal of the file system, ready to be appended to it.
fn way_out(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "; give this user access to the queue and its directory, or name another one with --file"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room and repeat the operation",
        io::ErrorKind::ReadOnlyFilesystem => "; put the queue on a file system that can be written",
        io::ErrorKind::IsADirectory => "; name a file with --file (only `--strategy sharded` takes a directory)",
        io::ErrorKind::NotADirectory => "; `--strategy sharded` takes the directory of the shards with --file",
        _ => "",
    }
}

fn names(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
}
