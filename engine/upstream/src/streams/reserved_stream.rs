//! One call's stream on a shared connection: first reserved, then opened. The connection implements the stream.

use std::rc::Rc;
use std::sync::Arc;

use sluice_message::RequestHead;
use sluice_wire::h1::BodyFraming;
use sluice_wire::sections::End;

use super::connection::Streams;
use crate::endpoint::Endpoint;
use crate::link::Origin;
use sluice_net::gate::Pass;

/// A stream on a shared connection, reserved or open. Dropping it cancels the stream, unless that has ended.
pub struct Seat<C: Streams> {
    pub(super) mux: Rc<C>,
    /// The stream, once it was opened.
    id: Option<C::Id>,
    origin: Origin,
    end: End,
}

impl<C: Streams> Seat<C> {
    pub(crate) fn new(mux: Rc<C>, origin: Origin) -> Seat<C> {
        Seat {
            mux,
            id: None,
            origin,
            end: End::Here,
        }
    }

    /// Whether the connection has carried a request before.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The upstream.
    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        self.mux.membership().endpoint()
    }

    /// Starts the request with `head`. If the connection no longer accepts it, the call reports that.
    pub fn open(&mut self, head: &RequestHead, framing: BodyFraming) {
        debug_assert!(self.id.is_none(), "a place is for one request");
        self.end = match framing {
            BodyFraming::None | BodyFraming::Length(0) => End::Here,
            BodyFraming::Length(_) | BodyFraming::Chunked | BodyFraming::UntilClose => End::Later,
        };
        self.id = self.mux.open(head, framing, self.end);
    }

    /// The stream ID; `None` if the connection accepted no more streams.
    pub(super) fn id(&self) -> Option<C::Id> {
        self.id
    }

    /// Whether the request ended with its head.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_here()
    }

    /// Holds a permit of the upstream's concurrency limit while the connection is in use.
    pub(crate) fn hold(&self, permit: Option<Pass>) {
        self.mux.membership().hold(permit);
    }
}

impl<C: Streams> Drop for Seat<C> {
    fn drop(&mut self) {
        match self.id {
            Some(id) => self.mux.release(id),
            None => self.mux.note_idle(),
        }
    }
}
