//! The response body on a stream, read at the pace of the client. Received data waits in the connection, bounded by the
//! flow-control window; consuming it here returns window to the upstream.

use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::Fields;
use sluice_wire::h1::{BodyFraming, ResponseFraming};

use super::call::StreamCall;
use super::connection::{Streams, Taken};
use sluice_net::body::{Body, BodyStream};
use sluice_net::body_piece::BodyPiece;
use sluice_net::failure::{Failure, FailureKind, Side};
use sluice_net::limits::COPY_BYTES_MAX;
use sluice_net::worker::Worker;

/// The response body on a stream. Dropping it before its end cancels the stream.
pub(super) struct StreamBody<C: Streams> {
    worker: Rc<Worker>,
    /// The call, until the body has ended.
    call: Option<Box<StreamCall<C>>>,
    /// Data taken from the connection. The codec verifies a declared length.
    piece: BodyPiece,
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
            piece: BodyPiece::new(left),
            bytes_read: 0,
            trailers: None,
        }
    }

    /// Takes received data. Ready when there is some, or the body has ended.
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let buf = self.piece.refill();
        let Some(call) = &mut self.call else {
            return Poll::Ready(Ok(()));
        };
        let Some(id) = call.seat.id() else {
            return Poll::Ready(Ok(()));
        };
        match call.seat.mux.take(id, buf, cx) {
            Taken::Content => {
                self.bytes_read += buf.len() as u64;
                call.upload.note_received(buf.len());
                Poll::Ready(Ok(()))
            }
            Taken::End(trailers) => {
                self.trailers = trailers;
                self.call = None;
                self.piece.end(&self.worker.buffers);
                Poll::Ready(Ok(()))
            }
            Taken::Gone(gone) => Poll::Ready(Err(gone.failure())),
            Taken::Nothing => {
                let limit = call.seat.endpoint().options().timeouts.read;
                let polled = call.silence.poll(cx, &self.worker, limit, self.bytes_read);
                if polled.is_ready() {
                    call.seat.mux.retire();
                }
                self.piece.give_back(&self.worker.buffers);
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
            None => self.piece.left(),
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if let Some(call) = &mut self.call
            && let Poll::Ready(Err(failure)) = call.upload.poll_frames(&call.seat, cx)
        {
            return Poll::Ready(Err(failure));
        }
        if self.piece.rest().is_empty() && self.call.is_some() {
            match self.poll_take(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(self.piece.rest()))
    }

    fn consume(&mut self, count: usize) {
        self.piece.consume(count);
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
        self.piece.give_back(&self.worker.buffers);
    }
}
