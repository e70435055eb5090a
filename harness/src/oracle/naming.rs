//! Names: which kind of anomaly a wrong run shows. Witnesses never accuse; they say what happened in a run that a judge
//! accuses already.

use std::collections::BTreeSet;

use super::{
    Case,
    duplicates::{Duplicate, duplicates, own_files},
    failures::failed_workers,
    history::{History, Reading},
    hits::{faults, hit_workers, power_cut},
    judge::last_lines,
    judgement::{Accusation, Wrong},
    locks::LockTrace,
    lost::{LostUpdate, lost_though_read_again, lost_updates},
    outcome::ending,
    story,
    torn::torn_readings,
};
use crate::{
    scenario::Kind,
    world::{ActorId, Choice, Node, Outcome, Run},
};

/// A wrong run with its kind and its story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The most severe kind that fits.
    pub kind: Kind,
    /// One plain sentence.
    pub summary: String,
    /// Ids (or elements, lines, members, files) that are lost.
    pub lost: Vec<String>,
    /// Ids delivered twice.
    pub duplicated: Vec<String>,
    /// Names of the workers involved, in scenario order.
    pub actors: Vec<String>,
    /// Sentences that prove it.
    pub evidence: Vec<String>,
    /// The file or lock it is about: shrinking keeps kind and object.
    pub object: Option<String>,
    /// What it needs besides an order.
    pub needs: Vec<String>,
}

/// What the witnesses found in a wrong run.
pub(super) struct Findings<'a> {
    pub(super) history: &'a History,
    pub(super) locks: LockTrace,
    pub(super) lost: Vec<LostUpdate>,
    pub(super) duplicates: Vec<Duplicate>,
    pub(super) torn: Vec<&'a Reading>,
    /// Lost and duplicated ids by the conserve judge.
    pub(super) conserve: (Vec<String>, Vec<String>),
}

/// Names a wrong run. `run` should be recorded (without effects only the judges' own kinds are possible); `references`
/// are the serial runs ([`Judge::references`](super::Judge::references)).
pub fn name(case: &Case<'_>, run: &Run, wrong: &Wrong, references: &[&Run]) -> Named {
    let serial: Vec<&Outcome> = references.iter().filter_map(|run| run.outcome.as_ref()).collect();
    let history = History::of(run, case.initial);
    let otherwise_right = otherwise_right(wrong);
    let suspects = wrong_workers(case, run, wrong, &serial);
    let id = case.id_member();
    let mut findings = Findings {
        history: &history,
        locks: LockTrace::of(&run.steps),
        lost: Vec::new(),
        duplicates: Vec::new(),
        torn: torn_readings(&history, &suspects),
        conserve: (Vec::new(), Vec::new()),
    };
    findings.torn.retain(|reading| !case.ignores(&reading.path));
    if !otherwise_right {
        findings.lost = lost_updates(&history, id);
        findings.lost.retain(|update| !case.ignores(&update.path));
        findings.duplicates = duplicates(case, run, &history, &serial);
    }
    for accusation in &wrong.accusations {
        if let Accusation::Conserve { lost, duplicated } = accusation {
            findings.conserve = (lost.clone(), duplicated.clone());
        }
    }
    let crashed = !hit_workers(run).is_empty() || power_cut(run).is_some();
    let mut kind = kind(wrong, &findings, otherwise_right, crashed);
    if kind == Kind::Unserializable && !crashed {
        findings.lost = lost_though_read_again(&history, id);
        findings.lost.retain(|update| !case.ignores(&update.path));
        if !findings.lost.is_empty() {
            kind = Kind::LostUpdate;
        }
    }
    let mut named = story::tell(case, run, wrong, &findings, kind);
    if run.choices.iter().any(|choice| matches!(choice, Choice::Wake(_))) {
        named.needs.push("early-wake".to_owned());
    }
    named.needs.extend(faults(run));
    named
}

/// The most severe kind that the accusations and findings support.
fn kind(wrong: &Wrong, findings: &Findings<'_>, otherwise_right: bool, crashed: bool) -> Kind {
    let ended = wrong.accusations.iter().find_map(|accusation| match accusation {
        Accusation::Deadlock { .. } => Some(Kind::Deadlock),
        Accusation::StaleLock { .. } => Some(Kind::StaleLock),
        Accusation::Livelock { .. } => Some(Kind::Livelock),
        _ => None,
    });
    // A worker that gives up before a stale lock ends; only one that never ends stands alone.
    if let (Some(kind), 1) = (ended, wrong.accusations.len()) {
        return kind;
    }
    let accused = |fits: fn(&Accusation) -> bool| wrong.accusations.iter().any(fits);
    if crashed && findings.lost.is_empty() && !findings.conserve.0.is_empty()
        || accused(|a| matches!(a, Accusation::LostAfterCrash { .. }))
    {
        return Kind::LostAfterCrash;
    }
    if !findings.conserve.0.is_empty() || !findings.lost.is_empty() {
        return Kind::LostUpdate;
    }
    if !findings.conserve.1.is_empty() || !findings.duplicates.is_empty() {
        return Kind::DuplicateDelivery;
    }
    if accused(|a| matches!(a, Accusation::TornFile { .. })) {
        return Kind::TornFile;
    }
    if !findings.torn.is_empty() {
        // Where nobody was writing any more, it was a fault that left the file like that.
        let left = crashed && findings.torn.iter().all(|reading| reading.during.is_none());
        return if left { Kind::TornFile } else { Kind::TornRead };
    }
    if otherwise_right {
        return ended.unwrap_or(Kind::WorkerFailed);
    }
    if !findings.locks.overlaps().is_empty() {
        return Kind::BrokenLock;
    }
    let serial = wrong.accusations.iter().any(|a| matches!(a, Accusation::Serial { .. }));
    if serial { Kind::Unserializable } else { ended.unwrap_or(Kind::CheckFailed) }
}

/// Nothing is wrong but that workers failed.
fn otherwise_right(wrong: &Wrong) -> bool {
    let lenient = |a: &Accusation| matches!(a, Accusation::WorkerFailed { .. } | Accusation::StaleLock { .. });
    wrong.accusations.iter().all(lenient)
}

/// The workers that behaved as in no serial order; all of them when none stands out.
fn wrong_workers(case: &Case<'_>, run: &Run, wrong: &Wrong, serial: &[&Outcome]) -> BTreeSet<usize> {
    let everyone: BTreeSet<usize> = (0..case.scenario.workers.len()).collect();
    let Some(outcome) = &run.outcome else { return everyone };
    let mut out = failed_workers(case.scenario, outcome);
    for accusation in &wrong.accusations {
        if let Accusation::WorkerFailed { workers, .. } = accusation {
            out.extend(workers.iter().map(|worker| usize::from(worker.0)));
        }
    }
    // The others did what some order without the failed ones explains.
    if !otherwise_right(wrong) && !serial.is_empty() {
        let own = own_files(run, outcome);
        let file = |outcome: &Outcome, path: &str| match outcome.files.get(path) {
            Some(Node::File { bytes, .. }) => Some(bytes.clone()),
            _ => None,
        };
        out.extend(everyone.iter().copied().filter(|worker| {
            let Some(here) = outcome.actors.get(*worker) else { return false };
            let as_usual = |serial: &&Outcome| {
                serial.actors.get(*worker).is_some_and(|end| ending(end) == ending(here) && end.stdout == here.stdout)
                    && own.get(worker).into_iter().flatten().all(|path| file(serial, path) == file(outcome, path))
            };
            !serial.iter().any(as_usual)
        }));
    }
    if out.is_empty() { everyone } else { out }
}

/// Last lines of what a failed worker said.
pub(super) fn last_words(run: &Run, worker: ActorId) -> Vec<String> {
    let end = run.outcome.as_ref().and_then(|outcome| outcome.actors.get(usize::from(worker.0)));
    end.map(|end| last_lines(&end.stderr, 3)).unwrap_or_default()
}
