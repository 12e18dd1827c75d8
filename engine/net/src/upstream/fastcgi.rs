//! What a call to a FastCGI application has beside one over HTTP: records around the answer, its CGI head, what the
//! application complains of, and when its connections are kept. Sending and receiving are left to `call` and
//! `answer`.

use std::ops::Range;
use std::task::Context;

use sluice_message::{Method, ResponseHead, Status};
use sluice_wire::fastcgi::{AnswerDecoder, AnswerFault, HeadDecoder, Refused, Stderr};
use sluice_wire::h1::{BodyFraming, KeepAlive, Limits, Progress, ResponseFraming, ResponseKind};

use crate::failure::{Failure, FailureKind, Side};
use crate::timer::Timer;
use crate::upstream::limits::{CROWDED_TIME, PATIENCE};
use crate::upstream::link::{Link, Origin};
use crate::upstream::link_call::garbage;
use crate::worker::Worker;

/// Is told what an application wrote to standard error during one answer, and the status of the answer, if it came
/// that far. Not called where it wrote nothing.
pub type Complaints = Box<dyn FnOnce(&Stderr, Option<Status>)>;

/// The records of one answer.
pub(super) struct Records {
    decoder: AnswerDecoder,
    head: HeadDecoder,
    /// Before this what was received is content of the answer, behind it raw.
    content_end: usize,
    progress: Heard,
    status: Option<Status>,
    complaints: Option<Complaints>,
    patience: Option<Timer>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    Nothing,
    Something,
}

impl Records {
    pub fn new(limits: Limits) -> Box<Records> {
        Box::new(Records {
            decoder: AnswerDecoder::new(),
            head: HeadDecoder::new(limits),
            content_end: 0,
            progress: Heard::Nothing,
            status: None,
            complaints: None,
            patience: None,
        })
    }

    /// Keeps what the application writes to standard error, and tells it in the end.
    pub fn listen(&mut self, complaints: Complaints) {
        self.decoder = AnswerDecoder::keeping_stderr();
        self.complaints = Some(complaints);
    }

    /// Whether anything came.
    pub fn has_heard(&self) -> bool {
        self.progress == Heard::Something
    }

    /// Whether the application has ended its answer.
    pub fn is_done(&self) -> bool {
        self.decoder.is_done()
    }

    /// The head, once all of it is among `received`, whose content is moved together at its start; also how much of
    /// that the head takes.
    pub fn decode_head(
        &mut self,
        received: &mut Vec<u8>,
        method: &Method,
        head: &mut ResponseHead,
    ) -> Result<Option<(usize, ResponseFraming)>, Failure> {
        let raw = self.content_end;
        let (content, next) = self.decode_raw(received, raw)?;
        self.content_end = raw + content.len();
        received.copy_within(content, raw);
        received.drain(self.content_end..next);
        let decoded = self
            .head
            .decode(&received[..self.content_end], head)
            .map_err(garbage)?;
        match decoded {
            Progress::Complete {
                consumed,
                value: length,
            } => {
                self.status = Some(head.status);
                Ok(Some((consumed, framing(head.status, method, length))))
            }
            Progress::Incomplete if self.is_done() => Err(garbage(NoHead)),
            Progress::Incomplete => Ok(None),
        }
    }

    /// Where in `received` content of the answer now stands that was not looked at, from `at` on, and what comes
    /// after it.
    pub fn decode(
        &mut self,
        received: &mut [u8],
        at: usize,
    ) -> Result<(Range<usize>, usize), Failure> {
        // What came together with the head.
        let content_end = std::mem::take(&mut self.content_end);
        if at < content_end {
            return Ok((at..content_end, content_end));
        }
        self.decode_raw(received, at)
    }

    fn decode_raw(
        &mut self,
        received: &mut [u8],
        at: usize,
    ) -> Result<(Range<usize>, usize), Failure> {
        let raw = &mut received[at..];
        if !raw.is_empty() {
            self.progress = Heard::Something;
            self.patience = None;
        }
        let step = self.decoder.decode_merged(raw).map_err(failure)?;
        let content = at + step.content.start..at + step.content.end;
        Ok((content, at + step.consumed))
    }

    /// The connection has ended here: only an answer that the application has ended itself is whole.
    pub fn finish_at_eof(&self) -> Result<(), AnswerFault> {
        self.decoder.finish_at_eof()
    }

    /// Notes that the request was sent and nothing comes. If nothing comes on a new connection for long, then maybe
    /// because nobody has accepted it: all processes of the application may sit on connections that we keep, each
    /// waiting for its next request. So those are given up, and none is kept for a while.
    pub fn wait(&mut self, cx: &mut Context<'_>, worker: &Worker, link: &Link) {
        if self.has_heard() || link.origin == Origin::Kept {
            return;
        }
        let patience = self.patience.get_or_insert_with(|| {
            let timer = worker.timers.timer();
            // The coarse time may be as old as the patience is long: hundreds of connections at once would all seem
            // to wait.
            worker.clock.tick();
            timer.set(&worker.clock, PATIENCE);
            timer
        });
        if patience.poll_expired(cx).is_ready() {
            let now = worker.clock.coarse();
            link.endpoint.keep_none_until(now + CROWDED_TIME);
            worker.upstreams.sweep(now);
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        let stderr = self.decoder.stderr();
        if let Some(complaints) = self.complaints.take()
            && !stderr.text.is_empty()
        {
            complaints(stderr, self.status);
        }
    }
}

/// An answer that ended before its head did.
#[derive(Debug)]
struct NoHead;

impl std::fmt::Display for NoHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("answer without a head")
    }
}

impl std::error::Error for NoHead {}

fn failure(fault: AnswerFault) -> Failure {
    match fault {
        AnswerFault::Refused(Refused::Overloaded) => {
            Failure::new(Side::Upstream, FailureKind::Unavailable).because(fault)
        }
        fault => garbage(fault),
    }
}

/// How the body ends within the content of the records.
fn framing(status: Status, method: &Method, length: Option<u64>) -> ResponseFraming {
    let body = match length {
        _ if status.is_bodiless() || *method == Method::Head => BodyFraming::None,
        Some(length) => BodyFraming::Length(length),
        // Until the application ends it.
        None => BodyFraming::UntilClose,
    };
    ResponseFraming {
        body,
        keep_alive: KeepAlive::Reuse,
        kind: ResponseKind::Final,
    }
}
