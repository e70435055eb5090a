//! Random numbers that are the same on every machine.

use rand_pcg::{Pcg64Mcg, rand_core::Rng as _};

/// PCG XSL 128/64 (MCG) of O'Neill (2014), as `rand_pcg` gives it: a fixed, published algorithm. The reduction to a
/// range is our own, so that no other crate's choice can change what a seed means.
#[derive(Clone, Debug)]
pub(crate) struct Rng(Pcg64Mcg);

impl Rng {
    /// A generator for one seed and one purpose (`stream`): policies with the same seed do not share numbers.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        // Small seeds differ in few bits: mix them (splitmix64, Steele et al. 2014) before they become the state.
        let high = splitmix(seed ^ splitmix(stream));
        let low = splitmix(high);
        Rng(Pcg64Mcg::new((u128::from(high) << 64) | u128::from(low)))
    }

    /// A number from all of u64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound` (which is not 0), by multiply and shift: the bias is below bound / 2^64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// One round of splitmix64.
pub(crate) fn splitmix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_everywhere() {
        let mut rng = Rng::new(7, 1);
        let got: Vec<u64> = (0..4).map(|_| rng.below(1000)).collect();
        assert_eq!(got, GOLDEN);
        assert_ne!(Rng::new(7, 2).next(), Rng::new(7, 1).next());
    }

    /// Written down once; a change of these numbers changes the meaning of every seed ever reported.
    const GOLDEN: [u64; 4] = [773, 955, 451, 689];
}
