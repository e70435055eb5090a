//! Writes that no common lock guards, over all runs (the lockset of Eraser: Savage et al., 1997, for writes of files).
//!
//! For each file that two workers write, the locks held at *every* write are kept. When none is left, nothing that
//! the workers do keeps their writes apart, whether or not something was lost yet. Appending calls are left out: each
//! is atomic. So are lock files themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::{judgement::note, locks::LockTrace};
use crate::world::{ActorId, Inode, Op, Run, Warning};

#[derive(Clone, Debug)]
struct Written {
    writers: BTreeSet<ActorId>,
    /// Locks held at every write so far.
    common: BTreeSet<String>,
    /// The first write at which no common lock was left: worker and step number from 1.
    unguarded: Option<(ActorId, usize, Op)>,
}

/// Collects over all runs of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Lockset {
    files: BTreeMap<String, Written>,
    locks: BTreeSet<String>,
}

impl Lockset {
    /// Nothing seen yet.
    pub fn new() -> Lockset {
        Lockset::default()
    }

    /// Adds one run.
    pub fn observe(&mut self, run: &Run) {
        let trace = LockTrace::of(&run.steps);
        self.locks.extend(trace.names().into_iter().map(str::to_owned));
        let mut appending: BTreeSet<(ActorId, Option<Inode>)> = BTreeSet::new();
        for (number, step) in run.steps.iter().enumerate().filter(|(_, step)| !step.failed()) {
            let has = |flag: &str| step.flags.iter().any(|f| f == flag);
            let file = match step.op {
                Op::Open | Op::Create => {
                    let key = (step.actor, step.inode);
                    if has("append") {
                        appending.insert(key)
                    } else {
                        appending.remove(&key)
                    };
                    step.path.as_ref().filter(|_| has("trunc"))
                }
                Op::Write if has("append") || appending.contains(&(step.actor, step.inode)) => None,
                Op::Write | Op::Truncate => step.path.as_ref(),
                Op::Rename | Op::Exchange => step.path2.as_ref(),
                _ => None,
            };
            let Some(file) = file else { continue };
            let held: BTreeSet<String> = trace.held_before(step.actor, number).into_iter().map(str::to_owned).collect();
            let written = self.files.entry(file.clone()).or_insert_with(|| Written {
                writers: BTreeSet::new(),
                common: held.clone(),
                unguarded: None,
            });
            written.writers.insert(step.actor);
            written.common.retain(|lock| held.contains(lock));
            if written.common.is_empty() && written.unguarded.is_none() {
                written.unguarded = Some((step.actor, number + 1, step.op));
            }
        }
    }

    /// One warning for each file that two workers write without a common lock. `names` are the workers' names.
    pub fn warnings(&self, names: &[&str]) -> Vec<Warning> {
        let name = |actor: ActorId| names.get(usize::from(actor.0)).copied().unwrap_or("?");
        let mut out = Vec::new();
        for (file, written) in &self.files {
            if let (Some((actor, step, op)), true, false) =
                (written.unguarded, written.writers.len() > 1, self.locks.contains(file))
            {
                out.push(note(format!(
                    "no common lock guards the writes of {file} ({}'s {op}, step {step})",
                    name(actor)
                )));
            }
        }
        out
    }
}
