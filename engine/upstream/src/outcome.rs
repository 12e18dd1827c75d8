//! The outcome of a call: the head of its response, or its failure.

use sluice_message::ResponseHead;
use sluice_wire::h1::ResponseFraming;

use crate::link::Origin;
use sluice_net::body::RequestBody;
use sluice_net::failure::Failure;

/// What to do with interim responses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterimResponses {
    /// Drop them.
    Keep,
    /// Forward them to the client.
    Pass,
}

/// The head of a response.
pub struct Response {
    /// Status and headers. Return it to [`crate::Pool::give_back`] when it was forwarded.
    pub head: ResponseHead,
    /// The framing of the body.
    pub framing: ResponseFraming,
}

/// What was received from an upstream before a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing.
    Nothing,
    /// Part of a head, or interim responses.
    Something,
}

/// The failure of a call before the head of the final response.
pub struct CallFailure {
    /// The failure.
    pub failure: Failure,
    /// Whether the connection had been used before.
    pub origin: Origin,
    /// How much of a response was received.
    pub heard: Heard,
    /// The request body, if all of it can still be sent.
    pub body: Option<RequestBody>,
}
