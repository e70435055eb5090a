//! One search as several independent parts, for several machines.
//!
//! The top levels of the tree are expanded fully (every enabled actor, sleep sets kept), level by level, until the next
//! level has at least 16·N nodes. Every part does this alike, so all know the same nodes without talking: node i
//! belongs to part i mod N. Below its nodes a part explores by source-DPOR. Races that point above need nothing: every
//! branch is there. A node of the top is known by the run that first came to it, so each of these runs belongs to the
//! part of its node, and only that part counts it.

use super::races::Race;

/// A part of a search, and what is known of the top while it is expanded.
#[derive(Debug)]
pub(crate) struct Part {
    /// Which part, from 0.
    pub(crate) number: usize,
    /// How many parts.
    pub(crate) of: usize,
    /// How many levels are expanded.
    pub(crate) level: usize,
    divided: bool,
    /// The runs that expanded the top: the nodes of each, and its races.
    runs: Vec<(Vec<usize>, Vec<Race>)>,
    ours: Vec<bool>,
}

impl Part {
    /// Part `number` (from 0) of `of`.
    pub(crate) fn new(number: usize, of: usize) -> Self {
        Part { number, of: of.max(1), level: 0, divided: false, runs: Vec::new(), ours: Vec::new() }
    }

    pub(crate) fn divided(&self) -> bool {
        self.divided
    }

    /// The depth below which races count.
    pub(crate) fn depth(&self) -> usize {
        self.level
    }

    /// A run of the expansion, in order.
    pub(crate) fn expanded(&mut self, path: Vec<usize>, races: Vec<Race>) {
        self.runs.push((path, races));
    }

    /// Ends the expansion. Returns the runs that are ours.
    pub(crate) fn divide(&mut self) -> Vec<(Vec<usize>, Vec<Race>)> {
        self.divided = true;
        // Each run of the expansion took a branch that none before it took, and each node below was first reached by
        // one of them: numbering the runs numbers the nodes (and the runs that ended above, one each).
        self.ours = (0..self.runs.len()).map(|i| i % self.of == self.number).collect();
        let runs = std::mem::take(&mut self.runs);
        runs.into_iter().zip(&self.ours).filter(|(_, ours)| **ours).map(|(run, _)| run).collect()
    }

    /// Of the runs of the expansion, in order: which are ours.
    pub(crate) fn ours(&self) -> Vec<bool> {
        self.ours.clone()
    }
}
