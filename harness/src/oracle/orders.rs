//! The serial orders of a set of workers that respect `after`, one after the other, never all at once.

use std::collections::BTreeSet;

use crate::scenario::Worker;

/// Which workers must end before which, transitively.
#[derive(Clone, Debug)]
pub(super) struct Precedence(Vec<BTreeSet<usize>>);

impl Precedence {
    /// From the workers' `after` lists.
    pub(super) fn new(workers: &[Worker]) -> Precedence {
        let mut before: Vec<BTreeSet<usize>> =
            workers.iter().map(|worker| worker.after.iter().copied().collect()).collect();
        // Transitive closure; as many passes as a chain can be long.
        for _ in 0..workers.len() {
            for at in 0..before.len() {
                let further: Vec<usize> = before[at].iter().filter_map(|b| before.get(*b)).flatten().copied().collect();
                before[at].extend(further);
            }
        }
        Precedence(before)
    }

    /// Whether an order respects it.
    pub(super) fn allows(&self, order: &[usize]) -> bool {
        order
            .iter()
            .enumerate()
            .all(|(at, worker)| !order[at + 1..].iter().any(|later| self.0[*worker].contains(later)))
    }

    /// The orders of these workers, lexicographically.
    pub(super) fn orders(&self, workers: &BTreeSet<usize>) -> Orders<'_> {
        Orders { precedence: self, workers: workers.iter().copied().collect(), chosen: Vec::new(), begun: false }
    }
}

/// Lazy enumeration of linear extensions: `chosen` is the current order; the next one differs as late as possible.
pub(super) struct Orders<'a> {
    precedence: &'a Precedence,
    workers: Vec<usize>,
    chosen: Vec<usize>,
    begun: bool,
}

impl Orders<'_> {
    fn can_follow(&self, worker: usize) -> bool {
        !self.chosen.contains(&worker)
            && self.precedence.0[worker].iter().all(|b| !self.workers.contains(b) || self.chosen.contains(b))
    }

    /// Appends the first possible worker again and again.
    fn descend(&mut self) -> bool {
        while self.chosen.len() < self.workers.len() {
            match self.workers.iter().copied().find(|worker| self.can_follow(*worker)) {
                Some(worker) => self.chosen.push(worker),
                None => return false,
            }
        }
        true
    }
}

impl Iterator for Orders<'_> {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        if !self.begun {
            self.begun = true;
            return self.descend().then(|| self.chosen.clone());
        }
        while let Some(last) = self.chosen.pop() {
            let next = self.workers.iter().copied().find(|worker| *worker > last && self.can_follow(*worker));
            if let Some(next) = next {
                self.chosen.push(next);
                return self.descend().then(|| self.chosen.clone());
            }
        }
        None
    }
}
