//! Sends the response of one stream: the head, then as much of the body as the flow-control windows and the
//! connection's output allow. `drive` writes the output to the socket.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_message::{FieldId, Method, Status};
use sluice_policy::Pace;
use sluice_policy::data_rate::Verdict;
use sluice_wire::h1::BodyFraming;
use sluice_wire::sections::{Connect, End};

use super::{Carrier, Gone, NotSent, Over, WaitsFor, tunnel};
use crate::body::{Body, BodyStream, FileSlice};
use crate::connection::SendTimeouts;
use crate::failure::{Failure, FailureKind, Side};
use crate::service::{Ending, Exchange};
use crate::sys::files::append_at;
use crate::timer::Timer;
use crate::tunnel::Tunnel;

/// Sends the response of one stream.
pub struct Sender<'a, M: Carrier> {
    carrier: &'a Rc<M>,
    id: M::Id,
    connect: Connect,
    timeouts: SendTimeouts,
    /// Runs while the client accepts nothing; few responses need it.
    stall: Option<Timer>,
    /// What it runs for.
    waits_for: WaitsFor,
    pace: Pace,
    /// The connection's count of sent bytes when it was last checked.
    sent: u64,
    /// Body bytes passed to the codec.
    pub content_sent: u64,
    /// Size of the head in bytes, once it was passed to the codec.
    pub head_sent: u64,
}

/// How sending ended: for the record, and for the stream.
pub struct Sent {
    /// How the exchange ended.
    pub ending: Ending,
    /// How the stream ended.
    pub over: Over,
}

impl<'a, M: Carrier> Sender<'a, M> {
    pub fn new(carrier: &'a Rc<M>, id: M::Id, timeouts: SendTimeouts, connect: Connect) -> Self {
        Sender {
            connect,
            carrier,
            id,
            timeouts,
            stall: None,
            waits_for: WaitsFor::Nothing,
            pace: Pace::new(timeouts.min_rate),
            sent: carrier.moved().sent.get(),
            content_sent: 0,
            head_sent: 0,
        }
    }

    /// Sends the response of the service, if there is one.
    pub async fn send<C>(
        &mut self,
        exchange: &mut Exchange<C>,
        responded: Result<Body, Failure>,
    ) -> Sent {
        let sent = match responded {
            Ok(Body::Abort) => {
                return Sent {
                    ending: Ending::Aborted,
                    over: Over::Failed,
                };
            }
            Ok(body) => match self.send_body(exchange, body).await {
                Ok(()) => poll_fn(|cx| self.poll_flushed(cx)).await,
                Err(failure) => Err(failure),
            },
            Err(failure) => Err(failure),
        };
        match sent {
            Ok(()) => Sent {
                ending: Ending::Complete,
                over: Over::Complete,
            },
            Err(failure) => {
                let over = match failure.side {
                    Side::Client => Over::Cancelled,
                    Side::Upstream | Side::Internal => Over::Failed,
                };
                let ending = Ending::Failed(failure);
                Sent { ending, over }
            }
        }
    }

    async fn send_body<C>(
        &mut self,
        exchange: &mut Exchange<C>,
        body: Body,
    ) -> Result<(), Failure> {
        let body = match body {
            Body::Tunnel(peer) => return Box::pin(self.send_tunnel(exchange, *peer)).await,
            // A client that requested a tunnel would take the body for data from the tunnel.
            _ if self.connect != Connect::No && matches!(exchange.res.status.code(), 200..300) => {
                exchange.res.status = Status::NOT_IMPLEMENTED;
                Body::Empty
            }
            body => body,
        };
        let is_bodiless = exchange.res.status.is_bodiless();
        let length = body.len(exchange.inline.len());
        let framing = match length {
            _ if is_bodiless => BodyFraming::None,
            // For HEAD, an empty body may mean that the handler made none: declare no length.
            Some(0) if exchange.req.method == Method::Head => BodyFraming::None,
            Some(length) => BodyFraming::Length(length),
            None => BodyFraming::Chunked,
        };
        let is_silent = is_bodiless || exchange.req.method == Method::Head || length == Some(0);
        poll_fn(|cx| self.poll_room(cx)).await?;
        self.send_head(exchange, framing, End::here_if(is_silent))?;
        match body {
            _ if is_silent => Ok(()),
            Body::Empty | Body::Abort | Body::Tunnel(_) => Ok(()),
            Body::Inline => self.send_bytes(&exchange.inline).await,
            Body::Shared(slice) => self.send_bytes(slice.as_bytes()).await,
            Body::File(file) => self.send_file(&file).await,
            Body::Stream(mut stream) => self.send_stream(&mut *stream).await,
        }
    }

    /// Turns the stream into a tunnel. Where HTTP/1.1 switches protocols, the response is a plain 2xx (RFC 8441,
    /// section 5) without the headers that confirm the upgrade.
    async fn send_tunnel<C>(
        &mut self,
        exchange: &mut Exchange<C>,
        peer: Tunnel,
    ) -> Result<(), Failure> {
        if self.connect != Connect::WebSocket {
            let failure = Failure::new(Side::Internal, FailureKind::Protocol);
            return Err(failure.because("an unexpected tunnel"));
        }
        exchange.res.status = Status::OK;
        exchange.res.fields.remove(FieldId::Upgrade);
        exchange.res.fields.remove_name(b"Sec-WebSocket-Accept");
        poll_fn(|cx| self.poll_room(cx)).await?;
        self.send_head(exchange, BodyFraming::Chunked, End::Later)?;
        let (done, sent) = tunnel::join(self.carrier, self.id, peer).await;
        self.content_sent += sent;
        done
    }

    fn send_head<C>(
        &mut self,
        exchange: &Exchange<C>,
        framing: BodyFraming,
        end: End,
    ) -> Result<(), Failure> {
        let head = (exchange.res.status, &exchange.res.fields);
        let sent = self.carrier.send_head(self.id, head, framing, end);
        self.head_sent = sent.map_err(Gone::failure)?;
        Ok(())
    }

    /// Sends a body that is complete in memory, to the end of the response.
    async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut done = 0;
        poll_fn(|cx| {
            while done < bytes.len() {
                self.is_in_time()?;
                let sent = self.carrier.send_data(self.id, &bytes[done..], End::Here);
                match sent.map_err(Gone::failure)? {
                    0 => return self.poll_stalled(cx),
                    count => {
                        done += count;
                        self.note(count);
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Sends a part of a file, read directly into the output.
    async fn send_file(&mut self, file: &FileSlice) -> Result<(), Failure> {
        let mut done = 0;
        poll_fn(|cx| {
            while done < file.len {
                self.is_in_time()?;
                let room = self.carrier.capacity(self.id);
                if room == 0 {
                    return self.poll_stalled(cx);
                }
                done += self.send_piece(file, done, room)? as u64;
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Sends one frame of a file, starting at `done` and at most `room` bytes; returns its length.
    fn send_piece(&mut self, file: &FileSlice, done: u64, room: usize) -> Result<usize, Failure> {
        let left = file.len - done;
        let count = match usize::try_from(left) {
            Ok(left) if left <= room => return self.send_last_piece(file, done, left),
            Ok(_) | Err(_) => room,
        };
        // If the file turns out shorter, the reset that follows reports the error.
        let sent = self
            .carrier
            .send_file(self.id, file, file.start + done, count);
        sent.map_err(|error| match error {
            NotSent::Gone(gone) => gone.failure(),
            NotSent::File(error) => file_failure(error),
        })?;
        self.note(count);
        Ok(count)
    }

    /// Sends the end of a file: its length is not announced before the bytes were read.
    fn send_last_piece(
        &mut self,
        file: &FileSlice,
        done: u64,
        left: usize,
    ) -> Result<usize, Failure> {
        let buffers = &self.carrier.worker().buffers;
        let mut piece = buffers.small();
        let read = append_at(&file.file, file.start + done, left, &mut piece);
        let sent = read.map_err(file_failure).and_then(|()| {
            let sent = self.carrier.send_data(self.id, &piece, End::Here);
            sent.map_err(Gone::failure)
        });
        buffers.give_back(piece);
        let count = sent?;
        self.note(count);
        Ok(count)
    }

    /// Forwards a stream as it arrives. It is polled only when the client can accept data.
    async fn send_stream(&mut self, stream: &mut dyn BodyStream) -> Result<(), Failure> {
        let mut left = stream.len();
        poll_fn(|cx| {
            loop {
                self.is_in_time()?;
                ready!(self.poll_capacity_beside(stream, cx))?;
                let data = ready!(self.poll_data(stream, cx))?;
                if data.is_empty() {
                    if left.is_some_and(|left| left > 0) {
                        return Poll::Ready(Err(shrunk()));
                    }
                    return Poll::Ready(self.end_stream(stream));
                }
                let count = data.len() as u64;
                if left.is_some_and(|left| left < count) {
                    return Poll::Ready(Err(shrunk()));
                }
                let end = End::here_if(left == Some(count));
                let sent = self.carrier.send_data(self.id, data, end);
                let sent = sent.map_err(Gone::failure)?;
                stream.consume(sent);
                self.note(sent);
                if let Some(left) = &mut left {
                    *left -= sent as u64;
                    if *left == 0 {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        })
        .await
    }

    /// Ready when data may be sent. While the client accepts nothing, the stream reads ahead.
    fn poll_capacity_beside(
        &mut self,
        stream: &mut dyn BodyStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        let capacity = self.poll_capacity(cx);
        if capacity.is_pending() {
            if let Some(gone) = self.carrier.gone(self.id) {
                return Poll::Ready(Err(gone.failure()));
            }
            if let Poll::Ready(Err(failure)) = stream.poll_ahead(cx) {
                return Poll::Ready(Err(failure));
            }
            // Without data to send, the client cannot be blamed for a low rate.
            match stream.poll_data(cx) {
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => self.pace.excuse(),
            }
        }
        capacity
    }

    /// The available data of the stream. While it has none, watches for a client that disconnects.
    fn poll_data<'s>(
        &mut self,
        stream: &'s mut dyn BodyStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<&'s [u8], Failure>> {
        if let Some(gone) = self.carrier.gone(self.id) {
            return Poll::Ready(Err(gone.failure()));
        }
        stream.poll_data(cx)
    }

    /// Ends a response of undeclared length: sends trailers or an empty DATA frame.
    fn end_stream(&mut self, stream: &mut dyn BodyStream) -> Result<(), Failure> {
        let trailers = stream.trailers().filter(|fields| !fields.is_empty());
        let sent = match trailers {
            Some(trailers) => self.carrier.send_trailers(self.id, &trailers),
            None => self.carrier.send_data(self.id, &[], End::Here).map(|_| ()),
        };
        sent.map_err(Gone::failure)
    }

    fn note(&mut self, count: usize) {
        self.content_sent += count as u64;
        let all = &self.carrier.moved().sent;
        all.set(all.get() + count as u64);
        let count = all.get() - std::mem::replace(&mut self.sent, all.get());
        let now = self.carrier.worker().clock.coarse();
        self.pace.moved(count, now);
        if let Some(stall) = &self.stall {
            stall.clear();
        }
    }

    /// Ready when the output has room for a head.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if !self.carrier.has_room() || self.carrier.gone(self.id).is_some() {
            return self.poll_stalled(cx);
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when data may be sent.
    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.carrier.capacity(self.id) == 0 {
            return self.poll_stalled(cx);
        }
        if let Some(stall) = &self.stall {
            stall.clear();
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when nothing of the response is left here.
    fn poll_flushed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match self.carrier.is_flushed(self.id) {
            true => Poll::Ready(Ok(())),
            false => self.poll_stalled(cx),
        }
    }

    /// Nothing can be sent at the moment. A client that grants no window is subject to the write timeout. A stream that
    /// waits for room in the output is not: the connection checks that the client accepts the other streams. Ready only
    /// with a failure.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.carrier.gone(self.id).is_some() {
            return Poll::Ready(Err(self.gone()));
        }
        let waits_for = self.carrier.await_room(self.id);
        let worker = self.carrier.worker();
        if waits_for == WaitsFor::Room {
            self.pace.excuse();
        } else if self.pace.wait(worker.clock.coarse()) == Verdict::TooSlow {
            worker.counters.responses_too_slow.up();
            return Poll::Ready(Err(Failure::too_slow()));
        }
        let stall = self.stall.get_or_insert_with(|| worker.timers.timer());
        if !stall.is_set() || self.waits_for != waits_for {
            self.waits_for = waits_for;
            let SendTimeouts { idle, until, .. } = self.timeouts;
            let idle = (waits_for == WaitsFor::Window).then_some(idle);
            let left = until.map(|until| until.since(worker.clock.coarse()));
            match idle.into_iter().chain(left).min() {
                Some(left) => stall.set(&worker.clock, left),
                None => stall.clear(),
            }
        }
        ready!(stall.poll_expired(cx));
        Poll::Ready(Err(late()))
    }

    /// Fails if the time for the whole response is over.
    fn is_in_time(&self) -> Result<(), Failure> {
        let now = || self.carrier.worker().clock.coarse();
        match self.timeouts.until {
            Some(until) if until <= now() => Err(late()),
            Some(_) | None => Ok(()),
        }
    }

    fn gone(&self) -> Failure {
        self.carrier.gone(self.id).unwrap_or(Gone::Closed).failure()
    }
}

/// The client took too long.
fn late() -> Failure {
    Failure::new(Side::Client, FailureKind::Timeout)
}

/// A file that cannot be read, or is shorter than it was.
fn file_failure(error: std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::UnexpectedEof => shrunk(),
        _ => Failure::from_io(Side::Internal, error),
    }
}

/// A body turned out shorter or longer than declared.
fn shrunk() -> Failure {
    Failure::new(Side::Internal, FailureKind::Protocol)
        .because("body differs from its declared length")
}
