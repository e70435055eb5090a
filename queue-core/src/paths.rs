//! The names of a queue's companion files.
//!
//! Beside `queue.json` lie `.queue.json.lock`, `.queue.json.audit.jsonl`, the directory `.queue.json.snapshots`, and
//! for a moment `.queue.json.<pid>-<n>.tmp`; while a writer is busy, also `.queue.json.redo-0` and `.queue.json.redo-1`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The hidden companion of `file` with this suffix.
pub(crate) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(suffix);
    file.with_file_name(name)
}

/// The directory that holds `file`, in a form that can be opened.
pub(crate) fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_lie_beside_the_file() {
        assert_eq!(beside(Path::new("queue.json"), ".lock"), Path::new(".queue.json.lock"));
        assert_eq!(beside(Path::new("a/b.json"), ".lock"), Path::new("a/.b.json.lock"));
        assert_eq!(directory_of(Path::new("queue.json")), Path::new("."));
        assert_eq!(directory_of(Path::new("/q")), Path::new("/"));
    }
}
