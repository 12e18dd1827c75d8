//! Histograms. One worker writes a histogram and other threads read it, so an increment is a load and a store.

use std::sync::atomic::{AtomicU64, Ordering};

use super::sample::Bound;

/// Buckets for durations, in seconds: Prometheus's defaults, as in Caddy.
pub const DURATIONS: &[Bound] = &[
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
];

/// Buckets for sizes, in bytes: powers of four from 256 to 4 MiB, as in Caddy.
pub const SIZES: &[Bound] = &[
    Bound::new(1 << 8, "256", "256.0"),
    Bound::new(1 << 10, "1024", "1024.0"),
    Bound::new(1 << 12, "4096", "4096.0"),
    Bound::new(1 << 14, "16384", "16384.0"),
    Bound::new(1 << 16, "65536", "65536.0"),
    Bound::new(1 << 18, "262144", "262144.0"),
    Bound::new(1 << 20, "1.048576e+06", "1.048576e+06"),
    Bound::new(1 << 22, "4.194304e+06", "4.194304e+06"),
];

/// Counters for each bucket, and for values above all bounds.
#[derive(Debug)]
pub struct Histogram {
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// Creates an empty histogram.
    pub fn new(bounds: &[Bound]) -> Histogram {
        Histogram {
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Adds a value.
    pub fn add(&self, bounds: &[Bound], value: u64) {
        let at = bounds.partition_point(|bound| bound.value < value);
        add(&self.counts[at], 1);
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
    fn a_value_falls_below_the_bound_that_it_equals() {
        let histogram = Histogram::new(SIZES);
        for value in [0, 256, 257, 1 << 22, (1 << 22) + 1] {
            histogram.add(SIZES, value);
        }
        let mut sums = Sums::default();
        histogram.add_to(&mut sums);
        histogram.add_to(&mut sums);
        assert_eq!(sums.counts, [4, 2, 0, 0, 0, 0, 0, 2, 2]);
        assert_eq!(sums.sum, 2 * (256 + 257 + (1 << 23) + 1));
    }
}
