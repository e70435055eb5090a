//! Sampling: random walk, POS and PCT, alone or in turns.

use std::collections::BTreeMap;

use super::rng::splitmix;
use crate::world::{Plan, Policy};

/// One way to sample a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sampler {
    Random,
    Pos,
    Pct(u32),
}

/// The portfolio's turns. No single one wins: random walk finds shallow bugs most often, POS those that need three
/// actors, PCT those whose depth is small however long the programs are.
pub(crate) const TURNS: [Sampler; 4] = [Sampler::Random, Sampler::Pos, Sampler::Pct(3), Sampler::Pct(4)];

/// Samples in turns, and counts what was run.
#[derive(Clone, Debug)]
pub(crate) struct Portfolio {
    turns: Vec<Sampler>,
    seed: u64,
    /// The next run's number.
    next: u64,
    /// Every how manyeth run is ours (partition).
    stride: u64,
    /// Assumed number of choice points, for PCT: that of the first run.
    length: u64,
    /// PCT's depth -> runs of it.
    pct_runs: BTreeMap<u32, u64>,
}

impl Portfolio {
    pub(crate) fn new(turns: &[Sampler], seed: u64) -> Self {
        Portfolio { turns: turns.to_vec(), seed, next: 0, stride: 1, length: 0, pct_runs: BTreeMap::new() }
    }

    /// Only every `of`-th run, from `number`.
    pub(crate) fn partition(self, number: u64, of: u64) -> Self {
        Portfolio { next: number, stride: of.max(1), ..self }
    }

    /// Learns how long runs are, from the first one.
    pub(crate) fn measured(&mut self, choices: usize) {
        if self.length == 0 {
            self.length = choices as u64;
        }
    }

    pub(crate) fn next_plan(&mut self) -> Plan {
        let (plan, sampler) = self.plan(self.next);
        if let Sampler::Pct(depth) = sampler {
            *self.pct_runs.entry(depth).or_default() += 1;
        }
        self.next += self.stride;
        plan
    }

    pub(crate) fn upcoming(&self, n: usize) -> Vec<Plan> {
        (0..n as u64).map(|i| self.plan(self.next + i * self.stride).0).collect()
    }

    fn plan(&self, number: u64) -> (Plan, Sampler) {
        let sampler = self.turns[(number % self.turns.len() as u64) as usize];
        let seed = splitmix(self.seed ^ splitmix(number));
        let policy = match sampler {
            Sampler::Random => Policy::Random { seed },
            Sampler::Pos => Policy::Pos { seed },
            Sampler::Pct(depth) => Policy::Pct { seed, depth, length: self.length.max(1) },
        };
        (Plan::from_policy(policy), sampler)
    }

    /// For each depth of PCT that was run: the probability that every run of it missed a bug of that depth.
    pub(crate) fn miss_bound(&self, actors: usize) -> Option<BTreeMap<String, f64>> {
        let bound = |(depth, runs): (&u32, &u64)| {
            (format!("pct-{depth}"), miss_bound(actors as u64, self.length, *depth, *runs))
        };
        (!self.pct_runs.is_empty()).then(|| self.pct_runs.iter().map(bound).collect())
    }
}

/// The probability that `runs` runs of PCT all miss a bug of `depth`, with n actors and k choice points, at most:
/// `(1 - 1/(n·k^(d-1)))^runs` (Burckhardt et al. 2010).
pub fn miss_bound(n: u64, k: u64, depth: u32, runs: u64) -> f64 {
    let places = n.max(1) as f64 * (k.max(1) as f64).powf(f64::from(depth.max(1)) - 1.0);
    (1.0 - 1.0 / places).powf(runs as f64)
}
