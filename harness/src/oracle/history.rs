//! The history witness: which versions a file had, who published each, and who read what before writing.
//!
//! A version is *published* when a finished file gets its name (rename, link), when the last writer closes it or
//! gives its lock back, and, for appending descriptors, by each call. When a second writer begins to change a file
//! that the first has not published yet, what the first had written is kept as an unpublished version: it may be the
//! one that is lost. What a worker that is killed was changing, and what a failed or short write left incomplete, is
//! not published by the close that follows, nor by a rename. Needs a recorded run; in another it only knows the initial versions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::world::{ASKED_FLAG, Effect, Inode, Mode, Node, Object, Op, Run, Step};

/// One content of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Whose change it is (worker number); `None`: it was there at the start.
    pub by: Option<usize>,
    /// The step that published it (index into the trace), or that ended it unpublished.
    pub step: Option<usize>,
    /// Its bytes; `None`: too large to be recorded, or (see `absent`) the path names nothing.
    pub bytes: Option<Arc<[u8]>>,
    /// The path names nothing from here on.
    pub absent: bool,
    /// False: somebody else changed the file before this content was published.
    pub published: bool,
    /// The version of the same path that the author read last before it changed it, and the step of that read.
    pub base: Option<(usize, usize)>,
}

/// One reading of a file: all reads through one open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Who (worker number).
    pub by: usize,
    /// The path it is known by.
    pub path: String,
    /// First and last read (indices into the trace).
    pub steps: (usize, usize),
    /// The version that was current at the first read, if the file had one.
    pub version: Option<usize>,
    /// Somebody else's unpublished change was in the file during one of the reads: whose.
    pub during: Option<usize>,
    /// Its own unpublished change was in the file during one of the reads.
    pub own: bool,
    /// The bytes: offset and what was there; an empty piece means the file ended there.
    pieces: Vec<(u64, Arc<[u8]>)>,
    /// All bytes were recorded.
    complete: bool,
}

impl Reading {
    /// Whether what was read can have come from this content alone.
    pub fn fits(&self, bytes: &[u8]) -> bool {
        self.pieces.iter().all(|(offset, piece)| {
            let Ok(from) = usize::try_from(*offset) else { return false };
            if piece.is_empty() {
                bytes.len() <= from
            } else {
                bytes.get(from..).is_some_and(|rest| rest.starts_with(piece))
            }
        })
    }

    /// Whether anything is known of what was read.
    pub fn known(&self) -> bool {
        self.complete && !self.pieces.is_empty()
    }
}

/// A change that went to a file no name leads to any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// Who (worker number).
    pub by: usize,
    /// The name the file had.
    pub path: String,
    /// The step.
    pub step: usize,
    /// Content before and after.
    pub before: Option<Arc<[u8]>>,
    /// Content after.
    pub after: Option<Arc<[u8]>>,
}

/// What a path showed from one step on, published or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The step (index into the trace).
    pub step: usize,
    /// Who changed it (worker number).
    pub by: usize,
    /// The bytes; `None`: too large to be recorded, or (see `absent`) the path names nothing.
    pub bytes: Option<Arc<[u8]>>,
    /// The path names nothing from here on.
    pub absent: bool,
}

/// A file's unpublished state.
#[derive(Clone, Debug)]
struct Dirty {
    by: usize,
    last: usize,
    base: Option<(usize, usize)>,
}

/// All versions of all files of one run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Versions of each path, oldest first.
    pub versions: BTreeMap<String, Vec<Version>>,
    /// Readings in order of their first read.
    pub readings: Vec<Reading>,
    /// Changes that no name leads to.
    pub strays: Vec<Stray>,
    /// What each path showed over time, its content at the start aside.
    pub frames: BTreeMap<String, Vec<Frame>>,
    /// For each step the path and version it published, if it did.
    pub published_by: BTreeMap<usize, (String, usize)>,
    /// For each read step its reading.
    pub reading_of: BTreeMap<usize, usize>,
    bound: BTreeMap<String, Inode>,
    once_bound: BTreeSet<String>,
    former: BTreeMap<Inode, String>,
    content: BTreeMap<Inode, Option<Arc<[u8]>>>,
    dirty: BTreeMap<Inode, Dirty>,
    current: BTreeMap<Inode, usize>,
    appending: BTreeSet<(usize, Inode)>,
    open: BTreeMap<(usize, Inode), Option<usize>>,
    /// Files with a change that a fault cut short and that was not made good: whose, and how many bytes are missing.
    unfinished: BTreeMap<Inode, (usize, u64)>,
    /// Names that were there at the start.
    at_start: BTreeSet<String>,
    /// Names that were moved to another name.
    moved: BTreeSet<String>,
    /// Names of new files that were not published yet.
    fresh: BTreeSet<String>,
}

impl History {
    /// The history of a run that began with these files.
    pub fn of(run: &Run, initial: &BTreeMap<String, Node>) -> History {
        let mut history = History::default();
        for (path, node) in initial {
            if let Node::File { bytes, .. } = node {
                let first = Version {
                    by: None,
                    step: None,
                    bytes: Some(bytes.clone()),
                    absent: false,
                    published: true,
                    base: None,
                };
                history.versions.insert(path.clone(), vec![first]);
                history.at_start.insert(path.clone());
            }
        }
        for (number, step) in run.steps.iter().enumerate() {
            history.step(number, step);
        }
        for (inode, dirty) in std::mem::take(&mut history.dirty) {
            history.publish(inode, &dirty, dirty.last, true);
        }
        history
    }

    /// The version number a JSON document carries (`"version": N`).
    pub fn stated_version(bytes: &[u8]) -> Option<String> {
        let value = super::json::parse(bytes)?;
        super::json::id_text(value.get("version")?)
    }

    /// The version of a path, with its number.
    pub fn version(&self, path: &str, number: usize) -> Option<&Version> {
        self.versions.get(path)?.get(number)
    }

    /// Whose change of this path a fault cut short, if what the name leads to now was left like that; never for a new
    /// file that nobody had published.
    pub fn cut_short(&self, path: &str) -> Option<usize> {
        let inode = self.bound.get(path).filter(|_| !self.fresh.contains(path))?;
        self.unfinished.get(inode).map(|(by, _)| *by)
    }

    fn step(&mut self, number: usize, step: &Step) {
        self.note_fault(number, step);
        if step.fault() == Some("power-cut") {
            return self.lose(step);
        }
        if step.failed() && step.effects.is_empty() {
            return;
        }
        let actor = usize::from(step.actor.0);
        self.learn(step);
        match (step.op, step.inode) {
            (Op::Open | Op::Create, Some(inode)) => {
                self.open.insert((actor, inode), None);
                let appends = step.flags.iter().any(|flag| flag == "append");
                if appends {
                    self.appending.insert((actor, inode))
                } else {
                    self.appending.remove(&(actor, inode))
                };
            }
            (Op::Read | Op::Map, Some(inode)) => self.read(number, step, actor, inode, step.path.as_ref()),
            // A copy within the kernel reads the one file and writes the other.
            (Op::Write, _) if step.path2.is_some() => {
                if let Some(source) = copied_from(step) {
                    self.read(number, step, actor, source, step.path2.as_ref());
                }
            }
            _ => {}
        }
        for effect in &step.effects {
            match effect {
                Effect::Content { inode, after } => self.change(number, step, actor, *inode, after.clone()),
                Effect::Bind { path, inode: Some(inode) } => self.bind(number, step, actor, path, *inode),
                Effect::Bind { path, inode: None } => {
                    self.show(path.clone(), Frame { step: number, by: actor, bytes: None, absent: true });
                    if let Some(inode) = self.bound.remove(path) {
                        self.former.insert(inode, path.clone());
                    }
                    let renamed_away = matches!(step.op, Op::Rename | Op::Exchange);
                    if renamed_away {
                        self.moved.insert(path.clone());
                    }
                    if !renamed_away && self.versions.contains_key(path) {
                        let base = self.last_read(actor, path);
                        let gone = Version {
                            by: Some(actor),
                            step: Some(number),
                            bytes: None,
                            absent: true,
                            published: true,
                            base,
                        };
                        self.push(path, gone, number);
                    }
                }
            }
        }
        if step.publishes && matches!(step.op, Op::Close | Op::Unlock | Op::Exit) {
            let inodes: Vec<Inode> = match step.inode {
                Some(inode) => vec![inode],
                None => self.dirty.iter().filter(|(_, dirty)| dirty.by == actor).map(|(inode, _)| *inode).collect(),
            };
            for inode in inodes {
                if let Some(dirty) = self.dirty.remove(&inode) {
                    self.publish(inode, &dirty, number, true);
                }
            }
        }
    }

    /// What a fault leaves unfinished: the changes of a worker that is killed, and a write that moved too little. A
    /// write that goes on where the short one ended makes it good, and so does beginning anew with an empty file.
    fn note_fault(&mut self, number: usize, step: &Step) {
        let actor = usize::from(step.actor.0);
        match (step.op, step.fault()) {
            (Op::Exit, Some(kind)) => {
                let own: Vec<Inode> =
                    self.dirty.iter().filter(|(_, dirty)| dirty.by == actor).map(|(inode, _)| *inode).collect();
                for inode in own {
                    self.unfinished.insert(inode, (actor, u64::MAX));
                    // Of a worker that goes on without one of its processes another may still publish.
                    if matches!(kind, "kill" | "power-cut")
                        && let Some(dirty) = self.dirty.remove(&inode)
                    {
                        self.publish(inode, &dirty, number, false);
                    }
                }
            }
            (Op::Write, fault) => {
                let Some(inode) = step.inode else { return };
                let moved = u64::try_from(step.ret).unwrap_or(0);
                let asked = step.flags.iter().find_map(|flag| flag.strip_prefix(ASKED_FLAG)?.parse::<u64>().ok());
                if let (Some(_), Some(asked)) = (fault, asked) {
                    self.unfinished.insert(inode, (actor, asked.saturating_sub(moved)));
                } else if let Some((by, missing)) = self.unfinished.get_mut(&inode)
                    && *by == actor
                {
                    *missing = missing.saturating_sub(moved);
                }
                self.unfinished.retain(|_, (_, missing)| *missing > 0);
            }
            _ => {}
        }
    }

    /// The power goes: names lead to other files from now on, and what is in some of them nobody wrote like that.
    fn lose(&mut self, step: &Step) {
        for effect in &step.effects {
            match effect {
                Effect::Bind { path, inode: None } => drop(self.bound.remove(path)),
                Effect::Bind { path, inode: Some(inode) } => {
                    if let Some(old) = self.bound.insert(path.clone(), *inode) {
                        self.content.insert(*inode, self.content.get(&old).cloned().flatten());
                        if let Some(version) = self.current.get(&old).copied() {
                            self.current.insert(*inode, version);
                        }
                    } else {
                        let version = self.versions.get(path).and_then(|all| all.last());
                        self.content.insert(*inode, version.and_then(|version| version.bytes.clone()));
                    }
                    self.once_bound.insert(path.clone());
                }
                Effect::Content { inode, after } => {
                    let path = self.bound.iter().find(|(_, bound)| *bound == inode).map(|(path, _)| path.clone());
                    let last = path.and_then(|path| self.versions.get(&path)?.last()?.by);
                    let by = last.unwrap_or(usize::from(step.actor.0));
                    self.content.insert(*inode, after.clone());
                    self.unfinished.insert(*inode, (by, u64::MAX));
                    self.current.remove(inode);
                }
            }
        }
    }

    /// A file of the start is met for the first time: now its inode is known.
    fn learn(&mut self, step: &Step) {
        if let (Op::Write, Some(path), Some(source)) = (step.op, &step.path2, copied_from(step)) {
            self.meet(path, source);
        }
        let Some(path) = &step.path else { return };
        let moved = step.effects.iter().find_map(|effect| match effect {
            Effect::Bind { path: to, inode } if Some(to) == step.path2.as_ref() => *inode,
            _ => None,
        });
        let moves = matches!(step.op, Op::Rename | Op::Exchange | Op::Link);
        let Some(inode) = (if moves { moved.or(step.inode) } else { step.inode }) else { return };
        if step.op != Op::Create {
            self.meet(path, inode);
        }
    }

    fn meet(&mut self, path: &String, inode: Inode) {
        if self.once_bound.contains(path) {
            return;
        }
        if let Some(Some(bytes)) = self.versions.get(path).and_then(|all| all.first()).map(|first| first.bytes.clone())
        {
            self.once_bound.insert(path.clone());
            self.bound.insert(path.clone(), inode);
            self.content.entry(inode).or_insert(Some(bytes));
            self.current.entry(inode).or_insert(0);
        }
    }

    fn read(&mut self, number: usize, step: &Step, actor: usize, inode: Inode, shown: Option<&String>) {
        let Some(path) = self.name(inode).or_else(|| shown.cloned()) else { return };
        let content = self.content.get(&inode).cloned().flatten();
        let piece = match (step.op, &step.data, step.ret) {
            (Op::Map, _, _) => content,
            (_, Some(data), _) => Some(data.clone()),
            (_, None, 0) => Some(Arc::from([])),
            _ => None,
        };
        let writer = self.dirty.get(&inode).map(|dirty| dirty.by);
        let (during, own) = (writer.filter(|by| *by != actor), writer == Some(actor));
        let at = match self.open.get(&(actor, inode)).copied().flatten() {
            Some(at) => at,
            None => {
                let version = self.current.get(&inode).copied();
                let steps = (number, number);
                let (pieces, complete) = (Vec::new(), true);
                let reading = Reading { by: actor, path, steps, version, during, own, pieces, complete };
                self.readings.push(reading);
                self.open.insert((actor, inode), Some(self.readings.len() - 1));
                self.readings.len() - 1
            }
        };
        self.reading_of.insert(number, at);
        let reading = &mut self.readings[at];
        let end = reading.pieces.last().map_or(0, |(offset, piece)| offset + piece.len() as u64);
        reading.steps.1 = number;
        reading.during = reading.during.or(during);
        reading.own |= own;
        match piece {
            // What is mapped is the whole file, whatever was read of it before.
            Some(piece) if step.op == Op::Map => reading.pieces.push((0, piece)),
            // The place of a copy is that in the file it writes.
            Some(piece) if step.op == Op::Write => reading.pieces.push((end, piece)),
            Some(piece) => reading.pieces.push((step.offset.unwrap_or(end), piece)),
            None => reading.complete = false,
        }
    }

    fn change(&mut self, number: usize, step: &Step, actor: usize, inode: Inode, after: Option<Arc<[u8]>>) {
        if let Some(dirty) = self.dirty.get(&inode).cloned()
            && dirty.by != actor
        {
            self.publish(inode, &dirty, number, false);
            self.dirty.remove(&inode);
        }
        let before = self.content.insert(inode, after.clone()).flatten();
        if after.as_deref().is_some_and(<[u8]>::is_empty) {
            self.unfinished.remove(&inode);
        }
        let paths: Vec<String> = self.names(inode).cloned().collect();
        for path in paths {
            self.show(path, Frame { step: number, by: actor, bytes: after.clone(), absent: false });
        }
        let path = self.name(inode);
        let base = path.as_deref().and_then(|path| self.last_read(actor, path));
        let dirty = self.dirty.entry(inode).or_insert(Dirty { by: actor, last: number, base });
        dirty.last = number;
        if !self.bound.values().any(|bound| *bound == inode)
            && let Some(path) = self.former.get(&inode)
        {
            self.strays.push(Stray { by: actor, path: path.clone(), step: number, before, after });
        }
        let appends = step.op == Op::Write
            && (step.flags.iter().any(|flag| flag == "append") || self.appending.contains(&(actor, inode)));
        if appends && let Some(dirty) = self.dirty.remove(&inode) {
            self.publish(inode, &dirty, number, true);
        }
    }

    fn bind(&mut self, number: usize, step: &Step, actor: usize, path: &str, inode: Inode) {
        self.once_bound.insert(path.to_owned());
        if let Some(old) = self.bound.insert(path.to_owned(), inode)
            && old != inode
        {
            self.former.insert(old, path.to_owned());
        }
        self.former.remove(&inode);
        // A file nobody has written to yet is empty.
        let bytes = self.content.get(&inode).cloned().unwrap_or_else(|| Some(Arc::from([])));
        self.show(path.to_owned(), Frame { step: number, by: actor, bytes, absent: false });
        if matches!(step.op, Op::Rename | Op::Exchange | Op::Link) {
            self.dirty.remove(&inode);
            let base = self.last_read(actor, path);
            let bytes = self.content.get(&inode).cloned().flatten();
            let published = !self.unfinished.contains_key(&inode);
            let version = Version { by: Some(actor), step: Some(number), bytes, absent: false, published, base };
            self.fresh.remove(path);
            self.push(path, version, number);
            let last = self.versions[path].len() - 1;
            self.current.insert(inode, last);
        } else {
            self.versions.entry(path.to_owned()).or_default();
            if !self.at_start.contains(path) || self.moved.contains(path) {
                self.fresh.insert(path.to_owned());
            }
            self.current.remove(&inode);
        }
    }

    fn publish(&mut self, inode: Inode, dirty: &Dirty, step: usize, published: bool) {
        let bytes = self.content.get(&inode).cloned().flatten();
        let published = published && !self.unfinished.contains_key(&inode);
        let paths: Vec<String> = self.names(inode).cloned().collect();
        for path in paths {
            if published {
                self.fresh.remove(&path);
            }
            let version = Version {
                by: Some(dirty.by),
                step: Some(step),
                bytes: bytes.clone(),
                absent: false,
                published,
                base: dirty.base,
            };
            self.push(&path, version, step);
            self.current.insert(inode, self.versions[&path].len() - 1);
        }
    }

    fn push(&mut self, path: &str, version: Version, step: usize) {
        let published = version.published;
        let all = self.versions.entry(path.to_owned()).or_default();
        all.push(version);
        if published {
            self.published_by.insert(step, (path.to_owned(), all.len() - 1));
        }
    }

    /// One step may change a path twice (a rename that replaces): the last is what it shows.
    fn show(&mut self, path: String, frame: Frame) {
        let frames = self.frames.entry(path).or_default();
        if frames.last().is_some_and(|last| last.step == frame.step) {
            frames.pop();
        }
        frames.push(frame);
    }

    /// Every path that names this file.
    fn names(&self, inode: Inode) -> impl Iterator<Item = &String> {
        self.bound.iter().filter(move |(_, bound)| **bound == inode).map(|(path, _)| path)
    }

    fn name(&self, inode: Inode) -> Option<String> {
        self.names(inode).next().cloned().or_else(|| self.former.get(&inode).cloned())
    }

    /// The version of this path that the actor read last.
    fn last_read(&self, actor: usize, path: &str) -> Option<(usize, usize)> {
        let last = self.readings.iter().rev().find(|reading| reading.by == actor && reading.path == path)?;
        Some((last.version?, last.steps.0))
    }
}

/// The file that a copy within the kernel read.
fn copied_from(step: &Step) -> Option<Inode> {
    step.accesses.iter().find_map(|access| match access.object {
        Object::Content(inode) if access.mode == Mode::Read => Some(inode),
        _ => None,
    })
}
