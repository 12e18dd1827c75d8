//! `lb_hedge`: if a response takes unusually long, the request is sent to another upstream as well, and the first
//! response wins. See "The Tail at Scale" (Dean, Barroso, CACM 56(2), 2013).

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_model::proxy::ReverseProxy as Config;
use sluice_net::timeout::within_exactly;
use sluice_net::{RequestBody, Worker};
use sluice_policy::RetryBudget;
use sluice_upstream::{CallFailure, Carrier, Response, Wanted};

use super::dynamic::Set;
use super::retry::budget;
use super::tried::{Tried, place};
use super::upstream::Upstream;
use super::{Asked, ReverseProxy, connected};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

/// The settings, shared by all workers.
pub(super) struct Hedging {
    delay: Duration,
    /// Bounds second requests, as retries are bounded.
    budget: RetryBudget,
}

/// The outcome of a request: its call and the response, or why there is none.
pub(super) type Responded<'u> = (&'u Upstream, Asked, Result<Response, Box<CallFailure>>);

impl Hedging {
    /// Reads the settings; `None` if requests are not hedged.
    pub(super) fn build(config: &Config) -> Result<Option<Hedging>, Refusal> {
        let balancing = config.load_balancing.as_ref();
        let delay = balancing.and_then(|balancing| given(balancing.hedge));
        let Some(delay) = delay else { return Ok(None) };
        Ok(Some(Hedging {
            delay,
            budget: budget(config)?,
        }))
    }
}

/// A response, or why there is none; boxed by the caller, which waits for two.
type Responding<'a> = Pin<&'a mut dyn Future<Output = Result<Response, Box<CallFailure>>>>;

impl ReverseProxy {
    /// Waits for the response to `asked`, which is sent to `first`. If it takes long, the request is sent to another
    /// upstream as well.
    pub(super) async fn hedged<'u>(
        &'u self,
        hedging: &Hedging,
        exchange: &mut Exchange,
        (first, mut asked): (&'u Upstream, Asked),
        set: Option<&'u Set>,
    ) -> Responded<'u> {
        hedging.budget.earn();
        let worker = exchange.worker.clone();
        let response = asked.call.response(&worker, &asked.method);
        if let Some(outcome) = within_exactly(hedging.delay, response).await {
            return (first, asked, outcome);
        }
        let second = self.second(hedging, exchange, first, set);
        let Some(second) = second else {
            let outcome = asked.call.response(&worker, &asked.method).await;
            return (first, asked, outcome);
        };
        let found = {
            let response = pin!(asked.call.response(&worker, &asked.method));
            let dialling = pin!(connected(exchange, second, Wanted::Any));
            first_of(response, dialling).await
        };
        let carrier = match found {
            First::Response(outcome) => return (first, asked, outcome),
            First::Other(carrier) => carrier.ok(),
        };
        let lease = self.selection.lease(second);
        let other = carrier.and_then(|carrier| self.ask_second(exchange, second, carrier, lease));
        let Some(mut other) = other else {
            let outcome = asked.call.response(&worker, &asked.method).await;
            return (first, asked, outcome);
        };
        exchange.context.upstream.attempts += 1;
        let won = race(&worker, &mut asked, &mut other).await;
        match won {
            Won::First(outcome) => (first, asked, outcome),
            Won::Second(outcome) => {
                exchange
                    .context
                    .upstream
                    .address
                    .clone_from(&second.address);
                (second, other, outcome)
            }
        }
    }

    /// The upstream that the request is sent to as well, if the budget allows that and there is one.
    fn second<'u>(
        &'u self,
        hedging: &Hedging,
        exchange: &mut Exchange,
        first: &Upstream,
        set: Option<&'u Set>,
    ) -> Option<&'u Upstream> {
        let mut tried = Tried::since(exchange.worker.clock.coarse());
        tried.add(Some(first));
        let second = match set {
            None => self.selection.choose(&self.upstreams, exchange, &tried),
            Some(set) => self.selection.choose(set, exchange, &tried),
        };
        let second = second.filter(|other| place(other) != place(first))?;
        hedging.budget.spend().then_some(second)
    }

    fn ask_second(
        &self,
        exchange: &mut Exchange,
        second: &Upstream,
        carrier: Carrier,
        lease: Option<sluice_net::load::Lease>,
    ) -> Option<Asked> {
        self.ask(exchange, second, RequestBody::None, carrier, lease)
            .ok()
    }
}

/// What was ready first.
enum First<T> {
    Response(Result<Response, Box<CallFailure>>),
    Other(T),
}

async fn first_of<T>(
    mut response: Responding<'_>,
    mut other: Pin<&mut impl Future<Output = T>>,
) -> First<T> {
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = response.as_mut().poll(cx) {
            return Poll::Ready(First::Response(outcome));
        }
        other.as_mut().poll(cx).map(First::Other)
    })
    .await
}

enum Won {
    First(Result<Response, Box<CallFailure>>),
    Second(Result<Response, Box<CallFailure>>),
}

/// Waits for the first response. If one of the two fails, the other one decides.
async fn race(worker: &Worker, first: &mut Asked, second: &mut Asked) -> Won {
    let one = pin!(first.call.response(worker, &first.method));
    let two = pin!(second.call.response(worker, &second.method));
    let (mut one, mut two): (Responding<'_>, Responding<'_>) = (one, two);
    let (mut one_failed, mut two_failed) = (false, false);
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = poll_unless(one_failed, &mut one, cx) {
            match outcome {
                Err(_) if !two_failed => one_failed = true,
                outcome => return Poll::Ready(Won::First(outcome)),
            }
        }
        if let Poll::Ready(outcome) = poll_unless(two_failed, &mut two, cx) {
            match outcome {
                Err(_) if !one_failed => two_failed = true,
                outcome => return Poll::Ready(Won::Second(outcome)),
            }
        }
        Poll::Pending
    })
    .await
}

fn poll_unless(
    has_ended: bool,
    response: &mut Responding<'_>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response, Box<CallFailure>>> {
    match has_ended {
        true => Poll::Pending,
        false => response.as_mut().poll(cx),
    }
}
