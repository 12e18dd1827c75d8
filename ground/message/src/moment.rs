//! Points in time as values, so that pure code never reads a clock. Calendar dates are in `date`.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point on a monotonic time line: the time since the process started.
///
/// Only differences mean anything outside one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The start of the time line.
    pub const START: Moment = Moment(Duration::ZERO);

    /// The moment `since_start` after the start of the time line.
    pub const fn new(since_start: Duration) -> Self {
        Moment(since_start)
    }

    /// The time from the start of the time line.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to here, zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, rhs: Duration) -> Moment {
        Moment(self.0.saturating_add(rhs))
    }
}

impl Sub<Moment> for Moment {
    type Output = Duration;
    fn sub(self, rhs: Moment) -> Duration {
        self.since(rhs)
    }
}
