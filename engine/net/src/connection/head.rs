//! Waits for the head of the next request. The codec parses it.

use std::task::{Context, Poll, ready};

use sluice_message::RequestHead;
use sluice_wire::h1::{Progress, RequestError, RequestFraming};

use super::{Connection, HeadWait};
use crate::clock;
use crate::service::{Service, Settings};

/// The result of waiting.
pub(super) enum Awaited {
    /// A request; its head has this many bytes, is in the exchange, and was removed from the input.
    Head(RequestFraming, usize),
    /// Bytes that are not a valid request.
    Refused(RequestError),
    /// A head began and was not completed in time.
    TimedOut,
    /// The connection is over, and no response is needed.
    Closed,
}

impl<S: Service> Connection<S> {
    /// Waits for the next head. Runs the idle timeout until the first byte, then the timeout of the whole head.
    pub(super) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut RequestHead,
        settings: &Settings,
    ) -> Poll<Awaited> {
        loop {
            if let Some(awaited) = self.decode_head(head, settings) {
                return Poll::Ready(awaited);
            }
            let idle = self.link.input.borrow().is_empty();
            // Runs from the first byte of an incomplete head, even if it arrived together with the previous request.
            if !idle && self.head_wait == HeadWait::Nothing {
                let clock = &self.link.worker.clock;
                self.head_wait = HeadWait::Begun(clock.coarse());
                self.link.timer.set(clock, settings.head_timeout);
            }
            if !idle && self.link.timer.has_expired() {
                return Poll::Ready(Awaited::TimedOut);
            }
            let Poll::Ready(filled) = self.link.poll_fill(cx) else {
                if idle && self.is_unwanted() {
                    if self.has_just_asked() {
                        return Poll::Pending;
                    }
                    return Poll::Ready(Awaited::Closed);
                }
                // Registers this task with the timer.
                ready!(self.link.timer.poll_expired(cx));
                continue;
            };
            match filled {
                Ok(0) | Err(_) => return Poll::Ready(Awaited::Closed),
                Ok(_) => {}
            }
        }
    }

    fn decode_head(&mut self, head: &mut RequestHead, settings: &Settings) -> Option<Awaited> {
        let input = self.link.input.borrow();
        if input.is_empty() {
            return None;
        }
        match self.decoder.decode(&settings.h1, &input, head) {
            Ok(Progress::Incomplete) => None,
            Ok(Progress::Complete { consumed, value }) => {
                drop(input);
                self.decoder.reset();
                self.link.consume(consumed);
                Some(Awaited::Head(value, consumed))
            }
            Err(error) => Some(Awaited::Refused(error)),
        }
    }
}

/// The start time of a request: exact if its duration is logged, else the time of the last sweep.
pub(crate) fn start_of(settings: &Settings, clock: &clock::Clock) -> sluice_message::Moment {
    if settings.exact_times {
        clock::now()
    } else {
        clock.coarse()
    }
}
