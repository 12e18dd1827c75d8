//! What nginx refuses or leaves out of request heads that are well formed. What is malformed is left to `ground/wire`.

use sluice_message::{FieldId, Method, Status};

use crate::context::Exchange;
use crate::failure::Fault;

/// Refuses what nginx does not take for a request: methods that are not of capitals, `*` as a target, the methods of
/// proxies and of loops, and hosts with an empty label.
pub(super) fn check(x: &Exchange) -> Result<(), Fault> {
    let (status, why) = match &x.req.method {
        Method::Connect => (Status::METHOD_NOT_ALLOWED, "client sent CONNECT method"),
        Method::Trace => (Status::METHOD_NOT_ALLOWED, "client sent TRACE method"),
        Method::Options if &*x.req.target == b"*" => {
            (Status::BAD_REQUEST, "client sent invalid request")
        }
        method @ Method::Other(_) if !method.as_str().bytes().all(is_of_method) => {
            (Status::BAD_REQUEST, "client sent invalid method")
        }
        // One server could take it for another host than the next.
        _ if memchr::memmem::find(&x.req.host, b"..").is_some() => {
            (Status::BAD_REQUEST, "client sent invalid host header")
        }
        _ => return Ok(()),
    };
    Err(Fault::new(status, why))
}

fn is_of_method(byte: u8) -> bool {
    byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-')
}

/// Fields do not count whose names have anything but letters, digits, hyphens and, if wanted, underscores: another field
/// could hide behind one of them where an application makes variables of both.
pub(super) fn drop_odd_names(x: &mut Exchange, takes_underscores: bool) {
    let is_plain = |byte: &u8| {
        byte.is_ascii_alphanumeric() || *byte == b'-' || takes_underscores && *byte == b'_'
    };
    // No known name has one.
    let is_odd = |id: FieldId, name: &[u8]| id == FieldId::Other && !name.iter().all(is_plain);
    if x.req
        .fields
        .iter()
        .any(|field| is_odd(field.id, field.name))
    {
        x.req.fields.retain(|field| !is_odd(field.id, field.name));
    }
}
