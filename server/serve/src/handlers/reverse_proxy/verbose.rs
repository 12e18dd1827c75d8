//! `verbose_logs`: each step of proxying is told to the log, at the level `debug`. What Caddy tells beside is left out
//! where we have no such step: there is no buffer that is flushed.

use std::task::{Context, Poll};

use sluice_message::{Fields, Moment, Status};
use sluice_net::{Body, BodyStream, Failure};

use crate::context::Exchange;
use sluice_observe::log::{Entry, Log};

/// Caddy's name for the logger of proxies.
const LOGGER: &str = "http.handlers.reverse_proxy";

/// Tells the steps.
pub struct Verbose(Log);

impl Verbose {
    /// Tells `log`.
    pub fn new(log: Log) -> Verbose {
        Verbose(log)
    }

    /// An upstream was chosen, whose address is in the context.
    pub fn chosen(&self, x: &Exchange) {
        self.step(x, "selected upstream").send();
    }

    /// Its answer has begun.
    pub fn answered(&self, x: &Exchange, status: Status) {
        self.step(x, "upstream roundtrip")
            .integer("status", u64::from(status.code()))
            .send();
    }

    /// It gave no answer that is passed on; `next` is when another one is asked, if any is.
    pub fn failed(&self, x: &Exchange, failure: &Failure, next: Option<Moment>) {
        let entry = self.step(x, "upstream roundtrip");
        entry.shown("error", failure).send();
        if let Some(next) = next {
            let after = next.since(x.worker.clock.coarse());
            self.step(x, "retrying").duration("after", after).send();
        }
    }

    /// The body of an answer, each piece of which is told.
    pub fn follow(&self, x: &Exchange, body: Body) -> Body {
        match body {
            Body::Stream(inner) => Body::Stream(Box::new(Told {
                inner,
                log: self.0.clone(),
                upstream: x.context.upstream.address.clone(),
                bytes: 0,
            })),
            whole => {
                let bytes = whole.len(x.inline.len()).unwrap_or(0);
                let entry = self.step(x, "read from upstream");
                entry.integer("bytes_read", bytes).send();
                whole
            }
        }
    }

    fn step<'a>(&'a self, x: &'a Exchange, message: &'a str) -> Entry<'a> {
        self.0
            .debug(LOGGER, message)
            .text("upstream", &x.context.upstream.address)
            .text("method", x.req.method.as_str())
            .text("uri", x.req.uri.as_bytes())
    }
}

/// A body whose pieces are told.
struct Told {
    inner: Box<dyn BodyStream>,
    log: Log,
    upstream: String,
    bytes: u64,
}

impl BodyStream for Told {
    fn len(&self) -> Option<u64> {
        self.inner.len()
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        self.inner.poll_data(cx)
    }

    fn consume(&mut self, count: usize) {
        self.bytes += count as u64;
        self.log
            .debug(LOGGER, "read from upstream")
            .text("upstream", &self.upstream)
            .integer("bytes_read", count as u64)
            .send();
        self.inner.consume(count);
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.inner.trailers()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.log
            .debug(LOGGER, "closed response body from upstream")
            .text("upstream", &self.upstream)
            .integer("bytes_read", self.bytes)
            .send();
    }
}
