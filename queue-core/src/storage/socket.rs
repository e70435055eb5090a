//! Where a queue's writer listens.
//!
//! A socket's path may be about 100 bytes long, and a queue may lie on a file system without sockets. So it is in a
//! directory of the user's own, under a name made of the queue's path.

use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::paths::directory_of;

/// The socket of a queue file. The directory that holds it need not exist.
pub(super) fn path_of(file: &Path) -> io::Result<PathBuf> {
    let whole = fs::canonicalize(directory_of(file))?.join(file.file_name().unwrap_or_default());
    let mut hasher = DefaultHasher::new();
    whole.hash(&mut hasher);
    let user = nix::unistd::geteuid();
    let base = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    Ok(base.join(format!("queue-writers-{user}")).join(format!("{:016x}", hasher.finish())))
}

/// Makes sure that nobody else can put a socket in the place of ours.
pub(crate) fn prepare(socket: &Path) -> io::Result<()> {
    let directory = directory_of(socket);
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let meta = fs::symlink_metadata(directory)?;
    if meta.is_dir() && meta.uid() == nix::unistd::geteuid().as_raw() && meta.mode() & 0o077 == 0 {
        return Ok(());
    }
    let reason = format!("{} is not a directory of this user alone: remove it", directory.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_queue_has_one_short_path() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        let one = path_of(&dir.path().join("queue.json")).unwrap();
        assert_eq!(path_of(&dir.path().join("d/../queue.json")).unwrap(), one);
        assert_ne!(path_of(&dir.path().join("other.json")).unwrap(), one);
        assert!(path_of(&dir.path().join("missing/queue.json")).is_err());
    }
}
