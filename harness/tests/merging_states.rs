//! What it would save to end a schedule in a state that was met before: the same content, the same lock, and every worker
//! at the same place with the same observations, so that the same can follow. The page about growth states these numbers;
//! they are why the search does not do it.

use std::collections::HashSet;

/// A worker's place and all that it has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Worker {
    place: usize,
    seen: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    content: Vec<u8>,
    holder: Option<usize>,
    workers: Vec<Worker>,
}

/// What a worker does at each place.
#[derive(Clone, Copy, PartialEq)]
enum Do {
    Lock,
    /// The byte of the file after those that it has seen.
    ReadByte,
    ReadAll,
    Empty,
    /// The number seen, and one more.
    WriteNext,
    /// All that was seen, and its own number.
    WriteWithOwn,
    Unlock,
}

/// A shell that reads a number byte by byte, empties the file and writes the next number.
const IN_PLACE: [Do; 3] = [Do::ReadByte, Do::Empty, Do::WriteNext];
/// A worker that adds itself to a list under a lock.
const LOCKED: [Do; 4] = [Do::Lock, Do::ReadAll, Do::WriteWithOwn, Do::Unlock];

impl State {
    /// The state after a step of this worker; `None`: it has none, or would wait.
    fn after(&self, number: usize, program: &[Do]) -> Option<State> {
        let mut next = self.clone();
        let worker = &mut next.workers[number];
        let mut done = true;
        match program.get(worker.place)? {
            Do::Lock if self.holder.is_some() => return None,
            Do::Lock => next.holder = Some(number),
            Do::Unlock => next.holder = None,
            Do::ReadAll => worker.seen.push(self.content.clone()),
            Do::ReadByte => {
                let byte = self.content.get(worker.seen.len()).copied();
                worker.seen.push(byte.into_iter().collect());
                done = byte.is_none_or(|b| b == b'\n');
            }
            Do::Empty => next.content.clear(),
            Do::WriteNext => {
                let digits = worker.seen.concat();
                let text = String::from_utf8_lossy(&digits);
                next.content = format!("{}\n", text.trim().parse::<u32>().unwrap_or(0) + 1).into_bytes();
            }
            Do::WriteWithOwn => next.content = [worker.seen.concat(), vec![b'0' + number as u8]].concat(),
        }
        worker.place += usize::from(done);
        Some(next)
    }
}

/// How many runs there are over all interleavings; when `merged`, a run ends in a state that was met before.
fn runs(state: &State, program: &[Do], merged: bool, met: &mut HashSet<State>) -> u64 {
    if merged && !met.insert(state.clone()) {
        return 1;
    }
    let next: Vec<State> = (0..state.workers.len()).filter_map(|number| state.after(number, program)).collect();
    next.iter().map(|state| runs(state, program, merged, met)).sum::<u64>().max(1)
}

fn counted(workers: usize, program: &[Do], content: &str, merged: bool) -> u64 {
    let workers = vec![Worker::default(); workers];
    runs(&State { content: content.into(), holder: None, workers }, program, merged, &mut HashSet::new())
}

#[test]
fn merging_helps_where_nothing_is_locked_and_saves_nothing_under_a_lock() {
    for (workers, all, merged) in [(2, 68, 25), (3, 29_796, 1_113)] {
        assert_eq!(counted(workers, &IN_PLACE, "0\n", false), all);
        assert_eq!(counted(workers, &IN_PLACE, "0\n", true), merged);
    }
    assert_eq!(counted(4, &IN_PLACE, "0\n", true), 49_681);
    for (workers, orders) in [(2, 2), (3, 6), (4, 24), (5, 120)] {
        assert_eq!(counted(workers, &LOCKED, "", false), orders, "whoever has the lock runs to its end");
        assert_eq!(counted(workers, &LOCKED, "", true), orders, "no two orders meet in one state");
    }
}
