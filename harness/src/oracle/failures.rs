//! Workers that failed or were hit by a fault: who they are, how they may count, what they leave behind.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    judgement::Accusation,
    outcome::{ending_text, idle, killed},
    reference::actor,
};
use crate::{
    scenario::Scenario,
    world::{ActorEnd, Node, Op, Outcome, Step},
};

/// With more failed or hit workers than this, only none or all of them are left out.
const MAX_SUBSETS: usize = 4;

/// One way to look at failed and killed workers.
pub(super) struct Attempt {
    /// Who takes part in the serial orders.
    pub(super) participants: BTreeSet<usize>,
    /// Whose exit and output say nothing.
    pub(super) loose: BTreeSet<usize>,
    /// What is overlooked.
    pub(super) kind: Leniency,
}

/// What is overlooked when an outcome is compared with a serial order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leniency {
    /// Nothing: an order that fits makes the run right. (A worker that a fault hit counts as run or not run.)
    None,
    /// That workers failed: `worker-failed`.
    Failed,
    /// After a fault: that the work of workers which ended well is gone.
    Lost,
}

/// The ways in which failed workers and those hit by a fault may count, the strictest first.
///
/// `acknowledged`: who ended well before the power went; several of them may have lost their work at once. `promised`:
/// who was hit after saying that the work was done.
pub(super) fn attempts(
    workers: usize,
    failed: &BTreeSet<usize>,
    hit: &BTreeSet<usize>,
    promised: &BTreeSet<usize>,
    acknowledged: &BTreeSet<usize>,
) -> Vec<Attempt> {
    let everyone: BTreeSet<usize> = (0..workers).collect();
    let free = hit - promised;
    let mut out = Vec::new();
    for left_out in subsets(&free) {
        out.push(Attempt { participants: &everyone - &left_out, loose: hit.clone(), kind: Leniency::None });
    }
    if !failed.is_empty() {
        let loose = failed | hit;
        for left_out in subsets(&(failed | &free)) {
            out.push(Attempt { participants: &everyone - &left_out, loose: loose.clone(), kind: Leniency::Failed });
        }
    }
    let well = &(&(&everyone - hit) - failed) | promised;
    let gone: Vec<BTreeSet<usize>> = match (acknowledged.is_empty(), hit.is_empty()) {
        (false, _) => {
            let sure = &(acknowledged & &well) | promised;
            subsets(&sure).into_iter().filter(|gone| !gone.is_empty()).collect()
        }
        (true, false) => well.iter().map(|gone| [*gone].into()).collect(),
        (true, true) => Vec::new(),
    };
    for gone in &gone {
        for left_out in subsets(&free) {
            let left_out: BTreeSet<usize> = &left_out | gone;
            let loose = &left_out | hit;
            out.push(Attempt { participants: &everyone - &left_out, loose, kind: Leniency::Lost });
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

/// Files that only these (failed or killed) workers made: they were not there at the start, and nobody else opened them.
pub(super) fn left_behind(
    steps: &[Step],
    outcome: &Outcome,
    failed: &BTreeSet<usize>,
    initial: &BTreeMap<String, Node>,
) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    let mut opened = BTreeSet::new();
    for step in steps.iter().filter(|step| !step.failed()) {
        let paths = step.path.iter().chain(&step.path2);
        if failed.contains(&usize::from(step.actor.0)) {
            // A new file, whatever somebody else did with another one of this name before.
            let fresh = match step.op {
                Op::Create | Op::Mkdir | Op::Symlink => step.path.as_ref(),
                Op::Link | Op::Rename => step.path2.as_ref(),
                _ => None,
            };
            if let Some(path) = fresh {
                opened.remove(path);
            }
            made.extend(paths);
        } else if !matches!(step.op, Op::Stat | Op::Access) {
            opened.extend(paths);
        }
    }
    let left = |path: &&String| made.contains(path) && !opened.contains(path) && !initial.contains_key(*path);
    outcome.files.keys().filter(left).cloned().collect()
}
