//! Events taken apart into the effects that reach the disk as a whole or not at all, and what is already durable.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Disk, Entry, Event, Made, NodeId};
use crate::world::Node;

/// What one effect does to the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A name names this from now on (`None`: nothing). More than one name: they change together.
    Names(Vec<(Entry, Option<NodeId>)>),
    /// Bytes `from..to` of what event `event` wrote reach the file.
    Data { node: NodeId, offset: u64, from: usize, to: usize },
    /// The end of the block in which a file was cut is filled with zeros, whatever the size says: `from..to`.
    Zero { node: NodeId, from: u64, to: u64 },
    /// The size grows to this.
    Grow { node: NodeId, size: u64 },
    /// The file is cut.
    Cut { node: NodeId, size: u64 },
    /// Permission bits.
    Mode { node: NodeId, mode: u32 },
}

impl Change {
    /// The file that it is about, if it is no name.
    pub(super) fn node(&self) -> Option<NodeId> {
        match *self {
            Change::Names(_) => None,
            Change::Data { node, .. }
            | Change::Zero { node, .. }
            | Change::Grow { node, .. }
            | Change::Cut { node, .. }
            | Change::Mode { node, .. } => Some(node),
        }
    }
}

/// One effect.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    /// The event that it is part of.
    pub event: usize,
    /// What it does.
    pub change: Change,
    /// The effects that are on the disk when this one is.
    pub after: BTreeSet<usize>,
}

/// What a model knows of the effect that is being added.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// A block that the file system has certainly not given a place on the disk before this write.
    pub fresh: bool,
    /// A block that was reserved with fallocate.
    pub reserved: bool,
    /// A rename that replaces a file: the file that gets the name.
    pub replaces: Option<NodeId>,
    /// The effect whose bytes a growing size makes visible.
    pub data: Option<usize>,
    /// The nodes that the event touches, directories included.
    pub touches: Vec<NodeId>,
    /// For a change of a name: needed to find the file again (creation, truncation), also after fdatasync.
    pub essential: bool,
}

/// The orders and guarantees that one model adds to the bare facts.
pub(super) trait Rules {
    /// A rename of a file between two directories reaches the disk in two pieces.
    fn splits_moves(&self) -> bool;
    /// An effect was added as number `index`: adds what must be on the disk before it.
    fn added(&mut self, effects: &mut [Effect], index: usize, facts: &Facts);
    /// The last writer closed this file.
    fn closed(&mut self, node: NodeId);
    /// A sync of this node returned: further effects that are durable now.
    fn synced(&self, node: NodeId, data_only: bool) -> Vec<usize>;
}

/// The effects of a run up to a cut, and which of them are certainly on the disk.
#[derive(Debug)]
pub(super) struct Effects {
    pub list: Vec<Effect>,
    pub durable: Vec<bool>,
}

/// What a file looks like to running programs.
#[derive(Clone, Debug, Default)]
struct Seen {
    size: u64,
    was_cut_to_nothing: bool,
    /// Blocks that may have a place on the disk.
    placed: BTreeSet<u64>,
    /// Blocks reserved by fallocate.
    reserved: BTreeSet<u64>,
}

struct Builder<'a, R> {
    rules: R,
    block: u64,
    out: Effects,
    names: BTreeMap<Entry, NodeId>,
    dirs: BTreeSet<NodeId>,
    files: BTreeMap<NodeId, Seen>,
    last_of_name: BTreeMap<Entry, usize>,
    last_of_block: BTreeMap<(NodeId, u64), usize>,
    /// The cuts of each file, and the sizes to which they cut.
    cuts: BTreeMap<NodeId, Vec<(usize, u64)>>,
    last_mode: BTreeMap<NodeId, usize>,
    last_move_of_a_dir: Option<usize>,
    events: &'a [Event],
}

/// Takes the events apart. `block` is the number of bytes that a disk writes as a whole.
pub(super) fn effects(disk: &Disk, events: &[Event], block: u64, rules: impl Rules) -> Effects {
    let mut builder = Builder {
        rules,
        block: block.max(1),
        out: Effects { list: Vec::new(), durable: Vec::new() },
        names: disk.entries().collect(),
        dirs: BTreeSet::new(),
        files: BTreeMap::new(),
        last_of_name: BTreeMap::new(),
        last_of_block: BTreeMap::new(),
        cuts: BTreeMap::new(),
        last_mode: BTreeMap::new(),
        last_move_of_a_dir: None,
        events,
    };
    for (number, node) in disk.nodes.iter().enumerate() {
        let id = NodeId(number as u32);
        match node {
            Node::Dir { .. } => drop(builder.dirs.insert(id)),
            Node::File { bytes, .. } => {
                let size = bytes.len() as u64;
                let placed = (0..size.div_ceil(builder.block)).collect();
                builder.files.insert(id, Seen { size, placed, ..Seen::default() });
            }
            _ => {}
        }
    }
    for number in 0..events.len() {
        builder.event(number);
    }
    builder.out
}

impl<R: Rules> Builder<'_, R> {
    fn event(&mut self, number: usize) {
        match &self.events[number] {
            Event::Create { at, node, made } => {
                match made {
                    Made::Dir(_) => drop(self.dirs.insert(*node)),
                    Made::File(_) => drop(self.files.insert(*node, Seen::default())),
                    _ => {}
                }
                if let Some(at) = at {
                    self.name(number, vec![(at.clone(), Some(*node))], vec![*node], None, true);
                }
            }
            Event::Link { at, node } => {
                self.name(number, vec![(at.clone(), Some(*node))], vec![*node], None, false);
            }
            Event::Unlink { at } => {
                let gone = self.names.get(at).copied();
                self.name(number, vec![(at.clone(), None)], gone.into_iter().collect(), None, false);
            }
            Event::Rename { from, to } => self.rename(number, from, to),
            Event::Exchange { a, b } => {
                let (Some(&was_a), Some(&was_b)) = (self.names.get(a), self.names.get(b)) else { return };
                let names = vec![(a.clone(), Some(was_b)), (b.clone(), Some(was_a))];
                let index = self.name(number, names, vec![was_a, was_b], None, false);
                self.order_moves_of_dirs(index, &[was_a, was_b]);
            }
            Event::Write { node, offset, data } => self.write(number, *node, *offset, data.len()),
            Event::Truncate { node, size } => self.truncate(number, *node, *size),
            Event::Allocate { node, from, to, keep_size } => {
                let blocks = (*from / self.block)..to.div_ceil(self.block);
                let file = self.files.entry(*node).or_default();
                file.reserved.extend(blocks.clone());
                if !keep_size && *to > file.size {
                    file.size = *to;
                    self.grow(number, *node, *to, &Facts { essential: true, touches: vec![*node], ..Facts::default() });
                }
            }
            Event::Chmod { node, mode } => {
                let after = self.last_mode.get(node).copied();
                let facts = Facts { touches: vec![*node], ..Facts::default() };
                let index = self.push(number, Change::Mode { node: *node, mode: *mode }, after, &facts);
                self.last_mode.insert(*node, index);
            }
            Event::Close { node } => {
                if self.files.get_mut(node).is_some_and(|file| std::mem::take(&mut file.was_cut_to_nothing)) {
                    self.rules.closed(*node);
                }
            }
            Event::Sync { node, data_only } => {
                let found = self.of_node(*node, *data_only, None);
                self.make_durable(found.into_iter().chain(self.rules.synced(*node, *data_only)).collect());
            }
            Event::SyncRange { node, from, to, data_only } => {
                let found = self.of_node(*node, *data_only, Some((*from, *to)));
                self.make_durable(found.into_iter().chain(self.rules.synced(*node, *data_only)).collect());
            }
            Event::SyncAll => self.out.durable.iter_mut().for_each(|durable| *durable = true),
        }
    }

    fn push(&mut self, event: usize, change: Change, after: impl IntoIterator<Item = usize>, facts: &Facts) -> usize {
        let index = self.out.list.len();
        self.out.list.push(Effect { event, change, after: after.into_iter().collect() });
        self.out.durable.push(false);
        self.rules.added(&mut self.out.list, index, facts);
        index
    }

    /// Names change together; each after the last change of the same name.
    fn name(
        &mut self,
        event: usize,
        names: Vec<(Entry, Option<NodeId>)>,
        mut touches: Vec<NodeId>,
        replaces: Option<NodeId>,
        essential: bool,
    ) -> usize {
        touches.extend(names.iter().map(|((dir, _), _)| *dir));
        let after: Vec<usize> = names.iter().filter_map(|(entry, _)| self.last_of_name.get(entry).copied()).collect();
        for (entry, node) in &names {
            match node {
                Some(node) => drop(self.names.insert(entry.clone(), *node)),
                None => drop(self.names.remove(entry)),
            }
        }
        let entries: Vec<Entry> = names.iter().map(|(entry, _)| entry.clone()).collect();
        let facts = Facts { replaces, touches, essential, ..Facts::default() };
        let index = self.push(event, Change::Names(names), after, &facts);
        for entry in entries {
            self.last_of_name.insert(entry, index);
        }
        index
    }

    fn rename(&mut self, event: usize, from: &Entry, to: &Entry) {
        let Some(&moved) = self.names.get(from) else { return };
        let replaced = self.names.get(to).copied();
        // Two names of one file: rename does nothing.
        if replaced == Some(moved) {
            return;
        }
        let replaces = replaced.map(|_| moved);
        let touches: Vec<NodeId> = [Some(moved), replaced].into_iter().flatten().collect();
        let is_dir = self.dirs.contains(&moved);
        let add = (to.clone(), Some(moved));
        let remove = (from.clone(), None);
        if from.0 == to.0 || is_dir || !self.rules.splits_moves() {
            let index = self.name(event, vec![add, remove], touches.clone(), replaces, false);
            self.order_moves_of_dirs(index, &touches);
        } else {
            // The file never goes without a name: the old one goes after the new one came.
            let index = self.name(event, vec![add], touches.clone(), replaces, false);
            let second = self.name(event, vec![remove], touches, None, false);
            self.out.list[second].after.insert(index);
        }
    }

    /// Directories that move keep the order in which they moved, or one could end up inside itself.
    fn order_moves_of_dirs(&mut self, index: usize, moved: &[NodeId]) {
        if moved.iter().any(|node| self.dirs.contains(node)) {
            let last = self.last_move_of_a_dir.replace(index);
            self.out.list[index].after.extend(last);
        }
    }

    fn write(&mut self, event: usize, node: NodeId, offset: u64, len: usize) {
        let end = offset + len as u64;
        let mut at = offset;
        while at < end {
            let block = at / self.block;
            let to = ((block + 1) * self.block).min(end);
            let file = self.files.entry(node).or_default();
            let reserved = file.reserved.contains(&block);
            let fresh = !reserved && file.placed.insert(block);
            let size = file.size;
            file.size = size.max(to);
            let after = self.before_block(node, block);
            let change = Change::Data { node, offset: at, from: (at - offset) as usize, to: (to - offset) as usize };
            let facts = Facts { fresh, reserved, touches: vec![node], ..Facts::default() };
            let index = self.push(event, change, after, &facts);
            self.last_of_block.insert((node, block), index);
            if to > size {
                self.grow(event, node, to, &Facts { data: Some(index), ..facts });
            }
            at = to;
        }
    }

    /// What is on the disk when a later state of this block is: its state before, and the last cut that took it away
    /// (it gets another place then). A cut *within* the block is another matter: the inode says nothing of its bytes.
    fn before_block(&self, node: NodeId, block: u64) -> Vec<usize> {
        let taken = |(_, size): &&(usize, u64)| *size <= block * self.block;
        let cut = self.cuts.get(&node).into_iter().flatten().rev().find(taken).map(|(index, _)| *index);
        self.last_of_block.get(&(node, block)).copied().into_iter().chain(cut).collect()
    }

    fn last_cut(&self, node: NodeId) -> Option<usize> {
        self.cuts.get(&node)?.last().map(|(index, _)| *index)
    }

    fn grow(&mut self, event: usize, node: NodeId, size: u64, facts: &Facts) {
        let after = self.last_cut(node);
        self.push(event, Change::Grow { node, size }, after, facts);
    }

    fn truncate(&mut self, event: usize, node: NodeId, size: u64) {
        let block = self.block;
        let file = self.files.entry(node).or_default();
        let was = std::mem::replace(&mut file.size, size);
        let facts = Facts { essential: true, touches: vec![node], ..Facts::default() };
        if size > was {
            self.grow(event, node, size, &facts);
        } else if size < was {
            file.was_cut_to_nothing |= size == 0;
            file.placed.retain(|at| *at < size.div_ceil(block));
            file.reserved.retain(|at| *at < size.div_ceil(block));
            if !size.is_multiple_of(block) {
                // The rest of the last block is cleared in memory, and written when that block is: perhaps long before
                // the new size.
                let at = size / block;
                let change = Change::Zero { node, from: size, to: was.min((at + 1) * block) };
                let index = self.push(event, change, self.before_block(node, at), &Facts::default());
                self.last_of_block.insert((node, at), index);
            }
            let index = self.push(event, Change::Cut { node, size }, self.last_cut(node), &facts);
            self.cuts.entry(node).or_default().push((index, size));
        }
    }

    /// The effects so far that a sync of this node (or of a range of it) makes durable.
    fn of_node(&self, node: NodeId, data_only: bool, range: Option<(u64, u64)>) -> Vec<usize> {
        let is_dir = self.dirs.contains(&node);
        let meets = |offset: u64, len: u64| range.is_none_or(|(from, to)| offset < to && from < offset + len);
        let belongs = |change: &Change| match change {
            Change::Names(names) => is_dir && names.iter().any(|((dir, _), _)| *dir == node),
            Change::Data { node: of, offset, from, to } => *of == node && meets(*offset, (to - from) as u64),
            Change::Zero { node: of, from, to } => *of == node && meets(*from, to - from),
            // A range that is synced can be read back: the size reaches at least its end.
            Change::Grow { node: of, size } => {
                *of == node && range.is_none_or(|(from, to)| *size > from && *size <= to)
            }
            Change::Cut { node: of, .. } => *of == node,
            Change::Mode { node: of, .. } => *of == node && !data_only,
        };
        let all = self.out.list.iter().enumerate();
        all.filter(|(_, effect)| belongs(&effect.change)).map(|(index, _)| index).collect()
    }

    /// Marks these effects, and whatever is on the disk when they are.
    fn make_durable(&mut self, mut found: Vec<usize>) {
        while let Some(index) = found.pop() {
            if !std::mem::replace(&mut self.out.durable[index], true) {
                found.extend(&self.out.list[index].after);
            }
        }
    }
}
