//! Sends a file: validators, conditional requests, ranges, and precompressed files. `sluice-cache` reads files; large
//! ones are read by the connection.

use std::io::Write;
use std::rc::Rc;

use sluice_cache::{Content, Found, OpenFile, Reach};
use sluice_message::condition::{self, Validators, Verdict};
use sluice_message::range::{self, Range, Selection};
use sluice_message::{FieldId, Moment, Status, etag, negotiate};
use sluice_model::handler::FileServer as Config;
use sluice_net::body::SharedSlice;
use sluice_net::{Body, FileSlice};

use super::FileServer;
use super::multipart::Multipart;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::files;
use sluice_pipeline::handler::Step;
use sluice_pipeline::refusal::Refusal;

/// A content coding with precompressed files next to the original ones.
pub(super) struct Sidecar {
    coding: &'static str,
    extension: &'static str,
}

impl Sidecar {
    const ALL: [Sidecar; 3] = [
        Sidecar {
            coding: "br",
            extension: ".br",
        },
        Sidecar {
            coding: "zstd",
            extension: ".zst",
        },
        Sidecar {
            coding: "gzip",
            extension: ".gz",
        },
    ];

    /// The codings of a configuration, in order of preference.
    pub(super) fn build(config: &Config) -> Result<Vec<Sidecar>, Refusal> {
        let precompressed = &config.precompressed;
        let enabled = |coding: &str| match coding {
            "br" => precompressed.br.is_some(),
            "zstd" => precompressed.zstd.is_some(),
            "gzip" => precompressed.gzip.is_some(),
            _ => false,
        };
        let order = &config.precompressed_order;
        if let Some(unknown) = order.iter().find(|coding| !enabled(coding)) {
            let message = format!("`precompressed` prefers `{unknown}`, which is not enabled");
            return Err(Refusal::new(message).with_help("the codings are br, zstd and gzip"));
        }
        let mut chosen: Vec<_> = Sidecar::ALL
            .into_iter()
            .filter(|sidecar| enabled(sidecar.coding))
            .collect();
        let place = |sidecar: &Sidecar| order.iter().position(|name| name == sidecar.coding);
        chosen.sort_by_key(|sidecar| place(sidecar).unwrap_or(order.len()));
        Ok(chosen)
    }
}

/// The file that is sent, and its content coding.
struct Variant {
    file: Rc<OpenFile>,
    coding: Option<&'static str>,
}

impl FileServer {
    /// Sends the file opened at `full`.
    pub(super) fn send(
        &self,
        exchange: &mut Exchange,
        full: &[u8],
        file: Rc<OpenFile>,
        now: Moment,
    ) -> Step {
        // The response may depend on `Accept-Encoding` as soon as a precompressed file exists, even if `encode` comes
        // first.
        if !varies_by_coding(exchange) {
            exchange.res.fields.push(FieldId::Vary, b"Accept-Encoding");
        }
        if let Some(step) = self.refuse_method(exchange) {
            return step;
        }
        let media_type = file.media_type;
        let variant = self.variant(exchange, full, file, now);
        self.set_validators(exchange, full, &variant, now);
        let status = match &self.status {
            Some(status) => status.resolve(exchange),
            None => exchange.context.error.as_ref().map(|error| error.status),
        };
        match status {
            // Conditions and ranges apply only to 200 responses (RFC 9110, sections 13.2.1 and 14.2).
            Some(status) => {
                set_type(exchange, media_type);
                exchange.res.status = status;
                Step::Done(whole(&variant.file))
            }
            None => conditional(exchange, &variant, media_type),
        }
    }

    /// The precompressed file that the client prefers, otherwise the file itself.
    fn variant(
        &self,
        exchange: &Exchange,
        full: &[u8],
        file: Rc<OpenFile>,
        now: Moment,
    ) -> Variant {
        if self.sidecars.is_empty() || !exchange.req.fields.has(FieldId::AcceptEncoding) {
            return Variant { file, coding: None };
        }
        let mut ranked: Vec<_> = self
            .sidecars
            .iter()
            .map(|s| {
                (
                    negotiate::coding_weight(&exchange.req.fields, s.coding.as_bytes()),
                    s,
                )
            })
            .filter(|(weight, _)| *weight > 0)
            .collect();
        ranked.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        for (_, sidecar) in ranked {
            let beside = files::with_path(|path| {
                path.extend_from_slice(full);
                path.extend_from_slice(sidecar.extension.as_bytes());
                files::open(path, Reach::Anywhere, now)
            });
            if let Found::File(beside) = beside {
                return Variant {
                    file: beside,
                    coding: Some(sidecar.coding),
                };
            }
        }
        Variant { file, coding: None }
    }

    fn set_validators(&self, exchange: &mut Exchange, full: &[u8], variant: &Variant, now: Moment) {
        let fields = &mut exchange.res.fields;
        // Keep an ETag set by an earlier `header` directive.
        if !fields.has(FieldId::Etag) {
            let written = self
                .etag_extensions
                .iter()
                .find_map(|extension| etag_file(full, variant.coding, extension, now));
            match (written, &variant.file.etag) {
                (Some(tag), _) => fields.push(FieldId::Etag, &tag),
                (None, Some(tag)) => fields.push(FieldId::Etag, tag.as_bytes()),
                (None, None) => {}
            }
        }
        if let Some(date) = &variant.file.last_modified {
            fields.set(FieldId::LastModified, date);
        }
        if let Some(coding) = variant.coding {
            fields.set(FieldId::ContentEncoding, coding.as_bytes());
        }
        fields.set(FieldId::AcceptRanges, b"bytes");
    }
}

/// The entity tag in a file next to the served one (`etag_file_extensions`), in quotes if the file lacks them.
fn etag_file(
    full: &[u8],
    coding: Option<&'static str>,
    extension: &str,
    now: Moment,
) -> Option<Vec<u8>> {
    let found = files::with_path(|path| {
        path.extend_from_slice(full);
        let sidecar = Sidecar::ALL
            .iter()
            .find(|sidecar| Some(sidecar.coding) == coding);
        path.extend_from_slice(sidecar.map_or(&[], |sidecar| sidecar.extension.as_bytes()));
        path.extend_from_slice(extension.as_bytes());
        files::open(path, Reach::Anywhere, now)
    });
    let Found::File(file) = found else {
        return None;
    };
    let Content::Bytes(bytes) = &file.content else {
        return None;
    };
    let text = bytes.trim_ascii();
    if matches!(etag::scan(text), Some((_, []))) {
        return Some(text.to_vec());
    }
    let quoted = [b"\"", text, b"\""].concat();
    matches!(etag::scan(&quoted), Some((_, []))).then_some(quoted)
}

/// The ranges of a content of `size` bytes that a request asks for.
pub fn selection(
    exchange: &Exchange,
    validators: Validators<'_>,
    now: u64,
    size: u64,
) -> Selection {
    match exchange.req.fields.first(FieldId::Range) {
        Some(field) if condition::range_applies(&exchange.req.fields, validators, now) => {
            range::select(field, size)
        }
        Some(_) | None => Selection::Whole,
    }
}

/// RFC 9110, section 13.2.2, then section 14.2.
fn conditional(
    exchange: &mut Exchange,
    variant: &Variant,
    media_type: Option<&'static str>,
) -> Step {
    let now = exchange.worker.clock.unix_seconds();
    let validators = Validators {
        etag: exchange.res.fields.first(FieldId::Etag),
        modified: variant
            .file
            .last_modified
            .map(|_| variant.file.facts.modified.seconds),
    };
    match condition::evaluate(&exchange.req.method, &exchange.req.fields, validators, now) {
        Verdict::NotModified => return not_modified(exchange),
        Verdict::Failed => {
            exchange.res.status = Status::PRECONDITION_FAILED;
            exchange.res.fields.remove(FieldId::AcceptRanges);
            return Step::Done(Body::Empty);
        }
        Verdict::Proceed => {}
    }
    let size = variant.file.facts.size;
    match selection(exchange, validators, now, size) {
        Selection::Whole => {
            set_type(exchange, media_type);
            exchange.res.status = Status::OK;
            Step::Done(whole(&variant.file))
        }
        Selection::One(range) => {
            set_type(exchange, media_type);
            exchange.res.status = Status::PARTIAL_CONTENT;
            set_content_range(exchange, range, size);
            Step::Done(part(&variant.file, range))
        }
        Selection::Many(ranges) => {
            set_type(exchange, media_type);
            exchange.res.status = Status::PARTIAL_CONTENT;
            let part_type = exchange
                .res
                .fields
                .first(FieldId::ContentType)
                .map(<[u8]>::to_vec);
            let parts = Multipart::new(exchange.worker.clone(), &variant.file, ranges, part_type);
            exchange
                .res
                .fields
                .set(FieldId::ContentType, parts.media_type().as_bytes());
            Step::Done(Body::Stream(Box::new(parts)))
        }
        Selection::Unsatisfiable => unsatisfiable(exchange, Some(size)),
        Selection::Malformed => unsatisfiable(exchange, None),
    }
}

/// RFC 9110, section 15.4.5: omit what the client already knows.
fn not_modified(exchange: &mut Exchange) -> Step {
    let fields = &mut exchange.res.fields;
    if fields.has(FieldId::Etag) {
        fields.remove(FieldId::LastModified);
    }
    for id in [
        FieldId::ContentType,
        FieldId::ContentEncoding,
        FieldId::AcceptRanges,
    ] {
        fields.remove(id);
    }
    exchange.res.status = Status::NOT_MODIFIED;
    Step::Done(Body::Empty)
}

/// RFC 9110, section 15.5.17. The headers of the file would describe this response, so they are removed.
fn unsatisfiable(exchange: &mut Exchange, size: Option<u64>) -> Step {
    let fields = &mut exchange.res.fields;
    for id in [
        FieldId::Etag,
        FieldId::LastModified,
        FieldId::ContentEncoding,
        FieldId::AcceptRanges,
        FieldId::ContentType,
    ] {
        fields.remove(id);
    }
    if let Some(size) = size {
        fields.set(FieldId::ContentRange, format!("bytes */{size}").as_bytes());
    }
    exchange.res.status = Status::RANGE_NOT_SATISFIABLE;
    Step::Done(Body::Empty)
}

/// Keep a Content-Type set by an earlier `header` directive.
fn set_type(exchange: &mut Exchange, media_type: Option<&'static str>) {
    if let Some(media_type) = media_type
        && !exchange.res.fields.has(FieldId::ContentType)
    {
        exchange
            .res
            .fields
            .push(FieldId::ContentType, media_type.as_bytes());
    }
}

/// Sets `Content-Range` for a range of a representation of `size` bytes.
pub fn set_content_range(exchange: &mut Exchange, range: Range, size: u64) {
    let mut text = [0; 72];
    let mut rest = &mut text[..];
    let last = range.start + range.len - 1;
    write!(rest, "bytes {}-{last}/{size}", range.start).expect("three numbers fit");
    let left = rest.len();
    exchange
        .res
        .fields
        .set(FieldId::ContentRange, &text[..text.len() - left]);
}

fn varies_by_coding(exchange: &Exchange) -> bool {
    exchange.res.fields.all(FieldId::Vary).any(|value| {
        value.split(|&b| b == b',').any(|name| {
            let name = name.trim_ascii();
            name == b"*" || name.eq_ignore_ascii_case(b"Accept-Encoding")
        })
    })
}

/// All of a file.
pub fn whole(file: &OpenFile) -> Body {
    part(
        file,
        Range {
            start: 0,
            len: file.facts.size,
        },
    )
}

/// A range of a file.
pub fn part(file: &OpenFile, range: Range) -> Body {
    match &file.content {
        Content::Bytes(bytes) => {
            let (start, len) = (range.start as usize, range.len as usize);
            Body::Shared(SharedSlice::part(bytes.clone(), start, start + len))
        }
        Content::Handle(handle) => Body::File(FileSlice {
            file: handle.clone(),
            start: range.start,
            len: range.len,
        }),
    }
}
