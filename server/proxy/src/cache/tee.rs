//! A body that is stored in a cache or a file while it is sent. It is read as fast as it arrives: what the client has
//! not received yet is buffered in memory and, beyond a limit, read back from the file, so a slow client does not delay
//! others who wait for the cache entry. If the client disconnects, storing continues without it, as in nginx.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::poll_fn;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use sluice_cache::store::{Fill, Lead, Updating};
use sluice_message::Fields;
use sluice_net::tasks::in_background;
use sluice_net::{BodyStream, Failure, FailureKind, Side, Worker};

use crate::limits::{CACHE_AHEAD_BYTES_MAX, CACHE_LEFT_MAX, CACHE_PUMP_BYTES};

/// The destination of a body. Dropping it before `finish` discards what was stored.
pub trait Sink {
    /// Stores the next bytes.
    fn write(&mut self, content: &[u8]);

    /// Completes the stored body.
    fn finish(self: Box<Self>);

    /// Whether the body will be stored, as far as is known.
    fn is_going_on(&self) -> bool;

    /// A handle to the file for reading, and the offset of the body in it; `None` if it cannot be read.
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

/// A body that is stored while it is sent.
pub struct Tee {
    flow: Rc<RefCell<Flow>>,
    /// The bytes shown to the consumer.
    own: Vec<u8>,
    /// How many of them were consumed.
    at: usize,
    /// Bytes yet to be consumed, if the length is known.
    left: Option<u64>,
}

/// State shared by the task that reads the body and the stream that the client reads. Pending content is ordered as
/// follows: in memory (`ahead`), in the file (`spilled`), and in memory again (`late`) once the file is no longer
/// written.
struct Flow {
    worker: Rc<Worker>,
    /// `None` once the body has ended.
    stream: Option<Box<dyn BodyStream>>,
    /// `None` once the body is stored, or will not be.
    sink: Option<Box<dyn Sink>>,
    /// Other requests for the entry wait until this is dropped.
    turn: (Option<Lead>, Option<Updating>),
    ahead: Vec<u8>,
    spilled: Option<Spilled>,
    late: Vec<u8>,
    /// Bytes read so far.
    read: u64,
    ended: Option<Result<(), Failure>>,
    trailers: Option<Fields>,
    client: Client,
    /// Wakes the task that reads the body.
    reader: Option<Waker>,
}

/// Pending content in the file.
struct Spilled {
    file: File,
    /// The offset of the body in the file.
    start: u64,
    /// The range of the body that is pending.
    from: u64,
    to: u64,
}

/// The client that receives the body.
enum Client {
    /// Connected; the waker is for new content.
    There(Option<Waker>),
    /// Disconnected, with a slot for reading on, if one was free.
    Gone(Option<Left>),
}

impl Tee {
    /// Starts to read `stream` into `sink`. Other requests for the entry wait until `turn` is dropped.
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
    /// Reads while data is available and there is room for it. Ready when the body has ended.
    fn poll_pump(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut budget = CACHE_PUMP_BYTES;
        while self.ended.is_none() {
            if !self.is_wanted() {
                self.sink = None;
                self.end(Ok(()));
                break;
            }
            if budget == 0 {
                // Yield to other tasks of this worker.
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

    /// Whether the body is still needed, by the client or by the cache.
    fn is_wanted(&self) -> bool {
        match &self.client {
            Client::There(_) => true,
            Client::Gone(None) => false,
            Client::Gone(Some(_)) => self.sink.as_ref().is_some_and(|sink| sink.is_going_on()),
        }
    }

    /// Whether to read more; a body that is being stored can wait in its file.
    fn has_room(&self) -> bool {
        let waits = match &self.spilled {
            Some(_) => &self.late,
            None => &self.ahead,
        };
        matches!(self.client, Client::Gone(_))
            || self.sink.as_ref().is_some_and(|sink| sink.is_going_on())
            || waits.len() < CACHE_AHEAD_BYTES_MAX
    }

    /// Reads the available data and returns its length.
    fn poll_some(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(0);
        };
        let data = match stream.poll_data(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(failure)) => {
                // The body is incomplete: discard it and release the requests that wait for it.
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
            if !sink.is_going_on() {
                // It is too long, or the disk is full: nobody has to wait for its end any more.
                self.sink = None;
                let (lead, _) = std::mem::take(&mut self.turn);
                lead.into_iter().for_each(Lead::pass);
            }
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

    /// Appends the next pending bytes to the empty `out`; leaves it empty at the end.
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
                    // Reading again must not look like a complete body.
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
            // Do not start background work during a shutdown.
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

/// The number of bodies that one worker reads on without a client.
#[derive(Default)]
struct Count(Cell<usize>);

/// A slot for reading on without a client.
pub(super) struct Left(Rc<Count>);

impl Left {
    /// Takes a slot, if one is free.
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
