//! Effects that depend on each other, and the ways in which some of them may be missing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{
    bits::Bits,
    effect::{Change, Effect},
    image::Images,
};

/// One way in which effects of a part are missing from the disk.
#[derive(Clone, Debug)]
pub(super) struct Missing {
    /// The effects that are missing.
    pub lost: Bits,
    /// How far-fetched it is: states that are cheap are looked at first.
    pub cost: usize,
}

/// Effects that have nothing to do with those of other parts.
#[derive(Debug)]
pub(super) struct Part {
    /// Each visibly different way, the cheapest first.
    pub ways: Vec<Missing>,
    /// There are no others.
    pub complete: bool,
}

/// Which volatile effects go with the loss of which.
pub(super) struct Losses {
    /// The volatile effects.
    pub volatile: Vec<usize>,
    /// For each effect: itself and everything that cannot be on the disk without it.
    closure: BTreeMap<usize, Bits>,
    bound: usize,
}

impl Losses {
    pub(super) fn new(effects: &[Effect], volatile: Vec<usize>) -> Self {
        let bound = effects.len();
        let mut closure: BTreeMap<usize, Bits> = BTreeMap::new();
        let mut needed_by: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let set: BTreeSet<usize> = volatile.iter().copied().collect();
        for index in &volatile {
            for before in effects[*index].after.iter().filter(|before| set.contains(before)) {
                needed_by.entry(*before).or_default().push(*index);
            }
        }
        // What depends on an effect comes after it.
        for index in volatile.iter().rev() {
            let mut lost = Bits::new(bound);
            lost.add(*index);
            for after in needed_by.get(index).into_iter().flatten() {
                lost.join(&closure[after]);
            }
            closure.insert(*index, lost);
        }
        Losses { volatile, closure, bound }
    }

    /// Nothing is lost.
    pub(super) fn none(&self) -> Bits {
        Bits::new(self.bound)
    }

    /// These are lost, and what depends on them.
    pub(super) fn of(&self, effects: impl IntoIterator<Item = usize>) -> Bits {
        let mut lost = self.none();
        for index in effects {
            lost.join(&self.closure[&index]);
        }
        lost
    }

    /// Volatile effects in groups that have nothing to do with each other: neither an order nor a file in common.
    pub(super) fn groups(&self, effects: &[Effect]) -> Vec<Vec<usize>> {
        let place: BTreeMap<usize, usize> = self.volatile.iter().enumerate().map(|(n, index)| (*index, n)).collect();
        let mut group: Vec<usize> = (0..self.volatile.len()).collect();
        fn root(group: &mut [usize], mut of: usize) -> usize {
            while group[of] != of {
                group[of] = group[group[of]];
                of = group[of];
            }
            of
        }
        let mut unite = |a: usize, b: usize| {
            let (a, b) = (root(&mut group, a), root(&mut group, b));
            group[a.max(b)] = a.min(b);
        };
        let mut of_node = BTreeMap::new();
        for (n, index) in self.volatile.iter().enumerate() {
            for before in effects[*index].after.iter().filter_map(|before| place.get(before)) {
                unite(n, *before);
            }
            if let Some(node) = effects[*index].change.node() {
                unite(n, *of_node.entry(node).or_insert(n));
            }
        }
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (n, index) in self.volatile.iter().enumerate() {
            groups.entry(root(&mut group, n)).or_default().push(*index);
        }
        groups.into_values().collect()
    }

    /// The visibly different ways in which effects of this group may be missing. At most `budget` sets are looked at.
    pub(super) fn part(&self, group: &[usize], effects: &[Effect], images: &mut Images<'_>, budget: usize) -> Part {
        let mut ways = Ways::new(group, effects, self);
        let none = self.none();
        ways.add(images, none.clone(), 0);
        ways.add(images, self.of(group.iter().copied()), 1);
        // Cut short: the rest of the sequence is missing. And single losses, which also show what is reordered.
        for (n, index) in group.iter().enumerate().rev().take(budget) {
            ways.add(images, self.of(group[n..].iter().copied()), 1);
            ways.add(images, self.of([*index]), 1);
        }
        // Only one made it, with what it needs.
        for index in group.iter().take(budget) {
            let others = group.iter().copied().filter(|other| !self.closure[other].has(*index));
            ways.add(images, self.of(others), 2);
        }
        let mut seen: HashSet<Bits> = [none.clone()].into();
        let mut level = vec![none];
        let mut cost = 0;
        let mut complete = true;
        while !level.is_empty() && complete {
            cost += 1;
            let mut next = Vec::new();
            'level: for lost in &level {
                for index in group.iter().rev().filter(|index| !lost.has(**index)) {
                    // Only what nothing left depends on: each step loses one effect more.
                    let needed = self.closure[index].iter().any(|other| other != *index && !lost.has(other));
                    if needed {
                        continue;
                    }
                    let mut more = lost.clone();
                    more.add(*index);
                    if seen.insert(more.clone()) {
                        if seen.len() > budget {
                            complete = false;
                            break 'level;
                        }
                        ways.add(images, more.clone(), cost);
                        next.push(more);
                    }
                }
            }
            level = next;
        }
        let mut ways = ways.found;
        ways.sort_by(|a, b| (a.cost, a.lost.len(), &a.lost).cmp(&(b.cost, b.lost.len(), &b.lost)));
        Part { ways, complete }
    }
}

/// The ways found so far, each visibly different from the others.
struct Ways {
    found: Vec<Missing>,
    by_sight: HashMap<[u8; 32], usize>,
    names: BTreeSet<super::event::Entry>,
    nodes: BTreeSet<super::event::NodeId>,
    effects: usize,
}

impl Ways {
    fn new(group: &[usize], effects: &[Effect], losses: &Losses) -> Self {
        let mut names = BTreeSet::new();
        let mut nodes = BTreeSet::new();
        for index in group {
            match &effects[*index].change {
                Change::Names(changed) => names.extend(changed.iter().map(|(entry, _)| entry.clone())),
                other => nodes.extend(other.node()),
            }
        }
        Ways { found: Vec::new(), by_sight: HashMap::new(), names, nodes, effects: losses.bound }
    }

    /// Adds a way unless it looks like one that is known; of two that look alike the one that loses less is kept.
    fn add(&mut self, images: &mut Images<'_>, lost: Bits, cost: usize) {
        debug_assert!(lost.iter().all(|index| index < self.effects));
        let sight = self.sight(images, &lost);
        match self.by_sight.get(&sight) {
            Some(known) => {
                let known = &mut self.found[*known];
                known.cost = known.cost.min(cost);
                if lost.len() < known.lost.len() {
                    known.lost = lost;
                }
            }
            None => {
                self.by_sight.insert(sight, self.found.len());
                self.found.push(Missing { lost, cost });
            }
        }
    }

    fn sight(&self, images: &mut Images<'_>, lost: &Bits) -> [u8; 32] {
        let kept = |index: usize| !lost.has(index);
        let mut hasher = blake3::Hasher::new();
        if !self.names.is_empty() {
            let names = images.names(&kept);
            for name in &self.names {
                hasher.update(format!("{:?}", names.get(name)).as_bytes());
            }
        }
        for node in &self.nodes {
            match images.file(*node, &kept) {
                Some(file) => hasher.update(&file.hash).update(&file.mode.to_le_bytes()),
                None => hasher.update(format!("{:?}", images.other_mode(*node, &kept)).as_bytes()),
            };
        }
        *hasher.finalize().as_bytes()
    }
}
