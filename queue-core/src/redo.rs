//! How the process that writes for all makes a version durable by one flush of the disk.
//!
//! To publish a version durably takes two: of its bytes, and, once they have their name, of the directory; and each is a
//! commit of the file system's own journal, since the file is new. So before it publishes, the writer puts the version into
//! one of two *redo files* (`.queue.json.redo-0` and `-1`, in turns, so that the last version is whole while the next is
//! written), over blocks that the disk has already given out, and flushes that. What is then published needs no flush: the
//! system brings it to the disk when it likes. It is a redo log (Gray and Reuter, *Transaction Processing*, 1992, chapter 9)
//! of which each record is a whole version.
//!
//! In the same boot the queue file is the truth, whoever is killed, and the redo files are of no use to anybody: the next
//! one who takes the lock flushes the queue file and removes them, as a writer does at its end. (So a disk that loses its
//! power alone, under a machine that goes on, is not covered.) In another boot the queue
//! file may be an older version, or empty: then the last redo file is put back, by the next one who takes the lock, and is
//! what a reader reads until then. A program that does not know the rule may read what the power cut has left. So that this
//! is rare, the writer flushes the queue file, too, whenever nobody has asked anything for a while ([`Redo::catch_up`]).

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::audit;
use crate::document::Document;
use crate::error::Error;
use crate::paths::{beside, directory_of};
use crate::storage::{Meta, Storage};
use crate::strategy::IfMissing;
use crate::transaction::{Access, Durability, Loaded, Settings};

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
    version: u64,
    size: usize,
    hash: String,
    /// Whether what is published is written over an older version, so that after a power cut it may be of both.
    mixes: bool,
}

const SCHEMA: u64 = 1;

/// A version as a redo file holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    header: Header,
    bytes: Vec<u8>,
}

impl Header {
    /// The line of JSON, with its sum.
    fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_else(|error| unreachable!("plain fields: {error}"));
        let sum = audit::hash(&line);
        line.push(b' ');
        line.extend_from_slice(sum.as_bytes());
        line.push(b'\n');
        line
    }
}

impl Record {
    /// From the content of a redo file. None: it is torn, or none of ours.
    fn read(text: &[u8]) -> Option<Self> {
        let end = text.iter().take(MAX_HEADER).position(|&byte| byte == b'\n')?;
        let (header, sum) = text[..end].split_at_checked(end.checked_sub(9)?)?;
        (sum[0] == b' ' && sum[1..] == *audit::hash(header).as_bytes()).then_some(())?;
        let header: Header = serde_json::from_slice(header).ok()?;
        let bytes = text.get(end + 1..)?.get(..header.size)?;
        (header.schema == SCHEMA && header.hash == audit::hash(bytes)).then_some(())?;
        Some(Record { bytes: bytes.to_vec(), header })
    }
}

fn path_of(file: &Path, slot: usize) -> PathBuf {
    beside(file, &format!(".redo-{slot}"))
}

/// Whether there is a redo file. The first of the two is made first and removed last.
fn is_there<S: Storage>(storage: &S, file: &Path) -> bool {
    storage.meta(&path_of(file, 0)).is_ok()
}

/// The last version that is whole, and what its file is.
fn last<S: Storage>(storage: &S, file: &Path) -> Option<(Record, Meta)> {
    let read = |slot| {
        let (text, meta) = storage.read(&path_of(file, slot), MAX_FILE).ok()?;
        Some((Record::read(&text)?, meta))
    };
    (0..2).filter_map(read).max_by_key(|(record, _)| record.header.sequence)
}

/// The version that a power cut has taken from the queue file, whose bytes are these now.
fn lost<S: Storage>(storage: &S, file: &Path, live: Option<&[u8]>) -> Option<(Record, Meta)> {
    if !is_there(storage, file) {
        return None;
    }
    let (record, meta) = last(storage, file)?;
    if is_of_this_boot(storage, &record) {
        return None;
    }
    let header = &record.header;
    let there = live.and_then(|bytes| Some((bytes, Document::parse(bytes).ok()?.version())));
    let kept = there.is_some_and(|(bytes, version)| {
        version > header.version || version == header.version && (!header.mixes || bytes == record.bytes)
    });
    (!kept).then_some((record, meta))
}

/// What a reader has to take for the queue file, whose bytes are these.
pub(crate) fn instead<S: Storage>(storage: &S, file: &Path, live: Option<&[u8]>) -> Option<Vec<u8>> {
    lost(storage, file, live).map(|(record, _)| record.bytes)
}

/// Whether the queue file is to be [settled](settle) before anything is read from it without the lock.
pub(crate) fn is_unsettled<S: Storage>(storage: &S, file: &Path) -> bool {
    is_there(storage, file) && last(storage, file).is_some_and(|(record, _)| !is_of_this_boot(storage, &record))
}

fn is_of_this_boot<S: Storage>(storage: &S, record: &Record) -> bool {
    let boot = storage.process().boot;
    !boot.is_empty() && record.header.boot == boot
}

/// Makes the queue file what it has to be, durably, and removes the redo files. For the holder of the lock, who is no writer
/// (yet).
///
/// # Errors
/// [`Error::Io`], [`Error::NotDurable`]; then the redo files are still there.
pub(crate) fn settle<S: Storage>(access: &Access<'_, S>, file: &Path) -> Result<(), Error> {
    let storage = access.storage;
    if !is_there(storage, file) {
        return Ok(());
    }
    let settings = Settings { durability: Durability::Full, ..access.settings.clone() };
    let access = access.with(&settings);
    let live = access.load(file, IfMissing::Create)?;
    match lost(storage, file, live.bytes()) {
        Some((record, meta)) => put_back(&access, file, &live, &record, &meta)?,
        None => flush(&access, file)?,
    }
    remove(storage, file).map_err(|error| Error::io("remove the redo files", file, error))
}

fn put_back<S: Storage>(
    access: &Access<'_, S>,
    file: &Path,
    live: &Loaded,
    record: &Record,
    meta: &Meta,
) -> Result<(), Error> {
    access.put_back(file, live, &record.bytes, meta)?;
    access.warn(Error::PutBack { path: file.to_owned(), version: record.header.version });
    Ok(())
}

/// Brings the queue file to the disk as it is.
fn flush<S: Storage>(access: &Access<'_, S>, file: &Path) -> Result<(), Error> {
    let storage = access.storage;
    let failed = |source| Error::NotDurable { path: file.to_owned(), source };
    match storage.meta(file) {
        // Nobody wants it any more.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        _ => storage.open_append(file).and_then(|mut live| storage.sync(&mut live)).map_err(failed)?,
    }
    storage.sync_dir(directory_of(file)).map_err(failed)
}

fn remove_slots<S: Storage>(storage: &S, file: &Path) -> io::Result<()> {
    for slot in [1, 0] {
        match storage.remove_file(&path_of(file, slot)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn remove<S: Storage>(storage: &S, file: &Path) -> io::Result<()> {
    remove_slots(storage, file)?;
    // One that came back after a power cut could be taken for a newer version of a queue that was begun anew.
    storage.sync_dir(directory_of(file))
}

/// The redo files of one writer.
#[derive(Debug, Default)]
pub(crate) struct Redo {
    /// How many versions were put into them.
    sequence: u64,
    /// How long each of them is; 0: it is not there.
    lengths: [usize; 2],
    /// Whether something was published that was not flushed.
    behind: bool,
    /// What is published is not known to reach the disk, nor are they: no more of this.
    broken: bool,
}

impl Redo {
    /// Makes the next version durable, and says whether it did; if not, it has to be published durably.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn keep<S: Storage>(
        &mut self,
        access: &Access<'_, S>,
        file: &Path,
        live: Option<&Meta>,
        version: u64,
        bytes: &[u8],
    ) -> Result<bool, Error> {
        // The first version of a file has a name to be made durable.
        if let Some(live) = live
            && bytes.len() <= MAX_BYTES
            && !self.broken
            && self.put(access, file, live, version, bytes).is_ok()
        {
            return Ok(true);
        }
        self.end(access, file)?;
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
            version,
            size: bytes.len(),
            hash: audit::hash(bytes),
            mixes: access.settings.spare,
        };
        let line = header.to_line();
        let written = line.len() + bytes.len();
        let slot = usize::from(self.sequence % 2 == 1);
        let (path, length) = (path_of(file, slot), &mut self.lengths[slot]);
        let is_new = *length == 0;
        if self.sequence == 0 {
            // Nothing that a power cut brought back may be taken for the newest.
            remove_slots(storage, file)?;
        }
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
        self.behind = true;
        Ok(())
    }

    /// Whether there is something to [catch up](Self::catch_up) with.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind
    }

    /// Flushes the queue file, for those who do not know of the redo files. These stay, since the next version may come at
    /// any moment. If it fails they are what will be put back.
    pub(crate) fn catch_up<S: Storage>(&mut self, access: &Access<'_, S>, file: &Path) {
        self.behind = false;
        if let Err(error) = flush(access, file) {
            self.broken = true;
            access.warn(error);
        }
    }

    /// Brings what is published to the disk, and removes the redo files.
    ///
    /// # Errors
    /// [`Error::NotDurable`], [`Error::Io`]; the redo files stay, and are not written again.
    pub(crate) fn end<S: Storage>(&mut self, access: &Access<'_, S>, file: &Path) -> Result<(), Error> {
        if self.lengths == [0, 0] || self.broken {
            return Ok(());
        }
        self.broken = true;
        flush(access, file)?;
        remove(access.storage, file).map_err(|error| Error::io("remove the redo files", file, error))?;
        *self = Redo::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::lease::Moment;
    use crate::snapshot::Publishing;
    use crate::storage::Disk;
    use crate::strategy::{Guard, Verdict};
    use crate::transaction::locked;

    const OLD: &[u8] = br#"{"version": 7, "tasks": []}"#;
    const NEW: &[u8] =
        br#"{"version": 8, "tasks": [{"id": "t", "account": "a", "params": 1, "state": "queued", "attempts": 0}]}"#;
    const EDITED: &[u8] = br#"{"version": 8, "tasks": []}"#;
    const NEWER: &[u8] = br#"{"version": 9, "tasks": []}"#;

    fn header(boot: &str, sequence: u64, bytes: &[u8], mixes: bool) -> Header {
        let version = Document::parse(bytes).map_or(0, |document| document.version());
        let (boot, hash) = (boot.to_owned(), audit::hash(bytes));
        Header { schema: SCHEMA, boot, sequence, version, size: bytes.len(), hash, mixes }
    }

    fn text(header: &Header, bytes: &[u8]) -> Vec<u8> {
        [header.to_line().as_slice(), bytes, &[0; 100]].concat()
    }

    type Slots = [Option<Vec<u8>>; 2];

    /// A name, the queue file, its redo files, and what the queue file is to be.
    type Case<'a> = (&'a str, Option<&'a [u8]>, Slots, Option<&'a [u8]>);

    /// What is left of a queue file and its redo files by [`settle`], and what it warns of.
    fn settled(live: Option<&[u8]>, slots: Slots) -> (Option<Vec<u8>>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queue.json");
        if let Some(live) = live {
            fs::write(&file, live).unwrap();
        }
        for (slot, text) in slots.into_iter().enumerate() {
            if let Some(text) = text {
                fs::write(path_of(&file, slot), text).unwrap();
            }
        }
        let read = instead(&Disk, &file, live).or(live.map(<[u8]>::to_vec));
        let (settings, warnings) = (Settings { snapshots: 0, ..Settings::default() }, RefCell::default());
        settle(&Access::new(&Disk, &settings, &warnings), &file).unwrap();
        let left = fs::read(&file).ok();
        assert_eq!(read, left, "a reader without the lock was told the same");
        let others: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(others.len(), usize::from(left.is_some()), "{others:?}");
        (left, warnings.into_inner().iter().map(Error::to_string).collect())
    }

    #[test]
    fn after_a_power_cut_the_newest_version_is_there_and_at_any_other_time_the_queue_file_is_the_truth() {
        let here = Disk.process().boot;
        assert!(!here.is_empty());
        let slot = |boot: &str, sequence, bytes, mixes| Some(text(&header(boot, sequence, bytes, mixes), bytes));
        let new = |boot: &str, mixes| [slot(boot, 1, OLD, mixes), slot(boot, 2, NEW, mixes)];
        let torn = |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec();
        let mut half = slot("other", 3, NEWER, false);
        half.as_mut().unwrap()[60] ^= 1;
        let table: [Case<'_>; 13] = [
            ("older", Some(OLD), new("other", false), Some(NEW)),
            ("the same", Some(NEW), new("other", false), Some(NEW)),
            ("empty", Some(b""), new("other", false), Some(NEW)),
            ("torn", Some(&torn(NEW)), new("other", false), Some(NEW)),
            ("zeros", Some(&[0; 50]), new("other", false), Some(NEW)),
            ("gone", None, new("other", false), Some(NEW)),
            ("edited by hand since", Some(EDITED), new("other", false), Some(EDITED)),
            ("may be of two versions", Some(EDITED), new("other", true), Some(NEW)),
            ("newer", Some(NEWER), new("other", true), Some(NEWER)),
            ("the same boot", Some(OLD), new(&here, true), Some(OLD)),
            ("removed in the same boot", None, new(&here, false), None),
            ("the last redo file is torn", Some(b""), [half.clone(), slot("other", 2, NEW, false)], Some(NEW)),
            ("both are", Some(OLD), [half.clone(), Some(b"\n".to_vec())], Some(OLD)),
        ];
        for (name, live, slots, expected) in table {
            let (left, warnings) = settled(live, slots);
            assert_eq!(left.as_deref(), expected, "{name}");
            assert_eq!(!warnings.is_empty(), left.as_deref() != live, "{name}: {warnings:?}");
        }
    }

    #[test]
    fn the_second_one_alone_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queue.json");
        fs::write(path_of(&file, 1), text(&header("other", 9, NEW, false), NEW)).unwrap();
        assert_eq!(instead(&Disk, &file, Some(OLD)), None, "the first one is removed last");
    }

    #[test]
    fn versions_take_turns_and_end_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queue.json");
        fs::write(&file, OLD).unwrap();
        // Left by one who came back from a power cut, and would be the newest for ever.
        fs::write(path_of(&file, 1), text(&header("other", 1 << 40, OLD, false), OLD)).unwrap();
        let (settings, warnings) = (Settings::default(), RefCell::default());
        let access = Access::new(&Disk, &settings, &warnings);
        let live = Disk.meta(&file).unwrap();
        let mut redo = Redo::default();
        let long = vec![b'x'; LEAST];
        for (number, bytes) in [OLD, NEW, &long, EDITED, OLD].into_iter().enumerate() {
            assert!(redo.keep(&access, &file, Some(&live), 7, bytes).unwrap());
            let (record, _) = last(&Disk, &file).unwrap();
            assert_eq!((record.header.sequence, &*record.bytes), (number as u64 + 1, bytes));
            let (written, _) = Disk.read(&path_of(&file, number % 2), MAX_FILE).unwrap();
            assert!(written.len() == LEAST || written.len() == 2 * LEAST, "no new blocks for each version");
        }
        // Another writer of this boot may be about to write the same version: nothing is put back.
        assert_eq!(instead(&Disk, &file, Some(OLD)), None);
        let too_long = vec![b'x'; MAX_BYTES + 1];
        for refused in [redo.keep(&access, &file, Some(&live), 8, &too_long), redo.keep(&access, &file, None, 1, OLD)] {
            assert!(!refused.unwrap(), "this one is published durably");
            assert!(!is_there(&Disk, &file) && last(&Disk, &file).is_none());
        }
        assert!(redo.keep(&access, &file, Some(&live), 9, NEW).unwrap());
        redo.end(&access, &file).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn where_they_cannot_be_written_versions_are_published_durably() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queue.json");
        fs::write(&file, OLD).unwrap();
        // A directory has the name, so that no file can.
        fs::create_dir(path_of(&file, 0)).unwrap();
        let (settings, warnings) = (Settings::default(), RefCell::default());
        let access = Access::new(&Disk, &settings, &warnings);
        let mut redo = Redo::default();
        let live = Disk.meta(&file).unwrap();
        assert!(!redo.keep(&access, &file, Some(&live), 8, NEW).unwrap());
        redo.end(&access, &file).unwrap();
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
            prop_assert_eq!(Record::read(&written), Some(Record { header, bytes }));
            let at = place.index(written.len());
            prop_assert_eq!(Record::read(&written[..at]), None);
            written[at] ^= other;
            prop_assert_eq!(Record::read(&written), None);
        }

        #[test]
        fn anything_else_is_none(text in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(Record::read(&text), None);
        }
    }
}
