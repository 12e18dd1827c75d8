//! A histogram of durations that is fine enough for percentiles: two buckets per power of two, so that a percentile is
//! at most a half too large.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of buckets: the first is for durations below 32 µs, the last for those of 50.3 s or more.
pub const BUCKETS: usize = 2 * OCTAVES + 1;

/// Powers of two from 32 µs up.
const OCTAVES: usize = 21;

/// The logarithm of the lowest bound, in microseconds.
const LOWEST: u32 = 5;

/// Durations by bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations([u64; BUCKETS]);

impl Default for Durations {
    fn default() -> Self {
        Durations([0; BUCKETS])
    }
}

impl Durations {
    /// The bucket for a duration.
    pub fn bucket(duration: Duration) -> usize {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let Some(octave) = (micros >> LOWEST).checked_ilog2() else {
            return 0;
        };
        let half = micros >> (octave + LOWEST - 1) & 1;
        let bucket = 2 * octave as usize + half as usize + 1;
        bucket.min(BUCKETS - 1)
    }

    /// The upper bound of a bucket; that of the last is not an actual bound.
    fn bound(bucket: usize) -> Duration {
        let octave = bucket.saturating_sub(1) / 2;
        let lower = 1u64 << (octave as u32 + LOWEST);
        Duration::from_micros(match bucket {
            0 => lower,
            _ if bucket % 2 == 1 => lower + lower / 2,
            _ => 2 * lower,
        })
    }

    /// Adds counters of the same buckets.
    pub fn add_counts(&mut self, counts: &[AtomicU64; BUCKETS]) {
        for (sum, count) in self.0.iter_mut().zip(counts) {
            *sum += count.load(Ordering::Relaxed);
        }
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Durations) {
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum += more;
        }
    }

    /// The durations added since `before`.
    pub fn since(&self, before: &Durations) -> Durations {
        let mut new = self.clone();
        for (count, old) in new.0.iter_mut().zip(&before.0) {
            *count = count.saturating_sub(*old);
        }
        new
    }

    /// The duration that a `share` of all stays below, as the upper bound of its bucket; `None` if there is none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count: u64 = self.0.iter().sum();
        if count == 0 {
            return None;
        }
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        let at = self.0.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        at.map(Durations::bound)
    }

    /// Adds one duration.
    #[cfg(test)]
    pub(crate) fn count(&mut self, duration: Duration) {
        self.0[Durations::bucket(duration)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_below_the_bound_of_its_bucket_and_not_below_the_one_before() {
        for micros in (0..200_000).chain([1 << 20, 40_000_000, 50_331_647]) {
            let duration = Duration::from_micros(micros);
            let bucket = Durations::bucket(duration);
            assert!(duration < Durations::bound(bucket), "{micros}");
            if bucket > 0 {
                assert!(duration >= Durations::bound(bucket - 1), "{micros}");
            }
        }
        assert_eq!(
            Durations::bucket(Duration::from_micros(50_331_648)),
            BUCKETS - 1
        );
        assert_eq!(Durations::bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_bounds_of_buckets() {
        let mut durations = Durations::default();
        assert_eq!(durations.quantile(0.5), None);
        for _ in 0..98 {
            durations.count(Duration::from_micros(700));
        }
        durations.count(Duration::from_millis(70));
        durations.count(Duration::from_millis(70));
        assert_eq!(durations.quantile(0.5), Some(Duration::from_micros(768)));
        assert_eq!(durations.quantile(0.98), Some(Duration::from_micros(768)));
        let millis_98 = Duration::from_micros(98_304);
        assert_eq!(durations.quantile(0.99), Some(millis_98));
        let before = durations.clone();
        durations.count(Duration::from_micros(10));
        let new = durations.since(&before);
        assert_eq!(new.quantile(0.99), Some(Duration::from_micros(32)));
    }
}
