//! Site addresses. Caddy 1 serves plain HTTP if a name cannot have a public certificate, and uses port 2015 by default.

use std::net::IpAddr;

use super::pieces::word;
use super::translation::{TlsKind, Translation};
use crate::tree::Token;

/// The port of a plain site that names none.
const DEFAULT_PORT: &str = "2015";

/// An address in its parts.
struct Parts<'a> {
    scheme: Option<&'a str>,
    host: &'a str,
    port: Option<&'a str>,
    path: &'a str,
}

impl Translation<'_> {
    /// The addresses in the new language, and the path that all of them end in.
    pub(super) fn addresses(&mut self, old: &[Token]) -> (Vec<Token>, Option<Token>) {
        let mut path = None;
        let mut paths = std::collections::BTreeSet::new();
        let new = old.iter().map(|address| {
            let parts = parts(&address.text);
            let trimmed = parts.path.trim_end_matches('/');
            paths.insert(trimmed.to_owned());
            if !trimmed.is_empty() {
                path = Some(word(trimmed, address));
            }
            word(new_address(&parts, self.tls), address)
        });
        let new: Vec<Token> = new.collect();
        if paths.len() > 1 {
            let title = "the addresses of a site end in different paths";
            self.cannot(&old[0], title, "write a site for each of them");
        }
        (new, path)
    }
}

/// Labels in the host name, if all addresses have equally many.
pub(super) fn labels(addresses: &[Token]) -> usize {
    let count = |address: &Token| {
        let host = parts(&address.text).host;
        if host.is_empty() {
            0
        } else {
            host.split('.').count()
        }
    };
    let first = addresses.first().map_or(0, count);
    let same = addresses.iter().all(|address| count(address) == first);
    if same { first } else { 0 }
}

fn parts(address: &str) -> Parts<'_> {
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, address),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // The colons of an IPv6 address stand in brackets.
    let bracket = authority.rfind(']').unwrap_or(0);
    let (host, port) = match authority[bracket..].rfind(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(bracket + colon);
            (host, Some(&port[1..]).filter(|port| !port.is_empty()))
        }
        None => (authority, None),
    };
    Parts {
        scheme,
        host,
        port,
        path,
    }
}

fn new_address(parts: &Parts<'_>, tls: TlsKind) -> String {
    let Parts {
        scheme,
        host,
        port,
        path,
    } = parts;
    // Services have names, too.
    let (scheme, port) = match (*scheme, *port) {
        (None, Some("http")) => (Some("http"), None),
        (None, Some("https")) => (Some("https"), None),
        as_written => as_written,
    };
    let is_plain = match (scheme, tls) {
        (Some("https"), TlsKind::Automatic | TlsKind::Own) => false,
        (Some(scheme), TlsKind::Automatic | TlsKind::Own) => scheme == "http",
        (_, TlsKind::Off) => true,
        (None, TlsKind::Own) => false,
        (None, TlsKind::Automatic) => !is_public(host) && port != Some("443"),
    };
    let path = match path.trim_end_matches('/') {
        "" => String::new(),
        path => format!("{path}*"),
    };
    let shown_port = port.map_or(String::new(), |port| format!(":{port}"));
    match (is_plain, scheme, port) {
        (true, None, None) if !is_public(host) => format!("http://{host}:{DEFAULT_PORT}{path}"),
        // A port alone is plain HTTP in the new language, too.
        (true, None, Some(_)) if host.is_empty() && port != Some("443") => {
            format!("{shown_port}{path}")
        }
        (true, _, _) => format!("http://{host}{shown_port}{path}"),
        (false, Some(_), _) => format!("https://{host}{shown_port}{path}"),
        (false, None, None) if host.is_empty() => format!("https://:{DEFAULT_PORT}{path}"),
        (false, None, _) if tls == TlsKind::Own && port != Some("80") => {
            format!("https://{host}{shown_port}{path}")
        }
        (false, None, _) => format!("{host}{shown_port}{path}"),
    }
}

/// Whether Caddy 1 would get a certificate for a name.
fn is_public(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    !host.is_empty()
        && host != "localhost"
        && !host.starts_with('.')
        && !host.ends_with('.')
        && bare.parse::<IpAddr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(address: &str, tls: TlsKind) -> String {
        new_address(&parts(address), tls)
    }

    #[test]
    fn addresses_keep_what_is_spoken_there() {
        for (old, expected) in [
            ("http://", "http://"),
            ("http://:580", "http://:580"),
            (":8080", ":8080"),
            (":http", "http://"),
            ("localhost", "http://localhost:2015"),
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1:80", "http://127.0.0.1:80"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("https://localhost", "https://localhost"),
            ("example.com", "example.com"),
            ("*.example.com:8443", "*.example.com:8443"),
            ("example.com/blog", "example.com/blog*"),
            (":443", ":443"),
        ] {
            assert_eq!(new(old, TlsKind::Automatic), expected, "{old}");
        }
        assert_eq!(new("example.com", TlsKind::Off), "http://example.com");
        assert_eq!(
            new("localhost:8443", TlsKind::Own),
            "https://localhost:8443"
        );
        assert_eq!(new(":8443", TlsKind::Own), "https://:8443");
    }
}
