//! A circuit breaker: an upstream that fails too large a share of its requests gets none for a while, and then a single
//! one to probe whether it has recovered. The caller decides what counts as a failure.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use sluice_message::Moment;

use crate::limits::BREAKER_CELLS;

/// When an upstream gets no requests, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerPolicy {
    /// The share of requests gone wrong beyond which it gets none, from 0 to 1.
    pub threshold: f64,
    /// How long results count.
    pub window: Duration,
    /// Results in the window below which nothing is concluded.
    pub requests_min: u32,
    /// How long it gets none.
    pub trip_duration: Duration,
}

/// The breaker of one upstream. All workers share it; nothing waits for a lock.
#[derive(Debug)]
pub struct Breaker {
    policy: BreakerPolicy,
    /// Until when it is open, in nanoseconds; 0 while it is closed.
    open_until: AtomicU64,
    /// 1 while a request is on its way that shows whether the upstream is well.
    probing: AtomicU64,
    /// How often it opened.
    trips: AtomicU64,
    /// Results of the latest parts of the window.
    cells: [AtomicU64; BREAKER_CELLS],
}

/// Results of one part of the window, in one word: the number of the part in 24 bits, all results and those gone wrong in
/// 20 bits each.
#[derive(Clone, Copy)]
struct Cell {
    part: u64,
    all: u64,
    wrong: u64,
}

const COUNT_MAX: u64 = (1 << 20) - 1;
const PART_MASK: u64 = (1 << 24) - 1;

impl Cell {
    fn unpack(word: u64) -> Cell {
        Cell {
            part: word >> 40,
            all: word >> 20 & COUNT_MAX,
            wrong: word & COUNT_MAX,
        }
    }

    fn pack(self) -> u64 {
        self.part << 40 | self.all.min(COUNT_MAX) << 20 | self.wrong.min(COUNT_MAX)
    }
}

/// How a request to an upstream went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Went {
    /// As it should.
    Well,
    /// It failed, was too slow, or whatever else counts.
    Wrong,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(policy: BreakerPolicy) -> Breaker {
        Breaker {
            policy,
            open_until: AtomicU64::new(0),
            probing: AtomicU64::new(0),
            trips: AtomicU64::new(0),
            cells: [const { AtomicU64::new(0) }; BREAKER_CELLS],
        }
    }

    /// Whether the upstream may get a request.
    pub fn allows(&self, now: Moment) -> bool {
        let until = self.open_until.load(Ordering::Relaxed);
        until == 0 || nanos(now) >= until
    }

    /// Whether requests go on as usual: it is neither open nor waits for the one that shows how the upstream is.
    pub fn is_closed(&self) -> bool {
        self.open_until.load(Ordering::Relaxed) == 0
    }

    /// How often it has opened, also after a request that was to show that the upstream is well.
    pub fn trips(&self) -> u64 {
        self.trips.load(Ordering::Relaxed)
    }

    /// The upstream gets a request. While it is not known to be well again that is one for each
    /// [`BreakerPolicy::trip_duration`].
    pub fn begin(&self, now: Moment) {
        let until = self.open_until.load(Ordering::Relaxed);
        if until == 0 || nanos(now) < until {
            return;
        }
        let next = self.trip_end(now);
        let orders = (Ordering::Relaxed, Ordering::Relaxed);
        let exchanged = self
            .open_until
            .compare_exchange(until, next, orders.0, orders.1);
        // Another worker may have been faster; its request shows as much.
        if exchanged.is_ok() {
            self.probing.store(1, Ordering::Relaxed);
        }
    }

    /// Notes how a request went.
    pub fn note(&self, went: Went, now: Moment) {
        if self.open_until.load(Ordering::Relaxed) != 0 {
            // Those that were on their way when it opened tell nothing new.
            if self.probing.swap(0, Ordering::Relaxed) == 1 {
                match went {
                    Went::Well => self.close(),
                    Went::Wrong => self.open(now),
                }
            }
            return;
        }
        let part = self.part(now);
        let add = |word: u64| {
            let cell = Cell::unpack(word);
            let (all, wrong) = if cell.part == part {
                (cell.all, cell.wrong)
            } else {
                (0, 0)
            };
            let wrong = wrong + u64::from(went == Went::Wrong);
            Some(
                Cell {
                    part,
                    all: all + 1,
                    wrong,
                }
                .pack(),
            )
        };
        let cell = &self.cells[part as usize % BREAKER_CELLS];
        let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        if went == Went::Wrong && self.is_too_much(part) {
            self.open(now);
        }
    }

    fn is_too_much(&self, part: u64) -> bool {
        let (mut all, mut wrong) = (0, 0);
        for cell in &self.cells {
            let cell = Cell::unpack(cell.load(Ordering::Relaxed));
            if part.wrapping_sub(cell.part) & PART_MASK < BREAKER_CELLS as u64 {
                all += cell.all;
                wrong += cell.wrong;
            }
        }
        all >= u64::from(self.policy.requests_min)
            && wrong as f64 > self.policy.threshold * all as f64
    }

    fn part(&self, now: Moment) -> u64 {
        let length = (nanos_of(self.policy.window) / BREAKER_CELLS as u64).max(1);
        // From 1, so that an unused cell is of no part that counts.
        (nanos(now) / length + BREAKER_CELLS as u64) & PART_MASK
    }

    fn open(&self, now: Moment) {
        self.trips.fetch_add(1, Ordering::Relaxed);
        self.open_until.store(self.trip_end(now), Ordering::Relaxed);
    }

    fn close(&self) {
        for cell in &self.cells {
            cell.store(0, Ordering::Relaxed);
        }
        self.open_until.store(0, Ordering::Relaxed);
    }

    fn trip_end(&self, now: Moment) -> u64 {
        nanos(now)
            .saturating_add(nanos_of(self.policy.trip_duration))
            .max(1)
    }
}

fn nanos(moment: Moment) -> u64 {
    nanos_of(moment.since_start())
}

fn nanos_of(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::START + Duration::from_millis(millis)
    }

    fn breaker() -> Breaker {
        Breaker::new(BreakerPolicy {
            threshold: 0.5,
            window: Duration::from_secs(10),
            requests_min: 10,
            trip_duration: Duration::from_secs(5),
        })
    }

    /// So many requests of each kind at a moment, in turns.
    fn run(breaker: &Breaker, well: u32, wrong: u32, now: Moment) {
        for step in 0..well.max(wrong) {
            if step < well {
                breaker.note(Went::Well, now);
            }
            if step < wrong {
                breaker.note(Went::Wrong, now);
            }
        }
    }

    #[test]
    fn it_opens_when_more_than_the_share_goes_wrong() {
        for (well, wrong, open) in [
            (0, 9, false),
            (0, 10, true),
            (50, 50, false),
            (50, 52, true),
        ] {
            let breaker = breaker();
            run(&breaker, well, wrong, at(1_000));
            assert_eq!(
                !breaker.allows(at(1_001)),
                open,
                "{well} well, {wrong} wrong"
            );
        }
    }

    #[test]
    fn old_results_are_forgotten() {
        let breaker = breaker();
        run(&breaker, 1_000, 0, at(0));
        run(&breaker, 0, 12, at(9_000));
        assert!(breaker.allows(at(9_001)), "most went well");
        // Ten seconds after the good ones only the bad ones are left.
        run(&breaker, 0, 1, at(10_500));
        assert!(!breaker.allows(at(10_501)));
        let breaker = super::tests::breaker();
        run(&breaker, 0, 9, at(0));
        run(&breaker, 0, 9, at(20_000));
        assert!(breaker.allows(at(20_001)), "nine and nine are not together");
    }

    #[test]
    fn after_the_trip_one_request_shows_how_it_is() {
        let breaker = breaker();
        run(&breaker, 0, 10, at(0));
        assert!(!breaker.allows(at(4_999)));
        assert!(breaker.allows(at(5_000)));
        breaker.begin(at(5_000));
        assert!(!breaker.allows(at(5_001)), "one is enough");
        breaker.note(Went::Wrong, at(5_100));
        assert!(!breaker.allows(at(10_099)));
        assert!(breaker.trips() == 2 && !breaker.is_closed());
        breaker.begin(at(10_100));
        breaker.note(Went::Well, at(10_200));
        assert!(breaker.allows(at(10_201)) && breaker.is_closed());
        run(&breaker, 0, 9, at(10_300));
        assert!(breaker.allows(at(10_301)), "it begins anew");
    }

    #[test]
    fn those_on_their_way_when_it_opened_do_not_close_it() {
        let breaker = breaker();
        run(&breaker, 0, 10, at(0));
        run(&breaker, 100, 0, at(10));
        assert!(!breaker.allows(at(20)));
    }

    #[test]
    fn a_probe_that_never_ends_is_followed_by_another() {
        let breaker = breaker();
        run(&breaker, 0, 10, at(0));
        breaker.begin(at(5_000));
        assert!(!breaker.allows(at(9_999)));
        assert!(breaker.allows(at(10_000)));
    }
}
