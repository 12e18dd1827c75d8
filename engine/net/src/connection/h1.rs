//! The life cycle of an HTTP/1 connection: request head, response, next request head. The submodules contain the parts.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_message::{Method, Moment, Status};
use sluice_wire::h1::{
    self as wire, BodyFraming, Expectation, KeepAlive, RequestError, RequestFault, RequestFraming,
};

use super::body::H1Body;
use super::head::{Arriving, Awaited, start_of};
use super::send::{Count, Ended, SendTimeouts, Sending};
use super::serve_response::{Asker, response};
use super::{BodyState, Connection, Next, client_failure, h2, linger, take_exchange};
use crate::binding::Binding;
use crate::body::{Body, BodyStream, RequestBody};
use crate::clock;
use crate::failure::Failure;
use crate::interims::Interim;
use crate::limits::{DRAIN_BYTES_MAX, PIPELINE_BURST_MAX, REFUSED_LINE_BYTES_MAX};
use crate::service::{
    Came, ClientLimits, Completion, Ending, Exchange, Linger, Lingering, Refused, Service,
    Settings, Slow, StatusLine,
};
use crate::tunnel::{self, RequestEnd, Tunnel};

impl<S: Service> Asker for Connection<S> {
    fn send_interim(&self, interim: &Interim) {
        let ahead = &self.link.ahead;
        ahead.push(|out| wire::encode_interim(interim.status, &interim.fields, out));
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Failure> {
        let link = &self.link;
        let sent = link.ahead.poll_send(&mut link.stream.borrow_mut(), cx);
        if let Poll::Ready(Err(error)) = sent {
            return Poll::Ready(client_failure(error));
        }
        link.poll_silence(cx)
    }
}

/// The futures below, with those of [`response`] and [`Sending`], are the state that a connection has in any case, idle or
/// not; `limits::CONNECTION_BYTES_MAX` bounds them. What is rare is boxed. A local value that was borrowed keeps its room in
/// the future until the end of its block, even after it was moved: hence the blocks.
impl<S: Service> Connection<S> {
    /// Serves requests until the connection ends.
    pub(crate) async fn run(&mut self) {
        if self.is_secure() {
            if !Box::pin(self.secure()).await {
                return;
            }
            if self.info.tls.as_ref().is_some_and(|tls| tls.alpn == b"h2") {
                return Box::pin(h2::serve(self)).await;
            }
        }
        self.await_first_request();
        loop {
            match self.serve_next().await {
                Next::Reuse => {
                    self.is_new = false;
                    self.burst += 1;
                    if self.burst > PIPELINE_BURST_MAX && !self.link.input.borrow().is_empty() {
                        self.burst = 0;
                        tokio::task::yield_now().await;
                    }
                }
                Next::Linger => {
                    let linger = self.linger.take().map_or_else(Linger::default, |it| *it);
                    return Box::pin(linger::close(&self.link, linger)).await;
                }
                Next::Reset => return linger::reset(&self.link),
                Next::Drop => return,
                Next::Http2 => return Box::pin(h2::serve(self)).await,
                Next::Tunnel(peer) => return Box::pin(self.tunnel(peer)).await,
            }
        }
    }

    /// A connection that has not sent a request is closed under pressure as readily as an idle one.
    fn await_first_request(&self) {
        let binding = self.slot.binding();
        let settings = binding.service.settings_for(&self.info);
        let clock = &self.link.worker.clock;
        (self.link.timer).set_yielding(clock, settings.first_byte_timeout);
    }

    async fn tunnel(&mut self, peer: Box<Tunnel>) {
        let received = std::mem::take(&mut *self.link.input.borrow_mut());
        tunnel::join(&self.link.stream, received, *peer, &self.link.worker).await;
    }

    /// Ends a request that becomes a tunnel. If the request ends with the tunnel, it is recorded then. One that ends with
    /// its configuration is recorded when it begins, since the request would keep the configuration.
    async fn end_with_tunnel(
        &mut self,
        binding: &Binding<S>,
        exchange: &mut Exchange<S::Context>,
        ended: Ended,
    ) -> Next {
        let Ended { next, ending, sent } = ended;
        let ended = match next {
            Next::Tunnel(peer) if peer.notice.is_none() && peer.request == RequestEnd::AtEnd => {
                self.tunnel_whole(peer, ending, sent).await
            }
            next => Ended { next, ending, sent },
        };
        self.end(&binding.service, exchange, ended)
    }

    /// The tunnel of a request that ends with it.
    async fn tunnel_whole(&mut self, peer: Box<Tunnel>, ending: Ending, mut sent: Count) -> Ended {
        let received = std::mem::take(&mut *self.link.input.borrow_mut());
        let link = &self.link;
        let traffic = tunnel::join_counted(&link.stream, received, *peer, &link.worker).await;
        sent.content += traffic.sent_down;
        sent.all += traffic.sent_down;
        Ended {
            next: Next::Drop,
            ending,
            sent,
        }
    }

    /// Serves one request.
    async fn serve_next(&mut self) -> Next {
        let is_pipelined = !self.is_new && !self.link.input.borrow().is_empty();
        // An idle connection holds no exchange, which is most of its memory.
        if self.link.input.borrow().is_empty() {
            self.link.rest();
            if poll_fn(|cx| self.poll_first_byte(cx)).await.is_err() {
                return Next::Drop;
            }
        }
        let binding = self.slot.binding();
        let mut exchange = take_exchange(&self.shared, &self.info);
        exchange.came = Came {
            is_pipelined,
            ..Came::default()
        };
        let settings = binding.service.settings_for(&self.info);
        let awaited = {
            let mut arriving = Arriving::default();
            let head = poll_fn(|cx| self.poll_head(cx, &mut arriving, &mut exchange.req, settings));
            let awaited = head.await;
            exchange.came.head_time = self.time_since(arriving.since);
            awaited.if_spoken(binding.protocols)
        };
        // Patterns with guards, and the fields of what is moved, would count as borrowed.
        let next = match awaited {
            Awaited::Head(framing, length) => {
                exchange.came.head_bytes = length;
                self.begin(&mut exchange, (framing, length), settings);
                let (service, worker) = (&*binding.service, &*self.link.worker);
                let responded = response(service, &mut exchange, None, worker, &*self).await;
                let ended = {
                    let service = &*binding.service;
                    let mut sending = self.begin_sending(service, &mut exchange, responded);
                    poll_fn(|cx| sending.poll(cx, &exchange)).await
                };
                if let Next::Tunnel(_) = ended.next {
                    Box::pin(self.end_with_tunnel(&binding, &mut exchange, ended)).await
                } else {
                    match self.end(&binding.service, &mut exchange, ended) {
                        Next::Reuse if !self.is_body_finished() => {
                            let limits = binding.service.client_limits(&exchange);
                            Box::pin(self.clear_body(limits)).await
                        }
                        next => next,
                    }
                }
            }
            Awaited::Closed => Next::Drop,
            other => Box::pin(self.decline(&binding, &mut exchange, other)).await,
        };
        self.finish(&binding, exchange, next)
    }

    /// The time since `begin`; zero if it is `None`.
    fn time_since(&self, begin: Option<Moment>) -> Duration {
        let now = self.link.worker.clock.coarse();
        begin.map_or(Duration::ZERO, |begin| now.since(begin))
    }

    /// What follows from anything else than the head of a request.
    async fn decline(
        &mut self,
        binding: &Rc<Binding<S>>,
        exchange: &mut Exchange<S::Context>,
        awaited: Awaited,
    ) -> Next {
        let error = match awaited {
            // A request that can be served, and the end of the connection, are not declined.
            Awaited::Head(..) | Awaited::Closed => return Next::Drop,
            Awaited::Refused(error) if self.is_preface(&error, binding) => return Next::Http2,
            Awaited::Refused(error) => Some(error),
            Awaited::TimedOut => None,
        };
        self.refuse(binding, exchange, error).await
    }

    /// Ends a request: what it used is free for the next one.
    fn finish(
        &mut self,
        binding: &Binding<S>,
        mut exchange: Box<Exchange<S::Context>>,
        next: Next,
    ) -> Next {
        let limits = binding.service.client_limits(&exchange);
        let next = self.rest(next, limits, exchange.came.is_last);
        binding.service.reset(&mut exchange.context);
        exchange.body = RequestBody::None;
        self.shared.give_back(exchange);
        next
    }

    /// Whether the client starts HTTP/2 with prior knowledge (RFC 9113, section 3.3) and is allowed to.
    fn is_preface(&self, error: &RequestError, binding: &Binding<S>) -> bool {
        error.fault == RequestFault::Http2Preface
            && self.is_new
            && self.info.tls.is_none()
            && binding.protocols.h2c
    }

    /// Waits for the first byte of a head without holding a buffer or an exchange.
    fn poll_first_byte(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        let link = &self.link;
        match link.poll_fill(cx) {
            Poll::Ready(Ok(count)) if count > 0 => {
                self.burst = 0;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(_) => Poll::Ready(Err(())),
            Poll::Pending if self.is_unwanted() => match self.has_just_asked() {
                true => Poll::Pending,
                false => Poll::Ready(Err(())),
            },
            Poll::Pending => link.timer.poll_expired(cx).map(|()| Err(())),
        }
    }

    /// Prepares for a request whose head has been read, and has `length` bytes of the input.
    fn begin(
        &mut self,
        exchange: &mut Exchange<S::Context>,
        (framing, length): (RequestFraming, usize),
        settings: &Settings,
    ) {
        exchange.came.is_last = is_last(&framing, &exchange.req.method);
        self.count_request(exchange, settings);
        exchange.close = framing.keep_alive == KeepAlive::Close || self.is_ending();
        exchange.status_line = StatusLine::default();
        exchange.reasons = Status::reason;
        exchange.res.clear();
        exchange.inline.clear();
        if framing.body == BodyFraming::None {
            self.link.consume(length);
        } else {
            let awaits = framing.expectation == Expectation::Continue;
            let client = &settings.client;
            let framing = (framing.body, length);
            let body = H1Body::new(&self.link, framing, &settings.h1, awaits, client);
            exchange.body = RequestBody::Stream(Box::new(body));
        }
    }

    /// Counts a request and clears the state of the previous one.
    fn count_request(&mut self, exchange: &mut Exchange<S::Context>, settings: &Settings) {
        let link = &self.link;
        link.timer.clear();
        // It ends with the connection, or before the next one.
        link.requests.begin(link.worker.retirement.generation());
        let requests = &self.info.facts.requests;
        requests.set(requests.get() + 1);
        link.body_bytes.set(0);
        *link.body.borrow_mut() = BodyState::Finished;
        exchange.started = start_of(settings, &link.worker.clock);
        exchange.came.idle = exchange.started.since(self.rested_at);
    }

    /// Records how an exchange ended.
    fn end(&mut self, service: &S, exchange: &mut Exchange<S::Context>, ended: Ended) -> Next {
        // A body that a handler took and dropped is returned before its rest is inspected.
        exchange.body = RequestBody::None;
        let completion = Completion {
            ending: ended.ending,
            body_bytes_sent: ended.sent.content,
            bytes_sent: ended.sent.all,
            head_bytes_sent: ended.sent.head,
            body_bytes_read: self.link.body_bytes.get(),
            duration: self.duration_of(exchange.started, service.settings().exact_times),
        };
        self.rested_at = exchange.started + completion.duration;
        service.record(exchange, &completion);
        match (ended.next, &completion.ending) {
            (Next::Drop, Ending::Aborted) => {}
            (Next::Drop, Ending::Failed(failure)) if failure.is_slow_client() => {}
            (next, _) => return next,
        }
        match service.client_limits(exchange).slow {
            Slow::Close => Next::Drop,
            Slow::Reset => Next::Reset,
        }
    }

    fn duration_of(&self, started: sluice_message::Moment, exact: bool) -> Duration {
        let now = if exact {
            clock::now()
        } else {
            self.link.worker.clock.coarse()
        };
        now.since(started)
    }

    /// Starts sending the response, if there is one.
    fn begin_sending(
        &self,
        service: &S,
        exchange: &mut Exchange<S::Context>,
        responded: Result<Body, Failure>,
    ) -> Sending<'_> {
        let body = match responded {
            Err(failure) => return Sending::Nothing(Some(Ending::Failed(failure))),
            Ok(Body::Abort) => return Sending::Nothing(Some(Ending::Aborted)),
            Ok(body) => body,
        };
        if !self.is_body_finished() && !self.body_can_end(exchange) {
            exchange.close = true;
        }
        let limits = service.client_limits(exchange);
        let ends = limits.ends(&self.info, self.link.worker.clock.coarse());
        let timeouts = SendTimeouts {
            idle: limits.write_idle_timeout,
            min_rate: limits.write_min_rate,
            until: service.write_until(exchange),
        };
        let announced = limits.keep_alive_announced;
        exchange.close |= ends;
        Sending::new(&self.link, timeouts, announced, exchange, body)
    }

    /// Sets how long the connection waits for the next request, or how it closes: at once if the client sends nothing
    /// more, since then nothing is lost. Closing resets the connection if input is unread, and TLS has an end of its own.
    fn rest(&mut self, next: Next, limits: &ClientLimits, was_last: bool) -> Next {
        match next {
            Next::Reuse => {
                let (most, least) = (limits.keep_alive_timeout, limits.keep_alive_min);
                self.link.rest_until_next(most, least);
            }
            Next::Linger => {
                let linger = limits.linger;
                let is_silent = was_last && self.link.input.borrow().is_empty();
                if is_silent && linger.when != Lingering::Always && !self.is_secure() {
                    return Next::Drop;
                }
                self.linger = Some(Box::new(linger));
            }
            Next::Drop | Next::Reset | Next::Http2 | Next::Tunnel(_) => {}
        }
        next
    }

    fn is_body_finished(&self) -> bool {
        matches!(*self.link.body.borrow(), BodyState::Finished)
    }

    /// Whether the unread rest of the request body is small enough to read it for the sake of keep-alive.
    fn body_can_end(&self, exchange: &Exchange<S::Context>) -> bool {
        match &*self.link.body.borrow() {
            BodyState::Finished => true,
            // Still in the exchange, or owned by the response body, which may read it to its end.
            BodyState::Lent => exchange
                .body
                .len()
                .is_none_or(|left| left <= DRAIN_BYTES_MAX),
            BodyState::Unread(unread) => {
                !unread.awaits_continue()
                    && unread.left().is_none_or(|left| left <= DRAIN_BYTES_MAX)
            }
            BodyState::Broken => false,
        }
    }

    /// Reads the rest of the request body, within limits, so that it is not mistaken for the next request.
    async fn clear_body(&self, limits: &ClientLimits) -> Next {
        let state = std::mem::replace(&mut *self.link.body.borrow_mut(), BodyState::Finished);
        let unread = match state {
            BodyState::Finished => return Next::Reuse,
            BodyState::Lent | BodyState::Broken => return Next::Linger,
            BodyState::Unread(unread) => unread,
        };
        if unread.awaits_continue() {
            return Next::Linger;
        }
        let mut body = H1Body::resume(&self.link, *unread, limits);
        let mut drained = 0;
        loop {
            let shown = poll_fn(|cx| body.poll_data(cx).map_ok(<[u8]>::len)).await;
            match shown {
                Ok(0) => return Next::Reuse,
                Ok(count) if drained + count as u64 <= DRAIN_BYTES_MAX => {
                    drained += count as u64;
                    body.consume(count);
                }
                Ok(_) | Err(_) => return Next::Linger,
            }
        }
    }

    async fn refuse(
        &mut self,
        binding: &Rc<Binding<S>>,
        exchange: &mut Exchange<S::Context>,
        error: Option<RequestError>,
    ) -> Next {
        let service = &*binding.service;
        self.count_request(exchange, service.settings_for(&self.info));
        exchange.res.clear();
        exchange.inline.clear();
        exchange.close = true;
        let line = first_line(&self.link.input.borrow());
        exchange.came.head_bytes = head_bytes(&self.link.input.borrow(), error.as_ref());
        let refused = match &error {
            Some(error) => Refused {
                status: error.status(),
                why: error,
                line: &line,
            },
            None => Refused {
                status: Status::REQUEST_TIMEOUT,
                why: &"request head took too long",
                line: &line,
            },
        };
        let worker = &self.link.worker;
        let responded = response(service, exchange, Some(&refused), worker, &*self).await;
        exchange.close = true;
        let mut sending = self.begin_sending(service, exchange, responded);
        let ended = poll_fn(|cx| sending.poll(cx, exchange)).await;
        drop(sending);
        self.end(service, exchange, ended)
    }
}

/// The first line of the input, without its line ending.
fn first_line(input: &[u8]) -> Vec<u8> {
    let start = input.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    let line = &input[start.unwrap_or(input.len())..];
    let end = line.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let end = end.unwrap_or(line.len()).min(REFUSED_LINE_BYTES_MAX);
    line[..end].to_vec()
}

/// Whether the client announced that nothing follows this head. With other methods, clients of HTTP/1.0 may send content
/// without its length.
fn is_last(framing: &RequestFraming, method: &Method) -> bool {
    framing.keep_alive == KeepAlive::Close
        && framing.body == BodyFraming::None
        && matches!(method, Method::Get | Method::Head)
}

/// How many bytes of a head are valid, in whole lines: the lines before the faulty one, or those that arrived in time.
fn head_bytes(input: &[u8], error: Option<&RequestError>) -> usize {
    let read = match error.map(|error| (error.fault, error.offset)) {
        None => input,
        Some((
            RequestFault::HostMissing
            | RequestFault::HostRepeated
            | RequestFault::HostInvalid
            | RequestFault::LengthMissing
            | RequestFault::Expectation
            | RequestFault::Framing(_),
            _,
        )) => {
            return head_end(input);
        }
        Some((_, offset)) => &input[..offset.min(input.len())],
    };
    let last = read.iter().rposition(|byte| *byte == b'\n');
    last.map_or(0, |end| end + 1)
}

/// The length of a head that is complete: up to its first empty line behind another one. A line may end with LF alone.
fn head_end(input: &[u8]) -> usize {
    let (mut length, mut is_begun) = (0, false);
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        length += line.len();
        let is_empty = matches!(line, b"\r\n" | b"\n");
        if is_empty && is_begun {
            break;
        }
        is_begun |= !is_empty;
    }
    length
}

#[cfg(test)]
mod tests {
    use sluice_wire::h1::{FieldFault, RequestError, RequestFault};

    use super::{first_line, head_bytes};

    #[test]
    fn refused_requests_have_their_line_and_length_logged() {
        assert_eq!(first_line(b"\r\nGET /\x01 x\r\nA: b"), b"GET /\x01 x");
        assert_eq!(first_line(b""), b"");
        assert_eq!(first_line(&[b'x'; 9000]).len(), 8192);
        let input = b"GET / HTTP/1.1\r\nA: b\r\nC d\r\n\r\nrest";
        let of = |fault, offset| head_bytes(input, Some(&RequestError { fault, offset }));
        assert_eq!(head_bytes(&input[..20], None), 16);
        assert_eq!(of(RequestFault::Method, 3), 0);
        assert_eq!(of(RequestFault::Field(FieldFault::NoColon), 24), 22);
        assert_eq!(of(RequestFault::HostMissing, 0), 29);
        let bare = b"\nGET / HTTP/1.1\nA: b\n\nrest";
        let fault = RequestFault::HostMissing;
        let error = RequestError { fault, offset: 0 };
        assert_eq!(head_bytes(bare, Some(&error)), 22);
    }
}
