//! Compresses responses. `handlers::encode` negotiates the content coding; `coder` compresses, `stream` drives it piece
//! by piece.

mod coder;
mod gzip;
mod stream;
/// Whether `no-transform` is set (RFC 9111, sections 5.2.1.6 and 5.2.2.6).
pub fn forbids_transform(fields: &sluice_message::Fields) -> bool {
    fields.all(FieldId::CacheControl).any(|value| {
        value
            .split(|&b| b == b',')
            .any(|d| d.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
    })
}

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluice_message::{FieldId, Fields, Method, Status, etag};
use sluice_model::matcher::ResponseMatcher as MatcherConfig;
use sluice_net::Body;
use sluice_route::matcher::ResponseMatcher;

use crate::headers::response_matcher;
use crate::limits::ENCODE_AT_ONCE_BYTES_MAX;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::Filter;
use sluice_pipeline::refusal::Refusal;

pub use coder::Coding;
use stream::EncodeStream;
pub use stream::{Silence, Source};

/// Decides which responses to compress.
pub struct Eligible {
    bytes_min: u64,
    /// The configured matcher; the default is the content types in [`TYPES`].
    matcher: Option<ResponseMatcher>,
}

impl Eligible {
    /// Compiles the conditions of a configuration.
    pub fn build(bytes_min: u64, matcher: Option<&MatcherConfig>) -> Result<Eligible, Refusal> {
        let matcher = matcher.map(response_matcher).transpose()?;
        // Below this size, compression does not save a packet.
        let bytes_min = if bytes_min == 0 { 512 } else { bytes_min };
        Ok(Eligible { bytes_min, matcher })
    }

    fn includes(&self, exchange: &Exchange, body: &Body) -> bool {
        let res = &exchange.res;
        // Ranges refer to the uncompressed representation, so a partial response must not be compressed.
        let partial =
            res.status == Status::PARTIAL_CONTENT || res.fields.has(FieldId::ContentRange);
        if partial || res.status.is_bodiless() || res.fields.has(FieldId::ContentEncoding) {
            return false;
        }
        let long_enough = body
            .len(exchange.inline.len())
            .is_none_or(|len| len >= self.bytes_min);
        let compressible = || match &self.matcher {
            Some(matcher) => matcher.matches(res, &exchange.context.scratch),
            None => res
                .fields
                .first(FieldId::ContentType)
                .is_some_and(is_compressible),
        };
        long_enough && !forbids_transform(&res.fields) && compressible()
    }
}

/// Compresses eligible responses with one content coding.
pub struct EncodeFilter {
    coding: Coding,
    eligible: Arc<Eligible>,
    /// The suffix of entity tags for this coding: `-gzip"`.
    tag_end: Vec<u8>,
}

impl EncodeFilter {
    /// Creates the filter for one content coding.
    pub fn new(coding: Coding, eligible: Arc<Eligible>) -> EncodeFilter {
        let tag_end = format!("-{}\"", coding.name()).into_bytes();
        EncodeFilter {
            coding,
            eligible,
            tag_end,
        }
    }

    /// The content coding.
    pub fn coding(&self) -> &Coding {
        &self.coding
    }

    /// Extends `If-None-Match` and `If-Match` by the original entity tags of those that this filter marked in an
    /// earlier response, so that later handlers recognize them. The marked ones remain, so that [`Filter::apply`] can
    /// detect which variant the client has.
    pub fn restore_tags(&self, exchange: &mut Exchange) {
        for index in 0..exchange.req.fields.len() {
            let field = exchange
                .req
                .fields
                .at(index)
                .expect("the index is below the length");
            let conditional = matches!(field.id, FieldId::IfNoneMatch | FieldId::IfMatch);
            if conditional && memchr::memmem::find(field.value, &self.tag_end).is_some() {
                let restored = [field.value, b", ", &self.without_tag_ends(field.value)].concat();
                exchange.req.fields.replace_at(index, &restored);
            }
        }
    }

    fn without_tag_ends(&self, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(value.len());
        let mut rest = value;
        while let Some(at) = memchr::memmem::find(rest, &self.tag_end) {
            out.extend_from_slice(&rest[..at]);
            out.push(b'"');
            rest = &rest[at + self.tag_end.len()..];
        }
        out.extend_from_slice(rest);
        out
    }

    /// Whether the client has the compressed variant of a representation that this response reports as not modified.
    fn client_has_variant(&self, exchange: &Exchange) -> bool {
        let Some(marked) = exchange
            .res
            .fields
            .first(FieldId::Etag)
            .and_then(|tag| self.marked(tag))
        else {
            return false;
        };
        let mut values = exchange.req.fields.all(FieldId::IfNoneMatch);
        values.any(|value| etag::list(value).any(|tag| etag::matches_weakly(tag, &marked)))
    }

    /// Marks a strong entity tag, which must differ if bytes differ (RFC 9110, section 8.8.3). A weak one need not
    /// differ.
    fn mark_tag(&self, fields: &mut Fields) {
        if let Some(marked) = fields.first(FieldId::Etag).and_then(|tag| self.marked(tag)) {
            fields.set(FieldId::Etag, &marked);
        }
    }

    fn marked(&self, tag: &[u8]) -> Option<Vec<u8>> {
        let opened = tag
            .strip_suffix(b"\"")
            .filter(|tag| tag.starts_with(b"\""))?;
        Some([opened, &self.tag_end].concat())
    }

    fn set_fields(&self, fields: &mut Fields) {
        let varies = fields.all(FieldId::Vary).any(|value| {
            value.split(|&b| b == b',').any(|name| {
                let name = name.trim_ascii();
                name == b"*" || name.eq_ignore_ascii_case(b"Accept-Encoding")
            })
        });
        if !varies {
            fields.push(FieldId::Vary, b"Accept-Encoding");
        }
        fields.set(FieldId::ContentEncoding, self.coding.name().as_bytes());
        // Ranges would refer to compressed bytes, which may differ from one response to the next.
        fields.remove(FieldId::AcceptRanges);
        fields.remove(FieldId::ContentLength);
        self.mark_tag(fields);
    }
}

impl Filter for EncodeFilter {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if !self.eligible.includes(exchange, &body) {
            if exchange.res.status == Status::NOT_MODIFIED && self.client_has_variant(exchange) {
                self.mark_tag(&mut exchange.res.fields);
            }
            return body;
        }
        compress(&self.coding, None, exchange, body, |fields| {
            self.set_fields(fields)
        })
    }
}

/// Bytes of a response before and after compression.
#[derive(Debug, Default)]
pub struct Counts {
    plain: AtomicU64,
    coded: AtomicU64,
}

impl Counts {
    fn add(&self, plain: usize, coded: usize) {
        self.plain.fetch_add(plain as u64, Ordering::Relaxed);
        self.coded.fetch_add(coded as u64, Ordering::Relaxed);
    }

    /// The number of bytes before compression, and after it.
    pub fn both(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.plain), read(&self.coded))
    }
}

/// Compresses a body. `say` changes the response headers once it is certain that the body is compressed; if no encoder
/// is available the body is returned unchanged.
pub fn compress(
    coding: &Coding,
    counts: Option<&Arc<Counts>>,
    exchange: &mut Exchange,
    body: Body,
    say: impl FnOnce(&mut Fields),
) -> Body {
    if exchange.req.method == Method::Head {
        // The headers are those of GET, whose length is known only after compression.
        say(&mut exchange.res.fields);
        return Body::Stream(Box::new(Silence));
    }
    let at_once = body
        .len(exchange.inline.len())
        .is_some_and(|len| len <= ENCODE_AT_ONCE_BYTES_MAX);
    let source = match Source::of(exchange, body) {
        Ok(source) => source,
        Err(other) => return other,
    };
    if at_once && source.is_at_hand() {
        // In one go, so that the length is known.
        let Ok(encoded) = coding.encode(source.at_hand()) else {
            return source.into_body(exchange);
        };
        if let Some(counts) = counts {
            counts.add(source.at_hand().len(), encoded.len());
        }
        say(&mut exchange.res.fields);
        exchange.inline = encoded;
        return Body::Inline;
    }
    match coding.coder().ok().flatten() {
        Some(coder) => {
            say(&mut exchange.res.fields);
            Body::Stream(Box::new(EncodeStream::new(source, coder, counts.cloned())))
        }
        None => source.into_body(exchange),
    }
}

/// Whether responses of this type become smaller.
fn is_compressible(content_type: &[u8]) -> bool {
    TYPES.iter().any(|prefix| {
        content_type
            .get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    })
}

/// The types listed in Caddy's documentation of `encode`, each as a prefix.
const TYPES: &[&str] = &[
    "application/atom+xml",
    "application/eot",
    "application/font",
    "application/geo+json",
    "application/graphql+json",
    "application/graphql-response+json",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/opentype",
    "application/otf",
    "application/rss+xml",
    "application/truetype",
    "application/ttf",
    "application/vnd.api+json",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-httpd-cgi",
    "application/x-javascript",
    "application/x-opentype",
    "application/x-otf",
    "application/x-perl",
    "application/x-protobuf",
    "application/x-ttf",
    "application/xhtml+xml",
    "application/xml",
    "font/otf",
    "font/ttf",
    "image/svg+xml",
    "image/vnd.microsoft.icon",
    "image/x-icon",
    "multipart/bag",
    "multipart/mixed",
    "text/",
];
