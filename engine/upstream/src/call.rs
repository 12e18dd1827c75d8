//! One request and its response, independent of the protocol. The layer above builds the request and handles the
//! response; `link_call` implements exclusive connections, `streams` shared ones.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use sluice_message::Method;
use sluice_wire::h1::ResponseFraming;

use crate::call_transport::Carrier;
use crate::fastcgi::Complaints;
use crate::link_call::LinkCall;
use crate::outcome::{CallFailure, Response};
use crate::streams::StreamCall;
use crate::upload::Upload;
use crate::{h2, h3};
use sluice_net::body::{Body, RequestBody};
use sluice_net::failure::{Failure, FailureKind, Side};
use sluice_net::load::Lease;
use sluice_net::tunnel::Tunnel;
use sluice_net::worker::Worker;

/// A request in progress. Dropping it closes its connection, or cancels its stream on a shared connection.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and memory of its own would be an allocation for each request"
)]
pub enum Call {
    /// On an exclusive connection.
    Link(LinkCall),
    /// On a stream of a shared HTTP/2 connection.
    Stream(Box<StreamCall<h2::Mux>>),
    /// On a stream of a shared HTTP/3 connection.
    Quic(Box<StreamCall<h3::Mux>>),
}

impl Call {
    /// Starts sending `upload` on `call_transport`. `lease` is held until the response has ended.
    pub fn new(carrier: Carrier, upload: Upload, lease: Option<Lease>) -> Call {
        match carrier {
            Carrier::Link(link) => Call::Link(LinkCall::new(link, upload, lease)),
            Carrier::Seat(seat) => Call::Stream(Box::new(StreamCall::new(*seat, upload, lease))),
            Carrier::Quic(seat) => Call::Quic(Box::new(StreamCall::new(*seat, upload, lease))),
        }
    }

    /// Forwards interim responses to the client, by way of [`Worker::interims`].
    pub fn pass_interims(&mut self) {
        match self {
            Call::Link(call) => call.pass_interims(),
            Call::Stream(call) => call.pass_interims(),
            Call::Quic(call) => call.pass_interims(),
        }
    }

    /// Passes what a FastCGI application writes to standard error to `complaints`.
    pub fn listen(&mut self, complaints: Complaints) {
        match self {
            Call::Link(call) => call.listen(complaints),
            Call::Stream(_) | Call::Quic(_) => {}
        }
    }

    /// Treats a FastCGI response as invalid if one of these texts appears on standard error.
    pub fn catch(&mut self, texts: &Arc<[Box<str>]>) {
        match self {
            Call::Link(call) => call.catch(texts),
            Call::Stream(_) | Call::Quic(_) => {}
        }
    }

    /// Sends the request and waits for the head of the final response.
    pub fn response(
        &mut self,
        worker: &Worker,
        method: &Method,
    ) -> impl Future<Output = Result<Response, Box<CallFailure>>> {
        // All of it that has to be kept while the response is awaited; an async fn has room for its arguments twice.
        poll_fn(move |cx| {
            let outcome = ready!(match self {
                Call::Link(call) => call.poll_response(cx, worker, method),
                Call::Stream(call) => call.poll_response(cx, worker),
                Call::Quic(call) => call.poll_response(cx, worker),
            });
            Poll::Ready(outcome.map_err(|failure| {
                Box::new(match self {
                    Call::Link(call) => call.fail(failure),
                    Call::Stream(call) => call.fail(failure),
                    Call::Quic(call) => call.fail(failure),
                })
            }))
        })
    }

    /// The request body, if all of it can be sent again: the response is not wanted.
    pub fn take_body(&mut self) -> Option<RequestBody> {
        match self {
            Call::Link(call) => call.take_body(),
            Call::Stream(call) => call.take_body(),
            Call::Quic(call) => call.take_body(),
        }
    }

    /// The response body, after its head was read. A short one that has already arrived is copied to `inline`, which
    /// must be empty; it then costs no allocation, and the connection is free again.
    pub fn into_body(
        self,
        worker: &Rc<Worker>,
        framing: ResponseFraming,
        inline: &mut Vec<u8>,
    ) -> Result<Body, Failure> {
        match self {
            Call::Link(call) => call.into_body(worker, framing, inline),
            Call::Stream(call) => call.into_body(worker, framing, inline),
            Call::Quic(call) => call.into_body(worker, framing, inline),
        }
    }

    /// The connection, after a response that switched protocols. Shared connections never do: HTTP/2 and HTTP/3 have
    /// no 101 (RFC 9113, section 8.6; RFC 9114, section 4.5).
    pub fn into_tunnel(
        self,
        worker: &Worker,
        lifetime: Option<Duration>,
    ) -> Result<Tunnel, Failure> {
        match self {
            Call::Link(call) => Ok(call.into_tunnel(worker, lifetime)),
            Call::Stream(_) | Call::Quic(_) => {
                Err(Failure::new(Side::Upstream, FailureKind::Protocol))
            }
        }
    }
}
