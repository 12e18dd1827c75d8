//! Numbers that look random and come again with the same start value, so that a run can be replayed and an interval printed
//! once is printed always.

/// A sequence that depends on its start value only.
#[derive(Clone, Debug)]
pub struct Random(sluice_policy::random::Random);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Random(sluice_policy::random::Random::new(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `count`; 0 for a count of 0. The bias is below `count` in 2^64.
    pub fn below(&mut self, count: usize) -> usize {
        self.0.below(count as u64) as usize
    }

    /// A number from 0 up to, but not, 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Puts a list into a random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }

    /// A number of the normal distribution with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// A body of that many bytes that no compression shortens much, the same for the same start value.
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
        // Deviation of each count: sqrt(100,000 x 0.1 x 0.9) = 95; six of them.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 570), "{seen:?}");
        assert_eq!(Random::new(7).bits(), Random::new(7).bits());
        assert_ne!(Random::new(7).bits(), Random::new(8).bits());
    }
}
