//! Describes a failed attempt for `sluice-policy`, which decides whether to retry, and waits for the next attempt.

use std::future::poll_fn;
use std::time::Duration;

use sluice_message::Moment;
use sluice_model::proxy::ReverseProxy as Config;
use sluice_model::{Matcher, MatcherSet};
use sluice_net::{FailureKind, RequestBody, Retry};
use sluice_policy::retry::{Body, Failed, Others, Progress};
use sluice_policy::{RetryBudget, RetryPolicy};
use sluice_route::MatcherSets;
use sluice_upstream::{Call, CallFailure, Response};

use super::replay::Replay;
use super::tried::Tried;
use crate::limits::REPLAY_BYTES_MAX;
use sluice_pipeline::build;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_pipeline::values;

/// The retry settings, shared by all workers.
pub struct Retries {
    policy: RetryPolicy,
    budget: RetryBudget,
    /// Which requests may be sent twice, instead of those with idempotent methods (`retry_match`).
    matched: Option<MatcherSets>,
    /// Those matchers that may refer to the response: a response that matches one is discarded if another attempt is
    /// allowed.
    unwanted: Option<MatcherSets>,
    /// Bytes of a body to record for another attempt.
    replay_bytes: usize,
    sharing: Sharing,
}

/// Whether requests share HTTP/2 connections, on which an upstream can refuse a request unprocessed. Such a request is
/// retried at once, regardless of its method (RFC 9113, section 8.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// They do not.
    No,
    /// They may.
    May,
}

impl Retries {
    /// Parses the settings.
    pub fn build(config: &Config, sharing: Sharing) -> Result<Retries, Refusal> {
        let mut policy = RetryPolicy::default();
        let (mut matched, mut unwanted) = (None, None);
        if let Some(config) = &config.load_balancing {
            policy.retries = u32::try_from(config.retries).unwrap_or(0);
            policy.try_duration = given(config.try_duration).unwrap_or_default();
            // Caddy's default interval applies only if the duration limits the attempts.
            policy.try_interval = match given(config.try_interval) {
                Some(interval) => interval,
                None if policy.try_duration.is_zero() => Duration::ZERO,
                None => policy.try_interval,
            };
            matched = matchers(config.retry_match.iter())?;
            unwanted = matchers(
                config
                    .retry_match
                    .iter()
                    .filter(|set| looks_at_responses(set)),
            )?;
        }
        let buffered = usize::try_from(config.request_buffers).unwrap_or(0);
        Ok(Retries {
            policy,
            budget: budget(config)?,
            matched,
            unwanted,
            replay_bytes: buffered.max(REPLAY_BYTES_MAX),
            sharing,
        })
    }

    fn are_on(&self) -> bool {
        self.policy.retries > 0 || !self.policy.try_duration.is_zero()
    }

    /// Counts a request towards the retry budget, and makes its body rewindable.
    pub fn begin(&self, exchange: &Exchange, body: RequestBody) -> RequestBody {
        let mut is_sent_again = self.sharing == Sharing::May;
        if self.are_on() {
            self.budget.earn();
            is_sent_again |= self.matched.is_some() || exchange.req.method.is_idempotent();
        }
        match is_sent_again {
            true => Replay::body(body, self.replay_bytes),
            false => body,
        }
    }

    /// When to retry after `failure`, the last of those in `tried`; `None` if not at all. `others` returns whether
    /// another upstream is available; called only if that matters.
    pub fn next(
        &self,
        exchange: &Exchange,
        failure: &CallFailure,
        tried: &Tried,
        others: impl FnOnce() -> Others,
    ) -> Option<Moment> {
        let progress = match (failure.failure.kind, failure.failure.retry) {
            (_, Retry::Never) => Progress::Responded,
            (FailureKind::Unavailable, Retry::IfIdempotent | Retry::Always) => Progress::NoUpstream,
            (_, Retry::Always) => Progress::NotSent,
            (_, Retry::IfIdempotent) => Progress::Sent,
        };
        let body = if failure.body.is_some() {
            Body::Replayable
        } else {
            Body::Consumed
        };
        // Evaluate the matchers only if they matter.
        let matched = match (&self.matched, progress) {
            (Some(matchers), Progress::Sent) => Some(is_met(matchers, exchange)),
            _ => None,
        };
        let others = match progress {
            Progress::NotSent => others(),
            Progress::NoUpstream | Progress::Sent | Progress::Responded => Others::None,
        };
        let failed = Failed {
            progress,
            method: &exchange.req.method,
            body,
            matched,
            attempts: tried.count(),
            others,
            since: tried.began(),
        };
        self.policy
            .next_attempt(&failed, &self.budget, exchange.worker.clock.coarse())
    }

    /// The request body for another attempt, if `response` is to be discarded and another attempt is allowed.
    pub fn instead(
        &self,
        exchange: &mut Exchange,
        call: &mut Call,
        response: &Response,
        tried: &Tried,
    ) -> Option<RequestBody> {
        let unwanted = self.unwanted.as_ref()?;
        exchange.context.upstream.status = Some(response.head.status);
        if !is_met(unwanted, exchange) {
            return None;
        }
        let failed = Failed {
            progress: Progress::Sent,
            method: &exchange.req.method,
            body: Body::Replayable,
            matched: Some(true),
            attempts: tried.count() + 1,
            others: Others::None,
            since: tried.began(),
        };
        let now = exchange.worker.clock.coarse();
        let body = call.take_body()?;
        let next = self.policy.next_attempt(&failed, &self.budget, now);
        next.map(|_| body)
    }
}

/// The budget for requests that are sent again or twice (`retry_budget`).
pub fn budget(config: &Config) -> Result<RetryBudget, Refusal> {
    let balancing = config.load_balancing.as_ref();
    match balancing.map_or(0, |balancing| balancing.retry_budget) {
        0 => Ok(RetryBudget::new()),
        percent @ 1..=100 => Ok(RetryBudget::of_percent(percent as u32)),
        percent => Err(Refusal::new(format!("a retry budget of {percent} %"))
            .with_help("give a number from 1 to 100 with `retry_budget`")),
    }
}

/// A matcher that fails does not match.
fn is_met(matchers: &MatcherSets, exchange: &Exchange) -> bool {
    values::matches(matchers, exchange).unwrap_or(false)
}

/// Whether a matcher set may refer to the response. As in Caddy only expressions do: any other matcher of a request
/// would match all of its responses.
fn looks_at_responses(set: &MatcherSet) -> bool {
    let is_expression = |matcher: &Matcher| matches!(matcher, Matcher::Expression(_));
    set.0.iter().any(is_expression)
}

fn matchers<'m>(
    sets: impl Iterator<Item = &'m MatcherSet>,
) -> Result<Option<MatcherSets>, Refusal> {
    let sets = sets
        .map(build::matcher_set)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Some(sets)
        .filter(|sets| !sets.is_empty())
        .map(MatcherSets::new))
}

/// Waits until `moment`.
pub async fn wait_until(exchange: &Exchange, moment: Moment) {
    let pause = moment.since(exchange.worker.clock.coarse());
    if pause.is_zero() {
        return;
    }
    let timer = exchange.worker.timers.timer();
    timer.set(&exchange.worker.clock, pause);
    poll_fn(|cx| timer.poll_expired(cx)).await;
}
