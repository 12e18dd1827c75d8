//! Waits for the head of the next request. The codec parses it.

use std::task::{Context, Poll, ready};

use sluice_message::{Moment, RequestHead};
use sluice_wire::h1::{Progress, RequestDecoder, RequestError, RequestFault, RequestFraming};

use super::Connection;
use crate::clock;
use crate::service::{Protocols, Service, Settings};

/// The result of waiting.
pub(super) enum Awaited {
    /// A request; its head is in the exchange, and these many bytes at the beginning of the input.
    Head(RequestFraming, usize),
    /// Bytes that are not a valid request.
    Refused(RequestError),
    /// A head began and was not completed in time.
    TimedOut,
    /// The connection is over, and no response is needed.
    Closed,
}

impl Awaited {
    /// The same, unless it is a head in a version that the listener does not speak.
    pub(super) fn if_spoken(self, protocols: Protocols) -> Awaited {
        match self {
            Awaited::Head(..) if !protocols.h1 => {
                let fault = RequestFault::VersionUnsupported;
                Awaited::Refused(RequestError { fault, offset: 0 })
            }
            awaited => awaited,
        }
    }
}

/// A head that arrives. A connection has one only from the first byte of a head to its last.
#[derive(Default)]
pub(super) struct Arriving {
    decoder: RequestDecoder,
    /// Since when a part of it is there, if it did not arrive at once; the head timeout runs.
    pub(super) since: Option<Moment>,
}

impl<S: Service> Connection<S> {
    /// Waits for the next head. Runs the idle timeout until the first byte, then the timeout of the whole head.
    pub(super) fn poll_head(
        &self,
        cx: &mut Context<'_>,
        arriving: &mut Arriving,
        head: &mut RequestHead,
        settings: &Settings,
    ) -> Poll<Awaited> {
        loop {
            if let Some(awaited) = self.decode_head(&mut arriving.decoder, head, settings) {
                return Poll::Ready(awaited);
            }
            let idle = self.link.input.borrow().is_empty();
            // Runs from the first byte of an incomplete head, even if it arrived together with the previous request.
            if !idle && arriving.since.is_none() {
                let clock = &self.link.worker.clock;
                arriving.since = Some(clock.coarse());
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

    fn decode_head(
        &self,
        decoder: &mut RequestDecoder,
        head: &mut RequestHead,
        settings: &Settings,
    ) -> Option<Awaited> {
        let input = self.link.input.borrow();
        if input.is_empty() {
            return None;
        }
        match decoder.decode(&settings.h1, &input, head) {
            Ok(Progress::Incomplete) => None,
            Ok(Progress::Complete { consumed, value }) => Some(Awaited::Head(value, consumed)),
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
