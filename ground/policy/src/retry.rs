//! Whether and when a failed upstream attempt may be retried. `balance` selects the next upstream; `sluice-serve` makes
//! the attempt.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use sluice_message::{Method, Moment};

use crate::limits::{
    FAILOVER_TIME, FAILOVERS_MAX, RETRIES_AT_START, RETRIES_SAVED_MAX, RETRY_BUDGET_PERCENT,
};

/// How often and how long a request is tried (`lb_retries`, `lb_try_duration`, `lb_try_interval`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts after the first; zero leaves it to `try_duration`.
    pub retries: u32,
    /// How long new attempts are begun; zero leaves it to `retries`. Both zero: one attempt.
    pub try_duration: Duration,
    /// The wait before a new attempt.
    pub try_interval: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            retries: 0,
            try_duration: Duration::ZERO,
            try_interval: Duration::from_millis(250),
        }
    }
}

/// How far an attempt came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No upstream was available, so nobody was asked.
    NoUpstream,
    /// No connection came about, so nobody saw the request.
    NotSent,
    /// The upstream may have seen some of the request, or all.
    Sent,
    /// The response began to reach the client.
    Responded,
}

/// Whether the request's body can be sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none, or none of it was taken yet, or it is kept.
    Replayable,
    /// Some of it is gone.
    Consumed,
}

/// Whether an upstream is left that this request was not passed to yet and that can take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// There is one.
    Left,
    /// All were tried, or cannot take it.
    None,
}

/// A failed attempt.
#[derive(Clone, Copy, Debug)]
pub struct Failed<'a> {
    /// How far it came.
    pub progress: Progress,
    /// The method of the request.
    pub method: &'a Method,
    /// Its body.
    pub body: Body,
    /// What `lb_retry_match` says of the request, where it is set.
    pub matched: Option<bool>,
    /// Attempts made so far, this one included.
    pub attempts: u32,
    /// Upstreams that were not tried.
    pub others: Others,
    /// When the first attempt began.
    pub since: Moment,
}

impl RetryPolicy {
    /// When to try again; `None` gives up. A request of which no upstream saw anything is passed to each other upstream
    /// once, at once and whatever the settings: that is the same request arriving elsewhere, not a repetition. A request
    /// of which an upstream may have seen something is only sent again if doing it twice is harmless (RFC 9110, section 9.2.2) or
    /// `lb_retry_match` says so, and only while `budget` lasts.
    pub fn next_attempt(
        &self,
        failed: &Failed<'_>,
        budget: &RetryBudget,
        now: Moment,
    ) -> Option<Moment> {
        if fails_over(failed, now) {
            return Some(now);
        }
        if self.is_over(failed, now) {
            return None;
        }
        let allowed = match (failed.progress, failed.body) {
            (Progress::NoUpstream | Progress::NotSent, Body::Replayable) => true,
            (Progress::Sent, Body::Replayable) => {
                failed.matched.unwrap_or(failed.method.is_idempotent()) && budget.spend()
            }
            (Progress::Responded, _) | (_, Body::Consumed) => false,
        };
        allowed.then(|| now + self.try_interval)
    }

    fn is_over(&self, failed: &Failed<'_>, now: Moment) -> bool {
        let none = self.retries == 0 && self.try_duration.is_zero();
        let late = !self.try_duration.is_zero() && now.since(failed.since) >= self.try_duration;
        let often = self.retries > 0 && failed.attempts > self.retries;
        none || late || often
    }
}

/// Whether a request that nobody saw goes to an upstream that it was not passed to yet.
fn fails_over(failed: &Failed<'_>, now: Moment) -> bool {
    failed.progress == Progress::NotSent
        && failed.body == Body::Replayable
        && failed.others == Others::Left
        && failed.attempts <= FAILOVERS_MAX
        && now.since(failed.since) < FAILOVER_TIME
}

/// Bounds the requests sent twice to a share of all, by default a tenth, so that upstreams in trouble are not buried in
/// repetitions. All workers of a server share one per proxy. Attempts of which no upstream saw
/// anything are free.
#[derive(Debug)]
pub struct RetryBudget {
    /// Hundredths of a retry.
    saved: AtomicU32,
    /// How many of them a request earns.
    percent: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        RetryBudget::new()
    }
}

impl RetryBudget {
    /// A budget of a tenth of the requests, with what it has at the start.
    pub const fn new() -> RetryBudget {
        RetryBudget::of_percent(RETRY_BUDGET_PERCENT)
    }

    /// A budget of this share of the requests, with what it has at the start.
    pub const fn of_percent(percent: u32) -> RetryBudget {
        RetryBudget {
            saved: AtomicU32::new(RETRIES_AT_START * 100),
            percent,
        }
    }

    /// Counts a request.
    pub fn earn(&self) {
        let earn = |saved: u32| {
            let full = saved >= RETRIES_SAVED_MAX * 100;
            if full {
                None
            } else {
                Some(saved + self.percent)
            }
        };
        // A full budget stays as it is.
        let _: Result<u32, u32> =
            self.saved
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, earn);
    }

    /// Takes one retry from the budget and returns whether one was left.
    pub fn spend(&self) -> bool {
        let spend = |saved: u32| saved.checked_sub(100);
        self.saved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::START + Duration::from_millis(millis)
    }

    fn policy(retries: u32, try_duration: u64) -> RetryPolicy {
        let try_duration = Duration::from_millis(try_duration);
        RetryPolicy {
            retries,
            try_duration,
            ..RetryPolicy::default()
        }
    }

    fn failed(progress: Progress, method: &Method) -> Failed<'_> {
        Failed {
            progress,
            method,
            body: Body::Replayable,
            matched: None,
            attempts: 1,
            others: Others::None,
            since: at(0),
        }
    }

    #[test]
    fn by_default_nothing_is_tried_twice() {
        let failed = failed(Progress::NotSent, &Method::Get);
        let policy = RetryPolicy::default();
        assert_eq!(
            policy.next_attempt(&failed, &RetryBudget::new(), at(0)),
            None
        );
    }

    #[test]
    fn an_unsent_request_tries_each_other_upstream_at_once() {
        let budget = RetryBudget::new();
        while budget.spend() {}
        let next = |policy: RetryPolicy, failed: Failed<'_>, now| {
            policy.next_attempt(&failed, &budget, at(now))
        };
        let failed = Failed {
            others: Others::Left,
            ..failed(Progress::NotSent, &Method::Post)
        };
        let late = u64::try_from(FAILOVER_TIME.as_millis()).unwrap();
        for policy in [
            RetryPolicy::default(),
            policy(1, 0),
            policy(0, 5),
            policy(7, 9_000),
        ] {
            assert_eq!(next(policy, failed, 8), Some(at(8)), "{policy:?}");
        }
        let default = RetryPolicy::default;
        let last = Failed {
            attempts: FAILOVERS_MAX,
            ..failed
        };
        assert_eq!(next(default(), last, late - 1), Some(at(late - 1)));
        assert_eq!(next(default(), last, late), None);
        let many = Failed {
            attempts: FAILOVERS_MAX + 1,
            ..failed
        };
        assert_eq!(next(default(), many, 0), None);
        for (progress, body, others) in [
            (Progress::NotSent, Body::Replayable, Others::None),
            (Progress::NotSent, Body::Consumed, Others::Left),
            (Progress::NoUpstream, Body::Replayable, Others::Left),
            (Progress::Sent, Body::Replayable, Others::Left),
            (Progress::Responded, Body::Replayable, Others::Left),
        ] {
            let failed = Failed {
                progress,
                body,
                others,
                ..failed
            };
            assert_eq!(next(default(), failed, 0), None, "{failed:?}");
        }
    }

    #[test]
    fn attempts_end_by_count_or_time() {
        let budget = RetryBudget::new();
        let mut failed = failed(Progress::NotSent, &Method::Post);
        let next = |policy: RetryPolicy, failed: &Failed<'_>, now| {
            policy.next_attempt(failed, &budget, at(now))
        };
        assert_eq!(next(policy(2, 0), &failed, 7), Some(at(257)));
        failed.attempts = 2;
        assert_eq!(next(policy(2, 0), &failed, 7), Some(at(257)));
        failed.attempts = 3;
        assert_eq!(next(policy(2, 0), &failed, 7), None);
        assert_eq!(next(policy(0, 1_000), &failed, 999), Some(at(1_249)));
        assert_eq!(next(policy(0, 1_000), &failed, 1_000), None);
        assert_eq!(
            next(policy(2, 1_000), &failed, 1),
            None,
            "whichever comes first"
        );
    }

    #[test]
    fn a_sent_request_is_repeated_only_if_idempotent() {
        use Progress::{NoUpstream, NotSent, Responded, Sent};
        let (get, post) = (Method::Get, Method::Post);
        for (progress, method, body, matched, expected) in [
            (NoUpstream, &post, Body::Replayable, None, true),
            (NotSent, &post, Body::Replayable, None, true),
            (NotSent, &post, Body::Replayable, Some(false), true),
            (NotSent, &post, Body::Consumed, None, false),
            (Sent, &get, Body::Replayable, None, true),
            (Sent, &get, Body::Consumed, None, false),
            (Sent, &get, Body::Replayable, Some(false), false),
            (Sent, &post, Body::Replayable, None, false),
            (Sent, &post, Body::Replayable, Some(true), true),
            (Sent, &post, Body::Consumed, Some(true), false),
            (Responded, &get, Body::Replayable, Some(true), false),
        ] {
            let failed = Failed {
                body,
                matched,
                ..failed(progress, method)
            };
            let next = policy(5, 0).next_attempt(&failed, &RetryBudget::new(), at(0));
            assert_eq!(next.is_some(), expected, "{failed:?}");
        }
    }

    #[test]
    fn repetitions_stay_at_a_tenth_of_the_requests() {
        let (budget, get) = (RetryBudget::new(), Method::Get);
        let failed = failed(Progress::Sent, &get);
        let mut repeated = 0;
        for _ in 0..10_000 {
            budget.earn();
            repeated += usize::from(policy(1, 0).next_attempt(&failed, &budget, at(0)).is_some());
        }
        assert_eq!(repeated, 10_000 / 10 + RETRIES_AT_START as usize);
    }

    #[test]
    fn a_budget_may_be_another_share() {
        for percent in [1, 25, 100] {
            let budget = RetryBudget::of_percent(percent);
            let spent = (0..10_000).filter(|_| {
                budget.earn();
                budget.spend()
            });
            let spent = u32::try_from(spent.count()).unwrap();
            let most = 100 * percent + RETRIES_AT_START;
            assert!(
                (100 * percent..=most).contains(&spent),
                "{percent} %: {spent}"
            );
        }
    }

    #[test]
    fn calm_times_save_only_so_much() {
        let budget = RetryBudget::new();
        (0..1_000_000).for_each(|_| budget.earn());
        let burst = (0..10_000).filter(|_| budget.spend()).count();
        assert_eq!(burst, RETRIES_SAVED_MAX as usize);
    }

    #[test]
    fn unsent_attempts_do_not_count() {
        let (budget, post) = (RetryBudget::new(), Method::Post);
        while budget.spend() {}
        let failed = failed(Progress::NotSent, &post);
        assert!(policy(1, 0).next_attempt(&failed, &budget, at(0)).is_some());
    }
}
