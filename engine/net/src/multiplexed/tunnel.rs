//! A stream that became a tunnel (RFC 8441, RFC 9220): copies data between the stream and another connection, in both directions.
//! The handler decides whether a request may become a tunnel.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_wire::sections::End;

use super::{Carrier, StreamBody};
use crate::body::BodyStream;
use crate::buffers::Buffers;
use crate::failure::{Failure, Side};
use crate::tunnel::{Peer, Span, Stage, State, Tunnel};

/// Joins the stream `id` and the connection of `tunnel` until both directions have ended, one fails, or a time limit
/// of the tunnel is reached. Returns the number of bytes sent to the client.
pub async fn join<M: Carrier>(
    carrier: &Rc<M>,
    id: M::Id,
    tunnel: Tunnel,
) -> (Result<(), Failure>, u64) {
    let worker = carrier.worker();
    let Tunnel {
        mut peer,
        received,
        lifetime,
        idle,
        lease: _lease,
        slot: _slot,
        notice,
        buffer_bytes,
        request: _,
    } = tunnel;
    let mut up = Up {
        body: StreamBody::for_tunnel(carrier.clone(), id),
        stage: Stage::Open,
        unsent: 0,
        moved: 0,
    };
    let mut down = Down {
        buffer_bytes,
        buf: received,
        sent: 0,
        stage: Stage::Open,
        moved: 0,
    };
    let mut span = Span::new(worker, lifetime, idle, notice);
    let done = poll_fn(|cx| {
        let upward = up.poll(&mut *peer, cx)?;
        let downward = down.poll(&**carrier, id, &mut *peer, cx)?;
        if upward.is_ready() && downward.is_ready() {
            return Poll::Ready(Ok(()));
        }
        let state = State {
            up: up.stage.waits(up.unsent),
            down: down.stage.waits(down.unsent()),
            progress: up.moved + down.progress(),
        };
        span.poll_over(cx, &state).map(Ok)
    })
    .await;
    worker.buffers.give_back(down.buf);
    (done, down.moved)
}

/// The direction from the client.
struct Up<M: Carrier> {
    body: StreamBody<M>,
    stage: Stage,
    /// The length of the received data that the sink did not accept.
    unsent: usize,
    moved: u64,
}

impl<M: Carrier> Up<M> {
    /// Copies data. Ready when the client has ended its direction and the end was sent to the sink.
    fn poll(&mut self, sink: &mut dyn Peer, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        while self.stage == Stage::Open {
            self.unsent = 0;
            let Poll::Ready(data) = self.body.poll_data(cx) else {
                // Data that the sink still buffers must leave before the task sleeps.
                if let Poll::Ready(Err(error)) = sink.poll_flush(cx) {
                    return Poll::Ready(Err(upstream_failure(error)));
                }
                return Poll::Pending;
            };
            let data = data?;
            self.unsent = data.len();
            if data.is_empty() {
                self.stage = Stage::Ending;
                break;
            }
            match ready!(sink.poll_write(cx, &[IoSlice::new(data)])) {
                Ok(count) if count > 0 => {
                    self.body.consume(count);
                    self.moved += count as u64;
                }
                Ok(_) => {
                    return Poll::Ready(Err(upstream_failure(io::ErrorKind::WriteZero.into())));
                }
                Err(error) => return Poll::Ready(Err(upstream_failure(error))),
            }
        }
        if self.stage == Stage::Ending {
            ready!(sink.poll_flush(cx)).map_err(upstream_failure)?;
            // A peer that is already gone need not be notified.
            let _ = ready!(sink.poll_shutdown(cx));
            self.stage = Stage::Ended;
        }
        Poll::Ready(Ok(()))
    }
}

/// The direction to the client.
struct Down {
    /// Buffer size; the worker's default if `None`.
    buffer_bytes: Option<usize>,
    /// Bytes being copied; holds no memory while empty.
    buf: Vec<u8>,
    sent: usize,
    stage: Stage,
    moved: u64,
}

impl Down {
    fn unsent(&self) -> usize {
        self.buf.len() - self.sent
    }

    /// How much was received and sent.
    fn progress(&self) -> u64 {
        let received = self.moved + self.unsent() as u64;
        received + self.moved
    }

    /// Copies data. Ready when the source has ended and the end was sent to the client.
    fn poll<M: Carrier>(
        &mut self,
        carrier: &M,
        id: M::Id,
        source: &mut dyn Peer,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        loop {
            if let Some(gone) = carrier.gone(id) {
                return Poll::Ready(Err(gone.failure()));
            }
            let end = End::here_if(self.stage == Stage::Ending);
            if self.sent < self.buf.len() || end.is_here() {
                match carrier.send_data(id, &self.buf[self.sent..], end) {
                    Err(gone) => return Poll::Ready(Err(gone.failure())),
                    Ok(0) if !end.is_here() => {
                        carrier.await_room(id);
                        return Poll::Pending;
                    }
                    Ok(count) => {
                        self.sent += count;
                        self.moved += count as u64;
                    }
                }
            }
            if end.is_here() {
                self.stage = Stage::Ended;
            }
            if self.stage == Stage::Ended {
                return Poll::Ready(Ok(()));
            }
            if self.sent == self.buf.len() {
                ready!(self.poll_fill(&carrier.worker().buffers, source, cx))?;
            }
        }
    }

    fn poll_fill(
        &mut self,
        buffers: &Buffers,
        source: &mut dyn Peer,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        self.buf.clear();
        self.sent = 0;
        if self.buf.capacity() == 0 {
            self.buf = match self.buffer_bytes {
                None => buffers.small(),
                Some(bytes) => Vec::with_capacity(bytes),
            };
        }
        let polled = source.poll_read(cx, &mut self.buf);
        if self.buf.is_empty() {
            buffers.give_back(std::mem::take(&mut self.buf));
        }
        if ready!(polled).map_err(upstream_failure)? == 0 {
            self.stage = Stage::Ending;
        }
        Poll::Ready(Ok(()))
    }
}

fn upstream_failure(error: io::Error) -> Failure {
    Failure::from_io(Side::Upstream, error)
}
