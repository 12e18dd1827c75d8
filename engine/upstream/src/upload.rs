//! The sending half of a call: sends head and body as they become available, at the pace of the upstream. `call` reads
//! the response, possibly before this has ended.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_wire::fastcgi::{STDIN_BYTES_MAX, STDIN_END, encode_stdin_head};
use sluice_wire::h1::{self, BodyFraming};

use sluice_net::body::{BodyStream, RequestBody};
use sluice_net::failure::Failure;
use sluice_net::stream::Stream;
use sluice_net::timer::Timer;
use sluice_net::worker::Worker;

/// A request to be sent: the encoded head and the body.
pub struct Upload {
    /// Sent before further content: the head, chunk lines.
    framing: Vec<u8>,
    framing_sent: usize,
    pub(crate) body: Option<Box<dyn BodyStream>>,
    chunks: Chunks,
    /// Content announced by a chunk line and not sent yet.
    announced: usize,
    pub(crate) stage: Stage,
    /// Bytes of the request that were sent.
    pub(crate) sent: u64,
    /// Whether content was read from the body, so that it cannot be sent again.
    pub(crate) touched: bool,
    pub(crate) trailers: Trailers,
    pub(crate) waits_for: WaitsFor,
    /// Counts the transferred bytes, if anything uses their number.
    traffic: Option<Rc<Traffic>>,
}

/// The bytes of one call, without TLS; in HTTP/2, only bodies count, as the size of compressed heads depends on earlier
/// ones.
#[derive(Debug, Default)]
pub struct Traffic {
    /// To the upstream.
    pub sent: Cell<u64>,
    /// From the upstream.
    pub received: Cell<u64>,
}

/// The side that is awaited while there is no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// The client, for more of the body.
    Client,
    /// The upstream, to accept more or to send `100 Continue`.
    Upstream,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Chunks {
    Plain,
    Chunked,
    /// FastCGI records.
    Records,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trailers {
    Pass,
    Drop,
}

pub(crate) enum Stage {
    /// The body waits for `100 Continue` (RFC 9110, section 10.1.1).
    AwaitContinue(Timer),
    SendBody,
    /// Only framing is left to send.
    SendRest,
    Flush,
    Done,
    /// The upstream accepts no more. It may have responded before; the reading side decides.
    Broken,
}

impl Upload {
    /// A request whose head is `head`, encoded with `framing` for `body`.
    pub fn new(head: Vec<u8>, framing: BodyFraming, body: RequestBody) -> Upload {
        let (body, stage) = match body {
            RequestBody::None => (None, Stage::SendRest),
            RequestBody::Stream(body) => (Some(body), Stage::SendBody),
        };
        let is_chunked = framing == BodyFraming::Chunked;
        Upload {
            framing: head,
            framing_sent: 0,
            body,
            chunks: if is_chunked {
                Chunks::Chunked
            } else {
                Chunks::Plain
            },
            announced: 0,
            stage,
            sent: 0,
            touched: false,
            trailers: Trailers::Pass,
            waits_for: WaitsFor::Upstream,
            traffic: None,
        }
    }

    /// Counts bytes in `traffic`, including those of the response.
    pub fn counted(self, traffic: Rc<Traffic>) -> Upload {
        let traffic = Some(traffic);
        Upload { traffic, ..self }
    }

    /// The encoded head, before anything was sent.
    pub(crate) fn head(&self) -> &[u8] {
        &self.framing
    }

    /// Counts sent bytes.
    pub(crate) fn note_sent(&mut self, count: usize) {
        self.sent += count as u64;
        if let Some(traffic) = &self.traffic {
            traffic.sent.set(self.sent);
        }
    }

    /// Counts received bytes of the response.
    pub(crate) fn note_received(&self, count: usize) {
        if let Some(traffic) = &self.traffic {
            traffic.received.set(traffic.received.get() + count as u64);
        }
    }

    /// Delays the body until `100 Continue` arrives, at most for `limit`.
    pub fn expect_continue(mut self, worker: &Worker, limit: Duration) -> Upload {
        if matches!(self.stage, Stage::SendBody) {
            let timer = worker.timers.timer();
            timer.set(&worker.clock, limit);
            self.stage = Stage::AwaitContinue(timer);
        }
        self
    }

    /// Sends the body as FastCGI records, after a head of such records, without waiting for `100 Continue`.
    pub(crate) fn in_records(mut self) -> Upload {
        self.chunks = Chunks::Records;
        if self.body.is_none() {
            self.framing.extend_from_slice(&STDIN_END);
        }
        self.go_on();
        self
    }

    /// Sends the body without waiting for `100 Continue`, which CGI applications do not send.
    pub(crate) fn at_once(mut self) -> Upload {
        self.go_on();
        self
    }

    /// Drops the trailers of the body.
    pub fn without_trailers(mut self) -> Upload {
        self.trailers = Trailers::Drop;
        self
    }

    /// The upstream wants the body.
    pub(crate) fn go_on(&mut self) {
        if matches!(self.stage, Stage::AwaitContinue(_)) {
            self.stage = Stage::SendBody;
        }
    }

    /// Whether the whole request was sent.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    /// The side that is awaited, after a poll that was not ready.
    pub(crate) fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    /// Bytes sent so far, including framing: it grows while there is progress.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// The body, if it is still complete or can be rewound.
    pub(crate) fn take_body(&mut self) -> Option<RequestBody> {
        let body = self.body.take();
        if !self.touched {
            return Some(body.map_or(RequestBody::None, RequestBody::Stream));
        }
        let mut body = body.filter(|body| body.is_rewindable())?;
        body.rewind();
        Some(RequestBody::Stream(body))
    }

    /// Sends what is available. Ready when all is sent or the upstream accepts no more; an error is one of the body.
    pub(crate) fn poll(
        &mut self,
        stream: &mut Stream,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        self.waits_for = WaitsFor::Upstream;
        loop {
            let step = match &self.stage {
                Stage::Done | Stage::Broken => return Poll::Ready(Ok(())),
                Stage::AwaitContinue(timer) => {
                    if timer.poll_expired(cx).is_ready() {
                        self.stage = Stage::SendBody;
                        continue;
                    }
                    match ready!(self.poll_framing(stream, cx)) {
                        Ok(()) => match ready!(stream.poll_flush(cx)) {
                            Ok(()) => return Poll::Pending,
                            Err(error) => Err(error),
                        },
                        Err(error) => Err(error),
                    }
                }
                Stage::SendBody => ready!(self.poll_body(stream, worker, cx))?,
                Stage::SendRest => {
                    let sent = ready!(self.poll_framing(stream, cx));
                    worker.buffers.give_back(std::mem::take(&mut self.framing));
                    self.framing_sent = 0;
                    sent.map(|()| self.stage = Stage::Flush)
                }
                Stage::Flush => ready!(stream.poll_flush(cx)).map(|()| self.stage = Stage::Done),
            };
            if step.is_err() {
                self.stage = Stage::Broken;
            }
        }
    }

    /// Sends all framing there is.
    fn poll_framing(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.framing_sent < self.framing.len() {
            let slice = IoSlice::new(&self.framing[self.framing_sent..]);
            let count = ready!(stream.poll_write(cx, &[slice]))?;
            self.framing_sent += at_least_one(count)?;
            self.note_sent(count);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends framing together with the available content, in one write. The outer error is one of the body, the inner
    /// one of the upstream.
    fn poll_body(
        &mut self,
        stream: &mut Stream,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> Poll<Result<io::Result<()>, Failure>> {
        if self.framing_sent == self.framing.len() {
            // The buffer of the head is returned rather than held as long as the body lasts.
            worker.buffers.give_back(std::mem::take(&mut self.framing));
            self.framing_sent = 0;
        }
        let body = self
            .body
            .as_mut()
            .expect("the body is there until its end was seen");
        let content: &[u8] = match body.poll_data(cx) {
            Poll::Ready(content) => content?,
            Poll::Pending if self.framing_sent < self.framing.len() => {
                return self.poll_framing(stream, cx).map(Ok);
            }
            Poll::Pending => {
                self.waits_for = WaitsFor::Client;
                // TLS may still buffer what was written last.
                return match stream.poll_flush(cx) {
                    Poll::Ready(Err(error)) => Poll::Ready(Ok(Err(error))),
                    Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
                };
            }
        };
        if content.is_empty() {
            self.end_body();
            return Poll::Ready(Ok(Ok(())));
        }
        if self.announced == 0 {
            self.announced = match self.chunks {
                Chunks::Plain | Chunks::Chunked => content.len(),
                Chunks::Records => content.len().min(STDIN_BYTES_MAX),
            };
            match self.chunks {
                Chunks::Plain => {}
                Chunks::Chunked => h1::encode_chunk_head(self.announced, &mut self.framing),
                Chunks::Records => encode_stdin_head(self.announced, &mut self.framing),
            }
        }
        let content = &content[..content.len().min(self.announced)];
        let is_chunk_end = self.chunks == Chunks::Chunked && content.len() == self.announced;
        let end = if is_chunk_end { h1::CHUNK_END } else { &[] };
        let framing = &self.framing[self.framing_sent..];
        let parts = [framing.len(), content.len(), end.len()];
        let written = ready!(write_parts(stream, cx, framing, content, end));
        Poll::Ready(Ok(written
            .and_then(at_least_one)
            .map(|count| self.note(count, parts, end))))
    }

    /// Records that `count` bytes of framing, content and chunk end together were sent.
    fn note(&mut self, count: usize, parts: [usize; 3], end: &[u8]) {
        self.note_sent(count);
        self.framing_sent += count.min(parts[0]);
        let content_sent = count.saturating_sub(parts[0]).min(parts[1]);
        if content_sent == 0 {
            return;
        }
        self.touched = true;
        self.announced -= content_sent;
        if let Some(body) = &mut self.body {
            body.consume(content_sent);
        }
        if content_sent == parts[1] {
            // The rest of the chunk's end goes before the next chunk.
            let end_sent = count - parts[0] - parts[1];
            self.framing.clear();
            self.framing_sent = 0;
            self.framing.extend_from_slice(&end[end_sent..]);
        }
    }

    /// The body has ended: what is left is the last chunk, with the client's trailers, if any. A rewindable body is
    /// retained until the response has arrived.
    fn end_body(&mut self) {
        let mut body = self.body.take();
        self.stage = Stage::SendRest;
        match self.chunks {
            Chunks::Plain => {}
            Chunks::Records => self.framing.extend_from_slice(&STDIN_END),
            Chunks::Chunked => {
                let body = body.as_mut().filter(|_| self.trailers == Trailers::Pass);
                match body.and_then(|body| body.trailers()) {
                    Some(trailers) => {
                        h1::encode_last_chunk_with_trailers(&trailers, &mut self.framing);
                    }
                    None => self.framing.extend_from_slice(h1::LAST_CHUNK),
                }
            }
        }
        self.body = body.filter(|body| body.is_rewindable());
    }
}

fn write_parts(
    stream: &mut Stream,
    cx: &mut Context<'_>,
    framing: &[u8],
    content: &[u8],
    end: &[u8],
) -> Poll<io::Result<usize>> {
    let parts = [
        IoSlice::new(framing),
        IoSlice::new(content),
        IoSlice::new(end),
    ];
    let first = usize::from(framing.is_empty());
    let last = if end.is_empty() { 2 } else { 3 };
    stream.poll_write(cx, &parts[first..last])
}

fn at_least_one(count: usize) -> io::Result<usize> {
    if count == 0 {
        Err(io::ErrorKind::WriteZero.into())
    } else {
        Ok(count)
    }
}
