//! `nginx_slice`: requests a response in slices, so that each can be cached by itself. `$slice_range` is the range of
//! the current slice; the slices are reassembled here, starting with the one that contains the first byte requested by
//! the client.
//!
//! The first slice is the response of the location. Each further one is a subrequest to the same location, sent once
//! the slice before it has been delivered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sluice_message::condition::{self, Validators, Verdict};
use sluice_message::date::parse_http;
use sluice_message::range::{Range, Selection};
use sluice_message::{FieldId, Fields, Method, Status};
use sluice_model::nginx::Slice as Config;
use sluice_net::{Body, BodyStream, Failure, FailureKind, Side};

use super::piece::Piece;
use super::state::{Purpose, State, Taking};
use super::subrequest;
use crate::state::NginxContext;
use sluice_handlers::file_server::send::{selection, set_content_range};
use sluice_handlers::filters::encode::Source;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Filter, Handler, Step, Waiting};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::subrequests::{ServerRef, Subrequests};

/// The handler.
struct Slices(Arc<Settings>);

struct Settings {
    size: u64,
    site: ServerRef,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    if config.size == 0 {
        return Err(Refusal::new("pieces of no bytes"));
    }
    Ok(Box::new(Slices(Arc::new(Settings {
        size: config.size,
        site: builder.itself.clone(),
    }))))
}

/// Appends `$slice_range`.
pub(super) fn push(exchange: &Exchange, out: &mut Vec<u8>) {
    if let Some(piece) = &exchange.context.occasional().slice {
        piece.note_use();
        out.extend_from_slice(piece.text().as_bytes());
    }
}

impl Handler for Slices {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        match exchange.context.nginx().purpose {
            // Filters apply to the reassembled response, not to each slice.
            Purpose::Slice { .. } => {
                while let Some(filter) = exchange.context.filters.pop() {
                    filter.give_up(exchange);
                }
            }
            Purpose::Subrequest { .. } => {}
            Purpose::Client | Purpose::Explanation => {
                let start = first_byte(exchange).unwrap_or(0) / self.0.size * self.0.size;
                exchange.context.occasional_mut().slice = Some(Piece::new(start, self.0.size));
                exchange.context.filters.push(self.0.clone());
            }
        }
        Step::Next
    }
}

/// The first byte that a request for a single range wants, if the range can be relied on.
fn first_byte(exchange: &Exchange) -> Option<u64> {
    let fields = &exchange.req.fields;
    let is_sure =
        !fields.has(FieldId::IfRange) && matches!(exchange.req.method, Method::Get | Method::Head);
    let range = fields.first(FieldId::Range).filter(|_| is_sure)?;
    let unit = range.get(..6)?;
    let set = range[6..].trim_ascii_start();
    if !unit.eq_ignore_ascii_case(b"bytes=") || set.contains(&b',') {
        return None;
    }
    let digits = set.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&set[..digits]).ok()?.parse().ok()
}

/// The extent of a slice from `Content-Range`; `end` is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: u64,
    end: u64,
    whole: u64,
}

impl Extent {
    /// Parses `bytes 0-99/1000`.
    fn parse(value: &[u8]) -> Option<Extent> {
        let text = std::str::from_utf8(value).ok()?.strip_prefix("bytes ")?;
        let (range, whole) = text.trim().split_once('/')?;
        let (first, last) = range.trim().split_once('-')?;
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let end = number(last)?.checked_add(1)?;
        let found = Extent {
            start: number(first)?,
            end,
            whole: number(whole)?,
        };
        (found.start < end && end <= found.whole).then_some(found)
    }

    /// Whether it is the requested slice.
    fn is(self, piece: &Piece) -> bool {
        let end = piece.start.saturating_add(piece.size).min(self.whole);
        self.start == piece.start && self.end == end
    }
}

/// Validates the extent of a slice; the error is nginx's message.
fn extent_of(fields: &Fields, status: Status, piece: &Piece) -> Result<Extent, String> {
    if status != Status::PARTIAL_CONTENT {
        return Err(format!(
            "unexpected status code {} in slice response",
            status.code()
        ));
    }
    let value = fields.first(FieldId::ContentRange).unwrap_or_default();
    let extent = Extent::parse(value).ok_or("invalid range in slice response")?;
    match extent.is(piece) {
        true => Ok(extent),
        false => Err(format!(
            "unexpected range in slice response: {}-{}",
            extent.start, extent.end
        )),
    }
}

/// The slice of a request, if the response is one.
fn piece_of(exchange: &Exchange) -> Option<&Arc<Piece>> {
    let piece = exchange.context.occasional().slice.as_ref()?;
    // An upstream that ignores slices has sent the complete response or an error.
    (piece.is_used() && exchange.res.status == Status::PARTIAL_CONTENT).then_some(piece)
}

/// What to do with the first slice.
enum Wanted {
    /// The response is not a slice.
    Untouched,
    /// The client's copy is still valid.
    NotModified,
    /// Send this range, or everything if `None`.
    Part(Extent, Option<Range>),
    /// The slice is invalid, or the requested range cannot be satisfied.
    Failed(Fault, Option<u64>),
}

impl Settings {
    fn wanted(&self, exchange: &Exchange) -> Wanted {
        let Some(piece) = piece_of(exchange) else {
            return Wanted::Untouched;
        };
        let extent = match extent_of(&exchange.res.fields, exchange.res.status, piece) {
            Ok(extent) => extent,
            Err(why) => return Wanted::Failed(Fault::new(Status::BAD_GATEWAY, why), None),
        };
        let now = exchange.worker.clock.unix_seconds();
        let modified = exchange.res.fields.first(FieldId::LastModified);
        let validators = Validators {
            etag: exchange.res.fields.first(FieldId::Etag),
            modified: modified.and_then(|text| parse_http(text, now)),
        };
        match condition::evaluate(&exchange.req.method, &exchange.req.fields, validators, now) {
            Verdict::NotModified => return Wanted::NotModified,
            Verdict::Failed => {
                let status = Status::PRECONDITION_FAILED;
                return Wanted::Failed(Fault::new(status, "a condition fails"), None);
            }
            Verdict::Proceed => {}
        }
        match selection(exchange, validators, now, extent.whole) {
            // Several ranges would have to be buffered.
            Selection::Whole | Selection::Many(_) => Wanted::Part(extent, None),
            Selection::One(range) => Wanted::Part(extent, Some(range)),
            Selection::Unsatisfiable | Selection::Malformed => {
                let status = Status::RANGE_NOT_SATISFIABLE;
                let fault = Fault::new(status, "the requested range is outside the response");
                Wanted::Failed(fault, Some(extent.whole))
            }
        }
    }

    fn give(
        &self,
        exchange: &mut Exchange,
        body: Body,
        extent: Extent,
        range: Option<Range>,
    ) -> Body {
        exchange.res.fields.remove(FieldId::ContentRange);
        exchange.res.fields.remove(FieldId::ContentLength);
        let wanted = range.unwrap_or(Range {
            start: 0,
            len: extent.whole,
        });
        match range {
            Some(range) => {
                exchange.res.fields.remove(FieldId::AcceptRanges);
                set_content_range(exchange, range, extent.whole);
            }
            None => {
                exchange.res.status = Status::OK;
                exchange.res.fields.set(FieldId::AcceptRanges, b"bytes");
            }
        }
        // The range has been applied.
        exchange.context.nginx_mut().ranges = Taking::Never;
        let first = Source::of(exchange, body).ok();
        let Some(site) = self.site.get() else {
            return Body::Abort;
        };
        let path = exchange.req.uri.path().to_vec();
        let mut asking = subrequest::apart(exchange, &path, None);
        asking.req.method = Method::Get;
        *asking.context.nginx_mut() = State {
            place: exchange.context.nginx().place,
            purpose: Purpose::Slice {
                depth: exchange.context.nginx().purpose.depth(),
            },
            ..*asking.context.nginx()
        };
        let tag = exchange.res.fields.first(FieldId::Etag).map(<[u8]>::to_vec);
        Body::Stream(Box::new(Pieces {
            at: wanted.start,
            end: wanted.start + wanted.len,
            known: Known {
                size: self.size,
                whole: extent.whole,
                tag,
            },
            site,
            state: match first {
                Some(source) => Reading::Piece(source, extent),
                None => Reading::Nothing,
            },
            asking: Box::new(asking),
        }))
    }
}

impl Filter for Settings {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        match self.wanted(exchange) {
            Wanted::Part(extent, range) => self.give(exchange, body, extent, range),
            Wanted::NotModified => {
                for id in [
                    FieldId::AcceptRanges,
                    FieldId::ContentType,
                    FieldId::ContentEncoding,
                    FieldId::ContentRange,
                ] {
                    exchange.res.fields.remove(id);
                }
                exchange.inline.clear();
                exchange.res.status = Status::NOT_MODIFIED;
                Body::Empty
            }
            Wanted::Untouched | Wanted::Failed(..) => body,
        }
    }

    fn waits(&self, exchange: &Exchange, _body: &Body) -> bool {
        matches!(self.wanted(exchange), Wanted::Failed(..))
    }

    fn wait<'a>(self: Arc<Self>, exchange: &'a mut Exchange, _body: Body) -> Waiting<'a> {
        let (fault, whole) = match self.wanted(exchange) {
            Wanted::Failed(fault, whole) => (fault, whole),
            _ => (Fault::new(Status::BAD_GATEWAY, "no piece"), None),
        };
        exchange.inline.clear();
        // Existing headers describe the response that is not sent.
        exchange
            .res
            .fields
            .retain(|field| field.id == FieldId::Server);
        if let Some(whole) = whole {
            let text = format!("bytes */{whole}");
            exchange
                .res
                .fields
                .set(FieldId::ContentRange, text.as_bytes());
        }
        Box::pin(async move { Step::Fail(fault) })
    }
}

/// Properties of the complete response.
struct Known {
    size: u64,
    whole: u64,
    tag: Option<Vec<u8>>,
}

/// The complete response or a range of it, slice by slice.
struct Pieces {
    /// The next byte to send, and the end (exclusive).
    at: u64,
    end: u64,
    known: Known,
    site: Arc<dyn Subrequests>,
    /// The template for the subrequests of further slices.
    asking: Box<Exchange>,
    state: Reading,
}

/// The state of reading slices.
enum Reading {
    /// The next slice has not been requested.
    Nothing,
    /// The subrequest is in flight.
    Asked(Asked),
    /// The body of a slice, with the extent that is still unread.
    Piece(Source, Extent),
}

type Asked = Pin<Box<dyn Future<Output = Result<(Source, Extent), Failure>>>>;

impl Pieces {
    /// Requests the slice that contains the next byte.
    fn ask(&self) -> Asked {
        let path = self.asking.req.uri.path().to_vec();
        let mut sub = subrequest::apart(&self.asking, &path, None);
        *sub.context.nginx_mut() = *self.asking.context.nginx();
        let start = self.at / self.known.size * self.known.size;
        let piece = Piece::new(start, self.known.size);
        sub.context.occasional_mut().slice = Some(piece.clone());
        let (site, tag) = (self.site.clone(), self.known.tag.clone());
        let whole = self.known.whole;
        Box::pin(async move {
            let body = site.fetch(&mut sub).await;
            let extent = extent_of(&sub.res.fields, sub.res.status, &piece).map_err(broken)?;
            if tag.as_deref() != sub.res.fields.first(FieldId::Etag) {
                return Err(broken("etag mismatch in slice response"));
            }
            if extent.whole != whole {
                return Err(broken("the whole has another length in slice response"));
            }
            match Source::of(&mut sub, body) {
                Ok(source) => Ok((source, extent)),
                Err(_) => Err(broken("no content in slice response")),
            }
        })
    }

    /// Advances to a slice with bytes to send.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            let next = match &mut self.state {
                Reading::Nothing => Reading::Asked(self.ask()),
                Reading::Asked(asked) => {
                    let (source, extent) = ready!(asked.as_mut().poll(cx))?;
                    Reading::Piece(source, extent)
                }
                Reading::Piece(_, extent) if !(extent.start..extent.end).contains(&self.at) => {
                    // The slice has been sent, or it ends before the requested range.
                    Reading::Nothing
                }
                Reading::Piece(source, extent) => {
                    let here = ready!(source.poll_piece(cx))?.len() as u64;
                    if here == 0 {
                        return Poll::Ready(Err(broken("a piece ends too early")));
                    }
                    if extent.start == self.at {
                        return Poll::Ready(Ok(()));
                    }
                    // Bytes before the requested range.
                    let skipped = here.min(self.at - extent.start);
                    source.take(skipped as usize);
                    extent.start += skipped;
                    continue;
                }
            };
            self.state = next;
        }
    }
}

fn broken(why: impl Into<String>) -> Failure {
    Failure::new(Side::Upstream, FailureKind::Protocol).because(why.into())
}

impl BodyStream for Pieces {
    fn len(&self) -> Option<u64> {
        Some(self.end - self.at)
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if self.at == self.end {
            return Poll::Ready(Ok(&[]));
        }
        ready!(self.poll_ready(cx))?;
        let left = self.end - self.at;
        match &mut self.state {
            Reading::Piece(source, extent) => {
                let most = left.min(extent.end - extent.start);
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                // The previous call returned a piece, so this returns the same one.
                let data = ready!(source.poll_piece(cx))?;
                Poll::Ready(Ok(&data[..data.len().min(most)]))
            }
            Reading::Nothing | Reading::Asked(_) => Poll::Ready(Ok(&[])),
        }
    }

    fn consume(&mut self, count: usize) {
        self.at += count as u64;
        if let Reading::Piece(source, extent) = &mut self.state {
            source.take(count);
            extent.start += count as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_read() {
        let extent = |start, end, whole| Some(Extent { start, end, whole });
        for (text, expected) in [
            ("bytes 0-99/1000", extent(0, 100, 1000)),
            ("bytes 5-5/6", extent(5, 6, 6)),
            ("bytes 0-99/*", None),
            ("bytes */100", None),
            ("bytes 9-5/100", None),
            ("bytes 0-100/100", None),
            ("bytes 0-18446744073709551615/5", None),
            ("lines 0-1/2", None),
            ("", None),
        ] {
            assert_eq!(Extent::parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_piece_is_the_one_that_was_asked_for() {
        let piece = Piece::new(100, 50);
        assert_eq!(piece.text(), "bytes=100-149");
        let is =
            |text: &str| Extent::parse(text.as_bytes()).is_some_and(|extent| extent.is(&piece));
        assert!(is("bytes 100-149/1000") && is("bytes 100-119/120"));
        assert!(!is("bytes 100-119/1000") && !is("bytes 0-49/1000") && !is("bytes 100-150/1000"));
    }
}
