//! The name of a class: all schedules that differ only in the order of independent steps have the same one.

use super::trace::Trace;
use crate::world::Run;

/// The canonical key of a run's Mazurkiewicz class: a hash of its Foata normal form (Cartier and Foata 1969).
///
/// The normal form cuts a trace into levels: an event's level is one more than the highest level of the events that it
/// depends on. Two runs are equivalent exactly when their levels hold the same events; events of one level are
/// independent, so sorting them loses nothing. An event's letter holds its actor, place, result and footprint, because
/// footprints depend on the state and the dependence relation on footprints.
///
/// # Errors
/// A text when the run's choices and chosen steps do not correspond.
pub fn class_key(run: &Run) -> Result<[u8; 32], String> {
    Ok(key(&Trace::new(run)?))
}

pub(crate) fn key(trace: &Trace) -> [u8; 32] {
    let mut level: Vec<usize> = Vec::with_capacity(trace.events.len());
    let mut letters = Vec::with_capacity(trace.events.len());
    let mut of_actor: Vec<Vec<usize>> = vec![Vec::new(); trace.actors];
    for (i, event) in trace.events.iter().enumerate() {
        // The latest event of each actor that happened before i: its level is the highest of that actor's.
        let latest =
            of_actor.iter().zip(&trace.clocks[i]).filter_map(|(of, seen)| of[..of.len().min(*seen as usize)].last());
        let below = latest.map(|h| level[*h] + 1).max().unwrap_or(0);
        level.push(below);
        of_actor[usize::from(event.actor.0)].push(i);
        letters.push((below, event.actor, trace.nth(i), event.choice, event.identity, footprint(event)));
    }
    letters.sort();
    *blake3::hash(&postcard::to_stdvec(&letters).unwrap_or_default()).as_bytes()
}

fn footprint(event: &super::trace::Event) -> Vec<u8> {
    postcard::to_stdvec(&(&event.accesses, event.everything)).unwrap_or_default()
}
