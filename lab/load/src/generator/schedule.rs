//! When requests of an open loop are due: fixed before the load begins, whatever the server does.

use super::clock::{Ns, span};
use super::limits::{ALARM_MAX, SPIN};
use crate::random::Random;

/// The due times of one thread.
#[derive(Clone, Debug)]
pub struct Schedule {
    begin: Ns,
    /// Mean interval in nanoseconds. A fraction, so that rates that do not divide a second are exact.
    gap: f64,
    /// Due time of the next request, relative to `begin`.
    next: f64,
    chance: Option<Random>,
}

impl Schedule {
    /// From `begin` on, `rate` requests per second for this thread. The first is due after `phase` (0 to 1) of an
    /// interval, so that threads do not send in lockstep.
    pub fn new(begin: Ns, rate: f64, phase: f64, poisson: Option<Random>) -> Self {
        let gap = 1e9 / rate;
        Schedule {
            begin,
            gap,
            next: gap * phase,
            chance: poisson,
        }
    }

    /// When the next request is due.
    pub fn due(&self) -> Ns {
        self.begin + self.next as u64
    }

    /// Advances to the next request.
    pub fn advance(&mut self) {
        self.next += match &mut self.chance {
            // Intervals of a Poisson process are exponential.
            Some(chance) => -(1.0 - chance.unit()).ln() * self.gap,
            None => self.gap,
        };
    }
}

/// How a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nap {
    /// Not at all: it polls and continues.
    Spin,
    /// This many nanoseconds, ended by an alarm.
    Alarm(Ns),
    /// About this many nanoseconds, ended by a timeout in whole milliseconds.
    Timeout(Ns),
}

impl Nap {
    /// The poll timeout: for an alarm one that does not expire before it, in case the alarm never fires.
    pub fn timeout_ns(self) -> Ns {
        match self {
            Nap::Spin => 0,
            Nap::Alarm(wait) => wait.saturating_add(1_000_000),
            Nap::Timeout(wait) => wait,
        }
    }
}

/// How to wait from `now` until `next`, with a request that is `due`. Shortly before it is due the thread spins, since
/// waking up takes time; only an alarm ends a sleep precisely enough.
pub fn nap(now: Ns, next: Ns, due: Option<Ns>) -> Nap {
    let Some(due) = due else {
        return match next.saturating_sub(now) {
            0 => Nap::Spin,
            wait => Nap::Timeout(wait),
        };
    };
    match next.min(due.saturating_sub(span(SPIN))).saturating_sub(now) {
        0 => Nap::Spin,
        wait if wait > span(ALARM_MAX) => Nap::Timeout(wait - span(ALARM_MAX) / 2),
        wait => Nap::Alarm(wait),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_do_not_divide_a_second_are_kept_to() {
        let mut schedule = Schedule::new(1_000, 30_000.0, 0.5, None);
        assert_eq!(schedule.due(), 1_000 + 16_666);
        for _ in 0..3_000_000 {
            schedule.advance();
        }
        let end = schedule.due() - 1_000 - 16_666;
        assert!(end.abs_diff(100_000_000_000) < 1_000, "{end}");
    }

    #[test]
    fn random_gaps_have_the_mean_and_the_spread_of_a_poisson_process() {
        let mut schedule = Schedule::new(0, 1_000.0, 0.0, Some(Random::new(7)));
        let (mut last, mut sum, mut squares) = (0.0, 0.0, 0.0);
        let count = 100_000;
        for _ in 0..count {
            schedule.advance();
            let gap = schedule.next - last;
            last = schedule.next;
            sum += gap;
            squares += gap * gap;
        }
        let mean = sum / f64::from(count);
        let deviation = (squares / f64::from(count) - mean * mean).sqrt();
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        assert!((deviation / mean - 1.0).abs() < 0.02, "{deviation}");
    }

    /// A loop in virtual time: every poll takes 1 us, every wake-up 40 us, and a timeout ends in whole milliseconds.
    /// Returns how late each request was sent, sorted.
    fn lateness(rate: f64, alarms: bool) -> Vec<Ns> {
        const TICK: Ns = 20_000_000;
        let mut schedule = Schedule::new(0, rate, 0.5, None);
        let (mut now, mut tick, mut late) = (0, TICK, Vec::new());
        while late.len() < 10_000 {
            while schedule.due() <= now {
                late.push(now - schedule.due());
                schedule.advance();
            }
            if now >= tick {
                tick = now + TICK;
            }
            now += match nap(now, tick, Some(schedule.due())) {
                Nap::Spin => 1_000,
                Nap::Alarm(wait) if alarms => wait + 40_000,
                Nap::Alarm(wait) | Nap::Timeout(wait) => wait.next_multiple_of(1_000_000) + 40_000,
            };
        }
        late.sort_unstable();
        late
    }

    #[test]
    fn requests_leave_when_they_are_due_at_every_rate() {
        for rate in [50.0, 500.0, 5_000.0, 15_000.0, 20_000.0] {
            let late = lateness(rate, true);
            let (p99, most) = (late[late.len() * 99 / 100], late[late.len() - 1]);
            assert!(p99 <= 2_000, "{rate}/s: p99 {p99} ns");
            // A timeout check right before: one wake-up.
            assert!(most <= 45_000, "{rate}/s: {most} ns");
        }
        // What a timeout in whole milliseconds does to the same schedule.
        let late = lateness(5_000.0, false);
        assert!(late[late.len() / 2] > 300_000);
    }

    #[test]
    fn naps_end_for_whatever_comes_first() {
        assert_eq!(nap(0, 5_000_000, None), Nap::Timeout(5_000_000));
        assert_eq!(nap(5, 5, None), Nap::Spin);
        assert_eq!(nap(0, 5_000_000, Some(2_060_000)), Nap::Alarm(2_000_000));
        assert_eq!(nap(0, 1_000_000, Some(2_060_000)), Nap::Alarm(1_000_000));
        assert_eq!(nap(0, 5_000_000, Some(50_000)), Nap::Spin);
        assert_eq!(
            nap(0, 9_000_000_000, Some(9_000_060_000)),
            Nap::Timeout(8_950_000_000)
        );
    }

    #[test]
    fn orders_are_random_and_repeatable() {
        let order = |seed| {
            let mut list: Vec<u32> = (0..20).collect();
            Random::new(seed).shuffle(&mut list);
            list
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
