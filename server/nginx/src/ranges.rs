//! `nginx_ranges`: applies `Range` once all filters that may change the response have run: a range cannot be
//! compressed or extended by itself. `sluice-message` evaluates the header; where no filter changes responses,
//! handlers apply ranges themselves.

use std::rc::Rc;
use std::sync::Arc;

use sluice_cache::Content;
use sluice_message::condition::Validators;
use sluice_message::date::parse_http;
use sluice_message::range::{Range, Selection};
use sluice_message::{FieldId, Fields, Method, Status};
use sluice_model::nginx::Ranges as Config;
use sluice_net::Body;

use super::state::{NginxContext, State, Taking};
use sluice_handlers::file_server::multipart::Multipart;
use sluice_handlers::file_server::send::{selection, set_content_range};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Filter, Handler, Step, Waiting};
use sluice_proxy::cache::cached_response::cut;

/// The filter.
struct Settings {
    /// Maximum number of ranges per response (`max_ranges`).
    max: Option<u32>,
}

struct Ranges(Arc<Settings>);

/// Builds the handler.
pub fn build(config: &Config) -> Box<dyn Handler> {
    Box::new(Ranges(Arc::new(Settings { max: config.max })))
}

impl Handler for Ranges {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        // Requests without `Range` need no filter.
        if exchange.req.fields.has(FieldId::Range) || self.0.max == Some(0) {
            if exchange.context.nginx().ranges == Taking::AtOnce {
                exchange.context.nginx_mut().ranges = Taking::Later;
            }
            exchange.context.filters.push(self.0.clone());
        }
        Step::Next
    }
}

impl State {
    /// Whether the handler leaves ranges to the filter; if so, this marks them as offered.
    pub(super) fn leaves_ranges(&mut self, fields: &mut Fields) -> bool {
        match self.ranges {
            Taking::AtOnce => false,
            Taking::Never => true,
            Taking::Later | Taking::Offered => {
                self.ranges = Taking::Offered;
                fields.set(FieldId::AcceptRanges, b"bytes");
                true
            }
        }
    }
}

impl Settings {
    /// The part of the response that the request selects.
    fn selected(&self, exchange: &Exchange, body: &Body) -> Selection {
        let reads = matches!(exchange.req.method, Method::Get | Method::Head);
        let is_offered = exchange.context.nginx().ranges == Taking::Offered
            && exchange.res.fields.has(FieldId::AcceptRanges)
            && exchange.res.status == Status::OK;
        let length = body.len(exchange.inline.len());
        let (true, Some(size), true) = (is_offered && reads, length, self.max != Some(0)) else {
            return Selection::Whole;
        };
        let now = exchange.worker.clock.unix_seconds();
        let modified = exchange.res.fields.first(FieldId::LastModified);
        let validators = Validators {
            etag: exchange.res.fields.first(FieldId::Etag),
            modified: modified.and_then(|text| parse_http(text, now)),
        };
        match selection(exchange, validators, now, size) {
            Selection::Many(ranges) if self.max.is_some_and(|max| ranges.len() > max as usize) => {
                Selection::Whole
            }
            selection => selection,
        }
    }
}

impl Filter for Settings {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let selected = self.selected(exchange, &body);
        let size = body.len(exchange.inline.len());
        let was = std::mem::take(&mut exchange.context.nginx_mut().ranges);
        match (selected, size) {
            (Selection::One(range), Some(size)) => {
                exchange.res.status = Status::PARTIAL_CONTENT;
                exchange.res.fields.remove(FieldId::AcceptRanges);
                set_content_range(exchange, range, size);
                cut(exchange, body, range)
            }
            (Selection::Many(ranges), Some(size)) => several(exchange, body, ranges, size),
            _ => {
                // Ranges need a known length.
                if was == Taking::Offered && (size.is_none() || self.max == Some(0)) {
                    exchange.res.fields.remove(FieldId::AcceptRanges);
                }
                body
            }
        }
    }

    fn waits(&self, exchange: &Exchange, body: &Body) -> bool {
        let selected = self.selected(exchange, body);
        matches!(selected, Selection::Unsatisfiable | Selection::Malformed)
    }

    fn wait<'a>(self: Arc<Self>, exchange: &'a mut Exchange, body: Body) -> Waiting<'a> {
        let size = body.len(exchange.inline.len()).unwrap_or(0);
        exchange.inline.clear();
        exchange.context.nginx_mut().ranges = Taking::AtOnce;
        // Existing headers describe the response that is not sent; the scope adds its own to the error response.
        exchange
            .res
            .fields
            .retain(|field| field.id == FieldId::Server);
        let text = format!("bytes */{size}");
        exchange
            .res
            .fields
            .set(FieldId::ContentRange, text.as_bytes());
        let status = Status::RANGE_NOT_SATISFIABLE;
        Box::pin(async move {
            Step::Fail(Fault::new(
                status,
                "the requested range is outside the response",
            ))
        })
    }

    fn give_up(&self, exchange: &mut Exchange) {
        if exchange.context.nginx().ranges != Taking::Never {
            exchange.context.nginx_mut().ranges = Taking::AtOnce;
        }
    }
}

/// Several ranges as `multipart/byteranges`; the complete body if it is a stream, which would have to be buffered
/// (RFC 9110, section 14.2 allows that).
fn several(exchange: &mut Exchange, body: Body, ranges: Vec<Range>, size: u64) -> Body {
    let (content, base) = match &body {
        Body::Inline => (Content::Bytes(Rc::from(&exchange.inline[..])), 0),
        Body::Shared(slice) => (Content::Bytes(Rc::from(slice.as_bytes())), 0),
        Body::File(slice) => (Content::Handle(slice.file.clone()), slice.start),
        Body::Stream(_) | Body::Empty | Body::Tunnel(_) | Body::Abort => return body,
    };
    exchange.inline.clear();
    exchange.res.status = Status::PARTIAL_CONTENT;
    exchange.res.fields.remove(FieldId::AcceptRanges);
    let media_type = exchange
        .res
        .fields
        .first(FieldId::ContentType)
        .map(<[u8]>::to_vec);
    let parts = Multipart::of(
        exchange.worker.clone(),
        (content, base, size),
        ranges,
        media_type,
    );
    let text = parts.media_type();
    exchange
        .res
        .fields
        .set(FieldId::ContentType, text.as_bytes());
    Body::Stream(Box::new(parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_net::body::SharedSlice;

    #[test]
    fn slices_are_cut_within() {
        let whole = SharedSlice::new(Rc::from(&b"0123456789"[..]));
        let part = whole.within(2, 8);
        assert_eq!(part.as_bytes(), b"234567");
        assert_eq!(part.within(1, 3).as_bytes(), b"34");
    }
}
