//! A request in progress: sends its body and receives the response, each at its own pace.

use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::ResponseHead;
use sluice_net::body::{Body, RequestBody};
use sluice_net::failure::Failure;
use sluice_net::worker::Worker;
use sluice_wire::h1::ResponseFraming;

use crate::failure::CallFailure;

/// A request in progress. Dropping it before its end cancels the request: the application learns that the client is
/// gone.
pub struct Call {
    worker: Rc<Worker>,
}

/// The head of a response.
pub struct Response {
    /// Status and headers, `Content-Length` included; hop-by-hop headers were removed or refused.
    pub head: ResponseHead,
    /// The framing of the body, for [`Call::into_body`].
    pub framing: ResponseFraming,
}

impl Call {
    /// Forwards early hints (103) to the client, by [`Worker::interims`].
    pub fn pass_interims(&mut self) {}

    /// The index of the worker process in its group, and its PID: for the access log.
    pub fn process(&self) -> (usize, u32) {
        (0, 0)
    }

    /// Takes the request body out, if all of it can still be sent.
    pub fn take_body(&mut self) -> Option<RequestBody> {
        None
    }

    /// Sends the request body as far as possible; ready with the head of the response.
    ///
    /// # Errors
    ///
    /// See [`crate::Why`]. The request was then cancelled.
    pub fn poll_response(&mut self, _cx: &mut Context<'_>) -> Poll<Result<Response, CallFailure>> {
        let _ = &self.worker;
        Poll::Pending
    }

    /// The response body: nothing, bytes in `inline`, a file, or a stream with trailers. A body that is longer or shorter
    /// than its `Content-Length` fails.
    ///
    /// # Errors
    ///
    /// The process is gone.
    pub fn into_body(
        self: Box<Self>,
        _framing: ResponseFraming,
        _inline: &mut Vec<u8>,
    ) -> Result<Body, Failure> {
        Ok(Body::Empty)
    }
}
