//! `reverse_proxy`: forwards requests to upstreams, and their responses to clients. `select` chooses the upstream,
//! `request` creates the request for it, `answer` handles the response, `sluice-net` manages connections.

mod account;
mod active;
pub(crate) mod addresses;
mod breaking;
pub(crate) mod buffering;
pub(crate) mod build;
mod coalescing;
pub(crate) mod dialect;
mod dialling;
pub(crate) mod dynamic;
mod fastcgi;
pub(crate) mod group;
mod intercept;
pub(crate) mod language;
mod making;
mod memcached;
mod params;
mod redirects;
pub(crate) mod replay;
mod request;
pub(crate) mod retry;
pub(crate) mod select;
mod sticky;
#[cfg(test)]
mod tests;
mod transport;
pub(crate) mod tried;
pub(crate) mod upstream;
pub(crate) mod upstream_response;
mod upstream_values;
mod verbose;

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::{FieldId, Method, Moment, Status, Version};
use sluice_net::load::Lease;
use sluice_net::tunnel::Term;
use sluice_net::{Body, Failure, FailureKind, RequestBody, Retry, Side};
use sluice_route::matcher::ResponseMatcher;
use sluice_upstream::{
    Answer, Call, CallFailure, Carrier, Endpoint, Heard, Origin, Timeouts, Upload, Wanted, obtain,
    take_kept,
};

pub use build::build;
pub(crate) use build::proxy;

use crate::handlers::headers::Ops;
use active::ActiveChecks;
use buffering::{Buffering, Rules, Text};
use coalescing::Coalescing;
use dialect::{Destination, Dialect, FailedTry};
use dynamic::Dynamic;
use fastcgi::FastCgi;
use intercept::Interception;
use memcached::Memcached;
use request::Switch;
use select::Selection;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Handler, Step, Waiting};
use tried::Tried;
use upstream::Upstream;
use verbose::Verbose;

/// The handler.
pub(crate) struct ReverseProxy {
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
    /// Whether placeholders show latency and load.
    facts: Facts,
    /// Whether nginx variables show upstream response headers, including hidden ones.
    keeps_fields: bool,
    /// The log for each step (`verbose_logs`).
    verbose: Option<Verbose>,
    streams: Streams,
    /// Identical requests in flight that share responses (`coalesce`).
    coalescing: Option<Coalescing>,
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

    fn wait<'a>(&'a self, x: &'a mut Exchange) -> Waiting<'a> {
        match &self.coalescing {
            None if self.dialect.outlives_client() => Box::pin(self.run_on(x)),
            None => Box::pin(self.run(x)),
            Some(coalescing) => Box::pin(self.coalesced(coalescing, x)),
        }
    }

    fn account(&self, x: &mut Exchange) -> Account {
        self.account_of(x)
    }
}

impl ReverseProxy {
    /// Like [`ReverseProxy::run`], but continues if the client disconnects.
    async fn run_on(&self, x: &mut Exchange) -> Step {
        let worker = x.worker.clone();
        let mut running = std::pin::pin!(self.run(x));
        std::future::poll_fn(|cx| {
            let polled = running.as_mut().poll(cx);
            worker.stays.set(true);
            polled
        })
        .await
    }

    /// Tries upstreams until one responds or no further attempt is allowed.
    async fn run(&self, x: &mut Exchange) -> Step {
        let mut body = match self.content(x).await {
            Ok(body) => body,
            Err(fault) => return Step::Fail(fault),
        };
        if let Some(active) = &self.active {
            active.begin(&x.worker);
        }
        let mut set = self.listed(x).await;
        let mut tried = Tried::since(x.worker.clock.coarse());
        if let Some(set) = &set {
            tried = tried.at_most(self.selection.tries(set));
        }
        body = self.dialect.begin(x, body, &tried);
        if self.facts == Facts::Shown {
            upstream_values::begin(x);
        }
        loop {
            let chosen = match &set {
                None => self.selection.choose(&self.upstreams, x, &tried),
                Some(set) => self.selection.choose(set, x, &tried),
            };
            let failed = match chosen {
                None => no_upstream(body.take()),
                Some(upstream) => match self.attempt(x, upstream, &mut body, &tried).await {
                    Ok(step) => return step,
                    Err(failed) => {
                        let is_answer = failed.failure.kind == FailureKind::Unavailable;
                        if failed.failure.side == Side::Upstream && !is_answer {
                            self.selection.note_failure(upstream, x);
                        }
                        failed
                    }
                },
            };
            tried.add(chosen);
            let is_told = self.report_failure(x, chosen, &failed.failure);
            if self.facts == Facts::Shown {
                upstream_values::failed(x, Fault::status_of(&failed.failure));
            }
            let next = match &set {
                None => self.next(x, chosen.is_some(), &failed, &tried, &self.upstreams),
                Some(set) => self.next(x, chosen.is_some(), &failed, &tried, set),
            };
            if let Some(verbose) = &self.verbose {
                verbose.failed(x, &failed.failure, next);
            }
            body = match (next, failed.body) {
                (Some(moment), Some(body)) => {
                    retry::wait_until(x, moment).await;
                    set = self.listed(x).await;
                    body
                }
                (None, _) | (_, None) => {
                    self.dialect.gives_up(x, is_told);
                    return self.give_up(failed.failure);
                }
            };
        }
    }

    /// The current dynamic upstreams, if the directive has any.
    async fn listed(&self, x: &Exchange) -> Option<dynamic::Set> {
        let dynamic = self.dynamic.as_ref()?;
        match dynamic.at_hand(x) {
            Some(set) => Some(set),
            None => Box::pin(dynamic.list(x)).await,
        }
    }

    /// The request body to send, buffered and with a known length if required.
    async fn content(&self, x: &mut Exchange) -> Result<RequestBody, Fault> {
        if let Some(memcached) = &self.memcached {
            memcached.admit(x)?;
        }
        let mut body = match self.content {
            Content::Send => x.body.take(),
            Content::Keep => RequestBody::None,
        };
        let needs_length = self.fastcgi.is_some() || self.dialect.version() == Version::Http10;
        if let Some(text) = self.dialect.replaced_body(x) {
            body = Text::body(text);
        } else if self.buffering.is_to_spool(&body, needs_length) {
            body = Box::pin(self.buffering.spool(&x.worker, body)).await?;
        } else if self.buffering.request_bytes > 0 {
            body = Box::pin(self.buffering.request(body)).await?;
        }
        if needs_length {
            body = Box::pin(fastcgi::measure(body, self.buffering.request_bytes)).await?;
        }
        Ok(body)
    }

    /// When to retry after `failed`, if at all; `was_asked` is whether an upstream was available.
    fn next<U: Borrow<Upstream>>(
        &self,
        x: &Exchange,
        was_asked: bool,
        failed: &CallFailure,
        tried: &Tried,
        upstreams: &[U],
    ) -> Option<Moment> {
        let mut others = || self.selection.others(upstreams, x, tried);
        let failed = FailedTry {
            call: failed,
            was_asked,
        };
        self.dialect.next(x, &failed, tried, &mut others)
    }

    /// Reports a failure of `chosen`, or that there is no upstream to ask, to the log that wants each. False where the
    /// entry about the request reports it.
    fn report_failure(
        &self,
        x: &mut Exchange,
        chosen: Option<&Upstream>,
        failure: &Failure,
    ) -> bool {
        let destination = Destination {
            chosen,
            any: chosen.or(self.upstreams.first().map(|upstream| &**upstream)),
            protocol: match (&self.fastcgi, &self.memcached) {
                (Some(fastcgi), _) => Some(fastcgi.scheme()),
                (None, Some(_)) => Some("memcached"),
                (None, None) => None,
            },
        };
        self.dialect.report_failure(x, failure, &destination)
    }

    /// Fails the request after the last attempt.
    fn give_up(&self, failure: Failure) -> Step {
        let is_unavailable =
            failure.side == Side::Upstream && failure.kind == FailureKind::Unavailable;
        let mut fault = Fault::from(failure);
        if is_unavailable {
            fault.status = self.dialect.unavailable();
        }
        Step::Fail(fault)
    }

    /// Sends the request to one upstream. If an idle connection turns out to be closed, a new one replaces it without
    /// counting as an attempt: the upstream may legitimately close it at any time.
    ///
    /// Everything alive while awaiting the response occupies memory for each waiting request.
    async fn attempt(
        &self,
        x: &mut Exchange,
        upstream: &Upstream,
        body: &mut RequestBody,
        tried: &Tried,
    ) -> Result<Step, Box<CallFailure>> {
        x.context.upstream.attempts += 1;
        x.context.upstream.status = None;
        x.context.upstream.address.clear();
        x.context.upstream.address.push_str(&upstream.address);
        if self.facts == Facts::Shown {
            upstream_values::ask(x, upstream);
        }
        if let Some(verbose) = &self.verbose {
            verbose.chosen(x);
        }
        let mut wanted = upstream.wanted(&x.req.method);
        let timing = self.selection.timing(upstream);
        let ahead;
        let step = loop {
            let endpoint = upstream.endpoint_for(&x.req);
            let lease = self.selection.counts().then(|| Lease::new(&upstream.load));
            let carrier = match take_kept(&x.worker, endpoint, wanted) {
                Some(carrier) => carrier,
                None => match Box::pin(dial(x, upstream, endpoint, wanted)).await {
                    Ok(carrier) => carrier,
                    Err(failure) => return Err(unsent(failure, body.take())),
                },
            };
            if self.facts == Facts::Shown {
                upstream_values::connected(x);
            }
            let mut asked = match self.ask(x, upstream, body.take(), carrier, lease) {
                Ok(asked) => asked,
                Err(fault) => return Ok(Step::Fail(fault)),
            };
            let failed = match asked.call.answer(&x.worker, &asked.method).await {
                Ok(answer) => match self
                    .dialect
                    .retry_instead(x, &mut asked.call, &answer, tried)
                {
                    None => {
                        ahead = self.buffering.ahead(&answer);
                        break self.take_answer(x, upstream, asked, answer);
                    }
                    Some(body) => {
                        self.note_unwanted(x, upstream, answer.head.status, asked.at);
                        return Err(no_upstream(body));
                    }
                },
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
        let step = self.finish(x, upstream, step, ahead);
        if self.buffering.answer_bytes == 0 {
            return Ok(step);
        }
        Ok(Box::pin(self.buffered(step)).await)
    }

    /// Processes a response after the measurements of its upstream, which end with the upstream's part and not with the
    /// client's.
    fn finish(
        &self,
        x: &mut Exchange,
        upstream: &Upstream,
        step: Step,
        ahead: Option<Arc<Rules>>,
    ) -> Step {
        let step = match self.selection.begin(x, upstream) {
            Some(session) => follow(step, |body| session.follow(body)),
            None => step,
        };
        match step {
            Step::Done(Body::Tunnel(_)) => step,
            Step::Done(body) => self.dialect.forward(x, body, ahead),
            step => step,
        }
    }

    /// Records a response that is discarded.
    fn note_unwanted(
        &self,
        x: &mut Exchange,
        upstream: &Upstream,
        status: Status,
        asked_at: Option<Moment>,
    ) {
        if self.facts == Facts::Shown {
            upstream_values::answered(x, status);
        }
        match &upstream.member {
            Some(member) => member.refuse(status, x.worker.clock.coarse()),
            None => self.selection.note_answer(upstream, x, status, asked_at),
        }
    }

    /// Starts to send the request on `carrier`.
    fn ask(
        &self,
        x: &mut Exchange,
        upstream: &Upstream,
        body: RequestBody,
        mut carrier: Carrier,
        lease: Option<Lease>,
    ) -> Result<Asked, Fault> {
        let prepared = self.prepare(x, upstream, &body, Some(&mut carrier))?;
        // The client already received 100 (Continue) if the body was buffered.
        let awaits_continue =
            !body.is_none() && !self.buffering.spools() && x.req.fields.has(FieldId::Expect);
        let mut upload = Upload::new(prepared.head, prepared.framing, body);
        if awaits_continue {
            let limit = upstream.endpoint.options().timeouts.expect_continue;
            upload = upload.expect_continue(&x.worker, limit);
        }
        if self.facts == Facts::Shown
            && let Some(traffic) = upstream_values::traffic(x)
        {
            upload = upload.counted(traffic);
        }
        if !self.passes_trailers(x) {
            upload = upload.without_trailers();
        }
        let mut call = Call::new(carrier, upload, lease);
        // HTTP/1.0 does not have interim responses (RFC 9110, section 15.2), and those of an upstream that only
        // authorizes requests are not about the response.
        if x.req.version != Version::Http10
            && self.content == Content::Send
            && self.dialect.forwards_interims(x)
        {
            call.pass_interims();
        }
        if let Some(fastcgi) = &self.fastcgi {
            fastcgi.listen(&mut call, x);
        }
        Ok(Asked {
            call,
            method: prepared.method,
            switch: prepared.switch,
            at: self.selection.clock(),
        })
    }

    fn take_answer(
        &self,
        x: &mut Exchange,
        upstream: &Upstream,
        mut asked: Asked,
        answer: Answer,
    ) -> Step {
        self.selection
            .note_answer(upstream, x, answer.head.status, asked.at);
        if self.keeps_fields {
            (*x.context.upstream.fields).clone_from(&answer.head.fields);
        }
        self.selection.bind(x, upstream);
        if self.facts == Facts::Shown {
            upstream_values::answered(x, answer.head.status);
        }
        if let Some(verbose) = &self.verbose {
            verbose.answered(x, answer.head.status);
        }
        let (fields, call) = (&answer.head.fields, &mut asked.call);
        if let Some(step) = self.dialect.redirect_internally(x, fields, call) {
            x.context.upstream.status = Some(answer.head.status);
            return step;
        }
        let status = answer.head.status;
        if self.dialect.intercepts(status) {
            // The cache needs the upstream's headers of an error response.
            if let Some(aside) = &mut x.context.aside
                && let Some(heard) = &mut aside.shared_head
            {
                heard.clone_from(&answer.head);
            }
            x.context.upstream.status = Some(status);
            x.inline.clear();
            // Read a short response so that its connection can be reused; otherwise the connection is closed.
            let framing = answer.framing;
            let _ = asked.call.into_body(&x.worker, framing, &mut x.inline);
            x.inline.clear();
            return Step::Fail(Fault::new(status, INTERCEPTED));
        }
        match self.intercept(x, asked.call, answer, &asked.switch) {
            Ok((call, answer)) => self.pass_back(x, call, answer, &asked.switch),
            Err(step) => step,
        }
    }

    /// Buffers the body of a response.
    async fn buffered(&self, step: Step) -> Step {
        match step {
            Step::Done(Body::Stream(body)) => match self.buffering.answer(body).await {
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
    switch: Switch,
    /// When it was sent, if that is needed.
    at: Option<Moment>,
}

/// Opens a new connection to `upstream`.
async fn dial(
    x: &Exchange,
    upstream: &Upstream,
    endpoint: &Arc<Endpoint>,
    wanted: Wanted,
) -> Result<Carrier, Failure> {
    let preface = upstream.preface(&x.conn);
    obtain(&x.worker, endpoint, wanted, &preface).await
}

/// The reason for failing a request whose response is replaced by an error page.
pub(crate) const INTERCEPTED: &str = "the upstream responded with an error";

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
