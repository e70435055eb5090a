//! Workers that a fault hit: nobody can say how far they came, so their exit and output are not compared.

use std::collections::BTreeSet;

use super::outcome::killed;
use crate::{
    scenario::{Acknowledging, Scenario},
    world::{ACK_MARKER, IN_ORDER_FLAG, Run, Step},
};

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
    // Whom a power cut kills is told by how it ended; who had ended before is not excused.
    step.fault().is_some_and(|kind| !kind.starts_with("pause") && !["split", POWER_CUT].contains(&kind))
}

/// What the kind of a power cut is called.
const POWER_CUT: &str = "power-cut";

/// Where in a run the power goes, and, when the disk then was as at some moment since the last acknowledgement, how many
/// steps came before that moment.
pub(super) fn power_cut(run: &Run) -> Option<(usize, Option<usize>)> {
    let at = run.steps.iter().position(|step| step.fault() == Some(POWER_CUT))?;
    let moment = run.steps[at].flags.iter().find_map(|flag| flag.strip_prefix(IN_ORDER_FLAG)?.parse().ok());
    Some((at, moment))
}

/// The workers that a fault hit after they had said that what they did is done: it has to be there.
pub(super) fn promised(scenario: &Scenario, run: &Run, hit: &BTreeSet<usize>) -> BTreeSet<usize> {
    let said = |worker: &&usize| {
        let output = run.outcome.as_ref().and_then(|outcome| outcome.actors.get(**worker));
        let says = scenario.workers.get(**worker).and_then(|worker| Acknowledging::new(worker).ok());
        let line = says.zip(output).is_some_and(|(says, end)| says.lines(&end.stdout).next().is_some());
        line || run.steps.iter().any(|s| usize::from(s.actor.0) == **worker && s.looks_up(ACK_MARKER))
    };
    hit.iter().filter(said).copied().collect()
}

/// The workers that ended well before the power went: what they did was acknowledged.
pub(super) fn acknowledged(run: &Run, hit: &BTreeSet<usize>) -> BTreeSet<usize> {
    let Some((at, _)) = power_cut(run) else { return BTreeSet::new() };
    let before: BTreeSet<usize> = run.steps[..at].iter().map(|step| usize::from(step.actor.0)).collect();
    &before - hit
}
