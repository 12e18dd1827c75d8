//! `Location` headers with placeholders, and protection against open redirects.

use sluice_message::uri::encode_path;
use sluice_route::rewrite::is_decoded_path;
use sluice_route::{Template, Unknown};

use crate::context::Exchange;
use crate::text::clean_value;
use crate::values::At;

/// Expands a `Location` header. Placeholders hold decoded paths, which are encoded again; a text that does not itself
/// start with a host cannot redirect to a host chosen by the request.
pub fn of(text: &Template, exchange: &Exchange) -> Vec<u8> {
    let mut out = Vec::new();
    text.expand_each(
        &At(exchange),
        Unknown::Empty,
        &mut out,
        |key, out, start| {
            if is_decoded_path(key, &exchange.context.scratch) {
                let value = out.split_off(start);
                encode_path(&value, out);
            }
        },
    );
    if !text.source().starts_with("//") {
        keep_here(&mut out);
    }
    clean_value(&mut out);
    out
}

/// Reduces leading slashes to one: browsers treat `//host` and `/\host` as another host.
pub fn keep_here(target: &mut Vec<u8>) {
    if target.first() != Some(&b'/') {
        return;
    }
    let more = target[1..]
        .iter()
        .take_while(|byte| matches!(byte, b'/' | b'\\'))
        .count();
    target.drain(1..=more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_on_this_server() {
        for (target, expected) in [
            ("/a", "/a"),
            ("//evil.example/", "/evil.example/"),
            ("/\\evil.example/", "/evil.example/"),
            ("/\\/\\evil.example//x", "/evil.example//x"),
            ("///", "/"),
            ("", ""),
            ("https://a.example//b", "https://a.example//b"),
        ] {
            let mut kept = target.as_bytes().to_vec();
            keep_here(&mut kept);
            assert_eq!(String::from_utf8_lossy(&kept), expected);
        }
    }
}
