//! Which state each state was made from: all the possibilities.
//!
//! A history is a choice of a base for each state. It fits when
//! - versions, where they are in use, rise by one from base to state;
//! - the base was there by the time of the write, up to [`SKEW`](super::history::SKEW) between clocks;
//! - no write from a state before the first copy is still to come;
//! - no id is put in twice: a state that is not the first with an item has it from its base.
//!
//! The first state with an item is the one of the lowest version that has it, so the last rule speaks of each state
//! alone, and the choices are independent of each other: what holds for all histories is a sum of what holds for each
//! state. That is what makes *certain* exact without trying every history.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::history::{History, Made, may_precede};

/// More states than these with one version on average: it is no version of theirs.
const MAX_SIBLINGS: usize = 8;
/// More candidates of one state than these are not told apart.
const MAX_CANDIDATES: usize = 64;
/// How many states back a base is looked for where there are no versions.
const WINDOW: usize = 256;

/// The possible bases of all states.
#[derive(Debug, Default)]
pub(super) struct Bases {
    /// Of each node: nodes that it can have been made from.
    pub(super) of: Vec<Vec<usize>>,
    /// Nodes that can have been made from a copy that cannot be read.
    pub(super) from_torn: Vec<bool>,
    /// Ids that were put in more than once.
    pub(super) again: HashSet<u32>,
    /// Versions are in use, and every state but the first has one below it.
    pub(super) complete: bool,
    /// Versions are in use.
    pub(super) versions: bool,
    /// Why nothing is certain, in words.
    pub(super) doubts: Vec<String>,
    /// Versions that several states carry which share an item that is new in them.
    pub(super) shared: BTreeSet<u64>,
    /// Versions of which no copy is there.
    pub(super) missing: Vec<u64>,
}

/// Finds the possible bases of every state.
pub(super) fn bases(history: &History) -> Bases {
    let mut bases = Bases {
        of: vec![Vec::new(); history.nodes.len()],
        from_torn: vec![false; history.nodes.len()],
        ..Bases::default()
    };
    let by_version = history.by_version();
    let versioned: usize = by_version.values().map(Vec::len).sum();
    let with_base = by_version.keys().filter(|v| v.checked_sub(1).is_some_and(|b| by_version.contains_key(&b))).count();
    bases.versions = versioned == history.nodes.len()
        // A number that never or seldom changes is the version of a format, and one that mostly does not rise by one is
        // something else.
        && by_version.len() > 1
        && history.nodes.len() <= by_version.len() * MAX_SIBLINGS
        && with_base * 2 >= by_version.len() - 1;
    if bases.versions {
        by_versions(history, &by_version, &mut bases);
    } else {
        let why = if versioned == 0 {
            "the copies have no versions: nothing shows that no write is missing between two copies"
        } else if versioned < history.nodes.len() {
            "some copies have no version: nothing shows that no write is missing between two copies"
        } else {
            "the versions do not rise by one: nothing shows that no write is missing between two copies"
        };
        bases.doubts.push(why.to_owned());
        by_order(history, &mut bases);
    }
    bases.complete = bases.doubts.is_empty();
    bases
}

fn by_versions(history: &History, by_version: &BTreeMap<u64, Vec<usize>>, bases: &mut Bases) {
    let lowest = *by_version.keys().next().expect("versions are in use");
    let roots = &by_version[&lowest];
    if roots.len() > 1 {
        let names: Vec<&str> = roots.iter().take(2).map(|&n| &*history.info(n).name).collect();
        bases.doubts.push(format!(
            "{} and {} both carry version {lowest}, and no copy shows what they were made from",
            names[0], names[1]
        ));
    }
    let reach = torn_versions(history, by_version);
    let mut raw: Vec<Vec<usize>> = vec![Vec::new(); history.nodes.len()];
    for (&version, nodes) in by_version.iter().filter(|(v, _)| **v != lowest) {
        let below = by_version.get(&(version - 1)).map_or(&[][..], Vec::as_slice);
        if below.len() > MAX_CANDIDATES {
            bases.doubts.push(format!("{} copies carry version {}: too many to tell apart", below.len(), version - 1));
        }
        for &node in nodes {
            raw[node] = below.iter().copied().filter(|&b| history.may_precede(b, node)).take(MAX_CANDIDATES).collect();
            bases.from_torn[node] = history.torn.iter().zip(&reach).any(|(torn, versions)| {
                versions.contains(&(version - 1)) && torn_may_precede(history, torn.copy, node)
            });
            if raw[node].is_empty() && !bases.from_torn[node] {
                bases.missing.push(version - 1);
            }
        }
    }
    bases.missing.dedup();
    if let Some(first) = bases.missing.first() {
        let more = match bases.missing.len() - 1 {
            0 => String::new(),
            n => format!(" (and of {n} more)"),
        };
        bases.doubts.push(format!("there is no copy of version {first}{more}: others may be missing too"));
    }
    bases.again = put_in_again(history, &raw, &bases.from_torn);
    for (&version, nodes) in by_version.iter().filter(|(_, nodes)| nodes.len() > 1) {
        if let Some(id) = bases.again.iter().copied().find(|&id| share_new(history, id, nodes)) {
            bases.shared.insert(version);
            bases.doubts.push(format!(
                "two copies of version {version} have `{}`, which no copy of a lower version has: one may have been \
                 made from the other without a new version",
                history.ids[id as usize]
            ));
        }
    }
    for (node, all) in raw.into_iter().enumerate() {
        let fits = |&base: &usize| {
            history.diff(base, node).iter().all(|&id| {
                !history.at(id, node).is_present()
                    || history.at(id, base).is_present()
                    || bases.again.contains(&id)
                    || first_with(history, id) == Some(node)
            })
        };
        let had = !all.is_empty();
        bases.of[node] = all.into_iter().filter(fits).collect();
        if had && bases.of[node].is_empty() && !bases.from_torn[node] {
            bases.doubts.push(format!("{} fits no copy of the version below it", history.info(node).name));
        }
    }
}

/// The versions that a torn copy can have: what it says, or one above what was there.
fn torn_versions(history: &History, by_version: &BTreeMap<u64, Vec<usize>>) -> Vec<BTreeSet<u64>> {
    let of = |torn: &super::history::TornNode| match torn.version {
        Some(version) => BTreeSet::from([version]),
        None => {
            let info = &history.copies[torn.copy];
            let before =
                |&node: &usize| may_precede(history.info(node), info, history.nodes[node].copies[0] < torn.copy);
            by_version.iter().filter(|(_, nodes)| nodes.iter().any(before)).map(|(v, _)| v.saturating_add(1)).collect()
        }
    };
    history.torn.iter().map(of).collect()
}

/// Whether a torn copy can have been there when `node` was made.
pub(super) fn torn_may_precede(history: &History, torn: usize, node: usize) -> bool {
    may_precede(&history.copies[torn], history.info(node), torn < history.nodes[node].copies[0])
}

/// The state that put an item in: the one of the lowest version that has it, if there is only one.
pub(super) fn first_with(history: &History, id: u32) -> Option<usize> {
    let mut best: Option<(Option<u64>, usize)> = None;
    let mut alone = true;
    for (node, _) in holders(history, id) {
        let version = history.nodes[node].version;
        match best {
            Some((lowest, _)) if lowest < version => {}
            Some((lowest, _)) if lowest == version => alone = false,
            _ => {
                best = Some((version, node));
                alone = true;
            }
        }
    }
    best.filter(|_| alone).map(|(_, node)| node)
}

/// Whether at least two of the states with one version have an item that no state of a lower version has.
fn share_new(history: &History, id: u32, nodes: &[usize]) -> bool {
    nodes.iter().filter(|&&n| history.at(id, n).is_present()).count() > 1
        && holders(history, id).all(|(n, _)| history.nodes[n].version >= history.nodes[nodes[0]].version)
}

/// The states that have an item, with what it is there.
fn holders(history: &History, id: u32) -> impl Iterator<Item = (usize, super::history::Mark)> {
    let track = history.track(id);
    track.iter().enumerate().filter(|(_, (_, mark))| mark.is_present()).flat_map(move |(i, (from, mark))| {
        let to = track.get(i + 1).map_or(history.nodes.len(), |(next, _)| *next as usize);
        (*from as usize..to).map(move |node| (node, *mark))
    })
}

/// Ids that are in a state whose every possible base lacks them, though it is not the first with them.
fn put_in_again(history: &History, raw: &[Vec<usize>], from_torn: &[bool]) -> HashSet<u32> {
    let mut again = HashSet::new();
    for node in 0..history.nodes.len() {
        if from_torn[node] {
            continue;
        }
        // An item that the nearest candidate has is no question; so only the differences are looked at.
        let Some(&nearest) = raw[node].iter().min_by_key(|b| b.abs_diff(node)) else { continue };
        for id in history.diff(nearest, node) {
            if history.at(id, node).is_present()
                && raw[node].iter().all(|&b| !history.at(id, b).is_present())
                && first_with(history, id) != Some(node)
            {
                again.insert(id);
            }
        }
    }
    again
}

/// Without versions: the state before, and, where something vanished or came back, each earlier one that has all that
/// this one must have from its base.
fn by_order(history: &History, bases: &mut Bases) {
    for node in 1..history.nodes.len() {
        let fits = |base: usize| {
            history.diff(base, node).iter().all(|&id| {
                let first = history.track(id).first().map(|(first, _)| *first as usize);
                !history.at(id, node).is_present() || history.at(id, base).is_present() || first == Some(node)
            })
        };
        let before = node - 1;
        let continues = fits(before);
        let vanished = history.nodes[node].delta.iter().any(|&id| !history.at(id, node).is_present());
        if continues {
            bases.of[node].push(before);
        }
        if !continues || vanished {
            let from = before.saturating_sub(WINDOW);
            bases.of[node].extend((from..before).rev().filter(|&base| fits(base)).take(MAX_CANDIDATES));
        }
        if bases.of[node].is_empty() {
            // Put in again: by a retry, or by hand.
            bases.of[node].push(before);
            let diff = history.diff(before, node);
            let returned = diff
                .into_iter()
                .filter(|&id| history.at(id, node).is_present() && !history.at(id, before).is_present());
            bases.again.extend(returned.filter(|&id| history.track(id)[0].0 as usize != node));
        }
    }
}

/// The states that can be the last one; empty when it is in no copy.
pub(super) fn last_states(history: &History, bases: &Bases, made: Made) -> Vec<usize> {
    match (history.live, made) {
        (Some(live), _) => vec![live],
        (None, Made::After) => ends(history, bases),
        _ => Vec::new(),
    }
}

/// The states that can be the last one of those that copies show, as far as clocks say. A state that another one must
/// have been made from is not.
pub(super) fn ends(history: &History, bases: &Bases) -> Vec<usize> {
    let count = history.nodes.len();
    let from = count.saturating_sub(WINDOW);
    let is_base =
        |f: usize| bases.versions && (from..count).any(|n| n != f && bases.of[n] == [f] && !bases.from_torn[n]);
    let can_be_last = |f: &usize| (from..count).all(|n| n == *f || history.may_precede(n, *f)) && !is_base(*f);
    (from..count).filter(can_be_last).collect()
}
