//! Virtual inode numbers and file times: functions of who made a file and how often it changed, never of the order
//! in which actors ran.

use std::collections::HashMap;

use super::clock::EPOCH_US;
use crate::world::Inode;

/// Files of the world at the start are numbered from here, in path order.
const INITIAL: u64 = 1000;
/// Files made by actor i are numbered from (i + 1) times this.
const PER_ACTOR: u64 = 1_000_000;
/// Files of the world at the start are this much older than the start of the run, in microseconds.
const INITIAL_AGE_US: u64 = 3_600_000_000;

/// A time stamp in nanoseconds since 1970.
pub(super) type Nanos = u64;

#[derive(Clone, Copy, Debug)]
struct Known {
    number: Inode,
    modified: Nanos,
    changed: Nanos,
    changes: u64,
    dirty: bool,
}

/// All files of the world that were seen in this run, by their real inode number. The file system of the world never
/// uses a number twice.
#[derive(Debug, Default)]
pub(super) struct Inodes {
    known: HashMap<u64, Known>,
    made: HashMap<usize, u64>,
}

impl Inodes {
    /// Starts a run: these are the files of the world, in path order.
    pub(super) fn start(&mut self, initial: impl Iterator<Item = u64>, epoch_us: u64) {
        self.made.clear();
        self.restart(INITIAL, initial, epoch_us);
    }

    /// Begins again in the middle of a run, with other files: these, numbered from `first`.
    pub(super) fn restart(&mut self, first: u64, initial: impl Iterator<Item = u64>, epoch_us: u64) {
        self.known.clear();
        let old = (epoch_us - INITIAL_AGE_US) * 1000;
        for (n, real) in initial.enumerate() {
            let number = Inode(first + n as u64);
            self.known.insert(real, Known { number, modified: old, changed: old, changes: 0, dirty: false });
        }
    }

    /// The virtual number of a file, a new one of `actor`'s when it was never seen. `now_us` is virtual time.
    pub(super) fn number(&mut self, real: u64, actor: usize, now_us: u64) -> Inode {
        self.entry(real, actor, now_us).number
    }

    /// The virtual number, if the file was seen before.
    pub(super) fn peek(&self, real: u64) -> Option<Inode> {
        self.known.get(&real).map(|k| k.number)
    }

    /// The content of a file changed.
    pub(super) fn modified(&mut self, real: u64, actor: usize, now_us: u64) {
        let known = self.entry(real, actor, now_us);
        known.changes += 1;
        known.dirty = true;
        known.modified = (now_us + known.changes) * 1000;
        known.changed = known.modified;
    }

    /// Something else than the content of a file changed.
    pub(super) fn changed(&mut self, real: u64, actor: usize, now_us: u64) {
        let known = self.entry(real, actor, now_us);
        known.changes += 1;
        known.dirty = true;
        known.changed = (now_us + known.changes) * 1000;
    }

    /// The modification time was set.
    pub(super) fn set_modified(&mut self, real: u64, to: Option<Nanos>, actor: usize, now_us: u64) {
        self.changed(real, actor, now_us);
        let known = self.entry(real, actor, now_us);
        known.modified = to.unwrap_or(known.changed);
    }

    /// Modification and change time.
    pub(super) fn times(&self, real: u64) -> (Nanos, Nanos) {
        self.known.get(&real).map_or((EPOCH_US * 1000, EPOCH_US * 1000), |k| (k.modified, k.changed))
    }

    /// Whether the file may have been written in this run.
    pub(super) fn is_dirty(&self, real: u64) -> bool {
        self.known.get(&real).is_none_or(|k| k.dirty)
    }

    fn entry(&mut self, real: u64, actor: usize, now_us: u64) -> &mut Known {
        let made = &mut self.made;
        self.known.entry(real).or_insert_with(|| {
            let count = made.entry(actor).or_default();
            *count += 1;
            let number = Inode((actor as u64 + 1) * PER_ACTOR + *count);
            let now = now_us * 1000;
            Known { number, modified: now, changed: now, changes: 0, dirty: true }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_the_maker_and_its_own_count_only() {
        let number = |order: &[(u64, usize)]| {
            let mut inodes = Inodes::default();
            inodes.start([5, 9].into_iter(), EPOCH_US);
            let mut got: Vec<_> = order.iter().map(|(real, actor)| (*actor, inodes.number(*real, *actor, 0))).collect();
            got.sort();
            got
        };
        assert_eq!(number(&[(100, 0), (101, 1), (102, 0)]), number(&[(200, 0), (201, 0), (202, 1)]));
        assert_eq!(number(&[(9, 1)]), vec![(1, Inode(1001))]);
    }

    #[test]
    fn each_change_gives_a_later_time() {
        let mut inodes = Inodes::default();
        inodes.start([5].into_iter(), EPOCH_US);
        assert!(!inodes.is_dirty(5));
        let before = inodes.times(5);
        inodes.modified(5, 0, EPOCH_US);
        let once = inodes.times(5);
        inodes.modified(5, 1, EPOCH_US);
        let twice = inodes.times(5);
        assert!(before.0 < once.0 && once.0 < twice.0);
        assert!(inodes.is_dirty(5));
        inodes.set_modified(5, Some(7), 0, EPOCH_US);
        assert_eq!(inodes.times(5).0, 7);
        assert!(inodes.times(5).1 > twice.1);
    }
}
