//! A read-modify-write, once for all strategies, and the steps that it is made of.
//!
//! Everything before the commit may fail and leaves the queue as it was; nothing after it makes the operation fail,
//! because it has happened.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::audit::{self, Commit, Stamp};
use crate::document::Document;
use crate::error::Error;
use crate::lease::Moment;
use crate::note::Note;
use crate::paths::{beside, directory_of};
use crate::redo;
use crate::snapshot::{self, Publishing};
use crate::splice::{Edited, Layout, Proven};
use crate::storage::{Meta, Storage};
use crate::strategy::{Guard, IfMissing, Verdict};

/// What an acknowledged operation survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A kill of every process. After a power cut the file may be an older version, empty, or gone.
    None,
    /// After a power cut the file is whole, but perhaps an older version.
    Data,
    /// A power cut too. With `naive` only from the end of its write on: an interrupted write in place is lost. While a
    /// writer serves, its last versions may be in its redo files only: after a power cut the next operation puts them back.
    #[default]
    Full,
}

/// The choices that are the same for every operation of a queue.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What an acknowledged operation survives.
    pub durability: Durability,
    /// How long to wait for a lock; none: as long as it takes.
    pub timeout: Option<Duration>,
    /// How many snapshots to keep whatever their age; 0: take none.
    pub snapshots: u64,
    /// Whether to write audit lines.
    pub audit: bool,
    /// The longest queue file that is read, in bytes.
    pub max_bytes: u64,
    /// How often a task is claimed, at most, before it is put aside as dead; 0: without end.
    pub max_attempts: u64,
    /// How many completed ids are remembered, so that pushing one of them again adds nothing; 0: none.
    pub done_keep: usize,
    /// For how long they are.
    pub done_age: Duration,
    /// Whether the new version is written into a spare file that changes places with the queue file, instead of a new
    /// one that is renamed over it. Quicker, since the spare's blocks are used again; but a reader that does not know the
    /// rule (see [`Access::load`]) may meet half a version. Not with [`Durability::Data`].
    pub spare: bool,
    /// Whether a file system that another machine or program serves is accepted.
    pub network_fs: bool,
}

impl Settings {
    /// The default of [`Settings::snapshots`].
    pub const SNAPSHOTS: u64 = 200;
    /// The default of [`Settings::max_bytes`]: 256 MiB.
    pub const MAX_BYTES: u64 = 256 * 1024 * 1024;
    /// The default of [`Settings::max_attempts`].
    pub const MAX_ATTEMPTS: u64 = 100;
    /// The default of [`Settings::done_keep`].
    pub const DONE_KEEP: usize = 1000;
    /// The default of [`Settings::done_age`]: a day.
    pub const DONE_AGE: Duration = Duration::from_secs(24 * 60 * 60);

    /// Whether a task that was claimed so often has had its chances.
    pub(crate) fn is_worn_out(&self, attempts: u64) -> bool {
        self.max_attempts > 0 && attempts >= self.max_attempts
    }

    /// How a strategy that keeps everybody else out publishes.
    pub(crate) fn publishing(&self) -> Publishing {
        if self.spare { Publishing::Exchange } else { Publishing::Rename }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            durability: Durability::default(),
            timeout: None,
            snapshots: Self::SNAPSHOTS,
            audit: true,
            max_bytes: Self::MAX_BYTES,
            max_attempts: Self::MAX_ATTEMPTS,
            done_keep: Self::DONE_KEEP,
            done_age: Self::DONE_AGE,
            spare: false,
            network_fs: false,
        }
    }
}

/// A change of a document. It may be made again on a newer document, and then only the last time counts.
pub trait Change {
    /// Changes the document, or says that there is nothing to change.
    ///
    /// # Errors
    /// Whatever stands against it; then nothing is written.
    fn apply(&mut self, document: &mut Document, moment: &Moment) -> Result<Verdict, Error>;

    /// Makes the change on a text that is proven to be as we wrote it, without reading all of it. None: that cannot be
    /// done, and nothing has been; the document is to be read.
    fn quick(&mut self, text: &Proven<'_>, moment: &dyn Fn() -> Moment) -> Option<Changed> {
        let _ = (text, moment);
        None
    }
}

/// What [`Change::quick`] made of a text.
#[derive(Debug)]
pub enum Changed {
    /// There is nothing to write.
    Nothing,
    /// Another one.
    #[doc(hidden)]
    Text {
        /// The next version.
        text: Edited,
        /// As in [`Verdict::Write`].
        op: &'static str,
        /// As in [`Verdict::Write`].
        ids: Vec<String>,
    },
}

impl<F: FnMut(&mut Document, &Moment) -> Result<Verdict, Error>> Change for F {
    fn apply(&mut self, document: &mut Document, moment: &Moment) -> Result<Verdict, Error> {
        self(document, moment)
    }
}

/// A queue file as it was read.
#[derive(Debug)]
pub struct Loaded {
    /// Its bytes, and what the file is; none if there was no file.
    found: Option<(Vec<u8>, Meta)>,
    /// [`audit::hash`] of the bytes.
    hash: u32,
}

impl Loaded {
    /// Its bytes; none if there was no file.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.found.as_ref().map(|(bytes, _)| &**bytes)
    }

    fn meta(&self) -> Option<&Meta> {
        self.found.as_ref().map(|(_, meta)| meta)
    }
}

/// A version that is ready to be written.
#[derive(Debug)]
pub(crate) struct Next {
    /// The version that it was made from.
    read: Stamp,
    bytes: Vec<u8>,
    layout: Layout,
    op: &'static str,
    ids: Vec<String>,
}

/// The world as a strategy sees it: where the steps go, and how they are to be made.
#[derive(Debug)]
pub struct Access<'a, S> {
    /// Where the steps go.
    pub storage: &'a S,
    /// How they are to be made.
    pub settings: &'a Settings,
    warnings: &'a RefCell<Vec<Error>>,
}

impl<S> Clone for Access<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Access<'_, S> {}

/// The whole of it under a lock: read, change, publish, leave evidence.
///
/// # Errors
/// Those of the change and of the steps.
pub(crate) fn locked<S: Storage>(
    access: &Access<'_, S>,
    file: &Path,
    if_missing: IfMissing,
    guard: &mut dyn Guard,
    publishing: Publishing,
    change: &mut dyn Change,
) -> Result<(), Error> {
    let note = guard.note();
    let loaded = access.load(file, if_missing)?;
    match access.prepare(file, &loaded, note.as_deref(), change)? {
        Some(next) => access.commit(file, &loaded, next, guard, publishing),
        None => Ok(()),
    }
}

impl<'a, S: Storage> Access<'a, S> {
    /// Access to `storage`; what goes wrong after a commit is added to `warnings`.
    pub(crate) fn new(storage: &'a S, settings: &'a Settings, warnings: &'a RefCell<Vec<Error>>) -> Self {
        Access { storage, settings, warnings }
    }

    /// The same with other settings.
    pub(crate) fn with<'b>(&self, settings: &'b Settings) -> Access<'b, S>
    where
        'a: 'b,
    {
        Access { storage: self.storage, settings, warnings: self.warnings }
    }

    /// Adds a warning: something that does not make the operation fail.
    pub(crate) fn warn(&self, warning: Error) {
        self.warnings.borrow_mut().push(warning);
    }

    /// The present moment.
    pub(crate) fn moment(&self) -> Moment {
        let since_boot = u64::try_from(self.storage.since_boot().as_millis()).unwrap_or(u64::MAX);
        Moment { now: self.storage.now(), boot: self.storage.process().boot, since_boot }
    }

    /// Reads a queue file.
    ///
    /// With [`Settings::spare`] the file that is read may be the one that the next writer but one writes into. So it
    /// counts only if, after it was read, the path still leads to it and it has not changed; this is the rule that every
    /// reader of an exchanged file has to follow. A writer need not, since nobody else writes then.
    ///
    /// # Errors
    /// [`Error::Missing`] unless a new queue may be begun; [`Error::TooLarge`], [`Error::Io`].
    pub fn load(&self, file: &Path, if_missing: IfMissing) -> Result<Loaded, Error> {
        let found = self.find(file, if_missing)?;
        let hash = audit::checksum(found.as_ref().map_or(b"", |(bytes, _)| bytes));
        Ok(Loaded { found, hash })
    }

    fn find(&self, file: &Path, if_missing: IfMissing) -> Result<Option<(Vec<u8>, Meta)>, Error> {
        match self.storage.read(file, self.settings.max_bytes) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match if_missing {
                IfMissing::Refuse => Err(Error::Missing { path: file.to_owned() }),
                IfMissing::Create => Ok(None),
            },
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                Err(Error::TooLarge { path: file.to_owned(), limit: self.settings.max_bytes })
            }
            Err(error) => Err(Error::io("read the queue", file, error)),
        }
    }

    /// Reads a queue file once more; none: it has other bytes than before.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn load_again(
        &self,
        file: &Path,
        if_missing: IfMissing,
        before: &Loaded,
    ) -> Result<Option<Loaded>, Error> {
        let found = self.find(file, if_missing)?;
        let same = found.as_ref().map(|(bytes, _)| &**bytes) == before.bytes();
        Ok(same.then_some(Loaded { found, hash: before.hash }))
    }

    /// Reads a queue file while others may write it: the rule of [`load`](Self::load).
    ///
    /// # Errors
    /// As [`load`](Self::load); [`Error::BadFile`].
    pub fn load_unlocked(&self, file: &Path) -> Result<Document, Error> {
        loop {
            let record = redo::last(self.storage, file);
            let loaded = self.load(file, IfMissing::Refuse)?;
            let record = record?;
            if self.settings.spare {
                let now = self.storage.meta(file).map_err(|error| Error::io("read the queue", file, error))?;
                let same = loaded.meta().is_some_and(|read| {
                    (read.device, read.inode, read.size, read.changed) == (now.device, now.inode, now.size, now.changed)
                });
                let again = if same { self.load(file, IfMissing::Refuse)?.hash == loaded.hash } else { false };
                if !again {
                    continue;
                }
            }
            let bytes = loaded.bytes().unwrap_or_default();
            return match record.and_then(|record| record.instead_of(bytes)) {
                Some(lost) => self.parse(file, &lost),
                None => self.parse(file, bytes),
            };
        }
    }

    /// Whether no object in the file has this key, neither as it is nor written with escapes. Only a look: the file is read
    /// without a lock, and may be half a version with [`Settings::spare`].
    pub(crate) fn lacks_key(&self, file: &Path, key: &str) -> bool {
        let Ok((bytes, _)) = self.storage.read(file, self.settings.max_bytes) else {
            return false;
        };
        let lacks = |text: &str| memchr::memmem::find(&bytes, text.as_bytes()).is_none();
        lacks(key) && lacks("\\u00")
    }

    /// What the bytes of a queue file say.
    ///
    /// # Errors
    /// [`Error::BadFile`].
    pub(crate) fn parse(&self, file: &Path, bytes: &[u8]) -> Result<Document, Error> {
        Document::parse(bytes).map_err(|malformed| Error::BadFile {
            path: file.to_owned(),
            malformed,
            snapshots: snapshot::directory_of(file),
        })
    }

    /// Makes the change, and the bytes of the version after the one that was read. None: there is nothing to write.
    ///
    /// # Errors
    /// Those of the change; [`Error::BadFile`], [`Error::VersionExhausted`].
    pub(crate) fn prepare(
        &self,
        file: &Path,
        loaded: &Loaded,
        note: Option<&[u8]>,
        change: &mut dyn Change,
    ) -> Result<Option<Next>, Error> {
        let stamp = |version| Stamp { version, hash: audit::hex(loaded.hash) };
        // The file is as we wrote it last, so not all that it says need be read.
        if let Some(bytes) = loaded.bytes()
            && let Some(layout) = note.and_then(|note| Note::layout_of(note, bytes.len(), loaded.hash))
            && let Some(proven) = Proven::new(bytes, layout)
            && let Some(changed) = change.quick(&proven, &|| self.moment())
        {
            let read = stamp(proven.version());
            return Ok(match changed {
                Changed::Nothing => None,
                Changed::Text { text: Edited { bytes, layout }, op, ids } => {
                    Some(Next { read, bytes, layout, op, ids })
                }
            });
        }
        let mut document = match loaded.bytes() {
            Some(bytes) => self.parse(file, bytes)?,
            None => Document::empty(),
        };
        let read = stamp(document.version());
        let Verdict::Write { op, ids } = change.apply(&mut document, &self.moment())? else {
            return Ok(None);
        };
        if !document.advance() {
            return Err(Error::VersionExhausted { path: file.to_owned() });
        }
        let (bytes, layout) = document.write();
        Ok(Some(Next { read, bytes, layout, op, ids }))
    }

    /// Writes a version, with a snapshot before and an audit line after.
    ///
    /// # Errors
    /// [`Error::Io`], and the queue is as before (in place: perhaps damaged); [`Error::NotDurable`], and it holds the
    /// new version.
    pub(crate) fn commit(
        &self,
        file: &Path,
        loaded: &Loaded,
        next: Next,
        guard: &mut dyn Guard,
        publishing: Publishing,
    ) -> Result<(), Error> {
        if next.bytes.len() as u64 > self.settings.max_bytes {
            // What would be written now could not be read again.
            return Err(Error::TooLarge { path: file.to_owned(), limit: self.settings.max_bytes });
        }
        // An exchange needs something to exchange with.
        let publishing = match (publishing, loaded.meta()) {
            (Publishing::Exchange, None) => Publishing::Rename,
            (publishing, _) => publishing,
        };
        self.snapshot(file, loaded, next.read.version, publishing)?;
        let kept = self.settings.durability == Durability::Full
            && guard.make_durable(loaded.meta(), next.layout.version, &next.bytes)?;
        let published = if kept {
            let settings = Settings { durability: Durability::None, ..self.settings.clone() };
            self.with(&settings).publish(file, loaded, &next, publishing, kept)
        } else {
            self.publish(file, loaded, &next, publishing, kept)
        };
        if !matches!(published, Ok(Ok(()))) {
            guard.withdraw();
        }
        let durable = published?;
        let hash = audit::checksum(&next.bytes);
        guard.keep_note(&Note::new(next.bytes.len(), hash, next.layout).to_line());
        let wrote = Stamp { version: next.layout.version, hash: audit::hex(hash) };
        self.audit(file, next.op, &next.ids, &next.read, &wrote);
        durable
    }

    /// Lets the version take the place of the one that was read. `kept`: it is durable already.
    fn publish(
        &self,
        file: &Path,
        loaded: &Loaded,
        next: &Next,
        publishing: Publishing,
        kept: bool,
    ) -> Result<Published, Error> {
        match publishing {
            Publishing::Rename => self.replace(file, &next.bytes, loaded.meta(), kept),
            Publishing::InPlace => self.overwrite(file, &next.bytes),
            Publishing::Exchange => self.exchange(file, &next.bytes, loaded.meta(), next.read.version),
        }
    }

    /// Writes a version that was lost, with a snapshot of what is there if that is a version at all.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub(crate) fn put_back(&self, file: &Path, loaded: &Loaded, bytes: &[u8]) -> Result<(), Error> {
        if let Some(Ok(document)) = loaded.bytes().map(Document::parse) {
            self.snapshot(file, loaded, document.version(), Publishing::Rename)?;
        }
        self.replace(file, bytes, loaded.meta(), false)?
    }

    /// Writes what was read once more.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub(crate) fn rewrite(&self, file: &Path, loaded: &Loaded) -> Result<(), Error> {
        self.replace(file, loaded.bytes().unwrap_or_default(), loaded.meta(), false)?
    }

    /// Keeps the version that was read, if there was a file and snapshots are on.
    fn snapshot(&self, file: &Path, loaded: &Loaded, version: u64, publishing: Publishing) -> Result<(), Error> {
        match loaded.bytes() {
            Some(bytes) if self.settings.snapshots > 0 => {
                snapshot::before_write(self.storage, file, bytes, version, publishing, self.settings.snapshots)
            }
            _ => Ok(()),
        }
    }

    /// Commits by a new file that is renamed over the old one. Returned is whether the name is durable. `kept`: the version
    /// is so without that.
    fn replace(&self, file: &Path, bytes: &[u8], like: Option<&Meta>, kept: bool) -> Result<Published, Error> {
        let (temporary, mut handle) = self.create_temporary(file, like)?;
        let mut publish = || {
            self.storage.write(&mut handle, bytes)?;
            if self.settings.durability != Durability::None {
                self.storage.sync(&mut handle)?;
            }
            if kept {
                // A rename over a file is what file systems take for a commit: ext4 begins to write the bytes at once. This
                // does not let them, and readers meet the one file or the other all the same. Where it cannot be done:
                if self.storage.exchange(&temporary, file).is_ok() {
                    // The old version, under a name that nobody reads.
                    let _ = self.storage.remove_file(&temporary);
                    return Ok(());
                }
            }
            self.storage.rename(&temporary, file)
        };
        if let Err(error) = publish() {
            // The first error is the one to report. A temporary file that stays is in nobody's way.
            let _ = self.storage.remove_file(&temporary);
            return Err(Error::io("write the new version", file, error));
        }
        Ok(self.sync_directory(file))
    }

    /// Commits in place: empties the file, then writes it.
    fn overwrite(&self, file: &Path, bytes: &[u8]) -> Result<Published, Error> {
        let mut handle = self
            .storage
            .open_truncated(file)
            .map_err(|error| cannot_create(file, file, IfMissing::Create, "open the queue for writing", error))?;
        self.storage.write(&mut handle, bytes).map_err(|error| Error::io("write the queue", file, error))?;
        if self.settings.durability != Durability::None {
            self.storage.sync(&mut handle).map_err(|source| Error::NotDurable { path: file.to_owned(), source })?;
        }
        Ok(self.sync_directory(file))
    }

    /// Commits by writing the spare file and letting it and the queue file change places.
    ///
    /// With snapshots the displaced file becomes the snapshot, so that its inode is never written again, and the next
    /// spare is a new file.
    fn exchange(&self, file: &Path, bytes: &[u8], like: Option<&Meta>, version: u64) -> Result<Published, Error> {
        let spare = beside(file, ".spare");
        let failed = |error| Error::io("write the new version", file, error);
        let mut handle = match self.storage.open_spare(&spare, like) {
            // It was the queue file, which nobody may write.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.storage.remove_file(&spare).and_then(|()| self.storage.open_spare(&spare, like)).map_err(failed)?
            }
            opened => opened.map_err(failed)?,
        };
        let mut publish = || {
            let before = self.storage.meta_of(&handle)?.size;
            self.storage.write(&mut handle, bytes)?;
            if before > bytes.len() as u64 {
                self.storage.cut(&mut handle, bytes.len() as u64)?;
            }
            if self.settings.durability != Durability::None {
                self.storage.sync(&mut handle)?;
            }
            self.storage.exchange(&spare, file)
        };
        if let Err(error) = publish() {
            // Half a version in the spare: a failed sync must not be repeated on it either.
            let _ = self.storage.remove_file(&spare);
            return Err(failed(error));
        }
        // Before the displaced file is written again, the name of the new one has to be on the disk: this sync is it. (Or the
        // version is in a redo file, which knows that.)
        let durable = self.sync_directory(file);
        if durable.is_err() {
            // So it must not be.
            let _ = self.storage.remove_file(&spare);
        } else if self.settings.snapshots > 0 {
            snapshot::keep_displaced(self.storage, file, &spare, version).unwrap_or_else(|error| self.warn(error));
        }
        Ok(durable)
    }

    /// Records the commit, if audit lines are on. Too late to fail: trouble becomes a warning, and the next writer
    /// finds the file ahead of the last line.
    fn audit(&self, file: &Path, op: &'static str, ids: &[String], read: &Stamp, wrote: &Stamp) {
        if !self.settings.audit {
            return;
        }
        let commit = Commit { file, op, ids, read, wrote };
        match audit::record(self.storage, &commit) {
            Ok(audit::Before::Ours) => {}
            Ok(audit::Before::Foreign) => self.warn(Error::Foreign { path: file.to_owned(), version: read.version }),
            Err(error) => self.warn(error),
        }
    }

    /// Creates a directory, unless somebody else has been faster.
    ///
    /// # Errors
    /// [`Error::NoDirectory`] if its own parent is missing; [`Error::Io`].
    pub fn create_dir(&self, path: &Path) -> Result<(), Error> {
        match self.storage.create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::NoDirectory { path: directory_of(path).to_owned() })
            }
            Err(error) => Err(Error::io("create the directory", path, error)),
            Ok(()) => self.sync_directory(path),
        }
    }

    /// Creates a file beside `file` under a name that nobody else uses.
    pub(crate) fn create_temporary(&self, file: &Path, like: Option<&Meta>) -> Result<(PathBuf, S::File), Error> {
        let pid = self.storage.process().pid;
        loop {
            let path = beside(file, &format!(".{pid}-{}.tmp", self.storage.serial()));
            match self.storage.create_new(&path, like) {
                Ok(handle) => return Ok((path, handle)),
                // Left by a process of this pid that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Error::io("create a file for the new version", &path, error));
                }
            }
        }
    }

    /// With full durability, makes sure that the name of `file` survives.
    fn sync_directory(&self, file: &Path) -> Result<(), Error> {
        if self.settings.durability != Durability::Full {
            return Ok(());
        }
        self.storage.sync_dir(directory_of(file)).map_err(|source| Error::NotDurable { path: file.to_owned(), source })
    }
}

/// The new version is in place; whether its name is durable.
type Published = Result<(), Error>;

/// What to report when a file that belongs to the queue could not be created at `path`.
pub(crate) fn cannot_create(
    queue: &Path,
    path: &Path,
    if_missing: IfMissing,
    action: &'static str,
    error: io::Error,
) -> Error {
    // The call creates the file, so what is missing is the directory.
    match (error.kind(), if_missing) {
        (io::ErrorKind::NotFound, IfMissing::Refuse) => Error::Missing { path: queue.to_owned() },
        (io::ErrorKind::NotFound, IfMissing::Create) => Error::NoDirectory { path: directory_of(path).to_owned() },
        _ => Error::io(action, path, error),
    }
}
