//! How the process that writes for all makes a version durable by one flush of the disk.
//!
//! To publish a version durably takes two: of its bytes, and, once they have their name, of the directory; and each is a
//! commit of the file system's own journal, since the file is new. So before it publishes, the writer puts the version into
//! one of two *redo files* (`.queue.json.redo-0` and `-1`, in turns, so that the last version is whole while the next is
//! written), over blocks that the disk has already given out, and flushes that. What is then published needs no flush: the
//! system brings it to the disk when it likes. It is a redo log (Gray and Reuter, *Transaction Processing*, 1992, chapter 9)
//! of which each record is a whole version.
//!
//! They are for as long as one request follows another. The first version is published durably, and only those that follow
//! it without a gap are put into redo files; as soon as nothing has been written for a moment, the queue file is flushed
//! and they are removed ([`Redo::end`]).
//!
//! In the same boot the queue file is the truth, whoever is killed, unless it is empty: the next one who takes the lock
//! writes it once more, durably, and removes the redo files. (So a disk that loses its power alone, under a machine that
//! goes on, is not covered.) In another boot the queue file may be an older version, or empty: then the last redo file is
//! put back, by the next one who takes the lock, and is what a reader reads until then. A program that does not know the
//! rule may read what the power cut has left; and snapshots that were taken meanwhile may be empty, too.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::audit;
use crate::document::Document;
use crate::error::Error;
use crate::paths::{beside, directory_of};
use crate::sealed::{seal, unseal};
use crate::storage::{Meta, Storage};
use crate::strategy::IfMissing;
use crate::transaction::{Access, Durability, Settings};

/// A longer version is published durably instead: writing it twice would cost more than a flush.
const MAX_BYTES: usize = 1024 * 1024;

/// The least length of a redo file. It grows in powers of two, because a file that grows is flushed with the journal.
const LEAST: usize = 64 * 1024;

/// The longest first line.
const MAX_HEADER: usize = 512;

/// A redo file is longer only if somebody else wrote it.
const MAX_FILE: u64 = 2 * (MAX_BYTES + MAX_HEADER) as u64;

/// The first line of a redo file, behind which the version's bytes begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    schema: u64,
    /// In which boot it was written; empty where that is unknown.
    boot: String,
    /// Counts the versions of one writer.
    sequence: u64,
    /// The version before the first one in redo files, which was published durably.
    base: u64,
    version: u64,
    size: usize,
    hash: String,
    /// Whether what is published is written over an older version, so that after a power cut it may be of both.
    mixes: bool,
}

const SCHEMA: u64 = 1;

impl Header {
    fn to_line(&self) -> Vec<u8> {
        let mut line = seal(self);
        line.push(b'\n');
        line
    }
}

/// The last version that somebody put into a redo file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    header: Header,
    bytes: Vec<u8>,
    /// Whether it was written in another boot, as far as is known.
    from_before: bool,
}

impl Record {
    /// From the content of a redo file. None: it is torn, or none of ours.
    ///
    /// # Errors
    /// It is whole and of another form: another release of this library has promised somebody what it holds.
    fn read(text: &[u8]) -> io::Result<Option<Self>> {
        let Some((header, rest)) = Self::split(text) else { return Ok(None) };
        let header = match serde_json::from_slice::<Header>(header) {
            Ok(header) if header.schema == SCHEMA => header,
            _ => return Err(io::Error::other("written by another release; run that once more")),
        };
        let bytes = rest.get(..header.size).filter(|bytes| header.hash == audit::hash(bytes));
        Ok(bytes.map(|bytes| Record { bytes: bytes.to_vec(), header, from_before: true }))
    }

    /// The first line without its sum, if that is right, and what comes after it.
    fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
        let end = text.iter().take(MAX_HEADER).position(|&byte| byte == b'\n')?;
        Some((unseal(&text[..end])?, &text[end + 1..]))
    }

    /// Whether it was written in another boot, so that the queue file may have lost it.
    pub(crate) fn is_from_before(&self) -> bool {
        self.from_before
    }

    /// The version, if the queue file has lost it, whose bytes are these now.
    pub(crate) fn instead_of(self, live: &[u8]) -> Option<Vec<u8>> {
        let Header { base, version, mixes, .. } = self.header;
        let kept = match Document::parse(live).map(|document| document.version()) {
            Ok(_) if !self.from_before => true,
            Ok(now) => now > version || now == version && (!mixes || live == self.bytes) || now < base && !mixes,
            // What is no queue, but something, somebody may be working at.
            Err(_) => !self.from_before && live.iter().any(|&byte| byte != 0),
        };
        (!kept).then_some(self.bytes)
    }
}

fn path_of(file: &Path, slot: usize) -> PathBuf {
    beside(file, &format!(".redo-{slot}"))
}

/// Whether there is a file. An error that says anything else but that there is none is one: what cannot be read may be what
/// somebody was promised.
fn is_there<S: Storage>(storage: &S, path: &Path) -> io::Result<bool> {
    match storage.meta(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error),
    }
}

fn unreadable(file: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::io("read the redo files", &path_of(file, 0), error)
}

/// The last version in the redo files, if there are any. It has to be asked for before the queue file is read, which may be
/// newer then, but is not older.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn last<S: Storage>(storage: &S, file: &Path) -> Result<Option<Record>, Error> {
    let boot = storage.process().boot;
    let mut last: Option<Record> = None;
    for slot in 0..2 {
        let path = path_of(file, slot);
        // The first of the two is made first and removed last.
        if slot == 0 && !is_there(storage, &path).map_err(unreadable(file))? {
            return Ok(None);
        }
        match storage.read(&path, MAX_FILE) {
            Ok((text, _)) => {
                let Some(record) = Record::read(&text).map_err(unreadable(file))? else { continue };
                let from_before = boot.is_empty() || record.header.boot != boot;
                if last.as_ref().is_none_or(|last| last.header.sequence < record.header.sequence) {
                    last = Some(Record { from_before, ..record });
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::FileTooLarge) => {}
            Err(error) => return Err(unreadable(file)(error)),
        }
    }
    Ok(last)
}

/// Makes the queue file what it has to be, durably, and removes the redo files. For the holder of the lock, who is no writer
/// (yet).
///
/// # Errors
/// [`Error::Io`]; then the redo files are still there.
pub(crate) fn settle<S: Storage>(access: &Access<'_, S>, file: &Path) -> Result<(), Error> {
    let storage = access.storage;
    if !is_there(storage, &path_of(file, 0)).map_err(unreadable(file))? {
        return Ok(());
    }
    let record = last(storage, file)?;
    let settings = Settings { durability: Durability::Full, ..access.settings.clone() };
    let access = access.with(&settings);
    let live = access.load(file, IfMissing::Create)?;
    // If it is not there nobody wants it any more: its name was durable before there was a redo file.
    if let Some(bytes) = live.bytes() {
        let version = record.as_ref().map(|record| record.header.version);
        // The operation itself has not begun: nobody is to be told that it was written.
        let written = |done: Result<(), Error>| match done {
            Err(Error::NotDurable { path, source }) => Err(Error::io("bring the queue to the disk", &path, source)),
            done => done,
        };
        match record.and_then(|record| record.instead_of(bytes)) {
            Some(lost) => {
                written(access.put_back(file, &live, &lost))?;
                access.warn(Error::PutBack { path: file.to_owned(), version: version.unwrap_or_default() });
            }
            // Written anew, not flushed: a flush that has failed once says nothing the second time.
            None if Document::parse(bytes).is_ok() => written(access.rewrite(file, &live))?,
            // What is wrong with it the operation will say.
            None => return Ok(()),
        }
    }
    remove(storage, file).map_err(|error| Error::io("remove the redo files", file, error))
}

/// Removes the redo files, and says whether there were any.
fn remove_slots<S: Storage>(storage: &S, file: &Path) -> io::Result<bool> {
    let mut any = false;
    for slot in [1, 0] {
        match storage.remove_file(&path_of(file, slot)) {
            Ok(()) => any = true,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(any)
}

/// The same, durably: one that came back after a power cut could be taken for a newer version of a queue that was begun
/// anew.
fn remove<S: Storage>(storage: &S, file: &Path) -> io::Result<()> {
    if remove_slots(storage, file)? {
        storage.sync_dir(directory_of(file))?;
    }
    Ok(())
}

/// The redo files of one writer.
#[derive(Debug, Default)]
pub(crate) struct Redo {
    /// The version that was made durable last, if the next one may follow it.
    last: Option<u64>,
    /// The one before the first in the files.
    base: u64,
    /// How many versions were put into the files.
    sequence: u64,
    /// How long each of them is; 0: it is not there.
    lengths: [usize; 2],
    /// What is published is not known to reach the disk, nor what the files hold: nothing can be promised any more.
    broken: bool,
}

impl Redo {
    /// Makes the next version durable, and says whether it did; if not, it has to be published durably.
    ///
    /// # Errors
    /// [`Error::Io`]; then this writer can do nothing more.
    pub(crate) fn keep<S: Storage>(
        &mut self,
        access: &Access<'_, S>,
        file: &Path,
        live: Option<&Meta>,
        version: u64,
        bytes: &[u8],
    ) -> Result<bool, Error> {
        // What follows a gap, or nothing, was made from a file that nobody has flushed: somebody else has put it there, and a
        // power cut could bring back a newer one.
        let follows = self.last.is_some() && self.last == version.checked_sub(1);
        if let Some(live) = live
            && follows
            && bytes.len() <= MAX_BYTES
            && !self.broken
            && self.put(access, file, live, version, bytes).is_ok()
        {
            self.last = Some(version);
            return Ok(true);
        }
        self.end(access, file)?;
        (self.last, self.base) = (Some(version), version);
        Ok(false)
    }

    fn put<S: Storage>(
        &mut self,
        access: &Access<'_, S>,
        file: &Path,
        live: &Meta,
        version: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        let storage = access.storage;
        let header = Header {
            schema: SCHEMA,
            boot: storage.process().boot,
            sequence: self.sequence + 1,
            base: self.base,
            version,
            size: bytes.len(),
            hash: audit::hash(bytes),
            mixes: access.settings.spare,
        };
        let line = header.to_line();
        let written = line.len() + bytes.len();
        if self.sequence == 0 {
            // Nothing that a power cut brought back may be taken for the newest.
            remove(storage, file)?;
        }
        for slot in 0..2 {
            if self.lengths[slot] > 0 {
                // Somebody may have tidied up.
                storage.meta(&path_of(file, slot))?;
            }
        }
        let slot = usize::from(self.sequence % 2 == 1);
        let (path, length) = (path_of(file, slot), &mut self.lengths[slot]);
        let is_new = *length == 0;
        let grown = (written > *length).then(|| written.next_power_of_two().max(LEAST));
        *length = grown.unwrap_or(*length);
        let mut handle =
            if is_new { storage.create_new(&path, Some(live))? } else { storage.open_spare(&path, Some(live))? };
        storage.write(&mut handle, &line)?;
        storage.write(&mut handle, bytes)?;
        if let Some(grown) = grown {
            storage.write(&mut handle, &vec![0; grown - written])?;
        }
        storage.sync(&mut handle)?;
        if is_new {
            storage.sync_dir(directory_of(file))?;
        }
        self.sequence += 1;
        Ok(())
    }

    /// Whether the next version may be put into redo files, or there are some; then [`Redo::end`] is to be called when nothing
    /// has been written for a while.
    pub(crate) fn is_in_use(&self) -> bool {
        self.last.is_some() || self.lengths != [0, 0]
    }

    /// Changes with each version.
    pub(crate) fn mark(&self) -> (Option<u64>, u64) {
        (self.last, self.sequence)
    }

    /// Whether this writer can do nothing more. Who takes the lock next will [settle] what is to be settled.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Brings what is published to the disk, and removes the redo files.
    ///
    /// # Errors
    /// [`Error::Io`]; the redo files stay, and this writer can do nothing more.
    pub(crate) fn end<S: Storage>(&mut self, access: &Access<'_, S>, file: &Path) -> Result<(), Error> {
        if self.broken {
            let error = io::Error::other("the disk has failed before, and the last version is in the redo files only");
            return Err(Error::io("write the new version", file, error));
        }
        if self.lengths != [0, 0] {
            self.broken = true;
            let storage = access.storage;
            let flushed = match storage.sync_file(file) {
                // Nobody wants it any more.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
                Ok(()) => storage.sync_dir(directory_of(file)),
            };
            flushed
                .and_then(|()| remove(storage, file))
                .map_err(|error| Error::io("bring the queue to the disk", file, error))?;
        }
        *self = Redo::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;
    use crate::lease::Moment;
    use crate::snapshot::Publishing;
    use crate::storage::Disk;
    use crate::strategy::{Guard, Verdict};
    use crate::transaction::locked;

    const OLDEST: &[u8] = br#"{"version": 5, "tasks": []}"#;
    const OLD: &[u8] = br#"{"version": 7, "tasks": []}"#;
    const NEW: &[u8] =
        br#"{"version": 8, "tasks": [{"id": "t", "account": "a", "params": 1, "state": "queued", "attempts": 0}]}"#;
    const EDITED: &[u8] = br#"{"version": 8, "tasks": []}"#;
    const NEWER: &[u8] = br#"{"version": 9, "tasks": []}"#;

    fn header(boot: &str, sequence: u64, bytes: &[u8], mixes: bool) -> Header {
        let version = Document::parse(bytes).map_or(0, |document| document.version());
        let (boot, hash) = (boot.to_owned(), audit::hash(bytes));
        Header { schema: SCHEMA, boot, sequence, base: 6, version, size: bytes.len(), hash, mixes }
    }

    fn text(header: &Header, bytes: &[u8]) -> Vec<u8> {
        [header.to_line().as_slice(), bytes, &[0; 100]].concat()
    }

    type Slots = [Option<Vec<u8>>; 2];

    /// A name, the queue file, its redo files, and what the queue file is to be.
    type Case<'a> = (&'a str, Option<&'a [u8]>, Slots, Option<&'a [u8]>);

    fn slot(boot: &str, sequence: u64, bytes: &[u8], mixes: bool) -> Option<Vec<u8>> {
        Some(text(&header(boot, sequence, bytes, mixes), bytes))
    }

    /// A folder with a queue file and its redo files.
    fn world(live: Option<&[u8]>, slots: &Slots) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queue.json");
        if let Some(live) = live {
            fs::write(&file, live).unwrap();
        }
        for (slot, text) in slots.iter().enumerate() {
            if let Some(text) = text {
                fs::write(path_of(&file, slot), text).unwrap();
            }
        }
        (folder, file)
    }

    #[test]
    fn after_a_power_cut_the_newest_version_is_there_and_at_any_other_time_the_queue_file_is_the_truth() {
        let here = Disk.process().boot;
        assert!(!here.is_empty());
        let new = |boot: &str, mixes| [slot(boot, 1, OLD, mixes), slot(boot, 2, NEW, mixes)];
        let torn = |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec();
        let mut half = slot("other", 3, NEWER, false);
        half.as_mut().unwrap()[60] ^= 1;
        let table: [Case<'_>; 18] = [
            ("older", Some(OLD), new("other", false), Some(NEW)),
            ("the same", Some(NEW), new("other", false), Some(NEW)),
            ("empty", Some(b""), new("other", false), Some(NEW)),
            ("torn", Some(&torn(NEW)), new("other", false), Some(NEW)),
            ("zeros", Some(&[0; 50]), new("other", false), Some(NEW)),
            ("edited by hand since", Some(EDITED), new("other", false), Some(EDITED)),
            ("may be of two versions", Some(EDITED), new("other", true), Some(NEW)),
            ("newer", Some(NEWER), new("other", true), Some(NEWER)),
            ("older than what was durable", Some(OLDEST), new("other", false), Some(OLDEST)),
            ("but it may have been written over that", Some(OLDEST), new("other", true), Some(NEW)),
            ("somebody is working at it", Some(b"{"), new(&here, false), Some(b"{")),
            ("the same boot", Some(OLD), new(&here, true), Some(OLD)),
            ("empty in the same boot: the disk has been away", Some(b""), new(&here, true), Some(NEW)),
            ("removed", None, new("other", false), None),
            ("removed in the same boot", None, new(&here, false), None),
            ("the last redo file is torn", Some(b""), [half.clone(), slot("other", 2, NEW, false)], Some(NEW)),
            ("both are", Some(OLD), [half.clone(), Some(b"\n".to_vec())], Some(OLD)),
            ("the first alone", Some(b""), [slot("other", 1, NEW, false), None], Some(NEW)),
        ];
        for (name, live, slots, expected) in table {
            let (folder, file) = world(live, &slots);
            let (settings, warnings) = (Settings { snapshots: 0, ..Settings::default() }, RefCell::default());
            let access = Access::new(&Disk, &settings, &warnings);
            let parsed = expected.and_then(|bytes| Some(Document::parse(bytes).ok()?.to_bytes()));
            assert_eq!(
                access.load_unlocked(&file).ok().map(|document| document.to_bytes()),
                parsed,
                "{name}: a reader"
            );
            settle(&access, &file).unwrap();
            assert_eq!(fs::read(&file).ok().as_deref(), expected, "{name}");
            assert_eq!(warnings.borrow().is_empty(), expected == live, "{name}: {:?}", warnings.borrow());
            let others = fs::read_dir(folder.path()).unwrap().count();
            let left = if expected == Some(b"{") { 3 } else { usize::from(expected.is_some()) };
            assert_eq!(others, left, "{name}: the redo files are gone, unless they may be needed");
        }
    }

    #[test]
    fn what_cannot_be_told_is_left_as_it_is() {
        let (settings, warnings) = (Settings { snapshots: 0, ..Settings::default() }, RefCell::default());
        let access = Access::new(&Disk, &settings, &warnings);
        // No queue, and no version to put in its place.
        let (_folder, file) = world(Some(b"{"), &[Some(b"\n".to_vec()), None]);
        settle(&access, &file).unwrap();
        assert_eq!((fs::read(&file).unwrap(), path_of(&file, 0).exists()), (b"{".to_vec(), true));
        // A redo file that cannot be read: what it holds was promised to somebody.
        let (_folder, file) = world(Some(OLD), &[slot("other", 1, NEW, false), None]);
        fs::create_dir(path_of(&file, 1)).unwrap();
        assert!(settle(&access, &file).is_err() && access.load_unlocked(&file).is_err());
        assert_eq!((fs::read(&file).unwrap(), path_of(&file, 0).exists()), (OLD.to_vec(), true));
        // One of another release.
        let newer = Header { schema: SCHEMA + 1, ..header("other", 1, NEW, false) };
        let (_folder, file) = world(Some(OLD), &[Some(text(&newer, NEW)), None]);
        assert!(settle(&access, &file).is_err() && path_of(&file, 0).exists());
        // The second one alone has come back after a power cut: the first is removed last.
        let (_folder, file) = world(Some(OLD), &[None, slot("other", 9, NEW, false)]);
        assert_eq!(last(&Disk, &file).unwrap(), None);
    }

    /// In a thread of its own, and for root as somebody else as far as files go: root may write everything.
    fn as_an_ordinary_user(run: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if nix::unistd::geteuid().is_root() {
                    nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
                }
                run();
            });
        });
    }

    #[test]
    fn a_queue_file_that_nobody_may_write_is_replaced() {
        let here = Disk.process().boot;
        let (folder, file) = world(Some(OLD), &[slot(&here, 1, OLD, false), None]);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        as_an_ordinary_user(|| {
            assert!(fs::OpenOptions::new().append(true).open(&file).is_err());
            let (settings, warnings) =
                (Settings { snapshots: 0, spare: true, ..Settings::default() }, RefCell::default());
            let access = Access::new(&Disk, &settings, &warnings);
            settle(&access, &file).unwrap();
            // Flushed, too.
            Redo { lengths: [1, 0], ..Redo::default() }.end(&access, &file).unwrap();
            // With a spare: the second time that is what was the queue file.
            for _ in 0..2 {
                let mut change = |_: &mut Document, _: &Moment| Ok(Verdict::Write { op: "update", ids: Vec::new() });
                let mut guard = Unguarded;
                locked(&access, &file, IfMissing::Refuse, &mut guard, Publishing::Exchange, &mut change).unwrap();
            }
        });
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o444);
        assert_eq!(Document::parse(&fs::read(&file).unwrap()).unwrap().version(), 9);
    }

    struct Unguarded;

    impl Guard for Unguarded {}

    #[test]
    fn versions_that_follow_each_other_take_turns_and_end_without_a_trace() {
        // The second one was left by one who came back from a power cut, and would be the newest for ever.
        let (folder, file) = world(Some(OLD), &[None, slot("other", 1 << 40, OLD, false)]);
        let (settings, warnings) = (Settings::default(), RefCell::default());
        let access = Access::new(&Disk, &settings, &warnings);
        let live = Disk.meta(&file).unwrap();
        let mut redo = Redo::default();
        let keep = |redo: &mut Redo, version, bytes: &[u8]| redo.keep(&access, &file, Some(&live), version, bytes);
        assert!(!keep(&mut redo, 7, OLD).unwrap(), "what it follows is not known to be on the disk");
        let long = vec![b'x'; LEAST];
        for (number, bytes) in [OLD, NEW, &long, EDITED, OLD].into_iter().enumerate() {
            assert!(keep(&mut redo, 8 + number as u64, bytes).unwrap());
            let record = last(&Disk, &file).unwrap().unwrap();
            assert_eq!((record.header.sequence, &*record.bytes), (number as u64 + 1, bytes));
            let (written, _) = Disk.read(&path_of(&file, number % 2), MAX_FILE).unwrap();
            assert!(written.len() == LEAST || written.len() == 2 * LEAST, "no new blocks for each version");
        }
        let is_ended = |redo: &Redo| redo.lengths == [0, 0] && fs::read_dir(folder.path()).unwrap().count() == 1;
        // Somebody has put another file there.
        assert!(!keep(&mut redo, 14, OLD).unwrap() && is_ended(&redo), "a gap");
        assert!(keep(&mut redo, 15, NEW).unwrap());
        let too_long = vec![b'x'; MAX_BYTES + 1];
        assert!(!keep(&mut redo, 16, &too_long).unwrap() && is_ended(&redo));
        assert!(keep(&mut redo, 17, NEW).unwrap());
        assert!(!redo.keep(&access, &file, None, 18, NEW).unwrap() && is_ended(&redo), "a file that is not there");
        for tidy in [0, 1] {
            assert!(keep(&mut redo, 19, NEW).unwrap() && keep(&mut redo, 20, NEW).unwrap());
            fs::remove_file(path_of(&file, tidy)).unwrap();
            assert!(!keep(&mut redo, 21, NEW).unwrap() && is_ended(&redo), "somebody has tidied up");
            redo.last = Some(18);
        }
        assert!(keep(&mut redo, 19, NEW).unwrap());
        redo.end(&access, &file).unwrap();
        assert!(is_ended(&redo) && !keep(&mut redo, 20, NEW).unwrap());
    }

    #[test]
    fn where_they_cannot_be_written_versions_are_published_durably() {
        let (_folder, file) = world(Some(OLD), &[None, None]);
        // A directory has the name, so that no file can.
        fs::create_dir(path_of(&file, 0)).unwrap();
        let (settings, warnings) = (Settings::default(), RefCell::default());
        let access = Access::new(&Disk, &settings, &warnings);
        let mut redo = Redo { last: Some(7), ..Redo::default() };
        let live = Disk.meta(&file).unwrap();
        assert!(!redo.keep(&access, &file, Some(&live), 8, NEW).unwrap());
        // They cannot be removed either, and may hold what the queue file lacks.
        redo.lengths = [1, 0];
        assert!(redo.end(&access, &file).is_err() && redo.is_broken());
        assert!(redo.keep(&access, &file, Some(&live), 9, NEW).is_err(), "and nothing is promised any more");
    }

    /// Keeps a version, after which nothing can be published any more.
    struct Vanishing {
        folder: Option<tempfile::TempDir>,
        withdrawn: bool,
    }

    impl Guard for Vanishing {
        fn make_durable(&mut self, _: Option<&Meta>, version: u64, _: &[u8]) -> Result<bool, Error> {
            assert_eq!(version, 8);
            drop(self.folder.take());
            Ok(true)
        }

        fn withdraw(&mut self) {
            self.withdrawn = true;
        }
    }

    #[test]
    fn what_could_not_be_published_is_withdrawn() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queue.json");
        fs::write(&file, OLD).unwrap();
        let (settings, warnings) = (Settings { snapshots: 0, ..Settings::default() }, RefCell::default());
        let access = Access::new(&Disk, &settings, &warnings);
        let mut guard = Vanishing { folder: Some(folder), withdrawn: false };
        let mut change = |_: &mut Document, _: &Moment| Ok(Verdict::Write { op: "update", ids: Vec::new() });
        let done = locked(&access, &file, IfMissing::Refuse, &mut guard, Publishing::Rename, &mut change);
        assert!(done.is_err() && guard.withdrawn);
    }

    proptest! {
        #[test]
        fn a_redo_file_is_read_as_it_was_written_and_half_of_it_is_none(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            (boot, sequence, version) in ("[a-f0-9-]{0,40}", any::<u64>(), any::<u64>()),
            (place, other) in (any::<prop::sample::Index>(), 1..=255_u8),
        ) {
            let header = Header { version, ..header(&boot, sequence, &bytes, sequence % 2 == 0) };
            let mut written = [header.to_line().as_slice(), &bytes].concat();
            prop_assert_eq!(Record::read(&written).unwrap(), Some(Record { header, bytes, from_before: true }));
            let at = place.index(written.len());
            prop_assert_eq!(Record::read(&written[..at]).unwrap(), None);
            written[at] ^= other;
            prop_assert_eq!(Record::read(&written).unwrap(), None);
        }

        #[test]
        fn anything_else_is_none(text in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(Record::read(&text).unwrap(), None);
        }
    }
}
