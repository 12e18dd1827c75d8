//! The life cycle of one stream: a request whose head was received, its response, its record. `drive` decides when it
//! is polled.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::Status;
use sluice_wire::h2::{Connect, ErrorCode, HeadFault, StreamId};

use super::mux::Mux;
use super::send::Sender;
use crate::binding::Binding;
use crate::body::RequestBody;
use crate::clock;
use crate::connection::send::SendTimeouts;
use crate::connection::serve_response::{Asker, response};
use crate::connection::shared::Shared;
use crate::failure::Failure;
use crate::interims::Interim;
use crate::limits::STREAMS_KEPT_MAX;
use crate::service::{Completion, Exchange, Refused, Service};

/// Connection state that streams need.
pub(super) struct Home<S: Service> {
    pub(super) mux: Rc<Mux>,
    pub(super) shared: Rc<Shared<S>>,
    /// Whether a response has asked to close the connection.
    pub(super) is_closing: Cell<bool>,
}

/// A request to be served.
pub(super) struct Start<S: Service> {
    pub(super) id: StreamId,
    pub(super) exchange: Box<Exchange<S::Context>>,
    /// The service and settings for the whole request, even across a reload.
    pub(super) binding: Rc<Binding<S>>,
    /// Whether this is a CONNECT request.
    pub(super) connect: Connect,
    /// Why the request is refused, if it is.
    pub(super) refused: Option<(Status, HeadFault)>,
}

/// Serves one request. Returns the error code for RST_STREAM if the stream has not ended.
pub(super) async fn serve<S: Service>(home: Rc<Home<S>>, start: Start<S>) -> ErrorCode {
    let Start {
        id,
        mut exchange,
        binding,
        connect,
        refused,
    } = start;
    let (mux, service) = (&*home.mux, &*binding.service);
    let settings = service.settings();
    let refused = refused.as_ref().map(|(status, fault)| Refused {
        status: *status,
        why: fault,
        line: &[],
    });
    let _underway = mux.link.underway();
    let asker = StreamAsker { mux, id };
    let worker = &mux.link.worker;
    let responded = response(service, &mut exchange, refused.as_ref(), worker, &asker).await;
    let limits = service.client_limits(&exchange);
    let timeouts = SendTimeouts {
        idle: limits.write_idle_timeout,
        min_rate: limits.write_min_rate,
        until: service.write_until(&exchange),
    };
    let mut sender = Sender::new(&home.mux, id, timeouts, connect);
    let sent = sender.send(&mut exchange, responded).await;
    let (body_bytes_sent, head_bytes_sent) = (sender.content_sent, sender.head_sent);
    // A body that a handler took and dropped is returned before it is counted.
    exchange.body = RequestBody::None;
    let now = match settings.exact_times {
        true => clock::now(),
        false => mux.link.worker.clock.coarse(),
    };
    let completion = Completion {
        ending: sent.ending,
        body_bytes_sent,
        bytes_sent: head_bytes_sent + body_bytes_sent,
        head_bytes_sent,
        body_bytes_read: mux.bytes_read(id),
        duration: now.since(exchange.started),
    };
    service.record(&mut exchange, &completion);
    if exchange.close {
        home.is_closing.set(true);
    }
    service.reset(&mut exchange.context);
    home.shared.give_back(exchange);
    sent.code
}

/// The client of one stream.
struct StreamAsker<'a> {
    mux: &'a Mux,
    id: StreamId,
}

impl Asker for StreamAsker<'_> {
    fn send_interim(&self, interim: &Interim) {
        let mut server = self.mux.server.borrow_mut();
        // Interim responses are optional: if the client accepts nothing they are dropped, as in HTTP/1.
        if !server.is_output_full() {
            let _ = server.send_interim(self.id, interim.status, &interim.fields);
        }
    }

    fn poll_gone(&self, _cx: &mut Context<'_>) -> Poll<Failure> {
        match self.mux.gone(self.id) {
            Some(gone) => Poll::Ready(gone.failure()),
            None => Poll::Pending,
        }
    }
}

/// A pool of allocations for stream futures.
pub(super) struct Places<F>(RefCell<Vec<Place<F>>>);

/// An allocation for the future of a stream; empty while unused.
pub(super) type Place<F> = Pin<Box<Option<F>>>;

impl<F> Default for Places<F> {
    fn default() -> Self {
        Places(RefCell::new(Vec::new()))
    }
}

impl<F: Future> Places<F> {
    /// Puts `future` into an allocation from the pool.
    pub(super) fn fill(&self, future: F) -> Place<F> {
        match self.0.borrow_mut().pop() {
            Some(mut place) => {
                place.set(Some(future));
                place
            }
            None => Box::pin(Some(future)),
        }
    }

    /// Drops the future and returns the allocation to the pool.
    pub(super) fn give_back(&self, mut place: Place<F>) {
        place.set(None);
        let mut kept = self.0.borrow_mut();
        if kept.len() < STREAMS_KEPT_MAX {
            kept.push(place);
        }
    }
}
