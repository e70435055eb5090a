//! A small set of numbers that can be looked up fast.

/// A set of numbers below a fixed bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// The empty set of numbers below `bound`.
    pub(super) fn new(bound: usize) -> Self {
        Bits(vec![0; bound.div_ceil(64)])
    }

    pub(super) fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    pub(super) fn add(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub(super) fn join(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() * 64).filter(|number| self.has(*number))
    }
}
