//! Duplicate deliveries: two workers' own outputs hold one id, or are equal, though in no serial order they do.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Case,
    history::History,
    items::{Item, items, logged_ids},
    json::shorten,
};
use crate::world::{Node, Op, Outcome, Run};

/// Something delivered to two workers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duplicate {
    /// The id, or the output itself where it holds none.
    pub id: String,
    /// Who (worker numbers).
    pub workers: BTreeSet<usize>,
    /// Where it stands: a log, `stdout`, or files.
    pub place: String,
}

/// Finds duplicate deliveries of a run; `serial` are the final states of serial orders. Without any only ids that
/// stand in some JSON file as such are considered.
pub fn duplicates(case: &Case<'_>, run: &Run, history: &History, serial: &[&Outcome]) -> Vec<Duplicate> {
    let Some(outcome) = &run.outcome else { return Vec::new() };
    let finder = Finder { id: case.id_member(), known: known_ids(history, case.id_member()), serial };
    let mut out = finder.in_logs(case, history);
    let own = own_files(run, outcome);
    out.extend(finder.in_outputs(outcome, &own));
    if out.is_empty() && !serial.is_empty() {
        out.extend(finder.equal_outputs(outcome, &own));
    }
    out.sort();
    out.dedup_by(|a, b| a.id == b.id);
    out
}

struct Finder<'a> {
    id: &'a str,
    known: BTreeSet<String>,
    serial: &'a [&'a Outcome],
}

impl Finder<'_> {
    fn ids(&self, bytes: &[u8]) -> Vec<String> {
        let mut ids = logged_ids(bytes, self.id, &self.known);
        if self.serial.is_empty() {
            ids.retain(|id| self.known.contains(id));
        }
        ids
    }

    /// Files to which several workers only add: each one's additions are its own output.
    fn in_logs(&self, case: &Case<'_>, history: &History) -> Vec<Duplicate> {
        let mut out = Vec::new();
        for (path, versions) in &history.versions {
            let mut parts: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
            let mut all: BTreeMap<String, usize> = BTreeMap::new();
            let mut before: &[u8] = &[];
            let mut grows = true;
            for version in versions {
                let (Some(bytes), false) = (&version.bytes, version.absent) else { continue };
                match (bytes.strip_prefix(before), version.by) {
                    (Some(part), Some(by)) => {
                        for id in self.ids(part) {
                            *all.entry(id.clone()).or_default() += 1;
                            parts.entry(by).or_default().insert(id);
                        }
                    }
                    (Some(part), None) => self.ids(part).into_iter().for_each(|id| *all.entry(id).or_default() += 1),
                    (None, _) => grows = false,
                }
                before = bytes;
            }
            let is_done = case.scenario.oracle.conserve.as_ref().is_some_and(|conserve| conserve.done == *path);
            if !(grows || is_done) || parts.len() < 2 {
                continue;
            }
            for (id, times) in all {
                let workers: BTreeSet<usize> =
                    parts.iter().filter(|(_, ids)| ids.contains(&id)).map(|(by, _)| *by).collect();
                let usual = |serial: &&Outcome| count(&self.ids(file(serial, path).unwrap_or(&[])), &id) >= times;
                if workers.len() > 1 && !self.serial.iter().any(usual) {
                    out.push(Duplicate { id, workers, place: path.clone() });
                }
            }
        }
        out
    }

    /// Ids in the stdout and the own files of two workers.
    fn in_outputs(&self, outcome: &Outcome, own: &BTreeMap<usize, Vec<String>>) -> Vec<Duplicate> {
        let holds = |outcome: &Outcome, worker: usize| -> BTreeSet<String> {
            let stdout = outcome.actors.get(worker).map_or(&[][..], |end| &end.stdout);
            let mut ids: BTreeSet<String> = self.ids(stdout).into_iter().collect();
            for path in own.get(&worker).into_iter().flatten() {
                ids.extend(self.ids(file(outcome, path).unwrap_or(&[])));
            }
            ids
        };
        let mut out = Vec::new();
        let workers = outcome.actors.len();
        let here: Vec<BTreeSet<String>> = (0..workers).map(|worker| holds(outcome, worker)).collect();
        for a in 0..workers {
            for b in a + 1..workers {
                for id in here[a].intersection(&here[b]) {
                    let usual = |serial: &&Outcome| holds(serial, a).contains(id) && holds(serial, b).contains(id);
                    if !self.serial.iter().any(usual) {
                        let workers = BTreeSet::from([a, b]);
                        out.push(Duplicate { id: id.clone(), workers, place: "their own output".to_owned() });
                    }
                }
            }
        }
        out
    }

    /// Equal outputs of two workers.
    fn equal_outputs(&self, outcome: &Outcome, own: &BTreeMap<usize, Vec<String>>) -> Vec<Duplicate> {
        let mut out = Vec::new();
        let mut add = |a: usize, b: usize, content: &[u8], place: String| {
            let id = shorten(String::from_utf8_lossy(content).trim());
            out.push(Duplicate { id, workers: BTreeSet::from([a, b]), place });
        };
        let stdout = |outcome: &Outcome, worker: usize| outcome.actors.get(worker).map(|end| end.stdout.clone());
        for a in 0..outcome.actors.len() {
            for b in a + 1..outcome.actors.len() {
                let text = &outcome.actors[a].stdout;
                let differ = self.serial.iter().all(|serial| stdout(serial, a) != stdout(serial, b));
                if !text.trim_ascii().is_empty() && *text == outcome.actors[b].stdout && differ {
                    add(a, b, text, "stdout".to_owned());
                }
                for first in own.get(&a).into_iter().flatten() {
                    for second in own.get(&b).into_iter().flatten() {
                        let (Some(x), Some(y)) = (file(outcome, first), file(outcome, second)) else { continue };
                        let differ = self.serial.iter().all(|serial| file(serial, first) != file(serial, second));
                        if x == y && !x.trim_ascii().is_empty() && differ {
                            add(a, b, x, format!("{first} and {second}"));
                        }
                    }
                }
            }
        }
        out
    }
}

fn count(ids: &[String], id: &str) -> usize {
    ids.iter().filter(|other| *other == id).count()
}

fn file<'o>(outcome: &'o Outcome, path: &str) -> Option<&'o [u8]> {
    match outcome.files.get(path) {
        Some(Node::File { bytes, .. }) => Some(bytes),
        _ => None,
    }
}

/// The files of the final world that only one worker wrote.
pub(super) fn own_files(run: &Run, outcome: &Outcome) -> BTreeMap<usize, Vec<String>> {
    let mut writers: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for step in run.steps.iter().filter(|step| !step.failed()) {
        let path = match step.op {
            Op::Write | Op::Truncate | Op::Create => step.path.as_deref(),
            Op::Rename | Op::Exchange | Op::Link => step.path2.as_deref(),
            _ => None,
        };
        if let Some(path) = path {
            writers.entry(path).or_default().insert(usize::from(step.actor.0));
        }
    }
    let mut out: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (path, by) in writers {
        if let (1, Some(only), true) = (by.len(), by.first(), outcome.files.contains_key(path)) {
            out.entry(*only).or_default().push(path.to_owned());
        }
    }
    out
}

/// Ids of objects in any version of any JSON file.
fn known_ids(history: &History, id: &str) -> BTreeSet<String> {
    let versions = history.versions.values().flatten().filter_map(|version| version.bytes.as_deref());
    versions
        // Only documents: a long log would be read once for each of its lines.
        .filter(|bytes| matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[')))
        .flat_map(|bytes| items(bytes, id))
        .filter_map(|item| match item {
            Item::Id(id) => Some(id),
            _ => None,
        })
        .collect()
}
