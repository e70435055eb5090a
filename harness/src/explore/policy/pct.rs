//! Probabilistic concurrency testing: S. Burckhardt, P. Kothari, M. Musuvathi, S. Nagarakatte, "A Randomized Scheduler
//! with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010.

use std::collections::BTreeMap;

use super::Pick;
use crate::{
    explore::rng::Rng,
    world::{Choice, View},
};

/// Every actor has a random priority and the highest runs; at `depth - 1` random points of the assumed length the
/// actor about to run falls to one of the lowest priorities.
///
/// With n actors and k choice points, one run finds a bug of depth d with probability at least 1 / (n·k^(d-1)).
/// Deviation: an actor draws its priority when it is first seen, so that n need not be known before; wake-ups
/// (adversarial time) have priorities of their own.
pub(crate) struct Pct {
    rng: Rng,
    priority: BTreeMap<Choice, u64>,
    /// Choice point -> the priority that its runner falls to.
    change: BTreeMap<u64, u64>,
    /// The last choice point at which a change was applied: asked again for it, nothing changes a second time.
    changed: Option<u64>,
}

impl Pct {
    pub(crate) fn new(seed: u64, depth: u32, length: u64) -> Self {
        let mut rng = Rng::new(seed, 3);
        let length = length.max(1);
        let wanted = usize::try_from(u64::from(depth.saturating_sub(1)).min(length)).unwrap_or(usize::MAX);
        let mut change = BTreeMap::new();
        while change.len() < wanted {
            // After the p-th step, p in 1..=k, distinct: coinciding points would waste one.
            let low = change.len() as u64 + 1;
            change.entry(1 + rng.below(length)).or_insert(low);
        }
        Pct { rng, priority: BTreeMap::new(), change, changed: None }
    }
}

impl Pick for Pct {
    fn pick(&mut self, view: &View<'_>, options: &[Choice]) -> Option<Choice> {
        for choice in options {
            if !self.priority.contains_key(choice) {
                // All initial priorities lie above those of the change points.
                self.priority.insert(*choice, self.rng.next() | (1 << 63));
            }
        }
        let highest = |priority: &BTreeMap<Choice, u64>| options.iter().copied().max_by_key(|c| priority[c]);
        let number = view.number as u64;
        if let Some(low) = self.change.get(&number)
            && self.changed != Some(number)
        {
            self.changed = Some(number);
            self.priority.insert(highest(&self.priority)?, *low);
        }
        highest(&self.priority)
    }
}
