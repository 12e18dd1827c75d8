//! The typical latency of a group of upstreams: a running median, with which each of them is compared.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use crate::limits::{TYPICAL_LATENCIES_MIN, TYPICAL_STEP_PARTS};

/// An estimate of the median of many latencies in one word (frugal streaming: Ma, Muthukrishnan, Sandler, 2013): each
/// latency moves it by a part of itself. As long as an upstream gets less than half of the requests, it cannot move the
/// median far. All workers share it; changes that coincide may be lost.
#[derive(Debug, Default)]
pub struct TypicalLatency {
    /// In nanoseconds; 0 until the first latency.
    nanos: AtomicU64,
    /// How many latencies were noted.
    count: AtomicU64,
}

impl TypicalLatency {
    /// The estimate; `None` until there are enough latencies.
    pub fn value(&self) -> Option<Duration> {
        let nanos = self.nanos.load(Ordering::Relaxed);
        let is_known = self.count.load(Ordering::Relaxed) >= TYPICAL_LATENCIES_MIN;
        is_known.then(|| Duration::from_nanos(nanos))
    }

    /// Notes a latency.
    pub fn note(&self, latency: Duration) {
        let latency = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
        let before = self.nanos.load(Ordering::Relaxed);
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        // Large steps at first: the first latency may be that of the outlier.
        let parts = (count / 8).clamp(2, TYPICAL_STEP_PARTS);
        let step = (before / parts).max(1);
        let next = match before {
            0 => latency,
            _ if latency > before => before.saturating_add(step).min(latency),
            _ => before.saturating_sub(step).max(latency),
        };
        self.nanos.store(next, Ordering::Relaxed);
    }

    /// Whether a latency is more than `times` the typical one.
    pub fn is_outlier(&self, latency: Duration, times: f64) -> bool {
        self.value()
            .is_some_and(|typical| latency.as_secs_f64() > typical.as_secs_f64() * times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_median_whatever_a_slow_upstream_does() {
        let typical = TypicalLatency::default();
        assert!(typical.value().is_none() && !typical.is_outlier(Duration::MAX, 2.0));
        // Two upstreams take 8 to 12 ms, the third one takes a second, also the very first time.
        for step in 0..3_000_u64 {
            let millis = match step % 3 {
                0 => 1_000,
                _ => 8 + step % 5,
            };
            typical.note(Duration::from_millis(millis));
        }
        let value = typical.value().expect("it is known").as_millis();
        assert!((8..=13).contains(&value), "{value} ms");
        assert!(typical.is_outlier(Duration::from_secs(1), 3.0));
        assert!(!typical.is_outlier(Duration::from_millis(12), 3.0));
    }

    #[test]
    fn it_is_soon_found_after_an_outlier() {
        let typical = TypicalLatency::default();
        for step in 0..45_u64 {
            let millis = if step % 3 == 0 { 300 } else { 1 };
            typical.note(Duration::from_millis(millis));
        }
        let value = typical.value().expect("it is known");
        assert!(value < Duration::from_millis(3), "{value:?}");
    }

    #[test]
    fn it_follows_all_of_them() {
        let typical = TypicalLatency::default();
        (0..100).for_each(|_| typical.note(Duration::from_millis(10)));
        (0..500).for_each(|_| typical.note(Duration::from_millis(40)));
        assert_eq!(typical.value(), Some(Duration::from_millis(40)));
        (0..500).for_each(|_| typical.note(Duration::from_millis(5)));
        assert_eq!(typical.value(), Some(Duration::from_millis(5)));
    }
}
