//! What placeholders show of the times and the load of upstreams (`{http.reverse_proxy.upstream.latency}` and the like, and
//! nginx's `$upstream_response_time` and its kin). Nothing here is called where no placeholder asks for it.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_message::{Fields, Moment, Status};
use sluice_net::upstream::Traffic;
use sluice_net::{Body, BodyStream, Failure, clock};

use super::upstream::Upstream;
use crate::context::{Exchange, ProxyBody, ProxyFacts, ProxyTry};

/// The request has come to the proxy.
pub fn begin(x: &mut Exchange) {
    // After a redirect within the server it may have been at another one before.
    let before = x.context.upstream.facts.take();
    x.context.upstream.facts = Some(Box::new(ProxyFacts {
        began: clock::now(),
        tries: before.map(|facts| facts.tries).unwrap_or_default(),
        ..ProxyFacts::default()
    }));
}

/// `upstream` is turned to. The request itself counts among those that it works on, as in Caddy.
pub fn ask(x: &mut Exchange, upstream: &Upstream) {
    let now = clock::now();
    let fails = upstream.fails(x.worker.clock.coarse());
    if let Some(facts) = &mut x.context.upstream.facts {
        facts.asked = now;
        facts.latency = None;
        facts.requests = upstream.load.in_flight();
        facts.requests_max = upstream.requests_max.unwrap_or(0);
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

/// A connection to it is there.
pub fn connected(x: &mut Exchange) {
    if let Some(last) = latest(x) {
        last.connected = Some(clock::now().since(last.began));
    }
}

/// Where the bytes to it and from it are counted.
pub fn traffic(x: &mut Exchange) -> Option<Rc<Traffic>> {
    latest(x).map(|last| last.traffic.clone())
}

/// The head of its answer is here.
pub fn answered(x: &mut Exchange, status: Status) {
    if let Some(facts) = &mut x.context.upstream.facts {
        facts.latency = Some(clock::now().since(facts.asked));
    }
    if let Some(last) = latest(x) {
        last.answered = Some(clock::now().since(last.began));
        last.status = Some(status);
    }
}

/// It gave no answer that is passed back; `status` is what its failure stands for.
pub fn failed(x: &mut Exchange, status: Status) {
    if let Some(last) = latest(x) {
        last.body.ended.set(Some(clock::now().since(last.began)));
        last.status.get_or_insert(status);
    }
}

/// The body of its answer, whose end is noted.
pub fn follow(x: &mut Exchange, body: Body) -> Body {
    let length = body.len(x.inline.len());
    let Some(last) = latest(x) else { return body };
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

fn latest(x: &mut Exchange) -> Option<&mut ProxyTry> {
    x.context.upstream.facts.as_mut()?.tries.last_mut()
}

/// A body whose bytes are counted, and whose end is noted.
struct Followed {
    inner: Box<dyn BodyStream>,
    began: Moment,
    seen: Rc<ProxyBody>,
    /// Those of `inner` once it has ended, which gives them once.
    trailers: Option<Fields>,
}

impl BodyStream for Followed {
    fn len(&self) -> Option<u64> {
        self.inner.len()
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        // What is shown borrows the body, which has to be asked once more for what is behind it.
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
