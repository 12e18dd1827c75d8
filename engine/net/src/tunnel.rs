//! Two connections joined after an upgrade: copies bytes both ways until both directions have ended. The handler
//! decides whether a request may become a tunnel.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::connection_slots::ConnectionSlot;
use crate::limits::HALF_CLOSED_TIMEOUT;
use crate::load::Lease;
use crate::stream::Stream;
use crate::timer::Timer;
use crate::worker::Worker;

/// The peer of an upgraded connection.
pub struct Tunnel {
    /// The connection to the peer.
    pub stream: Stream,
    /// The peer connection's slot among the connections of the worker, if it takes one.
    pub slot: Option<ConnectionSlot>,
    /// Bytes already received from the peer after its response head.
    pub received: Vec<u8>,
    /// Maximum lifetime, if limited.
    pub lifetime: Option<Duration>,
    /// Counts the tunnel as a request in progress while it lasts.
    pub lease: Option<Lease>,
    /// Closes the tunnel some time after its configuration was replaced, if configured.
    pub notice: Option<Notice>,
    /// Buffer size in each direction; the worker's default if `None`.
    pub buffer_bytes: Option<usize>,
}

/// How much was transferred through a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes from the client to the upstream.
    pub sent_up: u64,
    /// Bytes from the upstream to the client.
    pub sent_down: u64,
}

/// Joins `client` and the connection of `tunnel` until both directions have ended, one fails, or the tunnel's lifetime
/// is over. `received` are bytes that the client sent after its request.
///
/// Each direction holds one buffer, and only while its bytes cannot be written. The end of one direction is forwarded
/// and leaves the other open.
pub async fn join(
    client: &RefCell<Stream>,
    received: Vec<u8>,
    tunnel: Tunnel,
    worker: &Rc<Worker>,
) {
    join_counted(client, received, tunnel, worker).await;
}

/// Like [`join`], and returns how much was transferred.
pub async fn join_counted(
    client: &RefCell<Stream>,
    received: Vec<u8>,
    tunnel: Tunnel,
    worker: &Rc<Worker>,
) -> Traffic {
    let Tunnel {
        mut stream,
        received: responded,
        lifetime,
        lease: _lease,
        slot: _slot,
        notice,
        buffer_bytes,
    } = tunnel;
    let (mut up, mut down) = (
        Half::new(received, buffer_bytes),
        Half::new(responded, buffer_bytes),
    );
    let mut span = Span::new(worker, lifetime, notice);
    poll_fn(|cx| {
        let client = &mut *client.borrow_mut();
        let upward = up.poll(client, &mut stream, worker, cx);
        let downward = down.poll(&mut stream, client, worker, cx);
        let half_closed = match (upward, downward) {
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => return Poll::Ready(()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(()),
            (Poll::Pending, Poll::Pending) => false,
            (Poll::Ready(Ok(())), Poll::Pending) | (Poll::Pending, Poll::Ready(Ok(()))) => true,
        };
        span.poll_over(cx, half_closed.then_some(up.moved + down.moved))
    })
    .await;
    Traffic {
        sent_up: up.moved,
        sent_down: down.moved,
    }
}

/// The limits on the lifetime of a tunnel.
pub(crate) struct Span {
    worker: Rc<Worker>,
    life: Option<Timer>,
    given: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// Runs while one side has ended; with the amount transferred when it was last set.
    closing: Option<(Timer, u64)>,
}

impl Span {
    /// At most `lifetime`, and until `notice` is given.
    pub(crate) fn new(
        worker: &Rc<Worker>,
        lifetime: Option<Duration>,
        notice: Option<Notice>,
    ) -> Span {
        let given = notice.map(|notice| -> Pin<Box<dyn Future<Output = ()>>> {
            Box::pin(notice.over(worker.clone()))
        });
        Span {
            worker: worker.clone(),
            life: lifetime.map(|limit| timer(worker, limit)),
            given,
            closing: None,
        }
    }

    /// Ready when the time is over. If one side has ended, `half_closed` is the amount transferred so far.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>, half_closed: Option<u64>) -> Poll<()> {
        if let Some(moved) = half_closed {
            let worker = &self.worker;
            let (limit, before) = self
                .closing
                .get_or_insert_with(|| (timer(worker, HALF_CLOSED_TIMEOUT), moved));
            if *before != moved {
                limit.set(&worker.clock, HALF_CLOSED_TIMEOUT);
                *before = moved;
            }
            if limit.poll_expired(cx).is_ready() {
                return Poll::Ready(());
            }
        }
        if let Some(given) = &mut self.given
            && given.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(());
        }
        match &self.life {
            Some(life) => life.poll_expired(cx),
            None => Poll::Pending,
        }
    }
}

/// Held by a configuration whose tunnels end with it; dropping it ends them after a delay.
pub struct Term {
    /// Closed when the term has ended; never has a permit.
    ended: Arc<Semaphore>,
    delay: Duration,
}

impl Term {
    /// Tunnels end `delay` after this value was dropped.
    pub fn new(delay: Duration) -> Term {
        Term {
            ended: Arc::new(Semaphore::new(0)),
            delay,
        }
    }

    /// A handle with which a tunnel notices the end.
    pub fn notice(&self) -> Notice {
        Notice {
            ended: self.ended.clone(),
            delay: self.delay,
        }
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.ended.close();
    }
}

/// Notifies one tunnel of the end of its [`Term`].
pub struct Notice {
    ended: Arc<Semaphore>,
    delay: Duration,
}

impl Notice {
    /// Waits until the term has ended and its delay is over.
    async fn over(self, worker: Rc<Worker>) {
        // There is never a permit: this fails when the term has ended.
        let _ = self.ended.acquire().await;
        let timer = timer(&worker, self.delay);
        poll_fn(|cx| timer.poll_expired(cx)).await;
    }
}

/// One direction of a tunnel.
struct Half {
    /// Buffer size; the worker's default if `None`.
    buffer_bytes: Option<usize>,
    /// Bytes being copied; holds no memory while empty.
    buf: Vec<u8>,
    sent: usize,
    stage: Stage,
    moved: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// The source has ended; the end still has to be sent to the sink.
    Ending,
    Ended,
}

impl Half {
    fn new(received: Vec<u8>, buffer_bytes: Option<usize>) -> Half {
        Half {
            buffer_bytes,
            buf: received,
            sent: 0,
            stage: Stage::Open,
            moved: 0,
        }
    }

    /// Copies bytes. Ready when the source has ended and the end was sent to the sink.
    fn poll(
        &mut self,
        source: &mut Stream,
        sink: &mut Stream,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            while self.sent < self.buf.len() {
                let rest = IoSlice::new(&self.buf[self.sent..]);
                match ready!(sink.poll_write(cx, &[rest]))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    count => {
                        self.sent += count;
                        self.moved += count as u64;
                    }
                }
            }
            self.buf.clear();
            self.sent = 0;
            match self.stage {
                Stage::Ended => return Poll::Ready(Ok(())),
                Stage::Ending => {
                    ready!(sink.poll_flush(cx))?;
                    // A peer that is already gone need not be notified.
                    let _ = ready!(sink.poll_shutdown(cx));
                    self.stage = Stage::Ended;
                }
                Stage::Open => ready!(self.poll_fill(source, sink, worker, cx))?,
            }
        }
    }

    fn poll_fill(
        &mut self,
        source: &mut Stream,
        sink: &mut Stream,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.buf.capacity() == 0 {
            self.buf = match self.buffer_bytes {
                None => worker.buffers.small(),
                Some(bytes) => Vec::with_capacity(bytes),
            };
        }
        let polled = source.poll_read(cx, &mut self.buf);
        if self.buf.is_empty() {
            worker.buffers.give_back(std::mem::take(&mut self.buf));
        }
        if polled.is_pending() {
            // Data that the sink still buffers must leave before the task sleeps.
            if let Poll::Ready(Err(error)) = sink.poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
        }
        if ready!(polled)? == 0 {
            self.stage = Stage::Ending;
        }
        Poll::Ready(Ok(()))
    }
}

fn timer(worker: &Worker, limit: Duration) -> Timer {
    let timer = worker.timers.timer();
    timer.set(&worker.clock, limit);
    timer
}
