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

use crate::clock::Clock;
use crate::connection_slots::ConnectionSlot;
use crate::limits::HALF_CLOSED_TIMEOUT;
use crate::load::Lease;
use crate::stream::Stream;
use crate::timer::{Timer, Timers};
use crate::worker::Worker;

/// One end of a tunnel: a connection, or a protocol that this process speaks itself. Reads and writes behave as those of
/// [`Stream`]. Both are called from one task; whatever makes one of them possible wakes it.
pub trait Peer {
    /// Reads into the spare capacity of `buf`, which is not zero; 0 is the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>>;

    /// Takes bytes from `slices` in order and returns their number.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Forwards what it still buffers.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// The other end sends nothing more.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl Peer for Stream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        Stream::poll_read(self, cx, buf)
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Stream::poll_write(self, cx, slices)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Stream::poll_flush(self, cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Stream::poll_shutdown(self, cx)
    }
}

/// A peer that keeps something as long as its tunnel lasts, and drops it then.
pub struct Holding<T> {
    peer: Box<dyn Peer>,
    _held: T,
}

impl<T> Holding<T> {
    /// Keeps `held` with `peer`.
    pub fn new(peer: Box<dyn Peer>, held: T) -> Holding<T> {
        Holding { peer, _held: held }
    }
}

impl<T> Peer for Holding<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        self.peer.poll_read(cx, buf)
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.peer.poll_write(cx, slices)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.peer.poll_flush(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.peer.poll_shutdown(cx)
    }
}

/// The peer of an upgraded connection.
pub struct Tunnel {
    /// The peer: the connection to an upstream, for instance.
    pub peer: Box<dyn Peer>,
    /// The peer connection's slot among the connections of the worker, if it takes one.
    pub slot: Option<ConnectionSlot>,
    /// Bytes already received from the peer after its response head.
    pub received: Vec<u8>,
    /// Maximum lifetime, if limited.
    pub lifetime: Option<Duration>,
    /// How long the tunnel may be idle.
    pub idle: IdleTimeouts,
    /// Counts the tunnel as a request in progress while it lasts.
    pub lease: Option<Lease>,
    /// Closes the tunnel some time after its configuration was replaced, if configured.
    pub notice: Option<Notice>,
    /// Buffer size in each direction; the worker's default if `None`.
    pub buffer_bytes: Option<usize>,
    /// When an HTTP/1.1 request that became the tunnel ends.
    pub request: RequestEnd,
}

/// When a request ends that became a tunnel: then it is recorded, and its configuration may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// When the tunnel begins, so that it does not keep its configuration. Always so for a tunnel with a notice.
    AtBegin,
    /// When the tunnel ends.
    AtEnd,
}

/// How long a tunnel lasts without traffic; `None` for no limit. Traffic in either direction restarts all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleTimeouts {
    /// While the tunnel waits for data from the upstream.
    pub upstream_read: Option<Duration>,
    /// While the upstream does not accept data.
    pub upstream_write: Option<Duration>,
    /// While the client does not accept data.
    pub client_write: Option<Duration>,
}

/// How much was transferred through a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes from the client to the upstream.
    pub sent_up: u64,
    /// Bytes from the upstream to the client.
    pub sent_down: u64,
}

/// Joins `client` and the connection of `tunnel` until both directions have ended, one fails, or a time limit of the
/// tunnel is reached. `received` are bytes that the client sent after its request.
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
        mut peer,
        received: responded,
        lifetime,
        idle,
        lease: _lease,
        slot: _slot,
        notice,
        buffer_bytes,
        request: _,
    } = tunnel;
    let (mut up, mut down) = (
        Half::new(received, buffer_bytes),
        Half::new(responded, buffer_bytes),
    );
    let mut span = Span::new(worker, lifetime, idle, notice);
    poll_fn(|cx| {
        let client = &mut *client.borrow_mut();
        let upward = up.poll(client, &mut *peer, worker, cx);
        let downward = down.poll(&mut *peer, client, worker, cx);
        match (upward, downward) {
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => return Poll::Ready(()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(()),
            (Poll::Pending, _) | (_, Poll::Pending) => {}
        }
        let state = State {
            up: up.stage.waits(up.unsent()),
            down: down.stage.waits(down.unsent()),
            progress: up.progress() + down.progress(),
        };
        span.poll_over(cx, &state)
    })
    .await;
    Traffic {
        sent_up: up.moved,
        sent_down: down.moved,
    }
}

/// What one direction of a tunnel waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Data to forward.
    Source,
    /// The receiver, which does not accept more.
    Sink,
    /// Nothing: the direction has ended.
    Ended,
}

/// A tunnel after its directions were polled.
pub(crate) struct State {
    /// The direction from the client.
    pub up: Waits,
    /// The direction to the client.
    pub down: Waits,
    /// Changes whenever either direction has received or sent something.
    pub progress: u64,
}

impl State {
    /// Whether one direction has ended and the other has not.
    fn is_half_closed(&self) -> bool {
        self.up == Waits::Ended || self.down == Waits::Ended
    }
}

impl IdleTimeouts {
    /// The limit that applies in this state.
    fn limit(&self, state: &State) -> Option<Duration> {
        let up = match state.up {
            Waits::Sink => self.upstream_write,
            // Clients may be silent for as long as their upstreams may.
            Waits::Source | Waits::Ended => None,
        };
        let down = match state.down {
            Waits::Source => self.upstream_read,
            Waits::Sink => self.client_write,
            Waits::Ended => None,
        };
        up.into_iter().chain(down).min()
    }
}

/// The limits on the lifetime of a tunnel.
pub(crate) struct Span {
    worker: Rc<Worker>,
    life: Option<Timer>,
    given: Option<Pin<Box<dyn Future<Output = ()>>>>,
    idle: IdleTimeouts,
    idling: Countdown,
    /// Runs while one side has ended.
    closing: Countdown,
}

impl Span {
    /// At most `lifetime`, no longer than `idle` without traffic, and until `notice` is given.
    pub(crate) fn new(
        worker: &Rc<Worker>,
        lifetime: Option<Duration>,
        idle: IdleTimeouts,
        notice: Option<Notice>,
    ) -> Span {
        let given = notice.map(|notice| -> Pin<Box<dyn Future<Output = ()>>> {
            Box::pin(notice.over(worker.clone()))
        });
        Span {
            worker: worker.clone(),
            life: lifetime.map(|limit| timer(worker, limit)),
            given,
            idle,
            idling: Countdown::default(),
            closing: Countdown::default(),
        }
    }

    /// Ready when the time is over.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>, state: &State) -> Poll<()> {
        let half_closed = state.is_half_closed().then_some(HALF_CLOSED_TIMEOUT);
        let idle = self.idle.limit(state);
        let worker = &self.worker;
        for (countdown, limit) in [(&mut self.closing, half_closed), (&mut self.idling, idle)] {
            let over = countdown.poll(cx, (&worker.timers, &worker.clock), limit, state.progress);
            if over.is_ready() {
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

/// A limit on the time without progress.
#[derive(Default)]
struct Countdown {
    timer: Option<Timer>,
    /// The limit and the progress when the timer was set.
    since: Option<(Duration, u64)>,
}

impl Countdown {
    /// Ready when `limit` has passed since it, or `progress`, last changed.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        (timers, clock): (&Rc<Timers>, &Clock),
        limit: Option<Duration>,
        progress: u64,
    ) -> Poll<()> {
        let since = limit.map(|limit| (limit, progress));
        if self.since != since {
            self.since = since;
            match (limit, &self.timer) {
                (None, None) => {}
                (None, Some(timer)) => timer.clear(),
                (Some(limit), _) => {
                    let timer = self.timer.get_or_insert_with(|| timers.timer());
                    timer.set(clock, limit);
                }
            }
        }
        match &self.timer {
            Some(timer) => timer.poll_expired(cx),
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

/// How far one direction of a tunnel is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The source has not ended.
    Open,
    /// The source has ended; the end still has to be sent to the sink.
    Ending,
    /// The end was sent.
    Ended,
}

impl Stage {
    /// What the direction waits for, if it has this many bytes to send.
    pub(crate) fn waits(self, unsent: usize) -> Waits {
        match self {
            Stage::Open if unsent == 0 => Waits::Source,
            Stage::Open | Stage::Ending => Waits::Sink,
            Stage::Ended => Waits::Ended,
        }
    }
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

    fn unsent(&self) -> usize {
        self.buf.len() - self.sent
    }

    /// How much was received and sent.
    fn progress(&self) -> u64 {
        let received = self.moved + self.unsent() as u64;
        received + self.moved
    }

    /// Copies bytes. Ready when the source has ended and the end was sent to the sink.
    fn poll(
        &mut self,
        source: &mut dyn Peer,
        sink: &mut dyn Peer,
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
        source: &mut dyn Peer,
        sink: &mut dyn Peer,
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const READ: Duration = Duration::from_secs(3);
    const WRITE: Duration = Duration::from_secs(2);
    const CLIENT: Duration = Duration::from_secs(4);

    #[test]
    fn the_limit_is_that_of_the_side_the_tunnel_waits_for() {
        let idle = IdleTimeouts {
            upstream_read: Some(READ),
            upstream_write: Some(WRITE),
            client_write: Some(CLIENT),
        };
        for (up, down, expected) in [
            (Waits::Source, Waits::Source, Some(READ)),
            (Waits::Sink, Waits::Source, Some(WRITE)),
            (Waits::Source, Waits::Sink, Some(CLIENT)),
            (Waits::Sink, Waits::Sink, Some(WRITE)),
            (Waits::Ended, Waits::Source, Some(READ)),
            (Waits::Source, Waits::Ended, None),
        ] {
            let progress = 0;
            let state = State { up, down, progress };
            assert_eq!(idle.limit(&state), expected, "{up:?} {down:?}");
            assert_eq!(IdleTimeouts::default().limit(&state), None);
        }
    }

    #[test]
    fn progress_and_another_limit_restart_a_countdown() {
        let (timers, clock) = (Rc::new(Timers::default()), Clock::default());
        let cx = &mut Context::from_waker(Waker::noop());
        let mut countdown = Countdown::default();
        let mut is_over = |limit, progress| {
            let polled = countdown.poll(cx, (&timers, &clock), limit, progress);
            polled.is_ready()
        };
        assert!(!is_over(None, 0));
        assert!(!is_over(Some(READ), 0));
        timers.sweep(clock.coarse() + WRITE);
        assert!(!is_over(Some(READ), 0));
        timers.sweep(clock.coarse() + READ);
        assert!(is_over(Some(READ), 0));
        assert!(!is_over(Some(READ), 1), "something was transferred");
        timers.sweep(clock.coarse() + WRITE);
        assert!(
            !is_over(Some(WRITE), 1),
            "the tunnel waits for the other side"
        );
        timers.sweep(clock.coarse() + WRITE);
        assert!(is_over(Some(WRITE), 1));
        assert!(!is_over(None, 1));
        timers.sweep(clock.coarse() + CLIENT);
        assert!(!is_over(None, 1));
    }
}
