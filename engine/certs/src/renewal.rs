//! When to renew a certificate and when to retry: pure functions of time and a seed. `maintain` performs the renewals.

use std::time::{Duration, SystemTime};

use crate::limits::{
    EMERGENCY_SHARE, JITTER_SHARE, ORDER_PAUSE_MAX, RETRY_AFTER_MAX, RETRY_PAUSE_MAX,
    RETRY_PAUSE_MIN, UNREACHABLE_PAUSE_MAX, UNREACHABLE_PAUSE_MIN,
};

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The first second.
    pub from: SystemTime,
    /// The last second.
    pub until: SystemTime,
}

impl Lifetime {
    /// The length of the period.
    pub fn length(&self) -> Duration {
        self.until
            .duration_since(self.from)
            .unwrap_or(Duration::ZERO)
    }

    /// Whether it has expired at `now`.
    pub fn has_ended(&self, now: SystemTime) -> bool {
        now > self.until
    }

    /// Whether it is not valid yet at `now`.
    pub fn is_ahead(&self, now: SystemTime) -> bool {
        now < self.from
    }

    /// When to renew: when the fraction `share` of the lifetime remains, minus a jitter derived from `seed`, which
    /// should be constant for a certificate and differ between certificates.
    pub fn renewal_at(&self, share: f64, seed: u64) -> SystemTime {
        let length = self.length();
        let left = length.mul_f64(share.clamp(0.0, 1.0));
        let earlier = length.mul_f64(JITTER_SHARE * fraction(seed));
        self.until
            .checked_sub(left + earlier)
            .map_or(self.from, |at| at.max(self.from))
    }
}

/// A CA's renewal information for a certificate (ARI, RFC 9773).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Start of the suggested renewal window.
    pub start: SystemTime,
    /// End of the window.
    pub end: SystemTime,
    /// When to query it again.
    pub ask_again: SystemTime,
}

impl Advice {
    /// When to renew: a time within the window selected by `seed`, but early enough for a few retries (RFC 9773,
    /// section 4.2).
    pub fn renewal_at(&self, lifetime: Lifetime, seed: u64) -> SystemTime {
        let window = self.end.duration_since(self.start).unwrap_or_default();
        let chosen = self.start + window.mul_f64(fraction(seed));
        let last = lifetime
            .until
            .checked_sub(lifetime.length().mul_f64(EMERGENCY_SHARE));
        last.map_or(chosen, |last| chosen.min(last))
    }
}

/// The kind of failure, which determines the maximum pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setback {
    /// A local failure, such as a full disk.
    Own,
    /// A CA cannot be reached.
    Unreachable,
    /// A CA refused an order, which counts against its rate limits.
    Refused,
}

/// The pause after `failures` consecutive failures, at least one: exponential backoff with a maximum, reduced by up to
/// a quarter depending on `seed`.
pub fn retry_pause(failures: u32, setback: Setback, seed: u64) -> Duration {
    let (shortest, longest) = match setback {
        Setback::Own => (RETRY_PAUSE_MIN, RETRY_PAUSE_MAX),
        Setback::Unreachable => (UNREACHABLE_PAUSE_MIN, UNREACHABLE_PAUSE_MAX),
        Setback::Refused => (RETRY_PAUSE_MIN, ORDER_PAUSE_MAX),
    };
    let doublings = failures.saturating_sub(1).min(16);
    let pause = shortest.saturating_mul(1 << doublings).min(longest);
    pause.mul_f64(1.0 - 0.25 * fraction(seed.wrapping_add(u64::from(failures))))
}

/// The time from `Retry-After`, with an upper limit.
pub fn believed(retry_at: Option<SystemTime>, now: SystemTime) -> Option<SystemTime> {
    retry_at.map(|at| at.min(now + RETRY_AFTER_MAX))
}

/// A number derived from a text, the same in every run.
pub fn seed_of(text: &str) -> u64 {
    // FNV-1a: short, and good enough to spread renewals.
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A number from 0 to 1, well mixed even for similar seeds.
pub(crate) fn fraction(seed: u64) -> f64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_certificate_is_renewed_when_a_third_is_left_or_a_little_earlier() {
        let lifetime = Lifetime {
            from: at(1_000_000),
            until: at(1_000_000 + 43_200),
        };
        for seed in 0..200 {
            let renewal = lifetime.renewal_at(1.0 / 3.0, seed_of(&seed.to_string()));
            assert!(
                renewal <= at(1_000_000 + 28_800),
                "never later than two thirds"
            );
            assert!(
                renewal >= at(1_000_000 + 28_800 - 2160),
                "never more than a twentieth earlier"
            );
        }
        let renewals: std::collections::HashSet<_> = (0..200)
            .map(|seed| lifetime.renewal_at(0.3, seed))
            .collect();
        assert!(renewals.len() > 190, "renewals are spread");
    }

    #[test]
    fn odd_lifetimes_do_not_overflow() {
        let backwards = Lifetime {
            from: at(10),
            until: at(5),
        };
        assert_eq!(backwards.length(), Duration::ZERO);
        assert_eq!(backwards.renewal_at(0.5, 1), at(10));
        let short = Lifetime {
            from: at(0),
            until: at(1),
        };
        assert_eq!(short.renewal_at(7.0, 1), at(0));
    }

    #[test]
    fn pauses_after_failures_double_up_to_a_limit() {
        let own = |failures| retry_pause(failures, Setback::Own, 7);
        let pauses: Vec<_> = (1..40).map(own).collect();
        assert!(pauses[0] <= RETRY_PAUSE_MIN && pauses[0] >= RETRY_PAUSE_MIN.mul_f64(0.75));
        assert!(pauses[2] > pauses[0] * 2);
        assert!(pauses.iter().all(|pause| *pause <= RETRY_PAUSE_MAX));
        assert!(pauses[30] >= RETRY_PAUSE_MAX.mul_f64(0.75));
        assert_eq!(own(0), own(0));
    }

    #[test]
    fn an_authority_that_refuses_is_asked_ten_times_a_day_and_a_dead_one_every_minute() {
        for seed in 0..50 {
            let (mut passed, mut refused) = (Duration::ZERO, 1);
            while passed < Duration::from_secs(86_400) {
                passed += retry_pause(refused, Setback::Refused, seed);
                refused += 1;
            }
            assert!(refused <= 14, "{refused} orders in the first day");
            let later = retry_pause(100, Setback::Refused, seed);
            assert!(later * 6 > Duration::from_secs(86_400), "then at most six");
            assert!(retry_pause(100, Setback::Unreachable, seed) <= Duration::from_secs(60));
        }
    }

    #[test]
    fn advice_chooses_within_the_window_and_before_the_end() {
        let lifetime = Lifetime {
            from: at(1_000_000),
            until: at(2_000_000),
        };
        let advice = |start, end| Advice {
            start: at(start),
            end: at(end),
            ask_again: at(0),
        };
        for seed in 0..100 {
            let chosen = advice(1_600_000, 1_700_000).renewal_at(lifetime, seed);
            assert!((at(1_600_000)..=at(1_700_000)).contains(&chosen));
            let late = advice(3_000_000, 3_100_000).renewal_at(lifetime, seed);
            assert!(late <= at(1_950_000), "no advice lets it expire");
        }
    }
}
