//! One connection to an upstream and what is known of it. Speaking on it is left to `call`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use crate::gate::Pass;
use crate::places::Place;
use crate::stream::Stream;
use crate::upstream::endpoint::Endpoint;
use crate::upstream::limits::{REST_READ_BYTES, REST_READS_MAX};
use sluice_message::Moment;
use sluice_wire::fastcgi::AnswerDecoder;

/// Whether a connection has carried a request before. One that has may have been closed by the other end while
/// our request was on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Dialled for this request.
    Fresh,
    /// Kept from an earlier one.
    Kept,
}

/// A connection to an upstream, in the hands of one request.
pub struct Link {
    pub(super) stream: Stream,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) origin: Origin,
    /// When it was last given back; first given back, if it is kept briefly.
    pub(super) idle_since: Moment,
    /// Requests that it has carried.
    pub(super) served: u32,
    /// When it was first given back.
    pub(super) first_idle_at: Moment,
    /// Its share of the upstream's limit on requests in progress; none while it is unused.
    pub(super) permit: Option<Pass>,
    /// Its place among the connections of the worker.
    pub(super) place: Place,
    /// Reads what is still to come of its last answer, whose content was whole before.
    pub(super) rest: Option<Box<AnswerDecoder>>,
}

/// Whether an unused connection can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usable {
    Yes,
    /// Not now: the end of its last answer is still to come.
    NotYet,
    /// It has ended, or something came that nobody asked for.
    No,
}

impl Link {
    /// A connection that was just dialled.
    pub(crate) fn new(stream: Stream, endpoint: Arc<Endpoint>, place: Place) -> Link {
        Link {
            stream,
            endpoint,
            origin: Origin::Fresh,
            idle_since: Moment::START,
            served: 0,
            first_idle_at: Moment::START,
            permit: None,
            place,
            rest: None,
        }
    }

    /// Whether it has carried a request before.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Whether an unused connection can still be used: nothing may have arrived on it but the end of its last answer,
    /// neither its own end nor bytes nobody asked for. Asks the kernel only if something seems to have arrived.
    pub(super) fn usable(&mut self) -> Usable {
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
                    // It may be a message of TLS itself: only reading tells.
                    Poll::Ready(Ok(())) => tls
                        .poll_read(&mut cx, &mut Vec::with_capacity(64))
                        .is_pending(),
                }
            }
        }
    }
}

/// Reads the end of an answer as far as it is here.
fn read_rest(stream: &mut Stream, rest: &mut AnswerDecoder) -> Usable {
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

/// How busy an upstream is, all workers together. It fills a cache line with the counts of the [`Arc`] around it,
/// which change together with it; so a request to one upstream does not slow down those to another.
#[derive(Debug, Default)]
pub struct Load {
    in_flight: AtomicUsize,
    _line: [u64; 5],
}

impl Load {
    /// Requests in progress.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// Counts one request in progress until it is dropped.
pub struct Lease(Arc<Load>);

impl Lease {
    /// Counts a request to the upstream of `load`.
    pub fn new(load: &Arc<Load>) -> Lease {
        load.in_flight.fetch_add(1, Ordering::Relaxed);
        Lease(load.clone())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
