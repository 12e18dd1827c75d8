//! `limit_rate`: limits the rate at which a response is sent. The connection sends a body that releases its bytes
//! gradually.

use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_message::{Fields, Moment};
use sluice_model::nginx::ResponseRate as Config;
use sluice_net::body::SharedSlice;
use sluice_net::worker::Worker;
use sluice_net::{Body, BodyStream, Failure, FailureKind, FileSlice, Side, Timer};
use sluice_route::Template;

use crate::limits::{RATE_STEP, RATED_READ_BYTES};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Filtering, Handler};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expanded;

/// The rate limit of a response.
#[derive(Debug)]
struct Pace {
    rate: Template,
    after: Template,
}

/// The variable that the configuration, or an upstream with `X-Accel-Limit-Rate`, may set instead of the directive.
pub const VARIABLE: &str = "nginx.limit_rate";

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Filtering::boxed(Pace {
        rate: builder.template(&config.rate)?,
        after: builder.template(&config.after)?,
    }))
}

impl Filter for Pace {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let rate = match exchange.context.vars.find(VARIABLE) {
            Some(set) => bytes(set),
            None => bytes(&expanded(&self.rate, exchange)),
        };
        let after = bytes(&expanded(&self.after, exchange));
        paced(exchange, body, rate, after)
    }
}

/// Limits the response to the rate in [`VARIABLE`], for scopes without the directive.
pub fn pace(exchange: &mut Exchange) {
    static ONE: LazyLock<Arc<Pace>> = LazyLock::new(|| {
        let nothing = || Template::parse("").expect("an empty text has no placeholder");
        Arc::new(Pace {
            rate: nothing(),
            after: nothing(),
        })
    });
    exchange.context.filters.push(ONE.clone());
}

/// Parses a size with an optional unit; 0 if invalid.
pub fn bytes(text: &[u8]) -> u64 {
    let (digits, scale) = match text.split_last() {
        Some((b'k' | b'K', digits)) => (digits, 1 << 10),
        Some((b'm' | b'M', digits)) => (digits, 1 << 20),
        Some((b'g' | b'G', digits)) => (digits, 1 << 30),
        _ => (text, 1),
    };
    let number = std::str::from_utf8(digits).ok();
    let number = number.and_then(|digits| digits.parse::<u64>().ok());
    number.map_or(0, |number| number.saturating_mul(scale))
}

/// Limits `body` to `rate` bytes per second after the first `after` bytes; a rate of 0 means no limit.
pub fn paced(exchange: &mut Exchange, body: Body, rate: u64, after: u64) -> Body {
    let is_short = body
        .len(exchange.inline.len())
        .is_some_and(|length| length <= after);
    if rate == 0 || is_short {
        return body;
    }
    let source = match body {
        Body::Inline => Source::Bytes(SharedSlice::new(Rc::from(std::mem::take(
            &mut exchange.inline,
        )))),
        Body::Shared(slice) => Source::Bytes(slice),
        Body::File(slice) => Source::File(slice, Vec::new()),
        Body::Stream(stream) => Source::Stream(stream),
        other @ (Body::Empty | Body::Tunnel(_) | Body::Abort) => return other,
    };
    Body::Stream(Box::new(Paced {
        source,
        consumed: 0,
        rate,
        after,
        begun: exchange.worker.clock.coarse(),
        timer: exchange.worker.timers.timer(),
        worker: exchange.worker.clone(),
    }))
}

/// A body that releases its bytes gradually.
struct Paced {
    source: Source,
    consumed: u64,
    rate: u64,
    after: u64,
    begun: Moment,
    timer: Timer,
    worker: Rc<Worker>,
}

enum Source {
    Bytes(SharedSlice),
    /// The unread rest of a file, and the buffer last read from it.
    File(FileSlice, Vec<u8>),
    Stream(Box<dyn BodyStream>),
}

impl Paced {
    /// Bytes that may be sent by now, in steps, so that no timer is set for a few bytes.
    fn allowed(&self) -> u64 {
        let elapsed = self.worker.clock.coarse().since(self.begun) + RATE_STEP;
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let paced = u128::from(self.rate) * u128::from(millis) / 1000;
        // A rate of a few bytes per second still makes progress.
        let paced = u64::try_from(paced).unwrap_or(u64::MAX).max(1);
        self.after.saturating_add(paced)
    }

    /// Time until more bytes may be sent: one step, or longer if the rate yields less than a byte per step.
    fn pause(&self, allowed: u64) -> Duration {
        let missing = self.consumed.saturating_sub(allowed) + 1;
        let millis = missing.saturating_mul(1000).div_ceil(self.rate);
        RATE_STEP.max(Duration::from_millis(millis))
    }
}

impl BodyStream for Paced {
    fn len(&self) -> Option<u64> {
        match &self.source {
            Source::Bytes(slice) => Some(slice.as_bytes().len() as u64 - self.consumed),
            Source::File(slice, _) => Some(slice.len),
            Source::Stream(stream) => stream.len(),
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        let allowed = self.allowed();
        if self.consumed >= allowed && !self.is_empty() {
            if !self.timer.is_set() {
                self.timer.set(&self.worker.clock, self.pause(allowed));
            }
            if self.timer.poll_expired(cx).is_pending() {
                return self.poll_ahead(cx).map(|ahead| ahead.map(|()| &[][..]));
            }
            self.timer.clear();
        }
        let left = self.allowed().saturating_sub(self.consumed).max(1);
        let data = match &mut self.source {
            Source::Bytes(slice) => &slice.as_bytes()[self.consumed as usize..],
            Source::File(slice, read) => {
                if read.is_empty() && slice.len > 0 {
                    let count = slice.len.min(RATED_READ_BYTES);
                    read.resize(count as usize, 0);
                    if let Err(error) = slice.file.read_exact_at(read, slice.start) {
                        let failure = Failure::new(Side::Internal, FailureKind::Io);
                        return Poll::Ready(Err(failure.because(error)));
                    }
                }
                &read[..]
            }
            Source::Stream(stream) => ready!(stream.poll_data(cx))?,
        };
        let shown = usize::try_from(left).map_or(data.len(), |left| left.min(data.len()));
        Poll::Ready(Ok(&data[..shown]))
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match &mut self.source {
            Source::Stream(stream) => match stream.poll_ahead(cx) {
                Poll::Ready(Err(failure)) => Poll::Ready(Err(failure)),
                Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
            },
            Source::Bytes(_) | Source::File(..) => Poll::Pending,
        }
    }

    fn consume(&mut self, count: usize) {
        self.consumed += count as u64;
        match &mut self.source {
            Source::Bytes(_) => {}
            Source::File(slice, read) => {
                read.drain(..count);
                slice.start += count as u64;
                slice.len -= count as u64;
            }
            Source::Stream(stream) => stream.consume(count),
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        match &mut self.source {
            Source::Stream(stream) => stream.trailers(),
            Source::Bytes(_) | Source::File(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn rates_are_read() {
        for (text, count) in [
            ("", 0),
            ("10", 10),
            ("4k", 4096),
            ("1M", 1 << 20),
            ("x", 0),
            ("-1", 0),
            ("k", 0),
        ] {
            assert_eq!(bytes(text.as_bytes()), count, "{text}");
        }
    }
}
