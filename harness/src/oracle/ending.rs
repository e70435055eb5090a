//! Runs in which nobody can go on: deadlock, stale lock, livelock.

use std::collections::BTreeMap;

use super::{judgement::Accusation, locks::LockTrace};
use crate::world::{ActorId, Ended, Op, Run};

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
    const EEXIST: i64 = 17;
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

/// Whether an actor is over, by itself or by a kill.
fn exited(run: &Run, actor: ActorId) -> bool {
    let end = run.outcome.as_ref().and_then(|outcome| outcome.actors.get(usize::from(actor.0)));
    end.is_some_and(|end| {
        (end.exit.is_some() || end.signal.is_some())
            && !matches!(end.ended_by.as_deref(), Some("deadlock" | "idle" | "limit"))
    })
}
