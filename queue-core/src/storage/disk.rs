//! The real file system.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt as _, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fs2::FileExt;
use jiff::Timestamp;
use nix::fcntl::{self, AT_FDCWD, FcntlArg, RenameFlags};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::time::{ClockId, clock_gettime};

use super::{FileSystem, Liveness, LockKind, Meta, Process, Storage, machine};

/// How much the first read call asks for beyond the length that the file is said to have, so that one call reads it and
/// a second one finds the end.
const SPARE_READ: usize = 4 * 1024;

/// How many symbolic links in a row are followed; what the system itself follows.
const MAX_LINKS: usize = 40;

/// The longest note of a lock file.
const MAX_NOTE: usize = 4 * 1024;

/// The file system of this machine. All values are equal: what a process remembers, it remembers once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

/// An open lock file.
#[derive(Debug)]
pub struct DiskLock {
    file: File,
    kind: LockKind,
}

/// A watched directory. None of them is closed: that takes milliseconds, as the kernel then waits for everybody who might
/// still be at it, and it would be done by who has just been given the lock.
#[derive(Debug)]
pub struct DiskWatch(Option<Inotify>);

thread_local! {
    /// One that is not in use.
    static SPARE_WATCH: Cell<Option<Inotify>> = const { Cell::new(None) };
}

impl DiskWatch {
    fn inotify(&self) -> io::Result<&Inotify> {
        self.0.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        // At the end of a thread there may be no place for it any more.
        let _ = SPARE_WATCH.try_with(|spare| spare.set(self.0.take()));
    }
}

/// The next [`Storage::serial`]: one for the whole process, because temporary names are made of the pid and this.
static SERIAL: AtomicU64 = AtomicU64::new(0);

impl Storage for Disk {
    type File = File;
    type Lock = DiskLock;
    type Watch = DiskWatch;

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            match retry(|| fs::read_link(&path)) {
                // A target is relative to the directory of its link.
                Ok(target) => path = crate::paths::directory_of(&path).join(target),
                // It is no link, or there is nothing.
                Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                    return Ok(path);
                }
                Err(error) => return Err(error),
            }
        }
        Err(nix::errno::Errno::ELOOP.into())
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<(Vec<u8>, Meta)> {
        let mut file = retry(|| File::open(path))?;
        let meta = meta_from(&file.metadata()?);
        if meta.size > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut buffer = vec![0; usize::try_from(meta.size).unwrap_or(0) + SPARE_READ];
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
                buffer.resize(buffer.len() * 2, 0);
            }
        }
        buffer.truncate(filled);
        Ok((buffer, meta))
    }

    fn meta(&self, path: &Path) -> io::Result<Meta> {
        Ok(meta_from(&retry(|| fs::metadata(path))?))
    }

    fn open_truncated(&self, path: &Path) -> io::Result<File> {
        retry(|| File::create(path))
    }

    fn create_new(&self, path: &Path, like: Option<&Meta>) -> io::Result<File> {
        let file = retry(|| options(like).create_new(true).open(path))?;
        make_like(&file, like)?;
        Ok(file)
    }

    fn open_spare(&self, path: &Path, like: Option<&Meta>) -> io::Result<File> {
        let file = retry(|| options(like).create(true).truncate(false).open(path))?;
        make_like(&file, like)?;
        Ok(file)
    }

    fn open_append(&self, path: &Path) -> io::Result<File> {
        retry(|| OpenOptions::new().read(true).append(true).create(true).open(path))
    }

    fn read_tail(&self, file: &mut File, limit: u64) -> io::Result<Vec<u8>> {
        let length = file.seek(SeekFrom::End(0))?;
        if length == 0 {
            return Ok(Vec::new());
        }
        let start = length.saturating_sub(limit);
        let mut tail = vec![0; usize::try_from(length - start).unwrap_or(usize::MAX)];
        let mut filled = 0;
        while filled < tail.len() {
            match retry(|| file.read_at(&mut tail[filled..], start + filled as u64))? {
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

    fn cut(&self, file: &mut File, length: u64) -> io::Result<()> {
        retry(|| file.set_len(length))
    }

    fn meta_of(&self, file: &File) -> io::Result<Meta> {
        Ok(meta_from(&file.metadata()?))
    }

    fn sync(&self, file: &mut File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        retry(|| File::open(path))?.sync_data()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        retry(|| File::open(path))?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        retry(|| fs::rename(from, to))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        retry(|| Ok(fcntl::renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE)?))
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        match retry(|| Ok(fcntl::renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)?)) {
            // What a file system says that does not know the flag.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(io::ErrorKind::Unsupported.into()),
            done => done,
        }
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

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        retry(|| fs::remove_dir(path))
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in retry(|| fs::read_dir(path))? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open_lock(&self, path: &Path, kind: LockKind) -> io::Result<DiskLock> {
        // Never truncated and never unlinked: whoever unlinks a lock file lets two owners in, one of the old inode
        // and one of the new.
        let file = retry(|| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path))?;
        Ok(DiskLock { file, kind })
    }

    fn lock(&self, lock: &mut DiskLock) -> io::Result<()> {
        match lock.kind {
            LockKind::Flock => retry(|| FileExt::lock_exclusive(&lock.file)),
            LockKind::Ofd => retry(|| whole_file(&lock.file, libc::F_WRLCK, true)),
        }
    }

    fn try_lock(&self, lock: &mut DiskLock) -> io::Result<bool> {
        let tried = match lock.kind {
            LockKind::Flock => retry(|| FileExt::try_lock_exclusive(&lock.file)),
            LockKind::Ofd => retry(|| whole_file(&lock.file, libc::F_WRLCK, false)),
        };
        match tried {
            Ok(()) => Ok(true),
            // OFD locks may say EACCES too.
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    || error.raw_os_error() == fs2::lock_contended_error().raw_os_error()
                    || lock.kind == LockKind::Ofd && error.kind() == io::ErrorKind::PermissionDenied =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn lock_within(&self, mut lock: DiskLock, limit: Duration) -> io::Result<Option<DiskLock>> {
        if self.try_lock(&mut lock)? {
            return Ok(Some(lock));
        }
        if limit.is_zero() {
            return Ok(None);
        }
        // There is no lock call with a time-out, and polling would either burn the processor or wait too long. So a
        // thread waits in the kernel. What it gets too late is dropped with the channel, and dropping gives it up.
        let (send, receive) = mpsc::sync_channel(1);
        std::thread::Builder::new().name("lock-waiter".into()).spawn(move || {
            let got = Disk.lock(&mut lock).map(|()| lock);
            let _ = send.send(got);
        })?;
        match receive.recv_timeout(limit) {
            Ok(got) => got.map(Some),
            Err(_) => Ok(None),
        }
    }

    fn unlock(&self, lock: &mut DiskLock) -> io::Result<()> {
        match lock.kind {
            LockKind::Flock => retry(|| FileExt::unlock(&lock.file)),
            LockKind::Ofd => retry(|| whole_file(&lock.file, libc::F_UNLCK, false)),
        }
    }

    fn read_note(&self, lock: &mut DiskLock) -> io::Result<Vec<u8>> {
        let mut note = vec![0; MAX_NOTE];
        let count = retry(|| lock.file.read_at(&mut note, 0))?;
        note.truncate(count);
        Ok(note)
    }

    fn write_note(&self, lock: &mut DiskLock, note: &[u8]) -> io::Result<()> {
        lock.file.write_all_at(note, 0)
    }

    fn watch(&self, path: &Path) -> io::Result<DiskWatch> {
        let watch = match SPARE_WATCH.take() {
            Some(inotify) => DiskWatch(Some(inotify)),
            None => DiskWatch(Some(Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?)),
        };
        let what = AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVED_FROM;
        // Once: who has been told of the renaming need not be told of the removal that follows.
        watch.inotify()?.add_watch(path, what | AddWatchFlags::IN_ONESHOT)?;
        Ok(watch)
    }

    fn wait(&self, watch: &mut DiskWatch, limit: Duration) -> io::Result<bool> {
        let limit = u16::try_from(limit.as_millis()).unwrap_or(u16::MAX);
        let inotify = watch.inotify()?;
        let mut polled = [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::from(limit)) {
            // What has been told once is not told again.
            Ok(1..) => Ok(inotify.read_events().is_ok()),
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn since_boot(&self) -> Duration {
        clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
    }

    fn monotonic(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn give_way(&self) {
        std::thread::yield_now();
    }

    fn process(&self) -> Process {
        machine::this_process()
    }

    fn liveness(&self, process: &Process) -> Liveness {
        machine::liveness(process)
    }

    fn serial(&self) -> u64 {
        SERIAL.fetch_add(1, Ordering::Relaxed)
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        machine::file_system(path)
    }

    fn meeting_point(&self, file: &Path) -> io::Result<PathBuf> {
        super::socket::path_of(file)
    }

    fn dial(&self, path: &Path) -> io::Result<UnixStream> {
        let stream = retry(|| UnixStream::connect(path))?;
        match is_same_user(&stream) {
            true => Ok(stream),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

/// Whether the process at the other end of a socket is of our user.
pub(crate) fn is_same_user(stream: &UnixStream) -> bool {
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| peer.uid() == nix::unistd::geteuid().as_raw())
}

/// Options for a file that is to be written from its start on.
fn options(like: Option<&Meta>) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    if let Some(like) = like {
        options.mode(like.mode & 0o777);
    }
    options
}

/// Gives a file the mode and the owner of another, as far as we may. The mode that a file is created with is cut by the
/// process's mask, so it is looked at once more.
fn make_like(file: &File, like: Option<&Meta>) -> io::Result<()> {
    let Some(like) = like else {
        return Ok(());
    };
    let is = meta_from(&file.metadata()?);
    if (is.uid, is.gid) != (like.uid, like.gid) {
        // Only the superuser gives files away; a member of the group may at least keep the group. Nobody else is able
        // to, and a queue that works must not stop for it.
        let _ = std::os::unix::fs::fchown(file, Some(like.uid), Some(like.gid))
            .or_else(|_| std::os::unix::fs::fchown(file, None, Some(like.gid)));
    }
    let now = if (is.uid, is.gid) == (like.uid, like.gid) { is } else { meta_from(&file.metadata()?) };
    if now.mode != like.mode {
        retry(|| file.set_permissions(Permissions::from_mode(like.mode)))?;
    }
    Ok(())
}

fn meta_from(meta: &fs::Metadata) -> Meta {
    Meta {
        device: meta.dev(),
        inode: meta.ino(),
        size: meta.size(),
        changed: meta.ctime().saturating_mul(1_000_000_000).saturating_add(meta.ctime_nsec()),
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
    }
}

/// An open-file-description lock on all bytes there will ever be.
fn whole_file(file: &File, kind: impl Into<i32>, wait: bool) -> io::Result<()> {
    let what = libc::flock {
        l_type: i16::try_from(kind.into()).unwrap_or_default(),
        l_whence: 0,
        l_start: 0,
        l_len: 0,
        // Has to be zero.
        l_pid: 0,
    };
    let command = if wait { FcntlArg::F_OFD_SETLKW(&what) } else { FcntlArg::F_OFD_SETLK(&what) };
    fcntl::fcntl(file.as_fd(), command)?;
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_stops_at_the_cap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for length in [0, 1, SPARE_READ - 1, SPARE_READ, SPARE_READ + 1, 5 * SPARE_READ] {
            fs::write(&path, vec![b'x'; length]).unwrap();
            assert_eq!(Disk.read(&path, length as u64).unwrap().0.len(), length);
            if length > 0 {
                let refused = Disk.read(&path, length as u64 - 1).unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
            }
        }
    }

    #[test]
    fn both_kinds_of_lock_keep_the_second_one_out() {
        let dir = tempfile::tempdir().unwrap();
        for kind in [LockKind::Flock, LockKind::Ofd] {
            let path = dir.path().join(format!("{kind:?}"));
            let mut first = Disk.open_lock(&path, kind).unwrap();
            Disk.lock(&mut first).unwrap();
            let mut second = Disk.open_lock(&path, kind).unwrap();
            assert!(!Disk.try_lock(&mut second).unwrap());
            let begin = Instant::now();
            assert!(Disk.lock_within(second, Duration::from_millis(40)).unwrap().is_none());
            assert!(begin.elapsed() >= Duration::from_millis(40));
            // The waiter of the time-out may still be there. What it gets it gives up at once.
            let third = Disk.open_lock(&path, kind).unwrap();
            let waiting = std::thread::spawn(move || Disk.lock_within(third, Duration::from_secs(20)));
            std::thread::sleep(Duration::from_millis(10));
            Disk.unlock(&mut first).unwrap();
            assert!(waiting.join().unwrap().unwrap().is_some());
        }
    }

    #[test]
    fn a_link_is_followed_even_to_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("d")).unwrap();
        std::os::unix::fs::symlink("d/there", at("one")).unwrap();
        std::os::unix::fs::symlink("one", at("two")).unwrap();
        std::os::unix::fs::symlink("round", at("round")).unwrap();
        assert_eq!(Disk.resolve(&at("two")).unwrap(), at("d/there"));
        assert_eq!(Disk.resolve(&at("none")).unwrap(), at("none"));
        assert!(Disk.resolve(&at("round")).is_err());
    }

    #[test]
    fn a_new_file_takes_over_the_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old");
        fs::write(&path, "").unwrap();
        for mode in [0o600, 0o664, 0o640, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let like = Disk.meta(&path).unwrap();
            let new = dir.path().join(format!("{mode:o}"));
            Disk.create_new(&new, Some(&like)).unwrap();
            assert_eq!(Disk.meta(&new).unwrap().mode, mode);
        }
    }

    #[test]
    fn names_change_places_and_are_not_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "a").unwrap();
        fs::write(at("b"), "b").unwrap();
        Disk.exchange(&at("a"), &at("b")).unwrap();
        assert_eq!(fs::read_to_string(at("a")).unwrap(), "b");
        assert_eq!(Disk.rename_new(&at("a"), &at("b")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        Disk.rename_new(&at("a"), &at("c")).unwrap();
        assert!(!at("a").exists());
        assert!(Disk.serial() < Disk.serial());
    }
}
