//! Histograms. One worker writes a histogram and other threads read it, so an increment is a load and a store.

use std::sync::atomic::{AtomicU64, Ordering};

use super::sample::Bound;

/// The buckets of a histogram.
#[derive(Debug)]
pub struct Buckets {
    /// Their upper bounds, each at least twice the one before.
    pub bounds: &'static [Bound],
    /// For values of each length in bits, the number of bounds below the lowest of them. Of those at or above it, at most
    /// one is below the highest, because bounds at least double: so one comparison finds the bucket of a value.
    first: [u8; u64::BITS as usize + 1],
}

impl Buckets {
    const fn new(bounds: &'static [Bound]) -> Buckets {
        let mut first = [0; u64::BITS as usize + 1];
        let mut bits = 1;
        while bits < first.len() {
            let lowest = 1u64 << (bits - 1);
            let mut at = first[bits - 1] as usize;
            while at < bounds.len() && bounds[at].value < lowest {
                assert!(at == 0 || bounds[at].value >= 2 * bounds[at - 1].value);
                at += 1;
            }
            first[bits] = at as u8;
            bits += 1;
        }
        Buckets { bounds, first }
    }

    /// The index of the bucket for `value`.
    fn of(&self, value: u64) -> usize {
        let bits = u64::BITS - value.leading_zeros();
        let at = usize::from(self.first[bits as usize]);
        let is_above = self.bounds.get(at).is_some_and(|bound| bound.value < value);
        at + usize::from(is_above)
    }
}

/// Buckets for durations, in seconds: Prometheus's defaults, as in Caddy.
pub static DURATIONS: Buckets = Buckets::new(&[
    Bound::new(5_000_000, "0.005", "0.005"),
    Bound::new(10_000_000, "0.01", "0.01"),
    Bound::new(25_000_000, "0.025", "0.025"),
    Bound::new(50_000_000, "0.05", "0.05"),
    Bound::new(100_000_000, "0.1", "0.1"),
    Bound::new(250_000_000, "0.25", "0.25"),
    Bound::new(500_000_000, "0.5", "0.5"),
    Bound::new(1_000_000_000, "1", "1.0"),
    Bound::new(2_500_000_000, "2.5", "2.5"),
    Bound::new(5_000_000_000, "5", "5.0"),
    Bound::new(10_000_000_000, "10", "10.0"),
]);

/// Buckets for sizes, in bytes: powers of four from 256 to 4 MiB, as in Caddy.
pub static SIZES: Buckets = Buckets::new(&[
    Bound::new(1 << 8, "256", "256.0"),
    Bound::new(1 << 10, "1024", "1024.0"),
    Bound::new(1 << 12, "4096", "4096.0"),
    Bound::new(1 << 14, "16384", "16384.0"),
    Bound::new(1 << 16, "65536", "65536.0"),
    Bound::new(1 << 18, "262144", "262144.0"),
    Bound::new(1 << 20, "1.048576e+06", "1.048576e+06"),
    Bound::new(1 << 22, "4.194304e+06", "4.194304e+06"),
]);

/// Counters for each bucket, and for values above all bounds.
#[derive(Debug)]
pub struct Histogram {
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// Creates an empty histogram.
    pub fn new(buckets: &Buckets) -> Histogram {
        Histogram {
            counts: (0..=buckets.bounds.len())
                .map(|_| AtomicU64::new(0))
                .collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Adds a value.
    pub fn add(&self, buckets: &Buckets, value: u64) {
        add(&self.counts[buckets.of(value)], 1);
        add(&self.sum, value);
    }

    /// Adds all counters to `sums`.
    pub fn add_to(&self, sums: &mut Sums) {
        sums.counts.resize(self.counts.len(), 0);
        for (sum, count) in sums.counts.iter_mut().zip(&self.counts) {
            *sum += count.load(Ordering::Relaxed);
        }
        sums.sum += self.sum.load(Ordering::Relaxed);
    }
}

/// The sum of several histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The number of values in each bucket, not cumulative.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

/// Increments a counter that only this thread writes.
pub fn add(count: &AtomicU64, more: u64) {
    count.store(
        count.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comparison_finds_the_bucket_that_a_search_finds() {
        for buckets in [&DURATIONS, &SIZES] {
            let powers = (0..u64::BITS).map(|bit| 1 << bit);
            let bounds = buckets.bounds.iter().map(|bound| bound.value);
            let around = powers.chain(bounds).flat_map(|n| [n - 1, n, n + 1]);
            for value in around.chain([u64::MAX]) {
                let expected = buckets.bounds.partition_point(|bound| bound.value < value);
                assert_eq!(buckets.of(value), expected, "{value}");
            }
        }
    }

    #[test]
    fn a_value_falls_below_the_bound_that_it_equals() {
        let histogram = Histogram::new(&SIZES);
        for value in [0, 256, 257, 1 << 22, (1 << 22) + 1] {
            histogram.add(&SIZES, value);
        }
        let mut sums = Sums::default();
        histogram.add_to(&mut sums);
        histogram.add_to(&mut sums);
        assert_eq!(sums.counts, [4, 2, 0, 0, 0, 0, 0, 2, 2]);
        assert_eq!(sums.sum, 2 * (256 + 257 + (1 << 23) + 1));
    }
}
