//! Making a failing schedule as plain as possible.

use std::collections::HashSet;

use super::{memory::Memory, system::Lost};
use crate::world::{ActorId, Choice, Plan, Policy, Run};

/// How often a run goes from one actor to another.
pub fn context_switches(choices: &[Choice]) -> usize {
    choices.windows(2).filter(|pair| actor(pair[0]) != actor(pair[1])).count()
}

/// A shrunk schedule.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The plainest run that still shows the anomaly: never more context switches than the run it came from.
    pub run: Run,
    /// Runs made.
    pub runs: u64,
    /// No pass makes it plainer; false when the budget of runs ended first.
    pub fixed_point: bool,
}

/// Shrinks `found`, running at most `max_runs` schedules (those that are known already aside); `template` says how to run them (environment, recording), and
/// `keep` whether a run still shows the same anomaly (the same kind on the same object).
///
/// Greedy passes to a fixed point, each candidate really run: drop an actor (it then comes last, in one block), drop
/// the tail (the rest keeps running whoever runs), merge neighbouring blocks of one actor, zero single choices (keep
/// running the same actor), swap neighbouring blocks. Candidates are lenient: a choice that is not possible falls back
/// to choice 0. A candidate is taken when its *executed* choices are plainer: fewer context switches, then fewer
/// choices, then a smaller sequence. That order is well-founded, so the passes end.
///
/// # Errors
/// [`Lost`] when the engine lost control.
pub fn shrink(
    system: &mut Memory<'_>,
    found: &Run,
    template: &Plan,
    max_runs: u64,
    keep: &mut dyn FnMut(&Run) -> bool,
) -> Result<Shrunk, Lost> {
    system.learn(found);
    let before = system.made();
    let (tried, useless) = (HashSet::new(), HashSet::new());
    let mut state = Shrink { best: found.clone(), tried, useless, runs: 0, before, template, max_runs };
    loop {
        let before = cost(&state.best.choices);
        for pass in [drop_actors, drop_tails, merge_blocks, zero_choices, swap_blocks] {
            // Each success changes the schedule, so its candidates are made anew.
            while state.improve(system, pass, keep)? {}
        }
        if state.spent() || cost(&state.best.choices) == before {
            return Ok(Shrunk { fixed_point: !state.spent(), runs: state.runs, run: state.best });
        }
    }
}

struct Shrink<'a> {
    best: Run,
    /// Candidates that were run: none is run twice.
    tried: HashSet<Vec<Choice>>,
    /// What was executed and does not keep the anomaly: none is judged twice.
    useless: HashSet<Vec<Choice>>,
    runs: u64,
    /// Schedules that the system had made before.
    before: u64,
    template: &'a Plan,
    max_runs: u64,
}

impl Shrink<'_> {
    fn spent(&self) -> bool {
        self.runs >= self.max_runs
    }

    /// Runs the candidates of a pass until one is plainer and keeps the anomaly.
    fn improve(
        &mut self,
        system: &mut Memory<'_>,
        pass: fn(&[Choice]) -> Vec<Vec<Choice>>,
        keep: &mut dyn FnMut(&Run) -> bool,
    ) -> Result<bool, Lost> {
        for candidate in pass(&self.best.choices) {
            if !self.tried.insert(candidate.clone()) {
                continue;
            }
            let plan = Plan {
                prefix: candidate,
                lenient: true,
                then: Policy::Stay,
                sleep: Vec::new(),
                ..self.template.clone()
            };
            if self.spent() && !system.knows(&plan) {
                return Ok(false);
            }
            let run = system.run(&plan)?;
            self.runs = system.made() - self.before;
            if cost(&run.choices) < cost(&self.best.choices) && !self.useless.contains(&run.choices) {
                if keep(&run) {
                    self.best = Run { diverged: None, ..run };
                    return Ok(true);
                }
                self.useless.insert(run.choices);
            }
        }
        Ok(false)
    }
}

/// What is made smaller.
fn cost(choices: &[Choice]) -> (usize, usize, Vec<Choice>) {
    (context_switches(choices), choices.len(), choices.to_vec())
}

fn actor(choice: Choice) -> ActorId {
    let (Choice::Step(actor) | Choice::Wake(actor)) = choice;
    actor
}

/// Maximal runs of one actor, as ranges.
fn blocks(choices: &[Choice]) -> Vec<&[Choice]> {
    choices.chunk_by(|a, b| actor(*a) == actor(*b)).collect()
}

fn drop_actors(choices: &[Choice]) -> Vec<Vec<Choice>> {
    let mut actors: Vec<ActorId> = choices.iter().map(|c| actor(*c)).collect();
    actors.sort();
    actors.dedup();
    actors.into_iter().map(|gone| choices.iter().copied().filter(|c| actor(*c) != gone).collect()).collect()
}

/// Shortest first, in steps that halve: a schedule's decisive part is usually short.
fn drop_tails(choices: &[Choice]) -> Vec<Vec<Choice>> {
    let mut lengths: Vec<usize> = (0..usize::BITS).map(|bit| choices.len().checked_shr(bit).unwrap_or(0) / 2).collect();
    lengths.extend(blocks(choices).iter().map(|block| choices.len() - block.len()));
    lengths.push(choices.len().saturating_sub(1));
    lengths.sort_unstable();
    lengths.dedup();
    lengths.into_iter().map(|n| choices[..n].to_vec()).collect()
}

fn merge_blocks(choices: &[Choice]) -> Vec<Vec<Choice>> {
    let blocks = blocks(choices);
    let mut candidates = Vec::new();
    for i in 0..blocks.len() {
        // The next block of the same actor moves up, or this one moves down to it.
        let same = |b: &&[Choice]| actor(b[0]) == actor(blocks[i][0]);
        let Some(j) = (i + 1..blocks.len()).find(|j| same(&blocks[*j])) else { continue };
        let (between, after) = (&blocks[i + 1..j], &blocks[j + 1..]);
        let up = [&blocks[..i], &[blocks[i], blocks[j]], between, after].concat().concat();
        let down = [&blocks[..i], between, &[blocks[i], blocks[j]], after].concat().concat();
        candidates.extend([up, down]);
    }
    candidates
}

fn zero_choices(choices: &[Choice]) -> Vec<Vec<Choice>> {
    let zeroed = |i: usize| {
        let mut candidate = choices.to_vec();
        candidate[i] = Choice::Step(actor(choices[i - 1]));
        candidate
    };
    (1..choices.len()).filter(|i| choices[*i] != Choice::Step(actor(choices[i - 1]))).map(zeroed).collect()
}

fn swap_blocks(choices: &[Choice]) -> Vec<Vec<Choice>> {
    let blocks = blocks(choices);
    let swapped = |i: usize| {
        let mut order = blocks.clone();
        order.swap(i, i + 1);
        order.concat()
    };
    (0..blocks.len().saturating_sub(1)).map(swapped).collect()
}
