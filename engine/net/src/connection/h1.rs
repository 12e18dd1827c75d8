//! The life of an HTTP/1 connection: head, answer, next head. Its parts are in the modules beside.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_message::Moment;
use sluice_wire::h1::{
    self as wire, BodyFraming, Expectation, KeepAlive, RequestError, RequestFault, RequestFraming,
};

use super::answer::{Asker, answer};
use super::body::H1Body;
use super::head::{Awaited, start_of};
use super::send::{Ended, Patience, Sending};
use super::{BodyState, Connection, HeadWait, Next, client_failure, h2, linger, take_exchange};
use crate::body::{Body, BodyStream, RequestBody, Tunnel};
use crate::clock;
use crate::failure::Failure;
use crate::interims::Interim;
use crate::limits::{DRAIN_BYTES_MAX, FIRST_HEAD_TIMEOUT, PIPELINE_BURST_MAX};
use crate::service::{Binding, Completion, Ending, Exchange, Service, Settings};
use crate::tunnel;

impl<S: Service> Asker for Connection<S> {
    fn tell(&self, interim: &Interim) {
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

impl<S: Service> Connection<S> {
    /// Serves request after request, to the end of the connection.
    pub(crate) async fn run(&mut self) {
        // Boxed, here and below: what is rare shall not take room in every connection.
        if self.is_secure() {
            if !Box::pin(self.secure()).await {
                return;
            }
            if self.info.tls.as_ref().is_some_and(|tls| tls.alpn == b"h2") {
                return Box::pin(h2::serve(self)).await;
            }
        }
        // Who has connected and not asked is worth no more than who has asked and been answered.
        self.link
            .timer
            .set_yielding(&self.link.worker.clock, FIRST_HEAD_TIMEOUT);
        loop {
            match self.serve_next().await {
                Next::Reuse => {
                    self.is_new = false;
                    self.link
                        .timer
                        .set_idle(&self.link.worker.clock, self.keep_alive_timeout);
                    self.burst += 1;
                    if self.burst > PIPELINE_BURST_MAX && !self.link.input.borrow().is_empty() {
                        self.burst = 0;
                        tokio::task::yield_now().await;
                    }
                }
                Next::Linger => return Box::pin(linger::close(&self.link)).await,
                Next::Drop => return,
                Next::Http2 => return Box::pin(h2::serve(self)).await,
                Next::Tunnel(peer) => return Box::pin(self.tunnel(peer)).await,
            }
        }
    }

    async fn tunnel(&mut self, peer: Box<Tunnel>) {
        let received = std::mem::take(&mut *self.link.input.borrow_mut());
        tunnel::join(&self.link.stream, received, *peer, &self.link.worker).await;
    }

    async fn serve_next(&mut self) -> Next {
        self.head_wait = HeadWait::Nothing;
        // While nothing has come a connection holds no exchange: that is most of its memory.
        if self.link.input.borrow().is_empty() {
            self.link.rest();
            if poll_fn(|cx| self.poll_first_byte(cx)).await.is_err() {
                return Next::Drop;
            }
        }
        let binding = self.slot.binding();
        let mut x = take_exchange(&self.shared, &self.info);
        let settings = binding.service.settings();
        let awaited = poll_fn(|cx| self.poll_head(cx, &mut x.req, settings)).await;
        let next = match awaited {
            Awaited::Closed => Next::Drop,
            Awaited::Head(_) if !binding.protocols.h1 => {
                let fault = RequestFault::VersionUnsupported;
                let error = RequestError { fault, offset: 0 };
                Box::pin(self.refuse(&binding, &mut x, Some(error))).await
            }
            Awaited::Head(framing) => {
                self.begin(&mut x, framing, settings);
                let worker = &self.link.worker;
                let answered = answer(&*binding.service, &mut x, worker, &*self).await;
                let until = binding.service.write_until(&x);
                let mut sending = self.begin_sending(&mut x, answered, settings, until);
                let ended = poll_fn(|cx| sending.poll(cx, &x)).await;
                drop(sending);
                match self.end(&binding.service, &mut x, ended) {
                    Next::Reuse if !self.is_body_finished() => {
                        Box::pin(self.clear_body(settings.body_idle_timeout)).await
                    }
                    next => next,
                }
            }
            Awaited::Refused(error) if self.is_preface(&error, &binding) => Next::Http2,
            Awaited::Refused(error) => Box::pin(self.refuse(&binding, &mut x, Some(error))).await,
            Awaited::TimedOut => Box::pin(self.refuse(&binding, &mut x, None)).await,
        };
        binding.service.reset(&mut x.context);
        x.body = RequestBody::None;
        self.shared.give_back(x);
        next
    }

    /// Whether the client begins to speak HTTP/2 without asking (RFC 9113, section 3.3), and may.
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

    /// Prepares for the answer to a request whose head is here.
    fn begin(
        &mut self,
        x: &mut Exchange<S::Context>,
        framing: RequestFraming,
        settings: &Settings,
    ) {
        self.keep_alive_timeout = settings.keep_alive_timeout;
        self.link.timer.clear();
        let requests = &self.info.facts.requests;
        requests.set(requests.get() + 1);
        self.link.body_bytes.set(0);
        *self.link.body.borrow_mut() = BodyState::Finished;
        x.started = start_of(settings, &self.link.worker.clock);
        x.close = framing.keep_alive == KeepAlive::Close || self.is_ending();
        x.res.clear();
        x.inline.clear();
        if framing.body != BodyFraming::None {
            let awaits = framing.expectation == Expectation::Continue;
            let timeout = settings.body_idle_timeout;
            let body = H1Body::new(&self.link, framing.body, &settings.h1, awaits, timeout);
            x.body = RequestBody::Stream(Box::new(body));
        }
    }

    /// Records how an exchange ended.
    fn end(&self, service: &S, x: &mut Exchange<S::Context>, ended: Ended) -> Next {
        // What a handler took and forgot is given back before the rest of it is looked at.
        x.body = RequestBody::None;
        let completion = Completion {
            ending: ended.ending,
            body_bytes_sent: ended.content_sent,
            body_bytes_read: self.link.body_bytes.get(),
            duration: self.duration_of(x.started, service.settings().exact_times),
        };
        service.record(x, &completion);
        ended.next
    }

    fn duration_of(&self, started: sluice_message::Moment, exact: bool) -> Duration {
        let now = if exact {
            clock::now()
        } else {
            self.link.worker.clock.coarse()
        };
        now.since(started)
    }

    /// Begins to send an answer, if there is one.
    fn begin_sending(
        &self,
        x: &mut Exchange<S::Context>,
        answered: Result<Body, Failure>,
        settings: &Settings,
        until: Option<Moment>,
    ) -> Sending<'_> {
        let body = match answered {
            Err(failure) => return Sending::Nothing(Some(Ending::Failed(failure))),
            Ok(Body::Abort) => return Sending::Nothing(Some(Ending::Aborted)),
            Ok(body) => body,
        };
        if !self.is_body_finished() && !self.body_can_end(x) {
            x.close = true;
        }
        let patience = Patience {
            idle: settings.write_idle_timeout,
            until,
        };
        Sending::new(&self.link, patience, x, body)
    }

    fn is_body_finished(&self) -> bool {
        matches!(*self.link.body.borrow(), BodyState::Finished)
    }

    /// Whether what is unread of the request is worth reading to keep the connection.
    fn body_can_end(&self, x: &Exchange<S::Context>) -> bool {
        match &*self.link.body.borrow() {
            BodyState::Finished => true,
            // Still in the exchange, or with the body of the answer, which may read it to its end.
            BodyState::Lent => x.body.len().is_none_or(|left| left <= DRAIN_BYTES_MAX),
            BodyState::Unread(unread) => {
                !unread.awaits_continue()
                    && unread.left().is_none_or(|left| left <= DRAIN_BYTES_MAX)
            }
            BodyState::Broken => false,
        }
    }

    /// Reads what the handler left of the request, within limits, so that it is not taken for the next one.
    async fn clear_body(&self, idle_timeout: Duration) -> Next {
        let state = std::mem::replace(&mut *self.link.body.borrow_mut(), BodyState::Finished);
        let unread = match state {
            BodyState::Finished => return Next::Reuse,
            BodyState::Lent | BodyState::Broken => return Next::Linger,
            BodyState::Unread(unread) => unread,
        };
        if unread.awaits_continue() {
            return Next::Linger;
        }
        let mut body = H1Body::resume(&self.link, *unread, idle_timeout);
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
        x: &mut Exchange<S::Context>,
        error: Option<RequestError>,
    ) -> Next {
        let settings = binding.service.settings();
        x.res.clear();
        x.inline.clear();
        x.close = true;
        x.started = start_of(settings, &self.link.worker.clock);
        self.link.timer.clear();
        let body = match error {
            Some(error) => binding.service.refuse(x, error.status(), &error),
            None => binding.service.time_out(x),
        };
        x.close = true;
        self.link.body_bytes.set(0);
        let mut sending = self.begin_sending(x, Ok(body), settings, None);
        let ended = poll_fn(|cx| sending.poll(cx, x)).await;
        self.end(&binding.service, x, ended)
    }
}
