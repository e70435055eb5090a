//! Workers that a fault hit: nobody can say how far they came, so their exit and output are not compared.

use std::collections::BTreeSet;

use super::outcome::killed;
use crate::world::{Run, Step};

/// The workers that were killed, lost a process, or got an error or too few bytes that were injected. One that only
/// stood still, or whose call was done in two parts, has nothing to excuse it.
pub(super) fn hit_workers(run: &Run) -> BTreeSet<usize> {
    let hit = run.steps.iter().filter(|step| is_hit(step)).map(|step| usize::from(step.actor.0));
    let ends = run.outcome.iter().flat_map(|outcome| outcome.actors.iter().enumerate());
    hit.chain(ends.filter(|(_, end)| killed(end)).map(|(worker, _)| worker)).collect()
}

/// The kinds of faults that happened in a run, each once, as a scenario writes them.
pub(super) fn faults(run: &Run) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    for kind in run.steps.iter().filter_map(Step::fault) {
        if !kinds.iter().any(|known| known == kind) {
            kinds.push(kind.to_owned());
        }
    }
    kinds
}

fn is_hit(step: &Step) -> bool {
    step.fault().is_some_and(|kind| !kind.starts_with("pause") && kind != "split")
}
