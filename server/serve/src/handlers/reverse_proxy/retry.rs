//! What a failed try means for `sluice-policy`, which decides whether there is another, and waiting for it.

use std::future::poll_fn;

use sluice_message::Moment;
use sluice_model::proxy::LoadBalancing;
use sluice_net::upstream::CallFailure;
use sluice_net::{FailureKind, Retry};
use sluice_policy::retry::{Body, Failed, Progress};
use sluice_policy::{RetryBudget, RetryPolicy};

use super::build::duration;
use crate::context::Exchange;

/// When to try again. All workers share it.
pub struct Retries {
    policy: RetryPolicy,
    budget: RetryBudget,
}

impl Retries {
    /// Reads the settings.
    pub fn build(config: Option<&LoadBalancing>) -> Retries {
        let mut policy = RetryPolicy::default();
        if let Some(config) = config {
            policy.retries = u32::try_from(config.retries).unwrap_or(0);
            policy.try_duration = duration(config.try_duration).unwrap_or_default();
            // Caddy's default pause counts only where the time is what limits the tries.
            policy.try_interval = match duration(config.try_interval) {
                Some(interval) => interval,
                None if policy.try_duration.is_zero() => std::time::Duration::ZERO,
                None => policy.try_interval,
            };
        }
        Retries {
            policy,
            budget: RetryBudget::new(),
        }
    }

    /// Counts a request: each one earns a part of a further try.
    pub fn begin(&self) {
        if self.policy.retries > 0 || !self.policy.try_duration.is_zero() {
            self.budget.earn();
        }
    }

    /// When to try again after `failure`, the last of `attempts` since `since`; `None` if not at all.
    pub fn next(
        &self,
        x: &Exchange,
        failure: &CallFailure,
        attempts: u32,
        since: Moment,
    ) -> Option<Moment> {
        let progress = match (failure.failure.kind, failure.failure.retry) {
            (_, Retry::Never) => Progress::Answered,
            (FailureKind::Unavailable, Retry::IfIdempotent | Retry::Always) => Progress::NoUpstream,
            (_, Retry::Always) => Progress::NotSent,
            (_, Retry::IfIdempotent) => Progress::Sent,
        };
        let body = if failure.body.is_some() {
            Body::Replayable
        } else {
            Body::Consumed
        };
        let failed = Failed {
            progress,
            method: &x.req.method,
            body,
            matched: None,
            attempts,
            since,
        };
        self.policy
            .next_attempt(&failed, &self.budget, x.worker.clock.coarse())
    }
}

/// Waits until `moment`.
pub async fn wait_until(x: &Exchange, moment: Moment) {
    let pause = moment.since(x.worker.clock.coarse());
    if pause.is_zero() {
        return;
    }
    let timer = x.worker.timers.timer();
    timer.set(&x.worker.clock, pause);
    poll_fn(|cx| timer.poll_expired(cx)).await;
}
