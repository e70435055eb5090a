//! What the disk holds when some effects reached it and others did not.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::{
    effect::{Change, Effect},
    event::{Disk, Entry, Event, Made, NodeId},
};
use crate::world::{Node, Tree};

/// Directories deeper than this are not followed (a tree that long comes from no program).
const MAX_DEPTH: usize = 256;

/// Content and permission bits of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    /// All its bytes.
    pub bytes: Arc<[u8]>,
    /// BLAKE3 of them.
    pub hash: [u8; 32],
    /// Permission bits.
    pub mode: u32,
}

/// Builds trees, and remembers the files that it built.
pub(super) struct Images<'a> {
    events: &'a [Event],
    effects: &'a [Effect],
    /// What each node is, and was before the first event.
    nodes: BTreeMap<NodeId, Node>,
    entries: BTreeMap<Entry, NodeId>,
    /// The effects on each node.
    of_node: BTreeMap<NodeId, Vec<usize>>,
    built: HashMap<(NodeId, Vec<usize>), FileState>,
}

/// A tree and what identifies it.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub tree: Tree,
    pub hash: [u8; 32],
}

impl<'a> Images<'a> {
    pub(super) fn new(disk: &Disk, events: &'a [Event], effects: &'a [Effect]) -> Self {
        let mut nodes: BTreeMap<NodeId, Node> =
            disk.nodes.iter().enumerate().map(|(n, node)| (NodeId(n as u32), node.clone())).collect();
        for event in events {
            if let Event::Create { node, made, .. } = event {
                let made = match made {
                    Made::File(mode) => Node::File { mode: *mode, bytes: Arc::from([]) },
                    Made::Dir(mode) => Node::Dir { mode: *mode },
                    Made::Symlink(target) => Node::Symlink { target: target.clone() },
                    Made::Other(mode) => Node::Other { mode: *mode },
                };
                nodes.insert(*node, made);
            }
        }
        let mut of_node: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (index, effect) in effects.iter().enumerate() {
            if let Some(node) = effect.change.node() {
                of_node.entry(node).or_default().push(index);
            }
        }
        Images { events, effects, nodes, entries: disk.entries().collect(), of_node, built: HashMap::new() }
    }

    /// The nodes that have a name in some state: `durable` effects are in all of them.
    pub(super) fn ever_named(&self, durable: &[bool]) -> BTreeSet<NodeId> {
        let mut names = self.entries.clone();
        for (index, effect) in self.effects.iter().enumerate() {
            if let (Change::Names(changed), true) = (&effect.change, durable[index]) {
                bind(&mut names, changed);
            }
        }
        let mut named: BTreeSet<NodeId> = names.into_values().collect();
        named.insert(NodeId::ROOT);
        for (index, effect) in self.effects.iter().enumerate() {
            if let (Change::Names(changed), false) = (&effect.change, durable[index]) {
                named.extend(changed.iter().filter_map(|(_, node)| *node));
            }
        }
        named
    }

    /// One file with exactly these effects on the disk.
    pub(super) fn file(&mut self, node: NodeId, kept: &dyn Fn(usize) -> bool) -> Option<FileState> {
        let effects: Vec<usize> =
            self.of_node.get(&node).into_iter().flatten().copied().filter(|index| kept(*index)).collect();
        if let Some(built) = self.built.get(&(node, effects.clone())) {
            return Some(built.clone());
        }
        let Some(Node::File { mode, bytes }) = self.nodes.get(&node) else { return None };
        let (mut mode, mut bytes, mut size) = (*mode, bytes.to_vec(), bytes.len() as u64);
        for index in &effects {
            let effect = &self.effects[*index];
            match effect.change {
                Change::Data { offset, from, to, .. } => {
                    let Event::Write { data, .. } = &self.events[effect.event] else { continue };
                    let (start, piece) = (offset as usize, &data[from..to]);
                    if bytes.len() < start + piece.len() {
                        bytes.resize(start + piece.len(), 0);
                    }
                    bytes[start..start + piece.len()].copy_from_slice(piece);
                }
                Change::Zero { from, to, .. } => {
                    let end = bytes.len().min(to as usize);
                    bytes[end.min(from as usize)..end].fill(0);
                }
                Change::Grow { size: to, .. } => size = to,
                Change::Cut { size: to, .. } => {
                    size = to;
                    bytes.truncate(to as usize);
                }
                Change::Mode { mode: to, .. } => mode = to,
                Change::Names(_) => {}
            }
        }
        bytes.resize(size as usize, 0);
        let hash = *blake3::hash(&bytes).as_bytes();
        let state = FileState { bytes: Arc::from(bytes), hash, mode };
        self.built.insert((node, effects), state.clone());
        Some(state)
    }

    /// The permission bits of what is no regular file.
    pub(super) fn other_mode(&self, node: NodeId, kept: &dyn Fn(usize) -> bool) -> u32 {
        match self.nodes.get(&node) {
            Some(Node::Dir { mode } | Node::Other { mode }) => self.dir_mode(node, *mode, kept),
            _ => 0,
        }
    }

    /// The permission bits of a directory.
    fn dir_mode(&self, node: NodeId, mode: u32, kept: &dyn Fn(usize) -> bool) -> u32 {
        let effects = self.of_node.get(&node).into_iter().flatten().filter(|index| kept(**index));
        let last = effects.filter_map(|index| match self.effects[*index].change {
            Change::Mode { mode, .. } => Some(mode),
            _ => None,
        });
        last.last().unwrap_or(mode)
    }

    /// The names with exactly these effects on the disk.
    pub(super) fn names(&self, kept: &dyn Fn(usize) -> bool) -> BTreeMap<Entry, NodeId> {
        let mut names = self.entries.clone();
        for (index, effect) in self.effects.iter().enumerate() {
            if let (Change::Names(changed), true) = (&effect.change, kept(index)) {
                bind(&mut names, changed);
            }
        }
        names
    }

    /// The whole tree with exactly these effects on the disk.
    pub(super) fn tree(&mut self, kept: &dyn Fn(usize) -> bool) -> Image {
        let mut children: BTreeMap<NodeId, Vec<(String, NodeId)>> = BTreeMap::new();
        for ((dir, name), node) in self.names(kept) {
            children.entry(dir).or_default().push((name, node));
        }
        let mut tree = Tree::new();
        let mut hashes = BTreeMap::new();
        let mut stack = vec![(NodeId::ROOT, String::new(), 0)];
        while let Some((dir, prefix, depth)) = stack.pop() {
            for (name, node) in children.get(&dir).into_iter().flatten() {
                let path = format!("{prefix}{name}");
                let made = match self.nodes.get(node) {
                    Some(Node::File { .. }) => {
                        let Some(file) = self.file(*node, kept) else { continue };
                        hashes.insert(path.clone(), file.hash);
                        Node::File { mode: file.mode, bytes: file.bytes }
                    }
                    Some(Node::Dir { mode }) => {
                        if depth < MAX_DEPTH {
                            stack.push((*node, format!("{path}/"), depth + 1));
                        }
                        Node::Dir { mode: self.dir_mode(*node, *mode, kept) }
                    }
                    Some(other) => other.clone(),
                    None => continue,
                };
                tree.insert(path, made);
            }
        }
        let hash = hash_with(&tree, |path, _| hashes[path]);
        Image { tree, hash }
    }
}

/// What identifies a tree: equal trees have equal hashes.
pub fn tree_hash(tree: &Tree) -> [u8; 32] {
    hash_with(tree, |_, bytes| *blake3::hash(bytes).as_bytes())
}

fn hash_with(tree: &Tree, content: impl Fn(&str, &[u8]) -> [u8; 32]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for (path, node) in tree {
        hasher.update(&(path.len() as u64).to_le_bytes()).update(path.as_bytes());
        match node {
            Node::File { mode, bytes } => hasher.update(b"f").update(&mode.to_le_bytes()).update(&content(path, bytes)),
            Node::Dir { mode } => hasher.update(b"d").update(&mode.to_le_bytes()),
            Node::Symlink { target } => hasher.update(b"l").update(target.as_bytes()).update(&[0]),
            Node::Other { mode } => hasher.update(b"o").update(&mode.to_le_bytes()),
        };
    }
    *hasher.finalize().as_bytes()
}

fn bind(names: &mut BTreeMap<Entry, NodeId>, changed: &[(Entry, Option<NodeId>)]) {
    for (entry, node) in changed {
        match node {
            Some(node) => drop(names.insert(entry.clone(), *node)),
            None => drop(names.remove(entry)),
        }
    }
}
