//! Sends an HTTP/1 response: frames it and writes it to the socket with as few system calls as its kind of body allows.

use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_message::{Method, Moment, UnknownLength, Version};
use sluice_policy::data_rate::Verdict;
use sluice_policy::{MinDataRate, Pace};
use sluice_wire::h1::{self, BodyFraming, ConnectionHeader};

use super::{Link, Next, client_failure};
use crate::body::{Body, BodyStream, FileSlice, SharedSlice};
use crate::failure::{Failure, FailureKind, Side};
use crate::limits::{COPY_BYTES_MAX, CORK_BYTES_MIN};
use crate::service::{Ending, Exchange, StatusLine};
use crate::stream::Stream;
use crate::sys;
use crate::tunnel::Tunnel;

/// A response being sent.
pub(super) enum Sending<'a> {
    /// The response is complete in memory.
    Bytes {
        sender: Sender<'a>,
        source: Source,
        /// Bytes written so far, including the head.
        done: usize,
        /// The tunnel to join afterwards.
        tunnel: Option<Box<Tunnel>>,
    },
    /// The head and a body from elsewhere; boxed, so that rare state does not enlarge every connection.
    Flow(Pin<Box<dyn Future<Output = Sent> + 'a>>),
    /// No response, for this reason; `None` once it was returned.
    Nothing(Option<Ending>),
}

/// Limits on the time a client may take to receive a response.
#[derive(Clone, Copy)]
pub(crate) struct SendTimeouts {
    /// Maximum time without progress.
    pub(crate) idle: Duration,
    /// The minimum data rate.
    pub(crate) min_rate: Option<MinDataRate>,
    /// Deadline for the whole response, if there is one.
    pub(crate) until: Option<Moment>,
}

/// The result of sending, and how much was written to the kernel.
type Sent = (Result<(), Failure>, Count);

/// How much of a response was written to the kernel, counted before encryption.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    /// Body bytes without framing.
    pub(super) content: u64,
    /// The head, and interim responses before it.
    pub(super) head: u64,
    /// All bytes.
    pub(super) all: u64,
}

/// How an exchange ended, and what the connection does next.
pub(super) struct Ended {
    pub(super) next: Next,
    pub(super) ending: Ending,
    /// What was written to the kernel.
    pub(super) sent: Count,
}

impl<'a> Sending<'a> {
    /// Encodes the head and appends a short body. `keep_alive_seconds` is the timeout for the `Keep-Alive` header in seconds, 0 for
    /// none. Sets `exchange.close` if the framing requires it.
    pub(super) fn new<C>(
        link: &'a Link,
        timeouts: SendTimeouts,
        keep_alive_seconds: u32,
        exchange: &mut Exchange<C>,
        body: Body,
    ) -> Sending<'a> {
        let mut sender = Sender::new(link, timeouts);
        if let Body::Tunnel(peer) = body {
            sender.encode_head(exchange, BodyFraming::None, ConnectionHeader::Upgrade);
            return sender.bytes(exchange, Source::None, Some(peer));
        }
        let framing = sender.frame(exchange, &body, keep_alive_seconds);
        let silent = exchange.req.method == Method::Head || exchange.res.status.is_bodiless();
        match body {
            _ if silent => sender.bytes(exchange, Source::None, None),
            Body::Empty | Body::Abort | Body::Tunnel(_) => {
                sender.bytes(exchange, Source::None, None)
            }
            Body::Inline => sender.bytes(exchange, Source::Inline, None),
            Body::Shared(slice) => sender.bytes(exchange, Source::Shared(slice), None),
            Body::File(file) => Sending::Flow(Box::pin(async move {
                let result = sender.send_file(&file).await;
                (result, sender.sent)
            })),
            Body::Stream(mut stream) => Sending::Flow(Box::pin(async move {
                let chunked = framing == BodyFraming::Chunked;
                let result = sender.send_stream(&mut *stream, chunked).await;
                (result, sender.sent)
            })),
        }
    }

    /// Continues sending; `exchange` is the exchange passed to [`Sending::new`].
    pub(super) fn poll<C>(&mut self, cx: &mut Context<'_>, exchange: &Exchange<C>) -> Poll<Ended> {
        let (result, sent) = match self {
            Sending::Nothing(ending) => {
                return Poll::Ready(Ended {
                    next: Next::Drop,
                    ending: ending.take().unwrap_or(Ending::Aborted),
                    sent: Count::default(),
                });
            }
            Sending::Flow(future) => ready!(future.as_mut().poll(cx)),
            Sending::Bytes {
                sender,
                source,
                done,
                ..
            } => {
                let content = source.content(&exchange.inline);
                let parts = [content];
                let parts = if content.is_empty() { &[] } else { &parts[..] };
                let result = ready!(sender.poll_flush_with(cx, parts, done));
                let mut sent = sender.sent;
                if result.is_err() {
                    // Of the body, which follows the head, count what was written.
                    let content = sent.all.saturating_sub(sent.head);
                    sent.content = sent.content.min(content);
                }
                (result, sent)
            }
        };
        let next = match (&result, self) {
            (Err(_), _) => Next::Drop,
            (Ok(()), Sending::Bytes { tunnel, .. }) if tunnel.is_some() => {
                tunnel.take().map_or(Next::Drop, Next::Tunnel)
            }
            (Ok(()), _) if exchange.close => Next::Linger,
            (Ok(()), _) => Next::Reuse,
        };
        Poll::Ready(Ended {
            next,
            ending: result.map_or_else(Ending::Failed, |()| Ending::Complete),
            sent,
        })
    }
}

/// A body that is complete in memory.
pub(super) enum Source {
    /// Appended to the head, or empty.
    None,
    /// In the exchange.
    Inline,
    Shared(SharedSlice),
}

impl Source {
    fn content<'s>(&'s self, inline: &'s [u8]) -> &'s [u8] {
        match self {
            Source::None => &[],
            Source::Inline => inline,
            Source::Shared(slice) => slice.as_bytes(),
        }
    }
}

/// Writes the bytes of one response to its connection.
pub(super) struct Sender<'a> {
    link: &'a Link,
    timeouts: SendTimeouts,
    /// Encoded and not yet sent.
    out: Vec<u8>,
    sent: Count,
    pace: Pace,
}

impl<'a> Sender<'a> {
    fn new(link: &'a Link, timeouts: SendTimeouts) -> Self {
        let mut out = link.worker.buffers.small();
        link.ahead.move_to(&mut out);
        Sender {
            link,
            timeouts,
            out,
            sent: Count::default(),
            pace: Pace::new(timeouts.min_rate),
        }
    }

    /// Sends a response that is complete in memory; a short body is appended to the head.
    fn bytes<C>(
        mut self,
        exchange: &Exchange<C>,
        source: Source,
        tunnel: Option<Box<Tunnel>>,
    ) -> Sending<'a> {
        let content = source.content(&exchange.inline);
        self.sent.content = content.len() as u64;
        let is_short = content.len() <= COPY_BYTES_MAX;
        if is_short {
            self.out.extend_from_slice(content);
        }
        Sending::Bytes {
            sender: self,
            source: if is_short { Source::None } else { source },
            done: 0,
            tunnel,
        }
    }

    /// Decides the framing and encodes the head.
    fn frame<C>(
        &mut self,
        exchange: &mut Exchange<C>,
        body: &Body,
        keep_alive_seconds: u32,
    ) -> BodyFraming {
        let framing = match body.len(exchange.inline.len()) {
            _ if exchange.res.status.is_bodiless() => BodyFraming::None,
            // For HEAD, an empty body may mean that the handler made none: declare no length.
            Some(0) if exchange.req.method == Method::Head => BodyFraming::None,
            Some(length) => BodyFraming::Length(length),
            None if exchange.req.version == Version::Http10
                || exchange.res.unknown_length == UnknownLength::UntilClose =>
            {
                BodyFraming::UntilClose
            }
            None => BodyFraming::Chunked,
        };
        exchange.close |= framing == BodyFraming::UntilClose && exchange.req.method != Method::Head;
        let connection = match (exchange.close, exchange.req.version) {
            (true, _) => ConnectionHeader::Close,
            (false, _) if keep_alive_seconds > 0 => {
                ConnectionHeader::KeepAliveFor(keep_alive_seconds)
            }
            (false, Version::Http10) => ConnectionHeader::KeepAlive,
            (false, Version::Http11 | Version::Http2 | Version::Http3) => ConnectionHeader::None,
        };
        self.encode_head(exchange, framing, connection);
        framing
    }

    fn encode_head<C>(
        &mut self,
        exchange: &Exchange<C>,
        framing: BodyFraming,
        conn: ConnectionHeader,
    ) {
        let date = self.link.worker.clock.date();
        let res = &exchange.res;
        let version = match exchange.status_line {
            StatusLine::OfRequest => exchange.req.version,
            StatusLine::OfServer => Version::Http11,
        };
        h1::encode_response_head(
            res.status,
            &res.fields,
            framing,
            conn,
            &date,
            (version, exchange.reasons),
            &mut self.out,
        );
        self.sent.head = self.out.len() as u64;
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        self.flush_with(&[]).await
    }

    /// Sends `out`, then `parts`.
    async fn flush_with(&mut self, parts: &[&[u8]]) -> Result<(), Failure> {
        let mut done = 0;
        poll_fn(|cx| self.poll_flush_with(cx, parts, &mut done)).await
    }

    fn poll_flush_with(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
        done: &mut usize,
    ) -> Poll<Result<(), Failure>> {
        if self.is_late() {
            return Poll::Ready(Err(late()));
        }
        let total = self.out.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        while *done < total {
            let mut stream = self.link.stream.borrow_mut();
            let written = if parts.is_empty() {
                stream.poll_write(cx, &[IoSlice::new(&self.out[*done..])])
            } else {
                let mut slices = [IoSlice::new(&[]); 4];
                let count = remaining(&self.out, parts, *done, &mut slices);
                stream.poll_write(cx, &slices[..count])
            };
            drop(stream);
            match written {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(closed())),
                Poll::Ready(Ok(count)) => {
                    *done += count;
                    self.sent.all += count as u64;
                    self.note_taken(count);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(client_failure(error))),
                Poll::Pending => return self.poll_stalled(cx),
            }
        }
        match self.link.stream.borrow_mut().poll_flush(cx) {
            Poll::Ready(flushed) => {
                self.out.clear();
                self.note_taken(0);
                Poll::Ready(flushed.map_err(client_failure))
            }
            Poll::Pending => self.poll_stalled(cx),
        }
    }

    /// The client has accepted `count` bytes.
    fn note_taken(&mut self, count: usize) {
        let link = self.link;
        link.timer.clear();
        self.pace.moved(count as u64, link.worker.clock.coarse());
    }

    /// The client accepts nothing at the moment: runs the write timeout.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let clock = &self.link.worker.clock;
        if self.pace.wait(clock.coarse()) == Verdict::TooSlow {
            self.link.worker.counters.responses_too_slow.up();
            return Poll::Ready(Err(Failure::too_slow()));
        }
        if !self.link.timer.is_set() {
            let SendTimeouts { idle, until, .. } = self.timeouts;
            let left = until.map_or(idle, |until| until.since(clock.coarse()).min(idle));
            self.link.timer.set(clock, left);
        }
        ready!(self.link.timer.poll_expired(cx));
        Poll::Ready(Err(late()))
    }

    /// Whether the deadline of the whole response has passed.
    fn is_late(&self) -> bool {
        let now = || self.link.worker.clock.coarse();
        self.timeouts.until.is_some_and(|until| until <= now())
    }

    async fn send_file(&mut self, file: &FileSlice) -> Result<(), Failure> {
        if !matches!(*self.link.stream.borrow(), Stream::Tcp(_)) {
            return self.send_file_copied(file).await;
        }
        let is_long = file.len > CORK_BYTES_MIN;
        if is_long {
            self.cork(sys::send::Corked::Yes);
        }
        self.send_file_plain(file).await?;
        if is_long {
            self.cork(sys::send::Corked::No);
        }
        Ok(())
    }

    /// If the socket cannot be corked, sending works without.
    fn cork(&self, corked: sys::send::Corked) {
        if let Stream::Tcp(socket) = &*self.link.stream.borrow()
            && let Some(socket) = socket.descriptor()
        {
            let _ = sys::send::cork(socket, corked);
        }
    }

    /// Sends a file with `sendfile`; head and file share segments.
    async fn send_file_plain(&mut self, file: &FileSlice) -> Result<(), Failure> {
        let (mut head_done, mut done) = (0, 0);
        let sent = poll_fn(|cx| {
            while head_done < self.out.len() || done < file.len {
                if self.is_late() {
                    return Poll::Ready(Err(late()));
                }
                let mut stream = self.link.stream.borrow_mut();
                let Stream::Tcp(socket) = &mut *stream else {
                    unreachable!("checked by send_file")
                };
                let out = &self.out[head_done..];
                let (start, left) = (file.start + done, file.len - done);
                let sent = match out {
                    [] => socket.poll_send(cx, |socket| {
                        sys::send::send_file(socket, &file.file, start, left)
                    }),
                    out if file.len > 0 => {
                        socket.poll_send(cx, |socket| sys::send::send_more(socket, out))
                    }
                    out => socket.poll_write(cx, &[IoSlice::new(out)]),
                };
                drop(stream);
                match sent {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(shrunk())),
                    Poll::Ready(Ok(count)) => {
                        self.note_taken(count);
                        if head_done < self.out.len() {
                            head_done += count;
                        } else {
                            done += count as u64;
                        }
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(client_failure(error))),
                    Poll::Pending => return self.poll_stalled(cx),
                }
            }
            Poll::Ready(Ok(()))
        })
        .await;
        self.sent.content += done;
        self.sent.all += head_done as u64 + done;
        sent?;
        self.out.clear();
        Ok(())
    }

    /// Sends a file through memory, for TLS and Unix sockets.
    async fn send_file_copied(&mut self, file: &FileSlice) -> Result<(), Failure> {
        use std::os::unix::fs::FileExt;
        let mut buf = self.link.worker.buffers.large();
        let mut done = 0;
        let result = loop {
            if done == file.len {
                break Ok(());
            }
            let want = (file.len - done).min(buf.capacity() as u64) as usize;
            buf.resize(want, 0);
            match file.file.read_at(&mut buf, file.start + done) {
                Ok(0) => break Err(shrunk()),
                Ok(count) => {
                    if let Err(failure) = self.flush_with(&[&buf[..count]]).await {
                        break Err(failure);
                    }
                    done += count as u64;
                    self.sent.content += count as u64;
                }
                Err(error) => break Err(Failure::from_io(Side::Internal, error)),
            }
        };
        self.link.worker.buffers.give_back(buf);
        match result {
            Ok(()) => self.flush().await,
            Err(failure) => Err(failure),
        }
    }

    /// Forwards a stream as it arrives. All data available at once is sent together, including the end.
    async fn send_stream(
        &mut self,
        stream: &mut dyn BodyStream,
        chunked: bool,
    ) -> Result<(), Failure> {
        let mut expected = stream.len();
        loop {
            let step = poll_fn(|cx| self.poll_stream(cx, stream, chunked, expected)).await;
            match self.keep_alive_seconds(step).await? {
                Streamed::Pause => {
                    let mut done = 0;
                    poll_fn(|cx| self.poll_flush_beside(cx, stream, &mut done)).await?;
                }
                Streamed::Large(count) => {
                    // The slice is requested again: the borrow cannot last across the await above.
                    let mut done = 0;
                    poll_fn(|cx| self.poll_large(cx, stream, chunked, &mut done, count)).await?;
                    stream.consume(count);
                    self.note_content(count, &mut expected)?;
                }
                Streamed::Small(count) => self.note_content(count, &mut expected)?,
                Streamed::End => {
                    if expected.is_some_and(|left| left > 0) {
                        self.keep_alive_seconds(Err(shrunk())).await?;
                    }
                    if chunked {
                        let trailers = stream.trailers().unwrap_or_default();
                        h1::encode_last_chunk_with_trailers(&trailers, &mut self.out);
                    }
                    return self.flush().await;
                }
            }
        }
    }

    /// If the stream fails, sends what came before: a connection closed without any response would make the client
    /// retry as if the request had not been processed (RFC 9110, section 9.2.2), and the status would be lost.
    async fn keep_alive_seconds(
        &mut self,
        step: Result<Streamed, Failure>,
    ) -> Result<Streamed, Failure> {
        if step.is_err() && !self.out.is_empty() {
            let _ = self.flush().await;
        }
        step
    }

    /// Sends `out`. While the client accepts nothing, the stream reads ahead.
    fn poll_flush_beside(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut dyn BodyStream,
        done: &mut usize,
    ) -> Poll<Result<(), Failure>> {
        let flushed = self.poll_flush_with(cx, &[], done);
        if flushed.is_pending()
            && let Poll::Ready(Err(failure)) = stream.poll_ahead(cx)
        {
            return Poll::Ready(Err(failure));
        }
        flushed
    }

    fn note_content(&mut self, count: usize, expected: &mut Option<u64>) -> Result<(), Failure> {
        self.sent.content += count as u64;
        match expected {
            Some(left) if *left < count as u64 => Err(shrunk()),
            Some(left) => {
                *left -= count as u64;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn poll_stream(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut dyn BodyStream,
        chunked: bool,
        expected: Option<u64>,
    ) -> Poll<Result<Streamed, Failure>> {
        if expected == Some(0) {
            return Poll::Ready(Ok(Streamed::End));
        }
        let data = match stream.poll_data(cx) {
            Poll::Ready(data) => data?,
            // The client may have disconnected, and the rest may never come.
            Poll::Pending if self.out.is_empty() => return self.link.poll_silence(cx).map(Err),
            Poll::Pending => return Poll::Ready(Ok(Streamed::Pause)),
        };
        let count = data.len();
        if count == 0 {
            return Poll::Ready(Ok(Streamed::End));
        }
        if self.out.len() + count > COPY_BYTES_MAX {
            return Poll::Ready(Ok(Streamed::Large(count)));
        }
        if chunked {
            h1::encode_chunk_head(count, &mut self.out);
        }
        self.out.extend_from_slice(data);
        if chunked {
            self.out.extend_from_slice(h1::CHUNK_END);
        }
        stream.consume(count);
        Poll::Ready(Ok(Streamed::Small(count)))
    }

    fn poll_large(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut dyn BodyStream,
        chunked: bool,
        done: &mut usize,
        count: usize,
    ) -> Poll<Result<(), Failure>> {
        let data = &ready!(stream.poll_data(cx))?[..count];
        let flushed = if chunked {
            let mut size = Vec::with_capacity(CHUNK_HEAD_BYTES_MAX);
            h1::encode_chunk_head(count, &mut size);
            self.poll_flush_with(cx, &[&size, data, h1::CHUNK_END], done)
        } else {
            self.poll_flush_with(cx, &[data], done)
        };
        if flushed.is_pending()
            && let Poll::Ready(Err(failure)) = stream.poll_ahead(cx)
        {
            return Poll::Ready(Err(failure));
        }
        flushed
    }
}

/// Sixteen hexadecimal digits and CR LF.
const CHUNK_HEAD_BYTES_MAX: usize = 18;

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        self.link
            .worker
            .buffers
            .give_back(std::mem::take(&mut self.out));
    }
}

/// The result of polling a stream.
enum Streamed {
    /// Nothing more for now: send what is there.
    Pause,
    /// This many bytes were copied to `out`.
    Small(usize),
    /// This many bytes are to be sent from the stream's buffer.
    Large(usize),
    /// The stream has ended.
    End,
}

/// Collects what follows the first `done` bytes of `out` and `parts`; returns the number of slices.
fn remaining<'s>(
    out: &'s [u8],
    parts: &[&'s [u8]],
    mut done: usize,
    slices: &mut [IoSlice<'s>; 4],
) -> usize {
    let mut count = 0;
    for part in std::iter::once(&out).chain(parts) {
        if done >= part.len() {
            done -= part.len();
            continue;
        }
        slices[count] = IoSlice::new(&part[done..]);
        done = 0;
        count += 1;
    }
    count
}

fn late() -> Failure {
    Failure::new(Side::Client, FailureKind::Timeout)
}

fn closed() -> Failure {
    Failure::new(Side::Client, FailureKind::Closed)
}

/// A body turned out shorter or longer than declared.
fn shrunk() -> Failure {
    Failure::new(Side::Internal, FailureKind::Protocol)
        .because("body differs from its declared length")
}
