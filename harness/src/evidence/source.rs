//! Opening evidence: plain or gzip, told apart by content and not by name.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use flate2::bufread::MultiGzDecoder;

use super::EvidenceError;

/// How much is read at once.
const BUFFER: usize = 256 * 1024;

/// Whether a file begins like a gzip stream.
pub(super) fn is_gzip(file: &mut File) -> io::Result<bool> {
    let mut magic = [0; 2];
    let mut filled = 0;
    while filled < magic.len() {
        match file.read(&mut magic[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(filled == 2 && magic == [0x1f, 0x8b])
}

/// Opens a regular file for reading from its beginning, unpacked if it is gzip.
///
/// Pipes and devices are refused: they could block for ever.
pub(super) fn open(path: &Path) -> Result<Box<dyn BufRead>, EvidenceError> {
    let unreadable = |e| EvidenceError::unreadable(path, e);
    let mut file = open_regular(path)?;
    let plain = BufReader::with_capacity(BUFFER, file.try_clone().map_err(unreadable)?);
    match is_gzip(&mut file).map_err(unreadable)? {
        true => Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(plain)))),
        false => Ok(Box::new(plain)),
    }
}

/// Opens what is a regular file, and nothing else.
pub(super) fn open_regular(path: &Path) -> Result<File, EvidenceError> {
    let unreadable = |e| EvidenceError::unreadable(path, e);
    let kind = std::fs::metadata(path).map_err(unreadable)?;
    if !kind.is_file() {
        let what = if kind.is_dir() { "a folder, not a file" } else { "no regular file" };
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, what)));
    }
    File::open(path).map_err(unreadable)
}

/// What [`next_line`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// Nothing is left.
    Nothing,
    /// A line with its newline.
    Newline,
    /// The last line, without one.
    Missing,
    /// A line longer than allowed, up to and with its newline; its beginning was kept.
    TooLong,
}

/// Reads a line into `line` (emptied first, newline cut off), keeping at most `limit` bytes.
pub(super) fn next_line(from: &mut dyn BufRead, line: &mut Vec<u8>, limit: usize) -> io::Result<LineEnd> {
    line.clear();
    let mut any = false;
    let mut too_long = false;
    loop {
        let chunk = from.fill_buf()?;
        if chunk.is_empty() {
            return Ok(match (any, too_long) {
                (_, true) => LineEnd::TooLong,
                (true, false) => LineEnd::Missing,
                (false, false) => LineEnd::Nothing,
            });
        }
        any = true;
        let newline = memchr(chunk);
        let part = &chunk[..newline.unwrap_or(chunk.len())];
        let room = limit - line.len();
        too_long |= part.len() > room;
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = newline.map_or(chunk.len(), |at| at + 1);
        from.consume(used);
        if newline.is_some() {
            return Ok(if too_long { LineEnd::TooLong } else { LineEnd::Newline });
        }
    }
}

fn memchr(chunk: &[u8]) -> Option<usize> {
    memchr::memchr(b'\n', chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_any_length_and_ending() {
        let text = b"one\n\nthree is long\nlast";
        let mut from = BufReader::with_capacity(4, &text[..]);
        let mut line = Vec::new();
        let mut seen = Vec::new();
        loop {
            let end = next_line(&mut from, &mut line, 8).unwrap();
            if end == LineEnd::Nothing {
                break;
            }
            seen.push((String::from_utf8(line.clone()).unwrap(), end));
        }
        let expected = [
            ("one", LineEnd::Newline),
            ("", LineEnd::Newline),
            ("three is", LineEnd::TooLong),
            ("last", LineEnd::Missing),
        ];
        assert_eq!(seen, expected.map(|(text, end)| (text.to_owned(), end)));
    }
}
