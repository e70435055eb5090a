//! Small random programs on a file system: as events for the model, and as actions to be done for real.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use noclobber::{
    fault::power_cut::{Disk, Entry, Event, Made, NodeId},
    world::{Node, Tree},
};

/// What is to be done on a real file system. Paths are relative.
#[derive(Clone, Debug)]
#[allow(dead_code)]
pub(crate) enum Action {
    Create(NodeId, String),
    Mkdir(String),
    Symlink(String),
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String),
    Write { node: NodeId, path: String, offset: u64, data: Arc<[u8]>, durable: bool },
    Truncate(String, u64),
    Reserve(String, u64, bool),
    Chmod(String, u32),
    Close(NodeId),
    Sync { path: String, data_only: bool },
    SyncAll,
}

/// What a program looks like to itself: everything it did has happened.
pub(crate) struct Program {
    names: BTreeMap<Entry, NodeId>,
    kinds: Vec<bool>,
    files: BTreeMap<NodeId, (u32, Vec<u8>)>,
    links: BTreeMap<NodeId, String>,
    open: BTreeSet<NodeId>,
    writes: u8,
    /// How large a unit of writes is.
    pub(crate) unit: u64,
    pub(crate) events: Vec<Event>,
    /// One action, and how many events there are once it is done.
    pub(crate) actions: Vec<(Action, usize)>,
}

/// The tree that every program begins with.
pub(crate) fn initial(unit: u64) -> Tree {
    let file = |n: u64, fill: u8| Node::File { mode: 0o644, bytes: Arc::from(vec![fill; n as usize]) };
    [
        ("a".to_owned(), file(unit / 4, b'a')),
        ("b".to_owned(), file(unit + unit / 4, b'b')),
        ("d".to_owned(), Node::Dir { mode: 0o755 }),
        ("d/a".to_owned(), file(unit / 2, b'd')),
    ]
    .into()
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl Program {
    pub(crate) fn new(disk: &Disk, unit: u64) -> Self {
        let mut program = Program {
            names: BTreeMap::new(),
            kinds: disk.nodes.iter().map(|node| matches!(node, Node::Dir { .. })).collect(),
            files: BTreeMap::new(),
            links: BTreeMap::new(),
            open: BTreeSet::new(),
            writes: 0,
            unit,
            events: Vec::new(),
            actions: Vec::new(),
        };
        for (path, node) in &disk.paths {
            if let Some((parent, name)) = path.rsplit_once('/').or((!path.is_empty()).then_some(("", path))) {
                program.names.insert((disk.paths[parent], name.to_owned()), *node);
            }
            if let Node::File { mode, bytes } = &disk.nodes[node.0 as usize] {
                program.files.insert(*node, (*mode, bytes.to_vec()));
            }
        }
        program
    }

    fn dirs(&self) -> Vec<(NodeId, String)> {
        let mut all = vec![(NodeId::ROOT, String::new())];
        let mut at = 0;
        while at < all.len() {
            let (dir, prefix) = all[at].clone();
            for ((parent, name), node) in &self.names {
                if *parent == dir && self.kinds[node.0 as usize] {
                    all.push((*node, format!("{prefix}{name}/")));
                }
            }
            at += 1;
        }
        all
    }

    fn entry(&self, dir: u8, name: u8) -> (Entry, String, Option<NodeId>) {
        let dirs = self.dirs();
        let (dir, prefix) = &dirs[dir as usize % dirs.len()];
        let name = NAMES[name as usize % NAMES.len()];
        let entry = (*dir, name.to_owned());
        let node = self.names.get(&entry).copied();
        (entry, format!("{prefix}{name}"), node)
    }

    fn is_dir(&self, node: Option<NodeId>) -> bool {
        node.is_some_and(|node| self.kinds[node.0 as usize])
    }

    fn is_file(&self, node: Option<NodeId>) -> Option<NodeId> {
        node.filter(|node| self.files.contains_key(node))
    }

    fn new_node(&mut self, dir: bool) -> NodeId {
        self.kinds.push(dir);
        NodeId(self.kinds.len() as u32 - 1)
    }

    fn done(&mut self, action: Action, events: impl IntoIterator<Item = Event>) {
        self.events.extend(events);
        self.actions.push((action, self.events.len()));
    }

    /// Does what these numbers mean, if that is possible now.
    pub(crate) fn act(&mut self, [what, dir, name, x, y]: [u8; 5]) {
        let (at, path, node) = self.entry(dir, name);
        let (other, other_path, other_node) = self.entry(x, y);
        match what % 16 {
            0 if node.is_none() => {
                let node = self.new_node(false);
                self.files.insert(node, (0o644, Vec::new()));
                self.names.insert(at.clone(), node);
                let event = Event::Create { at: Some(at), node, made: Made::File(0o644) };
                self.open.insert(node);
                self.done(Action::Create(node, path), [event]);
            }
            1 if node.is_none() && at.0 == NodeId::ROOT => {
                let node = self.new_node(true);
                self.names.insert(at.clone(), node);
                self.done(Action::Mkdir(path), [Event::Create { at: Some(at), node, made: Made::Dir(0o755) }]);
            }
            2 if node.is_none() => {
                let node = self.new_node(false);
                self.links.insert(node, "a".into());
                self.names.insert(at.clone(), node);
                let event = Event::Create { at: Some(at), node, made: Made::Symlink("a".into()) };
                self.done(Action::Symlink(path), [event]);
            }
            3 if self.is_file(node).is_some() && other_node.is_none() => {
                self.names.insert(other.clone(), node.unwrap());
                self.done(Action::Link(path, other_path), [Event::Link { at: other, node: node.unwrap() }]);
            }
            4 if node.is_some() => {
                let dir = self.is_dir(node);
                if dir && self.names.keys().any(|(parent, _)| Some(*parent) == node) {
                    return;
                }
                self.names.remove(&at);
                let action = if dir { Action::Rmdir(path) } else { Action::Unlink(path) };
                self.done(action, [Event::Unlink { at }]);
            }
            // Renames are what it is about.
            5..=7 if node.is_some() && !self.is_dir(node) && !self.is_dir(other_node) && at != other => {
                if node == other_node {
                    return;
                }
                self.names.remove(&at);
                self.names.insert(other.clone(), node.unwrap());
                self.done(Action::Rename(path, other_path), [Event::Rename { from: at, to: other }]);
            }
            8..=10 if self.is_file(node).is_some() => {
                let node = node.unwrap();
                let (_, bytes) = self.files.get_mut(&node).unwrap();
                // At the end, at the start, or somewhere.
                let offset = match x % 4 {
                    0 | 1 => bytes.len() as u64,
                    2 => 0,
                    _ => u64::from(x) * self.unit / 64,
                };
                let len = [self.unit / 8, self.unit / 2, self.unit, self.unit + self.unit / 3][y as usize % 4].max(1);
                self.writes += 1;
                let data: Arc<[u8]> = (0..len).map(|n| (n % 7) as u8 ^ self.writes.wrapping_mul(8)).collect();
                let end = (offset + len) as usize;
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[offset as usize..end].copy_from_slice(&data);
                let durable = y > 220;
                let mut events = vec![Event::Write { node, offset, data: data.clone() }];
                if durable {
                    events.push(Event::SyncRange { node, from: offset, to: end as u64, data_only: true });
                } else {
                    self.open.insert(node);
                }
                self.done(Action::Write { node, path, offset, data, durable }, events);
            }
            11 if self.is_file(node).is_some() => {
                let node = node.unwrap();
                let size = [0, 0, self.unit / 3, self.unit * 2][x as usize % 4];
                self.files.get_mut(&node).unwrap().1.resize(size as usize, 0);
                self.done(Action::Truncate(path, size), [Event::Truncate { node, size }]);
            }
            12 if node.is_some() && !self.links.contains_key(&node.unwrap()) => {
                let node = node.unwrap();
                let data_only = y % 2 == 0;
                self.done(Action::Sync { path, data_only }, [Event::Sync { node, data_only }]);
            }
            13 => {
                let data_only = y % 4 == 0;
                let path = other_path.rsplit_once('/').map_or(".", |(dir, _)| dir).to_owned();
                self.done(Action::Sync { path, data_only }, [Event::Sync { node: other.0, data_only }]);
            }
            14 => match (y % 4, self.is_file(node)) {
                (0, _) => self.done(Action::SyncAll, [Event::SyncAll]),
                (1, Some(node)) => {
                    self.files.get_mut(&node).unwrap().0 = 0o600 + u32::from(x % 8);
                    let mode = self.files[&node].0;
                    self.done(Action::Chmod(path, mode), [Event::Chmod { node, mode }]);
                }
                (2, Some(node)) => {
                    let keep_size = x % 2 == 0;
                    let bytes = &mut self.files.get_mut(&node).unwrap().1;
                    let to = self.unit + self.unit / 2;
                    if !keep_size && bytes.len() < to as usize {
                        bytes.resize(to as usize, 0);
                    }
                    let event = Event::Allocate { node, from: 0, to, keep_size };
                    self.done(Action::Reserve(path, to, keep_size), [event]);
                }
                _ => {}
            },
            15 => {
                if let Some(node) = self.open.iter().next().copied() {
                    self.open.remove(&node);
                    self.done(Action::Close(node), [Event::Close { node }]);
                }
            }
            _ => {}
        }
    }

    /// The tree as the program sees it.
    #[allow(dead_code)]
    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        for (dir, prefix) in self.dirs() {
            for ((parent, name), node) in &self.names {
                if *parent != dir {
                    continue;
                }
                let made = match (self.files.get(node), self.links.get(node)) {
                    (Some((mode, bytes)), _) => Node::File { mode: *mode, bytes: Arc::from(bytes.as_slice()) },
                    (_, Some(target)) => Node::Symlink { target: target.clone() },
                    _ => Node::Dir { mode: 0o755 },
                };
                tree.insert(format!("{prefix}{name}"), made);
            }
        }
        tree
    }
}
