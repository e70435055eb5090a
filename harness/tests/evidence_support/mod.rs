//! Random histories of a queue file, with what truly happened, and the evidence that they leave.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use noclobber::evidence::incident::{Certainty, CopiesMade, Incident, Request, investigate};

/// Random numbers (splitmix64), so that a case is its seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A state: version, and items with whether they are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub version: u64,
    pub items: BTreeMap<String, bool>,
}

impl State {
    pub fn text(&self, versions: bool) -> String {
        let item = |(id, taken): (&String, &bool)| match taken {
            true => format!("{{\"id\":\"{id}\",\"state\":\"claimed\"}}"),
            false => format!("{{\"id\":\"{id}\",\"state\":\"queued\"}}"),
        };
        let items: Vec<String> = self.items.iter().map(item).collect();
        let version = if versions { format!("\"version\":{},", self.version) } else { String::new() };
        format!("{{{version}\"tasks\":[{}]}}", items.join(","))
    }
}

/// A write that happened.
#[derive(Clone, Debug)]
pub struct Written {
    pub pid: u64,
    /// Index of the state that was read.
    pub base: usize,
    /// Milliseconds since the beginning.
    pub at: i64,
    pub ids: Vec<String>,
}

/// What happened.
#[derive(Clone, Debug)]
pub struct Truth {
    /// The first state and what each write made.
    pub states: Vec<State>,
    pub writes: Vec<Written>,
}

pub struct Habits {
    pub writers: u64,
    pub writes: usize,
    /// Whether a task is claimed first and taken out later; else it is taken out at once.
    pub claims: bool,
    /// Percentage of writes from something older than the last state.
    pub stale: u64,
}

impl Truth {
    pub fn random(rng: &mut Rng, habits: &Habits) -> Truth {
        let mut fresh = 0;
        let mut new = |items: &mut BTreeMap<String, bool>, ids: &mut Vec<String>| {
            fresh += 1;
            items.insert(format!("t{fresh}"), false);
            ids.push(format!("t{fresh}"));
        };
        let mut first = BTreeMap::new();
        for _ in 0..rng.below(3) {
            new(&mut first, &mut Vec::new());
        }
        let mut truth = Truth { states: vec![State { version: 17, items: first }], writes: Vec::new() };
        let mut at = 0;
        for _ in 0..habits.writes {
            at += 200 + rng.below(2500) as i64;
            let last = truth.states.len() - 1;
            let back = if rng.chance(habits.stale) { 1 + rng.below(3) as usize } else { 0 };
            let base = last.saturating_sub(back);
            let mut state = truth.states[base].clone();
            state.version += 1;
            let mut ids = Vec::new();
            for id in truth.states[base].items.keys() {
                let taken = state.items[id];
                match (taken, habits.claims) {
                    (false, false) if rng.chance(35) => drop(state.items.remove(id)),
                    (false, true) if rng.chance(35) => drop(state.items.insert(id.clone(), true)),
                    (true, _) if rng.chance(50) => drop(state.items.remove(id)),
                    (true, _) if rng.chance(15) => drop(state.items.insert(id.clone(), false)),
                    _ => continue,
                }
                ids.push(id.clone());
            }
            for _ in 0..[0, 1, 1, 2][rng.below(4) as usize] {
                new(&mut state.items, &mut ids);
            }
            truth.writes.push(Written { pid: 100 + rng.below(habits.writers), base, at, ids });
            truth.states.push(state);
        }
        truth
    }

    fn effects(&self, id: &str) -> (i64, i64) {
        let (mut handled, mut net) = (0, 0);
        for (i, write) in self.writes.iter().enumerate() {
            let (was, is) = (self.states[write.base].items.get(id), self.states[i + 1].items.get(id));
            handled += i64::from(was.is_some() && (is.is_none() || (was == Some(&false) && is == Some(&true))));
            net += i64::from(was == Some(&false) && is != Some(&false));
            net -= i64::from(was == Some(&true) && is == Some(&false));
        }
        (handled, net)
    }

    pub fn ids(&self) -> BTreeSet<String> {
        self.states.iter().flat_map(|state| state.items.keys().cloned()).collect()
    }

    /// Put in, never taken, and not in the last state.
    pub fn lost(&self) -> BTreeSet<String> {
        let last = &self.states.last().unwrap().items;
        self.ids().into_iter().filter(|id| !last.contains_key(id) && self.effects(id).0 == 0).collect()
    }

    /// Taken twice from one state in which it waited, or twice more than it was given back.
    pub fn duplicated(&self) -> BTreeSet<String> {
        let twice = |id: &String| {
            let takes = |(i, w): &(usize, &Written)| {
                let (was, is) = (self.states[w.base].items.get(id), self.states[i + 1].items.get(id));
                was == Some(&false) && is != Some(&false)
            };
            let bases: Vec<&State> =
                self.writes.iter().enumerate().filter(takes).map(|(_, w)| &self.states[w.base]).collect();
            bases.iter().enumerate().any(|(i, base)| bases[..i].contains(base))
        };
        self.ids().into_iter().filter(|id| self.effects(id).1 >= 2 || twice(id)).collect()
    }
}

/// How the evidence is left.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub versions: bool,
    pub after: bool,
    /// Whether that is said.
    pub said: bool,
    pub live: bool,
    pub audit: bool,
    /// Milliseconds that each writer's clock is off.
    pub skew: Vec<i64>,
    /// Copies that are dropped, and those that are cut off, by number.
    pub dropped: BTreeSet<usize>,
    pub cut: BTreeSet<usize>,
}

/// A copy of the evidence: the state it is of, and when it says it was made.
#[derive(Clone, Debug)]
pub struct Seen {
    pub state: usize,
    pub at: i64,
    pub live: bool,
}

const EPOCH: i64 = 1_769_860_800_000;

impl Evidence {
    pub fn full(versions: bool, after: bool) -> Evidence {
        Evidence {
            versions,
            after,
            said: true,
            live: true,
            audit: false,
            skew: vec![0],
            dropped: BTreeSet::new(),
            cut: BTreeSet::new(),
        }
    }

    /// The copies in the order of what they say.
    pub fn copies(&self, truth: &Truth) -> Vec<Seen> {
        let off = |pid: u64| self.skew[pid as usize % self.skew.len()];
        let mut all: Vec<Seen> = Vec::new();
        if self.after {
            all.push(Seen { state: 0, at: -60_000, live: false });
        }
        for (i, write) in truth.writes.iter().enumerate() {
            let state = if self.after { i + 1 } else { i };
            all.push(Seen { state, at: write.at + off(write.pid), live: false });
        }
        let mut n = 0;
        all.retain(|_| {
            n += 1;
            !self.dropped.contains(&(n - 1))
        });
        all.sort_by_key(|seen| (seen.at, seen.state));
        if self.live {
            all.push(Seen { state: truth.states.len() - 1, at: i64::MAX, live: true });
        }
        all
    }

    /// Writes it, asks what happened, and gives the answer.
    pub fn investigate(&self, truth: &Truth) -> Incident {
        let dir = tempfile::tempdir().unwrap();
        investigate(&self.write(truth, dir.path())).unwrap().incident
    }

    pub fn write(&self, truth: &Truth, dir: &Path) -> Request {
        let copies = dir.join("copies");
        fs::create_dir(&copies).unwrap();
        let mut request = Request { dir: Some(copies.clone()), ..Request::default() };
        request.made = self.said.then_some(if self.after { CopiesMade::After } else { CopiesMade::Before });
        for (n, seen) in self.copies(truth).iter().enumerate() {
            let mut text = truth.states[seen.state].text(self.versions);
            if self.cut.contains(&n) && !seen.live {
                text.truncate(text.len() * 2 / 3);
            }
            if seen.live {
                let live = dir.join("queue.json");
                fs::write(&live, text).unwrap();
                request.current = Some(live);
            } else {
                // The number keeps names of one millisecond apart.
                fs::write(copies.join(format!("queue-{}.n{n}.json", EPOCH + seen.at)), text).unwrap();
            }
        }
        if self.audit {
            let hash = |state: usize| format!("{:08x}", crc32c::crc32c(truth.states[state].text(true).as_bytes()));
            let lines: Vec<String> = truth
                .writes
                .iter()
                .enumerate()
                .map(|(i, w)| {
                    format!(
                        r#"{{"schema":1,"pid":{},"file":"q","op":"process","read":{},"wrote":{},"read_hash":"{}","wrote_hash":"{}","ids":{:?}}}"#,
                        w.pid, truth.states[w.base].version, truth.states[i + 1].version, hash(w.base), hash(i + 1), w.ids
                    )
                })
                .collect();
            let audit = dir.join("audit.jsonl");
            fs::write(&audit, lines.join("\n") + "\n").unwrap();
            request.audit = vec![audit];
        }
        request
    }
}

/// What is called certain.
pub fn certain(incident: &Incident) -> (BTreeSet<String>, BTreeSet<String>) {
    let lost = incident.lost.iter().filter(|l| l.certainty == Certainty::Certain).map(|l| l.id.clone());
    let duplicated = incident.duplicated.iter().filter(|d| d.certainty == Certainty::Certain).map(|d| d.id.clone());
    (lost.collect(), duplicated.collect())
}
