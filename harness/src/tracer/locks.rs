//! Advisory locks: which ones a task holds, and what taking or dropping them means for others.

use nix::{libc, unistd::Pid};

use super::memory;
use crate::world::{Access, Inode, Mode, Object, Sync};

/// A record lock request: `struct flock`, with the range made absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordRequest {
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i32,
    /// Half-open range of bytes.
    pub range: (u64, u64),
}

impl RecordRequest {
    /// Reads the structure. `position` and `size` are those of the file.
    pub(super) fn read(pid: Pid, address: u64, position: u64, size: u64) -> Option<Self> {
        let mut bytes = [0; 24];
        memory::read(pid, address, &mut bytes).ok()?;
        let short = |at: usize| i32::from(i16::from_ne_bytes([bytes[at], bytes[at + 1]]));
        let long = |at: usize| i64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let base = match short(2) {
            libc::SEEK_CUR => position,
            libc::SEEK_END => size,
            _ => 0,
        };
        let (start, len) = (base as i64 + long(8), long(16));
        let range = match len {
            0 => (start, i64::MAX),
            1.. => (start, start.saturating_add(len)),
            _ => (start + len, start),
        };
        Some(RecordRequest { kind: short(0), range: (range.0.max(0) as u64, range.1.max(0) as u64) })
    }
}

/// Who owns a record lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// A process (POSIX locks).
    Process(Pid),
    /// An open file description: the kernel says what it holds.
    Description,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    owner: Owner,
    file: u64,
    range: (u64, u64),
    exclusive: bool,
}

/// The record locks held, as far as their effect on others needs to be known. The kernel stays the judge of who gets
/// what.
#[derive(Debug, Default)]
pub(super) struct RecordLocks {
    held: Vec<Held>,
}

impl RecordLocks {
    /// Notes that a request was granted.
    pub(super) fn granted(&mut self, owner: Owner, file: u64, request: RecordRequest) {
        if owner == Owner::Description {
            return;
        }
        self.cut(owner, file, request.range);
        if request.kind != libc::F_UNLCK {
            let exclusive = request.kind == libc::F_WRLCK;
            self.held.push(Held { owner, file, range: request.range, exclusive });
        }
    }

    /// The locks of an owner on a file that overlap a range: range and exclusiveness.
    pub(super) fn of(&self, owner: Owner, file: u64, range: (u64, u64)) -> Vec<((u64, u64), bool)> {
        self.held
            .iter()
            .filter(|h| h.owner == owner && h.file == file && h.range.0 < range.1 && range.0 < h.range.1)
            .map(|h| ((h.range.0.max(range.0), h.range.1.min(range.1)), h.exclusive))
            .collect()
    }

    /// Files on which this owner holds anything.
    pub(super) fn files(&self, owner: Owner) -> Vec<u64> {
        let mut files: Vec<u64> = self.held.iter().filter(|h| h.owner == owner).map(|h| h.file).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    /// Processes other than `but` that hold a lock that excludes the request.
    pub(super) fn holders(&self, but: Pid, file: u64, request: RecordRequest) -> Vec<Pid> {
        self.held
            .iter()
            .filter(|h| h.file == file && h.range.0 < request.range.1 && request.range.0 < h.range.1)
            .filter(|h| h.exclusive || request.kind == libc::F_WRLCK)
            .filter_map(|h| match h.owner {
                Owner::Process(p) if p != but => Some(p),
                _ => None,
            })
            .collect()
    }

    /// Drops an owner's locks on a file within a range.
    pub(super) fn cut(&mut self, owner: Owner, file: u64, range: (u64, u64)) {
        let mut left = Vec::with_capacity(self.held.len());
        for h in self.held.drain(..) {
            if h.owner != owner || h.file != file || h.range.0 >= range.1 || range.0 >= h.range.1 {
                left.push(h);
                continue;
            }
            if h.range.0 < range.0 {
                left.push(Held { range: (h.range.0, range.0), ..h });
            }
            if range.1 < h.range.1 {
                left.push(Held { range: (range.1, h.range.1), ..h });
            }
        }
        self.held = left;
    }
}

/// The access of taking or giving back a lock.
pub(super) fn access(object: Object, exclusive: bool, range: Option<(u64, u64)>, sync: Option<Sync>) -> Access {
    let mode = if exclusive { Mode::Write } else { Mode::Add };
    Access { object, mode, range, sync }
}

/// The accesses of giving back record locks.
pub(super) fn release_records(file: Inode, locks: &[((u64, u64), bool)]) -> Vec<Access> {
    let object = || Object::Record(file);
    locks.iter().map(|(range, exclusive)| access(object(), *exclusive, Some(*range), Some(Sync::Free))).collect()
}

/// A lock that a descriptor's `fdinfo` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// `FLOCK`, `POSIX` or `OFDLCK`.
    pub kind: String,
    /// Nobody else may have one.
    pub exclusive: bool,
    /// Half-open range of bytes.
    pub range: (u64, u64),
}

/// The locks of the open file description (and of the process) that a descriptor's `fdinfo` shows.
pub(super) fn shown_in_fdinfo(task: Pid, fd: i32) -> Vec<Shown> {
    let Ok(info) = std::fs::read_to_string(format!("/proc/{task}/fdinfo/{fd}")) else { return Vec::new() };
    info.lines().filter_map(shown).collect()
}

fn shown(line: &str) -> Option<Shown> {
    let words: Vec<&str> = line.strip_prefix("lock:")?.split_whitespace().collect();
    // Number, kind, ADVISORY, READ or WRITE, process, file, first byte, last byte.
    let [_, kind, _, mode, .., first, last] = words[..] else { return None };
    let end = if last == "EOF" { i64::MAX as u64 } else { last.parse::<u64>().ok()?.saturating_add(1) };
    Some(Shown { kind: kind.to_owned(), exclusive: mode == "WRITE", range: (first.parse().ok()?, end) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_read_from_fdinfo() {
        let lock = |kind: &str, exclusive, range| Some(Shown { kind: kind.into(), exclusive, range });
        let whole = (0, i64::MAX as u64);
        assert_eq!(shown("lock:\t1: FLOCK  ADVISORY  WRITE 7 00:2d:5 0 EOF"), lock("FLOCK", true, whole));
        assert_eq!(shown("lock:\t2: OFDLCK ADVISORY  READ -1 00:2d:5 4 9"), lock("OFDLCK", false, (4, 10)));
        assert_eq!(shown("pos:\t0"), None);
    }

    #[test]
    fn ranges_split_and_join_as_in_the_kernel() {
        let me = Owner::Process(Pid::from_raw(7));
        let mut locks = RecordLocks::default();
        locks.granted(me, 1, RecordRequest { kind: libc::F_WRLCK, range: (0, 100) });
        locks.granted(me, 1, RecordRequest { kind: libc::F_UNLCK, range: (40, 60) });
        locks.granted(me, 1, RecordRequest { kind: libc::F_RDLCK, range: (90, 110) });
        let mut got = locks.of(me, 1, (0, u64::MAX));
        got.sort_unstable();
        assert_eq!(got, vec![((0, 40), true), ((60, 90), true), ((90, 110), false)]);
        assert_eq!(locks.of(Owner::Process(Pid::from_raw(8)), 1, (0, u64::MAX)), vec![]);
        let read = RecordRequest { kind: libc::F_RDLCK, range: (95, 96) };
        let write = RecordRequest { kind: libc::F_WRLCK, range: (95, 96) };
        assert!(locks.holders(Pid::from_raw(8), 1, read).is_empty());
        assert_eq!(locks.holders(Pid::from_raw(8), 1, write), vec![Pid::from_raw(7)]);
        assert!(locks.holders(Pid::from_raw(7), 1, write).is_empty());
    }
}
