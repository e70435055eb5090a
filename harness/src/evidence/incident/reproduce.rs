//! A scenario of the incident: generic workers that read, think and write at the times that the evidence says.
//!
//! Only the writes that the findings need are kept: those that put in, took or overwrote the items, and those between
//! them and a common beginning. Items have nothing but their id and whether they are taken.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde_json::{Value, json};

use super::{
    Investigation,
    bases::first_with,
    history::{History, Mark},
    model::{Certainty, Incident},
    shape::IdKind,
};

/// The most writes that a scenario has.
const MAX_WRITES: usize = 24;
/// The most findings of a kind that it shows.
const MAX_SHOWN: usize = 8;

/// The worker: what it does to the list stands in its arguments.
const WORKER: &str = r#""""Reads the queue, thinks (that is the scenario's delay), executes, and writes the whole file back.

    worker.py NAME TAKE DROP PUT

TAKE are ids to execute, DROP ids to take out, PUT items to put in or replace, each in JSON. No lock is held, and
nobody checks that the version read is still the one on disk.
"""

import json
import sys

NAME = sys.argv[1]
TAKE, DROP, PUT = (json.loads(text) for text in sys.argv[2:5])

with open("queue.json") as file:
    queue = json.load(file)
items = queue
for key in POINTER[:-1]:
    items = items[key]
kept = {item[ID]: item for item in items[POINTER[-1]]}
for item in TAKE:
    with open("done.log", "a") as done:
        print(json.dumps({"id": item, "worker": NAME}), file=done)
for item in DROP:
    kept.pop(item, None)
for item in PUT:
    kept[item[ID]] = item
items[POINTER[-1]] = list(kept.values())
queue["version"] += 1
with open("queue.json", "w") as file:
    json.dump(queue, file)
"#;

/// A write, as a worker does it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Piece {
    /// Where in the order of all writes.
    order: usize,
    /// The state that it read: 0 is the beginning, n the n-th write.
    reads: usize,
    take: Vec<String>,
    drop: Vec<String>,
    put: Vec<(String, bool)>,
    pid: Option<u64>,
    about: String,
}

/// A scenario, as TOML, whose only schedule loses and duplicates the same items; and what it cannot show.
///
/// # Errors
/// Why there is nothing to reproduce.
pub fn scenario(found: &Investigation) -> Result<(String, Vec<String>), String> {
    let incident = &found.incident;
    let certain = incident.is_certain();
    let wanted = |certainty: Certainty| !certain || certainty == Certainty::Certain;
    let mut plan = Plan { found, chosen: BTreeMap::new(), nodes: BTreeSet::new(), hidden: Vec::new() };
    let mut lost = BTreeSet::new();
    let mut duplicated = BTreeSet::new();
    for finding in incident.lost.iter().filter(|l| wanted(l.certainty)).take(MAX_SHOWN) {
        if plan.lose(finding) {
            lost.insert(finding.id.clone());
        }
    }
    for finding in incident.duplicated.iter().filter(|d| wanted(d.certainty)).take(MAX_SHOWN) {
        if plan.duplicate(finding) {
            duplicated.insert(finding.id.clone());
        }
    }
    if lost.is_empty() && duplicated.is_empty() {
        return Err("nothing that copies show was lost or taken twice: there is nothing to reproduce".to_owned());
    }
    let start = plan.close();
    if plan.nodes.len() + plan.hidden.len() > MAX_WRITES {
        return Err(format!(
            "the incident takes {} writes, more than the {MAX_WRITES} of a scenario: give only the copies around one \
             finding",
            plan.nodes.len()
        ));
    }
    let (initial, pieces) = plan.pieces(start);
    let (shown_lost, shown_duplicated) = play(&initial, &pieces);
    let mut notes = Vec::new();
    let all = (
        incident.lost.iter().filter(|l| wanted(l.certainty)).map(|l| l.id.clone()).collect::<BTreeSet<_>>(),
        incident.duplicated.iter().filter(|d| wanted(d.certainty)).map(|d| d.id.clone()).collect::<BTreeSet<_>>(),
    );
    for (what, shown, all) in [("lost", &shown_lost, &all.0), ("executed twice", &shown_duplicated, &all.1)] {
        let differs: Vec<&String> = shown.symmetric_difference(all).take(8).collect();
        if !differs.is_empty() {
            notes.push(format!("the scenario differs from the evidence in what is {what}: {differs:?}"));
        }
    }
    if shown_lost.is_empty() && shown_duplicated.is_empty() {
        return Err("no order of these writes loses anything: there is nothing to reproduce".to_owned());
    }
    Ok((write(found, start, &initial, &pieces, &shown_lost, &shown_duplicated), notes))
}

/// A write that no copy shows.
struct Hidden {
    /// The state that overwrote it.
    over: usize,
    /// The state that it was made from.
    base: usize,
    put: Vec<String>,
    take: Vec<String>,
    pid: Option<u64>,
}

/// Which writes are needed, and what each was made from.
struct Plan<'a> {
    found: &'a Investigation,
    chosen: BTreeMap<usize, usize>,
    nodes: BTreeSet<usize>,
    hidden: Vec<Hidden>,
}

impl Plan<'_> {
    fn history(&self) -> &History {
        &self.found.history
    }

    fn node(&self, name: Option<&String>) -> Option<usize> {
        let copy = self.history().copies.iter().position(|c| Some(&c.name) == name)?;
        self.history().nodes.iter().position(|n| n.copies.contains(&copy))
    }

    fn id(&self, shown: &str) -> Option<u32> {
        self.history().ids.iter().position(|id| id == shown).map(|i| i as u32)
    }

    /// Takes in what loses an item: who put it in, and who wrote without having seen it.
    fn lose(&mut self, lost: &super::model::Lost) -> bool {
        if lost.last_seen.is_none() {
            let (Some(base), Some(over)) = (self.node(lost.stale_base.as_ref()), self.node(lost.gone_in.as_ref()))
            else {
                return false;
            };
            let took = |incident: &Incident| {
                let by = |d: &&super::model::Duplicated| {
                    d.deliveries.iter().any(|x| x.pid == lost.written_by && x.seen_in.is_none())
                };
                incident.duplicated.iter().filter(by).map(|d| d.id.clone()).collect::<Vec<_>>()
            };
            let taken = took(&self.found.incident);
            let put = vec![lost.id.clone()];
            self.hidden.push(Hidden { over, base, put, take: taken, pid: lost.written_by });
            return self.want(over, base);
        }
        let (Some(seen), Some(gone), Some(id)) =
            (self.node(lost.last_seen.as_ref()), self.node(lost.gone_in.as_ref()), self.id(&lost.id))
        else {
            return false;
        };
        let without = self.found.bases.of[gone].iter().copied().find(|&base| !self.history().at(id, base).is_present());
        let Some(base) = without else { return false };
        if !self.want(gone, base) {
            return false;
        }
        self.nodes.insert(seen);
        self.nodes.extend(first_with(self.history(), id));
        true
    }

    /// Takes in the writes that took an item.
    fn duplicate(&mut self, duplicated: &super::model::Duplicated) -> bool {
        let Some(id) = self.id(&duplicated.id) else { return false };
        let mut any = false;
        for delivery in &duplicated.deliveries {
            let Some(node) = self.node(delivery.seen_in.as_ref()) else { continue };
            let takes = |base: &usize| {
                let (was, is) = (self.history().at(id, *base), self.history().at(id, node));
                was.is_available() && !is.is_available()
            };
            if let Some(base) = self.found.bases.of[node].iter().copied().find(takes) {
                any |= self.want(node, base);
            }
        }
        any
    }

    fn want(&mut self, node: usize, base: usize) -> bool {
        self.nodes.insert(node);
        *self.chosen.entry(node).or_insert(base) == base
    }

    fn base(&self, node: usize) -> Option<usize> {
        let candidates = &self.found.bases.of[node];
        self.chosen.get(&node).copied().or_else(|| candidates.iter().copied().min_by_key(|b| b.abs_diff(node)))
    }

    /// Takes in every write between the chosen ones and the state that all begin from, which it returns.
    fn close(&mut self) -> usize {
        loop {
            let bases = self.nodes.iter().filter_map(|&n| self.base(n)).chain(self.hidden.iter().map(|h| h.base));
            let bases: BTreeSet<usize> = bases.collect();
            let start = bases.iter().chain(&self.nodes).next().copied().unwrap_or(0);
            self.nodes.remove(&start);
            let missing: Vec<usize> = bases.into_iter().filter(|b| *b != start && !self.nodes.contains(b)).collect();
            if missing.is_empty() || self.nodes.len() > MAX_WRITES {
                return start;
            }
            self.nodes.extend(missing);
        }
    }

    /// The items of the beginning that matter, and the writes in their order.
    fn pieces(&self, start: usize) -> (Vec<(String, bool)>, Vec<Piece>) {
        let history = self.history();
        let name = |id: u32| history.ids[id as usize].clone();
        let mut ids = BTreeSet::new();
        let mut pieces = Vec::new();
        let numbers: BTreeMap<usize, usize> = self.numbers(start);
        for &node in &self.nodes {
            let base = self.base(node).unwrap_or(start);
            let mut piece = Piece {
                order: numbers[&node],
                reads: numbers.get(&base).copied().unwrap_or(0),
                pid: self.pid(node),
                about: format!("wrote what {} shows", history.info(node).name),
                ..Piece::default()
            };
            for id in history.diff(base, node) {
                ids.insert(id);
                let (was, is): (Mark, Mark) = (history.at(id, base), history.at(id, node));
                if was.is_available() && !is.is_available() {
                    piece.take.push(name(id));
                }
                match is.is_present() {
                    true => piece.put.push((name(id), is.is_taken())),
                    false => piece.drop.push(name(id)),
                }
            }
            pieces.push(piece);
        }
        for (i, Hidden { over, base, put, take, pid }) in self.hidden.iter().enumerate() {
            pieces.push(Piece {
                order: numbers[over] - self.hidden.len() + i,
                reads: numbers.get(base).copied().unwrap_or(0),
                take: take.clone(),
                drop: take.clone(),
                put: put.iter().map(|id| (id.clone(), false)).collect(),
                pid: *pid,
                about: "wrote what only its audit line shows".to_owned(),
            });
            ids.extend(take.iter().filter_map(|id| self.id(id)));
        }
        pieces.sort_by_key(|piece| piece.order);
        let initial = ids.into_iter().map(|id| (id, history.at(id, start))).filter(|(_, mark)| mark.is_present());
        let initial = initial.map(|(id, mark)| (name(id), mark.is_taken())).collect();
        // Renumbered without gaps.
        let orders: Vec<usize> = pieces.iter().map(|piece| piece.order).collect();
        for (i, piece) in pieces.iter_mut().enumerate() {
            piece.reads = orders.iter().position(|&order| order == piece.reads).map_or(0, |i| i + 1);
            piece.order = i + 1;
        }
        (initial, pieces)
    }

    /// A number for each write, with room before each for the hidden ones.
    fn numbers(&self, start: usize) -> BTreeMap<usize, usize> {
        let step = self.hidden.len() + 1;
        let numbers = self.nodes.iter().filter(|&&n| n != start);
        numbers.enumerate().map(|(i, &node)| (node, (i + 1) * step)).collect()
    }

    fn pid(&self, node: usize) -> Option<u64> {
        let name = &self.history().info(node).name;
        let moment = self.found.incident.timeline.iter().find(|m| m.snapshot.as_ref() == Some(name));
        moment.and_then(|moment| moment.pid)
    }
}

/// What the writes lose and execute twice: the reference for what a run has to show.
fn play(initial: &[(String, bool)], pieces: &[Piece]) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut states: Vec<BTreeSet<&str>> = vec![initial.iter().map(|(id, _)| &**id).collect()];
    let mut executed: BTreeMap<&str, usize> = BTreeMap::new();
    for piece in pieces {
        let mut state = states[piece.reads].clone();
        for id in &piece.drop {
            state.remove(&**id);
        }
        state.extend(piece.put.iter().map(|(id, _)| &**id));
        piece.take.iter().for_each(|id| *executed.entry(id).or_default() += 1);
        states.push(state);
    }
    let last = states.last().expect("the beginning is one");
    let generated: BTreeSet<&str> = states.iter().flatten().copied().collect();
    let lost = generated.iter().filter(|id| !last.contains(*id) && !executed.contains_key(*id));
    let twice = executed.iter().filter(|(_, times)| **times > 1).map(|(id, _)| id);
    (lost.map(|id| (*id).to_owned()).collect(), twice.map(|id| (*id).to_owned()).collect())
}

fn write(
    found: &Investigation,
    start: usize,
    initial: &[(String, bool)],
    pieces: &[Piece],
    lost: &BTreeSet<String>,
    duplicated: &BTreeSet<String>,
) -> String {
    let key = match &found.shape.id {
        IdKind::Field(field) => field.as_str(),
        _ => "id",
    };
    let pointer = match found.shape.pointer[..] {
        [] => vec!["tasks".to_owned()],
        _ => found.shape.pointer.clone(),
    };
    let item = |(id, taken): &(String, bool)| match taken {
        true => json!({ key: id, "state": "claimed" }),
        false => json!({ key: id }),
    };
    let version = found.history.nodes[start].version.unwrap_or(1);
    let list = Value::Array(initial.iter().map(item).collect());
    let mut document = pointer.iter().rev().fold(list, |inner, token| json!({ token: inner }));
    if let Some(object) = document.as_object_mut() {
        object.insert("version".to_owned(), json!(version));
    }
    let worker = format!("POINTER = {}\nID = {}\n\n{WORKER}", json!(pointer), json!(key));
    // The docstring stays first.
    let worker = match WORKER.split_once("NAME = sys") {
        Some((head, tail)) => format!("{head}POINTER = {}\nID = {}\nNAME = sys{tail}", json!(pointer), json!(key)),
        None => worker,
    };
    let pointer: String =
        pointer.iter().map(|token| format!("/{}", token.replace('~', "~0").replace('/', "~1"))).collect();
    let certain = found.incident.is_certain();
    let text = |s: &str| toml::Value::String(s.to_owned()).to_string();
    let kind = if lost.is_empty() { "duplicate-delivery" } else { "lost-update" };
    let listed = |ids: &BTreeSet<String>| {
        if ids.is_empty() { "nothing".to_owned() } else { ids.iter().cloned().collect::<Vec<_>>().join(", ") }
    };
    let about = format!(
        "Made from {} copies; {}. Begins with {}. Lost: {}. Executed twice: {}.",
        found.incident.copies,
        if certain { "certain" } else { "one of several histories that fit" },
        found.history.info(start).name,
        listed(lost),
        listed(duplicated),
    );
    let mut out = String::new();
    let _ = writeln!(out, "# Reproduces an incident with generic workers: read, think, write.");
    let _ = writeln!(out, "name = \"the incident, from its evidence\"\nabout = {}\nexpect = \"{kind}\"", text(&about));
    let _ = writeln!(out, "files.\"queue.json\" = {}", text(&document.to_string()));
    let _ = writeln!(out, "files.\"worker.py\" = {}", text(&worker));
    for piece in pieces {
        let put: Vec<Value> = piece.put.iter().map(item).collect();
        let arguments = [json!(piece.take).to_string(), json!(piece.drop).to_string(), json!(put).to_string()];
        let by = piece.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
        let about: String = piece.about.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let name = format!("W{}", piece.order);
        let words: Vec<String> = ["/usr/bin/python3", "-IS", "worker.py", &name]
            .into_iter()
            .map(text)
            .chain(arguments.iter().map(|a| text(a)))
            .collect();
        let reads = piece.reads * 10 + 5;
        let _ = writeln!(out, "\n# {about}{by}.\n[[worker]]\nname = \"{name}\"\nrun = [{}]", words.join(", "));
        let _ = writeln!(out, "\n[[delay]]\nworker = \"{name}\"\nbefore = \"*\"\nfor = \"{reads}s\"");
        let think = piece.order * 10 - reads.min(piece.order * 10);
        let _ = writeln!(out, "\n[[delay]]\nworker = \"{name}\"\nafter = \"read queue.json\"\nfor = \"{think}s\"");
    }
    let conserve = format!(
        "conserve = {{ file = \"queue.json\", pointer = {}, id = {}, done = \"done.log\" }}",
        text(&pointer),
        text(key)
    );
    let _ = writeln!(out, "\n[oracle]\n{conserve}");
    let _ = write!(
        out,
        "\n# The guard: your commands on a copy of your queue. In a file of its own, with the comment marks removed:\n\
         #\n# name = \"the incident does not come back\"\n# expect = \"clean\"\n# files.\"queue.json\" = {}\n#\n\
         # [[worker]]\n# name = \"A\"\n# run = \"your command\"\n#\n# [[worker]]\n# name = \"B\"\n\
         # run = \"your command\"\n#\n# [oracle]\n# {conserve}\n",
        text(&document.to_string())
    );
    out
}
