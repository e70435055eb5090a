//! The folder that evidence is written to.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

use super::{Base, MANIFEST, Manifest, Written};

/// The audit lines of a file, and those before them.
const AUDIT: [&str; 2] = ["audit.jsonl", "audit.1.jsonl"];
/// The longest name of a folder that is made of a file's path.
const MAX_NAME: usize = 120;

/// Evidence cannot be written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The folder is in use.
    #[error("--out: `{}` is there already\n  name a folder that is not, or remove it", .0.display())]
    Exists(PathBuf),
    /// The disk says no.
    #[error("evidence cannot be written to `{}`: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What evidence may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Copies of one file; the oldest go.
    pub copies: usize,
    /// Bytes of all copies; the oldest of the file that has most go.
    pub bytes: u64,
    /// Bytes of one file's audit lines, twice: then the oldest go.
    pub lines: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { copies: 1_000, bytes: 1 << 30, lines: 32 << 20 }
    }
}

/// What a version is: its bytes, or why there are none.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// The file was removed.
    Removed,
    /// It is too large to be copied.
    TooLarge,
}

/// Evidence of one file.
#[derive(Debug)]
struct Evidence {
    dir: PathBuf,
    file: String,
    extension: &'static str,
    audit: File,
    audit_bytes: u64,
    copies: VecDeque<(String, u64)>,
    bytes: u64,
    last: Timestamp,
    serial: u64,
    /// The hashes of the newest versions, by number.
    hashes: BTreeMap<u64, String>,
}

/// Evidence of any number of files, in a folder that only its owner can look into.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    limits: Limits,
    host: String,
    files: BTreeMap<usize, Evidence>,
    dropped: u64,
}

impl Store {
    /// Makes the folder, which must not be there.
    pub fn create(root: &Path, host: &str, limits: Limits) -> Result<Store, StoreError> {
        if let Some(parent) = root.parent().filter(|p| !p.as_os_str().is_empty()) {
            make(parent, true)?;
        }
        match make(root, false) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                return Err(StoreError::Exists(root.to_owned()));
            }
            made => made?,
        }
        Ok(Store { root: root.to_owned(), limits, host: host.to_owned(), files: BTreeMap::new(), dropped: 0 })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Copies that were removed to stay within the limits.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The folder of a file's evidence.
    pub fn dir_of(&self, key: usize) -> Option<&Path> {
        self.files.get(&key).map(|evidence| &*evidence.dir)
    }

    /// Begins the evidence of a file, named by its path.
    pub fn begin(&mut self, key: usize, file: &str) -> Result<(), StoreError> {
        let name = folder_name(file);
        let mut dir = self.root.join(&name);
        let mut number = 1;
        loop {
            match make(&dir, false) {
                Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    dir = self.root.join(format!("{name}~{number}"));
                }
                made => break made?,
            }
        }
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Io { path, source }
        };
        let manifest = dir.join(MANIFEST);
        let text = toml::to_string(&Manifest::of(file)).map_err(|e| failed(&manifest)(io::Error::other(e)))?;
        private(&manifest).and_then(|mut f| f.write_all(text.as_bytes())).map_err(failed(&manifest))?;
        let audit = dir.join(AUDIT[0]);
        let evidence = Evidence {
            audit: private(&audit).map_err(failed(&audit))?,
            dir,
            file: file.to_owned(),
            extension: if file.to_lowercase().ends_with(".json") { "json" } else { "copy" },
            audit_bytes: 0,
            copies: VecDeque::new(),
            bytes: 0,
            last: Timestamp::MIN,
            serial: 0,
            hashes: BTreeMap::from([(0, hash(b""))]),
        };
        self.files.insert(key, evidence);
        Ok(())
    }

    /// Removes the evidence of a file.
    pub fn discard(&mut self, key: usize) {
        if let Some(evidence) = self.files.remove(&key) {
            // What cannot be removed stays: it does no harm.
            let _ = fs::remove_dir_all(&evidence.dir);
        }
    }

    /// Keeps a version: a copy, if there are bytes, and its line.
    pub fn version(
        &mut self,
        key: usize,
        (pid, start): (u64, u64),
        op: &str,
        base: Base,
        wrote: u64,
        source: Source<'_>,
    ) -> Result<(), StoreError> {
        let (limits, host) = (self.limits, &self.host);
        let Some(evidence) = self.files.get_mut(&key) else { return Ok(()) };
        let at = evidence.now();
        evidence.serial += 1;
        let dir = evidence.dir.clone();
        let failed = |source| StoreError::Io { path: dir, source };
        let (copy, written) = match source {
            Source::Bytes(bytes) => {
                let time = at.strftime("%Y%m%dT%H%M%S.%6fZ");
                let name = format!("{time}-v{wrote}-{pid}-{}.{}", evidence.serial, evidence.extension);
                if let Err(e) = private(&evidence.dir.join(&name)).and_then(|mut f| f.write_all(bytes)) {
                    return Err(failed(e));
                }
                evidence.copies.push_back((name.clone(), bytes.len() as u64));
                evidence.bytes += bytes.len() as u64;
                (Some(name), hash(bytes))
            }
            Source::Removed => (None, hash(b"")),
            Source::TooLarge => (None, String::new()),
        };
        let line = Written {
            schema: 1,
            at: at.to_string(),
            host,
            pid,
            start,
            file: &evidence.file,
            op,
            read: base.read,
            wrote,
            read_hash: evidence.hashes.get(&base.read).cloned().unwrap_or_default(),
            wrote_hash: written.clone(),
            ids: [],
            by: "record",
            copy: copy.as_deref(),
            read_to: (base.read_to > base.read).then_some(base.read_to),
            unsure: base.unsure,
        };
        let appended = line.to_line().map_err(io::Error::other).and_then(|line| evidence.append(&line, limits.lines));
        appended.map_err(failed)?;
        evidence.hashes.insert(wrote, written);
        while evidence.hashes.len() > 4_096 {
            evidence.hashes.pop_first();
        }
        while evidence.copies.len() > limits.copies.max(1) {
            evidence.drop_oldest();
            self.dropped += 1;
        }
        self.shrink();
        Ok(())
    }

    /// Removes copies until all together fit.
    fn shrink(&mut self) {
        while self.files.values().map(|e| e.bytes).sum::<u64>() > self.limits.bytes {
            // The newest copy of a file is never removed: it is what its next one is compared with.
            let most = self.files.values_mut().filter(|e| e.copies.len() > 1).max_by_key(|e| e.bytes);
            let Some(most) = most else { return };
            most.drop_oldest();
            self.dropped += 1;
        }
    }
}

impl Evidence {
    /// The time of the next version: later than that of the last one, so that names sort.
    fn now(&mut self) -> Timestamp {
        let micros = |t: Timestamp| Timestamp::from_microsecond(t.as_microsecond()).unwrap_or(t);
        let now = micros(Timestamp::now());
        let next = self.last.checked_add(SignedDuration::from_micros(1)).unwrap_or(now);
        self.last = now.max(next);
        self.last
    }

    fn append(&mut self, line: &str, limit: u64) -> io::Result<()> {
        if self.audit_bytes > 0 && self.audit_bytes + line.len() as u64 > limit {
            fs::rename(self.dir.join(AUDIT[0]), self.dir.join(AUDIT[1]))?;
            self.audit = private(&self.dir.join(AUDIT[0]))?;
            self.audit_bytes = 0;
        }
        self.audit.write_all(line.as_bytes())?;
        self.audit_bytes += line.len() as u64;
        Ok(())
    }

    fn drop_oldest(&mut self) {
        if let Some((name, bytes)) = self.copies.pop_front() {
            let _ = fs::remove_file(self.dir.join(name));
            self.bytes -= bytes;
        }
    }
}

/// The CRC-32C of bytes as audit lines have it.
fn hash(bytes: &[u8]) -> String {
    format!("{:08x}", crc32c::crc32c(bytes))
}

/// A file's path as the name of one folder.
fn folder_name(file: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = file.chars().map(|c| if plain(c) { c } else { '_' }).take(MAX_NAME).collect();
    match name.trim_start_matches('.') {
        "" => "file".to_owned(),
        // Nothing that is hidden: whoever looks into the folder is to see it.
        shown => shown.to_owned(),
    }
}

/// Makes a folder that only its owner can look into.
fn make(dir: &Path, parents: bool) -> Result<(), StoreError> {
    let mut builder = DirBuilder::new();
    builder.recursive(parents);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|source| StoreError::Io { path: dir.to_owned(), source })
}

/// Makes a file that only its owner can read, and that nobody made before.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|n| n.ends_with(".json")).collect();
        names.sort();
        names
    }

    fn numbers(dir: &Path) -> Vec<u64> {
        let number = |name: &String| name.split("-v").nth(1)?.split('-').next()?.parse().ok();
        copies(dir).iter().filter_map(number).collect()
    }

    #[test]
    fn names_sort_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a/b");
        let mut store = Store::create(&root, "h", Limits { copies: 3, bytes: 25, lines: 1_000 }).unwrap();
        assert!(matches!(Store::create(&root, "h", Limits::default()), Err(StoreError::Exists(_))));
        store.begin(1, "q.json").unwrap();
        store.begin(2, "../q.json").unwrap();
        for n in 1..=20 {
            let base = Base::exactly(n - 1);
            store.version(1, (7, 1), "update", base, n, Source::Bytes(b"1234567890")).unwrap();
        }
        // Three would be allowed, but not their bytes.
        assert_eq!(numbers(&root.join("q.json")), [19, 20]);
        store.version(2, (7, 1), "create", Base::exactly(0), 1, Source::Bytes(b"1234567890")).unwrap();
        assert_eq!((numbers(&root.join("q.json")), numbers(&root.join("_q.json"))), (vec![20], vec![1]));
        assert_eq!(store.dropped(), 19);
        let lines = |name: &str| fs::read_to_string(root.join("q.json").join(name)).unwrap();
        let (new, old) = (lines(AUDIT[0]), lines(AUDIT[1]));
        assert!(new.len() <= 1_000 && old.len() <= 1_000 && new.contains("\"wrote\":20"), "{old}\n{new}");
        #[cfg(unix)]
        for path in [root.clone(), root.join("q.json"), root.join("q.json").join(&copies(&root.join("q.json"))[0])] {
            use std::os::unix::fs::MetadataExt;
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o077, 0, "{}", path.display());
        }
        store.discard(2);
        assert!(!root.join("_q.json").exists());
    }

    #[test]
    fn any_path_is_one_folder() {
        for (file, name) in [
            ("q.json", "q.json"),
            ("a/b.json", "a_b.json"),
            ("../../x", "_.._x"),
            ("", "file"),
            (".env", "env"),
            ("..", "file"),
        ] {
            assert_eq!(folder_name(file), name);
        }
        assert!(folder_name(&"ä/\u{1b}".repeat(500)).len() <= MAX_NAME);
    }
}
