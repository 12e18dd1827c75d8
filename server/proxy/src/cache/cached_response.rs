//! Responses from the cache, including range and conditional requests, which are served from the complete cached
//! response.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_cache::Content;
use sluice_cache::store::{Store, Stored};
use sluice_message::condition::{self, Validators, Verdict};
use sluice_message::date::parse_http;
use sluice_message::range::{self, Range, Selection};
use sluice_message::{FieldId, Fields, Method, ResponseHead, Status};
use sluice_net::body::SharedSlice;
use sluice_net::{Body, BodyStream, Failure, FileSlice};
use sluice_upstream::Pool;

use super::{Rule, count, now, peers};
use sluice_handlers::file_server::multipart::Multipart;
use sluice_handlers::file_server::send::set_content_range;
use sluice_pipeline::context::CacheStatus;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::Step;

/// The part of a response that a request asks for.
enum Wanted {
    /// The complete response.
    Whole,
    /// These ranges.
    Parts(Vec<Range>),
    /// Only the current head.
    Nothing,
    /// The request cannot be satisfied.
    Refused(Fault),
}

impl Rule {
    /// Responds with a cached response.
    pub(super) fn response(
        &self,
        exchange: &mut Exchange,
        store: &Store,
        stored: &Rc<Stored>,
        status: CacheStatus,
    ) -> Step {
        count(exchange, store, status);
        let age = stored.times().age(now(exchange));
        let held = now(exchange).saturating_sub(stored.times().since);
        if let Some(note) = peers::noted(exchange) {
            let fresh = i64::from(stored.times().lifetime.fresh);
            note.ttl = Some(fresh - i64::try_from(held).unwrap_or(i64::MAX));
        }
        self.put_on(exchange, stored.head(), age);
        self.give(exchange, store, stored)
    }

    /// Makes a cached head the response head, with `Age` (RFC 9111, section 5.1).
    pub(super) fn put_on(&self, exchange: &mut Exchange, stored: &ResponseHead, age: u64) {
        let mut head = Pool::of(&exchange.worker).spare_head();
        head.status = stored.status;
        head.version = stored.version;
        head.fields.clear();
        head.fields.append(&stored.fields);
        match peers::is_for_peer(exchange) {
            true => {
                peers::put_as_sent(exchange, &head);
                Pool::of(&exchange.worker).give_back(head);
            }
            false => self.origin.put_on(exchange, head),
        }
        let mut digits = Vec::with_capacity(20);
        sluice_message::decimal::push_integer(&mut digits, age);
        exchange.res.fields.set(FieldId::Age, &digits);
    }

    /// Sends the body of a cached response whose head is in place, as far as the request asks for it.
    pub(super) fn give(&self, exchange: &mut Exchange, store: &Store, stored: &Rc<Stored>) -> Step {
        let size = stored.len();
        // A response cached for HEAD only does not have a body to take ranges from.
        let known = (!self.stores_head || exchange.req.method != Method::Head).then_some(size);
        let body = match wanted(exchange, known, &stored.head().fields) {
            Wanted::Nothing => Body::Empty,
            Wanted::Refused(fault) => return Step::Fail(fault),
            Wanted::Whole => part(
                stored,
                Range {
                    start: 0,
                    len: size,
                },
            ),
            Wanted::Parts(ranges) => match ranges.as_slice() {
                [range] => {
                    set_content_range(exchange, *range, size);
                    part(stored, *range)
                }
                _ => {
                    let media_type = exchange
                        .res
                        .fields
                        .first(FieldId::ContentType)
                        .map(<[u8]>::to_vec);
                    let content = (stored.content.clone(), stored.start, size);
                    let parts = Multipart::of(exchange.worker.clone(), content, ranges, media_type);
                    let text = parts.media_type();
                    exchange
                        .res
                        .fields
                        .set(FieldId::ContentType, text.as_bytes());
                    Body::Stream(Box::new(parts))
                }
            },
        };
        if exchange.req.method != Method::Head {
            stored.count_sent(store, body.len(0).unwrap_or(0));
        }
        Step::Done(body)
    }

    /// Reduces a complete response from the upstream to what the request asks for.
    pub(super) fn part_of(&self, exchange: &mut Exchange, head: &ResponseHead, body: Body) -> Step {
        let length = body.len(exchange.inline.len());
        let wanted = wanted(exchange, length, &head.fields);
        give_of(exchange, body, length, wanted)
    }
}

/// Reduces a proxied response to the requested range even if the upstream does not support ranges, and announces range
/// support (`proxy_force_ranges`).
pub fn part_by_force(exchange: &mut Exchange, body: Body) -> Step {
    let length = body.len(exchange.inline.len());
    let reads = matches!(exchange.req.method, Method::Get | Method::Head);
    if exchange.res.status != Status::OK || !reads || length.is_none() {
        return Step::Done(body);
    }
    if exchange
        .context
        .dialect
        .leaves_ranges(&mut exchange.res.fields)
    {
        return Step::Done(body);
    }
    exchange.res.fields.remove(FieldId::AcceptRanges);
    let wanted = match exchange.req.fields.has(FieldId::Range) {
        true => {
            let upstream = exchange.res.fields.clone();
            parts(exchange, length, &upstream)
        }
        false => Wanted::Whole,
    };
    let step = give_of(exchange, body, length, wanted);
    if exchange.res.status == Status::OK {
        exchange.res.fields.set(FieldId::AcceptRanges, b"bytes");
    }
    step
}

fn give_of(exchange: &mut Exchange, body: Body, length: Option<u64>, wanted: Wanted) -> Step {
    Step::Done(match wanted {
        Wanted::Whole => body,
        Wanted::Refused(fault) => {
            exchange.inline.clear();
            return Step::Fail(fault);
        }
        Wanted::Nothing => {
            exchange.inline.clear();
            Body::Empty
        }
        Wanted::Parts(ranges) => match (ranges.as_slice(), length) {
            ([range], Some(size)) => {
                set_content_range(exchange, *range, size);
                cut(exchange, body, *range)
            }
            // Multiple ranges of a stream would have to be buffered; RFC 9110, section 14.2 allows sending the complete
            // response instead.
            _ => {
                exchange.res.status = Status::OK;
                body
            }
        },
    })
}

/// What the request asks for, given the response head in `exchange.res`, which is adapted. Ranges and conditions apply only to
/// 200 responses (RFC 9110, sections 13.2.1 and 14.2). A refusal drops the upstream's headers.
fn wanted(exchange: &mut Exchange, size: Option<u64>, upstream: &Fields) -> Wanted {
    let reads = matches!(exchange.req.method, Method::Get | Method::Head);
    // Conditions of the request do not apply to its subrequests.
    if exchange.res.status != Status::OK || !reads || exchange.context.dialect.is_subrequest() {
        return Wanted::Whole;
    }
    let now = now(exchange);
    let validators = validators(exchange, now);
    match condition::evaluate(&exchange.req.method, &exchange.req.fields, validators, now) {
        Verdict::NotModified => {
            // RFC 9110, section 15.4.5: omit headers that only describe the content.
            for id in [
                FieldId::AcceptRanges,
                FieldId::ContentType,
                FieldId::ContentEncoding,
            ] {
                exchange.res.fields.remove(id);
            }
            exchange.res.status = Status::NOT_MODIFIED;
            return Wanted::Nothing;
        }
        Verdict::Failed => {
            forget(exchange, upstream);
            let status = Status::PRECONDITION_FAILED;
            return Wanted::Refused(Fault::new(status, "a condition fails"));
        }
        Verdict::Proceed => {}
    }
    parts(exchange, size, upstream)
}

/// The validators of the response head in `exchange.res`.
fn validators(exchange: &Exchange, now: u64) -> Validators<'_> {
    let modified = exchange.res.fields.first(FieldId::LastModified);
    Validators {
        etag: exchange.res.fields.first(FieldId::Etag),
        modified: modified.and_then(|text| parse_http(text, now)),
    }
}

/// The ranges that the request asks for, given the response head in `exchange.res`.
fn parts(exchange: &mut Exchange, size: Option<u64>, upstream: &Fields) -> Wanted {
    let now = now(exchange);
    let is_refused = exchange.res.fields.first(FieldId::AcceptRanges) == Some(b"none");
    if !is_refused
        && size.is_some()
        && exchange
            .context
            .dialect
            .leaves_ranges(&mut exchange.res.fields)
    {
        return Wanted::Whole;
    }
    let validators = validators(exchange, now);
    let (Some(field), Some(size)) = (exchange.req.fields.first(FieldId::Range), size) else {
        return Wanted::Whole;
    };
    if is_refused || !condition::range_applies(&exchange.req.fields, validators, now) {
        return Wanted::Whole;
    }
    let ranges = match range::select(field, size) {
        Selection::Whole => return Wanted::Whole,
        Selection::One(range) => vec![range],
        Selection::Many(ranges) => ranges,
        // As nginx does for files.
        Selection::Unsatisfiable | Selection::Malformed => {
            forget(exchange, upstream);
            let text = format!("bytes */{size}");
            exchange
                .res
                .fields
                .set(FieldId::ContentRange, text.as_bytes());
            let status = Status::RANGE_NOT_SATISFIABLE;
            return Wanted::Refused(Fault::new(
                status,
                "the requested range is outside the response",
            ));
        }
    };
    exchange.res.fields.remove(FieldId::AcceptRanges);
    exchange.res.status = Status::PARTIAL_CONTENT;
    Wanted::Parts(ranges)
}

/// Removes the upstream's headers from the response.
fn forget(exchange: &mut Exchange, upstream: &Fields) {
    for field in upstream.iter() {
        exchange.res.fields.remove_name(field.name);
    }
    exchange.res.fields.remove(FieldId::Age);
}

fn part(stored: &Stored, range: Range) -> Body {
    match &stored.content {
        _ if range.len == 0 => Body::Empty,
        Content::Bytes(bytes) => {
            let (start, len) = (range.start as usize, range.len as usize);
            Body::Shared(SharedSlice::part(bytes.clone(), start, start + len))
        }
        Content::Handle(file) => Body::File(FileSlice {
            file: file.clone(),
            start: stored.start + range.start,
            len: range.len,
        }),
    }
}

/// Cuts a range out of a body.
pub fn cut(exchange: &mut Exchange, body: Body, range: Range) -> Body {
    let within = |length: usize| {
        let start = usize::try_from(range.start)
            .unwrap_or(usize::MAX)
            .min(length);
        let len = usize::try_from(range.len).unwrap_or(usize::MAX);
        (start, start.saturating_add(len).min(length))
    };
    match body {
        Body::Inline => {
            let (start, end) = within(exchange.inline.len());
            exchange.inline.truncate(end);
            exchange.inline.drain(..start);
            Body::Inline
        }
        Body::Shared(slice) => {
            let (start, end) = within(slice.as_bytes().len());
            Body::Shared(slice.within(start, end))
        }
        Body::File(slice) => Body::File(FileSlice {
            file: slice.file,
            start: slice.start + range.start,
            len: range.len,
        }),
        Body::Stream(stream) => cut_stream(stream, range),
        body @ (Body::Empty | Body::Tunnel(_) | Body::Abort) => body,
    }
}

/// A range of a streamed body.
pub fn cut_stream(stream: Box<dyn BodyStream>, range: Range) -> Body {
    Body::Stream(Box::new(Part {
        stream,
        skip: range.start,
        left: range.len,
    }))
}

/// A range of a streamed body.
struct Part {
    stream: Box<dyn BodyStream>,
    skip: u64,
    left: u64,
}

impl BodyStream for Part {
    fn len(&self) -> Option<u64> {
        Some(self.left)
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        while self.skip > 0 {
            let here = ready!(self.stream.poll_data(cx))?.len();
            if here == 0 {
                break;
            }
            let count = usize::try_from(self.skip).unwrap_or(usize::MAX).min(here);
            self.stream.consume(count);
            self.skip -= count as u64;
        }
        if self.left == 0 {
            return Poll::Ready(Ok(&[]));
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let data = ready!(self.stream.poll_data(cx))?;
        Poll::Ready(Ok(&data[..data.len().min(left)]))
    }

    fn consume(&mut self, count: usize) {
        self.stream.consume(count);
        self.left -= count as u64;
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.stream.poll_ahead(cx)
    }
}
