//! The real file system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fs2::FileExt;
use jiff::Timestamp;

use super::{Process, Storage};

/// How much the first read call asks for: enough for most queues, so that they are read by one call and a second one
/// that finds the end.
const FIRST_READ: usize = 64 * 1024;

/// The file system of this machine. All values are equal: what a process remembers, it remembers once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

/// The next [`Storage::serial`]: one for the whole process, because temporary names are made of the pid and this.
static SERIAL: AtomicU64 = AtomicU64::new(0);

impl Storage for Disk {
    type File = File;
    type Lock = File;

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let mut file = retry(|| File::open(path))?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut buffer = vec![0; FIRST_READ];
        let mut filled = 0;
        loop {
            match retry(|| file.read(&mut buffer[filled..]))? {
                0 => break,
                count => filled += count,
            }
            if filled > limit {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            if filled == buffer.len() {
                buffer.resize(buffer.len() * 4, 0);
            }
        }
        buffer.truncate(filled);
        Ok(buffer)
    }

    fn open_truncated(&self, path: &Path) -> io::Result<File> {
        retry(|| File::create(path))
    }

    fn create_new(&self, path: &Path) -> io::Result<File> {
        retry(|| File::create_new(path))
    }

    fn open_append(&self, path: &Path) -> io::Result<File> {
        retry(|| OpenOptions::new().read(true).append(true).create(true).open(path))
    }

    fn read_tail(&self, file: &mut File, limit: u64) -> io::Result<Vec<u8>> {
        let length = file.seek(SeekFrom::End(0))?;
        let start = length.saturating_sub(limit);
        if length == 0 {
            return Ok(Vec::new());
        }
        file.seek(SeekFrom::Start(start))?;
        let mut tail = vec![0; usize::try_from(length - start).unwrap_or(usize::MAX)];
        let mut filled = 0;
        while filled < tail.len() {
            match retry(|| file.read(&mut tail[filled..]))? {
                0 => break,
                count => filled += count,
            }
        }
        tail.truncate(filled);
        Ok(tail)
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&self, file: &mut File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        retry(|| File::open(path))?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        retry(|| fs::rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        retry(|| fs::hard_link(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        retry(|| fs::remove_file(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        retry(|| fs::create_dir(path))
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in retry(|| fs::read_dir(path))? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open_lock(&self, path: &Path) -> io::Result<File> {
        // Never truncated and never unlinked: whoever unlinks a lock file lets two owners in, one of the old inode
        // and one of the new.
        retry(|| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path))
    }

    fn lock(&self, lock: &mut File) -> io::Result<()> {
        retry(|| FileExt::lock_exclusive(lock))
    }

    fn try_lock(&self, lock: &mut File) -> io::Result<bool> {
        match retry(|| FileExt::try_lock_exclusive(lock)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == fs2::lock_contended_error().kind() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn unlock(&self, lock: &mut File) -> io::Result<()> {
        retry(|| FileExt::unlock(lock))
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn process(&self) -> Process {
        static HOST_AND_START: OnceLock<(String, u64)> = OnceLock::new();
        let (host, start) = HOST_AND_START.get_or_init(|| (host_name(), start_time()));
        Process { host: host.clone(), pid: std::process::id(), start: *start }
    }

    fn serial(&self) -> u64 {
        SERIAL.fetch_add(1, Ordering::Relaxed)
    }
}

/// Repeats a call for as long as signals interrupt it. Neither `flock` nor the standard library's calls do so all by
/// themselves.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Field 22 of /proc/self/stat. The second field, the program's name, may hold blanks and brackets: count from its end.
fn start_time() -> u64 {
    fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|stat| {
            let after_name = &stat[stat.rfind(')')? + 1..];
            after_name.split_ascii_whitespace().nth(19)?.parse().ok()
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_stops_at_the_cap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for length in [0, 1, FIRST_READ - 1, FIRST_READ, FIRST_READ + 1, 5 * FIRST_READ] {
            fs::write(&path, vec![b'x'; length]).unwrap();
            assert_eq!(Disk.read(&path, length as u64).unwrap().len(), length);
            if length > 0 {
                let refused = Disk.read(&path, length as u64 - 1).unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
            }
        }
    }

    #[test]
    fn a_process_knows_itself() {
        let process = Disk.process();
        assert_eq!(process.pid, std::process::id());
        assert!(process.start > 0);
        assert!(Disk.serial() < Disk.serial());
    }
}
