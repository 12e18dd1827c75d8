//! `nginx_charset`: adds a charset to `Content-Type` and converts bodies to it. Static files that need no
//! conversion get theirs with the media type; conversion is done by `recode`.

pub mod recode;

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sluice_message::{FieldId, Fields};
use sluice_model::nginx::Charset as Config;
use sluice_net::{Body, BodyStream, Failure};
use sluice_route::Template;

use super::TreeRef;
use super::types::Kinds;
use crate::shared::Shared;
use crate::state::NginxContext;
use sluice_handlers::filters::encode::{Silence, Source};
use sluice_observe::log::Severity;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::text::clean_value;
use sluice_pipeline::values::expanded;

use recode::{Charsets, Recoder, Table};

/// The handler.
struct Charset(Arc<Settings>);

struct Settings {
    name: Template,
    /// The charset of responses that do not declare one; empty if unknown.
    source: Template,
    /// Whether declared charsets are overridden (`override_charset`).
    overrides: bool,
    types: Kinds,
    charsets: Arc<Charsets>,
    tree: TreeRef,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Box::new(Charset(Arc::new(Settings {
        name: builder.template(&config.name)?,
        source: builder.template(&config.source)?,
        overrides: config.overrides,
        types: Kinds::build(&config.types),
        charsets: Shared::of(builder).charsets,
        tree: Shared::of(builder).tree,
    }))))
}

impl Handler for Charset {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        exchange.context.nginx_mut().heeds_charset = true;
        exchange.context.filters.push(self.0.clone());
        Step::Next
    }
}

/// Stores the charset requested by an upstream (`X-Accel-Charset`), if the location evaluates it.
pub fn heed(exchange: &mut Exchange, fields: &Fields) {
    if exchange.context.nginx().heeds_charset
        && let Some(name) = fields.find_first(b"X-Accel-Charset")
    {
        exchange.context.occasional_mut().charset_wanted = name.to_vec();
    }
}

/// Splits a media type into the part before its charset parameter, and the charset if there is one.
fn parted(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut at = 0;
    for (index, part) in value.split(|byte| *byte == b';').enumerate() {
        let word = part.trim_ascii();
        let is_it = word
            .get(..8)
            .is_some_and(|name| name.eq_ignore_ascii_case(b"charset="));
        if index > 0 && is_it {
            let name = &word[8..];
            let bare = name
                .strip_prefix(b"\"")
                .and_then(|name| name.strip_suffix(b"\""));
            return (&value[..at - 1], Some(bare.unwrap_or(name)));
        }
        at += part.len() + 1;
    }
    (value, None)
}

/// The charset parameter of a media type.
pub(super) fn named_in(value: &[u8]) -> Option<&[u8]> {
    parted(value).1
}

/// What to do with a response.
enum Fate {
    Stays,
    /// Declare this charset.
    Named(Vec<u8>),
    /// Convert the body to this charset with the table.
    Recoded(Vec<u8>, Arc<Table>),
}

impl Settings {
    fn fate(&self, exchange: &mut Exchange) -> Fate {
        let Some(value) = exchange.res.fields.first(FieldId::ContentType) else {
            return Fate::Stays;
        };
        let own = named_in(value).map(<[u8]>::to_vec);
        let Some(name) = self.wanted(exchange, own.is_some()) else {
            return Fate::Stays;
        };
        let from = match &own {
            Some(own) if !self.charsets.know(own) => return Fate::Stays,
            Some(own) => own.clone(),
            None => expanded(&self.source, exchange),
        };
        // Old browsers applied a redirect's charset to the next page, so nginx sends none in redirects.
        let is_redirect = matches!(exchange.res.status.code(), 301 | 302);
        if from.is_empty() || from == b"off" || from.eq_ignore_ascii_case(&name) || is_redirect {
            return match own.is_some() || is_redirect {
                true => Fate::Stays,
                false => Fate::Named(name),
            };
        }
        match self.charsets.table(&from, &name) {
            Some(table) => Fate::Recoded(name, table.clone()),
            None => {
                let (from, name) = (
                    String::from_utf8_lossy(&from),
                    String::from_utf8_lossy(&name),
                );
                let why =
                    format!("no \"charset_map\" between the charsets \"{from}\" and \"{name}\"");
                self.tree.log_error(exchange, Severity::Error, &why, "");
                Fate::Stays
            }
        }
    }

    /// The target charset; `says_own` if the response declares a charset.
    fn wanted(&self, exchange: &mut Exchange, says_own: bool) -> Option<Vec<u8>> {
        // An included part takes the charset of its page.
        let of_page = &exchange.context.occasional().charset_of_page;
        if exchange.context.nginx().is_subrequest() && !of_page.is_empty() {
            return Some(of_page.clone());
        }
        if !exchange.context.occasional().charset_wanted.is_empty() {
            let mut wanted = std::mem::take(&mut exchange.context.occasional_mut().charset_wanted);
            clean_value(&mut wanted);
            if self.charsets.know(&wanted) {
                return Some(wanted);
            }
            let wanted = String::from_utf8_lossy(&wanted);
            let why = format!("unknown charset \"{wanted}\" to override");
            self.tree.log_error(exchange, Severity::Error, &why, "");
            return None;
        }
        if says_own && !self.overrides || !self.types.include(&exchange.res.fields) {
            return None;
        }
        let mut name = expanded(&self.name, exchange);
        clean_value(&mut name);
        (!name.is_empty() && name != b"off").then_some(name)
    }

    fn say(&self, fields: &mut Fields, name: &[u8]) {
        let value = fields.first(FieldId::ContentType).unwrap_or_default();
        let said = [parted(value).0.trim_ascii_end(), b"; charset=", name].concat();
        fields.set(FieldId::ContentType, &said);
    }
}

impl Filter for Settings {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let (name, table) = match self.fate(exchange) {
            Fate::Stays => return body,
            Fate::Named(name) => {
                self.say(&mut exchange.res.fields, &name);
                return body;
            }
            Fate::Recoded(name, table) => (name, table),
        };
        self.say(&mut exchange.res.fields, &name);
        // A compressed body cannot be converted.
        if exchange.res.fields.has(FieldId::ContentEncoding) {
            return body;
        }
        let length = body
            .len(exchange.inline.len())
            .filter(|_| table.keeps_length());
        if length.is_none() {
            // As in nginx, the ETag stays: it identifies a page that is always sent in this charset.
            exchange.res.fields.remove(FieldId::ContentLength);
            exchange.res.fields.remove(FieldId::AcceptRanges);
        }
        let source = match Source::of(exchange, body) {
            Ok(source) => source,
            Err(other) => return other,
        };
        if exchange.req.method == sluice_message::Method::Head && length.is_none() {
            return Body::Stream(Box::new(Silence));
        }
        let mut recoder = Recoder::new(table);
        if source.is_at_hand() {
            let mut out = Vec::with_capacity(source.at_hand().len());
            recoder.read(source.at_hand(), &mut out);
            recoder.end(&mut out);
            exchange.inline = out;
            return Body::Inline;
        }
        Body::Stream(Box::new(Recoded {
            source,
            recoder,
            out: Vec::new(),
            sent: 0,
            left: length,
            state: State::Reading,
        }))
    }

    fn give_up(&self, exchange: &mut Exchange) {
        exchange.context.nginx_mut().heeds_charset = false;
        if !exchange.context.occasional().charset_wanted.is_empty() {
            exchange.context.occasional_mut().charset_wanted.clear();
        }
    }
}

/// A body converted to another charset.
struct Recoded {
    source: Source,
    recoder: Recoder,
    out: Vec<u8>,
    /// Bytes of `out` that have been sent.
    sent: usize,
    /// Remaining bytes, if known.
    left: Option<u64>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    Ended,
}

impl BodyStream for Recoded {
    fn len(&self) -> Option<u64> {
        self.left
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.source.poll_ahead(cx)
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        while self.sent == self.out.len() && self.state == State::Reading {
            self.out.clear();
            self.sent = 0;
            let piece = ready!(self.source.poll_piece(cx))?;
            let count = piece.len();
            if count == 0 {
                self.recoder.end(&mut self.out);
                self.state = State::Ended;
            } else {
                self.recoder.read(piece, &mut self.out);
                self.source.take(count);
            }
        }
        Poll::Ready(Ok(&self.out[self.sent..]))
    }

    fn consume(&mut self, count: usize) {
        self.sent += count;
        self.left = self.left.map(|left| left - count as u64);
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.source.trailers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_type_says_of_its_encoding_is_found() {
        for (value, rest, said) in [
            ("text/html", "text/html", None),
            ("text/html; charset=utf-8", "text/html", Some("utf-8")),
            ("text/html;Charset=\"x\"; a=b", "text/html", Some("x")),
            ("text/html; a=b; charset=y", "text/html; a=b", Some("y")),
            ("text/html; a=charset=x", "text/html; a=charset=x", None),
            ("charset=x", "charset=x", None),
        ] {
            let (before, name) = parted(value.as_bytes());
            assert_eq!(before, rest.as_bytes(), "{value}");
            assert_eq!(name, said.map(str::as_bytes), "{value}");
        }
    }
}
