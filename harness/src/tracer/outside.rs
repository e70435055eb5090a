//! What workers do outside the world: not controlled, but noticed, so that no verdict rests on it.

use std::path::{Path, PathBuf};

use nix::{libc, unistd::Pid};

use super::{
    calls::{At, Call},
    machine::Machine,
    memory, sandbox,
    syscalls::places,
};
use crate::world::WarningKind;

/// Places whose change nobody else can see, or that stand for devices.
const HARMLESS: [&str; 3] = ["/dev/", "/proc/", "/sys/"];

impl Machine {
    /// The name of a task's actor in warnings: `{actor}` is replaced by the worker's name when the run is reported.
    pub(super) fn actor_name(&self, pid: Pid) -> String {
        format!("{{{}}}", self.task(pid).actor)
    }

    /// Notes a call on a path outside the world if it changes something there.
    pub(super) fn note_outside(&mut self, pid: Pid, call: &Call) {
        let changes = match *call {
            Call::Open { flags, .. } => {
                flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0
            }
            Call::Truncate { .. }
            | Call::Rename { .. }
            | Call::Link { .. }
            | Call::Symlink { .. }
            | Call::Unlink { .. }
            | Call::Rmdir { .. }
            | Call::Mkdir { .. }
            | Call::Mknod { .. }
            | Call::Chmod { .. }
            | Call::Utime { .. }
            | Call::XattrSet { .. } => true,
            _ => false,
        };
        if !changes {
            return;
        }
        for (at, _) in places(call).into_iter().flatten() {
            let path = outside_path(pid, at);
            // A call that cannot succeed changes nothing: no such directory, or no permission.
            let may = match call {
                Call::Open { flags, .. } if flags & libc::O_CREAT == 0 => may_write(&path),
                Call::Mkdir { .. } if path.exists() => false,
                Call::Open { .. } if path.exists() => may_write(&path),
                Call::Unlink { .. } | Call::Rmdir { .. } if path.symlink_metadata().is_err() => false,
                _ => path.parent().is_some_and(may_write),
            };
            if may {
                self.changed_outside(pid, path);
            }
        }
    }

    /// Notes that a program does not get the rights that its file gives: whoever has a filter cannot gain any.
    pub(super) fn note_privileges(&mut self, pid: Pid, at: At) {
        use std::os::unix::fs::MetadataExt;
        let path = outside_path(pid, at);
        let Ok(meta) = std::fs::metadata(&path) else { return };
        let user = meta.mode() & libc::S_ISUID != 0 && meta.uid() != nix::unistd::geteuid().as_raw();
        let group = meta.mode() & libc::S_ISGID != 0 && meta.gid() != nix::unistd::getegid().as_raw();
        if user || group {
            let name = self.actor_name(pid);
            let text =
                format!("{name} runs {}, which does not get the rights of its owner here (setuid)", path.display());
            self.warn(WarningKind::NotControlled, text);
        }
    }

    /// Notes a write through a descriptor of a file outside the world.
    pub(super) fn note_outside_fd(&mut self, pid: Pid, fd: i32) {
        let path = PathBuf::from(super::walk::read_link(&format!("/proc/{pid}/fd/{fd}")));
        self.changed_outside(pid, path);
    }

    fn changed_outside(&mut self, pid: Pid, path: PathBuf) {
        let text = path.to_string_lossy().into_owned();
        // Nameless memory files are nobody else's.
        if HARMLESS.iter().any(|h| text.starts_with(h)) || text.starts_with("/memfd:") || !text.starts_with('/') {
            return;
        }
        let actor = self.task(pid).actor;
        if self.outside.insert(path, actor).is_none() {
            let name = self.actor_name(pid);
            self.warn(
                WarningKind::NotControlled,
                format!("{name} changes {text}, outside the world: name it with --watch {text}"),
            );
        }
    }

    /// Without namespaces the file system in memory is everybody's: what workers do there outlives a run.
    pub(super) fn warn_shared_path(&mut self, pid: Pid, path: &str) {
        if let Some(shared) = sandbox::shared()
            && path.strip_prefix(shared).is_some_and(|rest| rest.starts_with('/'))
            && !Path::new(path).starts_with(sandbox::root())
        {
            let name = self.actor_name(pid);
            let text = format!("{name} uses {path}, which is not private where no namespaces are to be had");
            self.warn(WarningKind::NotControlled, text);
        }
    }

    /// Notes a lock on a file outside the world.
    pub(super) fn warn_outside_lock(&mut self, pid: Pid, fd: i32) {
        let path = super::walk::read_link(&format!("/proc/{pid}/fd/{fd}"));
        let name = self.actor_name(pid);
        self.warn(
            WarningKind::NotControlled,
            format!("{name} locks {path}, outside the world: name it with --watch {path}"),
        );
    }
}

/// A path as a task means it.
pub(super) fn outside_path(pid: Pid, at: At) -> PathBuf {
    let name = memory::read_path(pid, at.path);
    let name = PathBuf::from(String::from_utf8_lossy(&name).into_owned());
    let base = if at.dir == libc::AT_FDCWD { "cwd".to_owned() } else { format!("fd/{}", at.dir) };
    PathBuf::from(super::walk::read_link(&format!("/proc/{pid}/{base}"))).join(name)
}

fn may_write(path: impl AsRef<std::path::Path>) -> bool {
    rustix::fs::access(path.as_ref(), rustix::fs::Access::WRITE_OK).is_ok()
}
