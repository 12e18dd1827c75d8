//! One request and its answer, on whatever carries it. What is asked and what becomes of the answer is left to the floor
//! above; connections of one call to `link_call`, those that calls share to `h2`.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::{Method, RequestHead, ResponseHead};
use sluice_wire::h1::{BodyFraming, ResponseFraming};

use crate::body::{Body, RequestBody, Tunnel};
use crate::failure::{Failure, FailureKind, Side};
use crate::upstream::fastcgi::Complaints;
use crate::upstream::h2::{Seat, StreamCall};
use crate::upstream::link::{Lease, Link, Origin};
use crate::upstream::link_call::LinkCall;
use crate::upstream::upload::Upload;
use crate::worker::Worker;

/// What carries a call.
pub enum Carrier {
    /// A connection of its own, of HTTP/1 or FastCGI.
    Link(Link),
    /// A place on a connection of HTTP/2 that others share.
    Seat(Box<Seat>),
}

impl Carrier {
    /// Whether its connection has carried a request before.
    pub fn origin(&self) -> Origin {
        match self {
            Carrier::Link(link) => link.origin(),
            Carrier::Seat(seat) => seat.origin(),
        }
    }

    /// Begins the request with `head` where its head is no text: on a connection of HTTP/2. False where it is, and the
    /// head goes to [`Upload::new`].
    pub fn open(&mut self, head: &RequestHead, framing: BodyFraming) -> bool {
        match self {
            Carrier::Link(_) => false,
            Carrier::Seat(seat) => {
                seat.open(head, framing);
                true
            }
        }
    }
}

/// A request on its way. Dropping it closes its connection, or cancels its stream where others share the connection.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and memory of its own would be an allocation for each request"
)]
pub enum Call {
    /// On a connection of its own.
    Link(LinkCall),
    /// On a stream.
    Stream(Box<StreamCall>),
}

/// What becomes of interim answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InterimAnswers {
    /// They end here.
    Keep,
    /// The client gets them.
    Pass,
}

/// The head of an answer.
pub struct Answer {
    /// Status and fields. Give it back to [`crate::upstream::Pool::give_back`] when it was passed on.
    pub head: ResponseHead,
    /// What follows.
    pub framing: ResponseFraming,
}

/// What came from an upstream before a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Not a byte.
    Nothing,
    /// Part of a head, or interim answers.
    Something,
}

/// A call that ended before its answer began.
pub struct CallFailure {
    /// What happened.
    pub failure: Failure,
    /// Whether the connection had been used before.
    pub origin: Origin,
    /// What came of an answer.
    pub heard: Heard,
    /// The body of the request, if all of it can still be sent.
    pub body: Option<RequestBody>,
}

impl Call {
    /// Begins to send `upload` by `carrier`. `lease` is held until the answer has ended.
    pub fn new(carrier: Carrier, upload: Upload, lease: Option<Lease>) -> Call {
        match carrier {
            Carrier::Link(link) => Call::Link(LinkCall::new(link, upload, lease)),
            Carrier::Seat(seat) => Call::Stream(Box::new(StreamCall::new(*seat, upload, lease))),
        }
    }

    /// Passes interim answers on to the client, by way of [`Worker::interims`].
    pub fn pass_interims(&mut self) {
        match self {
            Call::Link(call) => call.pass_interims(),
            Call::Stream(call) => call.pass_interims(),
        }
    }

    /// Has `complaints` told what a FastCGI application writes to standard error.
    pub fn listen(&mut self, complaints: Complaints) {
        match self {
            Call::Link(call) => call.listen(complaints),
            Call::Stream(_) => {}
        }
    }

    /// Takes an answer of a FastCGI application for an invalid one that comes with one of these texts on standard error.
    pub fn catch(&mut self, texts: &Arc<[Box<str>]>) {
        match self {
            Call::Link(call) => call.catch(texts),
            Call::Stream(_) => {}
        }
    }

    /// Sends the request and waits for the head of the final answer.
    pub async fn answer(
        &mut self,
        worker: &Worker,
        method: &Method,
    ) -> Result<Answer, Box<CallFailure>> {
        let outcome = poll_fn(|cx| match self {
            Call::Link(call) => call.poll_answer(cx, worker, method),
            Call::Stream(call) => call.poll_answer(cx, worker),
        })
        .await;
        outcome.map_err(|failure| {
            Box::new(match self {
                Call::Link(call) => call.fail(failure),
                Call::Stream(call) => call.fail(failure),
            })
        })
    }

    /// The body of the request, if all of it can be sent once more: its answer is not wanted.
    pub fn take_body(&mut self) -> Option<RequestBody> {
        match self {
            Call::Link(call) => call.take_body(),
            Call::Stream(call) => call.take_body(),
        }
    }

    /// The body of the answer, whose head has been read. A short one that is here already is copied to `inline`,
    /// which must be empty; so it costs no memory of its own and what carried it is free again.
    pub fn into_body(
        self,
        worker: &Rc<Worker>,
        framing: ResponseFraming,
        inline: &mut Vec<u8>,
    ) -> Result<Body, Failure> {
        match self {
            Call::Link(call) => call.into_body(worker, framing, inline),
            Call::Stream(call) => call.into_body(worker, framing, inline),
        }
    }

    /// The connection after an answer that switched protocols. Those that calls share never do: RFC 9113, section 8.6
    /// has no 101.
    pub fn into_tunnel(
        self,
        worker: &Worker,
        lifetime: Option<Duration>,
    ) -> Result<Tunnel, Failure> {
        match self {
            Call::Link(call) => Ok(call.into_tunnel(worker, lifetime)),
            Call::Stream(_) => Err(Failure::new(Side::Upstream, FailureKind::Protocol)),
        }
    }
}
