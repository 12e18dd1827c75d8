//! Encodes heads and chunk lines. The caller chooses the headers of a message, except those that frame it: the encoder
//! always writes these itself, so that head and body cannot disagree.
//!
//! Values may come from placeholders and rewrites, hence from a client. Whatever they contain, the encoder never writes
//! a line end that the caller did not intend: in a request, such a value is an error; in a response, which has to be
//! sent in any case, control characters become spaces (RFC 9110, section 5.5, allows both).

use alloc::vec::Vec;

use sluice_message::decimal::push_integer;
use sluice_message::hex::push_escape;
use sluice_message::name::{is_token_byte, is_value_byte};
use sluice_message::{Field, FieldId, Fields, Method, RequestHead, Status, Unfit, Version};

use super::framing::{BodyFraming, items};
use super::{body, scan};
use crate::limits::TargetBytes;

/// What stands after the content of each chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// What ends a chunked body without trailer fields.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The Connection field of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionHeader {
    /// No such field: an HTTP/1.1 connection goes on.
    None,
    /// `close`
    Close,
    /// `keep-alive`, which HTTP/1.0 clients need to hear.
    KeepAlive,
    /// The same, and for how many seconds the connection waits for another request.
    KeepAliveFor(u32),
    /// `upgrade`: the response switches protocols.
    Upgrade,
}

/// Writes the head of a request in origin form, or in authority form for CONNECT.
///
/// `Host` comes first if the list has none. `Connection`, `Content-Length` and `Transfer-Encoding` of the list are
/// replaced according to `framing`, with the connection options that the list implies: `close` if its `Connection`
/// header contains it, `upgrade` if there is an `Upgrade` header, `TE` if there is a `TE` header (RFC 9110, sections
/// 7.8 and 10.1.4).
///
/// A header that cannot be encoded is an error, and nothing is written: the upstream gets exactly the configured
/// request, or none. A target has no such bytes, because it is percent-encoded. `UntilClose` is sent as a request
/// without a body.
pub fn encode_request_head(
    head: &RequestHead,
    framing: BodyFraming,
    out: &mut Vec<u8>,
) -> Result<(), Unfit> {
    encode_with_target(head, TargetBytes::Ascii, framing, out)
}

/// As [`encode_request_head`], but with a target that may have all bytes of `targets`; only others are percent-encoded.
pub fn encode_with_target(
    head: &RequestHead,
    targets: TargetBytes,
    framing: BodyFraming,
    out: &mut Vec<u8>,
) -> Result<(), Unfit> {
    debug_assert!(
        framing != BodyFraming::UntilClose,
        "a request says where it ends"
    );
    head.fields.fit()?;
    if !head.fields.has(FieldId::Host) && !head.authority.iter().all(|byte| is_value_byte(*byte)) {
        return Err(Unfit::Value);
    }
    out.extend_from_slice(head.method.as_str().as_bytes());
    out.push(b' ');
    push_target(head, targets, out);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if !head.fields.has(FieldId::Host) {
        push_line(b"Host", &head.authority, out);
    }
    let (mut close, mut upgrade, mut te) = (false, false, false);
    head.fields.write_lines(out, |field| match field.id {
        FieldId::Connection => {
            close |= items(field.value).any(|item| item.eq_ignore_ascii_case(b"close"));
            false
        }
        FieldId::ContentLength
        | FieldId::TransferEncoding
        | FieldId::KeepAlive
        | FieldId::ProxyConnection => false,
        FieldId::Upgrade => {
            upgrade = true;
            true
        }
        FieldId::Te => {
            te = true;
            true
        }
        _ => true,
    });
    push_framing(framing, out);
    for (named, option) in [(close, "close"), (upgrade, "Upgrade"), (te, "TE")] {
        if named {
            push_line(b"Connection", option.as_bytes(), out);
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// The reason phrases of status lines (RFC 9112, section 4); those that are registered are [`Status::reason`].
pub type ReasonPhrases = fn(Status) -> &'static str;

/// Writes the head of a final response, or of a 101.
///
/// `Connection`, `Content-Length` and `Transfer-Encoding` of the list are replaced according to `conn` and `framing`.
/// [`BodyFraming::None`] is for responses that never have a body: to HEAD, and 1xx, 204 and 304. A `Content-Length` of
/// the list then describes the body that is not sent and stays, except with 1xx and 204, which must not have one (RFC
/// 9110, section 8.6). Any other empty response is `Length(0)`. `Date` is added unless the list has one.
pub fn encode_response_head(
    status: Status,
    fields: &Fields,
    framing: BodyFraming,
    conn: ConnectionHeader,
    date: &[u8; 29],
    (version, reasons): (Version, ReasonPhrases),
    out: &mut Vec<u8>,
) {
    debug_assert!(
        framing != BodyFraming::Chunked || version != Version::Http10,
        "HTTP/1.0 knows no chunks"
    );
    let framing = if status.is_bodiless() {
        BodyFraming::None
    } else {
        framing
    };
    push_status_line(status, version, reasons, out);
    let described =
        framing == BodyFraming::None && !status.is_informational() && status != Status::NO_CONTENT;
    let (mut dated, mut length) = (false, false);
    fields.write_lines(out, |field| match field.id {
        FieldId::ContentLength => {
            length = true;
            false
        }
        FieldId::Connection | FieldId::TransferEncoding => false,
        FieldId::Date => {
            dated = true;
            true
        }
        _ => true,
    });
    if !dated && !status.is_informational() {
        let mut line = *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        line[6..35].copy_from_slice(date);
        out.extend_from_slice(&line);
    }
    let described = (length && described).then(|| fields.all(FieldId::ContentLength).last());
    match described.flatten() {
        Some(value) => push_line(b"Content-Length", value, out),
        None => push_framing(framing, out),
    }
    let line: &[u8] = match conn {
        ConnectionHeader::None => b"",
        ConnectionHeader::Close => b"Connection: close\r\n",
        ConnectionHeader::KeepAlive => b"Connection: keep-alive\r\n",
        ConnectionHeader::KeepAliveFor(seconds) => {
            out.extend_from_slice(b"Keep-Alive: timeout=");
            push_integer(out, u64::from(seconds));
            b"\r\nConnection: keep-alive\r\n"
        }
        ConnectionHeader::Upgrade => b"Connection: Upgrade\r\n",
    };
    out.extend_from_slice(line);
    out.extend_from_slice(b"\r\n");
}

/// Writes an interim response: 1xx other than 101 (RFC 9110, section 15.2).
pub fn encode_interim(status: Status, fields: &Fields, out: &mut Vec<u8>) {
    debug_assert!(status.is_informational() && status != Status::SWITCHING_PROTOCOLS);
    push_status_line(status, Version::Http11, Status::reason, out);
    for field in fields.iter() {
        match field.id {
            FieldId::ContentLength
            | FieldId::TransferEncoding
            | FieldId::Connection
            | FieldId::KeepAlive
            | FieldId::Upgrade => {}
            _ => push_field(field, out),
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the line before a chunk of `len` bytes, of which there is at least one: an empty chunk would end the
/// body.
pub fn encode_chunk_head(len: usize, out: &mut Vec<u8>) {
    assert!(len > 0, "an empty chunk ends the body");
    let digits = (usize::BITS - len.leading_zeros()).div_ceil(4);
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[len >> (4 * digit) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Ends a chunked body with trailer fields; those that may not be trailers are left out
/// (RFC 9110, section 6.5.1).
pub fn encode_last_chunk_with_trailers(trailers: &Fields, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    for field in trailers
        .iter()
        .filter(|field| body::may_trail(field.id, field.name))
    {
        push_field(field, out);
    }
    out.extend_from_slice(b"\r\n");
}

fn push_status_line(status: Status, version: Version, reasons: ReasonPhrases, out: &mut Vec<u8>) {
    if status == Status::OK && version != Version::Http10 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    let start: &[u8] = if version == Version::Http10 {
        b"HTTP/1.0 "
    } else {
        b"HTTP/1.1 "
    };
    out.extend_from_slice(start);
    let code = status.code();
    let digit = |value: u16| b'0' + (value % 10) as u8;
    out.extend_from_slice(&[digit(code / 100), digit(code / 10), digit(code), b' ']);
    out.extend_from_slice(reasons(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The target of a request line. Rewrites can put any byte into it; those that may not stand there are
/// percent-encoded.
pub(crate) fn push_target(head: &RequestHead, targets: TargetBytes, out: &mut Vec<u8>) {
    let uri = head.uri.as_bytes();
    let target = if head.method == Method::Connect {
        &head.authority[..]
    } else {
        uri
    };
    let is_asterisk = target == b"*" && head.method == Method::Options;
    if head.method != Method::Connect && target.first() != Some(&b'/') && !is_asterisk {
        out.push(b'/');
    }
    let mut rest = target;
    loop {
        let end = match targets {
            TargetBytes::Ascii => scan::target_end(rest, 0),
            TargetBytes::Raw => scan::raw_target_end(rest, 0),
        };
        let (plain, other) = rest.split_at(end);
        out.extend_from_slice(plain);
        let Some((byte, after)) = other.split_first() else {
            return;
        };
        push_escape(out, *byte);
        rest = after;
    }
}

fn push_framing(framing: BodyFraming, out: &mut Vec<u8>) {
    match framing {
        BodyFraming::None | BodyFraming::UntilClose => {}
        BodyFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        BodyFraming::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            push_integer(out, length);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Writes one header of a list. A name that is not a token would change the meaning of the lines after it, so such a
/// header is skipped; names with a number are tokens.
#[inline]
fn push_field(field: Field<'_>, out: &mut Vec<u8>) {
    let known = field.id != FieldId::Other;
    if known || !field.name.is_empty() && field.name.iter().all(|byte| is_token_byte(*byte)) {
        push_line(field.name, field.value, out);
    }
}

/// Writes a field line. Control characters in the value become spaces (RFC 9110, section 5.5).
#[inline]
fn push_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    let mut rest = value;
    loop {
        let end = scan::value_end(rest, 0);
        out.extend_from_slice(&rest[..end]);
        if end == rest.len() {
            break;
        }
        out.push(b' ');
        rest = &rest[end + 1..];
    }
    out.extend_from_slice(b"\r\n");
}
