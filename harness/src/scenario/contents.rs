//! The default contents of a world: the caller's directory without what is made anew anyway, up to a size.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// The most bytes that are copied without `--dir`.
pub const MAX_DIR_BYTES: u64 = 64 << 20;
/// The most files that are copied without `--dir`.
pub const MAX_DIR_FILES: usize = 10_000;

/// What of a directory is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Files and links, relative, sorted.
    pub files: Vec<PathBuf>,
    /// Folders, relative, sorted: each before what it holds.
    pub dirs: Vec<PathBuf>,
    /// Bytes of all files.
    pub bytes: u64,
}

impl Contents {
    /// Whether a relative path is among them.
    pub fn contains(&self, path: &Path) -> bool {
        let has = |list: &[PathBuf]| list.binary_search_by(|known| known.as_path().cmp(path)).is_ok();
        has(&self.files) || has(&self.dirs)
    }
}

/// Why a directory cannot be the default world.
#[derive(Debug, Error)]
pub enum ContentsError {
    /// It is too much.
    #[error(
        "`{}` holds more than {what} (without .git, target, node_modules and virtual environments)\n  \
         name a smaller folder with --dir: it becomes the initial contents of the world", dir.display()
    )]
    TooMuch {
        /// The directory.
        dir: PathBuf,
        /// The limit that was reached: `64 MiB` or `10,000 files`.
        what: &'static str,
    },
    /// Something in it cannot be read.
    #[error("`{}` cannot be read: {source}\n  make it readable, or name another folder with --dir", path.display())]
    Unreadable {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Whether a folder is left out of a default world and of the search for scenarios: `.git`, `target`,
/// `node_modules`, `.noclobber`, and virtual environments (folders with a `pyvenv.cfg`).
pub(super) fn is_left_out(dir: &Path) -> bool {
    let name = dir.file_name().unwrap_or_default();
    [".git", "target", "node_modules", ".noclobber"].iter().any(|left_out| name == *left_out)
        || dir.join("pyvenv.cfg").is_file()
}

/// Lists what is copied of a directory when the user names none. Links are listed, not followed; sockets, pipes and
/// devices are left out.
pub fn contents(dir: &Path) -> Result<Contents, ContentsError> {
    let mut contents = Contents::default();
    walk(dir, Path::new(""), &mut contents)?;
    contents.files.sort();
    contents.dirs.sort();
    Ok(contents)
}

fn walk(root: &Path, below: &Path, contents: &mut Contents) -> Result<(), ContentsError> {
    let here = root.join(below);
    let unreadable = |source| ContentsError::Unreadable { path: here.clone(), source };
    let too_much = |what| ContentsError::TooMuch { dir: root.to_owned(), what };
    for entry in fs::read_dir(&here).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let relative = below.join(entry.file_name());
        let kind = entry.file_type().map_err(unreadable)?;
        // A worktree's `.git` is a file.
        if entry.file_name() == ".git" {
            continue;
        }
        if kind.is_dir() {
            if !is_left_out(&entry.path()) {
                contents.dirs.push(relative.clone());
                walk(root, &relative, contents)?;
            }
        } else if kind.is_file() || kind.is_symlink() {
            contents.bytes += entry.metadata().map_err(unreadable)?.len();
            contents.files.push(relative);
        }
        if contents.bytes > MAX_DIR_BYTES {
            return Err(too_much("64 MiB"));
        }
        if contents.files.len() + contents.dirs.len() > MAX_DIR_FILES {
            return Err(too_much("10,000 files"));
        }
    }
    Ok(())
}
