//! One connection to an upstream with its state. `call` uses it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::endpoint::Endpoint;
use crate::fastcgi::Records;
use crate::limits::{REST_READ_BYTES, REST_READS_MAX};
use sluice_message::Moment;
use sluice_net::ConnectionSlot;
use sluice_net::gate::Pass;
use sluice_net::stream::Stream;
use sluice_wire::fastcgi::ResponseDecoder;

/// Whether a connection has carried a request before. In that case the upstream may have closed it while our request
/// was on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Dialled for this request.
    Fresh,
    /// Reused from an earlier one.
    Kept,
}

/// A connection to an upstream, owned by one request.
pub struct Link {
    pub(crate) stream: Stream,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) origin: Origin,
    /// When it last became idle; with [`crate::KeepAlive::Briefly`], when it first did.
    pub(crate) idle_since: Moment,
    /// Number of requests it has carried.
    pub(crate) served: u32,
    /// When it first became idle.
    pub(crate) first_idle_at: Moment,
    /// Its permit of the upstream's concurrency limit; `None` while idle.
    pub(crate) permit: Option<Pass>,
    /// Its slot among the connections of the worker.
    pub(crate) slot: ConnectionSlot,
    /// Decodes the rest of its last response, whose content was complete before.
    pub(crate) rest: Option<Box<ResponseDecoder>>,
    /// The memory of the decoder of its last response, for the next one.
    pub(crate) spare: Option<Box<Records>>,
}

/// Whether an idle connection can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usable {
    Yes,
    /// Not now: the end of its last response is still to come.
    NotYet,
    /// It was closed, or has received unexpected data.
    No,
}

impl Link {
    /// A newly dialled connection.
    pub(crate) fn new(stream: Stream, endpoint: Arc<Endpoint>, slot: ConnectionSlot) -> Link {
        Link {
            stream,
            endpoint,
            origin: Origin::Fresh,
            idle_since: Moment::START,
            served: 0,
            first_idle_at: Moment::START,
            permit: None,
            slot,
            rest: None,
            spare: None,
        }
    }

    /// Whether it has carried a request before.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Whether an idle connection can still be used: it must not have received anything but the end of its last
    /// response. Makes a system call only if data seems to have arrived.
    pub(crate) fn usable(&mut self) -> Usable {
        if let Some(rest) = &mut self.rest {
            match read_rest(&mut self.stream, rest) {
                Usable::Yes => self.rest = None,
                other => return other,
            }
        }
        match self.is_quiet() {
            true => Usable::Yes,
            false => Usable::No,
        }
    }

    fn is_quiet(&mut self) -> bool {
        let mut probe = [0];
        match &mut self.stream {
            Stream::Tcp(socket) => is_empty(socket.try_read(&mut probe)),
            Stream::Unix(socket) => is_empty(socket.try_read(&mut probe)),
            Stream::Tls(tls) => {
                let mut cx = Context::from_waker(Waker::noop());
                match tls.poll_readable(&mut cx) {
                    Poll::Pending => true,
                    Poll::Ready(Err(_)) => false,
                    // It may be a TLS message such as a session ticket: only reading shows.
                    Poll::Ready(Ok(())) => tls
                        .poll_read(&mut cx, &mut Vec::with_capacity(64))
                        .is_pending(),
                }
            }
        }
    }
}

/// Reads the end of a response as far as it has arrived.
fn read_rest(stream: &mut Stream, rest: &mut ResponseDecoder) -> Usable {
    let mut bytes = [0; REST_READ_BYTES];
    for _ in 0..REST_READS_MAX {
        let read = match stream {
            Stream::Tcp(socket) => socket.try_read(&mut bytes),
            Stream::Unix(socket) => socket.try_read(&mut bytes),
            Stream::Tls(_) => return Usable::No,
        };
        let count = match read {
            Ok(0) => return Usable::No,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Usable::NotYet,
            Err(_) => return Usable::No,
        };
        match rest.decode_merged(&mut bytes[..count]) {
            Ok(step) if !step.content.is_empty() || step.consumed < count => return Usable::No,
            Ok(_) if rest.is_done() => return Usable::Yes,
            Ok(_) => {}
            Err(_) => return Usable::No,
        }
    }
    Usable::NotYet
}

fn is_empty(read: io::Result<usize>) -> bool {
    read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
