//! A set of versions that stays small as long as versions follow each other.

use std::collections::BTreeMap;

/// At most this many runs of numbers are kept (about 64 bytes each); then the lowest are forgotten.
const MAX_RUNS: usize = 1 << 18;

/// Numbers, as runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    /// First -> last of each run, both included; runs neither overlap nor touch.
    runs: BTreeMap<u64, u64>,
    /// Numbers up to here may have been forgotten.
    forgotten: bool,
}

impl Ranges {
    pub(super) fn contains(&self, n: u64) -> bool {
        self.runs.range(..=n).next_back().is_some_and(|(_, last)| *last >= n)
    }

    pub(super) fn insert(&mut self, n: u64) {
        if self.contains(n) {
            return;
        }
        let mut first = n;
        let mut last = n;
        if let Some((start, end)) = self.runs.range(..n).next_back()
            && n.checked_sub(1) == Some(*end)
        {
            first = *start;
        }
        if let Some(after) = n.checked_add(1)
            && let Some(end) = self.runs.remove(&after)
        {
            last = end;
        }
        self.runs.insert(first, last);
        if self.runs.len() > MAX_RUNS {
            self.runs.pop_first();
            self.forgotten = true;
        }
    }

    /// Takes out every number from `n` on.
    pub(super) fn cut(&mut self, n: u64) {
        self.runs.split_off(&n);
        if let Some(mut run) = self.runs.last_entry()
            && *run.get() >= n
        {
            // The run begins below `n`, so `n` is not 0.
            *run.get_mut() = n - 1;
        }
    }

    /// Whether something was forgotten.
    pub(super) fn forgot(&self) -> bool {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_as_any_other(steps in prop::collection::vec((0_u64..40, 0..8), 0..60)) {
            let (mut ours, mut plain) = (Ranges::default(), BTreeSet::new());
            for (n, what) in steps {
                if what == 0 {
                    ours.cut(n);
                    plain.split_off(&n);
                } else {
                    ours.insert(n);
                    plain.insert(n);
                }
                for m in 0..42 {
                    prop_assert_eq!(ours.contains(m), plain.contains(&m));
                }
            }
        }
    }

    #[test]
    fn the_largest_number() {
        let mut ranges = Ranges::default();
        for n in [u64::MAX, u64::MAX - 1, 0] {
            ranges.insert(n);
        }
        assert!(ranges.contains(u64::MAX) && ranges.contains(0) && !ranges.contains(1));
        assert_eq!(ranges.runs.len(), 2);
    }
}
