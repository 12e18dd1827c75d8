//! Bodies in memory: fixed texts, and the beginnings of other bodies.

use std::future::poll_fn;
use std::task::{Context, Poll};

use sluice_message::Fields;
use sluice_net::{BodyStream, Failure, RequestBody};

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
    collected.length = Length::Announced;
    Ok(Measured::Whole(Box::new(collected)))
}

/// Buffers up to `bytes_max` of a body.
pub async fn collect(body: Box<dyn BodyStream>, bytes_max: usize) -> Result<Collected, Failure> {
    collect_while(body, bytes_max, |_| true).await
}

/// Like [`collect`], while `goes_on` returns true; it gets the size of each piece.
pub async fn collect_while(
    body: Box<dyn BodyStream>,
    bytes_max: usize,
    goes_on: impl Fn(usize) -> bool,
) -> Result<Collected, Failure> {
    match collect_part(body, bytes_max, goes_on).await {
        (collected, None) => Ok(collected),
        (_, Some(failure)) => Err(failure),
    }
}

/// Like [`collect`]; if the body fails, returns the data before the failure, and the failure follows it when the body
/// is read.
pub async fn collect_some(
    body: Box<dyn BodyStream>,
    bytes_max: usize,
) -> (Collected, Option<Failure>) {
    collect_part(body, bytes_max, |_| true).await
}

async fn collect_part(
    mut body: Box<dyn BodyStream>,
    bytes_max: usize,
    goes_on: impl Fn(usize) -> bool,
) -> (Collected, Option<Failure>) {
    let length = if body.len().is_some() {
        Length::Announced
    } else {
        Length::Unknown
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
            Ok((_, taken)) => {
                body.consume(taken);
                if !goes_on(taken) {
                    break (End::Ahead, None);
                }
            }
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
    Announced,
    Unknown,
}

/// Whether the end of a body was reached while buffering it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Here,
    Ahead,
}

/// The buffered part of a body, followed by the rest.
pub struct Collected {
    collected: Vec<u8>,
    taken: usize,
    length: Length,
    end: End,
    rest: Box<dyn BodyStream>,
}

impl Collected {
    /// The buffered bytes that were not consumed.
    pub fn bytes(&self) -> &[u8] {
        &self.collected[self.taken..]
    }

    /// Whether the end of the body was reached.
    pub fn is_whole(&self) -> bool {
        self.end == End::Here
    }
}

impl BodyStream for Collected {
    fn len(&self) -> Option<u64> {
        let here = (self.collected.len() - self.taken) as u64;
        match self.length {
            Length::Announced if self.end == End::Here => Some(here),
            Length::Announced => self.rest.len().map(|rest| rest + here),
            Length::Unknown => None,
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
