//! The clock of a load: nanoseconds since the load began.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the load began.
pub type Ns = u64;

/// A clock that all threads of a load copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: Instant,
}

impl Clock {
    /// Starts a clock now.
    pub fn start() -> Self {
        Clock {
            begin: Instant::now(),
        }
    }

    /// The time now.
    pub fn now(&self) -> Ns {
        span(self.begin.elapsed())
    }

    /// The instant of a time.
    pub fn instant(&self, at: Ns) -> Instant {
        self.begin + Duration::from_nanos(at)
    }

    /// The time of an instant; 0 if it is before the start.
    pub fn at(&self, instant: Instant) -> Ns {
        span(instant.saturating_duration_since(self.begin))
    }
}

/// A duration in nanoseconds, capped at 584 years.
pub fn span(duration: Duration) -> Ns {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> Ns {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
