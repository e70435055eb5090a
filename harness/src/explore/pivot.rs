//! The two steps whose order decides.

use super::{
    memory::Memory,
    races::{Race, races},
    system::Lost,
    trace::Trace,
};
use crate::world::{Choice, Plan, Policy, Run};

/// What makes the difference between a failing schedule and a passing one.
#[derive(Clone, Debug)]
pub struct Pivot {
    /// The two steps of the failing run (indices into [`Run::steps`], the earlier first); `None` when no single reversal
    /// makes it pass.
    pub steps: Option<(usize, usize)>,
    /// The run with these two steps reversed; without them, the nearest passing run: the one that follows the failing
    /// schedule for longest. `None` when none was found.
    pub passing: Option<Run>,
    /// Runs made.
    pub runs: u64,
}

/// Looks for the pivot of a shrunk failing run with at most `max_runs` runs: the first race (steps n < m of different
/// actors, dependent, nothing ordered between them) such that the run with m before n, and the rest by choice 0,
/// passes. When none does, the same for pairs between which only later steps of n's own actor are ordered: who opens a
/// file by its name, then looks at the name once more, races with a rename at the second look, yet the first decides.
/// `template` says how to run (environment, recording), `passes` judges.
///
/// # Errors
/// [`Lost`] when the engine lost control.
pub fn pivot(
    system: &mut Memory<'_>,
    failing: &Run,
    template: &Plan,
    max_runs: u64,
    passes: &mut dyn FnMut(&Run) -> bool,
) -> Result<Pivot, Lost> {
    let before = system.made();
    let mut passing = |system: &mut Memory<'_>, prefix: Vec<Choice>, lenient: bool| -> Result<Option<Run>, Lost> {
        let plan = Plan { prefix, lenient, then: Policy::Stay, sleep: Vec::new(), ..template.clone() };
        if system.made() - before >= max_runs && !system.knows(&plan) {
            return Ok(None);
        }
        let run = system.run(&plan)?;
        Ok((run.outcome.is_some() && passes(&run)).then_some(run))
    };
    // A run whose choices and steps do not correspond has no races to speak of.
    if let Ok(trace) = Trace::new(failing) {
        let mut found: Vec<Race> = races(&trace, &[], false, 0);
        found.sort_by_key(|race| (race.first, race.second));
        for race in &found {
            let Some(second) = race.second else { continue };
            if let Some(run) = passing(system, reversed(&trace, race, second), false)? {
                let steps = Some((trace.events[race.first].step, trace.events[second].step));
                return Ok(Pivot { steps, passing: Some(run), runs: system.made() - before });
            }
        }
        for (first, second, needed) in wider(&trace, &found) {
            let order = (0..first).chain(needed).chain([second]);
            if let Some(run) = passing(system, order.map(|e| trace.events[e].choice).collect(), false)? {
                let steps = Some((trace.events[first].step, trace.events[second].step));
                return Ok(Pivot { steps, passing: Some(run), runs: system.made() - before });
            }
        }
    }
    let mut nearest = None;
    for length in (0..failing.choices.len()).rev() {
        nearest = passing(system, failing.choices[..length].to_vec(), true)?;
        if nearest.is_some() {
            break;
        }
    }
    Ok(Pivot { steps: None, passing: nearest, runs: system.made() - before })
}

/// The choices that make the later step come first: those before the earlier step, then what the later step needs of
/// what lies between, then the later step, then the earlier one.
fn reversed(trace: &Trace, race: &Race, second: usize) -> Vec<Choice> {
    let needed = race.kept.iter().filter(|e| trace.before(**e, second));
    let order = (0..race.first).chain(needed.copied()).chain([second]);
    order.map(|e| trace.events[e].choice).collect()
}

/// Dependent pairs of different actors that are no races, and could be reversed all the same: between them lie only
/// steps of the first's actor, and what the second does not need. With what the second needs of what lies between; the
/// nearest pairs first.
fn wider(trace: &Trace, races: &[Race]) -> Vec<(usize, usize, Vec<usize>)> {
    let mut pairs = Vec::new();
    for second in 0..trace.events.len() {
        for first in (0..second).rev() {
            let (a, b) = (&trace.events[first], &trace.events[second]);
            let dependent = a.accesses.iter().any(|x| b.accesses.iter().any(|y| x.conflicts(y)));
            if a.actor == b.actor
                || a.everything
                || b.everything
                || !dependent
                || races.iter().any(|race| race.first == first && race.second == Some(second))
            {
                continue;
            }
            // What must come with the second step, and must not need the first one or what its actor did after it.
            let needed: Vec<usize> = (first + 1..second)
                .filter(|e| trace.events[*e].actor != a.actor && trace.before(*e, second))
                .filter(|e| trace.events[*e].actor == b.actor || !trace.before(first, *e))
                .collect();
            if needed.iter().all(|e| !trace.before(first, *e)) {
                pairs.push((first, second, needed));
            }
        }
    }
    pairs
}
