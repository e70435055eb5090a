//! What the steps of a run did to the disk: the events from which the states after a power cut follow.
//!
//! Kept only for scenarios with a power cut. The world lies on a file system in memory, so that nothing is ever lost
//! by itself; each change is noted with its bytes right after the call that made it.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    os::unix::fs::MetadataExt,
    sync::Arc,
};

use nix::{libc, unistd::Pid};

use super::{
    calls::{Call, SyncKind},
    draft::{After, Draft},
    machine::Machine,
    steps::real_path,
};
use crate::{
    fault::power_cut::{Disk, Event, Made, NodeId},
    scenario::Acknowledging,
    world::{Inode, Mode, Object, Op, Step, Tree},
};

/// Files up to this size are read as a whole where a call does not tell its bytes.
const WHOLE_CAP: u64 = 4 << 20;

/// The disk of the world at the start, and everything that happened to it.
#[derive(Debug, Default)]
pub(super) struct Storage {
    pub disk: Disk,
    pub events: Vec<Event>,
    /// Why nobody can tell what a power cut would leave.
    pub unknown: BTreeSet<String>,
    /// What each worker says when it acknowledges.
    pub says: Vec<Acknowledging>,
    nodes: HashMap<Inode, NodeId>,
    made: u32,
}

impl Storage {
    /// The world's root and each of its paths have these numbers.
    pub(super) fn new(tree: &Tree, root: Inode, numbers: impl IntoIterator<Item = (String, Inode)>) -> Self {
        let disk = Disk::new(tree);
        let mut nodes: HashMap<Inode, NodeId> = [(root, NodeId::ROOT)].into();
        for (path, number) in numbers {
            if let Some(node) = disk.paths.get(&path) {
                nodes.insert(number, *node);
            }
        }
        let made = disk.nodes.len() as u32;
        Storage { disk, nodes, made, ..Storage::default() }
    }

    fn new_node(&mut self, number: Option<Inode>) -> NodeId {
        let node = NodeId(self.made);
        self.made += 1;
        if let Some(number) = number {
            self.nodes.insert(number, node);
        }
        node
    }

    fn cannot_know(&mut self, why: String) {
        self.unknown.insert(why);
    }

    /// A new node with what is at this path now: its content is written to it at once.
    fn adopt(&mut self, at: (NodeId, String), number: Option<Inode>, path: &str) {
        let path = real_path(path);
        let Ok(meta) = fs::symlink_metadata(&path) else { return };
        let made = if meta.is_dir() {
            Made::Dir(meta.mode() & 0o7777)
        } else if meta.is_symlink() {
            Made::Symlink(fs::read_link(&path).map(|p| p.to_string_lossy().into_owned()).unwrap_or_default())
        } else if meta.is_file() {
            Made::File(meta.mode() & 0o7777)
        } else {
            Made::Other(meta.mode())
        };
        let node = self.new_node(number);
        self.events.push(Event::Create { at: Some(at), node, made });
        if meta.is_file() && meta.len() > 0 {
            self.whole(node, &path);
        }
    }

    /// The file's whole content was perhaps written anew.
    fn whole(&mut self, node: NodeId, path: &str) {
        match fs::metadata(path) {
            Ok(meta) if meta.len() <= WHOLE_CAP => {
                let Ok(bytes) = fs::read(path) else { return };
                self.events.push(Event::Write { node, offset: 0, data: Arc::from(bytes) });
                self.events.push(Event::Truncate { node, size: meta.len() });
            }
            _ => self.cannot_know(format!("a change of more than {WHOLE_CAP} bytes")),
        }
    }
}

impl Machine {
    /// Notes what a step that succeeded did to the disk.
    pub(super) fn note_storage(&mut self, pid: Pid, step: &Step, draft: &Draft, call: &Call) {
        let Some(mut storage) = self.storage.take() else { return };
        if self.explored {
            self.note(&mut storage, pid, step, draft, call);
        }
        self.storage = Some(storage);
    }

    fn note(&self, storage: &mut Storage, pid: Pid, step: &Step, draft: &Draft, call: &Call) {
        let node = step.inode.and_then(|number| storage.nodes.get(&number).copied());
        // Names outside the world's own directory (TMPDIR, watched folders) are on no disk that is looked at.
        let mut names = draft.accesses.iter().filter_map(|access| match (&access.object, access.mode) {
            (Object::Entry(dir, name), Mode::Write) => Some(storage.nodes.get(dir).map(|dir| (*dir, name.clone()))),
            _ => None,
        });
        let (first, second) = (names.next().flatten(), names.next().flatten());
        let path = step.path.clone().unwrap_or_default();
        match step.op {
            Op::Create if draft.flags.contains(&"unnamed") => {
                let made = Made::File(self.fd_mode(pid, step.ret as i32));
                let node = storage.new_node(step.inode);
                storage.events.push(Event::Create { at: None, node, made });
            }
            Op::Create | Op::Mkdir | Op::Symlink => {
                if let Some(at) = first {
                    storage.adopt(at, step.inode.or_else(|| self.number_at(&path)), &path);
                }
            }
            Op::Open => {
                if let (After::Open { truncated: true, .. }, Some(node)) = (&draft.after, node) {
                    storage.events.push(Event::Truncate { node, size: 0 });
                }
            }
            Op::Link => {
                let linked = step.path2.as_deref().and_then(|to| self.number_at(to));
                let node = linked.and_then(|number| storage.nodes.get(&number).copied());
                match (first, node) {
                    (Some(at), Some(node)) => storage.events.push(Event::Link { at, node }),
                    (Some(at), None) => storage.adopt(at, linked, step.path2.as_deref().unwrap_or_default()),
                    _ => {}
                }
            }
            Op::Unlink | Op::Rmdir => storage.events.extend(first.map(|at| Event::Unlink { at })),
            Op::Rename => match (first, second) {
                (Some(from), Some(to)) => storage.events.push(Event::Rename { from, to }),
                (Some(at), None) => storage.events.push(Event::Unlink { at }),
                (None, Some(to)) => {
                    let target = step.path2.clone().unwrap_or_default();
                    storage.adopt(to, self.number_at(&target), &target);
                }
                (None, None) => {}
            },
            Op::Exchange => match (first, second) {
                (Some(a), Some(b)) => storage.events.push(Event::Exchange { a, b }),
                (None, None) => {}
                _ => storage.cannot_know(format!("{path} changed places with a file outside the world")),
            },
            Op::Write => {
                let Some(node) = node else { return };
                let fd = match *call {
                    Call::Write { fd, .. } => fd,
                    Call::CopyRange { to, .. } => to,
                    _ => return,
                };
                let offset = step.offset.filter(|_| matches!(call, Call::Write { .. }));
                match (&step.data, offset) {
                    (Some(data), Some(offset)) => {
                        storage.events.push(Event::Write { node, offset, data: data.clone() });
                    }
                    // The bytes of a copy are in the file by now.
                    _ if step.ret > 0 => storage.whole(node, &format!("/proc/{pid}/fd/{fd}")),
                    _ => {}
                }
                // rustix calls O_SYNC by both names: these are the kernel's numbers.
                let flags = self.inspect(pid, fd).map_or(0, |file| file.flags().bits() as i32);
                if flags & libc::O_DSYNC != 0 {
                    let (from, to) = offset.map_or((0, u64::MAX), |from| (from, from + step.ret.max(0) as u64));
                    let data_only = flags & libc::O_SYNC != libc::O_SYNC;
                    storage.events.push(Event::SyncRange { node, from, to, data_only });
                }
            }
            Op::Truncate => {
                let Some(node) = node else { return };
                match *call {
                    Call::Truncate { len, .. } | Call::Ftruncate { len, .. } => {
                        storage.events.push(Event::Truncate { node, size: len });
                    }
                    Call::Fallocate { fd, offset, len } => {
                        let to = offset.saturating_add(len);
                        let grown = self.inspect(pid, fd).is_some_and(|file| file.size >= to);
                        storage.events.push(Event::Allocate { node, from: offset, to, keep_size: !grown });
                        // It may have punched a hole, or moved bytes.
                        storage.whole(node, &format!("/proc/{pid}/fd/{fd}"));
                    }
                    _ => {}
                }
            }
            Op::Chmod => {
                let mode = fs::metadata(real_path(&path)).map(|meta| meta.mode() & 0o7777);
                if let (Some(node), Ok(mode)) = (node, mode) {
                    storage.events.push(Event::Chmod { node, mode });
                }
            }
            Op::Map if draft.flags.contains(&"writable") => {
                storage.cannot_know(format!("{path} is written through memory"));
            }
            Op::Sync => {
                if let Call::Sync { kind, .. } = *call {
                    note_sync(storage, kind, node);
                }
            }
            Op::Close if draft.flags.contains(&"w") => storage.events.extend(node.map(|node| Event::Close { node })),
            _ => {}
        }
    }

    /// Notes a sync that was no step of its own.
    pub(super) fn disk_sync(&mut self, kind: SyncKind, file: Option<Inode>) {
        if let Some(storage) = &mut self.storage {
            let node = file.and_then(|number| storage.nodes.get(&number).copied());
            note_sync(storage, kind, node);
        }
    }

    /// Notes that a writer of a file closed it.
    pub(super) fn disk_close(&mut self, file: Option<Inode>) {
        if let Some(storage) = &mut self.storage {
            let node = file.and_then(|number| storage.nodes.get(&number).copied());
            storage.events.extend(node.map(|node| Event::Close { node }));
        }
    }

    fn number_at(&self, path: &str) -> Option<Inode> {
        let meta = fs::symlink_metadata(real_path(path)).ok()?;
        self.inodes.peek(meta.ino())
    }

    fn fd_mode(&self, pid: Pid, fd: i32) -> u32 {
        self.inspect(pid, fd).map_or(0o600, |file| file.mode & !libc::S_IFMT)
    }
}

fn note_sync(storage: &mut Storage, kind: SyncKind, node: Option<NodeId>) {
    match (kind, node) {
        (SyncKind::File { data_only }, Some(node)) => storage.events.push(Event::Sync { node, data_only }),
        (SyncKind::All, _) => storage.events.push(Event::SyncAll),
        // sync_file_range promises nothing after a power cut (its manual says so), and what is mapped is not followed.
        (SyncKind::File { .. } | SyncKind::Nothing, _) => {}
    }
}
