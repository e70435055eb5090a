//! From the bounds to findings.

use super::{
    bases::{Bases, ends, first_with, last_states, torn_may_precede},
    bounds::{Bounds, bounds},
    history::{History, Made, may_precede},
    model::{Certainty, Delivery, Duplicated, Fork, Lost, Write},
};

/// At most this many findings of a kind.
const MAX_FINDINGS: usize = 10_000;

/// What the copies alone say.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) lost: Vec<Lost>,
    pub(super) duplicated: Vec<Duplicated>,
    pub(super) forks: Vec<Fork>,
}

/// The judge of copies.
pub(super) struct Finder<'a> {
    history: &'a History,
    bases: &'a Bases,
    made: Made,
    /// Who wrote a state, if known.
    writer: &'a dyn Fn(usize) -> Option<u64>,
    /// The states that can be the last one that a copy shows.
    ends: Vec<usize>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(
        history: &'a History,
        bases: &'a Bases,
        made: Made,
        writer: &'a dyn Fn(usize) -> Option<u64>,
    ) -> Self {
        Finder { history, bases, made, writer, ends: ends(history, bases) }
    }

    /// Judges every item.
    pub(super) fn find(&self, warnings: &mut Vec<String>) -> Findings {
        let bounds = bounds(self.history, self.bases);
        let last = last_states(self.history, self.bases, self.made);
        let mut findings = Findings { forks: self.forks(), ..Findings::default() };
        let nothing = Bounds::default();
        let mut left_out = 0;
        for id in 0..self.history.ids.len() as u32 {
            let bounds = bounds.get(&id).unwrap_or(&nothing);
            let found = [
                self.lost(id, bounds, &last).map(|lost| push(&mut findings.lost, lost)),
                self.duplicated(id, bounds, &last).map(|dup| push(&mut findings.duplicated, dup)),
            ];
            left_out += found.iter().flatten().filter(|kept| !**kept).count();
        }
        if left_out > 0 {
            warnings.push(format!("{left_out} findings are not listed (the first {MAX_FINDINGS} of each kind are)"));
        }
        findings.lost.sort_by_key(|l| l.certainty);
        findings.duplicated.sort_by_key(|d| d.certainty);
        findings
    }

    fn lost(&self, id: u32, bounds: &Bounds, last: &[usize]) -> Option<Lost> {
        let history = self.history;
        let end = history.nodes.len() - 1;
        let gone = |&node: &usize| !history.at(id, node).is_present();
        let can_be_gone = match (last, &self.ends[..]) {
            ([], []) => gone(&end),
            ([], ends) => ends.iter().all(gone),
            _ => last.iter().any(gone),
        };
        if !can_be_gone || bounds.handled.0 > 0 {
            return None;
        }
        let track = history.track(id);
        // The last state that has it, and the one after that.
        let seen = match track.last()? {
            (node, mark) if !mark.is_present() => *node as usize - 1,
            _ => end,
        };
        let next = (seen < end).then_some(seen + 1);
        let torn = self.touched_by_torn(id);
        let again = self.bases.again.contains(&id);
        let known_end = !last.is_empty() && last.iter().all(gone);
        let certain = self.bases.complete && known_end && bounds.handled.1 == 0 && !again && torn.is_none();
        let name = |node: usize| &*history.info(node).name;
        let base = next.and_then(|n| match self.bases.of[n][..] {
            [one] if self.bases.complete && !self.bases.from_torn[n] => Some(one),
            _ => None,
        });
        let mut why = match (next, base) {
            (Some(next), Some(base)) if base != seen && !history.at(id, base).is_present() => format!(
                "{} {}was made from {}{}, which does not have it, and not from {}{}, which does",
                name(next),
                self.carries(next),
                name(base),
                self.version(base),
                name(seen),
                self.version(seen),
            ),
            (Some(next), _) => format!("{} has it and {} has not", name(seen), name(next)),
            (None, _) => format!("{} has it, and whether that is the last state is not sure", name(seen)),
        };
        let mut settled_by = self.proof().to_owned();
        if certain {
            why += "; no write was made by anybody who had seen it";
        } else {
            let mut doubts = Vec::new();
            if !self.bases.complete {
                doubts.extend(self.bases.doubts.first().cloned());
            }
            if bounds.handled.1 > 0 || !self.bases.versions {
                doubts.push("it can have been completed and taken out by somebody who had seen it".to_owned());
            }
            if again {
                doubts.push("its id was put in more than once".to_owned());
            }
            doubts.extend(torn);
            settled_by = "the execution log (--log): does it name this id?".to_owned();
            if last.is_empty() {
                doubts.push("the last state is in no copy".to_owned());
                settled_by = "the live file (--current) and the execution log (--log)".to_owned();
            } else if !known_end {
                doubts.push("the clocks do not say which of two copies is the last".to_owned());
                settled_by = "the live file (--current) and the execution log (--log)".to_owned();
            }
            why = format!("{why}; but {}", doubts.join("; "));
        }
        let first = first_with(history, id).unwrap_or(track[0].0 as usize);
        Some(Lost {
            id: history.ids[id as usize].clone(),
            certainty: if certain { Certainty::Certain } else { Certainty::Possible },
            why,
            settled_by,
            last_seen: Some(name(seen).to_owned()),
            gone_in: next.map(|n| name(n).to_owned()),
            bytes: None,
            fragment: None,
            written_by: (self.writer)(first),
            overwritten_by: next.and_then(|n| (self.writer)(n)),
            stale_base: base.filter(|b| *b != seen).map(|b| name(b).to_owned()),
            stale_version: base.filter(|b| *b != seen).and_then(|b| history.nodes[b].version),
        })
    }

    /// Whether somebody who wrote a copy that cannot be read, or worked from it, can have taken the item.
    fn touched_by_torn(&self, id: u32) -> Option<String> {
        let history = self.history;
        let has = |node: usize| history.at(id, node).is_present();
        for torn in &history.torn {
            let info = &history.copies[torn.copy];
            let seen = (0..history.nodes.len()).any(|n| {
                has(n)
                    && may_precede(history.info(n), info, history.nodes[n].copies[0] < torn.copy)
                    && (torn.version.is_none() || history.nodes[n].version.map(|v| v.saturating_add(1)) == torn.version)
            });
            let passed_on = (0..history.nodes.len())
                .filter(|&n| self.bases.from_torn[n] && !history.at(id, n).is_available())
                .any(|n| torn_may_precede(history, torn.copy, n));
            if seen || passed_on {
                return Some(format!("{} cannot be read: it may be there that it was taken out", info.name));
            }
        }
        None
    }

    fn duplicated(&self, id: u32, bounds: &Bounds, last: &[usize]) -> Option<Duplicated> {
        let history = self.history;
        let end = [history.nodes.len() - 1];
        let ends = match (last, &self.ends[..]) {
            ([], []) => &end[..],
            ([], ends) => ends,
            _ => last,
        };
        let waits = ends.iter().all(|&node| history.at(id, node).is_available());
        // Taken, and waiting again though nobody gave it back: the next one takes it once more.
        let returns = bounds.net.0 == 1 && waits && self.bases.complete;
        if bounds.net.1 < 2 && !returns {
            return None;
        }
        let again = self.bases.again.contains(&id);
        let had_state = history.track(id).iter().any(|(_, mark)| mark.is_taken());
        let torn = !history.torn.is_empty() && had_state;
        let certain = self.bases.complete && bounds.net.0 >= 2 && !again && !torn;
        let name = |node: usize| history.info(node).name.clone();
        let deliveries: Vec<Delivery> = bounds
            .takers
            .iter()
            .map(|(node, bases)| Delivery {
                at: history.info(*node).time.map(|t| t.to_string()),
                pid: (self.writer)(*node),
                seen_in: Some(name(*node)),
                from: match bases[..] {
                    [one] => Some(name(one)),
                    _ => None,
                },
            })
            .collect();
        let taker = |(node, bases): &(usize, Vec<usize>)| {
            let made = match bases[..] {
                [one] => format!(", made from {}{}", name(one), self.version(one)),
                _ => String::new(),
            };
            format!("{}{}{made}", name(*node), self.version(*node))
        };
        let takers: Vec<String> = bounds.takers.iter().take(4).map(taker).collect();
        let takers = takers.join("; ");
        let (why, settled_by) = if certain {
            (
                format!("it was waiting in what each of these was made from, and is taken in each: {takers}"),
                self.proof().to_owned(),
            )
        } else if returns && bounds.net.1 < 2 {
            (
                format!("it was taken ({takers}), and waits again though nobody who had taken it put it back"),
                "the execution log (--log): whoever takes it next executes it again".to_owned(),
            )
        } else {
            let mut doubts = Vec::new();
            doubts.extend(self.bases.doubts.first().filter(|_| !self.bases.complete).cloned());
            if again {
                doubts.push("its id was put in more than once".to_owned());
            }
            if torn {
                doubts.push("a copy that cannot be read may show that it was given back".to_owned());
            }
            if doubts.is_empty() {
                doubts.push("which of the states some of these were made from is not sure".to_owned());
            }
            (
                format!("it can have been taken in each of these: {takers}; but {}", doubts.join("; ")),
                "the execution log (--log): does it name this id more than once?".to_owned(),
            )
        };
        let certainty = if certain { Certainty::Certain } else { Certainty::Possible };
        Some(Duplicated { id: history.ids[id as usize].clone(), certainty, why, settled_by, deliveries })
    }

    /// What shows from which state each state was made, where that is certain.
    fn proof(&self) -> &'static str {
        if self.bases.versions { "the versions of the copies" } else { "the audit lines" }
    }

    /// States with one version that are not the same.
    fn forks(&self) -> Vec<Fork> {
        let history = self.history;
        if !self.bases.versions {
            return Vec::new();
        }
        let mut forks = Vec::new();
        for (version, nodes) in history.by_version() {
            let Some(read_version) = version.checked_sub(1).filter(|_| nodes.len() > 1) else { continue };
            let write = |&node: &usize| Write {
                pid: (self.writer)(node),
                version,
                at: history.info(node).time.map(|t| t.to_string()),
                snapshot: Some(history.info(node).name.clone()),
            };
            // Nothing but the layout differs: somebody may have formatted the file.
            let same_items = nodes.windows(2).all(|pair| history.diff(pair[0], pair[1]).is_empty());
            let lowest = nodes.iter().all(|&n| self.bases.of[n].is_empty());
            let certain = (self.made == Made::After || !same_items)
                && (self.bases.complete || !lowest)
                && !self.bases.shared.contains(&version);
            forks.push(Fork {
                read_version,
                certainty: if certain { Certainty::Certain } else { Certainty::Possible },
                writes: nodes.iter().map(write).collect(),
            });
        }
        forks
    }

    fn version(&self, node: usize) -> String {
        self.history.nodes[node].version.map(|v| format!(" (version {v})")).unwrap_or_default()
    }

    fn carries(&self, node: usize) -> String {
        match self.history.nodes[node].version {
            Some(version) => format!("carries version {version} and "),
            None => String::new(),
        }
    }
}

fn push<T>(list: &mut Vec<T>, item: T) -> bool {
    let room = list.len() < MAX_FINDINGS;
    if room {
        list.push(item);
    }
    room
}
