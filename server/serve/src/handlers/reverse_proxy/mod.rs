//! `reverse_proxy`: a request is passed on to an upstream, and its answer back. Which upstream is left to `select`,
//! what is asked to `request`, what becomes of the answer to `answer`; sockets are left to `sluice-net`.

mod account;
mod active;
mod answer;
mod buffering;
mod build;
mod dialling;
mod dynamic;
mod fastcgi;
mod intercept;
mod making;
mod redirects;
mod replay;
mod request;
mod retry;
mod select;
#[cfg(test)]
mod tests;
mod transport;
mod upstream;

use std::sync::Arc;
use std::time::Duration;

use sluice_message::FieldId;
use sluice_net::upstream::{Call, CallFailure, Heard, Lease, Origin, Upload, Wanted, obtain};
use sluice_net::{Body, Failure, FailureKind, RequestBody, Retry, Side};
use sluice_route::Rewrite;
use sluice_route::matcher::{IpRanges, ResponseMatcher};

pub use build::build;

use crate::context::Exchange;
use crate::handler::{Account, Handler, Step, Waiting};
use crate::handlers::headers::Ops;
use active::ActiveChecks;
use buffering::Buffering;
use dynamic::Dynamic;
use fastcgi::FastCgi;
use intercept::Interception;
use request::Prepared;
use retry::Retries;
use select::{Selection, Tried};
use upstream::Upstream;

/// The directive at work.
struct ReverseProxy {
    upstreams: Box<[Upstream]>,
    /// Where further upstreams come from; in memory of its own, as most directives have none.
    dynamic: Option<Box<Dynamic>>,
    selection: Selection,
    active: Option<ActiveChecks>,
    retries: Retries,
    header_up: Option<Ops>,
    header_down: Option<HeaderDown>,
    rewrite: Option<Rewrite>,
    /// Whose X-Forwarded fields are believed, beside those whom the server trusts.
    trusted_proxies: IpRanges,
    /// The longest life of a tunnel.
    tunnel_lifetime: Option<Duration>,
    buffering: Buffering,
    interceptions: Vec<Interception>,
    /// What FastCGI needs, where upstreams speak it.
    fastcgi: Option<Arc<FastCgi>>,
    content: Content,
}

/// Whether the upstream gets the content of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Send,
    /// The method is rewritten to one without content, as where an upstream only decides whether a request may
    /// pass: the content stays for whoever comes after.
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
        Box::pin(self.run(x))
    }

    fn account(&self, x: &mut Exchange) -> Account {
        self.account_of(x)
    }
}

impl ReverseProxy {
    /// Tries upstreams until one answers or no further try is allowed.
    async fn run(&self, x: &mut Exchange) -> Step {
        let mut body = match self.content {
            Content::Send => x.body.take(),
            Content::Keep => RequestBody::None,
        };
        if self.buffering.request_bytes > 0 {
            body = match Box::pin(self.buffering.request(body)).await {
                Ok(body) => body,
                Err(failure) => return Step::Fail(failure.into()),
            };
        }
        if let Some(fastcgi) = &self.fastcgi {
            let measured = Box::pin(fastcgi.measure(body, self.buffering.request_bytes));
            body = match measured.await {
                Ok(body) => body,
                Err(fault) => return Step::Fail(fault),
            };
        }
        if let Some(active) = &self.active {
            active.begin(&x.worker);
        }
        body = self.retries.begin(x, body);
        let mut tried = Tried::since(x.worker.clock.coarse());
        loop {
            let set = match &self.dynamic {
                None => None,
                Some(dynamic) => Box::pin(dynamic.list(x)).await,
            };
            let chosen = match &set {
                None => self.selection.choose(&self.upstreams, x, &tried),
                Some(set) => self.selection.choose(set, x, &tried),
            };
            let failed = match chosen {
                None => no_upstream(body),
                Some(upstream) => match self.attempt(x, upstream, body, &tried).await {
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
            let next = self.retries.next(x, &failed, &tried);
            body = match (next, failed.body) {
                (Some(moment), Some(body)) => {
                    retry::wait_until(x, moment).await;
                    body
                }
                (None, _) | (_, None) => return Step::Fail(failed.failure.into()),
            };
        }
    }

    /// Passes the request to one upstream. A kept connection that turns out to be closed is replaced by a new one
    /// without counting as a try: that the other end closed it while we were sending is nobody's fault.
    async fn attempt(
        &self,
        x: &mut Exchange,
        upstream: &Upstream,
        mut body: RequestBody,
        tried: &Tried,
    ) -> Result<Step, Box<CallFailure>> {
        x.context.upstream.attempts += 1;
        x.context.upstream.status = None;
        x.context.upstream.address.clear();
        x.context.upstream.address.push_str(&upstream.address);
        let mut wanted = upstream.wanted(&x.req.method);
        loop {
            let lease = self.selection.counts().then(|| Lease::new(&upstream.load));
            let preface = upstream.preface(&x.conn);
            let link = match obtain(&x.worker, &upstream.endpoint, wanted, &preface).await {
                Ok(link) => link,
                Err(failure) => return Err(unsent(failure, body)),
            };
            let Prepared {
                head,
                method,
                framing,
                switch,
            } = match self.prepare(x, upstream, &body) {
                Ok(prepared) => prepared,
                Err(fault) => return Ok(Step::Fail(fault)),
            };
            let passes_trailers = self.passes_trailers(x);
            let awaits_continue = !body.is_none() && x.req.fields.has(FieldId::Expect);
            let mut upload = Upload::new(head, framing, body);
            if awaits_continue {
                let limit = upstream.endpoint.options().timeouts.expect_continue;
                upload = upload.expect_continue(&x.worker, limit);
            }
            if !passes_trailers {
                upload = upload.without_trailers();
            }
            let mut call = Call::new(link, upload, lease);
            if let Some(fastcgi) = &self.fastcgi {
                fastcgi.listen(&mut call, x);
            }
            let sent_at = self.selection.clock();
            match call.answer(&x.worker, &method).await {
                Ok(answer) => {
                    self.selection
                        .note_answer(upstream, x, answer.head.status, sent_at);
                    if let Some(body) = self.retries.instead(x, &mut call, &answer, tried) {
                        return Err(no_upstream(body));
                    }
                    let (call, answer) = match self.intercept(x, call, answer) {
                        Ok(kept) => kept,
                        Err(step) => return Ok(step),
                    };
                    let step = self.pass_back(x, call, answer, &switch);
                    return Ok(self.buffered(step).await);
                }
                Err(failed) if !is_stale(&failed, &method) => return Err(failed),
                Err(failed) => match failed.body {
                    Some(untouched) => {
                        body = untouched;
                        wanted = Wanted::Fresh;
                    }
                    None => return Err(failed),
                },
            }
        }
    }
}

impl ReverseProxy {
    /// Collects the body of an answer, if that is asked for.
    async fn buffered(&self, step: Step) -> Step {
        match step {
            Step::Done(Body::Stream(body)) if self.buffering.answer_bytes > 0 => {
                match Box::pin(self.buffering.answer(body)).await {
                    Ok(body) => Step::Done(Body::Stream(body)),
                    Err(failure) => Step::Fail(failure.into()),
                }
            }
            step => step,
        }
    }
}

/// All upstreams have failed or are full, or the answer of one is not wanted.
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

/// Whether a call failed only because its connection had been closed before the request arrived, and may be
/// repeated at once.
fn is_stale(failed: &CallFailure, method: &sluice_message::Method) -> bool {
    let is_closed = matches!(failed.failure.kind, FailureKind::Closed | FailureKind::Io);
    let may_repeat = match failed.failure.retry {
        Retry::Always => true,
        Retry::IfIdempotent => method.is_idempotent(),
        Retry::Never => false,
    };
    failed.origin == Origin::Kept && failed.heard == Heard::Nothing && is_closed && may_repeat
}
