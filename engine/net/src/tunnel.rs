//! Two connections joined after an upgrade: bytes go both ways until both have ended. Deciding that a request
//! may become a tunnel is left to the handler.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::body::Tunnel;
use crate::stream::Stream;
use crate::timer::Timer;
use crate::upstream::limits::HALF_CLOSED_TIMEOUT;
use crate::worker::Worker;

/// What went through a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes from the client to the upstream.
    pub sent_up: u64,
    /// Bytes from the upstream to the client.
    pub sent_down: u64,
}

/// Joins `client` and the connection of `tunnel` until both directions have ended, one fails, or the tunnel's time
/// is over. `received` are bytes that the client sent after its request.
///
/// Each direction holds one buffer, and only while its bytes cannot be passed on. An end of one direction is
/// passed on and leaves the other open.
pub async fn join(
    client: &RefCell<Stream>,
    received: Vec<u8>,
    tunnel: Tunnel,
    worker: &Rc<Worker>,
) {
    join_counted(client, received, tunnel, worker).await;
}

/// As [`join`], and tells what went through.
pub async fn join_counted(
    client: &RefCell<Stream>,
    received: Vec<u8>,
    tunnel: Tunnel,
    worker: &Rc<Worker>,
) -> Traffic {
    let Tunnel {
        mut stream,
        received: answered,
        lifetime,
        lease: _lease,
        place: _place,
        notice,
        buffer_bytes,
    } = tunnel;
    let (mut up, mut down) = (
        Half::new(received, buffer_bytes),
        Half::new(answered, buffer_bytes),
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

/// How long a tunnel lasts whose sides would go on.
pub(crate) struct Span {
    worker: Rc<Worker>,
    life: Option<Timer>,
    given: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// Runs while one side has ended; and what had gone through when it was last set.
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

    /// Ready when it is over. Where one side has ended `half_closed` is what has gone through so far.
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

/// Held by a configuration whose tunnels end with it; dropping it gives them notice.
pub struct Term {
    /// Closed when the term has ended; nobody ever gets a permit.
    ended: Arc<Semaphore>,
    delay: Duration,
}

impl Term {
    /// Tunnels live for `delay` after this was dropped.
    pub fn new(delay: Duration) -> Term {
        Term {
            ended: Arc::new(Semaphore::new(0)),
            delay,
        }
    }

    /// What a tunnel needs to notice the end.
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

/// Tells one tunnel of the end of its [`Term`].
pub struct Notice {
    ended: Arc<Semaphore>,
    delay: Duration,
}

impl Notice {
    /// Waits until the term has ended and its delay is over.
    async fn over(self, worker: Rc<Worker>) {
        // No permit is ever given: this fails when the term has ended.
        let _ = self.ended.acquire().await;
        let timer = timer(&worker, self.delay);
        poll_fn(|cx| timer.poll_expired(cx)).await;
    }
}

/// One direction of a tunnel.
struct Half {
    /// Bytes taken at a time, where they are not those of the worker's buffers.
    buffer_bytes: Option<usize>,
    /// Bytes on their way; holds no memory while there are none.
    buf: Vec<u8>,
    sent: usize,
    stage: Stage,
    moved: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// The source has ended; the sink is to be told.
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

    /// Passes bytes on. Ready when the direction has ended and the sink was told.
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
                    // A peer that is gone already does not need to be told.
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
            // Whatever the sink still holds back has to leave before we sleep.
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
