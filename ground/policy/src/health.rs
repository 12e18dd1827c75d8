//! Upstream health, from responses to client requests (passive) and from dedicated checks (active). `sluice-net` sends
//! the checks.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use sluice_message::{Moment, Status};

use crate::limits::FAILS_MAX;

/// Whether `status` is `wanted`, where a single digit stands for a whole class: 5 for 500 to 599.
pub fn is_status(status: Status, wanted: u16) -> bool {
    wanted == status.code() || wanted == status.code() / 100
}

/// What counts as a failure of an upstream, and how many make it unhealthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassivePolicy {
    /// How long a failure is remembered; zero turns passive checks off.
    pub fail_duration: Duration,
    /// Remembered failures that make an upstream unhealthy.
    pub max_fails: u32,
    /// Statuses that are failures; single digits stand for classes.
    pub unhealthy_statuses: Vec<u16>,
    /// A response that takes this long is a failure; zero disables the check.
    pub unhealthy_latency: Duration,
    /// Requests in flight that make an upstream full; zero turns this off.
    pub unhealthy_request_count: u32,
    /// The share of all upstreams that failures may take out at a time, in percent; 100 for all of them.
    pub ejected_max_percent: u32,
}

impl Default for PassivePolicy {
    fn default() -> Self {
        PassivePolicy {
            fail_duration: Duration::ZERO,
            max_fails: 1,
            unhealthy_statuses: Vec::new(),
            unhealthy_latency: Duration::ZERO,
            unhealthy_request_count: 0,
            ejected_max_percent: 100,
        }
    }
}

impl PassivePolicy {
    /// Whether failures are counted at all.
    pub fn is_on(&self) -> bool {
        !self.fail_duration.is_zero()
    }

    /// Whether a response with `status` after `latency` is a failure. An attempt without a response always is.
    pub fn is_failure(&self, status: Status, latency: Duration) -> bool {
        let slow = !self.unhealthy_latency.is_zero() && latency >= self.unhealthy_latency;
        slow || self
            .unhealthy_statuses
            .iter()
            .any(|&wanted| is_status(status, wanted))
    }

    /// How many of so many upstreams failures may take out at a time: rounded down, but one at least.
    pub fn ejected_max(&self, count: usize) -> usize {
        let max = count as u64 * u64::from(self.ejected_max_percent) / 100;
        usize::try_from(max).unwrap_or(count).max(1)
    }

    /// Whether an upstream that works on `in_flight` requests is full.
    pub fn is_full(&self, in_flight: u32) -> bool {
        self.unhealthy_request_count > 0 && in_flight >= self.unhealthy_request_count
    }
}

/// The failures of one upstream. All workers of a server share it.
#[derive(Debug)]
pub struct PassiveHealth {
    fail_duration: Duration,
    /// When each of the latest failures was, in nanoseconds plus one; 0 for none. As many places as
    /// failures make the upstream unhealthy: it is unhealthy exactly while the oldest of them still
    /// counts.
    failures: Box<[AtomicU64]>,
    /// Counts failures; gives the place of the next, which is that of the oldest.
    next: AtomicU32,
}

impl PassiveHealth {
    /// An upstream without failures.
    pub fn new(policy: &PassivePolicy) -> PassiveHealth {
        // The places are reached in turn; only where the counter wraps, once in 2^32 failures, may
        // one be passed over.
        let places = if policy.is_on() {
            policy.max_fails.clamp(1, FAILS_MAX)
        } else {
            0
        };
        PassiveHealth {
            fail_duration: policy.fail_duration,
            failures: (0..places).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicU32::new(0),
        }
    }

    /// Remembers a failure.
    pub fn fail(&self, now: Moment) {
        if !self.failures.is_empty() {
            let place = self.next.fetch_add(1, Ordering::Relaxed) as usize % self.failures.len();
            self.failures[place].store(nanos(now).saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Whether fewer failures are remembered than make an upstream unhealthy.
    pub fn is_healthy(&self, now: Moment) -> bool {
        if self.failures.is_empty() {
            return true;
        }
        let oldest = self.next.load(Ordering::Relaxed) as usize % self.failures.len();
        !self.counts(self.failures[oldest].load(Ordering::Relaxed), now)
    }

    /// The failures remembered, no more than make an upstream unhealthy.
    pub fn fails(&self, now: Moment) -> u32 {
        let counts = |failure: &&AtomicU64| self.counts(failure.load(Ordering::Relaxed), now);
        self.failures.iter().filter(counts).count() as u32
    }

    /// The failures that count, the earliest first.
    pub fn remembered(&self, now: Moment) -> Vec<Moment> {
        let nanos = self.failures.iter().map(|at| at.load(Ordering::Relaxed));
        let mut counted: Vec<u64> = nanos.filter(|nanos| self.counts(*nanos, now)).collect();
        counted.sort_unstable();
        let moment = |nanos: u64| Moment::START + Duration::from_nanos(nanos - 1);
        counted.into_iter().map(moment).collect()
    }

    /// Adds failures from before: those of a process that this one replaces. A failure at this very moment may get lost.
    pub fn add(&self, before: &[Moment], now: Moment) {
        let mut all = self.remembered(now);
        all.extend(before.iter().map(|failure| (*failure).min(now)));
        all.sort_unstable();
        for place in &self.failures {
            place.store(0, Ordering::Relaxed);
        }
        let surplus = all.len().saturating_sub(self.failures.len());
        for failure in all.drain(surplus..) {
            self.fail(failure);
        }
    }

    /// Whether failures are remembered at all.
    pub fn is_on(&self) -> bool {
        !self.failures.is_empty()
    }

    /// The latest failure; `None` if there was none.
    pub fn latest_failure(&self) -> Option<Moment> {
        let places = self.failures.len();
        let next = self.next.load(Ordering::Relaxed) as usize;
        let latest = (next + places).checked_sub(1)?.checked_rem(places)?;
        let nanos = self.failures[latest].load(Ordering::Relaxed);
        Some(Moment::START + Duration::from_nanos(nanos.checked_sub(1)?))
    }

    /// When it last became healthy again; `None` if it was never unhealthy.
    pub fn recovered_at(&self) -> Option<Moment> {
        let places = self.failures.len();
        let next = self.next.load(Ordering::Relaxed) as usize;
        let at = |place: usize| {
            self.failures
                .get(place)?
                .load(Ordering::Relaxed)
                .checked_sub(1)
        };
        let oldest = at(next.checked_rem(places)?)?;
        let latest = at((next + places - 1) % places)?;
        let end = Duration::from_nanos(oldest) + self.fail_duration;
        // With the latest failure as many counted as make it unhealthy, until the oldest of them no longer did.
        (Duration::from_nanos(latest) < end).then(|| Moment::START + end)
    }

    fn counts(&self, failure: u64, now: Moment) -> bool {
        let age = nanos(now).saturating_sub(failure.saturating_sub(1));
        failure != 0 && Duration::from_nanos(age) < self.fail_duration
    }
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_nanos()).unwrap_or(u64::MAX)
}

/// Of upstreams that failures make unhealthy, each with its latest failure: those up to and including this one are left
/// out, where no more than `max` may be. `None` where that are all of them. Who is left out gets no requests and fails no
/// more, while the others go on to: so those that were left out first stay out until their failures are forgotten.
pub fn last_ejected<K: Copy + Ord>(failing: &mut [(Moment, K)], max: usize) -> Option<(Moment, K)> {
    let at = max.checked_sub(1)?;
    if failing.len() <= max {
        return None;
    }
    Some(*failing.select_nth_unstable(at).1)
}

/// When an upstream is checked, and how many results in a row change our mind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivePolicy {
    /// From the beginning of one check to that of the next.
    pub interval: Duration,
    /// How long a check may take.
    pub timeout: Duration,
    /// Passes in a row that make an unhealthy upstream healthy.
    pub passes: u32,
    /// Failures in a row that make a healthy upstream unhealthy.
    pub fails: u32,
    /// The status that passes, a single digit for a class; `None` for any of 200 to 299.
    pub expect_status: Option<u16>,
    /// What counts before the first check has ended.
    pub initial: Initial,
}

/// The state of an upstream before its first check has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Initial {
    /// It counts as healthy.
    #[default]
    Healthy,
    /// It is being checked, and counts as unhealthy until one check passes.
    Checking,
}

impl Default for ActivePolicy {
    fn default() -> Self {
        ActivePolicy {
            interval: Duration::from_secs(30),
            timeout: Duration::from_secs(5),
            passes: 1,
            fails: 1,
            expect_status: None,
            initial: Initial::Healthy,
        }
    }
}

impl ActivePolicy {
    /// Whether a response with `status` passes the check. The caller checks the body.
    pub fn is_pass(&self, status: Status) -> bool {
        is_status(status, self.expect_status.unwrap_or(2))
    }
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// With the expected response.
    Passed,
    /// With another response, or none.
    Failed,
}

/// What the machine asks for or tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckEvent {
    /// Send a check now, and give it up when the deadline passes.
    Start,
    /// The upstream became healthy.
    Up,
    /// The upstream became unhealthy.
    Down,
}

/// The checks of one upstream.
#[derive(Clone, Debug)]
pub struct ActiveCheck {
    policy: ActivePolicy,
    health: Health,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Checking,
    Healthy { fails_in_row: u32 },
    Unhealthy { passes_in_row: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    AwaitStart { at: Moment },
    AwaitResult { until: Moment, next: Moment },
}

impl ActiveCheck {
    /// Checks that begin at `first`.
    pub fn new(policy: ActivePolicy, first: Moment) -> ActiveCheck {
        let health = match policy.initial {
            Initial::Healthy => Health::Healthy { fails_in_row: 0 },
            Initial::Checking => Health::Checking,
        };
        ActiveCheck {
            policy,
            health,
            phase: Phase::AwaitStart { at: first },
        }
    }

    /// Whether the upstream counts as healthy.
    pub fn is_healthy(&self) -> bool {
        matches!(self.health, Health::Healthy { .. })
    }

    /// When to call [`ActiveCheck::expire`] next.
    pub fn deadline(&self) -> Moment {
        match self.phase {
            Phase::AwaitStart { at } => at,
            Phase::AwaitResult { until, .. } => until,
        }
    }

    /// Starts the check that is due, or gives up the one that took too long. Does nothing before
    /// the deadline.
    pub fn expire(&mut self, now: Moment) -> Option<CheckEvent> {
        if now < self.deadline() {
            return None;
        }
        match self.phase {
            Phase::AwaitStart { .. } => {
                let (until, next) = (now + self.policy.timeout, now + self.policy.interval);
                self.phase = Phase::AwaitResult { until, next };
                Some(CheckEvent::Start)
            }
            Phase::AwaitResult { .. } => self.receive(CheckResult::Failed, now),
        }
    }

    /// Takes the result of the check that was started. One that comes after the check was given up
    /// is ignored.
    pub fn receive(&mut self, result: CheckResult, now: Moment) -> Option<CheckEvent> {
        let Phase::AwaitResult { next, .. } = self.phase else {
            return None;
        };
        // A check that took longer than the interval is followed by the next at once, never by two.
        self.phase = Phase::AwaitStart { at: next.max(now) };
        let (health, event) = self.health.after(result, &self.policy);
        self.health = health;
        event
    }
}

impl Health {
    fn after(self, result: CheckResult, policy: &ActivePolicy) -> (Health, Option<CheckEvent>) {
        let (up, down) = (
            Health::Healthy { fails_in_row: 0 },
            Health::Unhealthy { passes_in_row: 0 },
        );
        match (self, result) {
            (Health::Healthy { .. }, CheckResult::Passed) => (up, None),
            (Health::Checking, CheckResult::Passed) => (up, Some(CheckEvent::Up)),
            (Health::Checking | Health::Unhealthy { .. }, CheckResult::Failed) => (down, None),
            (Health::Healthy { fails_in_row }, CheckResult::Failed) => {
                let fails_in_row = fails_in_row.saturating_add(1);
                match fails_in_row >= policy.fails {
                    true => (down, Some(CheckEvent::Down)),
                    false => (Health::Healthy { fails_in_row }, None),
                }
            }
            (Health::Unhealthy { passes_in_row }, CheckResult::Passed) => {
                let passes_in_row = passes_in_row.saturating_add(1);
                match passes_in_row >= policy.passes {
                    true => (up, Some(CheckEvent::Up)),
                    false => (Health::Unhealthy { passes_in_row }, None),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
