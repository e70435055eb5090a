//! Following a growing audit file.

use std::{
    fs::{File, Metadata},
    io::{BufReader, Seek, SeekFrom},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::{
    Fault, Inspection,
    run::{MAX_LINE, Reading},
};
use crate::evidence::{
    EvidenceError,
    source::{LineEnd, next_line, open_regular},
};

/// How often a file is looked at again.
const POLL: Duration = Duration::from_millis(100);

/// Judges a file's lines and goes on as it grows, until `stop` is set. `found` is told of each fault at once.
///
/// A line counts once its newline is there. A file that is replaced (rotated by renaming) is read to its end, then the
/// new one from its beginning; so is one that was emptied (rotated by copying).
///
/// # Errors
/// [`EvidenceError::Unreadable`] for a file that is not there at the start, or cannot be read.
pub fn follow(path: &Path, stop: &AtomicBool, found: &mut dyn FnMut(&Fault)) -> Result<Inspection, EvidenceError> {
    let unreadable = |e| EvidenceError::unreadable(path, e);
    let mut inspection = Inspection::default();
    let mut reading = Reading::default();
    let mut file = open_regular(path)?;
    let mut position = 0;
    reading.begin(path);
    loop {
        // Asked before reading: what is written after the answer is read at the next look.
        let stopped = stop.load(Ordering::Relaxed);
        let replaced = std::fs::metadata(path).ok().is_some_and(|now| !same(&file, &now));
        position = read_on(&mut file, position, stopped || replaced, &mut reading, &mut inspection, found)
            .map_err(unreadable)?;
        if stopped {
            reading.end(&mut inspection);
            return Ok(inspection);
        }
        if replaced {
            match open_regular(path) {
                Ok(new) => {
                    file = new;
                    position = 0;
                    reading.begin(path);
                }
                // Between the two renames of a rotation there is none.
                Err(_) => std::thread::sleep(POLL),
            }
            continue;
        }
        if file.metadata().map_err(unreadable)?.len() < position {
            position = 0;
            reading.begin(path);
            continue;
        }
        std::thread::sleep(POLL);
    }
}

/// Reads the whole lines from `position` on, and an unfinished one too if nothing will come after it.
fn read_on(
    file: &mut File,
    position: u64,
    last: bool,
    reading: &mut Reading,
    inspection: &mut Inspection,
    found: &mut dyn FnMut(&Fault),
) -> std::io::Result<u64> {
    file.seek(SeekFrom::Start(position))?;
    let mut from = BufReader::new(&mut *file);
    let mut line = Vec::new();
    let mut done = position;
    loop {
        let end = next_line(&mut from, &mut line, MAX_LINE)?;
        let here = from.stream_position()?;
        let unfinished = end == LineEnd::Missing || (end == LineEnd::TooLong && !ends_with_newline(&mut from, here)?);
        if end == LineEnd::Nothing || (unfinished && !last) {
            return Ok(done);
        }
        reading.line(&line, end, inspection, found);
        done = here;
    }
}

/// Whether the byte before `here` is a newline.
fn ends_with_newline(from: &mut BufReader<&mut File>, here: u64) -> std::io::Result<bool> {
    let mut byte = [0];
    from.seek(SeekFrom::Start(here.saturating_sub(1)))?;
    std::io::Read::read_exact(from, &mut byte)?;
    Ok(byte[0] == b'\n')
}

#[cfg(unix)]
fn same(file: &File, now: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|open| (open.dev(), open.ino()) == (now.dev(), now.ino()))
}

/// Without inode numbers a file counts as another when it was created at another time.
#[cfg(not(unix))]
fn same(file: &File, now: &Metadata) -> bool {
    let created = |m: &Metadata| m.created().unwrap_or(std::time::SystemTime::UNIX_EPOCH);
    file.metadata().is_ok_and(|open| created(&open) == created(now))
}
