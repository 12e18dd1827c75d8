//! Sends a request body as it arrives, at the pace of the application.

use std::task::{Context, Poll, ready};

use sluice_net::body::{BodyStream, RequestBody};
use sluice_net::failure::Failure;
use sluice_wire::python::{End, StreamId};

use super::mux::Mux;

/// A request body on its way.
pub(crate) struct Upload {
    body: Option<Box<dyn BodyStream>>,
    is_done: bool,
    /// Whether bytes were consumed.
    is_touched: bool,
}

impl Upload {
    /// Before the first byte.
    pub fn new(body: RequestBody) -> Upload {
        let body = match body {
            RequestBody::None => None,
            RequestBody::Stream(stream) => Some(stream),
        };
        Upload {
            is_done: body.is_none(),
            body,
            is_touched: false,
        }
    }

    /// Sends what is available. Ready when all is sent, or the worker accepts no more.
    ///
    /// # Errors
    ///
    /// That of the body.
    pub fn poll(
        &mut self,
        mux: &Mux,
        id: StreamId,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        while !self.is_done {
            let Some(body) = &mut self.body else {
                break;
            };
            if !ready!(mux.poll_capacity(id, cx)) {
                self.is_done = true;
                break;
            }
            let whole = body.len();
            let content = ready!(body.poll_data(cx))?;
            let is_last = content.is_empty() || whole == Some(content.len() as u64);
            let length = content.len();
            let count = mux.send_body(id, content, End::here_if(is_last));
            body.consume(count);
            self.is_touched |= count > 0;
            self.is_done = is_last && count == length;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the body, if all of it can still be sent.
    pub fn take_body(&mut self) -> Option<RequestBody> {
        match self.body.take() {
            None => Some(RequestBody::None),
            Some(body) if !self.is_touched => Some(RequestBody::Stream(body)),
            Some(mut body) if body.is_rewindable() => {
                body.rewind();
                Some(RequestBody::Stream(body))
            }
            Some(_) => None,
        }
    }
}
