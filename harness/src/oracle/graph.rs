//! Conflict graphs: who must come before whom, by the steps in which they met.
//!
//! Nodes are operations (or whole workers). There is an edge from one node to another when a step of the first came
//! before a step of the second and the two conflict. Without a cycle the run has the same result as running the nodes
//! one after the other in a topological order (conflict serializability: Bernstein, Hadzilacos, Goodman, *Concurrency
//! Control and Recovery in Database Systems*, 1987, chapter 2).

use std::collections::{BTreeMap, BTreeSet};

use crate::world::{Access, Mode, Object, Step};

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

    /// What is left after removing, again and again, nodes that nothing leads to.
    fn not_peeled(&self) -> BTreeSet<usize> {
        let mut incoming = vec![0usize; self.edges.len()];
        self.edges.iter().flatten().for_each(|to| incoming[*to] += 1);
        let mut ready: Vec<usize> = (0..incoming.len()).filter(|node| incoming[*node] == 0).collect();
        let mut left: BTreeSet<usize> = (0..incoming.len()).collect();
        while let Some(node) = ready.pop() {
            left.remove(&node);
            for to in &self.edges[node] {
                incoming[*to] -= 1;
                if incoming[*to] == 0 {
                    ready.push(*to);
                }
            }
        }
        left
    }

    /// The nodes of one cycle, if there is one, of two nodes where possible. What is left after peeling off everything
    /// that lies on no cycle leads to one.
    pub(super) fn cycle(&self) -> Option<Vec<usize>> {
        let mut reversed = Graph::new(self.edges.len());
        for (from, targets) in self.edges.iter().enumerate() {
            targets.iter().for_each(|to| reversed.add(*to, from));
        }
        let left: BTreeSet<usize> = &self.not_peeled() & &reversed.not_peeled();
        for from in &left {
            if let Some(to) = self.edges[*from].iter().find(|to| self.edges[**to].contains(from)) {
                return Some(vec![*from, *to]);
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
///
/// Edges that follow from others are left out: whatever came before the last write of an object is ordered before
/// later steps through that write. So a long run stays cheap, and cycles and orders are the same. Accesses with ranges,
/// record locks and accesses whose conflicts are filtered do not chain like that: they keep every pair, until a write
/// without a range comes after them.
#[derive(Debug)]
pub(super) struct Builder {
    graph: Graph,
    chained: BTreeMap<Object, Frontier>,
    unchained: BTreeMap<Object, Vec<(usize, usize, Access)>>,
    /// The first pair of steps behind each edge.
    evidence: BTreeMap<(usize, usize), Edge>,
}

/// The accesses of an object that later ones still have to be ordered after: node -> its last step.
#[derive(Debug, Default)]
struct Frontier {
    write: BTreeMap<usize, usize>,
    reads: BTreeMap<usize, usize>,
    adds: BTreeMap<usize, usize>,
}

impl Builder {
    /// For that many nodes.
    pub(super) fn new(nodes: usize) -> Builder {
        Builder {
            graph: Graph::new(nodes),
            chained: BTreeMap::new(),
            unchained: BTreeMap::new(),
            evidence: BTreeMap::new(),
        }
    }

    /// Adds the next step of the trace, by what it touched, to a node. Fair time's order (`Step::barrier`) is no
    /// conflict: a wake-up carries no data.
    pub(super) fn step(&mut self, number: usize, node: usize, accesses: &[Access]) {
        for access in accesses {
            let mut earlier: Vec<(usize, usize)> = Vec::new();
            let seen = self.unchained.entry(access.object.clone()).or_default();
            earlier.extend(seen.iter().filter(|(_, _, e)| e.conflicts(access)).map(|(node, step, _)| (*node, *step)));
            let Frontier { write, reads, adds } = self.chained.entry(access.object.clone()).or_default();
            // What has no range meets what has one, and the other way round.
            let (met, own): (Vec<&BTreeMap<usize, usize>>, _) = match access.mode {
                Mode::Write => (vec![write, reads, adds], None),
                Mode::Read => (vec![write, adds], Some(true)),
                Mode::Add => (vec![write, reads], Some(false)),
            };
            earlier.extend(met.into_iter().flatten().map(|(node, step)| (*node, *step)));
            if access.range.is_some() || matches!(access.object, Object::Record(_)) {
                if !seen.iter().any(|(other, _, e)| *other == node && e == access) {
                    seen.push((node, number, access.clone()));
                }
            } else {
                match own {
                    Some(true) => drop(reads.insert(node, number)),
                    Some(false) => drop(adds.insert(node, number)),
                    None => {
                        *write = BTreeMap::from([(node, number)]);
                        reads.clear();
                        adds.clear();
                        seen.clear();
                    }
                }
            }
            for (other, from_step) in earlier {
                self.edge(other, from_step, node, number);
            }
        }
    }

    /// Adds an edge with the steps behind it.
    pub(super) fn edge(&mut self, from: usize, from_step: usize, to: usize, to_step: usize) {
        if from != to {
            self.graph.add(from, to);
            self.evidence.entry((from, to)).or_insert(Edge { from_step, to_step });
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
            builder.step(number, node, &step.accesses);
        }
    }
    builder.finish().0
}
