//! `reverse_proxy`: forwards requests to upstreams, and their responses to clients. `select` chooses the upstream,
//! `request` creates the request for it, `response` handles the response, `sluice-net` manages connections.

mod account;
mod active;
pub mod addresses;
mod breaking;
pub mod buffering;
pub mod build;
mod by_request;
mod checked;
mod coalescing;
mod configured_variables;
pub mod dialect;
mod dialling;
mod directions;
pub mod dynamic;
mod fastcgi;
pub mod group;
mod group_checks;
mod grpc_check;
mod hedging;
mod incremental;
mod intercept;
pub mod language;
mod making;
mod memcached;
mod params;
mod redirects;
pub mod replay;
mod request;
mod response_tests;
pub mod retry;
pub mod select;
#[cfg(test)]
mod size_tests;
mod sticky;
mod transport;
pub mod tried;
pub mod upstream;
pub mod upstream_response;
mod upstream_values;
mod variable_names;
mod verbose;

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::{FieldId, Method, Moment, Status, Version};
use sluice_net::load::Lease;
use sluice_net::queue::Queue;
use sluice_net::tunnel::Term;
use sluice_net::{Body, Failure, FailureKind, RequestBody, Retry, Side, Worker, clock};
use sluice_route::matcher::ResponseMatcher;
use sluice_upstream::{
    Call, CallFailure, Carrier, Endpoint, Heard, Origin, Response, Timeouts, Upload, Wanted,
    obtain, take_kept,
};

pub use build::build;
pub use build::proxy;

use active::ActiveChecks;
use buffering::{Buffering, Rules};
use coalescing::Coalescing;
use dialect::{Destination, Dialect, FailedTry, Reported};
use dynamic::Dynamic;
use fastcgi::FastCgi;
use hedging::Hedging;
use incremental::Incremental;
use intercept::Interception;
use memcached::Memcached;
use request::Switch;
use select::Selection;
use sluice_handlers::headers::Ops;
use sluice_pipeline::collect::Text;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::handler::{Account, Handler, Step, Waiting};
use sluice_pipeline::record::held_since;
use tried::Tried;
use upstream::Upstream;
use verbose::Verbose;

/// The handler.
pub struct ReverseProxy {
    upstreams: Box<[Arc<Upstream>]>,
    /// The source of dynamic upstreams; boxed, because most directives have none.
    dynamic: Option<Box<Dynamic>>,
    selection: Selection,
    active: Option<ActiveChecks>,
    header_up: Option<Ops>,
    header_down: Option<HeaderDown>,
    /// How Caddy proxies, or nginx.
    dialect: Box<dyn Dialect>,
    buffering: Buffering,
    interceptions: Vec<Interception>,
    /// Settings of FastCGI, SCGI or uwsgi, if upstreams use one of them.
    fastcgi: Option<Arc<FastCgi>>,
    /// The memcached command, if upstreams use memcached.
    memcached: Option<Arc<Memcached>>,
    content: Content,
    /// Messages that ask to be forwarded as they arrive; nginx knows none.
    incremental: Option<Incremental>,
    /// Whether placeholders show latency and load.
    facts: Facts,
    /// Whether nginx variables show upstream response headers, including hidden ones.
    keeps_fields: bool,
    /// The log for each step (`verbose_logs`).
    verbose: Option<Verbose>,
    streams: Streams,
    /// Identical requests in flight that share responses (`coalesce`).
    coalescing: Option<Coalescing>,
    /// Second requests for slow responses (`lb_hedge`); boxed, because most directives have none.
    hedging: Option<Box<Hedging>>,
}

/// Whether the configuration uses placeholders for [`sluice_pipeline::context::ProxyFacts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Facts {
    Shown,
    Unused,
}

/// Settings for tunnels.
struct Streams {
    /// Maximum lifetime.
    lifetime: Option<Duration>,
    /// Buffer size for each direction.
    buffer_bytes: Option<usize>,
    /// The timeouts of the connections to upstreams.
    upstream: Timeouts,
    /// Closes tunnels some time after a configuration was replaced, if configured.
    term: Option<Term>,
}

/// Whether the upstream gets the request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Send,
    /// The method is rewritten to one without a body, such as for an upstream that only authorizes requests: the body
    /// remains for later handlers.
    Keep,
}

struct HeaderDown {
    ops: Ops,
    require: Option<ResponseMatcher>,
}

impl Handler for ReverseProxy {
    fn serve(&self, _x: &mut Exchange) -> Step {
        Step::Later
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        match &self.coalescing {
            None if self.dialect.outlives_client() => Box::pin(self.run_on(exchange)),
            None => Box::pin(self.run(exchange)),
            Some(coalescing) => Box::pin(self.coalesced(coalescing, exchange)),
        }
    }

    fn account(&self, exchange: &mut Exchange) -> Account {
        self.account_of(exchange)
    }
}

impl ReverseProxy {
    /// Like [`ReverseProxy::run`], but continues if the client disconnects.
    async fn run_on(&self, exchange: &mut Exchange) -> Step {
        let worker = exchange.worker.clone();
        let mut running = std::pin::pin!(self.run(exchange));
        std::future::poll_fn(|cx| {
            let polled = running.as_mut().poll(cx);
            worker.stays.set(true);
            polled
        })
        .await
    }

    /// Tries upstreams until one responds or no further attempt is allowed.
    async fn run(&self, exchange: &mut Exchange) -> Step {
        let mut body = match self.content(exchange).await {
            Ok(body) => body,
            Err(fault) => return Step::Fail(fault),
        };
        if let Some(active) = &self.active {
            active.begin(&exchange.worker);
        }
        let mut set = self.listed(exchange).await;
        let mut tried = Tried::since(exchange.worker.clock.coarse());
        if let Some(set) = &set {
            tried = tried.at_most(self.selection.tries(set));
        }
        body = self.dialect.begin(exchange, body, &tried);
        if self.facts == Facts::Shown {
            upstream_values::begin(exchange);
        }
        loop {
            if let Some(queue) = self.selection.queue().filter(|_| tried.count() == 0) {
                Box::pin(self.wait_in(queue, exchange, set.as_ref())).await;
            }
            let chosen = match &set {
                None => self.selection.choose(&self.upstreams, exchange, &tried),
                Some(set) => self.selection.choose(set, exchange, &tried),
            };
            let failed = match chosen {
                None => no_upstream(body.take()),
                Some(upstream) => match self
                    .attempt(exchange, upstream, &mut body, (&tried, set.as_ref()))
                    .await
                {
                    Ok(step) => return step,
                    Err(mut failed) => {
                        self.dialect.classify(&mut failed.failure);
                        let is_response = failed.failure.kind == FailureKind::Unavailable;
                        if failed.failure.side == Side::Upstream && !is_response {
                            self.selection.note_failure(upstream, exchange);
                        }
                        failed
                    }
                },
            };
            tried.add(chosen);
            let reported = self.report_failure(exchange, chosen, &failed.failure);
            if self.facts == Facts::Shown {
                upstream_values::failed(exchange, Fault::status_of(&failed.failure));
            }
            let next = match &set {
                None => self.next(exchange, chosen.is_some(), &failed, &tried, &self.upstreams),
                Some(set) => self.next(exchange, chosen.is_some(), &failed, &tried, set),
            };
            if let Some(verbose) = &self.verbose {
                verbose.failed(exchange, &failed.failure, next);
            }
            body = match (next, failed.body) {
                (Some(moment), Some(body)) => {
                    retry::wait_until(exchange, moment).await;
                    set = self.listed(exchange).await;
                    body
                }
                (None, _) | (_, None) => {
                    return self.give_up(failed.failure, reported);
                }
            };
        }
    }

    /// Waits until a server can take the request, or its time in the queue is over.
    async fn wait_in(&self, queue: &Queue, exchange: &mut Exchange, set: Option<&dynamic::Set>) {
        let is_ready = || match set {
            None => self.selection.foresee(&self.upstreams, exchange).is_some(),
            Some(set) => self.selection.foresee(set, exchange).is_some(),
        };
        if !queue.is_empty() || !is_ready() {
            let began = clock::now();
            queue.wait(&exchange.worker, is_ready).await;
            held_since(exchange, began);
        }
    }

    /// The current dynamic upstreams, if the directive has any.
    async fn listed(&self, exchange: &Exchange) -> Option<dynamic::Set> {
        let dynamic = self.dynamic.as_ref()?;
        match dynamic.at_hand(exchange) {
            Some(set) => Some(set),
            None => Box::pin(dynamic.list(exchange)).await,
        }
    }

    /// The request body to send, buffered and with a known length if required.
    async fn content(&self, exchange: &mut Exchange) -> Result<RequestBody, Fault> {
        if let Some(memcached) = &self.memcached {
            memcached.admit(exchange)?;
        }
        let mut body = match self.content {
            Content::Send => exchange.body.take(),
            Content::Keep => RequestBody::None,
        };
        let needs_length = self.fastcgi.is_some() || self.dialect.version() == Version::Http10;
        if let Some(incremental) = &self.incremental {
            incremental.admit_request(exchange, &body, &self.buffering, needs_length)?;
        }
        if let Some(text) = self.dialect.replaced_body(exchange) {
            body = Text::body(text);
        } else if self.buffering.is_to_spool(&body, needs_length) {
            body = Box::pin(self.buffering.spool(&exchange.worker, body)).await?;
        } else if self.buffering.request_bytes > 0 {
            body = Box::pin(self.buffering.request(&exchange.worker, body)).await?;
        }
        if needs_length && fastcgi::lacks_length(&body) {
            body = Box::pin(fastcgi::measure(body, self.buffering.request_bytes)).await?;
        }
        Ok(body)
    }

    /// When to retry after `failed`, if at all; `was_asked` is whether an upstream was available.
    fn next<U: Borrow<Upstream>>(
        &self,
        exchange: &Exchange,
        was_asked: bool,
        failed: &CallFailure,
        tried: &Tried,
        upstreams: &[U],
    ) -> Option<Moment> {
        let mut others = || self.selection.others(upstreams, exchange, tried);
        let failed = FailedTry {
            call: failed,
            was_asked,
        };
        self.dialect.next(exchange, &failed, tried, &mut others)
    }

    /// Reports a failure of `chosen`, or that there is no upstream to ask.
    fn report_failure(
        &self,
        exchange: &mut Exchange,
        chosen: Option<&Upstream>,
        failure: &Failure,
    ) -> Reported {
        let destination = Destination {
            chosen,
            any: chosen.or(self.upstreams.first().map(|upstream| &**upstream)),
            protocol: match (&self.fastcgi, &self.memcached) {
                (Some(fastcgi), _) => Some(fastcgi.scheme()),
                (None, Some(_)) => Some("memcached"),
                (None, None) => None,
            },
        };
        self.dialect.report_failure(exchange, failure, &destination)
    }

    /// Fails the request after the last attempt.
    fn give_up(&self, failure: Failure, reported: Reported) -> Step {
        let is_unavailable =
            failure.side == Side::Upstream && failure.kind == FailureKind::Unavailable;
        let mut fault = Fault::from(failure);
        if is_unavailable {
            fault.status = self.dialect.unavailable();
        }
        fault.cause = match reported {
            Reported::AtOnce => Cause::Logged,
            Reported::WithRequest => Cause::ByStatus,
        };
        Step::Fail(fault)
    }

    /// Sends the request to one upstream. If an idle connection turns out to be closed, a new one replaces it without
    /// counting as an attempt: the upstream may legitimately close it at any time.
    ///
    /// Everything alive while awaiting the response occupies memory for each waiting request, and what was borrowed before
    /// counts as alive until the end of its block: `limits::FORWARDING_BYTES_MAX` bounds it.
    async fn attempt(
        &self,
        exchange: &mut Exchange,
        mut upstream: &Upstream,
        body: &mut RequestBody,
        (tried, set): (&Tried, Option<&dynamic::Set>),
    ) -> Result<Step, Box<CallFailure>> {
        self.note_attempt(exchange, upstream);
        let mut wanted = upstream.wanted(&exchange.req.method);
        let timing = self.selection.timing(upstream);
        let ahead;
        let step = loop {
            let (lease, carrier) = {
                let lease = self.selection.lease(upstream);
                match connected(exchange, upstream, wanted).await {
                    Ok(carrier) => (lease, carrier),
                    Err(failure) => return Err(unsent(failure, body.take())),
                }
            };
            let mut asked = match self.ask(exchange, upstream, body.take(), carrier, lease) {
                Ok(asked) => asked,
                Err(fault) => return Ok(Step::Fail(fault)),
            };
            let is_repeatable = asked.is_repeatable;
            let hedging = self.hedging(exchange, tried);
            let responded = match hedging.filter(|_| is_repeatable) {
                None => asked.call.response(&exchange.worker, &asked.method).await,
                Some(hedging) => {
                    let hedged = self.hedged(hedging, exchange, (upstream, asked), set);
                    let (from, call, outcome) = Box::pin(hedged).await;
                    (upstream, asked) = (from, call);
                    outcome
                }
            };
            let failed = match responded {
                Ok(response) => {
                    let dialect = &self.dialect;
                    match dialect.retry_instead(exchange, &mut asked.call, &response, tried) {
                        None => {
                            ahead = self.buffering.ahead(&response);
                            break self.take_response(exchange, upstream, asked, response);
                        }
                        Some(body) => {
                            self.note_unwanted(exchange, upstream, response.head.status, asked.at);
                            return Err(no_upstream(body));
                        }
                    }
                }
                Err(failed) => failed,
            };
            if !is_stale(&failed, &asked.method) {
                return Err(failed);
            }
            match failed.body {
                Some(untouched) => *body = untouched,
                None => return Err(failed),
            }
            wanted = Wanted::Fresh;
        };
        let step = match timing {
            Some(timing) => follow(step, |body| timing.follow(body)),
            None => step,
        };
        let step = self.finish(exchange, upstream, step, ahead);
        // What a response to HEAD describes is not sent.
        if self.buffering.response_bytes == 0 || exchange.req.method == Method::Head {
            return Ok(step);
        }
        Ok(Box::pin(self.buffered(&exchange.worker, step)).await)
    }

    /// Records that the request is sent to `upstream`.
    fn note_attempt(&self, exchange: &mut Exchange, upstream: &Upstream) {
        let known = &mut exchange.context.upstream;
        known.attempts += 1;
        known.status = None;
        known.address.clone_from(&upstream.address);
        if self.facts == Facts::Shown {
            upstream_values::ask(exchange, upstream);
        }
        if let Some(verbose) = &self.verbose {
            verbose.chosen(exchange);
        }
    }

    /// How the request is hedged if it is repeatable: nothing else depends on how often an idempotent request without a body
    /// arrives (RFC 9110, section 9.2.2).
    fn hedging(&self, exchange: &Exchange, tried: &Tried) -> Option<&Hedging> {
        let hedging = self.hedging.as_deref()?;
        let is_harmless = !exchange.req.fields.has(FieldId::Upgrade)
            && tried.count() == 0
            && !self.selection.is_sticky();
        is_harmless.then_some(hedging)
    }

    /// Processes a response after the measurements of its upstream, which end with the upstream's part and not with the
    /// client's.
    fn finish(
        &self,
        exchange: &mut Exchange,
        upstream: &Upstream,
        step: Step,
        ahead: Option<Arc<Rules>>,
    ) -> Step {
        let step = match self.selection.begin(exchange, upstream) {
            Some(session) => follow(step, |body| session.follow(body)),
            None => step,
        };
        match step {
            Step::Done(Body::Tunnel(_)) => step,
            Step::Done(body) => self.dialect.forward(exchange, body, ahead),
            step => step,
        }
    }

    /// Records a response that is discarded.
    fn note_unwanted(
        &self,
        exchange: &mut Exchange,
        upstream: &Upstream,
        status: Status,
        asked_at: Option<Moment>,
    ) {
        if self.facts == Facts::Shown {
            upstream_values::responded(exchange, status);
        }
        match &upstream.member {
            Some(member) => member.refuse(status, exchange.worker.clock.coarse()),
            None => self
                .selection
                .note_response(upstream, exchange, status, asked_at),
        }
    }

    /// Starts to send the request on `carrier`.
    fn ask(
        &self,
        exchange: &mut Exchange,
        upstream: &Upstream,
        body: RequestBody,
        mut carrier: Carrier,
        lease: Option<Lease>,
    ) -> Result<Asked, Fault> {
        if self.facts == Facts::Shown {
            upstream_values::connected(exchange, &carrier);
        }
        let prepared = self.prepare(exchange, upstream, &body, Some(&mut carrier))?;
        // The client already received 100 (Continue) if the body was buffered.
        let awaits_continue =
            !body.is_none() && !self.buffering.spools() && exchange.req.fields.has(FieldId::Expect);
        let is_repeatable = body.is_none() && prepared.method.is_idempotent();
        let mut upload = Upload::new(prepared.head, prepared.framing, body);
        if awaits_continue {
            let limit = upstream.endpoint.options().timeouts.expect_continue;
            upload = upload.expect_continue(&exchange.worker, limit);
        }
        if self.facts == Facts::Shown
            && let Some(traffic) = upstream_values::traffic(exchange)
        {
            upload = upload.counted(traffic);
        }
        if !self.passes_trailers(exchange) {
            upload = upload.without_trailers();
        }
        let mut call = Call::new(carrier, upload, lease);
        // HTTP/1.0 does not have interim responses (RFC 9110, section 15.2), and those of an upstream that only
        // authorizes requests are not about the response.
        if exchange.req.version != Version::Http10
            && self.content == Content::Send
            && self.dialect.forwards_interims(exchange)
        {
            call.pass_interims();
        }
        if let Some(fastcgi) = &self.fastcgi {
            fastcgi.listen(&mut call, exchange);
        }
        Ok(Asked {
            call,
            method: prepared.method,
            is_repeatable,
            switch: prepared.switch,
            at: self.selection.clock(),
        })
    }

    fn take_response(
        &self,
        exchange: &mut Exchange,
        upstream: &Upstream,
        mut asked: Asked,
        response: Response,
    ) -> Step {
        self.selection
            .note_response(upstream, exchange, response.head.status, asked.at);
        if self.keeps_fields {
            (*exchange.context.upstream.fields).clone_from(&response.head.fields);
        }
        self.selection.bind(exchange, upstream);
        if self.facts == Facts::Shown {
            upstream_values::responded(exchange, response.head.status);
        }
        if let Some(verbose) = &self.verbose {
            verbose.responded(exchange, response.head.status);
        }
        let (fields, call) = (&response.head.fields, &mut asked.call);
        if let Some(step) = self.dialect.redirect_internally(exchange, fields, call) {
            exchange.context.upstream.status = Some(response.head.status);
            return step;
        }
        let status = response.head.status;
        if self.dialect.intercepts(status) {
            // The cache needs the upstream's headers of an error response.
            if let Some(aside) = &mut exchange.context.aside
                && let Some(heard) = &mut aside.shared_head
            {
                heard.clone_from(&response.head);
            }
            exchange.context.upstream.status = Some(status);
            self.dialect.keep_of_intercepted(exchange, &response.head);
            exchange.inline.clear();
            // Read a short response so that its connection can be reused; otherwise the connection is closed.
            let framing = response.framing;
            let _ = asked
                .call
                .into_body(&exchange.worker, framing, &mut exchange.inline);
            exchange.inline.clear();
            let message = "the upstream responded with an error";
            return Step::Fail(Fault::new(status, message).caused_by(Cause::UpstreamResponse));
        }
        match self.intercept(exchange, asked.call, response, &asked.switch) {
            Ok((call, response)) => self.pass_back(exchange, call, response, &asked.switch),
            Err(step) => step,
        }
    }

    /// Buffers the body of a response.
    async fn buffered(&self, worker: &Worker, step: Step) -> Step {
        match step {
            Step::Done(Body::Stream(body)) => match self.buffering.response(worker, body).await {
                Ok(body) => Step::Done(Body::Stream(body)),
                Err(failure) => Step::Fail(failure.into()),
            },
            step => step,
        }
    }
}

/// Applies `by` to the body of a response.
fn follow(step: Step, by: impl FnOnce(Body) -> Body) -> Step {
    match step {
        Step::Done(body) => Step::Done(by(body)),
        step => step,
    }
}

/// A request in flight.
struct Asked {
    call: Call,
    /// The method sent, which may have been rewritten.
    method: Method,
    /// Whether the request is idempotent and has no body.
    is_repeatable: bool,
    switch: Switch,
    /// When it was sent, if that is needed.
    at: Option<Moment>,
}

/// An idle connection to `upstream`, or a new one.
async fn connected(
    exchange: &Exchange,
    upstream: &Upstream,
    wanted: Wanted,
) -> Result<Carrier, Failure> {
    let endpoint = upstream.endpoint_for(exchange)?;
    // Not a match: its value would have room in the future while a connection is dialled.
    if let Some(carrier) = take_kept(&exchange.worker, &endpoint, wanted) {
        return Ok(carrier);
    }
    Box::pin(dial(exchange, upstream, &endpoint, wanted)).await
}

/// Opens a new connection to `upstream`.
async fn dial(
    exchange: &Exchange,
    upstream: &Upstream,
    endpoint: &Arc<Endpoint>,
    wanted: Wanted,
) -> Result<Carrier, Failure> {
    let preface = upstream.preface(&exchange.conn);
    obtain(&exchange.worker, endpoint, wanted, &preface).await
}

/// All upstreams have failed or are at their limit, or a response was discarded.
fn no_upstream(body: RequestBody) -> Box<CallFailure> {
    let failure = Failure::new(Side::Upstream, FailureKind::Unavailable).with_retry(Retry::Always);
    unsent(failure, body)
}

/// A failure before anything was sent.
fn unsent(failure: Failure, body: RequestBody) -> Box<CallFailure> {
    let (origin, heard) = (Origin::Fresh, Heard::Nothing);
    Box::new(CallFailure {
        failure,
        origin,
        heard,
        body: Some(body),
    })
}

/// Whether a call failed only because its idle connection was closed before the request arrived, and may be repeated at
/// once.
fn is_stale(failed: &CallFailure, method: &sluice_message::Method) -> bool {
    let is_closed = matches!(failed.failure.kind, FailureKind::Closed | FailureKind::Io);
    let may_repeat = match failed.failure.retry {
        Retry::Always => true,
        Retry::IfIdempotent => method.is_idempotent(),
        Retry::Never => false,
    };
    failed.origin == Origin::Kept && failed.heard == Heard::Nothing && is_closed && may_repeat
}
