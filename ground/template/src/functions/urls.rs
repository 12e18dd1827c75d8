//! Parsing and formatting of URLs.

use alloc::format;
use alloc::string::String;

use super::function;
use crate::error::Fault;
use crate::function::{Call, Function};
use crate::value::{Text, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("urlParse", 1, 1, parse),
    function("urlJoin", 1, 1, join),
];

/// A map of the parts of an address (RFC 3986, appendix B).
fn parse(call: &mut Call<'_>) -> Result<Value, Fault> {
    let text = call.str(0)?;
    if text.chars().any(|letter| letter.is_ascii_control()) {
        return Err(Fault::failed("an address has no control characters"));
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((&text, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let is_scheme = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
        Some(_) | None => ("", rest),
    };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    let (opaque, path) = match scheme.is_empty() || path.starts_with('/') || path.is_empty() {
        true => ("", path),
        false => (path, ""),
    };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let name = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((name, _)) => name,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let mut decoded = alloc::vec::Vec::new();
    sluice_message::uri::decode_percent(path.as_bytes(), &mut decoded);
    call.room.take(text.len() * 2 + 512)?;
    Ok(Value::map([
        (
            Text::new("scheme"),
            Value::text(scheme.to_ascii_lowercase()),
        ),
        (Text::new("host"), Value::text(host)),
        (Text::new("hostname"), Value::text(name)),
        (Text::new("path"), Value::text(decoded)),
        (Text::new("query"), Value::text(query)),
        (Text::new("opaque"), Value::text(opaque)),
        (Text::new("fragment"), Value::text(fragment)),
        (Text::new("userinfo"), Value::text(user)),
    ]))
}

fn join(call: &mut Call<'_>) -> Result<Value, Fault> {
    let map = call.map(0)?;
    let part = |name: &str| -> String {
        match map.find(&Text::new(name)) {
            Some(Value::Text(text)) => text.lossy().into_owned(),
            _ => String::new(),
        }
    };
    let mut out = String::new();
    let (scheme, opaque) = (part("scheme"), part("opaque"));
    if !scheme.is_empty() {
        out.push_str(&format!("{scheme}:"));
    }
    if !opaque.is_empty() {
        out.push_str(&opaque);
    } else {
        let (host, user) = (part("host"), part("userinfo"));
        if !scheme.is_empty() || !host.is_empty() || !user.is_empty() {
            out.push_str("//");
        }
        if !user.is_empty() {
            out.push_str(&format!("{user}@"));
        }
        out.push_str(&host);
        let path = part("path");
        if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
            out.push('/');
        }
        let mut encoded = alloc::vec::Vec::new();
        sluice_message::uri::encode_path(path.as_bytes(), &mut encoded);
        out.push_str(&String::from_utf8_lossy(&encoded));
    }
    for (mark, name) in [('?', "query"), ('#', "fragment")] {
        let text = part(name);
        if !text.is_empty() {
            out.push_str(&format!("{mark}{text}"));
        }
    }
    call.made(out)
}
