//! The body of an upstream response, read at the pace of the client. The client's connection forwards it.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_message::Fields;
use sluice_wire::h1::{BodyDecoder, BodyFraming, KeepAlive, ResponseFraming};

use crate::failures::{closed, cut_off, garbage};
use crate::fastcgi::Records;
use crate::link_call::LinkCall;
use crate::pool::Pool;
use crate::silence_timeout::Silence;
use sluice_net::body::{Body, BodyStream};
use sluice_net::failure::Failure;
use sluice_net::limits::{BODY_BUFFER_BYTES, BULK_BUFFER_BYTES, COPY_BYTES_MAX, READ_BUFFER_BYTES};
use sluice_net::worker::Worker;

/// The body of an upstream response. When it has ended cleanly, its connection returns to the pool; when it is dropped
/// earlier, the connection is closed.
pub struct ResponseBody {
    worker: Rc<Worker>,
    /// The call, until the body has ended.
    call: Option<LinkCall>,
    keep_alive: KeepAlive,
    decoder: BodyDecoder,
    /// Locates the content if the protocol is FastCGI, SCGI, uwsgi or memcached.
    records: Option<Box<Records>>,
    /// Received data; holds no memory while empty.
    received: Vec<u8>,
    /// The range of unconsumed content in `received`.
    content_at: usize,
    content_end: usize,
    /// How much of `received` has been decoded.
    decoded: usize,
    bytes_read: u64,
    silence: Silence,
    /// Whether the receiver has not taken all of what was read at once.
    is_receiver_slow: bool,
}

impl ResponseBody {
    pub(crate) fn new(
        mut call: LinkCall,
        framing: ResponseFraming,
        worker: Rc<Worker>,
    ) -> ResponseBody {
        let received = std::mem::take(&mut call.received);
        let records = call.records.take();
        ResponseBody {
            decoder: BodyDecoder::new(framing.body, &call.link.endpoint.options().h1),
            content_at: call.taken,
            content_end: call.taken,
            decoded: call.taken,
            records,
            silence: std::mem::take(&mut call.silence),
            worker,
            call: Some(call),
            keep_alive: framing.keep_alive,
            received,
            bytes_read: 0,
            is_receiver_slow: false,
        }
    }

    /// Moves the whole body to `out` if it has arrived, is short and has no trailers.
    pub(crate) fn take_short(&mut self, out: &mut Vec<u8>) -> Result<bool, Failure> {
        self.decode()?;
        let is_short = self.content_end - self.content_at <= COPY_BYTES_MAX;
        if !is_short || self.call.is_some() || self.decoder.trailers().is_some() {
            return Ok(false);
        }
        out.extend_from_slice(&self.received[self.content_at..self.content_end]);
        self.worker
            .buffers
            .give_back(std::mem::take(&mut self.received));
        Ok(true)
    }

    /// Decodes newly received data; ends the call at the end of the body.
    fn decode(&mut self) -> Result<(), Failure> {
        if self.records.is_some() {
            return self.decode_records();
        }
        let step = self
            .decoder
            .decode_merged(&mut self.received[self.decoded..])
            .map_err(garbage)?;
        if !step.content.is_empty() {
            self.content_at = self.decoded + step.content.start;
            self.content_end = self.decoded + step.content.end;
        }
        self.decoded += step.consumed;
        if step.ended || self.decoder.is_done() {
            self.end();
        }
        Ok(())
    }

    /// Like [`ResponseBody::decode`], for content in records.
    fn decode_records(&mut self) -> Result<(), Failure> {
        let Some(records) = &mut self.records else {
            return Ok(());
        };
        let (content, next) = records.decode(&mut self.received, self.decoded)?;
        let step = self
            .decoder
            .decode_merged(&mut self.received[content.clone()])
            .map_err(garbage)?;
        if !step.content.is_empty() {
            self.content_at = content.start + step.content.start;
            self.content_end = content.start + step.content.end;
        }
        self.decoded = next;
        if step.consumed < content.len() {
            // The application wrote more than it declared; the meaning of the rest is unknown.
            self.keep_alive = KeepAlive::Close;
        }
        if records.is_done() {
            self.decoder.finish_at_eof().map_err(cut_off)?;
            self.end();
        } else if self.decoder.is_done() {
            self.end();
        }
        Ok(())
    }

    /// The body has ended: the connection returns to the pool if both sides are done with it and nothing unexpected was
    /// received. Content of declared length may be complete before its last records arrive: these are read at the next
    /// check of the idle connection.
    fn end(&mut self) {
        let Some(mut call) = self.call.take() else {
            return;
        };
        let records = self.records.as_ref();
        let nothing_more = self.decoded == self.received.len()
            && records.is_none_or(|records| records.leaves_order());
        if nothing_more && self.keep_alive == KeepAlive::Reuse && call.upload.is_done() {
            let records = self.records.as_ref().filter(|records| !records.is_done());
            call.link.rest = records.and_then(|records| records.rest());
            call.link.spare = self.records.take().and_then(Records::into_spare);
            Pool::of(&self.worker).put(call.link, self.worker.clock.coarse());
        }
    }

    /// Makes room for a read: everything received so far has been decoded and consumed.
    fn make_room(&mut self) {
        (self.content_at, self.content_end, self.decoded) = (0, 0, 0);
        let small_max = READ_BUFFER_BYTES as u64;
        let wants_large = self
            .decoder
            .remaining()
            .is_none_or(|remaining| remaining > small_max);
        let set = self
            .call
            .as_ref()
            .and_then(|call| call.link.endpoint.options().read_bytes);
        let usual = match (set, self.is_receiver_slow) {
            (Some(bytes), _) => bytes,
            (None, true) => BODY_BUFFER_BYTES,
            (None, false) => BULK_BUFFER_BYTES,
        };
        let capacity = self.received.capacity();
        let buffers = &self.worker.buffers;
        if capacity == 0 || (wants_large && capacity != usual) {
            let fresh = match (wants_large, set) {
                (false, _) => buffers.small(),
                (true, None) if self.is_receiver_slow => buffers.large(),
                (true, None) => buffers.bulk(),
                // A configured size, which does not come from the worker's buffer pool.
                (true, Some(bytes)) => Vec::with_capacity(bytes),
            };
            buffers.give_back(std::mem::replace(&mut self.received, fresh));
        } else {
            self.received.clear();
        }
    }

    /// Receives at least one byte, or finds that the body has ended.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.make_room();
        let Some(call) = &mut self.call else {
            return Poll::Ready(Ok(()));
        };
        let polled = call.link.stream.poll_read(cx, &mut self.received);
        if polled.is_pending() {
            self.worker
                .buffers
                .give_back(std::mem::take(&mut self.received));
            let limit = call.link.endpoint.options().timeouts.read;
            let failed = ready!(self.silence.poll(cx, &self.worker, limit, self.bytes_read));
            return Poll::Ready(Err(failed));
        }
        match ready!(polled) {
            Ok(0) => {
                if let Some(records) = &self.records {
                    records.finish_at_eof()?;
                }
                self.decoder.finish_at_eof().map_err(cut_off)?;
                self.call = None;
                Poll::Ready(Ok(()))
            }
            Ok(count) => {
                self.bytes_read += count as u64;
                call.upload.note_received(count);
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(closed(error))),
        }
    }
}

impl LinkCall {
    /// The response body, after its head was read. A short one that has already arrived is copied to `inline`, which
    /// must be empty; it then costs no allocation, and the connection is free again.
    pub fn into_body(
        mut self,
        worker: &Rc<Worker>,
        framing: ResponseFraming,
        inline: &mut Vec<u8>,
    ) -> Result<Body, Failure> {
        debug_assert!(inline.is_empty(), "the response's bytes stand alone");
        let here = &self.received[self.taken..];
        let length = match framing.body {
            BodyFraming::None => 0,
            BodyFraming::Length(length) => length,
            BodyFraming::Chunked | BodyFraming::UntilClose => u64::MAX,
        };
        let is_elsewhere = length > COPY_BYTES_MAX as u64 || length > here.len() as u64;
        if is_elsewhere || self.records.is_some() {
            let mut body = ResponseBody::new(self, framing, worker.clone());
            // A short chunked body has usually arrived completely, too.
            return Ok(match body.take_short(inline)? {
                true => Body::Inline,
                false => Body::Stream(Box::new(body)),
            });
        }
        let length = length as usize;
        inline.extend_from_slice(&here[..length]);
        let surplus = here.len() - length;
        worker.buffers.give_back(std::mem::take(&mut self.received));
        if surplus == 0 && framing.keep_alive == KeepAlive::Reuse && self.upload.is_done() {
            Pool::of(worker).put(self.link, worker.clock.coarse());
        }
        let none = framing.body == BodyFraming::None || length == 0;
        Ok(if none { Body::Empty } else { Body::Inline })
    }
}

impl BodyStream for ResponseBody {
    fn len(&self) -> Option<u64> {
        if self.decoder.trailers().is_some() {
            // A body with a declared length cannot have trailers.
            return None;
        }
        let here = (self.content_end - self.content_at) as u64;
        if self.call.is_none() {
            return Some(here);
        }
        self.decoder.remaining().map(|remaining| remaining + here)
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if let Some(call) = &mut self.call
            && let Poll::Ready(Err(failure)) =
                call.upload.poll(&mut call.link.stream, &self.worker, cx)
        {
            return Poll::Ready(Err(failure));
        }
        while self.content_at == self.content_end && self.call.is_some() {
            if self.decoded == self.received.len() {
                ready!(self.poll_receive(cx))?;
            }
            self.decode()?;
        }
        if self.content_at == self.content_end && self.received.capacity() > 0 {
            self.worker
                .buffers
                .give_back(std::mem::take(&mut self.received));
            (self.content_at, self.content_end, self.decoded) = (0, 0, 0);
        }
        Poll::Ready(Ok(&self.received[self.content_at..self.content_end]))
    }

    fn consume(&mut self, count: usize) {
        self.content_at += count;
        debug_assert!(
            self.content_at <= self.content_end,
            "only what was shown is taken"
        );
        if self.content_at < self.content_end {
            self.is_receiver_slow = true;
            let begin = self.content_at;
            if self.worker.buffers.shrink(&mut self.received, begin) {
                self.content_at = 0;
                self.content_end -= begin;
                self.decoded -= begin;
            }
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.decoder.trailers().cloned()
    }
}
