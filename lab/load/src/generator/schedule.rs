//! When requests of an open loop are due: fixed before the load begins, whatever the server does.

use super::clock::Ns;
use crate::random::Random;

/// The due times of one thread.
#[derive(Clone, Debug)]
pub struct Schedule {
    begin: Ns,
    /// Mean gap in nanoseconds. A fraction, so that rates that do not divide a second are kept to.
    gap: f64,
    /// Due time of the next request, after `begin`.
    next: f64,
    chance: Option<Random>,
}

impl Schedule {
    /// From `begin` on, `rate` requests per second for this thread, the first a part of a gap after `begin` given by
    /// `phase` from 0 to 1, so that threads do not ask in step.
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

    /// Goes on to the one after it.
    pub fn advance(&mut self) {
        self.next += match &mut self.chance {
            // Gaps of a Poisson process are exponential.
            Some(chance) => -(1.0 - chance.unit()).ln() * self.gap,
            None => self.gap,
        };
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
