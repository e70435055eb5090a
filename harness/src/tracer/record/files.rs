//! Which paths are watched, and where a path of a process leads.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use nix::{libc, unistd::Pid};

use crate::tracer::{calls::At, memory};

/// Folders whose files are no data of anybody.
const LEFT_OUT: [&str; 9] =
    [".git", ".hg", ".svn", "node_modules", "target", "__pycache__", "venv", ".venv", ".noclobber"];

/// The paths that are watched.
#[derive(Debug)]
pub(super) struct Watched {
    /// The folder below which files are watched if none are named; without links.
    root: PathBuf,
    /// The files that are named, without links.
    named: Vec<PathBuf>,
    /// The names by which they may be opened.
    names: Vec<Vec<u8>>,
    /// Where evidence goes: never watched.
    out: PathBuf,
}

impl Watched {
    /// `root` is the current folder, `files` what was named, `out` where evidence goes.
    pub(super) fn new(root: &Path, files: &[PathBuf], out: &Path) -> Watched {
        let named: Vec<PathBuf> = files.iter().map(|file| real(&root.join(file))).collect();
        let name = |path: &PathBuf| path.file_name().map(|name| name.as_bytes().to_vec());
        let names = named.iter().chain(files).filter_map(name).collect();
        Watched { root: root.to_owned(), named, names, out: real(&root.join(out)) }
    }

    /// Whether the files were named.
    pub(super) fn is_named(&self) -> bool {
        !self.named.is_empty()
    }

    /// Whether a path without links is watched.
    pub(super) fn has(&self, path: &Path) -> bool {
        if path.starts_with(&self.out) {
            return false;
        }
        if self.is_named() {
            return self.named.iter().any(|named| named == path);
        }
        let Ok(below) = path.strip_prefix(&self.root) else { return false };
        let mut folders = below.parent().map(Path::components).into_iter().flatten();
        !folders.any(|folder| LEFT_OUT.iter().any(|out| folder == Component::Normal(OsStr::new(out))))
    }

    /// Whether a path as a program wrote it may lead to a watched file: a look at the text alone, which spares the
    /// hundreds of libraries that a program opens a second look.
    pub(super) fn may_have(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        if self.is_named() {
            return self.names.iter().any(|known| known == name);
        }
        !path.starts_with(b"/") || path.starts_with(self.root.as_os_str().as_bytes())
    }

    /// A path as it is shown: relative to the current folder if it is in it.
    pub(super) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned()
    }
}

/// A path without links, whether or not its last part is there.
pub(super) fn real(path: &Path) -> PathBuf {
    if let Ok(whole) = std::fs::canonicalize(path) {
        return whole;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => match std::fs::canonicalize(parent) {
            Ok(parent) => parent.join(name),
            Err(_) => path.to_owned(),
        },
        _ => path.to_owned(),
    }
}

/// As [`real`], but a link at the end stays: renames and unlinks are about the link itself.
pub(super) fn real_entry(path: &Path) -> PathBuf {
    match (path.parent().map(std::fs::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// The text of a path in a task's memory.
pub(super) fn text(pid: Pid, at: At) -> Vec<u8> {
    memory::read_path(pid, at.path)
}

/// A path of a task as one that we can use.
pub(super) fn ours(pid: Pid, dir: i32, text: &[u8]) -> PathBuf {
    let path = Path::new(OsStr::from_bytes(text));
    if path.is_absolute() {
        return path.to_owned();
    }
    let base = match dir {
        libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
        fd => format!("/proc/{pid}/fd/{fd}"),
    };
    Path::new(&base).join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir(root.join("data")).unwrap();
        std::fs::write(root.join("data/real.json"), "").unwrap();
        std::os::unix::fs::symlink("data/real.json", root.join("link.json")).unwrap();
        let all = Watched::new(&root, &[], Path::new("evidence"));
        for (path, expected) in [
            ("q.json", true),
            ("data/q.json", true),
            (".env", true),
            (".git/index", false),
            ("web/node_modules/x/y.json", false),
            ("evidence/q.json/audit.jsonl", false),
            ("/etc/passwd", false),
        ] {
            assert_eq!(all.has(&root.join(path)), expected, "{path}");
        }
        assert!(all.may_have(b"x") && all.may_have(root.join("x").as_os_str().as_bytes()) && !all.may_have(b"/lib/x"));
        let one = Watched::new(&root, &["link.json".into()], Path::new("evidence"));
        assert!(one.has(&root.join("data/real.json")) && !one.has(&root.join("other.json")));
        assert!(one.may_have(b"link.json") && one.may_have(b"/x/real.json") && !one.may_have(b"other.json"));
        assert_eq!(real(&root.join("link.json")), root.join("data/real.json"));
        assert_eq!(real_entry(&root.join("link.json")), root.join("link.json"));
    }
}
