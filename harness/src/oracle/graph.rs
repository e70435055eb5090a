//! Conflict graphs: who must come before whom, by the steps in which they met.
//!
//! Nodes are operations (or whole workers). There is an edge from one node to another when a step of the first came
//! before a step of the second and the two conflict. Without a cycle the run has the same result as running the nodes
//! one after the other in a topological order (conflict serializability: Bernstein, Hadzilacos, Goodman, *Concurrency
//! Control and Recovery in Database Systems*, 1987, chapter 2).

use std::collections::{BTreeMap, BTreeSet};

use crate::world::{Access, Object, Step};

/// A conflict graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Graph {
    edges: Vec<BTreeSet<usize>>,
}

/// An edge with the steps it comes from (indices into the trace).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from_step: usize,
    pub(super) to_step: usize,
}

impl Graph {
    /// A graph of that many nodes without edges.
    pub(super) fn new(nodes: usize) -> Graph {
        Graph { edges: vec![BTreeSet::new(); nodes] }
    }

    /// Adds an edge; loops are left out.
    pub(super) fn add(&mut self, from: usize, to: usize) {
        if from != to {
            self.edges[from].insert(to);
        }
    }

    /// A topological order, the smallest node first wherever there is a choice; `None` when there is a cycle.
    pub(super) fn order(&self) -> Option<Vec<usize>> {
        let mut incoming = vec![0usize; self.edges.len()];
        for to in self.edges.iter().flatten() {
            incoming[*to] += 1;
        }
        let mut ready: BTreeSet<usize> = (0..incoming.len()).filter(|node| incoming[*node] == 0).collect();
        let mut order = Vec::new();
        while let Some(node) = ready.pop_first() {
            order.push(node);
            for to in &self.edges[node] {
                incoming[*to] -= 1;
                if incoming[*to] == 0 {
                    ready.insert(*to);
                }
            }
        }
        (order.len() == self.edges.len()).then_some(order)
    }

    /// The nodes of one cycle, if there is one: what is left after peeling off everything that lies on none.
    pub(super) fn cycle(&self) -> Option<Vec<usize>> {
        let mut left: BTreeSet<usize> = (0..self.edges.len()).collect();
        loop {
            let before = left.len();
            let lies_between = |node: &usize| {
                self.edges[*node].iter().any(|to| left.contains(to))
                    && left.iter().any(|from| self.edges[*from].contains(node))
            };
            let kept: BTreeSet<usize> = left.iter().copied().filter(lies_between).collect();
            left = kept;
            if left.len() == before {
                break;
            }
        }
        let mut path = vec![*left.first()?];
        loop {
            let next = *self.edges[*path.last()?].iter().find(|to| left.contains(to))?;
            if let Some(at) = path.iter().position(|node| *node == next) {
                return Some(path.split_off(at));
            }
            path.push(next);
        }
    }
}

/// Collects steps, each given to a node, and draws the edges between nodes that conflict.
#[derive(Debug)]
pub(super) struct Builder {
    graph: Graph,
    /// For each object: which node touched it how, and where first.
    seen: BTreeMap<Object, Vec<(usize, Access)>>,
    /// The first pair of steps behind each edge.
    evidence: BTreeMap<(usize, usize), Edge>,
    /// Where each node first touched an object in this way.
    at: BTreeMap<(Object, usize), usize>,
}

impl Builder {
    /// For that many nodes.
    pub(super) fn new(nodes: usize) -> Builder {
        Builder { graph: Graph::new(nodes), seen: BTreeMap::new(), evidence: BTreeMap::new(), at: BTreeMap::new() }
    }

    /// Adds the next step of the trace, by what it touched, to a node. `meets` decides whether a conflict with an
    /// earlier access counts. Fair time's order (`Step::barrier`) is no conflict: a wake-up carries no data.
    pub(super) fn step(
        &mut self,
        number: usize,
        node: usize,
        accesses: &[Access],
        meets: impl Fn(&Access, &Access) -> bool,
    ) {
        for access in accesses {
            let seen = self.seen.entry(access.object.clone()).or_default();
            for (other, earlier) in seen.iter() {
                if *other != node && earlier.conflicts(access) && meets(earlier, access) {
                    self.graph.add(*other, node);
                    let from_step = self.at.get(&(access.object.clone(), *other)).copied().unwrap_or(0);
                    self.evidence.entry((*other, node)).or_insert(Edge { from_step, to_step: number });
                }
            }
            if !seen.iter().any(|(other, earlier)| *other == node && earlier == access) {
                seen.push((node, access.clone()));
            }
            self.at.insert((access.object.clone(), node), number);
        }
    }

    /// An order that holds anyway (a worker's operations one after the other).
    pub(super) fn ordered(&mut self, from: usize, to: usize) {
        self.graph.add(from, to);
    }

    /// The graph and the evidence for each edge.
    pub(super) fn finish(self) -> (Graph, BTreeMap<(usize, usize), Edge>) {
        (self.graph, self.evidence)
    }
}

/// The graph over whole workers, with every step.
pub(super) fn of_workers(steps: &[Step], workers: usize) -> Graph {
    let mut builder = Builder::new(workers);
    for (number, step) in steps.iter().enumerate() {
        let node = usize::from(step.actor.0);
        if node < workers {
            builder.step(number, node, &step.accesses, |_, _| true);
        }
    }
    builder.finish().0
}
