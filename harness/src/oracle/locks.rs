//! The locks witness: who believed to own which lock when.
//!
//! A lock is known by its *name*, not its inode: two owners of one name at once protect nothing, however the kernel
//! sees it (a lock file that was replaced or removed, a stale lock broken twice). Lock names are the paths of lock
//! calls, and names made by an exclusive creation (O_EXCL, mkdir, link, symlink) that another actor attempted too.
//! A POSIX lock that a close of another descriptor dropped counts as held until its owner gives it back: that is what
//! the owner believes.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::{ActorId, Effect, Inode, Object, Op, Step, Sync};

/// A time during which an actor believed to own a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The lock's name.
    pub name: String,
    /// Who.
    pub actor: ActorId,
    /// From this step (index into the trace).
    pub from: usize,
    /// To this step; `None`: to the end.
    pub to: Option<usize>,
    /// Shared with other shared owners.
    pub shared: bool,
    inode: Option<Inode>,
    /// Taken by a lock call, not by creating a name.
    call: bool,
}

/// All locks of a run.
#[derive(Clone, Debug, Default)]
pub struct LockTrace {
    /// In order of acquisition.
    pub held: Vec<Held>,
    /// Locks taken on a file that its name no longer led to: name, actor, step.
    pub misplaced: Vec<(String, ActorId, usize)>,
    /// POSIX locks dropped by closing another descriptor of the file: name, actor, step.
    pub dropped: Vec<(String, ActorId, usize)>,
}

impl LockTrace {
    /// Finds the locks in a trace.
    pub fn of(steps: &[Step]) -> LockTrace {
        let mut trace = LockTrace::default();
        let contested = contested_names(steps);
        let mut bound: BTreeMap<String, Inode> = BTreeMap::new();
        for (number, step) in steps.iter().enumerate() {
            if let (Op::Open | Op::Create, Some(path), Some(inode), false) =
                (step.op, &step.path, step.inode, step.failed())
            {
                bound.insert(path.clone(), inode);
            }
            trace.release(steps, number, step);
            if !step.failed() {
                trace.acquire(number, step, &contested, &bound);
            }
            for effect in &step.effects {
                if let Effect::Bind { path, inode } = effect {
                    match inode {
                        Some(inode) => bound.insert(path.clone(), *inode),
                        None => bound.remove(path),
                    };
                }
            }
        }
        trace
    }

    /// Names of the locks an actor holds just before a step.
    pub fn held_before(&self, actor: ActorId, step: usize) -> BTreeSet<&str> {
        self.held
            .iter()
            .filter(|held| held.actor == actor && held.from < step && held.to.is_none_or(|to| to >= step))
            .map(|held| held.name.as_str())
            .collect()
    }

    /// Locks still held when the run ended.
    pub fn held_at_end(&self) -> impl Iterator<Item = (&str, ActorId)> {
        self.held.iter().filter(|held| held.to.is_none()).map(|held| (held.name.as_str(), held.actor))
    }

    /// Pairs of owners of one lock at the same time.
    pub fn overlaps(&self) -> Vec<(&Held, &Held)> {
        let mut out = Vec::new();
        for (at, first) in self.held.iter().enumerate() {
            for second in &self.held[at + 1..] {
                let together = first.to.is_none_or(|to| to > second.from);
                if first.name == second.name
                    && first.actor != second.actor
                    && together
                    && !(first.shared && second.shared)
                {
                    out.push((first, second));
                }
            }
        }
        out
    }

    /// Every name that is used as a lock.
    pub fn names(&self) -> BTreeSet<&str> {
        self.held.iter().map(|held| held.name.as_str()).collect()
    }

    fn acquire(&mut self, number: usize, step: &Step, contested: &BTreeSet<&str>, bound: &BTreeMap<String, Inode>) {
        let call = step.op == Op::Lock;
        let name =
            if call { step.path.as_deref() } else { exclusive_name(step).filter(|name| contested.contains(name)) };
        let name = match (name, step.inode) {
            (Some(name), _) => name.to_owned(),
            (None, Some(inode)) if call => format!("inode {}", inode.0),
            _ => return,
        };
        if call {
            let taken = step.accesses.iter().any(|a| matches!(a.sync, Some(Sync::Take { .. })));
            if !taken && !step.accesses.is_empty() {
                return;
            }
            self.end(number, |held| held.call && held.actor == step.actor && held.inode == step.inode);
            if step.inode.is_some()
                && bound.get(&name).is_none_or(|inode| Some(*inode) != step.inode)
                && bound.contains_key(&name)
            {
                self.misplaced.push((name.clone(), step.actor, number));
            }
        }
        let shared = step.flags.iter().any(|flag| flag == "shared");
        self.held.push(Held { name, actor: step.actor, from: number, to: None, shared, inode: step.inode, call });
    }

    fn release(&mut self, steps: &[Step], number: usize, step: &Step) {
        match step.op {
            Op::Unlock => self.end(number, |held| held.call && held.actor == step.actor && held.inode == step.inode),
            Op::Exit if step.accesses.iter().any(|a| a.object == Object::Life(step.actor)) || step.task == 0 => {
                self.end(number, |held| held.actor == step.actor);
            }
            Op::Unlink | Op::Rmdir | Op::Rename if !step.failed() => {
                self.end(number, |held| {
                    !held.call && held.actor == step.actor && Some(&held.name) == step.path.as_ref()
                });
            }
            Op::Close => {
                let freed: BTreeSet<(bool, Inode)> = step
                    .accesses
                    .iter()
                    .filter(|access| access.sync == Some(Sync::Free))
                    .filter_map(|access| match access.object {
                        Object::Flock(inode) => Some((false, inode)),
                        Object::Record(inode) => Some((true, inode)),
                        _ => None,
                    })
                    .collect();
                for (record, inode) in freed {
                    // Somebody who unlocks or closes the file once more believed that the lock was still there.
                    let believes = record
                        && steps[number + 1..].iter().any(|later| {
                            later.actor == step.actor
                                && later.inode == Some(inode)
                                && matches!(later.op, Op::Unlock | Op::Close | Op::Write)
                        });
                    if believes {
                        if let Some(held) = self.held.iter().rev().find(|h| h.to.is_none() && h.inode == Some(inode)) {
                            self.dropped.push((held.name.clone(), step.actor, number));
                        }
                    } else {
                        self.end(number, |held| held.call && held.actor == step.actor && held.inode == Some(inode));
                    }
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, number: usize, which: impl Fn(&Held) -> bool) {
        for held in self.held.iter_mut().filter(|held| held.to.is_none() && which(held)) {
            held.to = Some(number);
        }
    }
}

/// The name an exclusive creation makes.
fn exclusive_name(step: &Step) -> Option<&str> {
    match step.op {
        Op::Open | Op::Create if step.flags.iter().any(|flag| flag == "excl") => step.path.as_deref(),
        Op::Mkdir => step.path.as_deref(),
        Op::Link | Op::Symlink => step.path2.as_deref().or(step.path.as_deref()),
        _ => None,
    }
}

/// Names that two actors tried to create exclusively, and that kept somebody out or were removed by who made them: else
/// they are files like others (a backup is a new link, too).
fn contested_names(steps: &[Step]) -> BTreeSet<&str> {
    let mut by_name: BTreeMap<&str, (BTreeSet<ActorId>, bool)> = BTreeMap::new();
    let mut makers: BTreeSet<(&str, ActorId)> = BTreeSet::new();
    for step in steps {
        if let Some(name) = exclusive_name(step) {
            let (actors, serves) = by_name.entry(name).or_default();
            actors.insert(step.actor);
            *serves |= step.failed();
            if !step.failed() {
                makers.insert((name, step.actor));
            }
        } else if let (Op::Unlink | Op::Rmdir | Op::Rename, Some(name), false) =
            (step.op, step.path.as_deref(), step.failed())
            && makers.contains(&(name, step.actor))
            && let Some((_, serves)) = by_name.get_mut(name)
        {
            *serves = true;
        }
    }
    by_name.into_iter().filter(|(_, (actors, serves))| actors.len() > 1 && *serves).map(|(name, _)| name).collect()
}
