//! Evidence that cannot be used as given; exit code 2.

use std::{io, path::PathBuf};

use thiserror::Error;

/// A mistake in what was given as evidence, with the way out.
#[derive(Debug, Error)]
pub enum EvidenceError {
    /// A file or folder cannot be read.
    #[error("`{}` cannot be read: {source}\n  name an existing, readable one", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An option contradicts another, or the files.
    #[error("{0}")]
    Mistake(String),
}

impl EvidenceError {
    /// An [`EvidenceError::Unreadable`].
    pub(super) fn unreadable(path: impl Into<PathBuf>, source: io::Error) -> Self {
        EvidenceError::Unreadable { path: path.into(), source }
    }
}
