//! The private machine in which an engine and its workers live: own process numbers, own mounts, own file system
//! for the world. It disappears with its last process, however that ends.
//!
//! The root is a small tmpfs into which everything of the real root is bound, so that the world has one absolute
//! path that no program can have been installed under, and nothing that exists is hidden by it.

use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, symlink},
    },
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::{Uid, chdir, getgid, getuid, pivot_root},
};

/// Where the parts of a sandbox lie.
#[derive(Debug)]
struct Places {
    root: String,
    world: String,
    tmp: String,
    shm: String,
    results: String,
    /// Without namespaces: the folder of the file system in memory that all programs of this machine share.
    shared: Option<String>,
}

impl Places {
    fn below(root: String, shared: Option<String>) -> Self {
        let at = |name: &str| format!("{root}/{name}");
        Places { world: at("world"), tmp: at("tmp"), shm: at("shm"), results: at("results"), root, shared }
    }
}

/// Those of this process, once it is an engine.
static PLACES: OnceLock<Places> = OnceLock::new();

fn places() -> &'static Places {
    PLACES.get_or_init(|| Places::below("/noclobber".into(), None))
}

/// Where everything of the sandbox lies: its own tmpfs, or a folder of a shared one.
pub(super) fn root() -> &'static str {
    &places().root
}

/// The world directory.
pub(super) fn world() -> &'static str {
    &places().world
}

/// `TMPDIR` of the workers.
pub(super) fn tmp() -> &'static str {
    &places().tmp
}

/// What workers see as `/dev/shm`.
pub(super) fn shm() -> &'static str {
    &places().shm
}

/// `NOCLOBBER_RESULTS`.
pub(super) fn results() -> &'static str {
    &places().results
}

/// Without namespaces: the folder in which the sandbox lies and that it shares with everybody.
pub(super) fn shared() -> Option<&'static str> {
    places().shared.as_deref()
}

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
    /// No place for the world without namespaces.
    #[error("a folder for the world is needed in /dev/shm or /run/user/UID, on a file system in memory of its own")]
    NoMemory,
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
    step(root(), private_dir(root()))?;
    step("tmpfs for the world", mount(Some("tmpfs"), root(), Some("tmpfs"), flags, Some("mode=755")))?;
    make_parts()?;
    if Path::new("/dev/shm").is_dir() {
        step("/dev/shm", mount(Some(shm()), "/dev/shm", none, MsFlags::MS_BIND, none))?;
    }
    if chdir(&cwd).is_err() {
        step("the root", chdir("/"))?;
    }
    Ok(())
}

fn make_parts() -> Result<(), SandboxError> {
    for dir in [world(), tmp(), shm(), results()] {
        step(dir, private_dir(dir))?;
    }
    Ok(())
}

/// Where namespaces are not to be had: a folder of a file system in memory that others use too, which is locked as long
/// as we live. The first free one is taken, so that whoever is alone always works in the same. Returns it.
///
/// Process numbers are the machine's then, nothing can be put under another name, and what workers write outside of the
/// folder is not private.
pub(super) fn build_shared_root() -> Result<PathBuf, SandboxError> {
    let user = getuid();
    for base in ["/dev/shm".to_owned(), format!("/run/user/{user}")] {
        if !is_apart(Path::new(&base)) {
            continue;
        }
        for slot in 0..SLOTS {
            let root = format!("{base}/noclobber-{user}-{slot}");
            let Some(lock) = lock_slot(Path::new(&root)) else { continue };
            step(&*root, empty(Path::new(&root)))?;
            if PLACES.set(Places::below(root.clone(), Some(base))).is_err() {
                return step("the world", Err(io::Error::from(io::ErrorKind::AlreadyExists)));
            }
            make_parts()?;
            // Held until this process ends.
            std::mem::forget(lock);
            return Ok(root.into());
        }
    }
    Err(SandboxError::NoMemory)
}

/// How many may work side by side without namespaces.
const SLOTS: u32 = 64;

/// Whether a folder is on a file system in memory on which no programs are installed: what belongs to the world is told
/// by the device.
fn is_apart(base: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    let device = |path: &Path| rustix::fs::stat(path).ok().map(|stat| stat.st_dev);
    let own = device(base);
    rustix::fs::statfs(base).is_ok_and(|fs| fs.f_type == TMPFS)
        && own.is_some()
        && ["/", "/usr", "/tmp", "/home", "/var"].iter().all(|other| device(Path::new(other)) != own)
}

/// The lock of a folder of ours alone, made if need be. None: somebody has it, or it is not ours.
fn lock_slot(root: &Path) -> Option<OwnedFd> {
    use rustix::fs::{FlockOperation, Mode, OFlags};
    match fs::DirBuilder::new().mode(0o700).create(root) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return None,
        _ => {}
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(root, flags, Mode::empty()).ok()?;
    rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (ours, there) = (rustix::fs::fstat(&opened).ok()?, rustix::fs::stat(root).ok()?);
    let alone = ours.st_uid == getuid().as_raw() && ours.st_mode & 0o077 == 0;
    // Whoever had it before may have removed it just now.
    (alone && (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)).then_some(opened)
}

/// Removes what somebody who was killed has left.
fn empty(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    Ok(())
}

/// Removes the folder of an engine that is dying, once it is dead.
pub(super) fn remove_shared_root(root: &Path) {
    for _ in 0..1000 {
        if let Some(_lock) = lock_slot(root) {
            let _ = fs::remove_dir_all(root);
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Puts a private copy of `path` (already made at `copy`) under its own name.
pub(super) fn cover(path: &Path, copy: &Path) -> Result<(), SandboxError> {
    if shared().is_some() {
        return step(
            "a private copy under the same name needs a mount namespace, which cannot be had here",
            Err(io::Error::from(io::ErrorKind::Unsupported)),
        );
    }
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
