//! Looking a path up as the kernel would, and noting each name looked up in the world.

use std::{
    collections::{HashSet, VecDeque},
    os::fd::{AsFd, OwnedFd},
};

use nix::{libc, unistd::Pid};
use rustix::fs::{FileType, Mode, OFlags, Stat};

use super::sandbox;

/// As many symbolic links as the kernel follows.
const MAX_LINKS: u32 = 40;

/// One name looked up in a directory of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lookup {
    /// Real inode number of the directory.
    pub dir: u64,
    /// The name.
    pub name: String,
}

/// What a path means in the moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Walk {
    /// Names looked up in directories of the world, in order. Of a path that ends in the world the last is its name.
    pub lookups: Vec<Lookup>,
    /// Real inode and mode of what the path names, if it is in the world.
    pub target: Option<(u64, u32)>,
    /// True when the path's last name lies in a directory of the world (whether or not it exists).
    pub ends_in_world: bool,
    /// Device number of what the path names.
    pub device: Option<u64>,
    /// Its real inode number.
    pub inode: Option<u64>,
    /// The absolute path with symbolic links resolved, as far as it exists.
    pub path: String,
}

impl Walk {
    /// Whether the look-up touched the world at all.
    pub(super) fn touches_world(&self) -> bool {
        !self.lookups.is_empty() || self.target.is_some()
    }

    /// The directory entry that the path's last name is.
    pub(super) fn last(&self) -> Option<&Lookup> {
        if self.ends_in_world { self.lookups.last() } else { None }
    }
}

/// A file on one of the sandbox's own file systems besides the world, whose numbers are made anew for every sandbox, or one
/// without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PrivateFile {
    /// The number that stands for it.
    pub number: u64,
    /// The device that stands for its file system.
    pub device_minor: u32,
    /// Whether it has links, whose number is hidden.
    pub linked: bool,
}

/// Looks paths up on behalf of tracees, which share the tracer's root directory.
#[derive(Debug)]
pub(super) struct Walker {
    world_device: u64,
    proc_device: u64,
    /// Devices of `/proc`, of namespaces and of the root directory, and the minor numbers that are shown for them.
    private: Vec<(u64, u32)>,
    /// The folder that a sandbox without namespaces lies in: on the world's device, but not of the world.
    shared: Option<u64>,
    /// Absolute paths that do not touch the world. What lies outside is taken to stay as it is.
    outside: HashSet<Vec<u8>>,
}

impl Walker {
    /// Must be made inside the sandbox.
    pub(super) fn new() -> std::io::Result<Self> {
        let device = |path: &str| rustix::fs::stat(path).map(|stat| stat.st_dev);
        let proc_device = device("/proc")?;
        let mut private = vec![(proc_device, 78), (device("/proc/self/ns/pid")?, 79)];
        let shared = match sandbox::shared() {
            Some(folder) => Some(rustix::fs::stat(folder)?.st_ino),
            None => {
                private.push((device("/")?, 80));
                None
            }
        };
        Ok(Walker { world_device: device(sandbox::root())?, proc_device, private, shared, outside: HashSet::new() })
    }

    /// The device number of `/proc`.
    pub(super) fn proc_device(&self) -> u64 {
        self.proc_device
    }

    /// The minor number that is shown for a device of major 0, if it is one of the sandbox's own.
    pub(super) fn shown_minor(&self, minor: u32) -> Option<u32> {
        let is_it = |device: u64| rustix::fs::major(device) == 0 && rustix::fs::minor(device) == minor;
        if is_it(self.world_device) {
            return Some(super::rewrite::DEVICE_MINOR);
        }
        self.private.iter().find(|(private, _)| is_it(*private)).map(|(_, shown)| *shown)
    }

    /// How a file on this device is shown, if it is one of the sandbox's own.
    pub(super) fn private_file(&self, device: u64, path: &str) -> Option<PrivateFile> {
        let (_, device_minor) = *self.private.iter().find(|(private, _)| *private == device)?;
        Some(PrivateFile { number: super::proc_files::number_of(path), device_minor, linked: true })
    }

    /// Whether a file or directory belongs to the world.
    pub(super) fn is_world(&self, stat: &Stat) -> bool {
        stat.st_dev == self.world_device && self.shared != Some(stat.st_ino)
    }

    /// Looks up `path` relative to directory descriptor `dir` of a task. `follow`: also a final symbolic link.
    pub(super) fn walk(&mut self, process: Pid, task: Pid, dir: i32, path: &[u8], follow: bool) -> Walk {
        let absolute = path.first() == Some(&b'/');
        if absolute && self.outside.contains(path) {
            return Walk::default();
        }
        let start = if absolute {
            "/".to_owned()
        } else if dir == libc::AT_FDCWD {
            format!("/proc/{task}/cwd")
        } else {
            format!("/proc/{task}/fd/{dir}")
        };
        let mut walk = Walk::default();
        let Ok(at) = rustix::fs::open(&*start, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
            return walk;
        };
        if !absolute {
            walk.path = read_link(&start);
        }
        self.follow(&mut walk, at, path, follow, process, task);
        // Magic links of /proc mean something else for everybody and in every moment.
        let lasting = absolute && !path.starts_with(b"/proc") && !path.starts_with(b"/dev");
        let private = walk.device.is_some_and(|on| self.private.iter().any(|(private, _)| *private == on));
        if lasting && !private && !walk.touches_world() {
            self.outside.insert(path.to_owned());
        }
        walk
    }

    fn follow(&self, walk: &mut Walk, start: OwnedFd, path: &[u8], follow: bool, process: Pid, task: Pid) {
        let mut at = start;
        let mut todo: VecDeque<Vec<u8>> = split(path).collect();
        let mut links = 0;
        if todo.is_empty() {
            self.arrive(walk, &at);
            return;
        }
        while let Some(name) = todo.pop_front() {
            let Ok(here) = rustix::fs::fstat(&at) else { return };
            let in_world = self.is_world(&here);
            let last = todo.is_empty();
            if name == b".." {
                let parent = rustix::fs::openat(&at, "..", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
                let Ok(parent) = parent else { return };
                at = parent;
                walk.path.truncate(walk.path.rfind('/').unwrap_or(0));
                if last {
                    self.arrive(walk, &at);
                }
                continue;
            }
            if in_world {
                walk.lookups.push(Lookup { dir: here.st_ino, name: String::from_utf8_lossy(&name).into_owned() });
            }
            walk.ends_in_world = last && in_world;
            // "self" is the tracer here, but the tracee is meant.
            let own = here.st_dev == self.proc_device && here.st_ino == 1;
            let real_name = match &name[..] {
                b"self" if own => process.to_string().into_bytes(),
                b"thread-self" if own => format!("{process}/task/{task}").into_bytes(),
                _ => name,
            };
            walk.path = format!("{}/{}", walk.path.trim_end_matches('/'), String::from_utf8_lossy(&real_name));
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(next) = rustix::fs::openat(&at, &real_name[..], flags, Mode::empty()) else { return };
            let Ok(stat) = rustix::fs::fstat(&next) else { return };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink && (follow || !last) {
                links += 1;
                if links > MAX_LINKS {
                    return;
                }
                if stat.st_dev == self.proc_device && here.st_ino != 1 {
                    // A magic link: it leads to the object itself, not to a name.
                    let Ok(object) =
                        rustix::fs::openat(&at, &real_name[..], OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                    else {
                        return;
                    };
                    walk.path = read_link(&walk.path);
                    at = object;
                    if last {
                        self.arrive(walk, &at);
                    }
                    continue;
                }
                let Ok(target) = rustix::fs::readlinkat(&next, "", Vec::new()) else { return };
                let target = target.into_bytes();
                walk.path.truncate(walk.path.rfind('/').unwrap_or(0));
                if target.first() == Some(&b'/') {
                    let Ok(root) = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
                        return;
                    };
                    at = root;
                    walk.path.clear();
                }
                for part in split(&target).collect::<Vec<_>>().into_iter().rev() {
                    todo.push_front(part);
                }
                continue;
            }
            at = next;
            if last {
                self.note(walk, &stat);
            }
        }
    }

    fn arrive(&self, walk: &mut Walk, at: &impl AsFd) {
        if let Ok(stat) = rustix::fs::fstat(at) {
            self.note(walk, &stat);
        }
    }

    fn note(&self, walk: &mut Walk, stat: &Stat) {
        (walk.device, walk.inode) = (Some(stat.st_dev), Some(stat.st_ino));
        walk.target = self.world_target(stat);
    }

    fn world_target(&self, stat: &Stat) -> Option<(u64, u32)> {
        self.is_world(stat).then_some((stat.st_ino, stat.st_mode))
    }
}

fn split(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    path.split(|b| *b == b'/').filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec)
}

/// Where a symbolic link leads, as text; empty when it cannot be read.
pub(super) fn read_link(path: &str) -> String {
    rustix::fs::readlink(path, Vec::new()).map_or_else(|_| String::new(), |t| t.to_string_lossy().into_owned())
}
