//! The distinct trees that a disk may hold after a power cut.

use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use super::{
    bits::Bits,
    effect::{self, Change, Effect, Effects},
    event::{Disk, Entry, Event, NodeId},
    ext4::Ext4,
    image::{Image, Images},
    part::{Losses, Part},
    strict::Strict,
};
use crate::world::{DiskModel, Tree};

/// What a disk writes as a whole, in bytes.
pub const BLOCK: u64 = 4096;

/// How many states are wanted, and how far to look for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// At most so many states are returned.
    pub states: usize,
    /// At most so many sets of missing effects are looked at, in each step of the search.
    pub look: usize,
    /// What the disk writes as a whole: [`BLOCK`], or the size of a sector.
    pub block: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { states: 64, look: 2048, block: BLOCK }
    }
}

/// An effect that did not reach the disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lost {
    /// Of which event.
    pub event: usize,
    /// What of it.
    pub what: LostWhat,
}

/// What of an event did not reach the disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LostWhat {
    /// What these names name now.
    Names(Vec<Entry>),
    /// These bytes of a file: from, to.
    Data(NodeId, u64, u64),
    /// The size of a file.
    Size(NodeId, u64),
    /// Permission bits.
    Mode(NodeId),
}

/// One tree that the disk may hold.
#[derive(Clone, Debug)]
pub struct State {
    /// The tree.
    pub tree: Tree,
    /// BLAKE3 of the tree: equal trees have equal hashes.
    pub hash: [u8; 32],
    /// What is missing; empty when nothing is.
    pub lost: Vec<Lost>,
}

/// All of them, or as many as were asked for.
#[derive(Clone, Debug)]
pub struct States {
    /// The states, those that lost the fewest effects first.
    pub states: Vec<State>,
    /// How many distinct states there are at least.
    pub known: usize,
    /// `known` are all.
    pub complete: bool,
}

impl States {
    /// How many of how many: `12 of 12 states`, `64 of at least 431 states`.
    pub fn coverage(&self) -> String {
        let least = if self.complete { "" } else { "at least " };
        format!("{} of {least}{} states", self.states.len(), self.known)
    }
}

/// What the disk may hold when the power goes after these events (`events` ends at the cut).
pub fn states(disk: &Disk, events: &[Event], model: DiskModel, limits: Limits) -> States {
    let Effects { list: effects, durable } = match model {
        DiskModel::Strict => effect::effects(disk, events, limits.block, Strict),
        DiskModel::Ext4Ordered => effect::effects(disk, events, limits.block, Ext4::default()),
    };
    let mut images = Images::new(disk, events, &effects);
    let named = images.ever_named(&durable);
    let matters = |effect: &Effect| effect.change.node().is_none_or(|node| named.contains(&node));
    let volatile: Vec<usize> = (0..effects.len()).filter(|i| !durable[*i] && matters(&effects[*i])).collect();
    // Effects on files without a name are as good as on the disk: nobody can see them.
    let losses = Losses::new(&effects, with_dependents(&effects, &durable, volatile));
    let mut found = Found { by_hash: HashMap::new(), images: &mut images };
    found.add(losses.none());
    found.add(losses.of(losses.volatile.iter().copied()));
    // The sequence cut short, event by event.
    let mut last = None;
    for (n, index) in losses.volatile.iter().enumerate().rev() {
        let event = effects[*index].event;
        if last.replace(event) != Some(event) || n == 0 {
            let from = losses.volatile.iter().position(|i| effects[*i].event == event).unwrap_or(n);
            found.add(losses.of(losses.volatile[from..].iter().copied()));
        }
        if found.by_hash.len() >= limits.states / 2 {
            break;
        }
    }
    let groups = losses.groups(&effects);
    let parts: Vec<Part> = groups.iter().map(|group| losses.part(group, &effects, found.images, limits.look)).collect();
    let mut complete = parts.iter().all(|part| part.complete);
    let mut order: HashMap<[u8; 32], usize> = HashMap::new();
    for hash in found.by_hash.keys() {
        order.insert(*hash, 0);
    }
    let mut product = Product::new(&parts, &losses);
    let mut looked = 0;
    while let Some(lost) = product.next() {
        looked += 1;
        if looked > limits.look {
            complete = false;
            break;
        }
        let hash = found.add(lost);
        order.entry(hash).or_insert(looked);
    }
    let known = found.by_hash.len();
    let mut chosen: Vec<([u8; 32], (Bits, Image))> = found.by_hash.into_iter().collect();
    chosen.sort_by(|(a, (lost_a, _)), (b, (lost_b, _))| {
        (order[a], lost_a.len(), lost_a).cmp(&(order[b], lost_b.len(), lost_b))
    });
    chosen.truncate(limits.states.max(1));
    chosen.sort_by(|(_, (a, _)), (_, (b, _))| (a.len(), a).cmp(&(b.len(), b)));
    let states = chosen.into_iter().map(|(hash, (lost, image))| State {
        tree: image.tree,
        hash,
        lost: lost.iter().map(|index| describe(&effects[index])).collect(),
    });
    States { states: states.collect(), known, complete }
}

/// These effects and the volatile ones that depend on them.
fn with_dependents(effects: &[Effect], durable: &[bool], volatile: Vec<usize>) -> Vec<usize> {
    let mut all: BTreeSet<usize> = volatile.into_iter().collect();
    for index in 0..effects.len() {
        if !durable[index] && effects[index].after.iter().any(|before| all.contains(before)) {
            all.insert(index);
        }
    }
    all.into_iter().collect()
}

/// The trees found so far, each with the smallest loss that leads to it.
struct Found<'i, 'a> {
    by_hash: HashMap<[u8; 32], (Bits, Image)>,
    images: &'i mut Images<'a>,
}

impl Found<'_, '_> {
    fn add(&mut self, lost: Bits) -> [u8; 32] {
        let image = self.images.tree(&|index| !lost.has(index));
        let hash = image.hash;
        let known = self.by_hash.entry(hash).or_insert_with(|| (lost.clone(), image));
        if (lost.len(), &lost) < (known.0.len(), &known.0) {
            known.0 = lost;
        }
        hash
    }
}

/// Every combination of ways of independent parts, the cheapest first.
struct Product<'p> {
    parts: &'p [Part],
    none: Bits,
    waiting: BinaryHeap<std::cmp::Reverse<(usize, Vec<usize>)>>,
    seen: HashSet<Vec<usize>>,
}

impl<'p> Product<'p> {
    fn new(parts: &'p [Part], losses: &Losses) -> Self {
        let first = vec![0; parts.len()];
        let waiting = [std::cmp::Reverse((0, first.clone()))].into_iter().collect();
        Product { parts, none: losses.none(), waiting, seen: [first].into() }
    }

    fn next(&mut self) -> Option<Bits> {
        let std::cmp::Reverse((_, chosen)) = self.waiting.pop()?;
        for at in 0..chosen.len() {
            let mut next = chosen.clone();
            next[at] += 1;
            if next[at] < self.parts[at].ways.len() && self.seen.insert(next.clone()) {
                let cost = next.iter().zip(self.parts).map(|(way, part)| part.ways[*way].cost).sum();
                self.waiting.push(std::cmp::Reverse((cost, next)));
            }
        }
        let mut lost = self.none.clone();
        for (way, part) in chosen.iter().zip(self.parts) {
            lost.join(&part.ways[*way].lost);
        }
        Some(lost)
    }
}

fn describe(effect: &Effect) -> Lost {
    let what = match &effect.change {
        Change::Names(names) => LostWhat::Names(names.iter().map(|(entry, _)| entry.clone()).collect()),
        Change::Data { node, offset, from, to } => LostWhat::Data(*node, *offset, *offset + (to - from) as u64),
        Change::Zero { node, from, to } => LostWhat::Data(*node, *from, *to),
        Change::Grow { node, size } | Change::Cut { node, size } => LostWhat::Size(*node, *size),
        Change::Mode { node, .. } => LostWhat::Mode(*node),
    };
    Lost { event: effect.event, what }
}
