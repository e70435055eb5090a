//! What a sleeping step would have met: steps that touch something else in another state.
//!
//! The proof of source-DPOR takes the footprint of a step for granted wherever it runs. A real step need not keep it: a
//! lock that is refused only looked, a name leads to another file once it is renamed over. Say A sleeps at E, where it
//! would touch x. A step q wakes it, and A then touches less, so a step c on x that comes along is independent of
//! it. No race of that run asks for "c, then A, then q" at E: the race of q with A is satisfied by A, which
//! sleeps; and A met c where A was put to sleep, at an ancestor, where the first step on the way to E may do for both.
//!
//! So for each sleeper that the run wakes, each later step that conflicts with what the sleeper would have touched, but
//! not with what it did touch, is a race of its own: whatever leads from E to that step, without q, is to be explored.
//! (An actor that was explored at E itself needs nothing: its subtree holds its race with c, and points at E.)

use super::{policy::conflict, races::Race, trace::Trace};
use crate::world::{Access, ActorId};

/// Races of one sleeper that event `at` woke: its actor and what it would have touched before `at`. Only those that an
/// event from number `from` on takes part in.
pub(crate) fn elsewhere(trace: &Trace, at: usize, (sleeper, would): &(ActorId, Vec<Access>), from: usize) -> Vec<Race> {
    let events = &trace.events;
    if events[at].actor == *sleeper || !conflict(would, &events[at].accesses) && !events[at].everything {
        return Vec::new();
    }
    let did = (at + 1..events.len()).find(|e| events[*e].actor == *sleeper);
    let mut others: Vec<usize> = would
        .iter()
        .flat_map(|a| trace.by_object.get(&a.object).map_or(&[][..], Vec::as_slice).iter().map(move |e| (a, *e)))
        .filter(|(a, e)| *e > at && events[*e].accesses.iter().any(|b| b.conflicts(a)))
        .map(|(_, e)| e)
        .filter(|e| events[*e].actor != *sleeper && !events[*e].everything && !trace.before(at, *e))
        .filter(|e| did.is_none_or(|did| !trace.before(did, *e) && !trace.before(*e, did)))
        .filter(|e| at >= from || *e >= from || did.is_some_and(|did| did >= from))
        .collect();
    others.sort_unstable();
    others.dedup();
    let mut found: Vec<Race> = Vec::new();
    for other in others {
        // What comes after another of them is reached by way of it.
        if found.iter().any(|race| race.second.is_some_and(|earlier| trace.before(earlier, other))) {
            continue;
        }
        let kept: Vec<usize> = (at + 1..other).filter(|e| trace.before(*e, other)).collect();
        let first = |e: &usize| !kept.iter().any(|g| g < e && trace.before(*g, *e));
        let initials = kept.iter().chain([&other]).filter(|e| first(e)).map(|e| events[*e].actor).collect();
        found.push(Race { first: at, second: Some(other), actor: events[other].actor, kept, initials, certain: true });
    }
    found
}
