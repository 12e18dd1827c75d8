//! An HTTP/1 request body, read from the connection by the handler. It is read into a separate buffer and decoded in
//! place; bytes of the next request go back to the connection.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_message::Fields;
use sluice_policy::data_rate::Verdict;
use sluice_policy::{MinDataRate, Pace};
use sluice_wire::h1::{BodyDecoder, BodyFraming};

use super::{BodyState, Link, client_failure};
use crate::body::BodyStream;
use crate::body_hold::BodyHold;
use crate::failure::{Failure, FailureKind, Side};
use crate::limits::{BODY_BUFFER_BYTES, READ_BUFFER_BYTES, STALLED_BYTES_MAX};
use crate::service::ClientLimits;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The body of the current request.
pub(crate) struct H1Body {
    link: Rc<Link>,
    unread: Unread,
    /// Range of decoded content in `unread.buf` that was returned and not yet consumed.
    data: (usize, usize),
    stage: Stage,
    hold: BodyHold,
    idle_timeout: Duration,
    pace: Pace,
}

/// How far the body has been read.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// More is to come.
    Open,
    /// All of it has been read; once it is consumed, the connection gets its input back.
    Whole,
    /// The connection has its input back.
    Ended,
}

/// A body that has not been read to its end.
pub(crate) struct Unread {
    buf: Vec<u8>,
    /// Everything before this offset of `buf` has been consumed.
    done: usize,
    decoder: BodyDecoder,
    /// Content still to come, if its length is known.
    left: Option<u64>,
    expects: Expects,
}

/// Whether the client waits for `100 Continue` before it sends the body (RFC 9110, section 10.1.1).
#[derive(Clone, Copy, PartialEq)]
enum Expects {
    Nothing,
    Continue,
}

impl Unread {
    /// Whether the client still waits for `100 Continue`, so that nothing of the body will arrive.
    pub(crate) fn awaits_continue(&self) -> bool {
        self.expects != Expects::Nothing
    }

    /// Content still to come, if its length is known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.left
    }
}

impl H1Body {
    /// Takes over the connection's input for a body with this framing, behind a head of so many bytes: removing them would
    /// move what has arrived of the body.
    pub(super) fn new(
        link: &Rc<Link>,
        (framing, head): (BodyFraming, usize),
        limits: &sluice_wire::h1::Limits,
        awaits_continue: bool,
        client: &ClientLimits,
    ) -> Self {
        let buf = std::mem::take(&mut *link.input.borrow_mut());
        *link.body.borrow_mut() = BodyState::Lent;
        let left = match framing {
            BodyFraming::Length(length) => Some(length),
            BodyFraming::None => Some(0),
            BodyFraming::Chunked | BodyFraming::UntilClose => None,
        };
        // If content has already arrived, the client does not wait for `100 Continue`.
        let expects = if awaits_continue && buf.len() == head {
            Expects::Continue
        } else {
            Expects::Nothing
        };
        let decoder = BodyDecoder::new(framing, limits);
        let unread = Unread {
            buf,
            done: head,
            decoder,
            left,
            expects,
        };
        H1Body {
            link: link.clone(),
            unread,
            data: (0, 0),
            stage: Stage::Open,
            hold: BodyHold::New,
            idle_timeout: client.body_idle_timeout,
            pace: Pace::new(client.min_rate),
        }
    }

    /// Continues a body that an earlier reader left.
    pub(super) fn resume(link: &Rc<Link>, unread: Unread, client: &ClientLimits) -> Self {
        *link.body.borrow_mut() = BodyState::Lent;
        H1Body {
            link: link.clone(),
            unread,
            data: (0, 0),
            stage: Stage::Open,
            hold: BodyHold::Begun,
            idle_timeout: client.body_idle_timeout,
            pace: Pace::new(client.min_rate),
        }
    }

    fn break_off(&mut self, failure: Failure) -> Failure {
        *self.link.body.borrow_mut() = BodyState::Broken;
        failure
    }

    fn end(&mut self) {
        self.stage = Stage::Ended;
        let Unread { buf, done, .. } = &mut self.unread;
        buf.drain(..*done);
        *self.link.input.borrow_mut() = std::mem::take(buf);
        *done = 0;
        *self.link.body.borrow_mut() = BodyState::Finished;
        let bytes = self.link.body_bytes.get();
        self.link.sends_bulk.set(bytes > READ_BUFFER_BYTES as u64);
    }

    /// Decodes the bytes read so far, merging small chunks; returns whether there is content or the end was reached.
    fn decode(&mut self) -> Result<bool, Failure> {
        let Unread {
            buf, done, decoder, ..
        } = &mut self.unread;
        match decoder.decode_merged(&mut buf[*done..]) {
            Ok(step) => {
                self.data = (*done + step.content.start, *done + step.content.end);
                *done += step.consumed;
                if step.ended {
                    self.stage = Stage::Whole;
                }
                Ok(step.ended || !step.content.is_empty())
            }
            Err(error) => {
                let failure = Failure::new(Side::Client, FailureKind::Protocol);
                Err(self.break_off(failure.because(error.to_string())))
            }
        }
    }

    /// Reads once; ready with the number of bytes.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        let mut stream = self.link.stream.borrow_mut();
        let unread = &mut self.unread;
        if unread.expects == Expects::Continue {
            unread.expects = Expects::Nothing;
            let ahead = &self.link.ahead;
            ahead.push(|out| out.extend_from_slice(CONTINUE));
            // If the client does not accept it now, it is sent once the socket is writable; the body is read
            // regardless.
            if let Poll::Ready(Err(error)) = ahead.poll_send(&mut stream, cx) {
                return Poll::Ready(Err(client_failure(error)));
            }
        }
        let Unread { buf, done, .. } = unread;
        buf.drain(..*done);
        *done = 0;
        // A large read pays off if much is still to come; the small buffer was for the head.
        if buf.is_empty() && buf.capacity() < BODY_BUFFER_BYTES {
            let buffers = &self.link.worker.buffers;
            let large = match self.link.sends_bulk.get() {
                true => buffers.bulk(),
                false => buffers.large(),
            };
            self.link
                .worker
                .buffers
                .give_back(std::mem::replace(buf, large));
        }
        if buf.len() == buf.capacity() {
            buf.reserve(READ_BUFFER_BYTES);
        }
        match stream.poll_read(cx, buf) {
            Poll::Ready(Ok(0)) => {
                drop(stream);
                let failure = Failure::new(Side::Client, FailureKind::Closed);
                Poll::Ready(Err(self.break_off(failure)))
            }
            Poll::Ready(Ok(count)) => Poll::Ready(Ok(count)),
            Poll::Ready(Err(error)) => {
                drop(stream);
                Poll::Ready(Err(self.break_off(client_failure(error))))
            }
            Poll::Pending => {
                drop(stream);
                self.rest();
                Poll::Pending
            }
        }
    }

    /// Frees the buffer while nothing arrives: thousands of clients may stall in the middle of their bodies.
    fn rest(&mut self) {
        let buf = &mut self.unread.buf;
        if buf.len() <= STALLED_BYTES_MAX && buf.capacity() > STALLED_BYTES_MAX {
            // A copy of an empty buffer does not allocate.
            let begun = buf.to_vec();
            let buf = std::mem::replace(buf, begun);
            self.link.worker.buffers.give_back(buf);
        }
    }

    fn poll_more_in_time(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if let Err(failure) = ready!(self.hold.poll(&self.link.worker, cx)) {
            return Poll::Ready(Err(self.break_off(failure)));
        }
        let now = self.link.worker.clock.coarse();
        if let Poll::Ready(more) = self.poll_more(cx) {
            self.link.timer.clear();
            return Poll::Ready(more.map(|count| self.pace.moved(count as u64, now)));
        }
        let link = self.link.clone();
        if self.pace.wait(now) == Verdict::TooSlow {
            link.timer.clear();
            link.worker.counters.requests_too_slow.up();
            return Poll::Ready(Err(self.break_off(Failure::too_slow())));
        }
        if !link.timer.is_set() {
            link.timer.set(&link.worker.clock, self.idle_timeout);
        }
        ready!(link.timer.poll_expired(cx));
        // The response to this gets a timeout of its own.
        link.timer.clear();
        Poll::Ready(Err(
            self.break_off(Failure::new(Side::Client, FailureKind::Timeout))
        ))
    }
}

impl BodyStream for H1Body {
    fn set_idle_timeout(&mut self, timeout: Duration) {
        self.idle_timeout = timeout;
    }

    fn set_min_rate(&mut self, rate: Option<MinDataRate>) {
        self.pace.set_rate(rate);
    }

    fn len(&self) -> Option<u64> {
        self.unread.left
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        while self.data.0 == self.data.1 {
            match self.stage {
                Stage::Open => {}
                Stage::Whole => self.end(),
                Stage::Ended => return Poll::Ready(Ok(&[])),
            }
            if self.stage == Stage::Open && !self.decode()? {
                ready!(self.poll_more_in_time(cx))?;
            }
        }
        Poll::Ready(Ok(&self.unread.buf[self.data.0..self.data.1]))
    }

    fn consume(&mut self, count: usize) {
        assert!(
            count <= self.data.1 - self.data.0,
            "only what was shown is consumed"
        );
        self.data.0 += count;
        if self.data.0 < self.data.1 {
            // The receiver is slow, and what it has not taken stays in the buffer.
            self.link.sends_bulk.set(false);
        }
        self.link
            .body_bytes
            .set(self.link.body_bytes.get() + count as u64);
        if let Some(left) = &mut self.unread.left {
            *left -= count as u64;
            if *left == 0 && self.stage != Stage::Ended {
                self.end();
            }
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.unread.decoder.take_trailers()
    }
}

impl Drop for H1Body {
    fn drop(&mut self) {
        if self.stage == Stage::Ended || !self.link.is_lent() {
            let buf = std::mem::take(&mut self.unread.buf);
            self.link.worker.buffers.give_back(buf);
            return;
        }
        let shown = self.data.1 - self.data.0;
        if let Some(left) = &mut self.unread.left {
            *left -= shown as u64;
        }
        let decoder = BodyDecoder::new(BodyFraming::None, &Default::default());
        let hollow = Unread {
            buf: Vec::new(),
            done: 0,
            decoder,
            left: None,
            expects: Expects::Nothing,
        };
        let unread = std::mem::replace(&mut self.unread, hollow);
        *self.link.body.borrow_mut() = BodyState::Unread(Box::new(unread));
    }
}
