//! A call on a stream of a shared connection: sends the request and receives the response, each at its own pace. `body`
//! implements the response body.

use std::task::{Context, Poll};

use sluice_message::{ResponseHead, Status};
use sluice_wire::h1::{self, ResponseFraming, ResponseKind};

use super::connection::{Found, Streams};
use super::gone::Gone;
use super::reserved_stream::Seat;
use crate::link::Origin;
use crate::outcome::{CallFailure, Heard, InterimResponses, Response};
use crate::pool::Pool;
use crate::silence_timeout::{Silence, shorter};
use crate::upload::{Upload, WaitsFor};
use sluice_net::body::RequestBody;
use sluice_net::failure::{Failure, Retry, Side};
use sluice_net::load::Lease;
use sluice_net::worker::Worker;

/// A request in progress on a stream. Dropping it cancels the stream.
pub struct StreamCall<C: Streams> {
    pub(super) seat: Seat<C>,
    pub(super) upload: Upload,
    #[expect(dead_code, reason = "held until the response has ended")]
    lease: Option<Lease>,
    pub(super) silence: Silence,
    interim_responses: InterimResponses,
    heard: Heard,
    gone: Option<Gone<C::Ending>>,
}

impl<C: Streams> StreamCall<C> {
    /// Starts sending the body of `upload` on the stream that `reserved_stream` has opened.
    pub(crate) fn new(seat: Seat<C>, upload: Upload, lease: Option<Lease>) -> StreamCall<C> {
        StreamCall {
            upload: upload.in_frames(seat.has_ended()),
            seat,
            lease,
            silence: Silence::default(),
            interim_responses: InterimResponses::Keep,
            heard: Heard::Nothing,
            gone: None,
        }
    }

    /// Like [`crate::Call::pass_interims`].
    pub fn pass_interims(&mut self) {
        self.interim_responses = InterimResponses::Pass;
    }

    /// Like [`crate::Call::take_body`].
    pub fn take_body(&mut self) -> Option<RequestBody> {
        self.upload.take_body()
    }

    /// Sends the request; ready with the head of the final response.
    pub(crate) fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
    ) -> Poll<Result<Response, Failure>> {
        let Some(id) = self.seat.id() else {
            return Poll::Ready(Err(self.lose(Gone::Refused)));
        };
        loop {
            if let Poll::Ready(Err(failure)) = self.upload.poll_frames(&self.seat, cx) {
                return Poll::Ready(Err(failure));
            }
            let spare = || Pool::of(worker).spare_head();
            match self.seat.mux.find_head(id, spare, cx) {
                Found::Interim(head) => self.note_interim(head, worker),
                Found::Final(head, body) => {
                    let framing = ResponseFraming {
                        body,
                        keep_alive: h1::KeepAlive::Reuse,
                        kind: ResponseKind::Final,
                    };
                    return Poll::Ready(Ok(Response { head, framing }));
                }
                Found::Gone(gone) => return Poll::Ready(Err(self.lose(gone))),
                Found::Nothing => return self.poll_silence(cx, worker).map(Err),
            }
        }
    }

    /// Nothing has arrived: runs the timeout of the side that is awaited.
    fn poll_silence(&mut self, cx: &mut Context<'_>, worker: &Worker) -> Poll<Failure> {
        let timeouts = &self.seat.endpoint().options().timeouts;
        let limit = match (self.upload.is_done(), self.upload.waits_for()) {
            (true, _) => shorter(timeouts.response, timeouts.read),
            (false, WaitsFor::Upstream) => timeouts.write,
            // A slow client is subject to its own limits.
            (false, WaitsFor::Client) => None,
        };
        let expired = self.silence.poll(cx, worker, limit, self.upload.sent());
        expired.map(|failure| {
            // The connection may be dead: other calls use a new one.
            self.seat.mux.retire();
            failure
        })
    }

    fn note_interim(&mut self, head: ResponseHead, worker: &Worker) {
        self.heard = Heard::Something;
        if head.status == Status::CONTINUE {
            self.upload.go_on();
        }
        if self.interim_responses == InterimResponses::Pass {
            worker.interims.leave(&head);
        }
        Pool::of(worker).give_back(head);
    }

    fn lose(&mut self, gone: Gone<C::Ending>) -> Failure {
        self.gone = Some(gone);
        gone.failure()
    }

    pub(crate) fn fail(&mut self, failure: Failure) -> CallFailure {
        let is_sent = self.seat.id().is_some_and(|id| self.seat.mux.was_sent(id));
        let is_refused = self.gone.is_some_and(Gone::is_refused);
        let retry = match (failure.side, is_refused, is_sent) {
            (Side::Client, _, _) => Retry::Never,
            (_, true, _) | (_, _, false) => Retry::Always,
            // What was received was not forwarded to the client.
            (_, false, true) => Retry::IfIdempotent,
        };
        // The connection works if the upstream resets a single stream: another one would not help.
        let origin = match self.gone.is_some_and(Gone::is_reset) {
            true => Origin::Fresh,
            false => self.seat.origin(),
        };
        CallFailure {
            failure: failure.with_retry(retry),
            origin,
            heard: self.heard,
            body: self.upload.take_body(),
        }
    }
}
