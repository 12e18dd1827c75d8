//! Request heads that are well-formed but that nginx rejects or filters. Malformed ones are rejected by
//! `ground/wire`.

use sluice_message::{FieldId, Method, Status};

use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};

/// Rejects requests as nginx does: methods with characters other than capitals, the target `*`, CONNECT and TRACE,
/// and hosts with an empty label.
pub(super) fn check(exchange: &Exchange) -> Result<(), Fault> {
    let (status, why) = match &exchange.req.method {
        // There are no tunnels to other hosts, so `host:port` is not a target.
        Method::Connect => (Status::BAD_REQUEST, "client sent CONNECT method"),
        Method::Trace => (Status::METHOD_NOT_ALLOWED, "client sent TRACE method"),
        Method::Options if &*exchange.req.target == b"*" => {
            (Status::BAD_REQUEST, "client sent invalid request")
        }
        method @ Method::Other(_) if !method.as_str().bytes().all(is_of_method) => {
            (Status::BAD_REQUEST, "client sent invalid method")
        }
        // Servers could disagree on the host.
        _ if memchr::memmem::find(&exchange.req.host, b"..").is_some() => {
            (Status::BAD_REQUEST, "client sent invalid host header")
        }
        _ => return Ok(()),
    };
    Err(Fault::new(status, why).caused_by(Cause::Client))
}

fn is_of_method(byte: u8) -> bool {
    byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-')
}

/// Removes headers whose names contain anything but letters, digits, hyphens and, if allowed, underscores. An
/// application that maps names to variables could confuse them with other headers.
pub(super) fn drop_odd_names(exchange: &mut Exchange, takes_underscores: bool) {
    let is_plain = |byte: &u8| {
        byte.is_ascii_alphanumeric() || *byte == b'-' || takes_underscores && *byte == b'_'
    };
    // No known header name has such characters.
    let is_odd = |id: FieldId, name: &[u8]| id == FieldId::Other && !name.iter().all(is_plain);
    if exchange
        .req
        .fields
        .iter()
        .any(|field| is_odd(field.id, field.name))
    {
        exchange
            .req
            .fields
            .retain(|field| !is_odd(field.id, field.name));
    }
}
