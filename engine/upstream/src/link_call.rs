//! A call on an exclusive connection (HTTP/1, FastCGI, SCGI, uwsgi or memcached). The response is read while the
//! request is still being sent. The layer above builds the request and handles the response; `upstream_response`
//! implements the response body.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_message::{Method, Status};
use sluice_wire::h1::{Progress, ResponseDecoder, ResponseKind};

use crate::early_look::Look;
use crate::endpoint::Protocol;
use crate::failures::{closed, garbage};
use crate::fastcgi::{Complaints, Records};
use crate::learned_keep_alive::announced_timeout;
use crate::limits::{AT_CAPACITY_TIME, INTERIM_MAX};
use crate::link::{Link, Origin};
use crate::memcached::Value;
use crate::outcome::{CallFailure, Heard, InterimResponses, Response};
use crate::pool::Pool;
use crate::silence_timeout::{Silence, shorter};
use crate::upload::{Upload, WaitsFor};
use sluice_net::body::RequestBody;
use sluice_net::failure::{Failure, FailureKind, Retry, Side};
use sluice_net::limits::READ_BUFFER_BYTES;
use sluice_net::load::Lease;
use sluice_net::stream::Stream;
use sluice_net::tunnel::{IdleTimeouts, RequestEnd, Tunnel};
use sluice_net::upstream_pool::UpstreamPool;
use sluice_net::worker::Worker;

/// A request in progress on an exclusive connection. Dropping it closes the connection.
pub struct LinkCall {
    pub(crate) link: Link,
    pub(crate) upload: Upload,
    pub(crate) lease: Option<Lease>,
    decoder: ResponseDecoder,
    /// Decodes the response if the protocol is not HTTP.
    pub(crate) records: Option<Box<Records>>,
    /// Received data; holds no memory while empty.
    pub(crate) received: Vec<u8>,
    /// How much of `received` has been consumed.
    pub(crate) taken: usize,
    interims: u32,
    interim_responses: InterimResponses,
    pub(crate) silence: Silence,
    look: Look,
}

impl LinkCall {
    /// Starts sending `upload` on `link`. `lease` is held until the response has ended.
    pub fn new(mut link: Link, upload: Upload, lease: Option<Lease>) -> LinkCall {
        let options = link.endpoint.options();
        let (records, upload) = match options.protocol {
            // A connection over which HTTP/3 was to be spoken is none of these.
            Protocol::Http1 | Protocol::Negotiated | Protocol::Http2 | Protocol::Http3 => {
                (None, upload)
            }
            Protocol::FastCgi => {
                let records = Records::reusing(link.spare.take(), options.h1.clone());
                (Some(records), upload.in_records())
            }
            Protocol::Cgi => (Some(Records::none(options.h1.clone())), upload.at_once()),
            Protocol::Memcached { gzip_flag } => {
                let value = Value::new(upload.head(), gzip_flag);
                (Some(Records::of_value(value, options.h1.clone())), upload)
            }
        };
        LinkCall {
            link,
            upload,
            lease,
            decoder: ResponseDecoder::new(),
            records,
            received: Vec::new(),
            taken: 0,
            interims: 0,
            interim_responses: InterimResponses::Keep,
            silence: Silence::default(),
            look: Look::default(),
        }
    }

    /// Forwards interim responses to the client, by way of [`Worker::interims`].
    pub fn pass_interims(&mut self) {
        self.interim_responses = InterimResponses::Pass;
    }

    /// Passes what a FastCGI application writes to standard error to `complaints`.
    pub fn listen(&mut self, complaints: Complaints) {
        if let Some(records) = &mut self.records {
            records.listen(complaints);
        }
    }

    /// Treats a response as invalid if one of these texts appears on standard error.
    pub fn catch(&mut self, texts: &Arc<[Box<str>]>) {
        if let Some(records) = &mut self.records {
            records.catch(texts);
        }
    }

    /// Sends the request; ready with the head of the final response.
    pub(crate) fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        method: &Method,
    ) -> Poll<Result<Response, Failure>> {
        loop {
            if let Poll::Ready(Err(failure)) = self.upload.poll(&mut self.link.stream, worker, cx) {
                return Poll::Ready(Err(failure));
            }
            if self.look == Look::Unknown && self.upload.is_done() {
                self.look = self.choose_look(worker);
                if self.look == Look::Early {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            match self.poll_receive(cx, worker) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => {
                    let timeouts = &self.link.endpoint.options().timeouts;
                    let limit = match (self.upload.is_done(), self.upload.waits_for()) {
                        (true, _) => shorter(timeouts.response, timeouts.read),
                        (false, WaitsFor::Upstream) => timeouts.write,
                        // A slow client is subject to its own limits.
                        (false, WaitsFor::Client) => None,
                    };
                    if self.upload.waits_for() == WaitsFor::Upstream {
                        self.note_unaccepted(cx, worker);
                    }
                    let progress = self.upload.sent();
                    return self.silence.poll(cx, worker, limit, progress).map(Err);
                }
            }
            if let Some(response) = self.decode(worker, method)? {
                return Poll::Ready(Ok(response));
            }
        }
    }

    /// How to look for the response to a request that was sent just now.
    fn choose_look(&self, worker: &Worker) -> Look {
        let is_plain = !matches!(self.link.stream, Stream::Tls(_));
        let looks = &Pool::of(worker).early_looks;
        match is_plain && looks.is_due(worker.retirement.connections()) {
            true => Look::Early,
            false => Look::Reported,
        }
    }

    /// If nothing arrives on a new connection to an application for long, the application may not have accepted it: all
    /// its processes may be blocked on our idle connections, waiting for their next request. So these are closed, and
    /// pooling is disabled for a while.
    pub(crate) fn note_unaccepted(&mut self, cx: &mut Context<'_>, worker: &Worker) {
        let is_unaccepted = match (&mut self.records, self.link.origin) {
            (Some(records), Origin::Fresh) => records.poll_unaccepted(cx, worker).is_ready(),
            (None, _) | (Some(_), Origin::Kept) => false,
        };
        if is_unaccepted {
            let now = worker.clock.coarse();
            let endpoint = &self.link.endpoint;
            endpoint.keep_none_until(now + AT_CAPACITY_TIME);
            Pool::of(worker).sweep(now);
        }
    }

    /// Receives at least one byte.
    fn poll_receive(&mut self, cx: &mut Context<'_>, worker: &Worker) -> Poll<Result<(), Failure>> {
        // The buffer is allocated only for the read: ten thousand requests may be waiting for their responses.
        if self.received.capacity() == 0 {
            // A configured size is that of what follows; the first read is for the head.
            self.received = match self.link.endpoint.options().read_bytes {
                Some(_) => worker.buffers.small(),
                None => worker.buffers.bulk(),
            };
        } else {
            self.received.reserve(READ_BUFFER_BYTES / 2);
        }
        let polled = self.poll_read(cx, worker);
        if polled.is_pending() && self.received.is_empty() {
            worker.buffers.give_back(std::mem::take(&mut self.received));
        } else if polled.is_pending() {
            worker.buffers.shrink(&mut self.received, 0);
        }
        match ready!(polled) {
            Ok(0) => Poll::Ready(Err(closed(io::ErrorKind::UnexpectedEof.into()))),
            Ok(count) => {
                self.upload.note_received(count);
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(closed(error))),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, worker: &Worker) -> Poll<io::Result<usize>> {
        let stream = &mut self.link.stream;
        if self.look == Look::Early {
            self.look = Look::Reported;
            let looks = &Pool::of(worker).early_looks;
            match stream.read_arrived(&mut self.received) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => looks.note_missed(),
                read => {
                    looks.note_found();
                    return Poll::Ready(read);
                }
            }
        }
        stream.poll_read(cx, &mut self.received)
    }

    /// The head of the final response, if all of it was received.
    fn decode(&mut self, worker: &Worker, method: &Method) -> Result<Option<Response>, Failure> {
        let mut head = Pool::of(worker).spare_head();
        if let Some(records) = &mut self.records {
            let Some((taken, framing)) =
                records.decode_head(&mut self.received, method, &mut head)?
            else {
                Pool::of(worker).give_back(head);
                self.drop_taken(worker);
                return Ok(None);
            };
            self.taken = taken;
            return Ok(Some(Response { head, framing }));
        }
        loop {
            let unread = &self.received[self.taken..];
            let decoded = self
                .decoder
                .decode(&self.link.endpoint.options().h1, unread, method, &mut head)
                .map_err(garbage)?;
            let Progress::Complete {
                consumed,
                value: framing,
            } = decoded
            else {
                Pool::of(worker).give_back(head);
                self.drop_taken(worker);
                return Ok(None);
            };
            self.taken += consumed;
            match framing.kind {
                ResponseKind::Final | ResponseKind::Switched => {
                    // Upstreams that send it do so in each response: reading it in the first one of a connection is
                    // enough.
                    if self.link.origin == Origin::Fresh
                        && let Some(timeout) = announced_timeout(&head.fields)
                    {
                        Pool::of(worker).note_announced(&self.link.endpoint, timeout);
                    }
                    return Ok(Some(Response { head, framing }));
                }
                ResponseKind::Interim => {
                    self.note_interim(head.status)?;
                    if self.interim_responses == InterimResponses::Pass {
                        worker.interims.leave(&head);
                    }
                }
            }
        }
    }

    fn note_interim(&mut self, status: Status) -> Result<(), Failure> {
        self.interims += 1;
        if self.interims > INTERIM_MAX {
            let failure = Failure::new(Side::Upstream, FailureKind::Protocol);
            return Err(failure.because("too many interim responses"));
        }
        if status == Status::CONTINUE {
            self.upload.go_on();
        }
        Ok(())
    }

    /// Removes the consumed part of `received`.
    fn drop_taken(&mut self, worker: &Worker) {
        self.received.drain(..self.taken);
        self.taken = 0;
        if self.received.is_empty() {
            worker.buffers.give_back(std::mem::take(&mut self.received));
        }
    }

    /// The request body, if all of it can be sent again: the response is not wanted.
    pub fn take_body(&mut self) -> Option<RequestBody> {
        self.upload.take_body()
    }

    pub(crate) fn fail(&mut self, failure: Failure) -> CallFailure {
        let in_records = self
            .records
            .as_ref()
            .is_some_and(|records| records.has_heard());
        let is_silent = self.received.is_empty() && self.interims == 0 && !in_records;
        let heard = if is_silent {
            Heard::Nothing
        } else {
            Heard::Something
        };
        let retry = match (failure.side, self.upload.sent(), heard) {
            (Side::Client, _, _) => Retry::Never,
            // The upstream has refused the request before processing it.
            _ if failure.kind == FailureKind::Unavailable => Retry::Always,
            (_, 0, Heard::Nothing) => Retry::Always,
            // What was received was not forwarded to the client.
            (_, _, Heard::Nothing | Heard::Something) => Retry::IfIdempotent,
        };
        CallFailure {
            failure: failure.with_retry(retry),
            origin: self.link.origin,
            heard,
            body: self.upload.take_body(),
        }
    }

    /// The connection, after a response that switched protocols.
    pub fn into_tunnel(mut self, worker: &Worker, lifetime: Option<Duration>) -> Tunnel {
        let received = self.received[self.taken..].to_vec();
        worker.buffers.give_back(std::mem::take(&mut self.received));
        Tunnel {
            peer: Box::new(self.link.stream),
            slot: Some(self.link.slot),
            received,
            lifetime,
            idle: IdleTimeouts::default(),
            lease: self.lease,
            notice: None,
            buffer_bytes: None,
            request: RequestEnd::AtEnd,
        }
    }
}
