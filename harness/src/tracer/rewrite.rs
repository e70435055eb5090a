//! Results of the stat family and of directory listings, rewritten in the tracee's memory so that they hold nothing
//! that depends on the machine: inode and device numbers, times, the order of a directory.

use nix::{libc, unistd::Pid};

use super::{arch::layout, calls::Times, inodes::Nanos, memory};
use crate::world::Inode;

/// The device number that files of the world show (major 0: no real device).
pub(super) const DEVICE_MINOR: u32 = 77;
/// Size that directories of the world show: real ones depend on history.
const DIRECTORY_SIZE: u64 = 4096;
/// Virtual number of the world's directory and of the one that holds it, as a first look shows it.
const ROOT_NUMBER: Inode = Inode(2);
const NANOS: u64 = 1_000_000_000;
/// In place of nanoseconds: the time is set to now.
const UTIME_NOW: u64 = (1 << 30) - 1;
/// ... or is not set.
const UTIME_OMIT: u64 = (1 << 30) - 2;

/// Rewrites a `stat` or `statx` result; returns the part of it that a program may depend on, for the trace.
pub(super) fn stat(pid: Pid, buffer: u64, extended: bool, number: Inode, times: (Nanos, Nanos)) -> Vec<u8> {
    stat_of(pid, buffer, extended, DEVICE_MINOR, number, times)
}

/// The same for a file on another device without a real one.
pub(super) fn stat_of(
    pid: Pid,
    buffer: u64,
    extended: bool,
    device_minor: u32,
    number: Inode,
    times: (Nanos, Nanos),
) -> Vec<u8> {
    let size = if extended { layout::statx::SIZE } else { layout::stat::SIZE };
    let mut bytes = vec![0; size];
    if memory::read(pid, buffer, &mut bytes).is_err() {
        return Vec::new();
    }
    let (modified, changed) = times;
    let seen = if extended {
        use layout::statx::*;
        let mode = u32::from(u16::from_ne_bytes([bytes[MODE], bytes[MODE + 1]]));
        let links = u32::from_ne_bytes(bytes[NLINK..NLINK + 4].try_into().unwrap_or_default());
        put64(&mut bytes, INO, number.0);
        put32(&mut bytes, DEV_MAJOR, 0);
        put32(&mut bytes, DEV_MINOR, device_minor);
        put64(&mut bytes, MOUNT_ID, 1);
        for (at, time) in [(ATIME, modified), (BTIME, modified), (CTIME, changed), (MTIME, modified)] {
            put64(&mut bytes, at, time / NANOS);
            put32(&mut bytes, at + 8, (time % NANOS) as u32);
        }
        hide_directory_size(&mut bytes, mode, LEN, BLOCKS);
        (mode, u64::from(links), get64(&bytes, LEN))
    } else {
        use layout::stat::*;
        let mode = u32::from_ne_bytes(bytes[MODE..MODE + 4].try_into().unwrap_or_default());
        let links = get64(&bytes, NLINK);
        put64(&mut bytes, INO, number.0);
        put64(&mut bytes, DEV, u64::from(device_minor));
        for (at, time) in [(ATIME, modified), (MTIME, modified), (CTIME, changed)] {
            put64(&mut bytes, at, time / NANOS);
            put64(&mut bytes, at + 8, time % NANOS);
        }
        hide_directory_size(&mut bytes, mode, LEN, BLOCKS);
        (mode, links, get64(&bytes, LEN))
    };
    let _ = memory::write(pid, buffer, &bytes);
    let (mode, links, len) = seen;
    let mut hashed = Vec::with_capacity(28);
    hashed.extend_from_slice(&mode.to_le_bytes());
    hashed.extend_from_slice(&links.to_le_bytes());
    hashed.extend_from_slice(&len.to_le_bytes());
    hashed.extend_from_slice(&number.0.to_le_bytes());
    hashed
}

/// The answer to a worker's first look at the world's directory: what it was at the beginning of the run, whatever has
/// happened since.
pub(super) fn first_look(pid: Pid, buffer: u64, extended: bool, epoch_us: u64) {
    let time = epoch_us * 1000;
    stat(pid, buffer, extended, ROOT_NUMBER, (time, time));
    hide_links(pid, buffer, extended);
}

/// Rewrites a `statfs` result: the file system is empty, and has no number. How full it is depends on all that others do,
/// and nobody is told of that.
pub(super) fn file_system(pid: Pid, buffer: u64) {
    use layout::statfs::*;
    let mut bytes = vec![0; SIZE];
    if memory::read(pid, buffer, &mut bytes).is_err() {
        return;
    }
    let (blocks, files) = (get64(&bytes, BLOCKS), get64(&bytes, FILES));
    for (at, value) in [(FREE, blocks), (AVAILABLE, blocks), (FILES_FREE, files), (ID, 0)] {
        put64(&mut bytes, at, value);
    }
    let _ = memory::write(pid, buffer, &bytes);
}

/// Takes the number of links, which grows with each folder, out of a result of the stat family.
pub(super) fn hide_links(pid: Pid, buffer: u64, extended: bool) {
    let (at, bytes) = if extended {
        (layout::statx::NLINK, 2u32.to_ne_bytes().to_vec())
    } else {
        (layout::stat::NLINK, 2u64.to_ne_bytes().to_vec())
    };
    let _ = memory::write(pid, buffer + at as u64, &bytes);
}

fn hide_directory_size(bytes: &mut [u8], mode: u32, len: usize, blocks: usize) {
    if mode & libc::S_IFMT == libc::S_IFDIR {
        put64(bytes, len, DIRECTORY_SIZE);
        put64(bytes, blocks, DIRECTORY_SIZE / 512);
    }
}

/// Sorts the entries of one `getdents` result by name and renumbers them; returns the names.
pub(super) fn listing(
    pid: Pid,
    buffer: u64,
    len: u64,
    wide: bool,
    mut number: impl FnMut(u64) -> Inode,
) -> Vec<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    if memory::read(pid, buffer, &mut bytes).is_err() {
        return Vec::new();
    }
    let name_at = if wide { 19 } else { 18 };
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut offsets = Vec::new();
    let mut at = 0;
    while at + name_at < bytes.len() {
        let size = usize::from(u16::from_ne_bytes([bytes[at + 16], bytes[at + 17]]));
        if size < name_at || at + size > bytes.len() {
            break;
        }
        let mut record = bytes[at..at + size].to_vec();
        let name: Vec<u8> = record[name_at..].iter().copied().take_while(|b| *b != 0).collect();
        // The parent of the world is not part of it.
        let real = get64(&record, 0);
        let shown = if name == b".." { 1 } else { number(real).0 };
        put64(&mut record, 0, shown);
        offsets.push(get64(&record, 8));
        entries.push((name, record));
        at += size;
    }
    entries.sort();
    let mut sorted = Vec::with_capacity(bytes.len());
    for ((_, record), offset) in entries.iter_mut().zip(&offsets) {
        // Where to go on belongs to the place in the buffer, not to the name.
        put64(record, 8, *offset);
        sorted.extend_from_slice(record);
    }
    let _ = memory::write(pid, buffer, &sorted);
    entries.into_iter().map(|(name, _)| name).collect()
}

/// The modification time that a utime call sets: to now (`Some(None)`), to a moment, or not at all (`None`).
pub(super) fn modified_time(pid: Pid, times: Times) -> Option<Option<Nanos>> {
    let (address, unit) = match times {
        // The second of two.
        Times::Timespec(0) | Times::Timeval(0) | Times::Utimbuf(0) => return Some(None),
        Times::Timespec(at) => (at + 16, 1),
        Times::Timeval(at) => (at + 16, 1000),
        Times::Utimbuf(at) => return memory::read_u64(pid, at + 8).ok().map(|s| Some(s.saturating_mul(NANOS))),
    };
    let (seconds, parts) = memory::read_pair(pid, address).ok()?;
    match parts {
        UTIME_OMIT if unit == 1 => None,
        UTIME_NOW if unit == 1 => Some(None),
        parts => Some(Some(seconds.saturating_mul(NANOS).saturating_add(parts.saturating_mul(unit)))),
    }
}

fn get64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}
