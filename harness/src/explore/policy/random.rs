//! Random walk.

use super::Pick;
use crate::{
    explore::rng::Rng,
    world::{Choice, View},
};

/// Each possible choice with the same probability, at each choice point anew.
pub(crate) struct Random {
    rng: Rng,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random { rng: Rng::new(seed, 1) }
    }
}

impl Pick for Random {
    fn pick(&mut self, _view: &View<'_>, options: &[Choice]) -> Option<Choice> {
        options.get(self.rng.below(options.len() as u64) as usize).copied()
    }
}
