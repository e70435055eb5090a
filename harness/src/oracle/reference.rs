//! The serial runs of a scenario: each order is run once, and a second time in another environment when noise matters.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    error::{OracleError, RunError},
    outcome::OutcomeNoise,
    rules::Rules,
};
use crate::world::{ActorId, Ended, Op, Outcome, Run, Variant};

/// Runs serial orders for the judge. Provided by whoever drives the world.
pub trait SerialRunner {
    /// Runs these actors one after the other, each to its end (an `idle` worker until it is idle), without faults and
    /// without the actors that are not in `order`; `after` a worker that is not in it counts as fulfilled. State and
    /// check are run as for any run. A worker that cannot finish alone ends the run (`Ended::Deadlock`, `Livelock`,
    /// `Infeasible` or `Limit`); that is no error.
    fn run_serial(&mut self, order: &[ActorId], variant: Variant) -> Result<Run, RunError>;
}

/// One serial order and what it leads to.
#[derive(Debug)]
pub(super) struct Reference {
    /// The order.
    pub(super) order: Vec<usize>,
    /// The run.
    pub(super) run: Run,
    /// What differs in another environment; `None` until it was asked for.
    noise: Option<OutcomeNoise>,
}

impl Reference {
    /// The final state, present in every reference.
    pub(super) fn outcome(&self) -> Option<&Outcome> {
        self.run.outcome.as_ref()
    }
}

/// Every serial order run so far; an infeasible one is remembered as `None`.
#[derive(Debug, Default)]
pub(super) struct References {
    tried: BTreeMap<Vec<usize>, Option<Reference>>,
}

impl References {
    /// The reference of an order, run now if it was not yet; `None`: infeasible.
    pub(super) fn get(
        &mut self,
        order: &[usize],
        runner: &mut dyn SerialRunner,
    ) -> Result<Option<&Reference>, OracleError> {
        if !self.tried.contains_key(order) {
            let run = serial(order, 0, runner)?;
            let reference = run.map(|run| Reference { order: order.to_vec(), run, noise: None });
            self.tried.insert(order.to_vec(), reference);
        }
        Ok(self.tried[order].as_ref())
    }

    /// The noise of a feasible order, found now if it was not yet.
    pub(super) fn noise(
        &mut self,
        order: &[usize],
        names: &[&str],
        rules: &Rules,
        runner: &mut dyn SerialRunner,
    ) -> Result<Option<(&Reference, &OutcomeNoise)>, OracleError> {
        if let Some(Some(reference)) = self.tried.get_mut(order)
            && reference.noise.is_none()
        {
            reference.noise = Some(match serial(order, 1, runner)? {
                Some(again) => noise_between(&reference.run, &again, names, rules),
                None => OutcomeNoise::impossible(),
            });
        }
        let reference = self.tried.get(order).and_then(Option::as_ref);
        Ok(reference.and_then(|reference| reference.noise.as_ref().map(|noise| (reference, noise))))
    }

    /// How many orders of exactly these workers were run.
    pub(super) fn tried(&self, workers: &BTreeSet<usize>) -> usize {
        self.tried.keys().filter(|order| same_set(order, workers)).count()
    }

    /// Whether this order was run.
    pub(super) fn knows(&self, order: &[usize]) -> bool {
        self.tried.contains_key(order)
    }

    /// The feasible orders of exactly these workers run so far.
    pub(super) fn feasible(&self, workers: &BTreeSet<usize>) -> Vec<&Reference> {
        self.tried.values().flatten().filter(|reference| same_set(&reference.order, workers)).collect()
    }
}

fn same_set(order: &[usize], workers: &BTreeSet<usize>) -> bool {
    order.len() == workers.len() && order.iter().all(|worker| workers.contains(worker))
}

/// Runs one order; `None` when it is infeasible.
fn serial(order: &[usize], variant: u32, runner: &mut dyn SerialRunner) -> Result<Option<Run>, OracleError> {
    let actors: Vec<ActorId> = order.iter().map(|worker| actor(*worker)).collect();
    match runner.run_serial(&actors, Variant { number: variant }) {
        Err(source) => Err(OracleError::SerialRun { order: actors, source }),
        Ok(Run { ended: Ended::LostControl(why), .. }) => Err(OracleError::SerialControl { order: actors, why }),
        Ok(run) if run.ended == Ended::Done && run.outcome.is_some() => Ok(Some(run)),
        Ok(_) => Ok(None),
    }
}

/// Worker number -> actor.
pub(super) fn actor(worker: usize) -> ActorId {
    ActorId(u16::try_from(worker).unwrap_or(u16::MAX))
}

fn noise_between(a: &Run, b: &Run, names: &[&str], rules: &Rules) -> OutcomeNoise {
    let (Some(left), Some(right)) = (&a.outcome, &b.outcome) else { return OutcomeNoise::impossible() };
    let ops = |run: &Run, worker: usize| -> Vec<Op> {
        run.steps.iter().filter(|step| usize::from(step.actor.0) == worker).map(|step| step.op).collect()
    };
    let other = (0..names.len()).find(|worker| ops(a, *worker) != ops(b, *worker));
    OutcomeNoise::between(left, right, names, rules, other.map(|worker| names[worker]))
}
