//! The response body on a stream, read at the pace of the client. Received data waits in the connection, bounded by the
//! flow-control window; consuming it here returns window to the upstream.

use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::Fields;
use sluice_wire::h1::{BodyFraming, ResponseFraming};

use super::call::StreamCall;
use super::connection::{Streams, Taken};
use sluice_net::body::{Body, BodyStream};
use sluice_net::failure::{Failure, FailureKind, Side};
use sluice_net::limits::COPY_BYTES_MAX;
use sluice_net::worker::Worker;

/// The response body on a stream. Dropping it before its end cancels the stream.
pub(super) struct StreamBody<C: Streams> {
    worker: Rc<Worker>,
    /// The call, until the body has ended.
    call: Option<Box<StreamCall<C>>>,
    /// Data taken from the connection.
    buf: Vec<u8>,
    /// How much of it has been consumed.
    used: usize,
    /// Content still to come or not consumed, if its length was declared; the codec verifies the length.
    left: Option<u64>,
    bytes_read: u64,
    trailers: Option<Fields>,
}

impl<C: Streams> StreamBody<C> {
    pub(super) fn new(
        call: Box<StreamCall<C>>,
        framing: BodyFraming,
        worker: &Rc<Worker>,
    ) -> StreamBody<C> {
        let left = match framing {
            BodyFraming::None => Some(0),
            BodyFraming::Length(length) => Some(length),
            BodyFraming::Chunked | BodyFraming::UntilClose => None,
        };
        StreamBody {
            worker: worker.clone(),
            call: Some(call),
            buf: Vec::new(),
            used: 0,
            left,
            bytes_read: 0,
            trailers: None,
        }
    }

    fn give_back(&mut self) {
        self.used = 0;
        let buf = std::mem::take(&mut self.buf);
        self.worker.buffers.give_back(buf);
    }

    /// Takes received data. Ready when there is some, or the body has ended.
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.buf.clear();
        self.used = 0;
        let Some(call) = &mut self.call else {
            return Poll::Ready(Ok(()));
        };
        let Some(id) = call.seat.id() else {
            return Poll::Ready(Ok(()));
        };
        match call.seat.mux.take(id, &mut self.buf, cx) {
            Taken::Content => {
                self.bytes_read += self.buf.len() as u64;
                call.upload.note_received(self.buf.len());
                Poll::Ready(Ok(()))
            }
            Taken::End(trailers) => {
                self.trailers = trailers;
                self.left = Some(0);
                self.call = None;
                self.give_back();
                Poll::Ready(Ok(()))
            }
            Taken::Gone(gone) => Poll::Ready(Err(gone.failure())),
            Taken::Nothing => {
                let limit = call.seat.endpoint().options().timeouts.read;
                let polled = call.silence.poll(cx, &self.worker, limit, self.bytes_read);
                if polled.is_ready() {
                    call.seat.mux.retire();
                }
                // A waiting body holds no memory.
                self.give_back();
                polled.map(Err)
            }
        }
    }
}

impl<C: Streams> StreamCall<C> {
    /// Like [`crate::Call::into_body`].
    pub fn into_body(
        self: Box<Self>,
        worker: &Rc<Worker>,
        framing: ResponseFraming,
        inline: &mut Vec<u8>,
    ) -> Result<Body, Failure> {
        let Some(id) = self.seat.id() else {
            return Err(Failure::new(Side::Upstream, FailureKind::Closed));
        };
        let mux = self.seat.mux.clone();
        match (framing.body, mux.whole(id)) {
            (BodyFraming::None, _) | (_, Some(0)) => Ok(Body::Empty),
            (_, Some(..=COPY_BYTES_MAX)) => {
                mux.copy_whole(id, inline);
                self.upload.note_received(inline.len());
                Ok(Body::Inline)
            }
            (body, _) => Ok(Body::Stream(Box::new(StreamBody::new(self, body, worker)))),
        }
    }
}

impl<C: Streams> BodyStream for StreamBody<C> {
    fn len(&self) -> Option<u64> {
        match &self.trailers {
            // A body with a declared length cannot have trailers.
            Some(_) => None,
            None => self.left,
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if let Some(call) = &mut self.call
            && let Poll::Ready(Err(failure)) = call.upload.poll_frames(&call.seat, cx)
        {
            return Poll::Ready(Err(failure));
        }
        if self.used == self.buf.len() && self.call.is_some() {
            match self.poll_take(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(&self.buf[self.used..]))
    }

    fn consume(&mut self, count: usize) {
        self.used += count;
        assert!(
            self.used <= self.buf.len(),
            "only what was shown is consumed"
        );
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(count as u64);
        }
        if let Some(call) = &self.call
            && let Some(id) = call.seat.id()
        {
            call.seat.mux.consumed(id, count);
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.trailers.take()
    }
}

impl<C: Streams> Drop for StreamBody<C> {
    fn drop(&mut self) {
        self.give_back();
    }
}
