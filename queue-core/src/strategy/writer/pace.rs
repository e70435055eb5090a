//! How long the writer waits for more before it writes: group commit.
//!
//! Who has been answered asks again in a moment, but the writer is faster: it would write for the first one that is back,
//! and the others would wait for that write, so that two halves take turns for ever. So it waits for those that it has
//! answered lately, but never longer than half of what a write takes, which is what a write saved is worth to those who
//! wait. Where that is in vain (clients that pause between two operations), it is tried less and less often.

use std::time::Duration;

/// Waiting is never skipped more often than that before it is tried again.
const MOST_SKIPPED: u32 = 64;

/// A shorter wait is not worth its own system calls.
const SHORTEST: Duration = Duration::from_micros(10);

/// What the last writes were like.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    /// How long the last write took.
    took: Duration,
    /// How many writes come without waiting, and how many will after the next time that waiting was in vain.
    skip: u32,
    next_skip: u32,
}

impl Pace {
    /// How long it is worth while to wait for clients that have not asked yet. None: write at once.
    pub(super) fn patience(&mut self) -> Option<Duration> {
        let limit = self.took / 2;
        if limit < SHORTEST {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        Some(limit)
    }

    /// That is over; whether all came.
    pub(super) fn waited(&mut self, all: bool) {
        if all {
            self.next_skip = 0;
        } else {
            self.next_skip = (self.next_skip * 2).clamp(1, MOST_SKIPPED);
            self.skip = self.next_skip;
        }
    }

    /// A write took so long.
    pub(super) fn wrote(&mut self, took: Duration) {
        self.took = took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Duration = Duration::from_micros(400);

    #[test]
    fn half_a_write_and_no_longer() {
        let mut pace = Pace::default();
        assert_eq!(pace.patience(), None, "nothing is known yet");
        pace.wrote(WRITE);
        for _ in 0..3 {
            assert_eq!(pace.patience(), Some(WRITE / 2));
            pace.waited(true);
        }
        pace.wrote(Duration::from_micros(15));
        assert_eq!(pace.patience(), None);
    }

    #[test]
    fn in_vain_it_is_tried_less_and_less_often() {
        let mut pace = Pace::default();
        pace.wrote(WRITE);
        let tries = |pace: &mut Pace, writes: u32, all: bool| {
            let mut tries = 0;
            for _ in 0..writes {
                if pace.patience().is_some() {
                    tries += 1;
                    pace.waited(all);
                }
            }
            tries
        };
        // After 1, 2, 4, ... 64 writes, then after each 64.
        assert_eq!(tries(&mut pace, 1000, false), 7 + 14);
        // 20 writes after the last try; 44 are left of the 64.
        assert_eq!(tries(&mut pace, 1000, true), 1000 - 44, "when they come again, every write waits again");
    }
}
