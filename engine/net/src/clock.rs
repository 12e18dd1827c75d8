//! The clock of a worker. Reading the coarse time costs a load, the exact time a system call. The formatted date is
//! cached for a second.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluice_message::Moment;

use crate::sys::process::monotonic_micros;

/// The origin of the process's time line, shared by all workers.
static ORIGIN: OnceLock<Instant> = OnceLock::new();

fn origin() -> Instant {
    *ORIGIN.get_or_init(Instant::now)
}

/// Continues the time line of another process of this machine, on which `elapsed` had passed when
/// [`crate::sys::process::monotonic_micros`] was `at`: moments of that process mean the same here. Without effect once
/// the clock was read.
pub fn continue_from(elapsed: Duration, at: u64) {
    let since = Duration::from_micros(monotonic_micros().saturating_sub(at));
    // A time line older than the machine cannot be continued, and none is.
    if let Some(origin) = Instant::now().checked_sub(elapsed + since) {
        let _ = ORIGIN.set(origin);
    }
}

/// The exact time.
pub fn now() -> Moment {
    Moment::new(origin().elapsed())
}

/// The clock of a worker, advanced by its timer sweep.
pub struct Clock {
    coarse: Cell<Moment>,
    unix_seconds: Cell<u64>,
    date: Cell<[u8; 29]>,
}

impl Default for Clock {
    fn default() -> Self {
        let clock = Clock {
            coarse: Cell::new(now()),
            unix_seconds: Cell::new(u64::MAX),
            date: Cell::new([b' '; 29]),
        };
        clock.tick();
        clock
    }
}

impl Clock {
    /// The time of the last sweep, at most [`crate::limits::TIMER_TICK`] ago.
    pub fn coarse(&self) -> Moment {
        self.coarse.get()
    }

    /// The value of a `Date` header (RFC 9110, section 5.6.7), at most a second old.
    pub fn date(&self) -> [u8; 29] {
        self.date.get()
    }

    /// Whole seconds since the Unix epoch at the last sweep.
    pub fn unix_seconds(&self) -> u64 {
        self.unix_seconds.get()
    }

    /// Advances the clock.
    pub fn tick(&self) {
        self.coarse.set(now());
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        if seconds != self.unix_seconds.get() {
            self.unix_seconds.set(seconds);
            self.date.set(sluice_message::date::format_http(seconds));
        }
    }
}
