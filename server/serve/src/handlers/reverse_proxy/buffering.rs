//! Bodies that are collected before they are passed on, where the configuration asks for it: a slow client then
//! does not occupy an upstream. Bodies larger than the limit go on as they arrive after that much.

use std::future::poll_fn;
use std::task::{Context, Poll};

use sluice_message::Fields;
use sluice_net::{BodyStream, Failure, RequestBody};

/// How much of each body is collected first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buffering {
    /// Bytes of the request.
    pub request_bytes: usize,
    /// Bytes of the answer.
    pub answer_bytes: usize,
}

impl Buffering {
    /// Collects the body of a request.
    pub async fn request(&self, body: RequestBody) -> Result<RequestBody, Failure> {
        match body {
            RequestBody::None => Ok(RequestBody::None),
            RequestBody::Stream(body) => Ok(RequestBody::Stream(Box::new(
                collect(body, self.request_bytes).await?,
            ))),
        }
    }

    /// Collects the body of an answer.
    pub async fn answer(&self, body: Box<dyn BodyStream>) -> Result<Box<dyn BodyStream>, Failure> {
        Ok(Box::new(collect(body, self.answer_bytes).await?))
    }
}

/// A body that is a text of ours.
pub struct Text {
    bytes: Vec<u8>,
    taken: usize,
}

impl Text {
    /// A body that may be empty.
    pub fn of(bytes: Vec<u8>) -> Text {
        Text { bytes, taken: 0 }
    }

    /// The body of a request; none where the text is empty.
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

/// A body whose length was asked for.
pub enum Measured {
    /// It is here as a whole, and tells its length.
    Whole(Box<dyn BodyStream>),
    /// It is longer than the limit.
    TooLong,
}

/// Collects a body that does not tell its length.
pub async fn measure(body: Box<dyn BodyStream>, bytes_max: usize) -> Result<Measured, Failure> {
    let mut collected = collect(body, bytes_max).await?;
    if collected.end == End::Ahead {
        return Ok(Measured::TooLong);
    }
    collected.length = Length::Told;
    Ok(Measured::Whole(Box::new(collected)))
}

/// Collects up to `bytes_max` of a body.
pub(crate) async fn collect(
    body: Box<dyn BodyStream>,
    bytes_max: usize,
) -> Result<Collected, Failure> {
    match collect_some(body, bytes_max).await {
        (collected, None) => Ok(collected),
        (_, Some(failure)) => Err(failure),
    }
}

/// As [`collect`]; of a body that fails what came before, which is followed by the failure for whoever reads on.
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

/// Whether the sender had told the length of a body. One that was not told is not told now: the upstream gets the
/// same request whether its body was collected or not, trailer fields included.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Told,
    Untold,
}

/// Whether the end of a body was seen when it was collected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Here,
    Ahead,
}

/// What was collected of a body, then the rest of it.
pub(crate) struct Collected {
    collected: Vec<u8>,
    taken: usize,
    length: Length,
    end: End,
    rest: Box<dyn BodyStream>,
}

impl Collected {
    /// What was collected and not yet taken.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.collected[self.taken..]
    }

    /// Whether the end of the body was seen.
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
