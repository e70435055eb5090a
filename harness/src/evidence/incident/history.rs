//! The states of the file that the copies show, kept as differences: memory grows with what changed, not with the
//! size of the copies.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
};

use jiff::{SignedDuration, Timestamp};

use super::{
    copies::Clock,
    document::{Document, Torn},
    mask,
};

/// How far the clocks of two writers may be apart.
pub(super) const SKEW: SignedDuration = SignedDuration::from_secs(2);
/// How far back an equal copy is looked for.
const LOOK_BACK: usize = 16;

/// An item in a state: absent, or what it is and whether somebody has taken it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    pub(super) const ABSENT: Mark = Mark(0);

    pub(super) fn present(text: &str, taken: bool) -> Mark {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Mark((hasher.finish() << 2) | 2 | u64::from(taken))
    }

    pub(super) fn is_present(self) -> bool {
        self.0 != 0
    }

    pub(super) fn is_taken(self) -> bool {
        self.0 & 1 == 1
    }

    pub(super) fn is_available(self) -> bool {
        self.is_present() && !self.is_taken()
    }
}

/// What is known of a copy before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyInfo {
    pub(super) name: String,
    pub(super) time: Option<Timestamp>,
    pub(super) clock: Clock,
    pub(super) pid: Option<u64>,
    /// It is the live file.
    pub(super) live: bool,
}

/// A state of the file.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The copies that show it; the first one counts.
    pub(super) copies: Vec<usize>,
    pub(super) version: Option<u64>,
    /// CRC-32C of its bytes, as audit lines have it.
    pub(super) crc: u32,
    /// Ids that differ from the node before.
    pub(super) delta: Vec<u32>,
}

/// A copy that cannot be read as a whole: a state of which only the beginning is known, if it ever was one.
#[derive(Clone, Debug)]
pub(super) struct TornNode {
    pub(super) copy: usize,
    pub(super) version: Option<u64>,
    pub(super) reason: String,
}

/// Whether each copy is a write of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// Not said: equal copies may be one state copied twice.
    Unknown,
    /// Before each write.
    Before,
    /// After each write: equal copies are two writes.
    After,
}

/// All states, in the order of their copies.
#[derive(Debug)]
pub(super) struct History {
    pub(super) copies: Vec<CopyInfo>,
    pub(super) nodes: Vec<Node>,
    pub(super) torn: Vec<TornNode>,
    /// The ids as they are shown.
    pub(super) ids: Vec<String>,
    /// The ids as they are.
    pub(super) raw: Vec<String>,
    mask: bool,
    /// The live file's state.
    pub(super) live: Option<usize>,
    /// Items that had no id, in all copies.
    pub(super) without_id: u64,
    /// Copies in which one id stands twice, and such an id.
    pub(super) twice: Option<(String, String)>,
    made: Made,
    index: HashMap<String, u32>,
    tracks: Vec<Vec<(u32, Mark)>>,
    /// The ids of the last node.
    present: Vec<u32>,
    round: u32,
    /// The round in which an id was last met.
    met: Vec<u32>,
}

impl History {
    pub(super) fn new(made: Made, mask: bool) -> Self {
        History {
            copies: Vec::new(),
            nodes: Vec::new(),
            torn: Vec::new(),
            ids: Vec::new(),
            raw: Vec::new(),
            mask,
            live: None,
            without_id: 0,
            twice: None,
            made,
            index: HashMap::new(),
            tracks: Vec::new(),
            present: Vec::new(),
            round: 0,
            met: Vec::new(),
        }
    }

    /// Adds a copy that cannot be read as a whole.
    pub(super) fn add_torn(&mut self, copy: CopyInfo, torn: Torn) {
        self.torn.push(TornNode { copy: self.copies.len(), version: torn.version, reason: torn.reason });
        self.copies.push(copy);
    }

    /// Adds a copy. Copies come in their order, the live file last.
    pub(super) fn add(&mut self, copy: CopyInfo, document: &Document<'_>, crc: u32) {
        self.round += 1;
        self.without_id += document.without_id as u64;
        let node = self.nodes.len() as u32;
        let mut changes: Vec<(u32, Mark)> = Vec::new();
        let mut present = Vec::with_capacity(document.items.len());
        for item in &document.items {
            let id = self.intern(&item.id);
            if self.met[id as usize] == self.round {
                self.twice.get_or_insert_with(|| (item.id.to_string(), copy.name.clone()));
                continue;
            }
            self.met[id as usize] = self.round;
            present.push(id);
            let mark = Mark::present(item.text, item.taken);
            if self.last(id) != mark {
                changes.push((id, mark));
            }
        }
        for &id in &self.present {
            if self.met[id as usize] != self.round {
                changes.push((id, Mark::ABSENT));
            }
        }
        let index = self.copies.len();
        if let Some(same) = self.same(&copy, document.version, crc, changes.is_empty()) {
            self.nodes[same].copies.push(index);
            self.live = copy.live.then_some(same).or(self.live);
            self.copies.push(copy);
            return;
        }
        let mut delta = Vec::with_capacity(changes.len());
        for (id, mark) in changes {
            self.tracks[id as usize].push((node, mark));
            delta.push(id);
        }
        self.present = present;
        self.live = copy.live.then_some(node as usize).or(self.live);
        self.nodes.push(Node { copies: vec![index], version: document.version, crc, delta });
        self.copies.push(copy);
    }

    /// The node that a copy shows once more. After each write every copy is a write of its own, but the live file is
    /// what the last one wrote.
    fn same(&self, copy: &CopyInfo, version: Option<u64>, crc: u32, unchanged: bool) -> Option<usize> {
        if self.made == Made::After && !copy.live {
            return None;
        }
        let last = self.nodes.len().checked_sub(1)?;
        if unchanged && self.nodes[last].version == version {
            return Some(last);
        }
        // Clocks that differ put an equal copy a little apart. Without versions it may as well be a later state.
        version?;
        let from = self.nodes.len().saturating_sub(LOOK_BACK);
        let near = |node: usize| {
            let newest = self.copies[self.nodes[last].copies[0]].time;
            let other = &self.copies[self.nodes[node].copies[0]];
            let at = if copy.live { newest } else { copy.time };
            let (Some(at), Some(time), Clock::Name) = (at, other.time, other.clock) else { return false };
            at.duration_since(time).abs() <= SKEW
        };
        (from..last).rev().find(|&n| self.nodes[n].version == version && self.nodes[n].crc == crc && near(n))
    }

    fn intern(&mut self, id: &str) -> u32 {
        if let Some(&known) = self.index.get(id) {
            return known;
        }
        let new = self.ids.len() as u32;
        self.ids.push(if self.mask { mask::id(self.ids.len()) } else { id.to_owned() });
        self.raw.push(id.to_owned());
        self.index.insert(id.to_owned(), new);
        self.tracks.push(Vec::new());
        self.met.push(0);
        new
    }

    /// The number of an id that some copy has.
    pub(super) fn id(&self, id: &str) -> Option<u32> {
        self.index.get(id).copied()
    }

    fn last(&self, id: u32) -> Mark {
        self.tracks[id as usize].last().map_or(Mark::ABSENT, |(_, mark)| *mark)
    }

    /// An item in a state.
    pub(super) fn at(&self, id: u32, node: usize) -> Mark {
        let track = &self.tracks[id as usize];
        let after = track.partition_point(|(n, _)| *n as usize <= node);
        after.checked_sub(1).map_or(Mark::ABSENT, |i| track[i].1)
    }

    /// The states in which an item changed, with what it was from there on.
    pub(super) fn track(&self, id: u32) -> &[(u32, Mark)] {
        &self.tracks[id as usize]
    }

    /// The ids that differ between two states, in no order.
    pub(super) fn diff(&self, a: usize, b: usize) -> Vec<u32> {
        let (from, to) = (a.min(b), a.max(b));
        let mut ids: Vec<u32> = self.nodes[from + 1..=to].iter().flat_map(|n| n.delta.iter().copied()).collect();
        if to - from > 1 {
            ids.sort_unstable();
            ids.dedup();
            ids.retain(|&id| self.at(id, a) != self.at(id, b));
        }
        ids
    }

    /// The copy that stands for a state.
    pub(super) fn info(&self, node: usize) -> &CopyInfo {
        &self.copies[self.nodes[node].copies[0]]
    }

    /// Whether the state `base` can have been there when `node` was made from it, as far as the clocks say.
    pub(super) fn may_precede(&self, base: usize, node: usize) -> bool {
        may_precede(self.info(base), self.info(node), base < node)
    }

    /// The nodes of each version.
    pub(super) fn by_version(&self) -> BTreeMap<u64, Vec<usize>> {
        let mut all: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (i, node) in self.nodes.iter().enumerate() {
            if let Some(version) = node.version {
                all.entry(version).or_default().push(i);
            }
        }
        all
    }
}

/// The live file comes last. Times in names are those of their writers' clocks; other orders are firm.
pub(super) fn may_precede(base: &CopyInfo, node: &CopyInfo, earlier: bool) -> bool {
    if base.live || node.live {
        return node.live && !base.live;
    }
    match (base.time, node.time) {
        (Some(a), Some(b)) if base.clock == Clock::Name => a.duration_since(b) <= SKEW,
        (Some(a), Some(b)) if base.clock == Clock::Modified => a <= b || earlier,
        _ => earlier,
    }
}
