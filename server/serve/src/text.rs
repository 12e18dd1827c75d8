//! Texts of a configuration that become part of messages.

use std::time::Duration;

use sluice_message::name::is_value_byte;
use sluice_route::{Template, Unknown};

use crate::context::Exchange;
use crate::values::At;

/// Expands a template as a field value. Bytes that must not stand in one, which only a client can have brought
/// in, become spaces: nothing a client sends can start a new line (RFC 9110, section 5.5).
pub fn push_value(template: &Template, unknown: Unknown, x: &Exchange, out: &mut Vec<u8>) {
    if let Some(text) = template.literal() {
        out.extend_from_slice(text);
        return;
    }
    let start = out.len();
    template.expand(&At(x), unknown, out);
    clean_value(&mut out[start..]);
}

/// Replaces what must not stand in a field value by spaces.
pub fn clean_value(value: &mut [u8]) {
    for byte in value.iter_mut().filter(|byte| !is_value_byte(**byte)) {
        *byte = b' ';
    }
}

/// A length of time as Caddy writes it: `1.5ms`, `2m3s`, `1h0m0s`.
pub fn duration(length: Duration) -> String {
    let seconds = length.as_secs();
    if seconds < 60 {
        // Below a minute Rust writes the same, but for nothing at all.
        return if length.is_zero() {
            "0s".to_owned()
        } else {
            format!("{length:?}")
        };
    }
    let rest = Duration::new(seconds % 60, length.subsec_nanos());
    let rest = if rest.is_zero() {
        "0s".to_owned()
    } else {
        format!("{}s", rest.as_secs_f64())
    };
    match seconds / 3600 {
        0 => format!("{}m{rest}", seconds / 60),
        hours => format!("{hours}h{}m{rest}", seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_go() {
        for (nanos, text) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (1_989_866, "1.989866ms"),
            (2_000_000_000, "2s"),
            (61_500_000_000, "1m1.5s"),
            (120_000_000_000, "2m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (90_061_250_000_000, "25h1m1.25s"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanos)), text);
        }
    }
}
