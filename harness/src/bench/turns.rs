//! From one holder of a lock to the next.

use super::sample::Times;

/// Somebody's time with the lock, in nanoseconds of one clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Who.
    pub(super) worker: usize,
    /// When it began to want it, or a little before.
    pub(super) began: u64,
    /// Whether it had to wait.
    pub(super) waited: bool,
    /// When it had it.
    pub(super) had: u64,
    /// When it began to give it up.
    pub(super) gave: u64,
}

/// How long the lock was on its way from one to another that waited for it. From whom it came is not known; it is taken to
/// be who had it last.
pub(super) fn hand_overs(turns: impl Iterator<Item = Turn>, times: &mut Times) {
    let mut turns: Vec<Turn> = turns.collect();
    turns.sort_by_key(|turn| (turn.had, turn.worker));
    for pair in turns.windows(2) {
        let [before, after] = pair else { continue };
        // Who takes and gives a lock notes that a little later or earlier, and may lose its CPU in between: then it is not
        // known.
        if before.worker != after.worker && after.waited && after.began < before.gave && after.had >= before.gave {
            times.record(after.had - before.gave);
        }
    }
}
