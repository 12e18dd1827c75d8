//! Records latency and load of upstreams for placeholders (`{http.reverse_proxy.upstream.latency}`) and nginx variables
//! (`$upstream_response_time`). Called only if the configuration uses them.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_message::{Fields, Moment, Status};
use sluice_net::tunnel::{Holding, Tunnel};
use sluice_net::{Body, BodyStream, Failure, clock};
use sluice_upstream::{Carrier, Traffic};

use super::upstream::Upstream;
use sluice_pipeline::context::{Exchange, ProxyBody, ProxyFacts, ProxyTry};

/// Records that the proxy handler received the request.
pub fn begin(exchange: &mut Exchange) {
    // After an internal redirect there may be attempts of another proxy handler.
    let before = exchange.context.upstream.facts.take();
    exchange.context.upstream.facts = Some(Box::new(ProxyFacts {
        began: clock::now(),
        tries: before.map(|facts| facts.tries).unwrap_or_default(),
        ..ProxyFacts::default()
    }));
}

/// Records the start of an attempt. As in Caddy, the request itself is included in the upstream's requests in flight.
pub fn ask(exchange: &mut Exchange, upstream: &Upstream) {
    let now = clock::now();
    let fails = upstream.fails(exchange.worker.clock.coarse());
    if let Some(facts) = &mut exchange.context.upstream.facts {
        facts.asked = now;
        facts.latency = None;
        facts.requests = upstream.load.in_flight();
        facts.requests_max = upstream.requests_max().unwrap_or(0);
        facts.fails = fails;
        let is_first = facts
            .tries
            .last()
            .is_none_or(|last| last.began < facts.began);
        facts.tries.push(ProxyTry {
            address: upstream.address.clone(),
            is_later: is_first && !facts.tries.is_empty(),
            began: now,
            ..ProxyTry::default()
        });
    }
}

/// Records that the connection is established, and where it leads.
pub fn connected(exchange: &mut Exchange, carrier: &Carrier) {
    if let Some(last) = latest(exchange) {
        last.peer = carrier.peer();
        last.connected = Some(clock::now().since(last.began));
    }
}

/// The byte counters of the attempt.
pub fn traffic(exchange: &mut Exchange) -> Option<Rc<Traffic>> {
    latest(exchange).map(|last| last.traffic.clone())
}

/// Records the response head.
pub fn responded(exchange: &mut Exchange, status: Status) {
    if let Some(facts) = &mut exchange.context.upstream.facts {
        facts.latency = Some(clock::now().since(facts.asked));
    }
    if let Some(last) = latest(exchange) {
        last.responded = Some(clock::now().since(last.began));
        last.status = Some(status);
    }
}

/// Records a failed attempt; `status` is the one that corresponds to the failure.
pub fn failed(exchange: &mut Exchange, status: Status) {
    if let Some(last) = latest(exchange) {
        last.body.ended.set(Some(clock::now().since(last.began)));
        last.status.get_or_insert(status);
    }
}

/// Wraps a response body to record its size and end.
pub fn follow(exchange: &mut Exchange, body: Body) -> Body {
    let length = body.len(exchange.inline.len());
    let Some(last) = latest(exchange) else {
        return body;
    };
    match body {
        Body::Stream(inner) => Body::Stream(Box::new(Followed {
            inner,
            began: last.began,
            seen: last.body.clone(),
            trailers: None,
        })),
        whole => {
            last.body.bytes.set(length.unwrap_or(0));
            last.body.ended.set(Some(clock::now().since(last.began)));
            whole
        }
    }
}

/// Wraps the connection of a tunnel to record its end.
pub fn follow_tunnel(exchange: &mut Exchange, tunnel: Tunnel) -> Tunnel {
    match latest(exchange) {
        None => tunnel,
        Some(last) => Tunnel {
            peer: Box::new(Holding::new(
                tunnel.peer,
                TunnelEnd {
                    began: last.began,
                    seen: last.body.clone(),
                },
            )),
            ..tunnel
        },
    }
}

fn latest(exchange: &mut Exchange) -> Option<&mut ProxyTry> {
    exchange.context.upstream.facts.as_mut()?.tries.last_mut()
}

/// A body that records its size and end.
struct Followed {
    inner: Box<dyn BodyStream>,
    began: Moment,
    seen: Rc<ProxyBody>,
    /// The trailers of `inner`, which can be taken only once.
    trailers: Option<Fields>,
}

impl BodyStream for Followed {
    fn len(&self) -> Option<u64> {
        self.inner.len()
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        // The data borrows the body, so poll it again to return the data.
        let is_end = ready!(self.inner.poll_data(cx))?.is_empty();
        if !is_end {
            return self.inner.poll_data(cx);
        }
        if self.seen.ended.get().is_none() {
            self.seen.ended.set(Some(clock::now().since(self.began)));
            self.trailers = self.inner.trailers();
            self.seen.trailers.borrow_mut().clone_from(&self.trailers);
        }
        Poll::Ready(Ok(&[]))
    }

    fn consume(&mut self, count: usize) {
        self.seen.bytes.set(self.seen.bytes.get() + count as u64);
        self.inner.consume(count);
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.trailers.take().or_else(|| self.inner.trailers())
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if self.seen.ended.get().is_none() {
            self.seen.ended.set(Some(clock::now().since(self.began)));
        }
    }
}

/// Records when a tunnel ends.
struct TunnelEnd {
    began: Moment,
    seen: Rc<ProxyBody>,
}

impl Drop for TunnelEnd {
    fn drop(&mut self) {
        self.seen.ended.set(Some(clock::now().since(self.began)));
    }
}
