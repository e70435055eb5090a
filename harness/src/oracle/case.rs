//! What witnesses know besides a run.

use std::collections::BTreeMap;

use super::rules::Rules;
use crate::{scenario::Scenario, world::Node};

/// A scenario with the world its runs begin with.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The initial world (after setup).
    pub initial: &'a BTreeMap<String, Node>,
}

impl Case<'_> {
    /// The member that holds ids.
    pub(super) fn id_member(&self) -> &str {
        self.scenario.oracle.conserve.as_ref().map_or("id", |conserve| &conserve.id)
    }

    /// A worker's name.
    pub(super) fn worker(&self, number: usize) -> &str {
        self.scenario.workers.get(number).map_or("?", |worker| &worker.name)
    }

    /// Whether a path is not compared.
    pub(super) fn ignores(&self, path: &str) -> bool {
        // Malformed rules were refused before any run.
        Rules::new(&self.scenario.oracle).is_ok_and(|rules| rules.ignores(path))
    }
}
