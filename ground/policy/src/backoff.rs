//! How long to wait before the next attempt. The attempt itself is up to the caller.

use core::time::Duration;

use crate::random::Random;

/// Waits that double from one attempt to the next up to a longest, each shortened by chance to
/// between half and all of it: many who failed at one moment do not come back at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub max: Duration,
}

impl Backoff {
    /// The wait after `failures` failures in a row (at least one), shortened by `seed`.
    pub fn delay(&self, failures: u32, seed: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let full = self.first.saturating_mul(1 << doublings).min(self.max);
        let half = full / 2;
        let spread = u64::try_from((full - half).as_nanos()).unwrap_or(u64::MAX);
        half + Duration::from_nanos(Random::new(seed).below(spread.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_spread() {
        let backoff = Backoff {
            first: Duration::from_millis(100),
            max: Duration::from_secs(1),
        };
        for (failures, full) in [
            (0, 100),
            (1, 100),
            (2, 200),
            (3, 400),
            (4, 800),
            (5, 1_000),
            (u32::MAX, 1_000),
        ] {
            let full = Duration::from_millis(full);
            let delays = (0..1_000).map(|seed| backoff.delay(failures, seed));
            let (low, high) = delays.fold((full, Duration::ZERO), |(low, high), d| {
                (low.min(d), high.max(d))
            });
            assert!(
                low >= full / 2 && high <= full,
                "{failures}: {low:?} to {high:?}"
            );
            assert!(
                low < full * 51 / 100 && high > full * 99 / 100,
                "{failures}: {low:?} to {high:?}"
            );
        }
    }

    #[test]
    fn the_extremes_do_not_overflow() {
        let backoff = Backoff {
            first: Duration::MAX,
            max: Duration::MAX,
        };
        assert!(backoff.delay(40, 1) >= Duration::MAX / 2);
        let none = Backoff {
            first: Duration::ZERO,
            max: Duration::ZERO,
        };
        assert_eq!(none.delay(9, 9), Duration::ZERO);
    }
}
