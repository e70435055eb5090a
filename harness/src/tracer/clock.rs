//! Virtual time. `now(task) = base + 1 microsecond x this task's clock reads + its own nanoseconds` (`Task::nanos`);
//! the base moves only when a wake-up or a delay is due.

use nix::libc;

/// The moment at which every run begins: 2025-01-01T00:00:00Z, in microseconds since 1970.
pub(super) const EPOCH_US: u64 = 1_735_689_600_000_000;
/// The clocks that stand for all that show wall time, and for all that show time since the machine started.
pub(super) const WALL: i32 = libc::CLOCK_REALTIME;
/// See [`WALL`].
pub(super) const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
/// How long the machine is said to have been up then, in microseconds.
const UPTIME_US: u64 = 1_000_000_000;
/// The epoch of another variant of the environment is this much later (a bit over a year, odd in every unit).
const VARIANT_SHIFT_US: u64 = 34_567_891_234_567;

/// The clock of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    epoch_us: u64,
    base_us: u64,
}

impl Clock {
    /// A clock at the start of a run in this variant of the environment.
    pub(super) fn new(variant: u32) -> Self {
        Clock { epoch_us: EPOCH_US + u64::from(variant) * VARIANT_SHIFT_US, base_us: 0 }
    }

    /// Virtual microseconds since the start of the run, without any task's reads.
    pub(super) fn since_start(&self) -> u64 {
        self.base_us
    }

    /// Wall-clock time without any task's reads, microseconds since 1970.
    pub(super) fn wall(&self) -> u64 {
        self.epoch_us + self.base_us
    }

    /// Wall-clock time at the start of the run.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch_us
    }

    /// Moves to a later moment (microseconds since the start); never back.
    pub(super) fn advance_to(&mut self, moment_us: u64) {
        self.base_us = self.base_us.max(moment_us);
    }

    /// What a clock shows to a task with this many reads, in microseconds.
    pub(super) fn show(&self, clock: i32, reads: u64) -> u64 {
        match clock {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI | libc::CLOCK_REALTIME_ALARM => {
                self.wall() + reads
            }
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_BOOTTIME
            | libc::CLOCK_BOOTTIME_ALARM => UPTIME_US + self.base_us + reads,
            // CPU clocks: a program's work takes no virtual time.
            _ => reads,
        }
    }

    /// The deadline, in microseconds since the start, that an absolute time on a clock means.
    pub(super) fn deadline(&self, clock: i32, absolute_us: u64) -> u64 {
        let zero = Clock { epoch_us: self.epoch_us, base_us: 0 }.show(clock, 0);
        absolute_us.saturating_sub(zero)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_agree_on_the_distance() {
        let mut clock = Clock::new(0);
        let before: Vec<_> = [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC].iter().map(|c| clock.show(*c, 0)).collect();
        clock.advance_to(3_000_000);
        clock.advance_to(1_000_000);
        for (id, before) in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC].into_iter().zip(before) {
            assert_eq!(clock.show(id, 2) - before, 3_000_002);
            assert_eq!(clock.deadline(id, before + 5), 5);
        }
        assert_eq!(clock.show(libc::CLOCK_PROCESS_CPUTIME_ID, 4), 4);
    }
}
