//! The ID of a request, with `request_id`: taken from a trusted proxy or new, sent to upstreams and to the client, logged,
//! and shown on error pages.

use std::sync::Arc;

use sluice_message::{FieldId, FieldName};
use sluice_model::http::RequestIdHeader;
use sluice_net::Body;
use sluice_route::uuid;

use crate::context::{Exchange, RequestId};
use crate::limits::REQUEST_ID_BYTES_MAX;
use crate::odd_headers::{is_alias, is_odd};
use crate::refusal::Refusal;

/// The name of the ID in logs.
const LOG_NAME: &str = "request_id";

/// Gives each request its ID.
pub struct RequestIds {
    header: Arc<FieldName>,
    log_name: Arc<str>,
    form: Form,
}

/// How a new ID is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As a UUID (RFC 9562).
    Uuid,
    /// As 32 hexadecimal digits, as nginx's `$request_id`.
    Hexadecimal,
}

impl RequestIds {
    /// Parses the settings.
    ///
    /// # Errors
    /// The header has an invalid name.
    pub fn build(config: &RequestIdHeader, form: Form) -> Result<RequestIds, Refusal> {
        let Some(header) = config.name() else {
            let what = format!("request_id: `{}` is not a header for IDs", config.header);
            return Err(Refusal::new(what).with_help("write a name such as `X-Correlation-Id`"));
        };
        Ok(RequestIds {
            header: Arc::new(header),
            log_name: LOG_NAME.into(),
            form,
        })
    }

    /// Sets the ID of a request once its client is known. Clients cannot choose it, and upstreams see no other: an ID in
    /// the header counts if a trusted proxy sent it, if it is the only one, and if it is well formed.
    pub fn assign(&self, exchange: &mut Exchange) {
        let name = self.header.as_str().as_bytes();
        let text = given(exchange, name).unwrap_or_else(|| self.new_id(exchange));
        let fields = &mut exchange.req.fields;
        // Applications could mistake an alias of the client's for it.
        fields.retain(|field| {
            let is_alias = is_odd(field.id, field.name) && is_alias(field.name, name);
            !is_alias && !field.name.eq_ignore_ascii_case(name)
        });
        fields.push_name(&self.header, text.as_bytes());
        let log = &mut exchange.context.log;
        log.fields
            .push((self.log_name.clone(), String::from(&*text)));
        exchange.context.request_id = Some(Arc::new(RequestId {
            text,
            header: self.header.clone(),
        }));
    }

    fn new_id(&self, exchange: &Exchange) -> Box<str> {
        let mut out = Vec::new();
        match self.form {
            Form::Uuid => push_uuid(exchange, &mut out),
            Form::Hexadecimal => push_hexadecimal(exchange, &mut out),
        }
        String::from_utf8_lossy(&out).into()
    }
}

/// The ID of a trusted proxy, if it sent one.
fn given(exchange: &Exchange, name: &[u8]) -> Option<Box<str>> {
    let mut values = exchange.req.fields.find(name);
    match (values.next(), values.next()) {
        (Some(id), None) if exchange.context.from_trusted_proxy => checked(id).map(Into::into),
        _ => None,
    }
}

/// An ID that somebody else has made, if it is well formed. No character of it needs an escape in a header, in HTML or in a
/// log, and as a part of a path it names one file or folder.
fn checked(id: &[u8]) -> Option<&str> {
    let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~+=:;@".contains(byte);
    let is_well_formed = id.len() <= REQUEST_ID_BYTES_MAX
        && id.first().is_some_and(u8::is_ascii_alphanumeric)
        && id.iter().all(is_known);
    std::str::from_utf8(id).ok().filter(|_| is_well_formed)
}

/// Writes the ID of a request: the one of `request_id`, otherwise a random UUID (RFC 9562, version 4). It is the same for the
/// whole request.
pub fn push_uuid(exchange: &Exchange, out: &mut Vec<u8>) {
    if let Some(id) = &exchange.context.request_id {
        return out.extend_from_slice(id.text.as_bytes());
    }
    let mut uuid = drawn(exchange);
    if uuid == 0 {
        uuid = uuid::version_4(sluice_observe::random::bits());
        keep(exchange, uuid);
    }
    out.extend_from_slice(uuid::text(uuid).as_bytes());
}

/// The same as nginx writes it: 32 hexadecimal digits.
pub fn push_hexadecimal(exchange: &Exchange, out: &mut Vec<u8>) {
    if let Some(id) = &exchange.context.request_id {
        return out.extend_from_slice(id.text.as_bytes());
    }
    let mut bits = drawn(exchange);
    if bits == 0 {
        bits = sluice_observe::random::bits();
        keep(exchange, bits);
    }
    out.extend_from_slice(format!("{bits:032x}").as_bytes());
}

fn drawn(exchange: &Exchange) -> u128 {
    let [high, low] = exchange.context.uuid.get();
    u128::from(high) << 64 | u128::from(low)
}

fn keep(exchange: &Exchange, bits: u128) {
    exchange
        .context
        .uuid
        .set([(bits >> 64) as u64, bits as u64]);
}

/// Puts the ID into the head of a response; it replaces the one of an upstream.
pub fn label(exchange: &mut Exchange) {
    if let Some(id) = &exchange.context.request_id {
        let fields = &mut exchange.res.fields;
        fields.remove_name(id.header.as_str().as_bytes());
        fields.push_name(&id.header, id.text.as_bytes());
    }
}

/// The body of an error response that nothing in the configuration has written: empty as in Caddy, or with `request_id` a text
/// with the ID, which the user can report.
pub fn error_body(exchange: &mut Exchange) -> Body {
    let Some(id) = exchange.context.request_id.clone() else {
        return Body::Empty;
    };
    let status = exchange.res.status;
    if status.code() < 400 {
        return Body::Empty;
    }
    let fields = &mut exchange.res.fields;
    for field in [
        FieldId::ContentEncoding,
        FieldId::Etag,
        FieldId::LastModified,
    ] {
        fields.remove(field);
    }
    fields.set(FieldId::ContentType, b"text/plain; charset=utf-8");
    let (code, reason) = (status.code(), status.reason());
    let separator = if reason.is_empty() { "" } else { " " };
    let text = format!("{code}{separator}{reason}\nRequest ID: {}\n", id.text);
    exchange.inline.clear();
    exchange.inline.extend_from_slice(text.as_bytes());
    Body::Inline
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_need_escapes_are_not_taken() {
        let longest = "a".repeat(REQUEST_ID_BYTES_MAX);
        for id in [
            "7",
            "0f2a9c51-1c1e-4b6a-9d0c-0c6f7a3f9b1e",
            "Root=1-67891233-abcdef012345678912345678;Self=1-67",
            "cdn.example:node_",
            &longest,
        ] {
            assert_eq!(checked(id.as_bytes()), Some(id));
        }
        let longer = format!("{longest}a");
        for id in [
            "", " ", "..", "a/b", "-a", "a b", "a\"b", "<b>", "a&b", "a'b", "a,b", "{a}", "é",
            &longer,
        ] {
            assert_eq!(checked(id.as_bytes()), None, "{id}");
        }
    }

    #[test]
    fn a_header_needs_a_valid_name() {
        let config = |header: &str| RequestIdHeader {
            header: header.into(),
        };
        for name in ["a b", "Host", "content-length"] {
            let refused = RequestIds::build(&config(name), Form::Uuid).err();
            assert!(refused.is_some(), "{name}");
        }
        let usual = RequestIds::build(&config(""), Form::Uuid).expect("it is valid");
        assert_eq!(usual.header.as_str(), "X-Request-Id");
    }
}
