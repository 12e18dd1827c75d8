//! What calls over FastCGI, SCGI, uwsgi and memcached need beyond HTTP: the CGI response head, FastCGI records, the
//! application's standard error, and conditions for pooling. `link_call` and `upstream_response` send and receive, and
//! an idle connection keeps the decoder of its last response for the next one.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_message::{Method, ResponseHead, Status};
use sluice_wire::fastcgi::{HeadDecoder, Refused, ResponseDecoder, ResponseFault, Stderr};
use sluice_wire::h1::{BodyFraming, KeepAlive, Limits, Progress, ResponseFraming, ResponseKind};

use crate::failures::{cut_off, garbage};
use crate::limits::END_RECORD_TIMEOUT;
use crate::memcached::Value;
use sluice_net::failure::{Failure, FailureKind, Side};
use sluice_net::timer::Timer;
use sluice_net::worker::Worker;

/// Called with what an application wrote to standard error during one response, and the status of the response, if it
/// got that far. Not called if it wrote nothing.
pub type Complaints = Box<dyn FnOnce(&Stderr, Option<Status>)>;

/// The decoder of one response, with or without FastCGI records.
pub(crate) struct Records {
    /// Extracts the content from records; `None` if there are no records and everything up to the end of the connection
    /// is content.
    decoder: Option<ResponseDecoder>,
    head: HeadDecoder,
    /// Decodes everything if the upstream is memcached.
    value: Option<Value>,
    /// In the received data, decoded content ends here; raw data follows.
    content_end: usize,
    progress: Heard,
    status: Option<Status>,
    complaints: Option<Complaints>,
    /// Texts on standard error that invalidate the response while its head is awaited.
    caught: Option<Arc<[Box<str>]>>,
    end_timer: Option<Timer>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    Nothing,
    Something,
}

impl Records {
    /// For a FastCGI response.
    pub fn new(limits: Limits) -> Box<Records> {
        Box::new(Records::in_records(limits))
    }

    /// Like [`Records::new`], in the memory of `spare`, if there is one.
    pub fn reusing(spare: Option<Box<Records>>, limits: Limits) -> Box<Records> {
        match spare {
            Some(mut records) => {
                *records = Records::in_records(limits);
                records
            }
            None => Records::new(limits),
        }
    }

    /// For an SCGI or uwsgi response.
    pub fn none(limits: Limits) -> Box<Records> {
        Box::new(Records::read_by(
            None,
            HeadDecoder::with_status_line(limits),
        ))
    }

    /// For a memcached value.
    pub fn of_value(value: Value, limits: Limits) -> Box<Records> {
        let mut records = Records::none(limits);
        records.value = Some(value);
        records
    }

    fn in_records(limits: Limits) -> Records {
        Records::read_by(Some(ResponseDecoder::new()), HeadDecoder::new(limits))
    }

    fn read_by(decoder: Option<ResponseDecoder>, head: HeadDecoder) -> Records {
        Records {
            decoder,
            head,
            value: None,
            content_end: 0,
            progress: Heard::Nothing,
            status: None,
            complaints: None,
            caught: None,
            end_timer: None,
        }
    }

    /// Its memory for [`Records::reusing`], once its response has ended.
    pub fn into_spare(mut self: Box<Self>) -> Option<Box<Records>> {
        self.report();
        // What was collected is not kept with the connection.
        *self.decoder.as_mut()? = ResponseDecoder::new();
        Some(self)
    }

    /// Reports what the application wrote to standard error, if it is collected.
    fn report(&mut self) {
        if let Some(decoder) = &self.decoder
            && let Some(complaints) = self.complaints.take()
            && !decoder.stderr().text.is_empty()
        {
            complaints(decoder.stderr(), self.status);
        }
    }

    /// Collects what the application writes to standard error, and passes it to `complaints` in the end.
    pub fn listen(&mut self, complaints: Complaints) {
        if let Some(decoder) = &mut self.decoder {
            *decoder = ResponseDecoder::keeping_stderr();
            self.complaints = Some(complaints);
        }
    }

    /// Treats a response as invalid if one of these texts is written to standard error before its head is complete.
    /// Requires [`Records::listen`].
    pub fn catch(&mut self, texts: &Arc<[Box<str>]>) {
        self.caught = Some(texts.clone());
    }

    /// Whether anything was received.
    pub fn has_heard(&self) -> bool {
        self.progress == Heard::Something
    }

    /// Whether the application has ended its response.
    pub fn is_done(&self) -> bool {
        if let Some(value) = &self.value {
            return value.is_done();
        }
        self.decoder.as_ref().is_some_and(ResponseDecoder::is_done)
    }

    /// Whether the connection can be reused once the content is complete: [`Records::rest`] reads what is still to
    /// come.
    pub fn leaves_order(&self) -> bool {
        self.is_done() || self.decoder.is_some()
    }

    /// The decoder for the rest of the response, once its content is complete.
    pub fn rest(&self) -> Option<Box<ResponseDecoder>> {
        self.decoder
            .as_ref()
            .map(|decoder| Box::new(decoder.rest()))
    }

    /// Decodes the head once all of it is in `received`, compacting the content at the beginning; also returns the
    /// length of the head.
    pub fn decode_head(
        &mut self,
        received: &mut Vec<u8>,
        method: &Method,
        head: &mut ResponseHead,
    ) -> Result<Option<(usize, ResponseFraming)>, Failure> {
        if let Some(value) = &mut self.value {
            self.progress = Heard::Something;
            let found = value.decode_head(received, method, head)?;
            self.content_end = 0;
            return Ok(found);
        }
        let raw = self.content_end;
        let (content, next) = self.decode_raw(received, raw)?;
        self.look_at_stderr()?;
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
                let keep_alive = match self.decoder {
                    Some(_) => KeepAlive::Reuse,
                    None => KeepAlive::Close,
                };
                let framing = framing(head.status, method, length, keep_alive);
                Ok(Some((consumed, framing)))
            }
            Progress::Incomplete if self.is_done() => Err(garbage(NoHead)),
            Progress::Incomplete => Ok(None),
        }
    }

    fn look_at_stderr(&self) -> Result<(), Failure> {
        let (Some(decoder), Some(caught)) = (&self.decoder, &self.caught) else {
            return Ok(());
        };
        let said = &decoder.stderr().text;
        match caught.iter().any(|text| holds(said, text.as_bytes())) {
            true => Err(garbage(Caught)),
            false => Ok(()),
        }
    }

    /// Decodes `received` from `at` on: returns the range of new content, and where to continue.
    pub fn decode(
        &mut self,
        received: &mut [u8],
        at: usize,
    ) -> Result<(Range<usize>, usize), Failure> {
        if let Some(value) = &mut self.value {
            return value.decode(received, at);
        }
        // Content that arrived together with the head.
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
            self.end_timer = None;
        }
        let Some(decoder) = &mut self.decoder else {
            return Ok((at..received.len(), received.len()));
        };
        let step = decoder.decode_merged(raw).map_err(failure)?;
        let content = at + step.content.start..at + step.content.end;
        Ok((content, at + step.consumed))
    }

    /// Checks for truncation at the end of the connection: with records, a response is complete only if the application
    /// has ended it.
    pub fn finish_at_eof(&self) -> Result<(), Failure> {
        if let Some(value) = &self.value {
            return value.finish_at_eof().map_err(cut_off);
        }
        match &self.decoder {
            Some(decoder) => decoder.finish_at_eof().map_err(cut_off),
            None => Ok(()),
        }
    }

    /// Polled when the request was sent on a new connection and nothing arrives. Ready if nothing has for long: the
    /// application may not have accepted the connection.
    pub fn poll_unaccepted(&mut self, cx: &mut Context<'_>, worker: &Worker) -> Poll<()> {
        // Without records, connections are not pooled.
        if self.has_heard() || self.decoder.is_none() {
            return Poll::Pending;
        }
        let end_timer = self.end_timer.get_or_insert_with(|| {
            let timer = worker.timers.timer();
            // The coarse time may lag by as much as this timeout: with hundreds of simultaneous connections, all would
            // seem to wait.
            worker.clock.tick();
            timer.set(&worker.clock, END_RECORD_TIMEOUT);
            timer
        });
        end_timer.poll_expired(cx)
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.report();
    }
}

/// Whether `said` contains `text`. What is collected of standard error is short.
fn holds(said: &[u8], text: &[u8]) -> bool {
    !text.is_empty() && said.windows(text.len()).any(|part| part == text)
}

/// A response that ended before its head was complete.
#[derive(Debug)]
struct NoHead;

impl std::fmt::Display for NoHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("response without a head")
    }
}

impl std::error::Error for NoHead {}

/// Text on standard error invalidates the response.
#[derive(Debug)]
struct Caught;

impl std::fmt::Display for Caught {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("unexpected output on standard error")
    }
}

impl std::error::Error for Caught {}

fn failure(fault: ResponseFault) -> Failure {
    match fault {
        ResponseFault::Refused(Refused::Overloaded) => {
            Failure::new(Side::Upstream, FailureKind::Unavailable).because(fault)
        }
        fault => garbage(fault),
    }
}

/// The framing of the body within the content.
fn framing(
    status: Status,
    method: &Method,
    length: Option<u64>,
    keep_alive: KeepAlive,
) -> ResponseFraming {
    let body = match length {
        _ if status.is_bodiless() || *method == Method::Head => BodyFraming::None,
        Some(length) => BodyFraming::Length(length),
        // Until the application, or the connection, ends it.
        None => BodyFraming::UntilClose,
    };
    ResponseFraming {
        body,
        keep_alive,
        kind: ResponseKind::Final,
    }
}
