//! Operations: what a worker that does several things one after the other is judged by.
//!
//! **Marked.** A step that looks up the path `.noclobber/op` ends one operation of its worker and begins the next. We
//! read this as conflict serializability over operations: the run is right when its conflict graph, with a node for
//! each operation and each worker's operations in program order, has no cycle. (Serial runs of single operations do
//! not exist for real programs, so outcomes cannot be compared; a graph without cycle proves that they would be
//! equal.)
//!
//! **Inferred.** Without marks only a worker that replaced a path (rename over it, or a rewrite in place) and then
//! opened it again *and read it* is cut, before its first lock attempt or shared read after the replacement. So every
//! operation begins with a read of its own; a replacement computed from an older read stays with that read. Every
//! step lies in exactly one operation.
//!
//! **The graph** has all steps except
//! - lock calls that succeeded: they order, but carry no data. An attempt that failed for good does carry data (the
//!   worker knows that the lock was held), so it meets the lock calls of others;
//! - failed attempts that were tried again in the same operation.
//!
//! When it has a cycle, it is drawn again without successful reads that the worker repeated through a new look-up
//! before it changed anything (peeking, then looking again under the lock). If that removes the cycle, nobody can
//! tell from outside which of the reads the worker relied on.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Builder, Edge, Graph};
use crate::world::{Access, Mode, Object, Op, Step};

/// The path whose look-up marks a boundary between operations.
pub const MARKER: &str = ".noclobber/op";

/// How the steps of a run are grouped.
#[derive(Clone, Debug)]
pub(super) struct Operations {
    /// For each step its operation (a node of the graph); `None` for actors outside the scenario.
    pub(super) node: Vec<Option<usize>>,
    /// For each operation its actor and number within the actor, from 0.
    pub(super) owner: Vec<(usize, usize)>,
    /// Some worker marks its operations.
    pub(super) marked: bool,
    /// Some worker was cut by inference.
    pub(super) cut: bool,
}

/// What the conflict graph over operations says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Serializable {
    /// No cycle.
    Yes,
    /// No cycle once repeated reads are left out.
    WithoutRepeatedReads,
    /// A cycle: operations as (actor, number), each with the steps that order it before the next.
    No(Vec<((usize, usize), Edge)>),
}

impl Operations {
    /// Groups the steps of a run of that many workers.
    pub(super) fn of(steps: &[Step], workers: usize) -> Operations {
        let shared = Shared::of(steps);
        let mut operations = Operations { node: vec![None; steps.len()], owner: Vec::new(), marked: false, cut: false };
        for worker in 0..workers {
            let own: Vec<usize> = (0..steps.len()).filter(|at| usize::from(steps[*at].actor.0) == worker).collect();
            let marks: Vec<usize> = (0..own.len()).filter(|at| is_marker(&steps[own[*at]])).collect();
            let cuts = if marks.is_empty() { inferred_cuts(steps, &own, worker, &shared) } else { marks.clone() };
            operations.marked |= !marks.is_empty();
            operations.cut |= marks.is_empty() && !cuts.is_empty();
            let mut number = 0;
            operations.owner.push((worker, number));
            for (position, step) in own.iter().enumerate() {
                // A marker at the very beginning ends nothing.
                if position > 0 && cuts.contains(&position) {
                    number += 1;
                    operations.owner.push((worker, number));
                }
                operations.node[*step] = Some(operations.owner.len() - 1);
            }
        }
        operations
    }

    /// Whether the run, but for these workers, is equivalent to a serial order of its operations.
    pub(super) fn serializable(&self, steps: &[Step], without: &BTreeSet<usize>) -> Serializable {
        let mut retried = self.retried(steps);
        retried.extend((0..steps.len()).filter(|number| without.contains(&usize::from(steps[*number].actor.0))));
        let (graph, evidence) = self.graph(steps, &retried);
        let Some(cycle) = graph.cycle() else { return Serializable::Yes };
        if !self.marked {
            let mut left_out = self.repeated_reads(steps);
            left_out.extend(&retried);
            if self.graph(steps, &left_out).0.cycle().is_none() {
                return Serializable::WithoutRepeatedReads;
            }
        }
        let next = |at: usize| cycle[(at + 1) % cycle.len()];
        let unknown = Edge { from_step: 0, to_step: 0 };
        let edges = (0..cycle.len())
            .map(|at| (self.owner[cycle[at]], evidence.get(&(cycle[at], next(at))).copied().unwrap_or(unknown)))
            .collect();
        Serializable::No(edges)
    }

    /// What the last operation of a worker changed, if anything but these files: a path.
    pub(super) fn half_done(&self, steps: &[Step], worker: usize, left_behind: &BTreeSet<String>) -> Option<String> {
        let last = self.owner.iter().rposition(|(owner, _)| *owner == worker)?;
        let own = steps.iter().enumerate().filter(|(at, _)| self.node[*at] == Some(last)).map(|(_, step)| step);
        let data = |access: &Access| !is_lock(&access.object) && !matches!(access.object, Object::Life(_));
        let changes = |step: &&Step| {
            !step.failed() && !is_marker(step) && step.accesses.iter().any(|a| data(a) && a.mode != Mode::Read)
        };
        own.filter(changes).find_map(|step| {
            let mut paths = step.path.iter().chain(&step.path2);
            paths.find(|path| !left_behind.contains(*path)).cloned()
        })
    }

    /// Whether one of these operations, each of a worker and its number, changed the content of a file that another
    /// worker reads or writes.
    pub(super) fn change_contents(&self, steps: &[Step], operations: &[(usize, usize)]) -> bool {
        let shared = Shared::of(steps);
        let content = |access: &Access| {
            matches!(access.object, Object::Content(_))
                && access.mode != Mode::Read
                && shared.touched.get(&access.object).is_some_and(|actors| actors.len() > 1)
        };
        steps.iter().zip(&self.node).any(|(step, node)| {
            let owner = node.map(|node| self.owner[node]);
            !step.failed()
                && owner.is_some_and(|owner| operations.contains(&owner))
                && step.accesses.iter().any(content)
        })
    }

    fn graph(&self, steps: &[Step], left_out: &BTreeSet<usize>) -> (Graph, BTreeMap<(usize, usize), Edge>) {
        let mut builder = Builder::new(self.owner.len());
        for pair in self.owner.windows(2).enumerate().filter(|(_, pair)| pair[0].0 == pair[1].0) {
            builder.ordered(pair.0, pair.0 + 1);
        }
        let mut locks: Vec<(usize, usize, &Access)> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let Some(node) = self.node[number] else { continue };
            if left_out.contains(&number) || is_marker(step) {
                continue;
            }
            let (lock, plain): (Vec<&Access>, Vec<&Access>) = step.accesses.iter().partition(|a| is_lock(&a.object));
            builder.step(number, node, &plain.into_iter().cloned().collect::<Vec<_>>());
            // A successful attempt first looked at the lock; what it learnt is only that it could have it.
            let took = !step.failed() && lock.iter().any(|access| access.mode != Mode::Read);
            for access in lock.into_iter().filter(|access| !took || access.mode != Mode::Read) {
                for (other, from_step, earlier) in &locks {
                    let carries_data = earlier.mode == Mode::Read || access.mode == Mode::Read;
                    if carries_data && earlier.conflicts(access) {
                        builder.edge(*other, *from_step, node, number);
                    }
                }
                locks.push((node, number, access));
            }
        }
        builder.finish()
    }

    /// Failed attempts that the same operation made again.
    fn retried(&self, steps: &[Step]) -> BTreeSet<usize> {
        let mut later = BTreeSet::new();
        let mut out = BTreeSet::new();
        for (number, step) in steps.iter().enumerate().rev() {
            let op = if step.op == Op::Create { Op::Open } else { step.op };
            let key = (self.node[number], op, &step.path, &step.path2, step.path.is_none().then_some(step.inode));
            if step.failed() && later.contains(&key) {
                out.insert(number);
            }
            later.insert(key);
        }
        out
    }

    /// Successful reads that the same operation repeated through a new look-up before its worker changed anything.
    fn repeated_reads(&self, steps: &[Step]) -> BTreeSet<usize> {
        let shared = Shared::of(steps);
        let mut again: BTreeMap<usize, BTreeSet<(bool, &str)>> = BTreeMap::new();
        let mut out = BTreeSet::new();
        for (number, step) in steps.iter().enumerate().rev() {
            let (Some(node), Some(path)) = (self.node[number], step.path.as_deref()) else { continue };
            let actor = usize::from(step.actor.0);
            let again = again.entry(node).or_default();
            if shared.changes(step) && !attempts_lock(step, actor, &shared) {
                again.clear();
                continue;
            }
            // Content is read again by opening the file, a stat or listing by the same kind of call.
            let content = matches!(step.op, Op::Open | Op::Read | Op::Map);
            if content || matches!(step.op, Op::Stat | Op::Access | Op::List) {
                if !step.failed() && again.contains(&(content, path)) {
                    out.insert(number);
                }
                if !matches!(step.op, Op::Read | Op::Map) {
                    again.insert((content, path));
                }
            }
        }
        out
    }
}

/// Looks up the marker path, from whatever directory.
pub(super) fn is_marker(step: &Step) -> bool {
    step.looks_up(MARKER)
}

fn is_lock(object: &Object) -> bool {
    matches!(object, Object::Flock(_) | Object::Record(_))
}

/// Who touches and who changes each object in a run.
#[derive(Debug, Default)]
struct Shared {
    touched: BTreeMap<Object, BTreeSet<usize>>,
    changed: BTreeMap<Object, BTreeSet<usize>>,
}

impl Shared {
    fn of(steps: &[Step]) -> Shared {
        let mut shared = Shared::default();
        for step in steps {
            let actor = usize::from(step.actor.0);
            for access in &step.accesses {
                shared.touched.entry(access.object.clone()).or_default().insert(actor);
                if access.mode != Mode::Read {
                    shared.changed.entry(access.object.clone()).or_default().insert(actor);
                }
            }
        }
        shared
    }

    /// Reads something that another worker changes.
    fn reads(&self, step: &Step, actor: usize) -> bool {
        let foreign = |object| self.changed.get(object).is_some_and(|actors| actors.iter().any(|a| *a != actor));
        step.accesses.iter().any(|a| a.mode == Mode::Read && !is_lock(&a.object) && foreign(&a.object))
    }

    /// Changes something that another worker touches.
    fn changes(&self, step: &Step) -> bool {
        let shared = |object| self.touched.get(object).is_some_and(|actors| actors.len() > 1);
        step.accesses.iter().any(|a| a.mode != Mode::Read && !is_lock(&a.object) && shared(&a.object))
    }

    /// Touches a name that another worker touches too.
    fn meets_on_name(&self, step: &Step, actor: usize) -> bool {
        let foreign = |object| self.touched.get(object).is_some_and(|actors| actors.iter().any(|a| *a != actor));
        let changes_here = |a: &Access| a.mode != Mode::Read || step.failed();
        step.accesses.iter().any(|a| matches!(a.object, Object::Entry(..)) && changes_here(a) && foreign(&a.object))
    }
}

/// An attempt to take a lock: a lock call, or an exclusive creation of a name that others use too.
fn attempts_lock(step: &Step, actor: usize, shared: &Shared) -> bool {
    let exclusive = match step.op {
        Op::Lock => return true,
        Op::Open | Op::Create => step.flags.iter().any(|flag| flag == "excl"),
        Op::Mkdir | Op::Link | Op::Symlink => true,
        _ => false,
    };
    exclusive && shared.meets_on_name(step, actor)
}

/// Positions (in `own`) before which an unmarked worker is cut.
fn inferred_cuts(steps: &[Step], own: &[usize], actor: usize, shared: &Shared) -> Vec<usize> {
    let mut cuts = Vec::new();
    // For each path the position of the worker's last change of it in the current operation.
    let mut replaced: BTreeMap<&str, usize> = BTreeMap::new();
    let mut appending: BTreeSet<&str> = BTreeSet::new();
    for (position, number) in own.iter().enumerate() {
        let step = &steps[*number];
        let Some(path) = step.path.as_deref() else { continue };
        if step.failed() {
            continue;
        }
        let has = |flag: &str| step.flags.iter().any(|f| f == flag);
        match step.op {
            Op::Rename | Op::Exchange => {
                replaced.remove(path);
                if let Some(to) = step.path2.as_deref() {
                    replaced.insert(to, position);
                }
            }
            Op::Write if has("append") || appending.contains(path) => {}
            Op::Write | Op::Truncate => drop(replaced.insert(path, position)),
            Op::Open | Op::Create => {
                if has("append") {
                    appending.insert(path)
                } else {
                    appending.remove(path)
                };
                if has("trunc") {
                    replaced.insert(path, position);
                } else if let Some(last) = replaced.get(path).copied()
                    && read_next(steps, &own[position + 1..], path)
                {
                    let cut = cut_position(steps, own, last + 1..position, actor, shared);
                    cuts.push(cut);
                    replaced.retain(|_, at| *at >= cut);
                }
            }
            _ => {}
        }
    }
    cuts
}

/// Whether the next thing done to the path's content is a read.
fn read_next(steps: &[Step], own: &[usize], path: &str) -> bool {
    let next = own.iter().map(|number| &steps[*number]).find(|step| {
        step.path.as_deref() == Some(path) && matches!(step.op, Op::Read | Op::Map | Op::Write | Op::Truncate)
    });
    next.is_some_and(|step| matches!(step.op, Op::Read | Op::Map))
}

/// The first lock attempt or shared read in a range of positions, or its end.
fn cut_position(steps: &[Step], own: &[usize], range: std::ops::Range<usize>, actor: usize, shared: &Shared) -> usize {
    let written: BTreeSet<_> = own[..range.start]
        .iter()
        .filter(|number| matches!(steps[**number].op, Op::Write | Op::Create | Op::Truncate | Op::Rename))
        .filter_map(|number| steps[*number].inode)
        .collect();
    let end = range.end;
    let begins = |step: &Step| {
        let looks = matches!(step.op, Op::Read | Op::Map | Op::List | Op::Open | Op::Stat | Op::Access);
        // A look at the very file it just wrote tells it nothing that others did.
        let own_file = step.op == Op::Stat && step.inode.is_some_and(|inode| written.contains(&inode));
        attempts_lock(step, actor, shared) || (looks && !own_file && shared.reads(step, actor))
    };
    range.into_iter().find(|position| begins(&steps[own[*position]])).unwrap_or(end)
}
