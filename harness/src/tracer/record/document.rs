//! The versions of watched files: when a new one is there, and who made it from which.

use std::{
    collections::{HashMap, HashSet},
    fs::{File, Metadata},
    io::Read,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::{libc, unistd::Pid};

use super::{files::Watched, process::DocumentId};
use crate::evidence::recording::{Base, Source, Store, StoreError};

/// The largest file that is copied.
const MAX_COPY: u64 = 64 << 20;
/// At most this many files are watched.
const MAX_FILES: usize = 1_024;
/// So many inodes of a file are remembered with the version that they were.
const INODES: usize = 256;

/// What tells a file that nobody touched from one that somebody wrote.
type Signature = (u64, u64, u64, i64, i64);

/// A watched file.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) path: PathBuf,
    /// The newest version; 0: there is no file.
    pub(super) current: u64,
    pub(super) inode: Option<(u64, u64)>,
    signature: Option<Signature>,
    checksum: Option<u32>,
    /// The last version that each inode was.
    versions: HashMap<(u64, u64), u64>,
    /// Processes that opened it, by pid and start.
    pub(super) touched: HashSet<(i32, u64)>,
    /// Evidence of it is written.
    pub(super) begun: bool,
    /// Writes that were not made from the version that they replaced.
    pub(super) stale: u64,
    /// It was said that somebody wrote what nobody can see.
    pub(super) warned: bool,
    /// Some version of it was not empty.
    pub(super) has_held: bool,
    /// It was created while it was watched, by one process as far as known.
    private: bool,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Documents {
    pub(super) watched: Watched,
    pub(super) all: Vec<Document>,
    by_path: HashMap<PathBuf, DocumentId>,
    pub(super) store: Store,
    pub(super) warnings: Vec<String>,
}

/// A process, as evidence names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writer {
    pub(super) pid: Pid,
    pub(super) start: u64,
}

impl Documents {
    pub(super) fn new(watched: Watched, store: Store) -> Documents {
        Documents { watched, all: Vec::new(), by_path: HashMap::new(), store, warnings: Vec::new() }
    }

    /// Something to be said once.
    pub(super) fn warn(&mut self, text: String) {
        if self.warnings.len() < 100 && !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// The watched file at a path without links, if it is one; `None` for what is no regular file.
    pub(super) fn at(&mut self, path: &Path) -> Option<DocumentId> {
        if let Some(&known) = self.by_path.get(path) {
            return Some(known);
        }
        let meta = std::fs::symlink_metadata(path).ok();
        if !self.watched.has(path) || meta.as_ref().is_some_and(|m| !m.is_file()) {
            return None;
        }
        if self.by_path.len() >= MAX_FILES {
            self.warn(format!("more than {MAX_FILES} files were opened: name those that matter with --file"));
            return None;
        }
        let id = self.all.len();
        self.all.push(Document {
            path: path.to_owned(),
            current: u64::from(meta.is_some()),
            inode: meta.as_ref().map(inode),
            signature: meta.as_ref().map(signature),
            checksum: None,
            versions: meta.iter().map(|m| (inode(m), 1)).collect(),
            touched: HashSet::new(),
            begun: false,
            stale: 0,
            warned: false,
            has_held: false,
            private: meta.is_none(),
        });
        self.by_path.insert(path.to_owned(), id);
        Some(id)
    }

    /// A process has to do with a file. What was one process's own becomes evidence when a second one comes.
    pub(super) fn touch(&mut self, id: DocumentId, by: Writer) -> Result<(), StoreError> {
        let document = &mut self.all[id];
        document.touched.insert((by.pid.as_raw(), by.start));
        if document.private && document.touched.len() > 1 {
            document.private = false;
            if document.current > 0 {
                document.current = 1;
                self.begin(id)?;
            }
        }
        Ok(())
    }

    /// Keeps the version that is there before the first write that is seen.
    pub(super) fn begin(&mut self, id: DocumentId) -> Result<(), StoreError> {
        let named = self.watched.is_named();
        let document = &mut self.all[id];
        if document.begun || (document.private && !named) {
            return Ok(());
        }
        document.begun = true;
        let shown = self.watched.shown(&document.path);
        self.store.begin(id, &shown)?;
        if let Some(file) = open(&document.path) {
            document.current = document.current.max(1);
            let content = content(&file);
            document.settle(&file, content.as_deref());
            self.keep(id, None, "recovered", Base::exactly(0), content.as_deref())?;
        }
        Ok(())
    }

    /// Finds out whether somebody who is not watched wrote a file.
    pub(super) fn look(&mut self, id: DocumentId) -> Result<(), StoreError> {
        let document = &mut self.all[id];
        let Ok(meta) = std::fs::symlink_metadata(&document.path) else { return Ok(()) };
        if !document.begun || !meta.is_file() || document.signature == Some(signature(&meta)) {
            return Ok(());
        }
        let Some(file) = open(&document.path) else { return Ok(()) };
        let content = content(&file);
        let same = content.as_ref().is_some_and(|bytes| document.checksum == Some(crc32c::crc32c(bytes)));
        if same {
            document.settle(&file, content.as_deref());
            return Ok(());
        }
        let base = Base::exactly(document.current);
        document.current += 1;
        document.settle(&file, content.as_deref());
        let shown = self.watched.shown(&self.all[id].path);
        self.warn(format!("{shown} was written by a process that is not watched"));
        self.keep(id, None, "recovered", base, content.as_deref())
    }

    /// Whether a file is another than its newest version, as far as its size and times say.
    pub(super) fn is_changed(&self, id: DocumentId, wanted: (u64, u64)) -> bool {
        let document = &self.all[id];
        let meta = std::fs::symlink_metadata(&document.path);
        meta.is_ok_and(|meta| inode(&meta) == wanted && document.signature != Some(signature(&meta)))
    }

    /// Whether anybody who is watched had to do with a file before.
    pub(super) fn is_of_interest(&self, id: DocumentId) -> bool {
        self.watched.is_named() || !self.all[id].touched.is_empty()
    }

    /// A new version is there: what `file` holds now.
    pub(super) fn publish(
        &mut self,
        id: DocumentId,
        by: Writer,
        op: &str,
        base: Option<Base>,
        file: &File,
    ) -> Result<(), StoreError> {
        let named = self.watched.is_named();
        let document = &mut self.all[id];
        if document.private && !named {
            document.current = 1;
            document.settle(file, None);
            return Ok(());
        }
        self.begin(id)?;
        let document = &mut self.all[id];
        let before = document.current;
        let op = match (op, before, base) {
            ("update", 0, _) => "create",
            ("update", _, None) => "overwrite",
            (op, ..) => op,
        };
        let base = base.unwrap_or(Base::exactly(before));
        document.stale += u64::from(base.read_to < before);
        document.current += 1;
        let content = content(file);
        document.settle(file, content.as_deref());
        self.keep(id, Some(by), op, base, content.as_deref())
    }

    /// A file is gone.
    pub(super) fn removed(&mut self, id: DocumentId, by: Writer, base: Option<Base>) -> Result<(), StoreError> {
        let document = &mut self.all[id];
        document.inode = None;
        document.signature = None;
        document.checksum = None;
        if !document.begun {
            document.current = 0;
            document.private = true;
            document.touched.clear();
            return Ok(());
        }
        let before = document.current;
        let base = base.unwrap_or(Base::exactly(before));
        document.stale += u64::from(base.read_to < before);
        document.current += 1;
        let wrote = document.current;
        self.store.version(id, (by.pid.as_raw() as u64, by.start), "remove", base, wrote, Source::Removed)
    }

    fn keep(
        &mut self,
        id: DocumentId,
        by: Option<Writer>,
        op: &str,
        base: Base,
        content: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let by = by.map_or((0, 0), |by| (by.pid.as_raw() as u64, by.start));
        let wrote = self.all[id].current;
        let source = match content {
            Some(bytes) => Source::Bytes(bytes),
            None => {
                let shown = self.watched.shown(&self.all[id].path);
                self.warn(format!(
                    "{shown}: a version of more than {MAX_COPY} bytes, or one that cannot be read, was not copied"
                ));
                Source::TooLarge
            }
        };
        self.store.version(id, by, op, base, wrote, source)
    }
}

impl Document {
    /// The version that an inode of this file is, or was last.
    pub(super) fn version_of(&self, inode: (u64, u64)) -> Option<u64> {
        match self.inode == Some(inode) {
            true => Some(self.current),
            false => self.versions.get(&inode).copied(),
        }
    }

    /// `file` is the newest version.
    fn settle(&mut self, file: &File, content: Option<&[u8]>) {
        if let Ok(meta) = file.metadata() {
            self.inode = Some(inode(&meta));
            self.signature = Some(signature(&meta));
            if self.versions.len() >= INODES {
                self.versions.clear();
            }
            self.versions.insert(inode(&meta), self.current);
        }
        self.has_held |= content.is_none_or(|bytes| !bytes.is_empty());
        self.checksum = content.map(crc32c::crc32c);
    }
}

/// Device and inode.
pub(super) fn inode(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

fn signature(meta: &Metadata) -> Signature {
    (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
}

/// Opens a regular file to look at it, and nothing that could wait.
pub(super) fn open(path: &Path) -> Option<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(|m| m.is_file()).then_some(file)
}

/// All that a file holds, unless it is too much.
fn content(file: &File) -> Option<Vec<u8>> {
    use std::io::Seek;
    let mut file = file;
    file.rewind().ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_COPY + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_COPY).then_some(bytes)
}
