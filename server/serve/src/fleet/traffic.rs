//! Requests and errors of a node around a change of its configuration.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::limits::{ERROR_WINDOW, ERRORS_MIN};

/// Counters since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests that ended.
    pub requests: u64,
    /// Of these, responses with a status from 500 up.
    pub errors: u64,
}

/// What happened in a period of at most [`ERROR_WINDOW`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Window {
    /// Requests that ended.
    pub requests: u64,
    /// Of these, responses with a status from 500 up.
    pub errors: u64,
    /// Its length in seconds.
    pub seconds: f64,
}

impl Window {
    /// The share of errors; `None` without requests.
    pub fn error_share(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.errors as f64 / self.requests as f64)
    }

    /// Whether the errors have jumped since the period `before`: there are at least [`ERRORS_MIN`] of them, and their
    /// share is more than twice the share before plus five percentage points.
    pub fn is_jump_since(&self, before: &Window) -> bool {
        let was = before.error_share().unwrap_or_default();
        let share = self.error_share().unwrap_or_default();
        self.errors >= ERRORS_MIN && share > 2.0 * was + 0.05
    }
}

/// Samples of the last minute, and the counters at the last change.
#[derive(Debug)]
pub(super) struct Samples {
    /// The latest last; at most one per second.
    taken: VecDeque<(Instant, Traffic)>,
    changed: (Instant, Traffic),
    before: Window,
}

impl Samples {
    pub fn new(now: Instant, traffic: Traffic) -> Samples {
        Samples {
            taken: VecDeque::new(),
            changed: (now, traffic),
            before: Window::default(),
        }
    }

    /// Takes a sample, unless the last one is younger than a second.
    pub fn sample(&mut self, now: Instant, traffic: Traffic) {
        let due = |(at, _): &(Instant, Traffic)| now.duration_since(*at) >= Duration::from_secs(1);
        if self.taken.back().is_none_or(due) {
            self.taken.push_back((now, traffic));
        }
        // One that is older than the window stays: the window begins between it and the next.
        while self.taken.len() > 1 && now.duration_since(self.taken[1].0) >= ERROR_WINDOW {
            self.taken.pop_front();
        }
    }

    /// The configuration has changed just now.
    pub fn change(&mut self, now: Instant, traffic: Traffic) {
        self.before = self.recent(now, traffic);
        self.changed = (now, traffic);
        self.taken.clear();
    }

    /// The window before the last change.
    pub fn before(&self) -> Window {
        self.before
    }

    /// The window that ends now; it begins at the last change or later.
    pub fn recent(&self, now: Instant, traffic: Traffic) -> Window {
        let start = match self.taken.front() {
            Some(first) if now.duration_since(self.changed.0) > ERROR_WINDOW => first,
            Some(_) | None => &self.changed,
        };
        Window {
            requests: traffic.requests.saturating_sub(start.1.requests),
            errors: traffic.errors.saturating_sub(start.1.errors),
            seconds: now.duration_since(start.0).as_millis() as f64 / 1000.0,
        }
    }

    /// Whether the last change is younger than the window.
    pub fn is_fresh(&self, now: Instant) -> bool {
        now.duration_since(self.changed.0) <= ERROR_WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(requests: u64, errors: u64) -> Traffic {
        Traffic { requests, errors }
    }

    #[test]
    fn windows_end_at_a_change_and_are_a_minute_long() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let mut samples = Samples::new(began, traffic(0, 0));
        for second in 0..=200 {
            samples.sample(at(second), traffic(second * 10, second));
        }
        let recent = samples.recent(at(200), traffic(2000, 200));
        assert_eq!(
            (recent.requests, recent.errors, recent.seconds),
            (600, 60, 60.0)
        );
        assert!(samples.taken.len() <= 62);
        samples.change(at(200), traffic(2000, 200));
        assert_eq!(samples.before().requests, 600);
        let recent = samples.recent(at(202), traffic(2030, 230));
        assert_eq!(
            (recent.requests, recent.errors, recent.seconds),
            (30, 30, 2.0)
        );
        assert!(recent.is_jump_since(&samples.before()));
    }

    #[test]
    fn a_jump_needs_a_number_and_a_share() {
        let window = |requests, errors| Window {
            requests,
            errors,
            seconds: 1.0,
        };
        let calm = window(1000, 10);
        assert!(!window(9, 9).is_jump_since(&calm), "too few");
        assert!(
            !window(1000, 70).is_jump_since(&calm),
            "7 % is not above 2 × 1 % + 5 %"
        );
        assert!(window(1000, 71).is_jump_since(&calm));
        assert!(window(20, 10).is_jump_since(&Window::default()));
        assert!(!window(20, 10).is_jump_since(&window(10, 3)), "30 % before");
        assert_eq!(Window::default().error_share(), None);
    }
}
