//! What lies beside recorded copies and says what they are.

use std::{io::Read, path::Path};

use serde::{Deserialize, Serialize};

/// Its name; no copy has one like it.
pub const MANIFEST: &str = "evidence.toml";
/// The format.
const SCHEMA: u32 = 1;
/// The largest one that is read.
const MAX: u64 = 64 * 1024;

/// What the copies in a folder are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format.
    pub schema: u32,
    /// The file that was watched.
    pub file: String,
    /// When copies were made: `after` each write.
    pub copies: String,
}

impl Manifest {
    /// Of this file's copies.
    pub fn of(file: &str) -> Manifest {
        Manifest { schema: SCHEMA, file: file.to_owned(), copies: "after".to_owned() }
    }

    /// The one of a folder, if it has one that this version understands.
    pub fn read(dir: &Path) -> Option<Manifest> {
        let path = dir.join(MANIFEST);
        // A link could lead anywhere, a pipe could block for ever.
        let plain = std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= MAX);
        let mut text = String::new();
        let file = plain.then(|| std::fs::File::open(&path).ok()).flatten()?;
        file.take(MAX).read_to_string(&mut text).ok()?;
        let manifest: Manifest = toml::from_str(&text).ok()?;
        (manifest.schema == SCHEMA && manifest.copies == "after").then_some(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(dir.path()), None);
        let manifest = Manifest::of("da\"ta/\n[x]\u{1b}.json");
        std::fs::write(dir.path().join(MANIFEST), toml::to_string(&manifest).unwrap()).unwrap();
        assert_eq!(Manifest::read(dir.path()), Some(manifest));
        for other in
            ["", "schema = 2\nfile = \"x\"\ncopies = \"after\"\n", "schema = 1\nfile = \"x\"\ncopies = \"no\"\n"]
        {
            std::fs::write(dir.path().join(MANIFEST), other).unwrap();
            assert_eq!(Manifest::read(dir.path()), None, "{other}");
        }
    }
}
