//! Workers that failed or were killed: who they are, how they may count, what they leave behind.

use std::collections::BTreeSet;

use super::{
    judgement::Accusation,
    outcome::{ending_text, idle, killed},
    reference::actor,
};
use crate::{
    scenario::Scenario,
    world::{ActorEnd, Op, Outcome, Step},
};

/// With more failed or killed workers than this, only none or all of them are left out.
const MAX_SUBSETS: usize = 4;

/// One way to look at failed and killed workers.
pub(super) struct Attempt {
    /// Who takes part in the serial orders.
    pub(super) participants: BTreeSet<usize>,
    /// Whose exit and output say nothing.
    pub(super) loose: BTreeSet<usize>,
    /// Failed workers are treated leniently: the result is `worker-failed`.
    pub(super) lenient: bool,
}

/// The ways in which failed and killed workers may count, the strictest first.
pub(super) fn attempts(workers: usize, failed: &BTreeSet<usize>, killed: &BTreeSet<usize>) -> Vec<Attempt> {
    let everyone: BTreeSet<usize> = (0..workers).collect();
    let mut out = Vec::new();
    for left_out in subsets(killed) {
        out.push(Attempt { participants: &everyone - &left_out, loose: killed.clone(), lenient: false });
    }
    if !failed.is_empty() {
        let loose = failed | killed;
        for left_out in subsets(&loose) {
            out.push(Attempt { participants: &everyone - &left_out, loose: loose.clone(), lenient: true });
        }
    }
    out
}

/// All subsets, smaller ones first; of a large set only the empty and the whole one.
fn subsets(set: &BTreeSet<usize>) -> Vec<BTreeSet<usize>> {
    let items: Vec<usize> = set.iter().copied().collect();
    if items.len() > MAX_SUBSETS {
        return vec![BTreeSet::new(), set.clone()];
    }
    let mut all: Vec<BTreeSet<usize>> = (0..1usize << items.len())
        .map(|bits| items.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, item)| *item).collect())
        .collect();
    all.sort_by_key(BTreeSet::len);
    all
}

/// Whether a worker's end counts as a failure.
pub(super) fn failed(exits: &[i32], end: &ActorEnd) -> bool {
    !idle(end) && !killed(end) && !end.exit.is_some_and(|exit| exits.contains(&exit))
}

/// The workers that failed.
pub(super) fn failed_workers(scenario: &Scenario, outcome: &Outcome) -> BTreeSet<usize> {
    let pairs = scenario.workers.iter().zip(&outcome.actors).enumerate();
    pairs.filter(|(_, (worker, end))| failed(&worker.exit, end)).map(|(at, _)| at).collect()
}

/// The workers hit by a kill.
pub(super) fn killed_workers(outcome: &Outcome) -> BTreeSet<usize> {
    outcome.actors.iter().enumerate().filter(|(_, end)| killed(end)).map(|(at, _)| at).collect()
}

/// The accusation of these workers.
pub(super) fn worker_failed(scenario: &Scenario, outcome: &Outcome, failed: &BTreeSet<usize>) -> Accusation {
    let ending = |worker: &usize| match (scenario.workers.get(*worker), outcome.actors.get(*worker)) {
        (Some(worker), Some(end)) => format!("{} {}", worker.name, ending_text(end)),
        _ => String::new(),
    };
    Accusation::WorkerFailed {
        workers: failed.iter().map(|worker| actor(*worker)).collect(),
        endings: failed.iter().map(ending).collect(),
    }
}

/// Files that only these (failed or killed) workers made: nobody else opened them.
pub(super) fn left_behind(steps: &[Step], outcome: &Outcome, failed: &BTreeSet<usize>) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    let mut opened = BTreeSet::new();
    for step in steps.iter().filter(|step| !step.failed()) {
        let paths = step.path.iter().chain(&step.path2);
        if failed.contains(&usize::from(step.actor.0)) {
            made.extend(paths);
        } else if !matches!(step.op, Op::Stat | Op::Access) {
            opened.extend(paths);
        }
    }
    outcome.files.keys().filter(|path| made.contains(path) && !opened.contains(path)).cloned().collect()
}
