//! The private machine in which an engine and its workers live: own process numbers, own mounts, own file system
//! for the world. It disappears with its last process, however that ends.
//!
//! The root is a small tmpfs into which everything of the real root is bound, so that the world has one absolute
//! path that no program can have been installed under, and nothing that exists is hidden by it.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Path, PathBuf},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::{Uid, chdir, getgid, getuid, pivot_root},
};

/// Where everything of a sandbox lies: its own tmpfs.
pub(super) const ROOT: &str = "/noclobber";
/// The world directory.
pub(super) const WORLD: &str = "/noclobber/world";
/// `TMPDIR` of the workers.
pub(super) const TMP: &str = "/noclobber/tmp";
/// What workers see as `/dev/shm`.
pub(super) const SHM: &str = "/noclobber/shm";
/// `NOCLOBBER_RESULTS`.
pub(super) const RESULTS: &str = "/noclobber/results";

/// Something of the kernel's that is needed and not allowed here.
#[derive(Debug, thiserror::Error)]
pub(super) enum SandboxError {
    /// Neither root nor user namespaces.
    #[error(
        "cannot make a private PID and mount namespace ({0}): this needs CAP_SYS_ADMIN or unprivileged user \
         namespaces. In Docker: `docker run --cap-add SYS_ADMIN --security-opt seccomp=unconfined \
         --security-opt apparmor=unconfined`; on a host: `sysctl user.max_user_namespaces=10000` (and on Debian or \
         Ubuntu `kernel.unprivileged_userns_clone=1`, `kernel.apparmor_restrict_unprivileged_userns=0`)"
    )]
    Namespaces(nix::Error),
    /// A step of the set-up failed.
    #[error("cannot prepare the private file system: {what}: {source}")]
    Mount {
        /// Which step.
        what: String,
        /// Why.
        source: io::Error,
    },
}

fn step<T, E: Into<io::Error>>(what: impl Into<String>, result: Result<T, E>) -> Result<T, SandboxError> {
    result.map_err(|e| SandboxError::Mount { what: what.into(), source: e.into() })
}

/// First half, in the process between caller and engine: new namespaces. Its next child is their first process.
pub(super) fn enter_namespaces() -> Result<(), SandboxError> {
    let spaces = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    let (uid, gid) = (getuid(), getgid());
    match unshare(spaces) {
        Ok(()) => return Ok(()),
        Err(nix::Error::EPERM) => unshare(spaces | CloneFlags::CLONE_NEWUSER).map_err(SandboxError::Namespaces)?,
        Err(e) => return Err(SandboxError::Namespaces(e)),
    }
    // Everybody keeps their own user number: workers must not believe that they are root.
    step("/proc/self/setgroups", fs::write("/proc/self/setgroups", "deny"))?;
    step("/proc/self/uid_map", fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")))?;
    step("/proc/self/gid_map", fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")))
}

/// Second half, in the engine (process 1 of the namespace): the private root.
pub(super) fn build_root() -> Result<(), SandboxError> {
    let none: Option<&str> = None;
    step("making mounts private", mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))?;
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let base = ["/tmp", "/mnt", "/var", "/etc"].into_iter().find(|d| Path::new(d).is_dir()).unwrap_or("/tmp");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    step("tmpfs for the root", mount(Some("tmpfs"), base, Some("tmpfs"), flags, Some("mode=755")))?;
    step("the root", chdir(base))?;
    step("the old root", fs::create_dir("old"))?;
    step("pivot_root", pivot_root(".", "old"))?;
    step("the root", chdir("/"))?;
    for entry in step("listing /", fs::read_dir("/old"))? {
        let entry = step("listing /", entry)?;
        bind_entry(&entry)?;
    }
    // The kernel refuses a fresh proc to user namespaces when parts of the visible one are masked.
    step(
        "mounting /proc of the private PID namespace (masked in this container? run it with --privileged or \
         --security-opt systempaths=unconfined)",
        mount(Some("proc"), "/proc", Some("proc"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC, none),
    )?;
    step("leaving the old root", umount2("/old", MntFlags::MNT_DETACH))?;
    step("leaving the old root", fs::remove_dir("/old"))?;
    step(ROOT, private_dir(ROOT))?;
    step("tmpfs for the world", mount(Some("tmpfs"), ROOT, Some("tmpfs"), flags, Some("mode=755")))?;
    for dir in [WORLD, TMP, SHM, RESULTS] {
        step(dir, private_dir(dir))?;
    }
    if Path::new("/dev/shm").is_dir() {
        step("/dev/shm", mount(Some(SHM), "/dev/shm", none, MsFlags::MS_BIND, none))?;
    }
    if chdir(&cwd).is_err() {
        step("the root", chdir("/"))?;
    }
    Ok(())
}

/// Puts a private copy of `path` (already made at `copy`) under its own name.
pub(super) fn cover(path: &Path, copy: &Path) -> Result<(), SandboxError> {
    let none: Option<&str> = None;
    step(path.display().to_string(), mount(Some(copy), path, none, MsFlags::MS_BIND, none))
}

fn private_dir(path: &str) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o755).create(path)
}

fn bind_entry(entry: &fs::DirEntry) -> Result<(), SandboxError> {
    let name = entry.file_name();
    let (old, new) = (entry.path(), Path::new("/").join(&name));
    let what = || format!("binding {}", new.display());
    let kind = step(what(), entry.file_type())?;
    if kind.is_symlink() {
        return step(what(), fs::read_link(&old).and_then(|target| symlink(target, &new)));
    } else if kind.is_dir() {
        step(what(), fs::create_dir(&new))?;
        if name == "proc" {
            return Ok(());
        }
    } else {
        step(what(), fs::File::create(&new))?;
    }
    let none: Option<&str> = None;
    step(what(), mount(Some(&old), &new, none, MsFlags::MS_BIND | MsFlags::MS_REC, none))
}

/// Whether this process may write where only root may.
pub(super) fn is_root() -> bool {
    Uid::effective().is_root()
}
