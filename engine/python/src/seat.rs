//! What runs requests in a worker process: a thread (WSGI), or an event loop. Counts its requests without locks.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::limits::{AHEAD_MAX, AHEAD_TIME, SEAT_DELAY};

/// One seat of a process, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Seat {
    in_flight: AtomicUsize,
    /// When the request that runs began, as far as can be seen from here, in nanoseconds of the process's clock.
    since: AtomicU64,
    /// Our ends of its lanes, by worker of sluice, until that worker takes them.
    ends: Mutex<Vec<Option<OwnedFd>>>,
}

impl Seat {
    /// Provides our ends of its lanes.
    pub fn open(&self, ends: Vec<OwnedFd>) {
        if let Ok(mut held) = self.ends.lock() {
            *held = ends.into_iter().map(Some).collect();
        }
    }

    /// Takes the end for a worker of sluice; once.
    pub fn take_end(&self, worker: usize) -> Option<OwnedFd> {
        self.ends.lock().ok()?.get_mut(worker)?.take()
    }

    /// Closes the ends that were not taken.
    pub fn close(&self) {
        if let Ok(mut held) = self.ends.lock() {
            held.clear();
        }
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Adds a request if there are fewer than `max`.
    pub fn reserve(&self, max: usize, now: u64) -> bool {
        let mut before = self.in_flight.load(Ordering::SeqCst);
        loop {
            if before >= max {
                return false;
            }
            let swapped = self.in_flight.compare_exchange_weak(
                before,
                before + 1,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
            match swapped {
                Ok(_) => break,
                Err(found) => before = found,
            }
        }
        if before == 0 {
            self.since.store(now, Ordering::Relaxed);
        }
        true
    }

    /// How many requests a thread may have: those that it will finish within [`AHEAD_TIME`] if they take `average`
    /// nanoseconds each.
    pub fn room(&self, average: u64) -> usize {
        let in_flight = self.in_flight();
        if in_flight == 0 || average == 0 {
            return 1;
        }
        let ahead = (AHEAD_TIME.as_nanos() as u64) / average;
        usize::try_from(ahead)
            .unwrap_or(AHEAD_MAX)
            .clamp(1, AHEAD_MAX)
    }

    /// Whether the request that runs has been running for [`SEAT_DELAY`].
    pub fn stalled(&self, now: u64) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        self.in_flight() > 0 && now.saturating_sub(since) > SEAT_DELAY.as_nanos() as u64
    }

    /// `count` requests have ended. Returns how long they took together.
    pub fn release(&self, count: usize, now: u64) -> u64 {
        let since = self.since.swap(now, Ordering::Relaxed);
        self.in_flight.fetch_sub(count, Ordering::SeqCst);
        now.saturating_sub(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn a_thread_gets_as_much_ahead_as_it_finishes_in_a_millisecond() {
        let seat = Seat::default();
        assert_eq!(seat.room(100_000), 1, "the first one");
        assert!(seat.reserve(1, 0));
        for (average, room) in [
            (0, 1),
            (100_000, 10),
            (1_000, AHEAD_MAX),
            (1, AHEAD_MAX),
            (999_999, 1),
            (MILLISECOND * 50, 1),
        ] {
            assert_eq!(seat.room(average), room, "{average}");
        }
        assert!(!seat.stalled(MILLISECOND));
        assert!(seat.stalled(6 * MILLISECOND));
    }

    #[test]
    fn reservations_stop_at_the_limit_and_times_are_those_between_ends() {
        let seat = Seat::default();
        assert!(seat.reserve(2, 10) && seat.reserve(2, 20));
        assert!(!seat.reserve(2, 30));
        assert_eq!(seat.in_flight(), 2);
        assert_eq!(seat.release(1, 50), 40, "since it was idle");
        assert_eq!(seat.release(1, 60), 10, "since the one before ended");
        assert!(seat.reserve(2, 100));
        assert_eq!(seat.release(1, 130), 30);
    }

    #[test]
    fn an_end_is_taken_once() {
        let seat = Seat::default();
        assert!(seat.take_end(0).is_none());
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        seat.open(vec![end.into()]);
        assert!(seat.take_end(1).is_none());
        assert!(seat.take_end(0).is_some());
        assert!(seat.take_end(0).is_none());
    }
}
