//! What the last writer left in the lock file: the proof that the queue file is as we wrote it.
//!
//! If the file has the same length and hash, then it is the text that we wrote, in the form that we write, and can be
//! changed without parsing all of it. The bytes themselves are compared in this way, and not the file's inode and times: clocks
//! of file systems tick every few milliseconds, a foreign write within one tick would go unseen, and after a power cut a
//! file may have other bytes under the same name and date. The file is read in any case, and hashing it costs little.

use serde::{Deserialize, Serialize};

use crate::audit;
use crate::sealed::{seal, unseal};
use crate::splice::Layout;

/// The length of every note: a shorter one would leave a part of the longer one before it.
const LENGTH: usize = 384;

/// A queue file as it was left by its last writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    schema: u64,
    size: usize,
    /// Hexadecimal: of one length, whatever it is.
    hash: String,
    layout: Layout,
}

impl Note {
    pub(crate) fn new(size: usize, hash: u32, layout: Layout) -> Self {
        Note { schema: 2, size, hash: audit::hex(hash), layout }
    }

    /// The note as the bytes of the lock file: a line of JSON, its sum, and blanks up to the common length.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        let mut line = seal(self);
        line.resize(LENGTH.max(line.len() + 1) - 1, b' ');
        line.push(b'\n');
        line
    }

    /// Reads the bytes of a lock file. None: there is no note, or it is torn.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let line = bytes.get(..bytes.iter().position(|&byte| byte == b'\n')?)?.trim_ascii_end();
        serde_json::from_slice(unseal(line)?).ok().filter(|note: &Note| note.schema == 2)
    }

    /// Where the parts of the file lie, if it is proven to be as we wrote it.
    pub(crate) fn layout_of(note: &[u8], size: usize, hash: u32) -> Option<Layout> {
        let note = Note::parse(note)?;
        (note == Note::new(size, hash, note.layout)).then_some(note.layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splice::Span;

    const LAYOUT: Layout = Layout {
        version: 7,
        digits: 12,
        tasks: Span { begin: 20, end: 30, count: 2 },
        done: Some(Span { begin: 40, end: 50, count: 1 }),
        plain: true,
        lines: true,
    };

    #[test]
    fn only_the_very_same_text_is_proven() {
        let line = Note::new(3, 9, LAYOUT).to_line();
        assert_eq!(line.len(), LENGTH);
        assert_eq!(Note::layout_of(&line, 3, 9), Some(LAYOUT));
        assert_eq!(Note::layout_of(&line, 4, 9), None);
        assert_eq!(Note::layout_of(&line, 3, 8), None);
    }

    #[test]
    fn a_torn_note_is_none() {
        let line = Note::new(3, 9, LAYOUT).to_line();
        for length in 0..line.len() {
            assert_eq!(Note::parse(&line[..length]), None);
        }
        let mut other = Note::new(3, 10, Layout { version: 80, ..LAYOUT }).to_line();
        let half = other.len() / 6;
        other[..half].copy_from_slice(&line[..half]);
        assert_eq!(Note::parse(&other), None);
        assert_eq!(Note::parse(b"\n"), None);
    }
}
