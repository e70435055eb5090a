//! One line per read-modify-write, in a file of its own that only grows.
//!
//! From these lines a full timeline can be pieced together: two lines with one `read` are a fork, that is, one of the
//! two writes is lost. A line is appended, by one write, after its commit; so a process that dies in between leaves a
//! file that is ahead of its last line, and whoever writes next says so by a line with `"op":"recovered"`.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::storage::{Process, Storage};

/// The number of the line format.
pub const SCHEMA: u64 = 1;

/// How much of the end is read to find the last line; the larger amounts only if the smaller holds none.
const TAILS: [u64; 3] = [4 * 1024, 256 * 1024, 16 * 1024 * 1024];

/// A state of the queue file: its version, and the hash of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The document's version; 0 for a file that does not exist.
    pub version: u64,
    /// [`hash`] of the file's bytes; of no bytes for a file that does not exist.
    pub hash: String,
}

impl Stamp {
    /// The stamp of a file that does not exist.
    pub fn absent() -> Self {
        Stamp { version: 0, hash: hash(b"") }
    }
}

/// An audit line without its closing `sum`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// [`SCHEMA`].
    pub schema: u64,
    /// When the line was made, RFC 3339.
    pub at: String,
    /// On which machine.
    pub host: String,
    /// By which process.
    pub pid: u32,
    /// When that process started (see [`Process::start`]).
    pub start: u64,
    /// The queue file, as the process was given it.
    pub file: String,
    /// What was done: `push`, `claim`, `bury`, `complete`, `extend`, `release`, `revive`, `process`, `move`, `edit`,
    /// `update`, or `recovered`.
    pub op: String,
    /// The version that was read.
    pub read: u64,
    /// The version that was written.
    pub wrote: u64,
    /// The [`hash`] of what was read.
    pub read_hash: String,
    /// The [`hash`] of what was written.
    pub wrote_hash: String,
    /// The tasks that were added, changed or removed.
    pub ids: Vec<String>,
}

/// The hash of a queue file's bytes in snapshots and audit lines: CRC-32C, eight hexadecimal digits. It tells
/// versions apart; it is no protection against forgery.
pub fn hash(bytes: &[u8]) -> String {
    hex(checksum(bytes))
}

/// [`hash`] as a number.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// A [`checksum`] as [`hash`] writes it.
pub(crate) fn hex(checksum: u32) -> String {
    format!("{checksum:08x}")
}

impl Entry {
    /// The line, newline included. `sum` is the [`hash`] of all the line's bytes before `,"sum":`.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_else(|error| unreachable!("plain fields: {error}"));
        line.truncate(line.len() - 1);
        let sum = hash(line.as_bytes());
        line.push_str(&format!(",\"sum\":\"{sum}\"}}\n"));
        line
    }

    /// Reads a line, with or without its newline. None if it is torn, altered or of another format.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let (body, sum) = line.rsplit_once(",\"sum\":\"")?;
        if sum.strip_suffix("\"}")? != hash(body.as_bytes()) {
            return None;
        }
        let entry: Entry = serde_json::from_str(&format!("{body}}}")).ok()?;
        (entry.schema == SCHEMA).then_some(entry)
    }
}

/// Where the audit lines of a queue file are: `queue.json` has `.queue.json.audit.jsonl`.
pub fn path_of(file: &Path) -> PathBuf {
    crate::paths::beside(file, ".audit.jsonl")
}

/// A committed read-modify-write, to be recorded.
#[derive(Debug)]
pub(crate) struct Commit<'a> {
    pub(crate) file: &'a Path,
    pub(crate) op: &'static str,
    pub(crate) ids: &'a [String],
    pub(crate) read: &'a Stamp,
    pub(crate) wrote: &'a Stamp,
}

/// Who wrote the version that a commit was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Somebody who leaves audit lines, as far as these tell.
    Ours,
    /// Somebody who does not: the file is no newer than the last line says, and yet another one.
    Foreign,
}

/// Appends the commit's line, and says who wrote before it.
pub(crate) fn record<S: Storage>(storage: &S, commit: &Commit<'_>) -> Result<Before, Error> {
    let path = path_of(commit.file);
    let failed = |error| Error::io("append to the audit file", &path, error);
    let mut file = storage.open_append(&path).map_err(failed)?;
    let end = read_end(storage, &mut file).map_err(failed)?;

    let process = storage.process();
    let at = storage.now();
    let mut lines = String::new();
    if end.torn {
        lines.push('\n');
    }
    let mut before = Before::Ours;
    if let Some(last) = end.last {
        if commit.read.version > last.wrote {
            // Killed between its commit and its line, as a rule. (A foreign writer that counts on looks the same.)
            let last = Stamp { version: last.wrote, hash: last.wrote_hash };
            lines.push_str(&entry(commit, &process, at, "recovered", &last, commit.read, &[]).to_line());
        } else if last.wrote_hash != commit.read.hash {
            before = Before::Foreign;
        }
    }
    lines.push_str(&entry(commit, &process, at, commit.op, commit.read, commit.wrote, commit.ids).to_line());
    storage.write(&mut file, lines.as_bytes()).map_err(failed)?;
    Ok(before)
}

fn entry(
    commit: &Commit<'_>,
    process: &Process,
    at: Timestamp,
    op: &str,
    read: &Stamp,
    wrote: &Stamp,
    ids: &[String],
) -> Entry {
    Entry {
        schema: SCHEMA,
        at: at.to_string(),
        host: process.host.clone(),
        pid: process.pid,
        start: process.start,
        file: commit.file.to_string_lossy().into_owned(),
        op: op.to_owned(),
        read: read.version,
        wrote: wrote.version,
        read_hash: read.hash.clone(),
        wrote_hash: wrote.hash.clone(),
        ids: ids.to_vec(),
    }
}

/// How an audit file ends.
struct End {
    /// The last sound line.
    last: Option<Entry>,
    /// Whether the final newline is missing: a writer died half-way through its line.
    torn: bool,
}

fn read_end<S: Storage>(storage: &S, file: &mut S::File) -> std::io::Result<End> {
    let mut torn = false;
    for limit in TAILS {
        let tail = storage.read_tail(file, limit)?;
        torn = tail.last().is_some_and(|&byte| byte != b'\n');
        let whole = (tail.len() as u64) < limit;
        // The first line of a cut-off tail may be the end of a longer one; then its sum is wrong, and it is passed over.
        let last = String::from_utf8_lossy(&tail).lines().rev().find_map(Entry::parse);
        if last.is_some() || whole {
            return Ok(End { last, torn });
        }
    }
    Ok(End { last: None, torn })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Entry {
        Entry {
            schema: SCHEMA,
            at: "2026-01-31T12:00:00.5Z".into(),
            host: "h".into(),
            pid: 7,
            start: 12,
            file: "queues/queue_a.json".into(),
            op: "push".into(),
            read: 17,
            wrote: 18,
            read_hash: hash(b"old"),
            wrote_hash: hash(b"new"),
            ids: vec!["t\"1".into()],
        }
    }

    #[test]
    fn the_line_is_the_contract() {
        let line = sample().to_line();
        let body = concat!(
            r#"{"schema":1,"at":"2026-01-31T12:00:00.5Z","host":"h","pid":7,"start":12,"file":"queues/queue_a.json","#,
            r#""op":"push","read":17,"wrote":18,"read_hash":"ffba0104","wrote_hash":"d743fc2e","ids":["t\"1"]"#
        );
        let sum = hash(body.as_bytes());
        assert_eq!(line, format!("{body},\"sum\":\"{sum}\"}}\n"));
        assert_eq!(Entry::parse(&line), Some(sample()));
    }

    #[test]
    fn crc32c_is_the_published_one() {
        assert_eq!(hash(b"123456789"), "e3069283");
        assert_eq!(Stamp::absent().hash, "00000000");
    }

    #[test]
    fn a_changed_line_is_no_line() {
        let line = sample().to_line();
        for (index, _) in line.char_indices().filter(|&(index, _)| index + 1 < line.len()) {
            let mut altered = line.clone().into_bytes();
            altered[index] ^= 1;
            let altered = String::from_utf8(altered).unwrap();
            assert_eq!(Entry::parse(&altered), None, "{altered}");
            assert_eq!(Entry::parse(&line[..index]), None);
        }
    }
}
