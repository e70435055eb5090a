//! The open files of a task, seen through borrowed descriptors.

use std::os::fd::OwnedFd;

use nix::unistd::Pid;
use rustix::fs::{FileType, OFlags};

use super::{kernel, machine::Machine};

/// An open file of a task, seen through a borrowed descriptor.
pub(super) struct Opened {
    /// Our descriptor of the same open file description.
    pub file: OwnedFd,
    /// Real inode number.
    pub inode: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
    /// On the world's file system.
    pub world: bool,
    /// On a `/proc`.
    pub proc: bool,
    /// Device number of its file system.
    pub on: u64,
    /// Which device it is, if it is one.
    pub device: (u32, u32),
    /// Its flags, where our descriptor has others.
    flags: Option<OFlags>,
}

impl Opened {
    /// What kind of file.
    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Access mode and status flags.
    pub(super) fn flags(&self) -> OFlags {
        self.flags.or_else(|| rustix::fs::fcntl_getfl(&self.file).ok()).unwrap_or(OFlags::empty())
    }

    /// Where the next read or write will be.
    pub(super) fn position(&self) -> u64 {
        rustix::fs::tell(&self.file).unwrap_or(0)
    }

    /// A file or directory.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.kind(), FileType::RegularFile | FileType::Directory)
    }

    /// `/dev/null` and its like.
    pub(super) fn is_stateless(&self) -> bool {
        const MEMORY_DEVICES: u32 = 1;
        self.kind() == FileType::CharacterDevice && self.device.0 == MEMORY_DEVICES
    }

    /// Open for writing.
    pub(super) fn writable(&self) -> bool {
        self.flags().intersects(OFlags::WRONLY | OFlags::RDWR)
    }
}

impl Machine {
    /// Looks at an open file of a task.
    pub(super) fn inspect(&self, pid: Pid, fd: i32) -> Option<Opened> {
        let (file, flags) = match kernel::borrow_fd(&self.task(pid).pidfd, fd) {
            Ok(file) => (file, None),
            // The first thread is dead and its files are gone; this one still has them.
            Err(_) if self.task(pid).process != pid => (path_only(pid, fd)?, Some(flags_of(pid, fd)?)),
            Err(_) => return None,
        };
        let stat = rustix::fs::fstat(&file).ok()?;
        let world = self.walker.is_world(&stat);
        let proc = stat.st_dev == self.walker.proc_device();
        let device = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        let (inode, on) = (stat.st_ino, stat.st_dev);
        Some(Opened { file, inode, mode: stat.st_mode, size: stat.st_size as u64, world, proc, on, device, flags })
    }
}

/// Pipes, sockets, terminals and the descriptors that are queues of events.
pub(super) fn waits(file: &Opened) -> bool {
    !matches!(file.kind(), FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::BlockDevice)
}

/// The path by which a descriptor's file is known.
pub(super) fn path_of(pid: Pid, fd: i32) -> String {
    super::walk::read_link(&format!("/proc/{pid}/fd/{fd}"))
}

/// Whether an exec closes a descriptor.
pub(super) fn closes_on_exec(pid: Pid, fd: i32) -> bool {
    flags_of(pid, fd).is_some_and(|flags| flags.contains(OFlags::CLOEXEC))
}

/// The flags of a descriptor, close-on-exec among them.
fn flags_of(pid: Pid, fd: i32) -> Option<OFlags> {
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    let flags = info.lines().find_map(|l| l.strip_prefix("flags:"))?.trim();
    Some(OFlags::from_bits_retain(u32::from_str_radix(flags, 8).ok()?))
}

/// The file of a descriptor, to look at and no more: this works for any thread.
fn path_only(pid: Pid, fd: i32) -> Option<OwnedFd> {
    let path = format!("/proc/{pid}/fd/{fd}");
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, rustix::fs::Mode::empty()).ok()
}

/// The descriptors that a task has open.
pub(super) fn open_fds(pid: Pid) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let mut fds: Vec<i32> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    fds.sort_unstable();
    fds
}
