//! The serial judge: a run is right when some serial order of its workers explains it.
//!
//! Tried in this order, the first that fits decides:
//! 1. all workers, every exit code and output compared: right. (A killed worker counts as run or not run.)
//! 2. workers that failed left out, or run with their exit and output overlooked: `worker-failed`.
//! 3. operations instead of whole workers (see `operations`).
//!
//! Within 1 and 2 orders are first compared exactly, and only if none fits with noise masked: a mask can only make
//! outcomes equal, so this never accuses more, and most scenarios need no second environment at all.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    compare::same_content,
    digest::outcome_digest,
    error::OracleError,
    graph,
    judgement::{Accusation, note},
    mask::Mask,
    operations::{Operations, Serializable, is_marker},
    orders::Precedence,
    outcome::{Comparison, ending_text, idle, killed},
    reference::{References, SerialRunner, actor},
    rules::{Rules, STATE},
};
use crate::{
    scenario::{Scenario, Serial},
    world::{ActorEnd, Op, Outcome, Run, Step, Warning},
};

/// At most so many orders of one set of workers are run.
pub(super) const MAX_ORDERS: usize = 120;
/// With more failed or killed workers than this, only none or all of them are left out.
const MAX_SUBSETS: usize = 4;

/// What the serial judge says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SerialVerdict {
    Right(Vec<Warning>),
    Wrong(Accusation),
    Unknown(String),
    /// Too many orders to try them all; other judges decide.
    Abstains,
}

/// The serial judge of a scenario.
#[derive(Debug)]
pub(super) struct SerialJudge {
    rules: Rules,
    precedence: Precedence,
    /// Serial runs so far.
    pub(super) references: References,
    /// Distinct outcomes that whole workers in some order explain, or do not.
    cache: BTreeMap<[u8; 32], Whole>,
}

/// What the orders of whole workers say of an outcome.
#[derive(Clone, Debug)]
enum Whole {
    Fits(SerialVerdict),
    /// The nearest order and the differences from it; `true`: every order was tried.
    None {
        nearest: Option<Vec<usize>>,
        differences: Vec<String>,
        all: bool,
        heavy: Option<String>,
    },
}

/// One way to look at failed and killed workers.
struct Attempt {
    participants: BTreeSet<usize>,
    loose: BTreeSet<usize>,
    /// Failed workers are treated leniently: the result is `worker-failed`.
    lenient: bool,
}

impl SerialJudge {
    pub(super) fn new(scenario: &Scenario, rules: Rules) -> SerialJudge {
        let precedence = Precedence::new(&scenario.workers);
        SerialJudge { rules, precedence, references: References::default(), cache: BTreeMap::new() }
    }

    /// Whether two outputs of the state command are the same under the scenario's rules.
    pub(super) fn same_state(&self, a: &[u8], b: &[u8]) -> bool {
        same_content(a, b, &self.rules.content(STATE), &Mask::Nothing).is_ok()
    }

    /// The conflict graph's order first, then all others.
    pub(super) fn orders(&self, steps: &[Step], workers: &BTreeSet<usize>, all: usize) -> Vec<Vec<usize>> {
        let mut first = graph::of_workers(steps, all).order().unwrap_or_else(|| {
            let last = |worker: &usize| steps.iter().rposition(|step| usize::from(step.actor.0) == *worker);
            let mut by_end: Vec<usize> = (0..all).collect();
            by_end.sort_by_key(last);
            by_end
        });
        first.retain(|worker| workers.contains(worker));
        let mut orders: Vec<Vec<usize>> = if self.precedence.allows(&first) { vec![first] } else { Vec::new() };
        for order in self.precedence.orders(workers) {
            if orders.len() > MAX_ORDERS {
                break;
            }
            if orders.first() != Some(&order) {
                orders.push(order);
            }
        }
        orders
    }

    /// Judges a run that ended by itself.
    pub(super) fn judge(
        &mut self,
        scenario: &Scenario,
        run: &Run,
        outcome: &Outcome,
        runner: &mut dyn SerialRunner,
    ) -> Result<SerialVerdict, OracleError> {
        let digest = outcome_digest(outcome);
        let whole = match self.cache.get(&digest) {
            Some(known) => known.clone(),
            None => {
                let found = self.whole_workers(scenario, run, outcome, runner)?;
                self.cache.insert(digest, found.clone());
                found
            }
        };
        let (nearest, differences, all, heavy) = match whole {
            Whole::Fits(verdict) => return Ok(verdict),
            Whole::None { nearest, differences, all, heavy } => (nearest, differences, all, heavy),
        };
        let everyone: BTreeSet<usize> = (0..scenario.workers.len()).collect();
        let feasible = !self.references.feasible(&everyone).is_empty();
        let mut cycle = Vec::new();
        if scenario.oracle.serial == Serial::Operations && (feasible || run.steps.iter().any(is_marker)) {
            match self.operations(scenario, run, outcome) {
                Ok(verdict) => return Ok(verdict),
                Err(edges) => cycle = edges,
            }
        }
        if let Some(file) = heavy {
            return Ok(SerialVerdict::Unknown(format!(
                "{file} is equal to a serial order only where more than half of it is masked as environment: give \
                 state ="
            )));
        }
        if !feasible {
            return Ok(SerialVerdict::Unknown(
                "no serial order is feasible (no worker can finish alone): use serial = false with check, conserve or \
                 state"
                    .to_owned(),
            ));
        }
        if !all {
            let others = scenario.oracle.conserve.is_some() || scenario.check.is_some();
            return Ok(if others {
                SerialVerdict::Abstains
            } else {
                SerialVerdict::Unknown(format!(
                    "none of the {MAX_ORDERS} serial orders that were run gives this outcome, and there are more: give \
                     conserve or check"
                ))
            });
        }
        let nearest = nearest.map(|order| order.into_iter().map(actor).collect());
        Ok(SerialVerdict::Wrong(Accusation::Serial { nearest, differences, cycle }))
    }

    /// Tries orders of whole workers.
    fn whole_workers(
        &mut self,
        scenario: &Scenario,
        run: &Run,
        outcome: &Outcome,
        runner: &mut dyn SerialRunner,
    ) -> Result<Whole, OracleError> {
        let failed = failed_workers(scenario, outcome);
        let left_behind = left_behind(&run.steps, outcome, &failed);
        let names: Vec<&str> = scenario.workers.iter().map(|worker| worker.name.as_str()).collect();
        let mut result = Whole::None { nearest: None, differences: Vec::new(), all: true, heavy: None };
        let mut fewest = usize::MAX;
        for attempt in attempts(scenario.workers.len(), &failed, &killed_workers(outcome)) {
            let behind = if attempt.lenient { &left_behind } else { &BTreeSet::new() };
            let orders = self.orders(&run.steps, &attempt.participants, scenario.workers.len());
            let mut budget = MAX_ORDERS.saturating_sub(self.references.tried(&attempt.participants));
            for masked in [false, true] {
                for order in &orders {
                    if !self.references.knows(order) {
                        if budget == 0 {
                            if let Whole::None { all, .. } = &mut result {
                                *all = false;
                            }
                            continue;
                        }
                        budget -= 1;
                    }
                    let mut comparison =
                        Comparison { rules: &self.rules, noise: None, loose: &attempt.loose, left_behind: behind };
                    let reference = if masked {
                        match self.references.noise(order, &names, &self.rules, runner)? {
                            Some((reference, noise)) if !noise.is_empty() => {
                                comparison.noise = Some(noise);
                                reference
                            }
                            _ => continue,
                        }
                    } else {
                        match self.references.get(order, runner)? {
                            Some(reference) => reference,
                            None => continue,
                        }
                    };
                    let Some(expected) = reference.outcome() else { continue };
                    let compared = comparison.compare(expected, outcome, &names);
                    if compared.equal() && compared.heavy.is_empty() {
                        let mut warnings = Vec::new();
                        if let Some(noise) = comparison.noise {
                            warnings.extend(noise.warnings.iter().map(note));
                            warnings.push(note(format!("masked as environment: {}", list(&noise.places()))));
                        }
                        warnings.extend(compared.left_behind.iter().map(|path| note(format!("left behind: {path}"))));
                        let verdict = if attempt.lenient {
                            SerialVerdict::Wrong(worker_failed(scenario, outcome, &failed))
                        } else {
                            SerialVerdict::Right(warnings)
                        };
                        return Ok(Whole::Fits(verdict));
                    }
                    if let Whole::None { nearest, differences, heavy, .. } = &mut result {
                        if compared.equal() {
                            *heavy = compared.heavy.first().cloned();
                        } else if !attempt.lenient && compared.differences.len() < fewest {
                            fewest = compared.differences.len();
                            *nearest = Some(order.clone());
                            *differences = compared.differences;
                        }
                    }
                }
            }
        }
        Ok(result)
    }

    /// Judges by operations; `Err` is the cycle in words.
    fn operations(&self, scenario: &Scenario, run: &Run, outcome: &Outcome) -> Result<SerialVerdict, Vec<String>> {
        let operations = Operations::of(&run.steps, scenario.workers.len());
        match operations.serializable(&run.steps) {
            Serializable::Yes => {
                let failed = self.unusual_failures(scenario, outcome);
                if !failed.is_empty() {
                    return Ok(SerialVerdict::Wrong(worker_failed(scenario, outcome, &failed)));
                }
                let inferred = !operations.marked || operations.cut;
                Ok(SerialVerdict::Right(if inferred { vec![note("operations inferred")] } else { Vec::new() }))
            }
            Serializable::WithoutRepeatedReads => Ok(SerialVerdict::Unknown(
                "whether a worker relied on a read that it made twice cannot be seen: mark operations (.noclobber/op)"
                    .to_owned(),
            )),
            Serializable::No(cycle) => {
                let name = |at: usize| scenario.workers.get(at).map_or("?", |worker| worker.name.as_str());
                let say = |((worker, number), edge): &((usize, usize), graph::Edge)| {
                    format!(
                        "{}'s operation {} comes before the next (step {} before step {})",
                        name(*worker),
                        number + 1,
                        edge.from_step + 1,
                        edge.to_step + 1
                    )
                };
                Err(cycle.iter().map(say).collect())
            }
        }
    }

    /// Failed workers that end in this way in no serial order run so far.
    fn unusual_failures(&self, scenario: &Scenario, outcome: &Outcome) -> BTreeSet<usize> {
        let everyone: BTreeSet<usize> = (0..scenario.workers.len()).collect();
        let usual = |worker: &usize| {
            self.references.feasible(&everyone).into_iter().filter_map(|reference| reference.outcome()).any(
                |expected| {
                    expected.actors.get(*worker).map(|end| (end.exit, end.signal))
                        == outcome.actors.get(*worker).map(|end| (end.exit, end.signal))
                },
            )
        };
        failed_workers(scenario, outcome).into_iter().filter(|worker| !usual(worker)).collect()
    }
}

/// The ways in which failed and killed workers may count, the strictest first.
fn attempts(workers: usize, failed: &BTreeSet<usize>, killed: &BTreeSet<usize>) -> Vec<Attempt> {
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
    out.retain(|attempt| !attempt.participants.is_empty());
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

fn killed_workers(outcome: &Outcome) -> BTreeSet<usize> {
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

/// Files that only failed workers made or touched: nobody else opened them.
fn left_behind(steps: &[Step], outcome: &Outcome, failed: &BTreeSet<usize>) -> BTreeSet<String> {
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

/// A list for a warning, cut to a readable length.
fn list(items: &[String]) -> String {
    const MOST: usize = 10;
    let shown = items.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if items.len() > MOST { format!("{shown} and {} more", items.len() - MOST) } else { shown }
}
