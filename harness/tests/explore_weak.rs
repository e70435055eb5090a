//! The exactness test can fail: with a relation that says too little, classes or outcomes are missed.

mod explore_model;

use explore_model::{
    Ask,
    I::{self, *},
    Model, Weaken, brute,
    search::exhaust,
};

/// What is weakened, the programs, and why that matters.
fn cases() -> Vec<(Weaken, Vec<Vec<I>>)> {
    let locked = vec![Flock(1, true, Ask::Wait), Read(1), Write(1), Funlock(1)];
    let two_locks = |a, b| vec![Flock(a, true, Ask::Wait), Flock(b, true, Ask::Wait), Read(1), Write(1)];
    let try_lock = vec![Flock(1, true, Ask::Try(true)), Read(1), Write(1)];
    vec![
        // Nobody can come before who holds the lock, unless acquisitions race.
        (Weaken::NoSync, vec![locked.clone(), locked]),
        // Only the deadlock leads from "A first" to "B first", and only if it is known what waits in it.
        (Weaken::NoPending, vec![two_locks(1, 2), two_locks(2, 1)]),
        (Weaken::BlindTruncate, vec![vec![Read(1), Truncate(1), Write(1)], vec![Read(1)]]),
        (Weaken::BlindFailures, vec![try_lock.clone(), try_lock]),
    ]
}

#[test]
fn a_weakened_relation_is_noticed() {
    for (weaken, programs) in cases() {
        let sound = Model::new(programs);
        let all = brute::all(&sound, 1_000_000);
        let found = exhaust(&sound);
        assert_eq!((&found.classes, &found.outcomes), (&all.classes, &all.outcomes), "{weaken:?}, sound");
        let found = exhaust(&Model { weaken, ..sound });
        println!("{weaken:?}: {} of {} outcomes", found.outcomes.len(), all.outcomes.len());
        assert!(found.outcomes.len() < all.outcomes.len(), "{weaken:?} was not noticed");
    }
}
