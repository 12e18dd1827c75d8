//! The request body of one stream, read by the handler. Received data waits in the connection, bounded by the
//! flow-control window; consuming it here returns window to the client.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_message::{Fields, Status};
use sluice_policy::data_rate::Verdict;
use sluice_policy::{MinDataRate, Pace};

use super::{Carrier, Taken};
use crate::body::BodyStream;
use crate::body_hold::BodyHold;
use crate::body_piece::BodyPiece;
use crate::failure::{Failure, FailureKind, Side};
use crate::service::ClientLimits;
use crate::timer::Timer;

/// The body of a request.
pub struct StreamBody<M: Carrier> {
    carrier: Rc<M>,
    id: M::Id,
    /// Data taken from the connection. The codec verifies a declared length.
    piece: BodyPiece,
    stage: Stage,
    hold: BodyHold,
    /// How long the client may be silent; `None` means no limit.
    idle_timeout: Option<Duration>,
    /// Runs while nothing arrives; few bodies need it.
    idle: Option<Timer>,
    pace: Pace,
    /// The connection's count of received bytes when it was last checked.
    received: u64,
    trailers: Option<Fields>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The client waits for `100 Continue` (RFC 9110, section 10.1.1).
    Expected,
    Open,
    Ended,
    Failed,
}

impl<M: Carrier> StreamBody<M> {
    /// The body that the client sends on the stream `id`.
    pub fn new(
        carrier: Rc<M>,
        id: M::Id,
        length: Option<u64>,
        awaits_continue: bool,
        client: &ClientLimits,
    ) -> Self {
        let mut body = StreamBody::for_tunnel(carrier, id);
        body.piece = BodyPiece::new(length);
        body.hold = BodyHold::New;
        body.idle_timeout = Some(client.body_idle_timeout);
        body.pace = Pace::new(client.min_rate);
        if awaits_continue {
            body.stage = Stage::Expected;
        }
        body
    }

    /// The data that the client sends on the stream `id` after it became a tunnel, without an idle timeout.
    pub fn for_tunnel(carrier: Rc<M>, id: M::Id) -> Self {
        StreamBody {
            pace: Pace::new(None),
            received: carrier.moved().received.get(),
            carrier,
            id,
            piece: BodyPiece::default(),
            stage: Stage::Open,
            hold: BodyHold::Begun,
            idle_timeout: None,
            idle: None,
            trailers: None,
        }
    }

    /// Content has arrived.
    fn note_arrival(&mut self) {
        let carrier = &self.carrier;
        let since = self.pace.waits_since();
        if since.is_some_and(|since| carrier.was_withheld(since)) {
            self.pace.excuse();
        }
        let received = carrier.moved().received.get();
        let count = received - std::mem::replace(&mut self.received, received);
        self.pace.moved(count, carrier.worker().clock.coarse());
    }

    /// Nothing has arrived: sends `100 Continue` if the client waits for it, and runs the idle timeout.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        self.piece.give_back(&self.carrier.worker().buffers);
        if self.stage == Stage::Expected {
            self.stage = Stage::Open;
            self.carrier
                .send_interim(self.id, Status::CONTINUE, &Fields::new());
        }
        let Some(idle_timeout) = self.idle_timeout else {
            return Poll::Pending;
        };
        let worker = self.carrier.worker();
        if self.pace.wait(worker.clock.coarse()) == Verdict::TooSlow {
            worker.counters.requests_too_slow.up();
            self.stage = Stage::Failed;
            return Poll::Ready(Failure::too_slow());
        }
        let idle = self.idle.get_or_insert_with(|| worker.timers.timer());
        if !idle.is_set() {
            idle.set(&worker.clock, idle_timeout);
        }
        ready!(idle.poll_expired(cx));
        self.stage = Stage::Failed;
        Poll::Ready(Failure::new(Side::Client, FailureKind::Timeout))
    }
}

impl<M: Carrier> BodyStream for StreamBody<M> {
    fn set_idle_timeout(&mut self, timeout: Duration) {
        if let Some(known) = &mut self.idle_timeout {
            *known = timeout;
        }
    }

    fn set_min_rate(&mut self, rate: Option<MinDataRate>) {
        if self.idle_timeout.is_some() {
            self.pace.set_rate(rate);
        }
    }

    fn len(&self) -> Option<u64> {
        self.piece.left()
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if self.piece.rest().is_empty() && self.stage != Stage::Ended {
            let worker = self.carrier.worker();
            if let Err(failure) = ready!(self.hold.poll(worker, cx)) {
                self.stage = Stage::Failed;
                return Poll::Ready(Err(failure));
            }
            match self.carrier.take(self.id, self.piece.refill()) {
                Taken::Content => {
                    self.stage = Stage::Open;
                    self.idle = None;
                    self.note_arrival();
                }
                Taken::End(trailers) => {
                    self.stage = Stage::Ended;
                    self.trailers = trailers;
                    self.piece.end(&self.carrier.worker().buffers);
                }
                Taken::Nothing => return self.poll_idle(cx).map(Err),
                Taken::Gone(gone) => {
                    self.stage = Stage::Failed;
                    return Poll::Ready(Err(gone.failure()));
                }
            }
        }
        Poll::Ready(Ok(self.piece.rest()))
    }

    fn consume(&mut self, count: usize) {
        self.piece.consume(count);
        self.carrier.consumed(self.id, count);
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.trailers.take()
    }
}

impl<M: Carrier> Drop for StreamBody<M> {
    fn drop(&mut self) {
        let left = self.piece.rest().len();
        self.piece.give_back(&self.carrier.worker().buffers);
        if self.stage != Stage::Ended {
            self.carrier.give_up(self.id, left);
        }
    }
}
