//! Numbers that look random and come again with the same start value, so that an interval printed once is printed always.

/// A generator by the SplitMix64 recurrence (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A sequence that depends on `seed` only.
    pub fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `count`, which must not be 0. The unevenness is below 2^-32 for the counts of blocks used here.
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.bits()) * count as u128) >> 64) as usize
    }

    /// A number in `0.0..1.0`.
    #[cfg(test)]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of the normal distribution with mean 0 and deviation 1 (Box and Muller).
    #[cfg(test)]
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_even_and_repeats() {
        let mut random = Random::new(7);
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10)] += 1;
        }
        // Deviation of each count: sqrt(100,000 x 0.1 x 0.9) = 95; six of them.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 570), "{seen:?}");
        assert_eq!(Random::new(7).bits(), Random::new(7).bits());
        assert_ne!(Random::new(7).bits(), Random::new(8).bits());
    }
}
