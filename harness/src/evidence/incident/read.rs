//! Reading the bytes of copies, with limits.

use std::io::Read;

use super::{
    copies::{Copy, Place},
    git::{Blobs, GitPath},
};
use crate::evidence::source::open;

/// The largest copy, unpacked; a larger one counts as unreadable.
pub(super) const MAX_COPY: u64 = 256 << 20;

/// Gives out the bytes of copies.
#[derive(Debug, Default)]
pub(super) struct Reader {
    git: Option<GitPath>,
    blobs: Option<Blobs>,
}

/// The bytes of a copy, and what kept it from being read to its end.
pub(super) struct Bytes {
    pub(super) bytes: Vec<u8>,
    pub(super) cut_off: Option<String>,
}

impl Reader {
    pub(super) fn new(git: Option<&GitPath>) -> Self {
        Reader { git: git.cloned(), blobs: None }
    }

    pub(super) fn read(&mut self, copy: &Copy) -> Bytes {
        let mut bytes = Vec::new();
        let failed = match &copy.place {
            Place::File(path) => match open(path) {
                Ok(from) => match from.take(MAX_COPY + 1).read_to_end(&mut bytes) {
                    Ok(_) if bytes.len() as u64 > MAX_COPY => Some(format!("larger than {MAX_COPY} bytes")),
                    Ok(_) => None,
                    Err(e) => Some(e.to_string()),
                },
                Err(_) => Some("it cannot be opened".to_owned()),
            },
            Place::Blob(blob) => match self.blob(blob) {
                Ok(read) => {
                    bytes = read;
                    None
                }
                Err(e) => Some(e.to_string()),
            },
        };
        if bytes.len() as u64 > MAX_COPY {
            bytes = Vec::new();
        }
        Bytes { bytes, cut_off: failed }
    }

    fn blob(&mut self, blob: &str) -> std::io::Result<Vec<u8>> {
        if self.blobs.is_none() {
            let git = self.git.as_ref().ok_or_else(|| std::io::Error::other("no repository"))?;
            self.blobs = Some(Blobs::open(git)?);
        }
        self.blobs.as_mut().expect("it was opened").read(blob, MAX_COPY)
    }
}
