//! Points in time as values, so that pure code never reads a clock. Calendar dates are in `date`.

use core::num::NonZeroU64;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point on a monotonic time line: the time since the process started, to the nanosecond and for 584 years; what is
/// later counts as their end.
///
/// Only differences mean anything outside one process. It takes eight bytes, also where it is optional: connections,
/// requests and timeouts have several each, and there are ten thousand of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(
    /// Nanoseconds, and one more.
    NonZeroU64,
);

impl Moment {
    /// The start of the time line.
    pub const START: Moment = Moment(NonZeroU64::MIN);

    /// The moment `since_start` after the start of the time line.
    pub const fn new(since_start: Duration) -> Self {
        Moment(Moment::START.0.saturating_add(nanos_of(since_start)))
    }

    /// The time from the start of the time line.
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0.get() - 1)
    }

    /// The time from `earlier` to here, zero if `earlier` is later.
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// The nanoseconds of a duration, or the highest number if they are more.
const fn nanos_of(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos > u64::MAX as u128 {
        u64::MAX
    } else {
        nanos as u64
    }
}

impl Default for Moment {
    fn default() -> Self {
        Moment::START
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, rhs: Duration) -> Moment {
        Moment(self.0.saturating_add(nanos_of(rhs)))
    }
}

impl Sub<Moment> for Moment {
    type Output = Duration;
    fn sub(self, rhs: Moment) -> Duration {
        self.since(rhs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Duration = Duration::from_nanos(u64::MAX - 1);

    #[test]
    fn moments_are_as_far_apart_as_they_were_made() {
        for nanos in [0, 1, 999_999_999, 1_000_000_000, 86_400_000_000_123] {
            let time = Duration::from_nanos(nanos);
            let moment = Moment::new(time);
            assert_eq!(moment.since_start(), time);
            assert_eq!(moment, Moment::START + time);
            assert_eq!(moment - Moment::START, time);
            assert_eq!(Moment::START.since(moment), Duration::ZERO);
            assert!(moment < moment + Duration::from_nanos(1));
        }
        assert_eq!(Moment::default(), Moment::START);
    }

    #[test]
    fn time_beyond_the_end_is_the_end() {
        let end = Moment::new(Duration::MAX);
        assert_eq!(end.since_start(), END);
        assert_eq!(end, Moment::START + Duration::MAX);
        assert_eq!(end, end + Duration::from_nanos(1));
        assert_eq!(end, Moment::new(Duration::from_secs(u64::MAX)));
        assert_eq!(end, Moment::new(Duration::from_nanos(u64::MAX)));
    }

    #[test]
    fn it_takes_eight_bytes_also_where_it_is_optional() {
        assert_eq!((size_of::<Moment>(), size_of::<Option<Moment>>()), (8, 8));
    }
}
