//! `verbose_logs`: logs each step of proxying at level `debug`. Caddy's messages about flushing are missing, because
//! there is no buffer to flush.

use std::task::{Context, Poll};

use sluice_message::{Fields, Moment, Status};
use sluice_net::{Body, BodyStream, Failure};

use sluice_observe::log::{Entry, Log};
use sluice_pipeline::context::Exchange;

/// Caddy's name for the logger of reverse proxies.
const LOGGER: &str = "http.handlers.reverse_proxy";

/// Logs the steps.
pub struct Verbose(Log);

impl Verbose {
    /// Logs to `log`.
    pub fn new(log: Log) -> Verbose {
        Verbose(log)
    }

    /// An upstream was selected; its address is in the context.
    pub fn chosen(&self, exchange: &Exchange) {
        self.step(exchange, "selected upstream").send();
    }

    /// The response head arrived.
    pub fn responded(&self, exchange: &Exchange, status: Status) {
        self.step(exchange, "upstream roundtrip")
            .integer("status", u64::from(status.code()))
            .send();
    }

    /// The attempt failed, or its response was discarded; `next` is the time of the next attempt, if any.
    pub fn failed(&self, exchange: &Exchange, failure: &Failure, next: Option<Moment>) {
        let entry = self.step(exchange, "upstream roundtrip");
        entry.shown("error", failure).send();
        if let Some(next) = next {
            let after = next.since(exchange.worker.clock.coarse());
            self.step(exchange, "retrying")
                .duration("after", after)
                .send();
        }
    }

    /// Wraps a response body to log each piece.
    pub fn follow(&self, exchange: &Exchange, body: Body) -> Body {
        match body {
            Body::Stream(inner) => Body::Stream(Box::new(LoggedBody {
                inner,
                log: self.0.clone(),
                upstream: exchange.context.upstream.address.clone(),
                bytes: 0,
            })),
            whole => {
                let bytes = whole.len(exchange.inline.len()).unwrap_or(0);
                let entry = self.step(exchange, "read from upstream");
                entry.integer("bytes_read", bytes).send();
                whole
            }
        }
    }

    fn step<'a>(&'a self, exchange: &'a Exchange, message: &'a str) -> Entry<'a> {
        self.0
            .debug(LOGGER, message)
            .text("upstream", &exchange.context.upstream.address)
            .text("method", exchange.req.method.as_str())
            .text("uri", exchange.req.uri.as_bytes())
    }
}

/// A body whose pieces are logged.
struct LoggedBody {
    inner: Box<dyn BodyStream>,
    log: Log,
    upstream: String,
    bytes: u64,
}

impl BodyStream for LoggedBody {
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

impl Drop for LoggedBody {
    fn drop(&mut self) {
        self.log
            .debug(LOGGER, "closed response body from upstream")
            .text("upstream", &self.upstream)
            .integer("bytes_read", self.bytes)
            .send();
    }
}
