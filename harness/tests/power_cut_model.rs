//! The model of a disk after a power cut: against a machine that writes back by chance, and its own laws.

mod power_cut_support;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use noclobber::{
    fault::power_cut::{
        Disk, DiskModel, Entry, Event, Limits, LostWhat, Made, NodeId, ignore_syncs, states, tree_hash,
    },
    world::{Node, Tree},
};
use power_cut_support::{Program, initial};
use proptest::prelude::*;

/// Small blocks: a program of few bytes crosses borders.
const UNIT: u64 = 4;

fn limits(states: usize, look: usize) -> Limits {
    Limits { states, look, block: UNIT }
}

fn program(codes: &[[u8; 5]]) -> (Disk, Program) {
    let disk = Disk::new(&initial(UNIT));
    let mut program = Program::new(&disk, UNIT);
    codes.iter().for_each(|code| program.act(*code));
    (disk, program)
}

fn hashes(disk: &Disk, events: &[Event], model: DiskModel) -> Option<HashSet<[u8; 32]>> {
    let found = states(disk, events, model, limits(1 << 14, 1 << 14));
    found.complete.then(|| found.states.iter().map(|state| state.hash).collect())
}

/// One thing that a disk writes as a whole, as the brute force sees it.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Name(Vec<(Entry, Option<NodeId>)>),
    Data(NodeId, u64, Vec<u8>),
    /// Zeros from here to there, which do not make the file longer.
    Zeros(NodeId, u64, u64),
    Size(NodeId, u64),
    Cut(NodeId, u64),
    Mode(NodeId, u32),
}

/// A disk on which every single waiting piece may be written at any moment, unless an earlier one of the same thing
/// still waits. All disks that can come about are visited.
struct Brute<'a> {
    events: &'a [Event],
    dirs: BTreeSet<NodeId>,
    nodes: BTreeMap<NodeId, Node>,
    start: BTreeMap<Entry, NodeId>,
    pieces: Vec<Piece>,
    /// For each event: how many pieces there are after it, and which of them it makes durable.
    after: Vec<(usize, Vec<usize>)>,
}

impl<'a> Brute<'a> {
    fn new(disk: &Disk, events: &'a [Event]) -> Self {
        let mut brute = Brute {
            events,
            dirs: BTreeSet::new(),
            nodes: disk.nodes.iter().enumerate().map(|(n, node)| (NodeId(n as u32), node.clone())).collect(),
            start: BTreeMap::new(),
            pieces: Vec::new(),
            after: Vec::new(),
        };
        for (path, node) in disk.paths.iter().filter(|(path, _)| !path.is_empty()) {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            brute.start.insert((disk.paths[parent], name.to_owned()), *node);
        }
        let mut names = brute.start.clone();
        let mut sizes: BTreeMap<NodeId, u64> = BTreeMap::new();
        for (id, node) in &brute.nodes {
            match node {
                Node::Dir { .. } => drop(brute.dirs.insert(*id)),
                Node::File { bytes, .. } => drop(sizes.insert(*id, bytes.len() as u64)),
                _ => {}
            }
        }
        for event in events {
            let mut durable = Vec::new();
            match event {
                Event::Create { at, node, made } => {
                    let made = match made {
                        Made::File(mode) => Node::File { mode: *mode, bytes: [].into() },
                        Made::Dir(mode) => {
                            brute.dirs.insert(*node);
                            Node::Dir { mode: *mode }
                        }
                        Made::Symlink(target) => Node::Symlink { target: target.clone() },
                        Made::Other(mode) => Node::Other { mode: *mode },
                    };
                    sizes.insert(*node, 0);
                    brute.nodes.insert(*node, made);
                    let at = at.clone().unwrap();
                    names.insert(at.clone(), *node);
                    brute.pieces.push(Piece::Name(vec![(at, Some(*node))]));
                }
                Event::Link { at, node } => {
                    names.insert(at.clone(), *node);
                    brute.pieces.push(Piece::Name(vec![(at.clone(), Some(*node))]));
                }
                Event::Unlink { at } => {
                    names.remove(at);
                    brute.pieces.push(Piece::Name(vec![(at.clone(), None)]));
                }
                Event::Rename { from, to } => {
                    let moved = names.remove(from).unwrap();
                    names.insert(to.clone(), moved);
                    let (add, remove) = ((to.clone(), Some(moved)), (from.clone(), None));
                    if from.0 == to.0 {
                        brute.pieces.push(Piece::Name(vec![add, remove]));
                    } else {
                        brute.pieces.push(Piece::Name(vec![add]));
                        brute.pieces.push(Piece::Name(vec![remove]));
                    }
                }
                Event::Write { node, offset, data } => {
                    for (n, chunk) in chunks(*offset, data) {
                        brute.pieces.push(Piece::Data(*node, n, chunk.clone()));
                        let end = n + chunk.len() as u64;
                        if end > sizes[node] {
                            sizes.insert(*node, end);
                            brute.pieces.push(Piece::Size(*node, end));
                        }
                    }
                }
                Event::Truncate { node, size } => {
                    let was = sizes.insert(*node, *size).unwrap();
                    if *size > was {
                        brute.pieces.push(Piece::Size(*node, *size));
                    } else if *size < was {
                        let border = size.next_multiple_of(UNIT);
                        if border > *size {
                            brute.pieces.push(Piece::Zeros(*node, *size, border.min(was)));
                        }
                        brute.pieces.push(Piece::Cut(*node, *size));
                    }
                }
                Event::Allocate { node, to, keep_size, .. } => {
                    if !keep_size && *to > sizes[node] {
                        sizes.insert(*node, *to);
                        brute.pieces.push(Piece::Size(*node, *to));
                    }
                }
                Event::Chmod { node, mode } => brute.pieces.push(Piece::Mode(*node, *mode)),
                Event::Sync { node, data_only } => {
                    durable = brute.find(|piece| match piece {
                        Piece::Name(names) => {
                            brute.dirs.contains(node) && names.iter().any(|((dir, _), _)| dir == node)
                        }
                        Piece::Data(of, ..) | Piece::Zeros(of, ..) | Piece::Size(of, _) | Piece::Cut(of, _) => {
                            of == node
                        }
                        Piece::Mode(of, _) => of == node && !data_only,
                    });
                }
                Event::SyncAll => durable = brute.find(|_| true),
                Event::SyncRange { node, from, to, .. } => {
                    durable = brute.find(|piece| match piece {
                        Piece::Data(of, at, data) => of == node && at < to && *from < at + data.len() as u64,
                        Piece::Zeros(of, at, end) => of == node && at < to && from < end,
                        Piece::Size(of, size) => of == node && size > from && size <= to,
                        Piece::Cut(of, _) => of == node,
                        _ => false,
                    });
                }
                Event::Exchange { .. } | Event::Close { .. } => {}
            }
            brute.after.push((brute.pieces.len(), durable));
        }
        brute
    }

    fn find(&self, belongs: impl Fn(&Piece) -> bool) -> Vec<usize> {
        (0..self.pieces.len()).filter(|n| belongs(&self.pieces[*n])).collect()
    }

    /// Whether the later of two pieces has to wait for the earlier one.
    fn waits(&self, earlier: usize, later: usize) -> bool {
        use Piece::{Cut, Data, Mode, Name, Size, Zeros};
        match (&self.pieces[earlier], &self.pieces[later]) {
            (Name(a), Name(b)) => {
                let same_name = a.iter().any(|(name, _)| b.iter().any(|(other, _)| name == other));
                // The two halves of a move.
                let halves = earlier + 1 == later
                    && self.after.iter().enumerate().any(|(n, (end, _))| {
                        *end == later + 1 && matches!(&self.events[n], Event::Rename { from, to } if from.0 != to.0)
                    });
                same_name || halves
            }
            (Data(a, x, _) | Zeros(a, x, _), Data(b, y, _) | Zeros(b, y, _)) => a == b && x / UNIT == y / UNIT,
            (Cut(a, size), Data(b, at, _) | Zeros(b, at, _)) => a == b && *size <= at / UNIT * UNIT,
            (Cut(a, _), Cut(b, _) | Size(b, _)) | (Mode(a, _), Mode(b, _)) => a == b,
            _ => false,
        }
    }

    fn disks(&self) -> HashSet<[u8; 32]> {
        let mut seen = HashSet::new();
        let mut out = HashSet::new();
        let mut stack = vec![(0, vec![false; self.pieces.len()])];
        while let Some((done, written)) = stack.pop() {
            if !seen.insert((done, written.clone())) {
                continue;
            }
            let there = if done == 0 { 0 } else { self.after[done - 1].0 };
            if done == self.events.len() {
                out.insert(tree_hash(&self.tree(&written)));
            }
            for piece in (0..there).filter(|n| !written[*n]) {
                if (0..piece).all(|earlier| written[earlier] || !self.waits(earlier, piece)) {
                    let mut more = written.clone();
                    more[piece] = true;
                    stack.push((done, more));
                }
            }
            if done < self.events.len() && self.after[done].1.iter().all(|n| written[*n]) {
                stack.push((done + 1, written));
            }
        }
        out
    }

    fn tree(&self, written: &[bool]) -> Tree {
        let mut names = self.start.clone();
        let mut files: BTreeMap<NodeId, (u32, Vec<u8>, u64)> = BTreeMap::new();
        for (id, node) in &self.nodes {
            if let Node::File { mode, bytes } = node {
                files.insert(*id, (*mode, bytes.to_vec(), bytes.len() as u64));
            }
        }
        for piece in self.pieces.iter().zip(written).filter(|(_, written)| **written).map(|(piece, _)| piece) {
            match piece {
                Piece::Name(changed) => {
                    for (name, node) in changed {
                        names.remove(name);
                        if let Some(node) = node {
                            names.insert(name.clone(), *node);
                        }
                    }
                }
                Piece::Data(node, at, data) => {
                    let bytes = &mut files.get_mut(node).unwrap().1;
                    let end = *at as usize + data.len();
                    if bytes.len() < end {
                        bytes.resize(end, 0);
                    }
                    bytes[*at as usize..end].copy_from_slice(data);
                }
                Piece::Zeros(node, from, to) => {
                    let bytes = &mut files.get_mut(node).unwrap().1;
                    for at in *from..(*to).min(bytes.len() as u64) {
                        bytes[at as usize] = 0;
                    }
                }
                Piece::Size(node, size) => files.get_mut(node).unwrap().2 = *size,
                Piece::Cut(node, size) => {
                    let file = files.get_mut(node).unwrap();
                    file.1.truncate(*size as usize);
                    file.2 = *size;
                }
                Piece::Mode(node, mode) => files.get_mut(node).unwrap().0 = *mode,
            }
        }
        let mut tree = Tree::new();
        let mut stack = vec![(NodeId::ROOT, String::new())];
        while let Some((dir, prefix)) = stack.pop() {
            for ((_, name), node) in names.iter().filter(|((parent, _), _)| *parent == dir) {
                let path = format!("{prefix}{name}");
                let node = match files.get(node) {
                    Some((mode, bytes, size)) => {
                        let mut bytes = bytes.clone();
                        bytes.resize(*size as usize, 0);
                        Node::File { mode: *mode, bytes: bytes.into() }
                    }
                    None => {
                        if self.dirs.contains(node) {
                            stack.push((*node, format!("{path}/")));
                        }
                        self.nodes[node].clone()
                    }
                };
                tree.insert(path, node);
            }
        }
        tree
    }
}

fn chunks(offset: u64, data: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut out: Vec<(u64, Vec<u8>)> = Vec::new();
    for (n, byte) in data.iter().enumerate() {
        let at = offset + n as u64;
        match out.last_mut() {
            Some((start, chunk)) if *start / UNIT == at / UNIT => chunk.push(*byte),
            _ => out.push((at, vec![*byte])),
        }
    }
    out
}

fn codes(most: usize) -> impl Strategy<Value = Vec<[u8; 5]>> {
    proptest::collection::vec(any::<[u8; 5]>(), 1..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn strict_allows_exactly_what_a_disk_without_rules_can_come_to(codes in codes(14)) {
        let (disk, program) = program(&codes);
        let brute = Brute::new(&disk, &program.events);
        prop_assume!(brute.pieces.len() <= 12);
        let model = hashes(&disk, &program.events, DiskModel::Strict).unwrap();
        prop_assert_eq!(model, brute.disks());
    }

    #[test]
    fn what_ext4_allows_strict_allows_too(codes in codes(14)) {
        let (disk, program) = program(&codes);
        let strict = hashes(&disk, &program.events, DiskModel::Strict);
        let ext4 = hashes(&disk, &program.events, DiskModel::Ext4Ordered);
        let (Some(strict), Some(ext4)) = (strict, ext4) else { return Ok(()) };
        prop_assert!(ext4.is_subset(&strict));
    }

    #[test]
    fn when_everything_is_synced_one_state_is_left(codes in codes(40)) {
        let (disk, mut program) = program(&codes);
        program.events.push(Event::SyncAll);
        for model in DiskModel::ALL {
            let found = states(&disk, &program.events, model, limits(8, 64));
            prop_assert!(found.complete);
            prop_assert_eq!(found.states.len(), 1);
            prop_assert_eq!(&found.states[0].tree, &program.tree());
            prop_assert!(found.states[0].lost.is_empty());
        }
    }

    #[test]
    fn the_first_state_lost_nothing_and_the_order_is_by_loss(codes in codes(40)) {
        let (disk, program) = program(&codes);
        for model in DiskModel::ALL {
            let found = states(&disk, &program.events, model, limits(32, 256));
            prop_assert_eq!(&found.states[0].tree, &program.tree());
            let lost: Vec<usize> = found.states.iter().map(|state| state.lost.len()).collect();
            prop_assert!(lost.is_sorted());
            let distinct: HashSet<_> = found.states.iter().map(|state| state.hash).collect();
            prop_assert_eq!(distinct.len(), found.states.len());
            prop_assert!(found.known >= found.states.len());
            let again = states(&disk, &program.events, model, limits(32, 256));
            let same = found.states.iter().zip(&again.states).all(|(a, b)| a.hash == b.hash && a.lost == b.lost);
            prop_assert!(same && found.states.len() == again.states.len());
        }
    }

    #[test]
    fn a_sync_takes_states_away_and_adds_none(codes in codes(12)) {
        let (disk, program) = program(&codes);
        for model in DiskModel::ALL {
            let with = hashes(&disk, &program.events, model);
            let without = hashes(&disk, &ignore_syncs(&program.events), model);
            let (Some(with), Some(without)) = (with, without) else { continue };
            prop_assert!(with.is_subset(&without));
        }
    }
}

fn at(name: &str) -> Entry {
    (NodeId::ROOT, name.to_owned())
}

fn text(tree: &Tree, path: &str) -> Option<String> {
    match tree.get(path)? {
        Node::File { bytes, .. } => Some(String::from_utf8_lossy(bytes).replace('\0', "0")),
        _ => None,
    }
}

/// The contents of a path in all states, `-` where it is missing.
fn contents(disk: &Disk, events: &[Event], model: DiskModel, path: &str) -> Vec<String> {
    let found = states(disk, events, model, limits(256, 4096));
    assert!(found.complete);
    let all: BTreeSet<String> =
        found.states.iter().map(|state| text(&state.tree, path).unwrap_or_else(|| "-".into())).collect();
    all.into_iter().collect()
}

fn replacing(synced: bool, exists: bool) -> (Disk, Vec<Event>) {
    let mut tree = Tree::new();
    if exists {
        tree.insert("f".into(), Node::File { mode: 0o644, bytes: b"old!".as_slice().into() });
    }
    let disk = Disk::new(&tree);
    let node = NodeId(disk.nodes.len() as u32);
    let mut events = vec![
        Event::Create { at: Some(at("tmp")), node, made: Made::File(0o644) },
        Event::Write { node, offset: 0, data: b"new!".as_slice().into() },
    ];
    if synced {
        events.push(Event::Sync { node, data_only: false });
    }
    events.push(Event::Rename { from: at("tmp"), to: at("f") });
    (disk, events)
}

#[test]
fn a_rename_without_fsync_may_leave_an_empty_file_where_nothing_promises_more() {
    let (disk, events) = replacing(false, true);
    assert_eq!(contents(&disk, &events, DiskModel::Strict, "f"), ["", "0000", "new!", "old!"]);
    // auto_da_alloc: a replacing rename comes after the bytes.
    assert_eq!(contents(&disk, &events, DiskModel::Ext4Ordered, "f"), ["new!", "old!"]);
    let (disk, events) = replacing(true, true);
    for model in DiskModel::ALL {
        assert_eq!(contents(&disk, &events, model, "f"), ["new!", "old!"]);
    }
    // There is nothing to replace: delayed allocation may leave the file empty.
    let (disk, events) = replacing(false, false);
    assert_eq!(contents(&disk, &events, DiskModel::Ext4Ordered, "f"), ["", "-", "new!"]);
}

#[test]
fn the_name_of_a_new_file_needs_an_fsync_of_its_directory() {
    let (disk, mut events) = replacing(true, false);
    events.truncate(3);
    assert_eq!(contents(&disk, &events, DiskModel::Strict, "tmp"), ["-", "new!"]);
    assert_eq!(contents(&disk, &events, DiskModel::Ext4Ordered, "tmp"), ["new!"]);
    events.push(Event::Sync { node: NodeId::ROOT, data_only: false });
    assert_eq!(contents(&disk, &events, DiskModel::Strict, "tmp"), ["new!"]);
}

#[test]
fn an_append_tears_at_block_borders_only() {
    let tree: Tree = [("log".to_owned(), Node::File { mode: 0o644, bytes: b"12".as_slice().into() })].into();
    let disk = Disk::new(&tree);
    let events = [Event::Write { node: NodeId(1), offset: 2, data: b"abcdef".as_slice().into() }];
    // Blocks are of four bytes: 12ab and cdef.
    assert_eq!(
        contents(&disk, &events, DiskModel::Strict, "log"),
        ["12", "1200", "12000000", "1200cdef", "12ab", "12ab0000", "12abcdef"]
    );
    assert_eq!(contents(&disk, &events, DiskModel::Ext4Ordered, "log"), ["12", "1200", "1200cdef", "12ab", "12abcdef"]);
}

#[test]
fn a_move_to_another_directory_never_loses_the_file() {
    let tree: Tree = [
        ("d".to_owned(), Node::Dir { mode: 0o755 }),
        ("f".to_owned(), Node::File { mode: 0o644, bytes: b"x".as_slice().into() }),
    ]
    .into();
    let disk = Disk::new(&tree);
    let events = [Event::Rename { from: at("f"), to: (NodeId(1), "f".into()) }];
    let names = |model| -> BTreeSet<Vec<String>> {
        let found = states(&disk, &events, model, Limits::default());
        found
            .states
            .iter()
            .map(|state| state.tree.keys().filter(|path| path.contains('f')).cloned().collect())
            .collect()
    };
    let (old, new, both) = (vec!["f".to_owned()], vec!["d/f".to_owned()], vec!["d/f".to_owned(), "f".to_owned()]);
    assert_eq!(names(DiskModel::Strict), [old.clone(), new.clone(), both].into());
    assert_eq!(names(DiskModel::Ext4Ordered), [old, new].into());
}

#[test]
fn a_large_unsynced_file_is_cut_off_at_the_limit_and_says_so() {
    let disk = Disk::new(&Tree::new());
    let node = NodeId(1);
    let events = [
        Event::Create { at: Some(at("big")), node, made: Made::File(0o644) },
        Event::Write { node, offset: 0, data: vec![7; 400].into() },
    ];
    let found = states(&disk, &events, DiskModel::Strict, limits(16, 200));
    assert_eq!(found.states.len(), 16);
    assert!(!found.complete && found.known > 16, "{}", found.coverage());
    assert_eq!(found.coverage(), format!("16 of at least {} states", found.known));
    // Both ends are among them: everything there, and everything lost.
    assert_eq!(text(&found.states[0].tree, "big").unwrap().len(), 400);
    assert!(found.states.iter().any(|state| state.tree.is_empty()));
}

#[test]
fn a_state_tells_what_it_lost() {
    let (disk, events) = replacing(false, true);
    let found = states(&disk, &events, DiskModel::Strict, limits(64, 4096));
    let empty = found.states.iter().find(|state| text(&state.tree, "f").as_deref() == Some("")).unwrap();
    let node = NodeId(2);
    let lost: Vec<_> = empty.lost.iter().map(|lost| lost.what.clone()).collect();
    assert_eq!(lost, [LostWhat::Size(node, 4)]);
    assert_eq!(empty.lost[0].event, 1);
}

#[test]
fn a_cut_within_a_block_may_leave_the_old_size_with_zeros_at_its_end() {
    let tree: Tree = [("f".to_owned(), Node::File { mode: 0o644, bytes: b"abcdef".as_slice().into() })].into();
    let disk = Disk::new(&tree);
    let cut = Event::Truncate { node: NodeId(1), size: 1 };
    for model in DiskModel::ALL {
        assert_eq!(contents(&disk, std::slice::from_ref(&cut), model, "f"), ["a", "a000ef", "abcdef"], "{model}");
    }
    // What is written into that block goes with the zeros, not with the new size.
    let write = Event::Write { node: NodeId(1), offset: 0, data: b"X".as_slice().into() };
    let seen = contents(&disk, &[cut.clone(), write], DiskModel::Ext4Ordered, "f");
    assert_eq!(seen, ["X", "X000ef", "a", "a000ef", "abcdef"]);
    // A cut at a border clears nothing, and what is written behind it needs it.
    let cut = Event::Truncate { node: NodeId(1), size: 4 };
    let write = Event::Write { node: NodeId(1), offset: 4, data: b"X".as_slice().into() };
    let seen = contents(&disk, &[cut, write], DiskModel::Strict, "f");
    assert_eq!(seen, ["abcd", "abcd0", "abcdX", "abcdef"]);
}
