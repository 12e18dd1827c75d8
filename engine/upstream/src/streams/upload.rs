//! The sending half of a call on a stream: sends the body as it arrives, at the pace of the upstream's windows. The
//! head was sent when the stream was opened.

use std::task::{Context, Poll, ready};

use sluice_wire::sections::End;

use super::connection::Streams;
use super::reserved_stream::Seat;
use crate::upload::{Stage, Trailers, Upload, WaitsFor};
use sluice_net::body::BodyStream;
use sluice_net::failure::Failure;

impl Upload {
    /// Prepares for sending DATA frames. `ended` says whether the request ended with its head.
    pub(super) fn in_frames(mut self, ended: bool) -> Upload {
        if ended || self.body.is_none() {
            self.stage = Stage::Done;
        }
        self
    }

    /// Sends what is available. Ready when all is sent or the upstream accepts no more; an error is one of the body.
    pub(super) fn poll_frames<C: Streams>(
        &mut self,
        seat: &Seat<C>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        self.waits_for = WaitsFor::Upstream;
        loop {
            match &self.stage {
                Stage::Done | Stage::Broken => return Poll::Ready(Ok(())),
                Stage::AwaitContinue(timer) => {
                    ready!(timer.poll_expired(cx));
                    self.stage = Stage::SendBody;
                }
                Stage::SendBody => ready!(self.poll_frame(seat, cx))?,
                Stage::SendRest | Stage::Flush => self.stage = Stage::Done,
            }
        }
    }

    /// Sends the body's available data, as far as the windows allow.
    fn poll_frame<C: Streams>(
        &mut self,
        seat: &Seat<C>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        let Some(id) = seat.id() else {
            self.stage = Stage::Broken;
            return Poll::Ready(Ok(()));
        };
        if !ready!(seat.mux.poll_capacity(id, cx)) {
            self.stage = Stage::Broken;
            return Poll::Ready(Ok(()));
        }
        let body = self
            .body
            .as_mut()
            .expect("the body is there until its end was seen");
        let whole = body.len();
        let content = match body.poll_data(cx) {
            Poll::Ready(content) => content?,
            Poll::Pending => {
                self.waits_for = WaitsFor::Client;
                return Poll::Pending;
            }
        };
        if content.is_empty() {
            self.end_stream(seat);
            return Poll::Ready(Ok(()));
        }
        // END_STREAM goes along if it is known that nothing follows, not even trailers.
        let is_last = whole == Some(content.len() as u64);
        let end = End::here_if(is_last);
        let Some(count) = seat.mux.send_data(id, content, end) else {
            self.stage = Stage::Broken;
            return Poll::Ready(Ok(()));
        };
        let is_done = is_last && count == content.len();
        body.consume(count);
        self.touched = true;
        self.note_sent(count);
        if is_done {
            self.finish();
        }
        Poll::Ready(Ok(()))
    }

    /// The body has ended: sends the client's trailers, if any, else an empty DATA frame.
    fn end_stream<C: Streams>(&mut self, seat: &Seat<C>) {
        let body = self
            .body
            .as_mut()
            .filter(|_| self.trailers == Trailers::Pass);
        let trailers = body.and_then(|body| body.trailers());
        if let Some(id) = seat.id() {
            match trailers.filter(|fields| !fields.is_empty()) {
                Some(trailers) => seat.mux.send_trailers(id, &trailers),
                None => {
                    // If the stream is gone, the reader of the response notices.
                    let _ = seat.mux.send_data(id, &[], End::Here);
                }
            }
        }
        self.finish();
    }

    /// Everything was sent. A rewindable body is retained until the response has arrived.
    fn finish(&mut self) {
        let body: Option<Box<dyn BodyStream>> = self.body.take();
        self.body = body.filter(|body| body.is_rewindable());
        self.stage = Stage::Done;
    }
}
