//! The serial judge: a run is right when some serial order of its workers explains it.
//!
//! Tried in this order, the first that fits decides:
//! 1. all workers, every exit code and output compared: right. (A killed worker counts as run or not run.)
//! 2. workers that failed left out, or run with their exit and output overlooked: `worker-failed`.
//! 3. operations instead of whole workers (see `operations`).
//!
//! Within 1 and 2 orders are first compared exactly, and only if none fits with noise masked: a mask can only make
//! outcomes equal, so this never accuses more, and most scenarios need no second environment at all.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    compare::same_content,
    digest::outcome_digest,
    error::OracleError,
    failures::{Attempt, Leniency, attempts, failed_workers, left_behind, worker_failed},
    graph,
    hits::{acknowledged, power_cut, promised},
    judgement::{Accusation, note},
    mask::Mask,
    operations::{Operations, Serializable, is_marker},
    orders::Precedence,
    outcome::Comparison,
    reference::{References, SerialRunner, actor},
    rules::{Rules, STATE},
};
use crate::{
    scenario::{Scenario, Serial},
    world::{Node, Op, Outcome, Run, Step, Warning},
};

/// At most so many orders of one set of workers are run.
pub(super) const MAX_ORDERS: usize = 120;

/// What the serial judge says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SerialVerdict {
    Right(Vec<Warning>),
    Wrong(Accusation, Vec<Warning>),
    Unknown(String),
    /// Too many orders to try them all; other judges decide.
    Abstains,
}

/// An outcome's digest, who was hit by a fault, and who had ended well before.
type Ending = ([u8; 32], BTreeSet<usize>, BTreeSet<usize>);

/// The serial judge of a scenario.
#[derive(Debug)]
pub(super) struct SerialJudge {
    rules: Rules,
    precedence: Precedence,
    /// The world before the first step.
    initial: BTreeMap<String, Node>,
    /// Serial runs so far.
    pub(super) references: References,
    /// Distinct outcomes that whole workers in some order explain, or do not.
    cache: BTreeMap<Ending, Whole>,
}

/// What the orders of whole workers say of an outcome.
#[derive(Clone, Debug)]
enum Whole {
    Fits(SerialVerdict),
    /// The nearest order and the differences from it; `all`: every order was tried.
    None {
        nearest: Option<Vec<usize>>,
        differences: Vec<String>,
        all: bool,
        heavy: Option<String>,
        warnings: Vec<Warning>,
    },
}

/// The search for an order that gives one outcome.
struct Search<'a> {
    names: Vec<&'a str>,
    outcome: &'a Outcome,
    /// Files that failed and killed workers may have left behind.
    left_behind: BTreeSet<String>,
    /// The number of differences from the nearest order, the order, and what differs.
    fewest: usize,
    nearest: Option<Vec<usize>>,
    differences: Vec<String>,
    /// Every order was tried.
    all: bool,
    /// A content that fits only where most of it is masked.
    heavy: Option<String>,
    warnings: BTreeSet<String>,
}

impl SerialJudge {
    pub(super) fn new(scenario: &Scenario, rules: Rules, initial: BTreeMap<String, Node>) -> SerialJudge {
        let precedence = Precedence::new(&scenario.workers);
        SerialJudge { rules, precedence, initial, references: References::default(), cache: BTreeMap::new() }
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
        hit: &BTreeSet<usize>,
        runner: &mut dyn SerialRunner,
    ) -> Result<SerialVerdict, OracleError> {
        let sure = &acknowledged(run, hit) | &promised(scenario, run, hit);
        let digest = (outcome_digest(outcome), hit.clone(), sure);
        let whole = match self.cache.get(&digest) {
            Some(known) => known.clone(),
            None => {
                let found = self.whole_workers(scenario, run, outcome, hit, runner)?;
                self.cache.insert(digest, found.clone());
                found
            }
        };
        let (nearest, differences, all, heavy, warnings) = match whole {
            Whole::Fits(verdict) => return Ok(verdict),
            Whole::None { nearest, differences, all, heavy, warnings } => (nearest, differences, all, heavy, warnings),
        };
        let everyone: BTreeSet<usize> = (0..scenario.workers.len()).collect();
        let feasible = !self.references.feasible(&everyone).is_empty();
        let mut cycle = Vec::new();
        if scenario.oracle.serial == Serial::Operations && (feasible || run.steps.iter().any(is_marker)) {
            match self.operations(scenario, run, outcome, hit) {
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
        Ok(SerialVerdict::Wrong(Accusation::Serial { nearest, differences, cycle }, warnings))
    }

    /// Tries orders of whole workers.
    fn whole_workers(
        &mut self,
        scenario: &Scenario,
        run: &Run,
        outcome: &Outcome,
        hit: &BTreeSet<usize>,
        runner: &mut dyn SerialRunner,
    ) -> Result<Whole, OracleError> {
        let failed = &failed_workers(scenario, outcome) - hit;
        let mut search = Search {
            names: scenario.workers.iter().map(|worker| worker.name.as_str()).collect(),
            outcome,
            left_behind: BTreeSet::new(),
            fewest: usize::MAX,
            nearest: None,
            differences: Vec::new(),
            all: true,
            heavy: None,
            warnings: BTreeSet::new(),
        };
        let promised = promised(scenario, run, hit);
        for attempt in attempts(scenario.workers.len(), &failed, hit, &promised, &acknowledged(run, hit)) {
            // What only those made whose work is gone is left behind too (their lock file); after a power cut anybody's.
            let gone = (0..scenario.workers.len()).filter(|worker| !attempt.participants.contains(worker));
            let makers = match attempt.kind {
                Leniency::Lost if power_cut(run).is_none() => &(hit | &gone.collect()),
                _ => &attempt.loose,
            };
            search.left_behind = left_behind(&run.steps, outcome, makers, &self.initial);
            let orders = self.orders(&run.steps, &attempt.participants, scenario.workers.len());
            let mut budget = MAX_ORDERS.saturating_sub(self.references.tried(&attempt.participants));
            for masked in [false, true] {
                for order in &orders {
                    if !self.references.knows(order) {
                        if budget == 0 {
                            search.all = false;
                            continue;
                        }
                        budget -= 1;
                    }
                    if self.fits(&mut search, &attempt, order, masked, runner)? {
                        let warnings = search.warnings.into_iter().map(note).collect();
                        return Ok(Whole::Fits(match attempt.kind {
                            Leniency::None => SerialVerdict::Right(warnings),
                            Leniency::Failed => {
                                SerialVerdict::Wrong(worker_failed(scenario, outcome, &failed), warnings)
                            }
                            Leniency::Lost => {
                                let sure = |w: &usize| !hit.contains(w) || promised.contains(w);
                                let gone = |w: &usize| !attempt.participants.contains(w) && sure(w);
                                let workers = (0..scenario.workers.len()).filter(gone).map(actor).collect();
                                SerialVerdict::Wrong(Accusation::LostAfterCrash { workers }, warnings)
                            }
                        }));
                    }
                }
            }
        }
        let Search { nearest, differences, all, heavy, warnings, .. } = search;
        Ok(Whole::None { nearest, differences, all, heavy, warnings: warnings.into_iter().map(note).collect() })
    }

    /// Compares with one order; false also when the order is infeasible or has no noise to mask.
    fn fits(
        &mut self,
        search: &mut Search<'_>,
        attempt: &Attempt,
        order: &[usize],
        masked: bool,
        runner: &mut dyn SerialRunner,
    ) -> Result<bool, OracleError> {
        let (reference, noise) = if masked {
            match self.references.noise(order, &search.names, &self.rules, runner)? {
                Some((reference, noise)) => (reference, Some(noise)),
                None => return Ok(false),
            }
        } else {
            match self.references.get(order, runner)? {
                Some(reference) => (reference, None),
                None => return Ok(false),
            }
        };
        search.warnings.extend(noise.iter().flat_map(|noise| noise.warnings.iter().cloned()));
        let Some(expected) = reference.outcome().filter(|_| noise.is_none_or(|noise| !noise.is_empty())) else {
            return Ok(false);
        };
        let comparison =
            Comparison { rules: &self.rules, noise, loose: &attempt.loose, left_behind: &search.left_behind };
        let compared = comparison.compare(expected, search.outcome, &search.names);
        if compared.equal() && compared.heavy.is_empty() {
            if let Some(noise) = noise {
                search.warnings.insert(format!("masked as environment: {}", list(&noise.places())));
            }
            search.warnings.extend(compared.left_behind.iter().map(|path| format!("left behind: {path}")));
            return Ok(true);
        }
        if compared.equal() {
            search.heavy = compared.heavy.first().cloned();
        } else if attempt.kind == Leniency::None && compared.differences.len() < search.fewest {
            search.fewest = compared.differences.len();
            search.nearest = Some(order.to_vec());
            search.differences = compared.differences;
        }
        Ok(false)
    }

    /// Judges by operations; `Err` is the cycle in words.
    fn operations(
        &self,
        scenario: &Scenario,
        run: &Run,
        outcome: &Outcome,
        hit: &BTreeSet<usize>,
    ) -> Result<SerialVerdict, Vec<String>> {
        let steps = match power_cut(run) {
            None => Cow::Borrowed(&run.steps),
            // The steps say nothing of a disk that is not as they left it.
            Some((_, None)) => return Err(Vec::new()),
            Some((at, Some(moment))) => Cow::Owned(undone(&run.steps, moment, at)),
        };
        let operations = Operations::of(&steps, scenario.workers.len());
        let failed = &self.unusual_failures(scenario, outcome) - hit;
        // An operation that a fault cut short is not excused by the order of the others: it must have done nothing.
        let left = left_behind(&steps, outcome, hit, &self.initial);
        if let Some((worker, path)) = hit.iter().find_map(|w| Some((w, operations.half_done(&steps, *w, &left)?))) {
            let name = scenario.workers.get(*worker).map_or("?", |worker| worker.name.as_str());
            return Err(vec![format!("{name}'s last operation was cut short after it had changed {path}")]);
        }
        let failure = || SerialVerdict::Wrong(worker_failed(scenario, outcome, &failed), Vec::new());
        match operations.serializable(&steps, &BTreeSet::new()) {
            Serializable::Yes if !failed.is_empty() => Ok(failure()),
            Serializable::Yes => {
                let inferred = !operations.marked || operations.cut;
                Ok(SerialVerdict::Right(if inferred { vec![note("operations inferred")] } else { Vec::new() }))
            }
            Serializable::WithoutRepeatedReads => Ok(SerialVerdict::Unknown(
                "whether a worker relied on a read that it made twice cannot be seen: mark operations (.noclobber/op)"
                    .to_owned(),
            )),
            // Right but for workers that failed, whatever they saw when they did; what they had written by then counts.
            Serializable::No(cycle)
                if !failed.is_empty()
                    && operations.serializable(&steps, &failed) == Serializable::Yes
                    && !operations.change_contents(&steps, &of_workers(&cycle, &failed)) =>
            {
                Ok(failure())
            }
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

/// The operations of these workers on a cycle.
fn of_workers(cycle: &[((usize, usize), graph::Edge)], workers: &BTreeSet<usize>) -> Vec<(usize, usize)> {
    cycle.iter().map(|(operation, _)| *operation).filter(|(worker, _)| workers.contains(worker)).collect()
}

/// The steps without what those between a moment and a power cut did: it did not reach the disk. They keep their numbers.
fn undone(steps: &[Step], moment: usize, cut: usize) -> Vec<Step> {
    let mut steps = steps.to_vec();
    for step in steps.get_mut(moment..cut).into_iter().flatten() {
        *step = Step {
            op: Op::Sleep,
            path: None,
            path2: None,
            inode: None,
            accesses: Vec::new(),
            effects: Vec::new(),
            ..step.clone()
        };
    }
    steps
}

/// A list for a warning, cut to a readable length.
fn list(items: &[String]) -> String {
    const MOST: usize = 10;
    let shown = items.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if items.len() > MOST { format!("{shown} and {} more", items.len() - MOST) } else { shown }
}
