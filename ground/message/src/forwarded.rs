//! The `Forwarded` header (RFC 7239): which client each proxy on the path names. Deciding which proxies to trust is up
//! to the caller.

use alloc::vec::Vec;
use core::net::IpAddr;

/// The clients that the elements of one header line name, from left to right. An element yields `None` if it names no
/// client or none by address: `unknown`, an obfuscated identifier (section 6.3), or a malformed element.
pub fn clients(value: &[u8]) -> impl Iterator<Item = Option<IpAddr>> + '_ {
    // Empty elements of a list count for nothing (RFC 9110, section 5.6.1.2).
    let elements = parts(value, b',').filter(|element| !element.is_empty());
    elements.map(|element| {
        let node = parts(element, b';').find_map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (&pair[..at], &pair[at + 1..]);
            name.eq_ignore_ascii_case(b"for").then_some(value)
        })?;
        address(&unquoted(node)?)
    })
}

/// The parts of `text` between separators that stand in no quoted string, without the blanks around them.
fn parts(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut quoting = Quoting::Outside;
    let split = text.split(move |byte| {
        quoting = quoting.after(*byte);
        quoting == Quoting::Outside && *byte == separator
    });
    split.map(<[u8]>::trim_ascii)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Outside,
    Inside,
    /// Behind a backslash inside.
    Escaped,
}

impl Quoting {
    fn after(self, byte: u8) -> Quoting {
        match (self, byte) {
            (Quoting::Outside, b'"') | (Quoting::Escaped, _) => Quoting::Inside,
            (Quoting::Outside, _) | (Quoting::Inside, b'"') => Quoting::Outside,
            (Quoting::Inside, b'\\') => Quoting::Escaped,
            (Quoting::Inside, _) => Quoting::Inside,
        }
    }
}

/// A token as it is, a quoted string without quotes and backslashes; `None` for anything else.
fn unquoted(value: &[u8]) -> Option<Vec<u8>> {
    let Some(rest) = value.strip_prefix(b"\"") else {
        return (!value.contains(&b'"')).then(|| value.to_vec());
    };
    let inner = rest.strip_suffix(b"\"")?;
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return None,
            b'\\' => out.push(*bytes.next()?),
            byte => out.push(*byte),
        }
    }
    Some(out)
}

/// The address of a node (section 6), with or without a port: IPv6 stands in brackets.
fn address(node: &[u8]) -> Option<IpAddr> {
    let (ip, port) = match node.strip_prefix(b"[") {
        Some(rest) => {
            let at = rest.iter().position(|byte| *byte == b']')?;
            (&rest[..at], &rest[at + 1..])
        }
        None => {
            let at = node.iter().position(|byte| *byte == b':');
            node.split_at(at.unwrap_or(node.len()))
        }
    };
    if !matches!(port, [] | [b':', _, ..]) {
        return None;
    }
    let ip: IpAddr = core::str::from_utf8(ip).ok()?.parse().ok()?;
    (ip.is_ipv6() == node.starts_with(b"[")).then(|| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    fn named(value: &str) -> Vec<String> {
        clients(value.as_bytes())
            .map(|ip| ip.map_or("-".to_string(), |ip| ip.to_string()))
            .collect()
    }

    #[test]
    fn elements_name_clients() {
        for (value, expected) in [
            (
                "for=192.0.2.60;proto=http;by=203.0.113.43",
                &["192.0.2.60"][..],
            ),
            ("For=\"[2001:db8:cafe::17]:4711\"", &["2001:db8:cafe::17"]),
            (
                "for=192.0.2.43, for=198.51.100.17",
                &["192.0.2.43", "198.51.100.17"],
            ),
            (
                "proto=http; for = 1.2.3.4 ,for=5.6.7.8:90",
                &["-", "5.6.7.8"],
            ),
            ("for=\"1.2.3.4:_port\"", &["1.2.3.4"]),
            ("for=\"\\1.2.3.4\"", &["1.2.3.4"]),
            ("for=\"[::ffff:1.2.3.4]\"", &["1.2.3.4"]),
            ("host=\"a,b;for=9.9.9.9\";for=1.1.1.1", &["1.1.1.1"]),
            ("host=\"\\\",for=9.9.9.9\";for=1.1.1.1", &["1.1.1.1"]),
            (",, for=1.2.3.4 ,", &["1.2.3.4"]),
            ("", &[]),
        ] {
            assert_eq!(named(value), expected, "{value}");
        }
    }

    #[test]
    fn an_invalid_address_names_no_client() {
        for value in [
            "for=unknown",
            "for=_hidden",
            "for=",
            "for",
            "proto=http",
            "for=2001:db8::1",
            "for=\"2001:db8::1\"",
            "for=[192.0.2.1]",
            "for=\"[::1\"",
            "for=\"[::1]x\"",
            "for=1.2.3.4:",
            "for=\"1.2.3.4",
            "for=1.2.3.4\"",
            "for=\"1.2.3.4\\\"",
            "for=\"1.2\"3.4\"",
            "x\"for=1.2.3.4",
        ] {
            assert_eq!(named(value), ["-"], "{value}");
        }
    }
}
