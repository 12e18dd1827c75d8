//! An adaptive concurrency limit: it grows while requests are served as fast as without load, and shrinks when their
//! latency rises, because requests then wait inside the upstream.
//!
//! The design is that of delay-based congestion control: TCP Vegas (Brakmo, O'Malley, Peterson, 1994), as Netflix's
//! `concurrency-limits` and Envoy's adaptive concurrency filter apply it to requests. The latency without load is the
//! lowest median of recent windows, and it is measured again with half the limit from time to time, as BBR measures
//! the round-trip time (`ProbeRTT`, Cardwell et al., ACM Queue 14(5), 2016).

use alloc::vec::Vec;
use core::time::Duration;

use sluice_message::Moment;

use super::Sample;
use crate::limits::{
    LATENCY_SAMPLES_MAX, LATENCY_SAMPLES_MIN, LATENCY_WINDOW, LIMIT_AT_START, UNLOADED_EPOCH,
};

/// The bounds of an adaptive limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdaptivePolicy {
    /// The latency that requests may have under load, half of it in the queue and half in the upstream. If the upstream
    /// takes longer than that without load, one and a half times its latency without load counts instead of the half.
    pub target: Duration,
    /// The lowest limit.
    pub min: u32,
    /// The highest limit.
    pub max: u32,
}

/// The phase of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The latency never rose above its bound: the limit grows fast, up to the double with each window.
    Start,
    /// The limit follows the latency.
    Steady,
    /// The limit is halved for a window, to measure the latency without load; then it is this again.
    Probe(f64),
}

/// An adaptive concurrency limit.
#[derive(Debug)]
pub struct AdaptiveLimit {
    policy: AdaptivePolicy,
    limit: f64,
    phase: Phase,
    window: Window,
    /// The lowest median of this epoch and of the previous one.
    unloaded: [Option<Duration>; 2],
    epoch_began: Moment,
    /// The median of the last window.
    latency: Duration,
}

/// Requests that ended lately.
#[derive(Debug)]
struct Window {
    began: Moment,
    /// Their latencies, the latest ones if there were many.
    latencies: Vec<Duration>,
    count: usize,
    overloaded: usize,
    /// The most requests that were in flight or waited.
    wanted: u32,
}

impl Window {
    fn restart(&mut self, now: Moment) {
        self.began = now;
        self.latencies.clear();
        self.count = 0;
        self.overloaded = 0;
        self.wanted = 0;
    }

    fn add(&mut self, latency: Duration) {
        if self.latencies.len() < LATENCY_SAMPLES_MAX {
            self.latencies.push(latency);
        } else {
            self.latencies[self.count % LATENCY_SAMPLES_MAX] = latency;
        }
        self.count += 1;
    }

    /// The median latency; `None` without any.
    fn median(&mut self) -> Option<Duration> {
        let middle = self.latencies.len() / 2;
        if self.latencies.is_empty() {
            return None;
        }
        let (_, median, _) = self.latencies.select_nth_unstable(middle);
        Some(*median)
    }
}

impl AdaptiveLimit {
    /// Starts with a small limit.
    pub fn new(policy: AdaptivePolicy, now: Moment) -> AdaptiveLimit {
        let min = policy.min.max(1);
        let policy = AdaptivePolicy {
            min,
            max: policy.max.max(min),
            ..policy
        };
        AdaptiveLimit {
            policy,
            limit: f64::from(LIMIT_AT_START.clamp(policy.min, policy.max)),
            phase: Phase::Start,
            window: Window {
                began: now,
                latencies: Vec::new(),
                count: 0,
                overloaded: 0,
                wanted: 0,
            },
            unloaded: [None; 2],
            epoch_began: now,
            latency: Duration::ZERO,
        }
    }

    /// The current limit.
    pub fn limit(&self) -> u32 {
        // Between `min` and `max`, so nothing is cut off but the fraction.
        self.limit as u32
    }

    /// The latency without load, as far as it is known.
    pub fn unloaded_latency(&self) -> Option<Duration> {
        self.unloaded.iter().flatten().min().copied()
    }

    /// The median latency of the last window.
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// A request has ended; `wanted` requests were in flight or waited meanwhile.
    pub fn note(&mut self, sample: Sample, wanted: u32, now: Moment) {
        let window = &mut self.window;
        window.wanted = window.wanted.max(wanted);
        match sample {
            Sample::Latency(latency) => window.add(latency),
            Sample::Overloaded => window.overloaded += 1,
            Sample::None => {}
        }
        // Requests admitted before a change must have ended before its effect is judged.
        let length = LATENCY_WINDOW.max(self.latency * 2);
        let is_over = now.since(window.began) >= length
            && window.count + window.overloaded >= LATENCY_SAMPLES_MIN;
        if is_over {
            self.judge(now);
            self.window.restart(now);
        }
    }

    fn judge(&mut self, now: Moment) {
        let median = self.window.median();
        if let Some(median) = median {
            self.latency = median;
            let lowest = self.unloaded[0].map_or(median, |known| known.min(median));
            self.unloaded[0] = Some(lowest);
        }
        let before = match self.phase {
            Phase::Probe(before) => {
                self.phase = Phase::Steady;
                self.limit = before;
                return;
            }
            Phase::Start | Phase::Steady => self.limit,
        };
        let all = self.window.count + self.window.overloaded;
        if self.window.overloaded * 10 > all {
            self.phase = Phase::Steady;
            self.set(before * 0.9);
        } else if let Some(median) = median {
            self.follow(median);
        }
        self.renew_epoch(now);
    }

    /// The latency that the upstream may have under load.
    fn allowed(&self) -> Duration {
        let unloaded = self.unloaded_latency().unwrap_or_default();
        (self.policy.target / 2).max(unloaded * 3 / 2)
    }

    fn follow(&mut self, median: Duration) {
        let ratio = median.as_secs_f64() / self.allowed().as_secs_f64().max(f64::MIN_POSITIVE);
        if ratio > 1.0 {
            self.phase = Phase::Steady;
            if self.limit <= f64::from(self.policy.min) {
                // A lower limit could not shorten a queue in the upstream: it is this slow without load.
                self.unloaded = [Some(median), None];
                return;
            }
            return self.set(self.limit * (1.0 / ratio).max(0.5));
        }
        // A limit that is not used says nothing about a higher one.
        if f64::from(self.window.wanted) < self.limit * 0.75 {
            return;
        }
        let step = match self.phase {
            // If the upstream is full already, latency grows with the requests in it (Little's law): so the next window cannot
            // exceed the bound by much.
            Phase::Start => self.limit * (1.0 / ratio - 1.0).min(1.0),
            Phase::Steady | Phase::Probe(_) => square_root(self.limit) * (1.0 - ratio),
        };
        self.set(self.limit + step.max(1.0));
    }

    /// Forgets old latencies. If the limit depends on the latency without load, that is measured again.
    fn renew_epoch(&mut self, now: Moment) {
        if now.since(self.epoch_began) < UNLOADED_EPOCH {
            return;
        }
        let depends = self.allowed() > self.policy.target / 2;
        self.epoch_began = now;
        self.unloaded = [None, self.unloaded[0]];
        if depends && self.phase == Phase::Steady {
            self.phase = Phase::Probe(self.limit);
            self.set(self.limit / 2.0);
        }
    }

    fn set(&mut self, limit: f64) {
        self.limit = limit.clamp(f64::from(self.policy.min), f64::from(self.policy.max));
    }
}

/// The square root of a number of 1 or more, by Newton's method: `core` has none.
fn square_root(number: f64) -> f64 {
    let mut root = number.max(1.0);
    // From above each step halves the error at least until it is small; limits are below 2^32.
    for _ in 0..24 {
        root = (root + number / root) / 2.0;
    }
    root
}
