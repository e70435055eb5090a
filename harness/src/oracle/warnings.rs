//! What the witnesses would say of a run, whatever its verdict.

use super::{
    Case,
    history::History,
    judgement::note,
    locks::LockTrace,
    torn::{invalid_json, readings_of_unpublished},
};
use crate::world::{Run, Warning};

/// More warnings of one sort than this are not given.
const MOST: usize = 3;

/// Warnings from one recorded run: reads during an unpublished write, times of invalid JSON, two owners of a lock, locks
/// whose name points to another file.
pub fn witness_warnings(case: &Case<'_>, run: &Run) -> Vec<Warning> {
    let history = History::of(run, case.initial);
    let locks = LockTrace::of(&run.steps);
    let mut out = Vec::new();
    for (reading, writer) in readings_of_unpublished(&history).filter(|(r, _)| !case.ignores(&r.path)).take(MOST) {
        out.push(note(format!(
            "{} reads {} (step {}) while {} has not published its write",
            case.worker(reading.by),
            reading.path,
            reading.steps.0 + 1,
            case.worker(writer)
        )));
    }
    for time in invalid_json(run, case.initial).into_iter().filter(|time| !case.ignores(&time.path)).take(MOST) {
        let until = time.steps.1.map_or("the end".to_owned(), |step| format!("step {}", step + 1));
        let ms = time.time_us as f64 / 1000.0;
        out.push(note(format!(
            "{} was no valid JSON from step {} to {until} ({ms} ms): a reader could have met it",
            time.path,
            time.steps.0 + 1
        )));
    }
    for (first, second) in locks.overlaps().into_iter().take(MOST) {
        out.push(note(format!(
            "{} and {} both owned the lock {} (steps {} and {})",
            case.worker(usize::from(first.actor.0)),
            case.worker(usize::from(second.actor.0)),
            first.name,
            first.from + 1,
            second.from + 1
        )));
    }
    for (name, actor, step) in locks.misplaced.iter().take(MOST) {
        let who = case.worker(usize::from(actor.0));
        out.push(note(format!("{who} locked a file that the name {name} no longer leads to (step {})", step + 1)));
    }
    for (name, actor, step) in locks.dropped.iter().take(MOST) {
        let who = case.worker(usize::from(actor.0));
        out.push(note(format!("{who} dropped its lock on {name} by closing another descriptor (step {})", step + 1)));
    }
    out
}
