//! The transport of one call: a connection of its own, or a stream on a shared one.

use std::net::SocketAddr;
use std::sync::Arc;

use sluice_message::RequestHead;
use sluice_wire::h1::BodyFraming;

use crate::endpoint::Endpoint;
use crate::link::{Link, Origin};
use crate::names::{self, Addresses};
use crate::pool::Pool;
use crate::streams::Seat;
use crate::{h2, h3};
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
    Seat(Box<Seat<h2::Mux>>),
    /// A stream on a shared HTTP/3 connection.
    Quic(Box<Seat<h3::Mux>>),
}

impl From<Seat<h2::Mux>> for Carrier {
    fn from(seat: Seat<h2::Mux>) -> Carrier {
        Carrier::Seat(Box::new(seat))
    }
}

impl From<Seat<h3::Mux>> for Carrier {
    fn from(seat: Seat<h3::Mux>) -> Carrier {
        Carrier::Quic(Box::new(seat))
    }
}

/// Takes an idle connection. If configured DNS servers resolve the name of the upstream, it leads to an address that the
/// name still has, as far as is known; others are closed.
pub(crate) fn take_idle(worker: &Worker, endpoint: &Arc<Endpoint>) -> Option<Link> {
    let (pool, now) = (Pool::of(worker), worker.clock.coarse());
    let ips = match names::addresses_of(worker, endpoint) {
        Addresses::Any => return pool.take(endpoint, now),
        Addresses::Unknown => return None,
        Addresses::Known(ips) => ips,
    };
    loop {
        let link = pool.take(endpoint, now)?;
        let peer = link.stream.peer_addr().map(|peer| peer.ip());
        if peer.is_some_and(|peer| ips.contains(&peer)) {
            return Some(link);
        }
    }
}

impl Carrier {
    /// Takes an idle connection for one call.
    pub(crate) fn kept(worker: &Worker, endpoint: &Arc<Endpoint>) -> Option<Carrier> {
        take_idle(worker, endpoint).map(Carrier::Link)
    }

    /// The address that the connection leads to; `None` if it is a Unix socket or shared.
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            Carrier::Link(link) => link.stream.peer_addr(),
            Carrier::Seat(_) | Carrier::Quic(_) => None,
        }
    }

    /// Whether the connection has carried a request before.
    pub fn origin(&self) -> Origin {
        match self {
            Carrier::Link(link) => link.origin(),
            Carrier::Seat(seat) => seat.origin(),
            Carrier::Quic(seat) => seat.origin(),
        }
    }

    /// On an HTTP/2 or HTTP/3 connection, starts the request with `head` and returns true. Otherwise returns false, and the
    /// encoded head goes to [`crate::Upload::new`].
    pub fn open(&mut self, head: &RequestHead, framing: BodyFraming) -> bool {
        match self {
            Carrier::Link(_) => false,
            Carrier::Seat(seat) => {
                seat.open(head, framing);
                true
            }
            Carrier::Quic(seat) => {
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
            Carrier::Quic(seat) => seat.hold(permit),
        }
    }
}
