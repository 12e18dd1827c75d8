//! Configured texts that become part of messages.

use sluice_message::name::is_value_byte;
use sluice_route::{Template, Unknown};

use crate::context::Exchange;
use crate::values::At;

/// Expands a template as a header value. Invalid bytes, which can only come from a client, are replaced by spaces, so a
/// client cannot inject a new line (RFC 9110, section 5.5).
pub fn push_value(template: &Template, unknown: Unknown, exchange: &Exchange, out: &mut Vec<u8>) {
    if let Some(text) = template.literal() {
        out.extend_from_slice(text);
        return;
    }
    let start = out.len();
    template.expand(&At(exchange), unknown, out);
    clean_value(&mut out[start..]);
}

/// Replaces bytes that are invalid in a header value by spaces.
pub fn clean_value(value: &mut [u8]) {
    for byte in value.iter_mut().filter(|byte| !is_value_byte(**byte)) {
        *byte = b' ';
    }
}
