//! Partial-order sampling: X. Yuan, J. Yang, R. Gu, "Partial Order Aware Concurrency Sampling", CAV 2018.

use std::collections::BTreeMap;

use super::{Pick, conflict};
use crate::{
    explore::rng::Rng,
    world::{Access, Choice, Step, View},
};

/// Every pending step has a random priority; the highest runs; the steps that race with it get new ones.
///
/// Deviation: a pending step's footprint is what the world can predict, so that a race which shows only in the
/// executed footprint (a lock inside an opaque call) does not redraw a priority.
pub(crate) struct Pos {
    rng: Rng,
    priority: BTreeMap<Choice, u64>,
    /// What the last step touched; `None` when it depends on everything.
    last: Option<Option<Vec<Access>>>,
}

impl Pos {
    pub(crate) fn new(seed: u64) -> Self {
        Pos { rng: Rng::new(seed, 2), priority: BTreeMap::new(), last: None }
    }
}

impl Pick for Pos {
    fn pick(&mut self, view: &View<'_>, options: &[Choice]) -> Option<Choice> {
        // Asked again for the same point (somebody turned out to wait), `last` is gone and nothing is redrawn.
        if let Some(last) = self.last.take() {
            self.priority.retain(|choice, _| match (choice, &last) {
                (Choice::Step(actor), Some(touched)) => !conflict(touched, &(view.predict)(*actor)),
                _ => false,
            });
        }
        for choice in options {
            if !self.priority.contains_key(choice) {
                self.priority.insert(*choice, self.rng.next());
            }
        }
        options.iter().copied().max_by_key(|choice| self.priority[choice])
    }

    fn stepped(&mut self, step: &Step) {
        self.priority.remove(&Choice::Step(step.actor));
        self.last = Some((!step.barrier).then(|| step.accesses.clone()));
    }
}
