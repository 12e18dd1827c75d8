//! The transport of one call: a connection of its own, or a stream on a shared one.

use std::sync::Arc;

use sluice_message::RequestHead;
use sluice_wire::h1::BodyFraming;

use crate::endpoint::Endpoint;
use crate::h2::Seat;
use crate::link::{Link, Origin};
use crate::pool::Pool;
use sluice_net::gate::Pass;
use sluice_net::worker::Worker;

/// Which connections are acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// An idle one, if there is one.
    Any,
    /// A new one: an idle connection has just turned out to be closed, or each request needs its own.
    Fresh,
    /// A new one that no other request uses, for example to check whether the upstream is reachable.
    Own,
}

/// The transport of a call.
pub enum Carrier {
    /// An exclusive connection (HTTP/1, FastCGI and others).
    Link(Link),
    /// A stream on a shared HTTP/2 connection.
    Seat(Box<Seat>),
}

impl Carrier {
    /// Takes an idle connection for one call.
    pub(crate) fn kept(worker: &Worker, endpoint: &Arc<Endpoint>) -> Option<Carrier> {
        let link = Pool::of(worker).take(endpoint, worker.clock.coarse());
        link.map(Carrier::Link)
    }

    /// Whether the connection has carried a request before.
    pub fn origin(&self) -> Origin {
        match self {
            Carrier::Link(link) => link.origin(),
            Carrier::Seat(seat) => seat.origin(),
        }
    }

    /// On an HTTP/2 connection, starts the request with `head` and returns true. Otherwise returns false, and the
    /// encoded head goes to [`crate::Upload::new`].
    pub fn open(&mut self, head: &RequestHead, framing: BodyFraming) -> bool {
        match self {
            Carrier::Link(_) => false,
            Carrier::Seat(seat) => {
                seat.open(head, framing);
                true
            }
        }
    }

    /// Holds a permit of the concurrency limit while the connection is in use.
    pub(crate) fn hold(&mut self, permit: Option<Pass>) {
        match self {
            Carrier::Link(link) => link.permit = permit,
            Carrier::Seat(seat) => seat.hold(permit),
        }
    }
}
