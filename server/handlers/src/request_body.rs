//! `request_body`: limits the size and the duration of a request, or replaces its body.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_message::{Fields, Status};
use sluice_model::handler::RequestBody as Config;
use sluice_net::{BodyStream, Failure, FailureKind, RequestBody, Side, Timer};
use sluice_policy::MinDataRate;
use sluice_route::Template;

use sluice_pipeline::build::Builder;
use sluice_pipeline::collect::Text;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_pipeline::values;

struct Limit {
    max: Option<u64>,
    /// Deadline for reading the complete body, counted from here.
    read_timeout: Option<Duration>,
    /// Deadline for sending the complete response, counted from here.
    write_timeout: Option<Duration>,
    set: Option<Template>,
}

impl Handler for Limit {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if let Some(max) = self.max {
            let declared = exchange.body.len();
            // The limit stays in place while an error is handled, because placeholders may read the body then.
            if let RequestBody::Stream(inner) = exchange.body.take() {
                let limited = Limited { inner, left: max };
                exchange.body = RequestBody::Stream(Box::new(limited));
            }
            // An earlier handler may have read a body of unknown length for a placeholder.
            let read = exchange.context.body_text().map(|text| text.len() as u64);
            if declared.max(read).is_some_and(|length| length > max) {
                exchange.context.shorten_body_text(max);
                let reason = "the body is longer than the limit";
                return Step::Fail(Fault::new(Status::CONTENT_TOO_LARGE, reason));
            }
        }
        if let Some(timeout) = self.read_timeout
            && let RequestBody::Stream(inner) = exchange.body.take()
        {
            let timer = exchange.worker.timers.timer();
            timer.set(&exchange.worker.clock, timeout);
            exchange.body = RequestBody::Stream(Box::new(Timely { inner, timer }));
        }
        if let Some(timeout) = self.write_timeout {
            let until = exchange.worker.clock.coarse() + timeout;
            exchange.context.aside.get_or_insert_default().write_until = Some(until);
        }
        if let Some(set) = &self.set {
            let bytes = values::expanded(set, exchange);
            exchange.body = RequestBody::Stream(Box::new(Text::of(bytes)));
        }
        Step::Next
    }
}

/// A body that fails after a number of bytes.
struct Limited {
    inner: Box<dyn BodyStream>,
    left: u64,
}

impl BodyStream for Limited {
    fn set_idle_timeout(&mut self, timeout: Duration) {
        self.inner.set_idle_timeout(timeout);
    }

    fn set_min_rate(&mut self, rate: Option<MinDataRate>) {
        self.inner.set_min_rate(rate);
    }

    fn len(&self) -> Option<u64> {
        self.inner.len()
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        let data = ready!(self.inner.poll_data(cx))?;
        if self.left == 0 && !data.is_empty() {
            let failure = Failure::new(Side::Client, FailureKind::Limit);
            return Poll::Ready(Err(failure.because("request body is larger than max_size")));
        }
        let whole = data.len();
        let within = usize::try_from(self.left).map_or(whole, |left| whole.min(left));
        Poll::Ready(Ok(&data[..within]))
    }

    fn consume(&mut self, count: usize) {
        self.left -= count as u64;
        self.inner.consume(count);
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.inner.trailers()
    }
}

/// A body that fails at a deadline even if data continues to arrive, like Caddy's read deadline.
struct Timely {
    inner: Box<dyn BodyStream>,
    timer: Timer,
}

impl BodyStream for Timely {
    fn set_idle_timeout(&mut self, timeout: Duration) {
        self.inner.set_idle_timeout(timeout);
    }

    fn set_min_rate(&mut self, rate: Option<MinDataRate>) {
        self.inner.set_min_rate(rate);
    }

    fn len(&self) -> Option<u64> {
        self.inner.len()
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if !self.inner.is_empty() && self.timer.poll_expired(cx).is_ready() {
            let failure = Failure::new(Side::Client, FailureKind::Timeout);
            return Poll::Ready(Err(
                failure.because("request body took longer than read_timeout")
            ));
        }
        self.inner.poll_data(cx)
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.inner.trailers()
    }
}

/// Builds `request_body`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let max = u64::try_from(config.max_size).ok().filter(|max| *max > 0);
    let set = if config.set.is_empty() {
        None
    } else {
        Some(builder.template(&config.set)?)
    };
    Ok(Box::new(Limit {
        max,
        read_timeout: given(config.read_timeout),
        write_timeout: given(config.write_timeout),
        set,
    }))
}
