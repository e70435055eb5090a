//! What the last writer left in the lock file: the proof that the queue file is as we wrote it.
//!
//! If the file is still that very file, of the same length, unchanged since by the file system's clock and with the
//! same hash, then it is in the form that we write, and a task can be added without parsing it. The hash is compared
//! always, because the clock of many file systems ticks every few milliseconds and a foreign write within one tick would
//! go unseen. The note holds for one boot only: after a power cut a file may have other bytes than it had.

use serde::{Deserialize, Serialize};

use crate::audit;
use crate::document::Layout;
use crate::storage::Meta;

/// The length of every note: a shorter one would leave a part of the longer one before it.
const LENGTH: usize = 320;

/// A queue file as it was left by its last writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    schema: u64,
    boot: String,
    device: u64,
    inode: u64,
    size: u64,
    changed: i64,
    hash: u32,
    layout: Layout,
}

impl Note {
    pub(crate) fn new(boot: &str, meta: &Meta, hash: u32, layout: Layout) -> Self {
        let Meta { device, inode, size, changed, .. } = *meta;
        Note { schema: 1, boot: boot.to_owned(), device, inode, size, changed, hash, layout }
    }

    /// The note as the bytes of the lock file: a line of JSON, its sum, and blanks up to the common length.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_else(|error| unreachable!("plain fields: {error}"));
        let sum = audit::hash(&line);
        line.extend_from_slice(b" ");
        line.extend_from_slice(sum.as_bytes());
        line.resize(LENGTH.max(line.len() + 1) - 1, b' ');
        line.push(b'\n');
        line
    }

    /// Reads the bytes of a lock file. None: there is no note, or it is torn.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let line = bytes.get(..bytes.iter().position(|&byte| byte == b'\n')?)?.trim_ascii_end();
        let (note, sum) = line.split_at_checked(line.len().checked_sub(9)?)?;
        (sum[1..] == *audit::hash(note).as_bytes()).then_some(())?;
        serde_json::from_slice(note).ok().filter(|note: &Note| note.schema == 1)
    }

    /// Where the parts of the file lie, if it is proven to be as we wrote it.
    pub(crate) fn layout_of(note: &[u8], boot: &str, meta: &Meta, hash: u32) -> Option<Layout> {
        let note = Note::parse(note)?;
        let is = Note::new(boot, meta, hash, note.layout);
        (!boot.is_empty() && note == is).then_some(note.layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: Meta = Meta { device: 1, inode: 2, size: 3, changed: 4, mode: 0o644, uid: 5, gid: 6 };
    const LAYOUT: Layout = Layout { version: 7, digits: 12, end: 30, tasks: 2, plain: true };

    #[test]
    fn only_the_very_same_file_is_proven() {
        let line = Note::new("b", &META, 9, LAYOUT).to_line();
        assert_eq!(line.len(), LENGTH);
        assert_eq!(Note::layout_of(&line, "b", &META, 9), Some(LAYOUT));
        // Mode and owner do not matter; everything else does.
        assert_eq!(Note::layout_of(&line, "b", &Meta { mode: 0, uid: 0, ..META }, 9), Some(LAYOUT));
        for (boot, meta, hash) in [
            ("c", META, 9),
            ("", META, 9),
            ("b", Meta { device: 0, ..META }, 9),
            ("b", Meta { inode: 0, ..META }, 9),
            ("b", Meta { size: 0, ..META }, 9),
            ("b", Meta { changed: 0, ..META }, 9),
            ("b", META, 8),
        ] {
            assert_eq!(Note::layout_of(&line, boot, &meta, hash), None);
        }
    }

    #[test]
    fn a_torn_note_is_none() {
        let line = Note::new("b", &META, 9, LAYOUT).to_line();
        for length in 0..line.len() {
            assert_eq!(Note::parse(&line[..length]), None);
        }
        let mut other = Note::new("b", &META, 10, Layout { version: 80, ..LAYOUT }).to_line();
        let half = other.len() / 4;
        other[..half].copy_from_slice(&line[..half]);
        assert_eq!(Note::parse(&other), None);
        assert_eq!(Note::parse(b"\n"), None);
    }
}
