//! Runs in which nobody can go on: deadlock, stale lock, livelock.

use std::collections::{BTreeMap, BTreeSet};

use super::{judgement::Accusation, locks::LockTrace};
use crate::world::{ActorId, Ended, Op, Outcome, Run, Step};

const EEXIST: i64 = 17;

/// The accusation of a run that did not end by itself.
pub(super) fn judge(run: &Run) -> Option<Accusation> {
    match &run.ended {
        Ended::Deadlock(waiting) => {
            let locks = LockTrace::of(&run.steps);
            let stale = !waiting.is_empty()
                && waiting.iter().all(|(actor, what)| {
                    locks.held_at_end().any(|(name, owner)| {
                        owner != *actor && exited(run, owner) && what.split_whitespace().any(|word| word == name)
                    })
                });
            let waiting = waiting.clone();
            Some(if stale { Accusation::StaleLock { waiting } } else { Accusation::Deadlock { waiting } })
        }
        Ended::Livelock(actors) => {
            let waits: Vec<Option<(ActorId, String)>> =
                actors.iter().map(|actor| stale_wait(run, actors, *actor)).collect();
            Some(match waits.into_iter().collect::<Option<Vec<_>>>() {
                Some(waiting) if !waiting.is_empty() => Accusation::StaleLock { waiting },
                _ => Accusation::Livelock { actors: actors.clone() },
            })
        }
        _ => None,
    }
}

/// What an actor tries to create again and again although nobody alive made it.
fn stale_wait(run: &Run, spinning: &[ActorId], actor: ActorId) -> Option<(ActorId, String)> {
    let attempt = run.steps.iter().rev().find(|step| {
        step.actor == actor
            && step.ret == -EEXIST
            && matches!(step.op, Op::Open | Op::Create | Op::Mkdir | Op::Link | Op::Symlink)
    })?;
    let name = attempt.path2.as_ref().filter(|_| attempt.op == Op::Link).or(attempt.path.as_ref())?;
    let mut makers = BTreeMap::new();
    for step in run.steps.iter().filter(|step| !step.failed()) {
        let creates = matches!(step.op, Op::Create | Op::Mkdir | Op::Link | Op::Symlink)
            || (step.op == Op::Open && step.flags.iter().any(|flag| flag == "excl"));
        if creates && (step.path.as_ref() == Some(name) || step.path2.as_ref() == Some(name)) {
            makers.insert(name.clone(), step.actor);
        }
    }
    let alive = |maker: &ActorId| spinning.contains(maker) || !exited(run, *maker);
    match makers.get(name) {
        Some(maker) if alive(maker) => None,
        _ => Some((actor, name.clone())),
    }
}

/// Workers that gave up because of a lock that a killed one left: among the last steps of each is one that finds a name
/// which a killed worker made, and which nobody took away.
pub(super) fn stale_failures(
    run: &Run,
    outcome: &Outcome,
    hit: &BTreeSet<usize>,
    failed: &BTreeSet<usize>,
) -> Vec<(ActorId, String)> {
    /// Steps between the last look at the lock and the end: messages, closes, temporary files.
    const LAST: usize = 12;
    let made = |step: &&Step| {
        let makes = matches!(step.op, Op::Create | Op::Mkdir | Op::Link | Op::Symlink | Op::Rename);
        makes && !step.failed() && hit.contains(&usize::from(step.actor.0))
    };
    let names = run.steps.iter().filter(made).filter_map(|step| step.path2.as_ref().or(step.path.as_ref()));
    let mut left: BTreeSet<&String> = names.filter(|name| outcome.files.contains_key(*name)).collect();
    // Whose lock is the kernel's, on the open file, leaves none by leaving the file.
    let of_kernel: BTreeSet<&String> =
        run.steps.iter().filter(|step| step.op == Op::Lock).filter_map(|step| step.path.as_ref()).collect();
    left.retain(|name| !of_kernel.contains(name));
    let waits = |worker: &usize| {
        let own = run.steps.iter().rev().filter(|step| usize::from(step.actor.0) == *worker);
        let mut last = own.filter(|step| step.chosen && step.op != Op::Exit).take(LAST);
        let found = last.find_map(|step| {
            let name = step.path2.as_ref().filter(|_| step.op == Op::Link).or(step.path.as_ref())?;
            // A refused attempt to make it, or a look that found it.
            let meets = if step.failed() { step.ret == -EEXIST } else { matches!(step.op, Op::Stat | Op::Access) };
            (meets && left.contains(name)).then(|| name.clone())
        })?;
        Some((super::reference::actor(*worker), found))
    };
    failed.iter().filter_map(waits).collect()
}

/// Whether an actor is over, by itself or by a kill.
fn exited(run: &Run, actor: ActorId) -> bool {
    let end = run.outcome.as_ref().and_then(|outcome| outcome.actors.get(usize::from(actor.0)));
    end.is_some_and(|end| {
        (end.exit.is_some() || end.signal.is_some())
            && !matches!(end.ended_by.as_deref(), Some("deadlock" | "idle" | "limit"))
    })
}
