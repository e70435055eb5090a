//! The story of a named run: one sentence, and the evidence below it.

use std::collections::BTreeSet;

use super::{
    Case,
    history::History,
    judgement::{Accusation, Wrong},
    lost::LostUpdate,
    naming::{Findings, Named, last_words},
};
use crate::{
    scenario::Kind,
    world::{ActorId, Ended, Run},
};

/// More evidence of one sort than this is not shown.
const MOST: usize = 3;

struct Teller<'a> {
    case: &'a Case<'a>,
    run: &'a Run,
    actors: BTreeSet<usize>,
    evidence: Vec<String>,
    object: Option<String>,
}

/// Tells what happened in a wrong run of this kind.
pub(super) fn tell(case: &Case<'_>, run: &Run, wrong: &Wrong, findings: &Findings<'_>, kind: Kind) -> Named {
    let mut teller = Teller { case, run, actors: BTreeSet::new(), evidence: Vec::new(), object: None };
    let (mut lost, mut duplicated) = findings.conserve.clone();
    if lost.is_empty() {
        let ids = findings.lost.first().is_some_and(|update| update.ids);
        for update in findings.lost.iter().filter(|update| update.ids == ids) {
            push_new(&mut lost, &update.lost);
        }
    }
    push_new(&mut duplicated, &findings.duplicates.iter().map(|duplicate| duplicate.id.clone()).collect::<Vec<_>>());
    duplicated.sort();
    let mut summary = match kind {
        Kind::LostUpdate => teller.lost_update(findings, &lost),
        Kind::DuplicateDelivery => teller.duplicate(findings, &duplicated),
        Kind::TornRead => teller.torn_read(findings),
        Kind::TornFile if !wrong.accusations.iter().any(|a| matches!(a, Accusation::TornFile { .. })) => {
            teller.torn_read(findings)
        }
        Kind::BrokenLock => teller.broken_lock(findings),
        _ => teller.accused(wrong, kind),
    };
    if kind == Kind::LostUpdate && !duplicated.is_empty() {
        summary.push_str(&format!("; {} delivered twice", were(&duplicated)));
        teller.duplicate(findings, &duplicated);
    }
    teller.accusations(wrong, kind);
    if kind != Kind::BrokenLock && kind < Kind::Deadlock && !findings.locks.overlaps().is_empty() {
        teller.broken_lock(findings);
    }
    let actors = teller.actors.iter().map(|worker| case.worker(*worker).to_owned()).collect();
    Named {
        kind,
        summary,
        lost,
        duplicated,
        actors,
        evidence: teller.evidence,
        object: teller.object,
        needs: Vec::new(),
    }
}

impl Teller<'_> {
    fn who(&mut self, worker: usize) -> String {
        self.actors.insert(worker);
        self.case.worker(worker).to_owned()
    }

    fn say(&mut self, sentence: String) {
        if !self.evidence.contains(&sentence) {
            self.evidence.push(sentence);
        }
    }

    fn about(&mut self, object: &str) {
        self.object.get_or_insert_with(|| object.to_owned());
    }

    fn lost_update(&mut self, findings: &Findings<'_>, lost: &[String]) -> String {
        let Some(update) = findings.lost.first() else {
            if let Some(conserve) = &self.case.scenario.oracle.conserve {
                let file = conserve.file.clone();
                self.about(&file);
            }
            return format!("{} lost: neither executed nor queued any more", were(lost));
        };
        for update in findings.lost.iter().take(MOST) {
            self.prove(findings, update);
        }
        let (loser, overwriter) = (self.who(update.loser), self.who(update.overwriter));
        let path = &update.path;
        if update.stray {
            return format!(
                "{overwriter} replaced {path} while {loser} still wrote to the old file: {} in no version",
                are(lost)
            );
        }
        if update.lost.is_empty() {
            return format!(
                "{overwriter} overwrote {loser}'s update of {path}: what {loser} had changed is back as it was"
            );
        }
        format!("{overwriter} overwrote {loser}'s update of {path}: {} in no later version", are(lost))
    }

    fn prove(&mut self, findings: &Findings<'_>, update: &LostUpdate) {
        let path = update.path.clone();
        self.about(&path);
        let (loser, overwriter) = (self.who(update.loser), self.who(update.overwriter));
        let (written, replaced, read) = (update.steps.0 + 1, update.steps.1 + 1, update.base.1 + 1);
        let version = |number: usize| version_name(findings.history, &path, number);
        if update.stray {
            self.say(format!("step {written}: {loser} wrote to {path}, but since step {replaced} ({overwriter}) no name leads to that file"));
        } else {
            self.say(format!(
                "{loser} wrote {path} (step {written}) -ww-> {overwriter} replaced it (step {replaced}); {overwriter} had \
                 read it before that (step {read}) -rw-> {loser}"
            ));
            let made = match update.again {
                None => format!("which was made from {}", version(update.base.0)),
                Some(again) => format!("which did not heed what {overwriter} read again at step {}", again + 1),
            };
            self.say(format!(
                "{} -> {} ({loser}), overwritten by {} ({overwriter}), {made}",
                version(update.base.0),
                version(update.versions.0),
                version(update.versions.1)
            ));
        }
        if let (Some(((from, to), fragment)), Some(first)) = (&update.fragment, update.lost.first()) {
            let fragment = super::json::shorten_to(fragment, 120);
            self.say(format!("{first} stood at bytes {from}..{to} of {loser}'s version: {fragment}"));
        }
        for (worker, name, step) in [(update.loser, loser, written), (update.overwriter, overwriter, replaced)] {
            let held = findings.locks.held_before(super::reference::actor(worker), step - 1);
            let held: Vec<&str> = held.into_iter().collect();
            let held = if held.is_empty() { "no lock".to_owned() } else { held.join(", ") };
            self.say(format!("{name} held {held} at step {step}"));
        }
    }

    fn duplicate(&mut self, findings: &Findings<'_>, duplicated: &[String]) -> String {
        for duplicate in findings.duplicates.iter().take(MOST) {
            let names: Vec<String> = duplicate.workers.iter().map(|worker| self.who(*worker)).collect();
            self.about(&duplicate.place);
            self.say(format!("{} is in {}: {}", duplicate.id, duplicate.place, and(&names)));
        }
        if let (None, Some(conserve)) = (&self.object, &self.case.scenario.oracle.conserve) {
            self.object = Some(conserve.done.clone());
        }
        match findings.duplicates.first() {
            Some(first) if first.workers.len() > 1 => {
                let names: Vec<String> = first.workers.iter().map(|worker| self.who(*worker)).collect();
                format!("{} delivered twice: to {}", were(duplicated), and(&names))
            }
            _ => format!("{} delivered twice", were(duplicated)),
        }
    }

    fn torn_read(&mut self, findings: &Findings<'_>) -> String {
        let mut summary = String::new();
        for reading in findings.torn.iter().take(MOST) {
            let reader = self.who(reading.by);
            self.about(&reading.path);
            let (path, step) = (&reading.path, reading.steps.0 + 1);
            let while_writing = match reading.during {
                Some(writer) => format!(" while {} was writing it", self.who(writer)),
                None => String::new(),
            };
            self.say(format!("what {reader} read from {path} (step {step}) equals no version that was ever published"));
            if summary.is_empty() {
                summary = format!("{reader} read {path}{while_writing}: it got a content that was never published");
            }
        }
        summary
    }

    fn broken_lock(&mut self, findings: &Findings<'_>) -> String {
        let mut summary = String::new();
        for (first, second) in findings.locks.overlaps().into_iter().take(MOST) {
            let (a, b) = (self.who(usize::from(first.actor.0)), self.who(usize::from(second.actor.0)));
            self.about(&first.name);
            let name = &first.name;
            self.say(format!("{a} (step {}) and {b} (step {}) both owned {name}", first.from + 1, second.from + 1));
            if summary.is_empty() {
                summary = format!("{a} and {b} both owned the lock {name} at once");
            }
        }
        for (name, actor, step) in findings.locks.misplaced.iter().take(MOST) {
            let who = self.who(usize::from(actor.0));
            self.say(format!("{who} locked (step {}) a file that the name {name} no longer leads to", step + 1));
        }
        for (name, actor, step) in findings.locks.dropped.iter().take(MOST) {
            let who = self.who(usize::from(actor.0));
            self.say(format!(
                "{who} dropped its lock on {name} by closing another descriptor of it (step {})",
                step + 1
            ));
        }
        summary
    }

    /// Kinds that the judges name themselves.
    fn accused(&mut self, wrong: &Wrong, kind: Kind) -> String {
        let mut told = String::new();
        for accusation in &wrong.accusations {
            let sentence = match (accusation, kind) {
                (Accusation::Serial { differences, .. }, Kind::Unserializable) => match differences.first() {
                    Some(first) => format!("no serial order gives this outcome: {first}"),
                    None => "no serial order gives this outcome".to_owned(),
                },
                (Accusation::Check { exit, output }, Kind::CheckFailed) => {
                    let exit = exit.map_or("a signal".to_owned(), |code| format!("exit {code}"));
                    let last = output.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
                    format!("the check rejects the final state ({exit}){last}")
                }
                (Accusation::WorkerFailed { workers, endings }, Kind::WorkerFailed) => {
                    workers.iter().for_each(|worker| drop(self.who(usize::from(worker.0))));
                    format!("{}, though not in every order", endings.join(", "))
                }
                (Accusation::Deadlock { waiting }, _) => format!("nobody can go on: {}", self.waits(waiting)),
                (Accusation::TornFile { files }, Kind::TornFile) => match files.first() {
                    Some(file) => {
                        self.about(&file.path);
                        let name = self.who(file.by);
                        format!("{name} was cut short and left {} with {}", file.path, file.holds)
                    }
                    None => continue,
                },
                (Accusation::LostAfterCrash { workers }, Kind::LostAfterCrash) => {
                    let names: Vec<String> = workers.iter().map(|worker| self.who(usize::from(worker.0))).collect();
                    let ended = |worker: &ActorId| {
                        let end = self.run.outcome.as_ref().and_then(|o| o.actors.get(usize::from(worker.0)));
                        end.is_some_and(|end| end.exit.is_some())
                    };
                    let how = if workers.iter().all(ended) { "ended well" } else { "said that it was done" };
                    format!("{} {how}, and after the fault nothing is left of what was done", and(&names))
                }
                (Accusation::Conserve { lost, .. }, Kind::LostAfterCrash) => {
                    if let Some(conserve) = &self.case.scenario.oracle.conserve {
                        let file = conserve.file.clone();
                        self.about(&file);
                    }
                    format!("{} lost after the fault: neither executed nor queued any more", were(lost))
                }
                (Accusation::StaleLock { waiting }, _) if self.run.ended == Ended::Done => {
                    format!("a worker that is gone left its lock, and {}", self.waits(waiting))
                }
                (Accusation::StaleLock { waiting }, _) => {
                    format!("nobody can go on, and whoever held the lock is gone: {}", self.waits(waiting))
                }
                (Accusation::Livelock { actors }, _) => {
                    let names: Vec<String> = actors.iter().map(|actor| self.who(usize::from(actor.0))).collect();
                    format!(
                        "{} the same steps for ever",
                        if names.len() == 1 {
                            format!("{} repeats", names[0])
                        } else {
                            format!("{} repeat", and(&names))
                        }
                    )
                }
                _ => continue,
            };
            if told.is_empty() {
                told = sentence;
            }
        }
        told
    }

    fn waits(&mut self, waiting: &[(ActorId, String)]) -> String {
        if let Some((_, what)) = waiting.first() {
            self.about(what);
        }
        let one = |(actor, what): &(ActorId, String)| format!("{} waits for {what}", self.who(usize::from(actor.0)));
        waiting.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// What the judges saw, as evidence.
    fn accusations(&mut self, wrong: &Wrong, kind: Kind) {
        for accusation in &wrong.accusations {
            match accusation {
                Accusation::Serial { nearest, differences, cycle } => {
                    if self.actors.is_empty() {
                        self.actors.extend(0..self.case.scenario.workers.len());
                    }
                    let order = nearest.as_ref().map(|order| {
                        let names: Vec<&str> =
                            order.iter().map(|actor| self.case.worker(usize::from(actor.0))).collect();
                        format!(" (nearest: {})", names.join(", then "))
                    });
                    let order = order.unwrap_or_default();
                    differences.iter().take(MOST).for_each(|d| self.say(format!("in no serial order{order}: {d}")));
                    cycle.iter().take(MOST).for_each(|line| self.say(format!("no order of operations: {line}")));
                }
                Accusation::WorkerFailed { workers, endings } => {
                    endings.iter().for_each(|ending| self.say(ending.clone()));
                    for worker in workers {
                        let name = self.who(usize::from(worker.0));
                        last_words(self.run, *worker).iter().for_each(|line| self.say(format!("{name} said: {line}")));
                    }
                }
                Accusation::Check { output, .. } => {
                    output.lines().for_each(|line| self.say(format!("the check said: {line}")));
                    if kind == Kind::CheckFailed {
                        self.actors.extend(0..self.case.scenario.workers.len());
                    }
                }
                Accusation::Conserve { lost, duplicated } => {
                    if !lost.is_empty() {
                        self.say(format!("generated, but neither executed nor queued: {}", lost.join(", ")));
                    }
                    if !duplicated.is_empty() {
                        self.say(format!("executed more than once: {}", duplicated.join(", ")));
                    }
                    if self.actors.is_empty() {
                        self.actors.extend(0..self.case.scenario.workers.len());
                    }
                }
                Accusation::TornFile { files } => {
                    for file in files.iter().take(MOST) {
                        let name = self.who(file.by);
                        self.say(format!("{} holds {} (cut short: {name})", file.path, file.holds));
                    }
                }
                _ => {}
            }
        }
        for (number, step) in self.run.steps.iter().enumerate() {
            if let Some(kind) = step.fault() {
                let name = self.who(usize::from(step.actor.0));
                self.say(format!("fault {kind} hit {name} at step {}: {}", number + 1, step.result));
            }
        }
    }
}

/// `version 2` where the document says so, else its place in the history.
fn version_name(history: &History, path: &str, number: usize) -> String {
    let stated =
        history.version(path, number).and_then(|version| version.bytes.as_deref()).and_then(History::stated_version);
    match (stated, number) {
        (Some(stated), _) => format!("version {stated}"),
        (None, 0) => "the initial content".to_owned(),
        (None, number) => format!("content {number}"),
    }
}

fn push_new(list: &mut Vec<String>, more: &[String]) {
    for item in more {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

fn and(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn were(ids: &[String]) -> String {
    format!("{} {}", few(ids), if ids.len() == 1 { "was" } else { "were" })
}

fn are(ids: &[String]) -> String {
    format!("{} {}", few(ids), if ids.len() == 1 { "is" } else { "are" })
}

/// The first of many, for a sentence; the lists have them all.
fn few(ids: &[String]) -> String {
    const SHOWN: usize = 5;
    match ids.get(..SHOWN) {
        Some(first) if ids.len() > SHOWN => format!("{} and {} more", first.join(", "), ids.len() - SHOWN),
        _ => and(ids),
    }
}
