//! Reproducible pseudo-random numbers: a run can be replayed from its seed, and a printed interval stays the same.

/// A sequence that depends only on its seed.
#[derive(Clone, Debug)]
pub struct Random(sluice_policy::random::Random);

impl Random {
    /// Creates the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Random(sluice_policy::random::Random::new(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `count`; 0 if `count` is 0. The bias is below `count` in 2^64.
    pub fn below(&mut self, count: usize) -> usize {
        self.0.below(count as u64) as usize
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Shuffles a list.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }

    /// A sample of the normal distribution with mean 0 and standard deviation 1 (Box–Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// A body of `count` bytes that hardly compresses, the same for the same seed.
pub fn made_body(count: u64, seed: u64) -> Vec<u8> {
    let mut chance = Random::new(seed);
    (0..count)
        .map(|_| b'a' + (chance.bits() >> 56) as u8 % 26)
        .collect()
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
        // Standard deviation of each count: sqrt(100,000 x 0.1 x 0.9) = 95; six of them.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 570), "{seen:?}");
        assert_eq!(Random::new(7).bits(), Random::new(7).bits());
        assert_ne!(Random::new(7).bits(), Random::new(8).bits());
    }
}
