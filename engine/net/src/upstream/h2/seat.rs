//! One call's place on a shared connection: promised, then a stream. What happens on the stream is left to `mux`.

use std::rc::Rc;
use std::sync::Arc;

use sluice_message::RequestHead;
use sluice_wire::h1::BodyFraming;
use sluice_wire::h2::{End, StreamId};

use super::mux::Mux;
use crate::gate::Pass;
use crate::upstream::endpoint::Endpoint;
use crate::upstream::link::Origin;

/// A place on a shared connection. Dropping it cancels its stream, unless that has ended.
pub struct Seat {
    pub(super) mux: Rc<Mux>,
    /// The stream, once it was opened.
    id: Option<StreamId>,
    origin: Origin,
    end: End,
}

impl Seat {
    pub(super) fn new(mux: Rc<Mux>, origin: Origin) -> Seat {
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
        self.mux.endpoint()
    }

    /// Begins the request with `head`. Whether the connection takes it after all is told by the call.
    pub fn open(&mut self, head: &RequestHead, framing: BodyFraming) {
        debug_assert!(self.id.is_none(), "a place is for one request");
        self.end = match framing {
            BodyFraming::None | BodyFraming::Length(0) => End::Here,
            BodyFraming::Length(_) | BodyFraming::Chunked | BodyFraming::UntilClose => End::Later,
        };
        self.id = self.mux.open(head, framing, self.end);
    }

    /// The stream; `None` where the connection took no more.
    pub(super) fn id(&self) -> Option<StreamId> {
        self.id
    }

    /// Whether the request ended with its head.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_here()
    }

    /// Keeps a place behind the upstream's gate for as long as the connection is in use.
    pub(super) fn hold(&self, permit: Option<Pass>) {
        self.mux.hold(permit);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        match self.id {
            Some(id) => self.mux.release(id),
            None => self.mux.note_idle(),
        }
    }
}
