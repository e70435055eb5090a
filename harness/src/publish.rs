//! Writing a file as one step: whoever reads it meets the old one or the new one, never half of it.

use std::{fs, io, io::Write, path::Path};

/// Writes a file, whole or not at all. It is as readable as any file that this user makes; one that is there keeps its
/// permissions, and a link to it goes on leading there.
///
/// # Errors
/// A folder that is not there or cannot be written, a full disk, and the like.
pub(crate) fn publish(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // A temporary file is private, unless told otherwise; what reads this one is another user perhaps.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut temp = builder.tempfile_in(folder)?;
    temp.write_all(bytes)?;
    if let Ok(there) = fs::metadata(&path) {
        fs::set_permissions(temp.path(), there.permissions())?;
    }
    temp.persist(&path)?;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_new_file_is_like_any_other() {
        let dir = tempfile::tempdir().unwrap();
        let (plain, file) = (dir.path().join("plain"), dir.path().join("file"));
        fs::write(&plain, "x").unwrap();
        publish(&file, b"x").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode(), fs::metadata(&plain).unwrap().mode());
    }

    #[test]
    fn one_that_is_there_is_replaced_and_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        publish(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn nothing_is_left_behind_when_it_fails() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        assert!(publish(&dir.path().join("folder"), b"x").is_err());
        assert!(publish(&dir.path().join("no/file"), b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
