//! Live statistics of a running load for an observer: coarse, updated a few times a second.

use crate::result::{FailureClass, HEAT_STEPS, heat_step_ns};

/// Sums since the window began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Total durations of successful requests on the coarse scale of [`crate::result::heat_step`].
    pub heat: [u64; HEAT_STEPS],
    /// Failures by the index of their class in [`FailureClass::ALL`].
    pub failed: [u64; FailureClass::ALL.len()],
}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            heat: [0; HEAT_STEPS],
            failed: [0; FailureClass::ALL.len()],
        }
    }
}

impl Seen {
    /// The difference from an earlier reading.
    pub fn since(&self, earlier: &Seen) -> Seen {
        let mut new = *self;
        for (now, then) in new.heat.iter_mut().zip(earlier.heat) {
            *now = now.saturating_sub(then);
        }
        for (now, then) in new.failed.iter_mut().zip(earlier.failed) {
            *now = now.saturating_sub(then);
        }
        new
    }

    /// Successful requests.
    pub fn ok(&self) -> u64 {
        self.heat.iter().sum()
    }

    /// Approximate duration in nanoseconds below which a share of the responses lies: accurate to a fifth, as there are
    /// two steps per doubling. `None` without responses.
    pub fn about_ns(&self, share: f64) -> Option<f64> {
        let all = self.ok();
        let wanted = (all as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0;
        let step = self.heat.iter().position(|count| {
            sum += count;
            sum >= wanted
        })?;
        let (from, to) = (heat_step_ns(step as u8), heat_step_ns(step as u8 + 1));
        Some((from + to) as f64 / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::heat_step;

    #[test]
    fn percentiles_are_near_and_differences_exact() {
        let mut seen = Seen::default();
        assert_eq!(seen.about_ns(0.5), None);
        for ms in 1..=100_u64 {
            seen.heat[usize::from(heat_step(ms * 1_000_000))] += 1;
        }
        let median = seen.about_ns(0.5).unwrap() / 50e6;
        assert!((0.75..1.3).contains(&median), "{median}");
        let mut later = seen;
        later.heat[3] += 7;
        later.failed[FailureClass::Reset.index()] += 2;
        let new = later.since(&seen);
        assert_eq!((new.ok(), new.failed[FailureClass::Reset.index()]), (7, 2));
    }
}
