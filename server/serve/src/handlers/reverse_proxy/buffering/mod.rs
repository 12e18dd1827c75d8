//! Request and response buffering, so that slow clients do not occupy upstreams. With temporary files, a request is
//! received completely before it is sent to an upstream, and a response is read at the upstream's pace. Without them,
//! bodies larger than the limit are streamed after that many bytes.

mod ahead;
mod rules;
mod spooled;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_message::Fields;
use sluice_net::{BodyStream, Failure, RequestBody, Worker};
use sluice_upstream::Answer;
use sluice_wire::h1::BodyFraming;

use crate::limits::BUFFER_RESPONSE_BYTES_MIN;
pub(crate) use ahead::Ahead;
use ahead::Collected as Filled;
pub(crate) use rules::Rules;

/// The buffering settings.
#[derive(Default)]
pub struct Buffering {
    /// Bytes of a request body to buffer before sending it, in memory only.
    pub request_bytes: usize,
    /// Bytes of a response body to buffer before sending it, in memory only.
    pub answer_bytes: usize,
    /// Request buffering with temporary files.
    pub spooling: Option<Spooling>,
    /// How responses do.
    pub ahead: Option<ReadAhead>,
}

/// How requests wait.
pub struct Spooling {
    /// Where they wait.
    pub rules: Arc<Rules>,
    /// Whether to buffer all request bodies, or only those without `Content-Length` if the upstream needs the length.
    pub always: bool,
}

/// How responses wait.
pub struct ReadAhead {
    /// Where they wait.
    pub rules: Arc<Rules>,
    /// Whether to buffer responses without `X-Accel-Buffering`.
    pub usually: bool,
    /// Whether to respect `X-Accel-Buffering`.
    pub obeys: bool,
}

impl Buffering {
    /// Whether all requests are received completely before they are sent to an upstream.
    pub fn spools(&self) -> bool {
        self.spooling
            .as_ref()
            .is_some_and(|spooling| spooling.always)
    }

    /// Whether to receive a request completely first; `needs_length` if the upstream needs its length.
    pub fn is_to_spool(&self, body: &RequestBody, needs_length: bool) -> bool {
        let Some(spooling) = &self.spooling else {
            return false;
        };
        !body.is_none() && (spooling.always || needs_length && body.len().is_none())
    }

    /// Receives the complete body of a request. If it does not fit, the rest is streamed.
    pub async fn spool(
        &self,
        worker: &Rc<Worker>,
        body: RequestBody,
    ) -> Result<RequestBody, Failure> {
        let (Some(spooling), RequestBody::Stream(mut body)) = (&self.spooling, body) else {
            return Ok(RequestBody::None);
        };
        // The body usually arrives with its head; leave it where it is.
        if let Some(length) = body.len() {
            let shown = poll_fn(|cx| Poll::Ready(body.poll_data(cx).map_ok(<[u8]>::len))).await;
            match shown {
                Poll::Ready(Ok(here)) if here as u64 == length => {
                    return Ok(RequestBody::Stream(body));
                }
                Poll::Ready(Err(failure)) => return Err(failure),
                Poll::Ready(Ok(_)) | Poll::Pending => {}
            }
        }
        let mut ahead = Ahead::new(worker, &spooling.rules, body);
        let filled = poll_fn(|cx| ahead.poll_collect(cx)).await?;
        Ok(RequestBody::Stream(match filled {
            Filled::Whole => Box::new(ahead.into_spooled()),
            Filled::InPart => Box::new(ahead),
        }))
    }

    /// The buffering rules for `answer`; `None` if it is not buffered.
    pub fn ahead(&self, answer: &Answer) -> Option<Arc<Rules>> {
        let ahead = self.ahead.as_ref()?;
        match answer.framing.body {
            BodyFraming::None => return None,
            // Small enough for the socket's send buffer.
            BodyFraming::Length(length) if length <= BUFFER_RESPONSE_BYTES_MIN => return None,
            BodyFraming::Length(_) | BodyFraming::Chunked | BodyFraming::UntilClose => {}
        }
        let said = answer.head.fields.find_first(b"X-Accel-Buffering");
        let waits = match said.filter(|_| ahead.obeys) {
            Some(word) if word.eq_ignore_ascii_case(b"yes") => true,
            Some(word) if word.eq_ignore_ascii_case(b"no") => false,
            Some(_) | None => ahead.usually,
        };
        waits.then(|| ahead.rules.clone())
    }

    /// Buffers the body of a request.
    pub async fn request(&self, body: RequestBody) -> Result<RequestBody, Failure> {
        match body {
            RequestBody::None => Ok(RequestBody::None),
            RequestBody::Stream(body) => Ok(RequestBody::Stream(Box::new(
                collect(body, self.request_bytes).await?,
            ))),
        }
    }

    /// Buffers the body of a response.
    pub async fn answer(&self, body: Box<dyn BodyStream>) -> Result<Box<dyn BodyStream>, Failure> {
        Ok(Box::new(collect(body, self.answer_bytes).await?))
    }
}

/// A body with a fixed text.
pub struct Text {
    bytes: Vec<u8>,
    taken: usize,
}

impl Text {
    /// A body, which may be empty.
    pub fn of(bytes: Vec<u8>) -> Text {
        Text { bytes, taken: 0 }
    }

    /// The body of a request; none if the text is empty.
    pub fn body(bytes: Vec<u8>) -> RequestBody {
        match bytes.is_empty() {
            true => RequestBody::None,
            false => RequestBody::Stream(Box::new(Text::of(bytes))),
        }
    }
}

impl BodyStream for Text {
    fn len(&self) -> Option<u64> {
        Some((self.bytes.len() - self.taken) as u64)
    }

    fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        Poll::Ready(Ok(&self.bytes[self.taken..]))
    }

    fn consume(&mut self, count: usize) {
        self.taken += count;
    }
}

/// The result of determining the length of a body.
pub enum Measured {
    /// The body is buffered completely and has a known length.
    Whole(Box<dyn BodyStream>),
    /// The body exceeds the limit.
    TooLong,
}

/// Buffers a body of unknown length.
pub async fn measure(body: Box<dyn BodyStream>, bytes_max: usize) -> Result<Measured, Failure> {
    let mut collected = collect(body, bytes_max).await?;
    if collected.end == End::Ahead {
        return Ok(Measured::TooLong);
    }
    collected.length = Length::Told;
    Ok(Measured::Whole(Box::new(collected)))
}

/// Buffers up to `bytes_max` of a body.
pub(crate) async fn collect(
    body: Box<dyn BodyStream>,
    bytes_max: usize,
) -> Result<Collected, Failure> {
    match collect_some(body, bytes_max).await {
        (collected, None) => Ok(collected),
        (_, Some(failure)) => Err(failure),
    }
}

/// Like [`collect`]; if the body fails, returns the data before the failure, and the failure follows it when the body
/// is read.
pub(crate) async fn collect_some(
    mut body: Box<dyn BodyStream>,
    bytes_max: usize,
) -> (Collected, Option<Failure>) {
    let length = if body.len().is_some() {
        Length::Told
    } else {
        Length::Untold
    };
    let mut collected = Vec::new();
    let (end, failure) = loop {
        let polled = poll_fn(|cx| {
            body.poll_data(cx).map_ok(|data| {
                let taken = data.len().min(bytes_max - collected.len());
                collected.extend_from_slice(&data[..taken]);
                (data.len(), taken)
            })
        });
        match polled.await {
            Err(failure) => break (End::Ahead, Some(failure)),
            Ok((0, _)) => break (End::Here, None),
            Ok((_, taken)) => body.consume(taken),
        }
        if collected.len() == bytes_max {
            break (End::Ahead, None);
        }
    };
    let collected = Collected {
        collected,
        taken: 0,
        length,
        end,
        rest: body,
    };
    (collected, failure)
}

/// Whether the sender declared the length of a body. If not, it is not declared to the upstream either: the request is
/// the same whether its body was buffered or not, including trailers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Told,
    Untold,
}

/// Whether the end of a body was reached while buffering it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Here,
    Ahead,
}

/// The buffered part of a body, followed by the rest.
pub(crate) struct Collected {
    collected: Vec<u8>,
    taken: usize,
    length: Length,
    end: End,
    rest: Box<dyn BodyStream>,
}

impl Collected {
    /// The buffered bytes that were not consumed.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.collected[self.taken..]
    }

    /// Whether the end of the body was reached.
    pub(crate) fn is_whole(&self) -> bool {
        self.end == End::Here
    }
}

impl BodyStream for Collected {
    fn len(&self) -> Option<u64> {
        let here = (self.collected.len() - self.taken) as u64;
        match self.length {
            Length::Told if self.end == End::Here => Some(here),
            Length::Told => self.rest.len().map(|rest| rest + here),
            Length::Untold => None,
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if self.taken < self.collected.len() {
            return Poll::Ready(Ok(&self.collected[self.taken..]));
        }
        self.collected = Vec::new();
        self.taken = 0;
        self.rest.poll_data(cx)
    }

    fn consume(&mut self, count: usize) {
        if self.collected.is_empty() {
            self.rest.consume(count);
        } else {
            self.taken += count;
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.rest.trailers()
    }
}
