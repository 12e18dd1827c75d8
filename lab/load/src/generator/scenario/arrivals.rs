//! When sessions begin, and how many clients there are: fixed before the load begins, whatever the target does.

use super::{Phase, Scenario};
use crate::generator::clock::{Ns, span};
use crate::random::Random;

/// The level of a scenario over time: clients, or sessions per second. Before the window it is that of the window's
/// beginning.
#[derive(Clone, Debug)]
pub struct Levels(Vec<Stretch>);

/// A part of the timeline on which the level changes linearly.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    begin: f64,
    length: f64,
    from: f64,
    to: f64,
    /// Sessions of all stretches before it.
    before: f64,
}

impl Levels {
    /// The timeline of a scenario whose warm-up begins at `now` and whose window begins at `window`.
    pub fn of(scenario: &Scenario, now: Ns, window: Ns) -> Self {
        let warm = window.saturating_sub(now) as f64;
        let first = scenario.phases.first().map_or(0.0, |phase| phase.from);
        let warmup = (now as f64, warm, first, first);
        let mut begin = window as f64;
        let phase = |phase: &Phase| {
            let length = span(phase.duration) as f64;
            let one = (begin, length, phase.from, phase.to);
            begin += length;
            one
        };
        let phases = scenario.phases.iter().map(phase);
        let mut before = 0.0;
        let stretches = [warmup].into_iter().chain(phases);
        let stretch = |(begin, length, from, to): (f64, f64, f64, f64)| {
            let stretch = Stretch {
                begin,
                length,
                from,
                to,
                before,
            };
            before += stretch.sessions(length);
            stretch
        };
        Levels(stretches.map(stretch).collect())
    }

    /// The level at a moment; after the end the last one.
    pub fn at(&self, now: Ns) -> f64 {
        let now = now as f64;
        let inside = |stretch: &&Stretch| now < stretch.begin + stretch.length;
        match self.0.iter().find(inside) {
            Some(stretch) => {
                let passed = (now - stretch.begin).max(0.0) / stretch.length.max(1.0);
                stretch.from + (stretch.to - stretch.from) * passed
            }
            None => self.0.last().map_or(0.0, |stretch| stretch.to),
        }
    }

    /// When the session number `count` begins; `None` if that is after the end.
    fn when(&self, count: f64) -> Option<Ns> {
        let inside = |stretch: &&Stretch| count < stretch.before + stretch.sessions(stretch.length);
        let stretch = self.0.iter().find(inside)?;
        Some((stretch.begin + stretch.time(count - stretch.before)) as Ns)
    }
}

impl Stretch {
    /// Sessions that begin within `passed` nanoseconds.
    fn sessions(&self, passed: f64) -> f64 {
        let slope = (self.to - self.from) / self.length.max(1.0);
        (self.from * passed + slope / 2.0 * passed * passed) / 1e9
    }

    /// Nanoseconds until `count` sessions have begun: the smaller root of [`Stretch::sessions`], in the form that also
    /// holds without a slope.
    fn time(&self, count: f64) -> f64 {
        let count = count * 1e9;
        let slope = (self.to - self.from) / self.length.max(1.0);
        let root = (self.from * self.from + 2.0 * slope * count)
            .max(0.0)
            .sqrt();
        let below = self.from + root;
        match below > 0.0 {
            true => (2.0 * count / below).min(self.length),
            false => 0.0,
        }
    }
}

/// The due times of one thread's sessions.
#[derive(Clone, Debug)]
pub struct Arrivals {
    levels: Levels,
    /// The next session, in numbers of all threads together.
    next: f64,
    /// Threads that share the sessions.
    threads: f64,
    chance: Option<Random>,
}

impl Arrivals {
    /// The sessions of thread number `thread`; random intervals with `poisson`.
    pub fn new(levels: Levels, thread: usize, threads: usize, poisson: Option<Random>) -> Self {
        let mut arrivals = Arrivals {
            levels,
            next: (thread as f64 + 0.5) * 1.0,
            threads: threads as f64,
            chance: poisson,
        };
        if arrivals.chance.is_some() {
            arrivals.next = 0.0;
            arrivals.advance();
        }
        arrivals
    }

    /// When the next session is due; `None` if there is none any more.
    pub fn due(&self) -> Option<Ns> {
        self.levels.when(self.next)
    }

    /// Advances to the next session.
    pub fn advance(&mut self) {
        // Numbers of sessions of a Poisson process with a changing rate have exponential intervals.
        self.next += self.threads
            * match &mut self.chance {
                Some(chance) => -(1.0 - chance.unit()).ln(),
                None => 1.0,
            };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::generator::scenario::Pace;

    const SECOND: Ns = 1_000_000_000;

    fn scenario(phases: &[(u64, f64, f64)]) -> Scenario {
        let phase = |(seconds, from, to): &(u64, f64, f64)| Phase {
            name: String::new(),
            duration: Duration::from_secs(*seconds),
            from: *from,
            to: *to,
        };
        Scenario {
            name: String::new(),
            pace: Pace::Clients,
            phases: phases.iter().map(phase).collect(),
            variables: Vec::new(),
            sessions: Vec::new(),
        }
    }

    fn due(levels: &Levels, threads: usize, poisson: Option<u64>) -> Vec<Ns> {
        let mut all = Vec::new();
        for thread in 0..threads {
            let chance = poisson.map(|seed| Random::new(seed + thread as u64));
            let mut arrivals = Arrivals::new(levels.clone(), thread, threads, chance);
            while let Some(due) = arrivals.due() {
                all.push(due);
                arrivals.advance();
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn ramps_steps_and_spikes_have_their_sessions() {
        let phases = [
            (10, 0.0, 100.0),
            (10, 100.0, 100.0),
            (1, 1_000.0, 1_000.0),
            (10, 100.0, 0.0),
        ];
        let levels = Levels::of(&scenario(&phases), 3 * SECOND, 4 * SECOND);
        for threads in [1, 3] {
            let due = due(&levels, threads, None);
            let between = |from: u64, to: u64| {
                let inside = |at: &&Ns| (4 + from) * SECOND <= **at && **at < (4 + to) * SECOND;
                due.iter().filter(inside).count()
            };
            // The area below the ramp; its second half has three quarters.
            for (from, to, count) in [
                (0, 5, 125),
                (5, 10, 375),
                (10, 20, 1_000),
                (20, 21, 1_000),
                (21, 26, 375),
                (26, 31, 125),
            ] {
                let found = between(from, to);
                assert!(found.abs_diff(count) <= 1, "{from} to {to}: {found}");
            }
            assert!(due.len().abs_diff(3_000) <= 1, "{}", due.len());
        }
        assert_eq!(levels.at(3 * SECOND), 0.0);
        assert_eq!(levels.at(9 * SECOND), 50.0);
        assert_eq!(levels.at(24 * SECOND), 1_000.0);
        assert_eq!(levels.at(30 * SECOND), 50.0);
        assert_eq!(levels.at(99 * SECOND), 0.0);
    }

    #[test]
    fn the_warm_up_has_the_first_level_and_random_intervals_its_mean() {
        let levels = Levels::of(&scenario(&[(100, 100.0, 100.0)]), 0, SECOND);
        let even = due(&levels, 2, None);
        assert_eq!(even.iter().filter(|at| **at < SECOND).count(), 100);
        assert_eq!(even.len(), 100 + 10_000);
        let random = due(&levels, 2, Some(7));
        // Standard deviation sqrt(10,100) = 100; six of them.
        assert!(random.len().abs_diff(10_100) < 600, "{}", random.len());
        assert_eq!(random, due(&levels, 2, Some(7)));
        assert_ne!(even, random);
    }

    #[test]
    fn no_level_means_no_session() {
        let levels = Levels::of(&scenario(&[(1, 0.0, 0.0), (1, 5.0, 5.0)]), 0, SECOND);
        let due = due(&levels, 1, None);
        assert_eq!(due.len(), 5);
        assert!(due.iter().all(|at| *at >= 2 * SECOND), "{due:?}");
    }
}
