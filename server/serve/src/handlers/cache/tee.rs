//! A body that is stored while it is passed on, in a cache or as a file. It is read as fast as it comes: what its client
//! does not take yet waits in memory and, where that is too much, in the file that it is stored in; so others do not
//! wait for a slow client. If its client leaves it is read on without it, as in nginx.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::poll_fn;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use sluice_cache::store::{Fill, Lead, Updating};
use sluice_message::Fields;
use sluice_net::upstream::in_background;
use sluice_net::{BodyStream, Failure, FailureKind, Side, Worker};

use crate::limits::{CACHE_AHEAD_BYTES_MAX, CACHE_LEFT_MAX, CACHE_PUMP_BYTES};

/// Where a body is stored. One that is dropped before it is finished leaves nothing.
pub(crate) trait Sink {
    /// Takes the next bytes.
    fn write(&mut self, content: &[u8]);

    /// The body is whole.
    fn finish(self: Box<Self>);

    /// Whether it will be stored, as far as is known.
    fn is_going_on(&self) -> bool;

    /// Another handle of the file, and where the body begins in it; none where it cannot be read.
    fn reader(&self) -> Option<(File, u64)>;
}

impl Sink for Fill {
    fn write(&mut self, content: &[u8]) {
        Fill::write(self, content);
    }

    fn finish(self: Box<Self>) {
        Fill::finish(*self);
    }

    fn is_going_on(&self) -> bool {
        Fill::is_going_on(self)
    }

    fn reader(&self) -> Option<(File, u64)> {
        Fill::reader(self)
    }
}

/// A body that is stored while it is passed on.
pub(crate) struct Tee {
    flow: Rc<RefCell<Flow>>,
    /// What is shown.
    own: Vec<u8>,
    /// How much of that was consumed.
    at: usize,
    /// Content that was not consumed, where the length is known.
    left: Option<u64>,
}

/// What the side that reads and the side that is read have in common. Content waits in this order: in memory, in the
/// file, and in memory again where there is no file any longer.
struct Flow {
    worker: Rc<Worker>,
    /// None once it has ended.
    stream: Option<Box<dyn BodyStream>>,
    /// None once the answer is stored, or will not be.
    sink: Option<Box<dyn Sink>>,
    /// Others wait as long as this lives.
    turn: (Option<Lead>, Option<Updating>),
    ahead: Vec<u8>,
    spilled: Option<Spilled>,
    late: Vec<u8>,
    /// How much of the content was read.
    read: u64,
    ended: Option<Result<(), Failure>>,
    trailers: Option<Fields>,
    client: Client,
    /// Wakes whoever reads.
    reader: Option<Waker>,
}

/// Content that waits in the file.
struct Spilled {
    file: File,
    /// Where content begins in the file.
    start: u64,
    /// Which part of the content it is.
    from: u64,
    to: u64,
}

/// Whoever the body is for.
enum Client {
    /// It is there, and woken when there is more.
    There(Option<Waker>),
    /// It has left; as one of those that are counted, if there was room.
    Gone(Option<Left>),
}

impl Tee {
    /// Begins to read `stream` into `sink`. Others may wait as long as `turn` lives.
    pub fn new(
        worker: &Rc<Worker>,
        stream: Box<dyn BodyStream>,
        sink: Box<dyn Sink>,
        turn: (Option<Lead>, Option<Updating>),
    ) -> Tee {
        let left = stream.len();
        let flow = Rc::new(RefCell::new(Flow {
            worker: worker.clone(),
            stream: Some(stream),
            sink: Some(sink),
            turn,
            ahead: Vec::new(),
            spilled: None,
            late: Vec::new(),
            read: 0,
            ended: None,
            trailers: None,
            client: Client::There(None),
            reader: None,
        }));
        let pumped = flow.clone();
        in_background(poll_fn(move |cx| pumped.borrow_mut().poll_pump(cx)));
        Tee {
            flow,
            own: Vec::new(),
            at: 0,
            left,
        }
    }
}

impl Flow {
    /// Reads as long as something comes and there is room for it. Ready when there is no more to be done.
    fn poll_pump(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut budget = CACHE_PUMP_BYTES;
        while self.ended.is_none() {
            if !self.is_wanted() {
                self.sink = None;
                self.end(Ok(()));
                break;
            }
            if budget == 0 {
                // Others of this worker have their turn.
                cx.waker().wake_by_ref();
            }
            let taken = match budget > 0 && self.has_room() {
                true => self.poll_some(cx),
                false => Poll::Pending,
            };
            let Poll::Ready(count) = taken else {
                self.reader = Some(cx.waker().clone());
                return Poll::Pending;
            };
            budget = budget.saturating_sub(count);
            self.wake_client();
        }
        Poll::Ready(())
    }

    /// Whether anybody still wants the body: its client, or whoever asks for what is stored.
    fn is_wanted(&self) -> bool {
        match &self.client {
            Client::There(_) => true,
            Client::Gone(None) => false,
            Client::Gone(Some(_)) => self.sink.as_ref().is_some_and(|sink| sink.is_going_on()),
        }
    }

    /// Whether more can be read: what is stored can wait in its file.
    fn has_room(&self) -> bool {
        let waits = match &self.spilled {
            Some(_) => &self.late,
            None => &self.ahead,
        };
        matches!(self.client, Client::Gone(_))
            || self.sink.as_ref().is_some_and(|sink| sink.is_going_on())
            || waits.len() < CACHE_AHEAD_BYTES_MAX
    }

    /// Reads what there is; how much that was.
    fn poll_some(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(0);
        };
        let data = match stream.poll_data(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(failure)) => {
                // It is not whole: nothing is stored, and nobody waits for it any longer.
                self.sink = None;
                self.end(Err(failure));
                return Poll::Ready(0);
            }
            Poll::Ready(Ok(data)) => &data[..data.len().min(CACHE_AHEAD_BYTES_MAX)],
        };
        let count = data.len();
        if count == 0 {
            self.trailers = stream.trailers();
            if let Some(sink) = self.sink.take() {
                sink.finish();
            }
            self.end(Ok(()));
            return Poll::Ready(0);
        }
        if let Some(sink) = &mut self.sink {
            sink.write(data);
        }
        let from = self.read;
        self.read += count as u64;
        let sink = self.sink.as_ref().filter(|sink| sink.is_going_on());
        let is_full = self.ahead.len() + count > CACHE_AHEAD_BYTES_MAX;
        match (&self.client, &mut self.spilled) {
            (Client::Gone(_), _) => {}
            (Client::There(_), Some(spilled)) if sink.is_some() && self.late.is_empty() => {
                spilled.to = self.read;
            }
            (Client::There(_), Some(_)) => self.late.extend_from_slice(data),
            (Client::There(_), spilled) => {
                match sink.filter(|_| is_full).and_then(|sink| sink.reader()) {
                    Some((file, start)) => {
                        *spilled = Some(Spilled {
                            file,
                            start,
                            from,
                            to: self.read,
                        });
                    }
                    None => self.ahead.extend_from_slice(data),
                }
            }
        }
        stream.consume(count);
        Poll::Ready(count)
    }

    fn end(&mut self, how: Result<(), Failure>) {
        self.stream = None;
        self.turn = (None, None);
        self.ended = Some(how);
        self.wake_client();
    }

    fn wake_client(&mut self) {
        if let Client::There(waker) = &mut self.client
            && let Some(waker) = waker.take()
        {
            waker.wake();
        }
    }

    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    /// Gives what waits next; `out` is empty. Ready with nothing at the end.
    fn poll_next(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), Failure>> {
        if !self.ahead.is_empty() {
            std::mem::swap(&mut self.ahead, out);
        } else if let Some(spilled) = &mut self.spilled {
            let left = usize::try_from(spilled.to - spilled.from).unwrap_or(usize::MAX);
            out.resize(left.min(CACHE_AHEAD_BYTES_MAX), 0);
            if let Err(error) = spilled
                .file
                .read_exact_at(out, spilled.start + spilled.from)
            {
                out.clear();
                let failure = Failure::new(Side::Internal, FailureKind::Io);
                return Poll::Ready(Err(failure.because(error)));
            }
            spilled.from += out.len() as u64;
            if spilled.from == spilled.to {
                self.spilled = None;
                std::mem::swap(&mut self.ahead, &mut self.late);
            }
        } else {
            return match self.ended.take() {
                Some(Ok(())) => {
                    self.ended = Some(Ok(()));
                    Poll::Ready(Ok(()))
                }
                Some(Err(failure)) => {
                    // Nobody is to take it for whole who asks again.
                    let again = Failure::new(Side::Upstream, FailureKind::Closed);
                    self.ended = Some(Err(again));
                    Poll::Ready(Err(failure))
                }
                None => {
                    self.client = Client::There(Some(cx.waker().clone()));
                    Poll::Pending
                }
            };
        }
        self.wake_reader();
        Poll::Ready(Ok(()))
    }
}

impl BodyStream for Tee {
    fn len(&self) -> Option<u64> {
        self.left
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if self.at == self.own.len() {
            self.own.clear();
            self.at = 0;
            ready!(self.flow.borrow_mut().poll_next(cx, &mut self.own))?;
        }
        Poll::Ready(Ok(&self.own[self.at..]))
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
        self.left = self.left.map(|left| left.saturating_sub(count as u64));
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.flow.borrow_mut().trailers.take()
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        let mut flow = self.flow.borrow_mut();
        let is_wanted = flow.ended.is_none()
            && flow.sink.as_ref().is_some_and(|sink| sink.is_going_on())
            // A process that ends takes no more work on.
            && !flow.worker.draining.get();
        let left = match is_wanted {
            true => Left::enter(&flow.worker),
            false => None,
        };
        flow.client = Client::Gone(left);
        flow.ahead = Vec::new();
        flow.late = Vec::new();
        flow.spilled = None;
        flow.wake_reader();
    }
}

/// Reads a body to its end.
pub(super) async fn read_on(body: &mut dyn BodyStream) {
    loop {
        let count = poll_fn(|cx| body.poll_data(cx).map_ok(<[u8]>::len)).await;
        match count {
            Ok(count) if count > 0 => body.consume(count),
            Ok(_) | Err(_) => return,
        }
    }
}

/// Counts what one worker reads on without a client.
#[derive(Default)]
struct Count(Cell<usize>);

/// One of those that a worker reads on without a client.
pub(super) struct Left(Rc<Count>);

impl Left {
    /// Counts one more, if there is room.
    pub fn enter(worker: &Worker) -> Option<Left> {
        let count = worker.local::<Count>();
        if count.0.get() >= CACHE_LEFT_MAX {
            return None;
        }
        count.0.set(count.0.get() + 1);
        Some(Left(count))
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() - 1);
    }
}
