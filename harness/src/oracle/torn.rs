//! The torn witness: readings of a file while somebody was writing it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    history::{History, Reading},
    json,
};
use crate::world::{Effect, Inode, Node, Run};

/// The last reading of a file by each of these workers, where it equals no version that was ever published.
pub fn torn_readings<'h>(history: &'h History, workers: &BTreeSet<usize>) -> Vec<&'h Reading> {
    let mut last: BTreeMap<(usize, &str), &Reading> = BTreeMap::new();
    for reading in history.readings.iter().filter(|reading| workers.contains(&reading.by)) {
        last.insert((reading.by, &reading.path), reading);
    }
    let mut torn: Vec<&Reading> = last.into_values().filter(|reading| is_torn(history, reading)).collect();
    torn.sort_by_key(|reading| reading.steps.0);
    torn
}

fn is_torn(history: &History, reading: &Reading) -> bool {
    let Some(versions) = history.versions.get(&reading.path) else { return false };
    let published: Vec<_> = versions.iter().filter(|version| version.published && !version.absent).collect();
    // Who reads back what it wrote itself meets nobody's half. A version that was too large to be recorded may be the one.
    !(reading.own && reading.during.is_none())
        && reading.known()
        && !published.is_empty()
        && published.iter().all(|version| version.bytes.as_deref().is_some_and(|bytes| !reading.fits(bytes)))
}

/// Readings while another worker's change was not yet published.
pub fn readings_of_unpublished(history: &History) -> impl Iterator<Item = (&Reading, usize)> {
    history.readings.iter().filter_map(|reading| reading.during.map(|writer| (reading, writer)))
}

/// A time during which a file that is otherwise JSON was no valid JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTime {
    /// The file.
    pub path: String,
    /// From this step to the step that made it valid again, if one did.
    pub steps: (usize, Option<usize>),
    /// For how long in virtual time, microseconds.
    pub time_us: u64,
}

/// When files were no valid JSON although they held JSON before or after.
pub fn invalid_json(run: &Run, initial: &BTreeMap<String, Node>) -> Vec<InvalidTime> {
    let mut path_of: BTreeMap<Inode, String> = BTreeMap::new();
    let mut valid: BTreeMap<String, bool> = BTreeMap::new();
    for (path, node) in initial {
        if let Node::File { bytes, .. } = node {
            valid.insert(path.clone(), json::parse(bytes).is_some_and(|value| value.is_object() || value.is_array()));
        }
    }
    let mut open: BTreeMap<String, usize> = BTreeMap::new();
    let mut out: Vec<InvalidTime> = Vec::new();
    for (number, step) in run.steps.iter().enumerate() {
        if let (Some(path), Some(inode), true) = (&step.path, step.inode, step.path2.is_none()) {
            path_of.insert(inode, path.clone());
        }
        for effect in &step.effects {
            match effect {
                Effect::Bind { path, inode: Some(inode) } => drop(path_of.insert(*inode, path.clone())),
                Effect::Bind { .. } => {}
                Effect::Content { inode, after } => {
                    let (Some(path), Some(bytes)) = (path_of.get(inode), after) else { continue };
                    let now = json::parse(bytes).is_some();
                    let was = valid.insert(path.clone(), now);
                    match (was, now) {
                        (Some(true), false) => drop(open.insert(path.clone(), number)),
                        (Some(false), true) => {
                            if let Some(from) = open.remove(path) {
                                let time_us = step.time_us.saturating_sub(run.steps[from].time_us);
                                out.push(InvalidTime { path: path.clone(), steps: (from, Some(number)), time_us });
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    let end = run.steps.last().map_or(0, |step| step.time_us);
    for (path, from) in open {
        let time_us = end.saturating_sub(run.steps[from].time_us);
        out.push(InvalidTime { path, steps: (from, None), time_us });
    }
    out
}
