//! Kinds of faults: `kill`, `kill-one`, `errno:ENOSPC`, `short-write:N`, `short-read:N`, `split`, `pause:30s`,
//! `power-cut`.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

use super::{
    Fault, UnknownName,
    duration::{DurationError, format_duration, parse_duration},
};

/// What a fault does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// SIGKILL for all processes of the worker, before the step.
    Kill,
    /// SIGKILL for the one process whose step it is.
    KillOne,
    /// The call fails with this error and does nothing.
    Errno(&'static str, i32),
    /// The write moves only that many bytes.
    ShortWrite(u64),
    /// The read gives only that many bytes, although there are more.
    ShortRead(u64),
    /// A read or write of more than one page happens in two parts.
    Split,
    /// The worker stands still for that long, in virtual time.
    Pause(Duration),
    /// The machine loses power: what was not synced may be gone.
    PowerCut,
}

/// Why a text is no kind of fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FaultKindError {
    /// The word is none.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The number of bytes is none.
    #[error("`{}` is no number of bytes: write `short-write:N` or `short-read:N` with N from 1", .0.escape_debug())]
    Bytes(String),
    /// The pause is no duration.
    #[error(transparent)]
    Pause(#[from] DurationError),
    /// A part after the colon is missing or too much.
    #[error("`{}`: write it as `{example}`", text.escape_debug())]
    Shape {
        /// The text.
        text: String,
        /// How it is written.
        example: &'static str,
    },
}

/// Error names that can be injected, with their numbers.
const ERRNOS: [(&str, i32); 27] = [
    ("EACCES", libc::EACCES),
    ("EAGAIN", libc::EAGAIN),
    ("EBADF", libc::EBADF),
    ("EBUSY", libc::EBUSY),
    ("ECONNREFUSED", libc::ECONNREFUSED),
    ("ECONNRESET", libc::ECONNRESET),
    ("EDEADLK", libc::EDEADLK),
    ("EDQUOT", libc::EDQUOT),
    ("EEXIST", libc::EEXIST),
    ("EFBIG", libc::EFBIG),
    ("EINTR", libc::EINTR),
    ("EINVAL", libc::EINVAL),
    ("EIO", libc::EIO),
    ("EISDIR", libc::EISDIR),
    ("EMFILE", libc::EMFILE),
    ("ENAMETOOLONG", libc::ENAMETOOLONG),
    ("ENFILE", libc::ENFILE),
    ("ENOENT", libc::ENOENT),
    ("ENOLCK", libc::ENOLCK),
    ("ENOMEM", libc::ENOMEM),
    ("ENOSPC", libc::ENOSPC),
    ("ENOTDIR", libc::ENOTDIR),
    ("ENOTEMPTY", libc::ENOTEMPTY),
    ("EPERM", libc::EPERM),
    ("EPIPE", libc::EPIPE),
    ("EROFS", libc::EROFS),
    ("ESTALE", libc::ESTALE),
];

impl FromStr for FaultKind {
    type Err = FaultKindError;

    fn from_str(text: &str) -> Result<Self, FaultKindError> {
        let (word, argument) = match text.split_once(':') {
            Some((word, argument)) => (word, Some(argument)),
            None => (text, None),
        };
        let shape = |example| FaultKindError::Shape { text: text.to_owned(), example };
        match (word, argument) {
            ("kill", None) => Ok(FaultKind::Kill),
            ("kill-one", None) => Ok(FaultKind::KillOne),
            ("split", None) => Ok(FaultKind::Split),
            ("power-cut", None) => Ok(FaultKind::PowerCut),
            ("errno", Some(name)) => match ERRNOS.iter().find(|(known, _)| *known == name) {
                Some((name, number)) => Ok(FaultKind::Errno(name, *number)),
                None => Err(UnknownName::new("error name", name, ERRNOS.iter().map(|(n, _)| *n)).into()),
            },
            ("short-write", Some(bytes)) => match bytes.parse() {
                Ok(bytes @ 1..) => Ok(FaultKind::ShortWrite(bytes)),
                _ => Err(FaultKindError::Bytes(bytes.to_owned())),
            },
            ("short-read", Some(bytes)) => match bytes.parse() {
                Ok(bytes @ 1..) => Ok(FaultKind::ShortRead(bytes)),
                _ => Err(FaultKindError::Bytes(bytes.to_owned())),
            },
            ("pause", Some(duration)) => Ok(FaultKind::Pause(parse_duration(duration)?)),
            ("errno", None) => Err(shape("errno:ENOSPC")),
            ("short-write", None) => Err(shape("short-write:1")),
            ("short-read", None) => Err(shape("short-read:1")),
            ("pause", None) => Err(shape("pause:30s")),
            ("kill", Some(_)) => Err(shape("kill")),
            ("kill-one", Some(_)) => Err(shape("kill-one")),
            ("split", Some(_)) => Err(shape("split")),
            ("power-cut", Some(_)) => Err(shape("power-cut")),
            _ => {
                let known = ["kill", "kill-one", "errno:ENOSPC", "short-write:1", "split", "pause:30s", "power-cut"];
                Err(UnknownName::new("kind of fault", text, known).into())
            }
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Kill => f.write_str("kill"),
            FaultKind::KillOne => f.write_str("kill-one"),
            FaultKind::Errno(name, _) => write!(f, "errno:{name}"),
            FaultKind::ShortWrite(bytes) => write!(f, "short-write:{bytes}"),
            FaultKind::ShortRead(bytes) => write!(f, "short-read:{bytes}"),
            FaultKind::Split => f.write_str("split"),
            FaultKind::Pause(duration) => write!(f, "pause:{}", format_duration(*duration)),
            FaultKind::PowerCut => f.write_str("power-cut"),
        }
    }
}

impl Fault {
    /// What the fault does. A parsed scenario has only kinds that can be read.
    pub fn parsed_kind(&self) -> Result<FaultKind, FaultKindError> {
        self.kind.parse()
    }
}
