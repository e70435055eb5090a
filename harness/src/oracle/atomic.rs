//! Calls that were taken as atomic: a write of more than one page into a file that somebody else reads without a lock.
//!
//! One call is one step. On real file systems a reader may see the first pages of such a write and not the others, so
//! that "every order was tried" says less than it seems. Appending calls stay whole, and what is written under another
//! name and renamed cannot be met.

use std::collections::{BTreeMap, BTreeSet};

use super::locks::LockTrace;
use crate::{
    fault::PAGE,
    world::{ActorId, Inode, Op, Run, Step, Warning, WarningKind},
};

/// A write that somebody could see in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Met {
    writer: ActorId,
    reader: ActorId,
    bytes: i64,
}

/// Collects over all runs of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Atomic {
    /// The first such meeting on each path.
    met: BTreeMap<String, Met>,
}

/// A read or write, and the locks held at it.
struct Use<'a> {
    number: usize,
    step: &'a Step,
    held: BTreeSet<&'a str>,
}

impl Atomic {
    /// Nothing seen yet.
    pub fn new() -> Atomic {
        Atomic::default()
    }

    /// Adds one run.
    pub fn observe(&mut self, run: &Run) {
        let large = large_writes(&run.steps);
        if large.is_empty() {
            return;
        }
        let trace = LockTrace::of(&run.steps);
        let held = |number: usize, step: &Step| trace.held_before(step.actor, number);
        let writes: Vec<Use<'_>> =
            large.into_iter().map(|(number, step)| Use { number, step, held: held(number, step) }).collect();
        let reads = run.steps.iter().enumerate().filter(|(_, s)| matches!(s.op, Op::Read | Op::Map) && !s.failed());
        for (number, step) in reads {
            let read = Use { number, step, held: held(number, step) };
            let meets = |write: &&Use<'_>| {
                write.step.actor != read.step.actor
                    && write.step.path == read.step.path
                    && write.step.inode == read.step.inode
                    && write.held.is_disjoint(&read.held)
                    && together(&run.steps, write, &read)
            };
            let (Some(write), Some(path)) = (writes.iter().find(meets), &read.step.path) else { continue };
            let met = Met { writer: write.step.actor, reader: read.step.actor, bytes: write.step.ret };
            self.met.entry(path.clone()).or_insert(met);
        }
    }

    /// One limit of the coverage for each file. `names` are the workers' names.
    pub fn warnings(&self, names: &[&str]) -> Vec<Warning> {
        let name = |actor: ActorId| names.get(usize::from(actor.0)).copied().unwrap_or("?");
        let text = |(path, met): (&String, &Met)| {
            format!(
                "calls taken as atomic: {}'s write of {} bytes into {path}, which {} reads without a lock: try --faults \
                 split",
                name(met.writer),
                met.bytes,
                name(met.reader)
            )
        };
        self.met.iter().map(text).map(|text| Warning { kind: WarningKind::Coverage, text }).collect()
    }
}

/// Writes that cross the border of a page and do not append.
fn large_writes(steps: &[Step]) -> Vec<(usize, &Step)> {
    let mut appending: BTreeSet<(ActorId, Option<Inode>)> = BTreeSet::new();
    let mut out = Vec::new();
    for (number, step) in steps.iter().enumerate().filter(|(_, step)| !step.failed()) {
        let appends = step.flags.iter().any(|flag| flag == "append");
        let key = (step.actor, step.inode);
        match step.op {
            Op::Open | Op::Create if appends => drop(appending.insert(key)),
            Op::Open | Op::Create => drop(appending.remove(&key)),
            Op::Write if !appends && !appending.contains(&key) && step.ret > 1 => {
                let (from, len) = (step.offset.unwrap_or(0), step.ret as u64);
                if from / PAGE != (from + len - 1) / PAGE {
                    out.push((number, step));
                }
            }
            _ => {}
        }
    }
    out
}

/// Whether both workers were there at once: one that only starts when the other has ended cannot meet it.
fn together(steps: &[Step], write: &Use<'_>, read: &Use<'_>) -> bool {
    let does = |actor: ActorId, mut numbers: std::ops::Range<usize>| numbers.any(|at| steps[at].actor == actor);
    if write.number < read.number {
        does(read.step.actor, 0..write.number) || does(write.step.actor, read.number..steps.len())
    } else {
        does(write.step.actor, 0..read.number) || does(read.step.actor, write.number..steps.len())
    }
}
