//! The target of a load: an address, a name for `Host` and TLS, and the protocol.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::result::FailureClass;

/// The target of a load.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL as given.
    pub url: String,
    /// The address to connect to.
    pub address: Address,
    /// Host and port for the `Host` header.
    pub authority: String,
    /// The server name for TLS.
    pub name: String,
    /// Path and query.
    pub path: String,
    /// The protocol that the connections speak.
    pub protocol: Protocol,
}

/// An address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// The protocol of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 without TLS.
    Http1,
    /// HTTP/1.1 over TLS.
    Https1,
    /// HTTP/2 without TLS, with prior knowledge (RFC 9113, section 3.3).
    H2c,
    /// HTTP/2 over TLS.
    H2,
    /// HTTP/3 over QUIC.
    H3,
}

/// The version of HTTP that is asked for. With the scheme of the URL it makes the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/3, which needs `https://`.
    Http3,
}

impl Protocol {
    /// Whether it uses TLS.
    pub fn is_tls(self) -> bool {
        matches!(self, Protocol::Https1 | Protocol::H2 | Protocol::H3)
    }

    /// Whether it is HTTP/2.
    pub fn is_h2(self) -> bool {
        matches!(self, Protocol::H2c | Protocol::H2)
    }

    /// Whether it is HTTP/3.
    pub fn is_h3(self) -> bool {
        self == Protocol::H3
    }

    /// The version of HTTP.
    pub fn version(self) -> HttpVersion {
        match self {
            Protocol::Http1 | Protocol::Https1 => HttpVersion::Http1,
            Protocol::H2c | Protocol::H2 => HttpVersion::Http2,
            Protocol::H3 => HttpVersion::Http3,
        }
    }

    /// The protocol ID for ALPN (RFC 7301), over TLS.
    pub fn alpn(self) -> &'static [u8] {
        match self.version() {
            HttpVersion::Http1 => b"http/1.1",
            HttpVersion::Http2 => b"h2",
            HttpVersion::Http3 => b"h3",
        }
    }

    /// The name used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Http1 => "http/1.1",
            Protocol::Https1 => "https/1.1",
            Protocol::H2c => "h2c",
            Protocol::H2 => "h2",
            Protocol::H3 => "h3",
        }
    }
}

/// Why a target cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoTarget {
    /// `Resolve`, or `None` for a mistake in the URL.
    pub class: Option<FailureClass>,
    /// The problem, and what to type instead.
    pub text: String,
}

/// Which hosts may be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Loopback addresses of this host, and unix sockets.
    Loopback,
    /// Any: the operator confirms that the host is theirs.
    Anywhere,
}

impl Target {
    /// Parses a URL, resolves its host, and rejects hosts outside `reach`. `unix` replaces the address by a socket.
    pub fn parse(
        url: &str,
        version: HttpVersion,
        unix: Option<PathBuf>,
        reach: Reach,
    ) -> Result<Self, NoTarget> {
        let mistake = |text: String| NoTarget { class: None, text };
        let (tls, rest) = match url.split_once("://") {
            Some(("http" | "ws", rest)) => (false, rest),
            Some(("https" | "wss", rest)) => (true, rest),
            Some((scheme, _)) => {
                let text = format!("unsupported scheme `{scheme}://`: use http:// or https://");
                return Err(mistake(text));
            }
            None => (false, url),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(cut);
        if authority.is_empty() {
            return Err(mistake(format!(
                "`{url}` has no host; try http://localhost:8080/"
            )));
        }
        if authority.contains('@') {
            let text =
                "credentials in the URL are not sent; use --header 'Authorization: …' instead";
            return Err(mistake(text.into()));
        }
        if let Some(bad) = path
            .chars()
            .find(|c| c.is_control() || *c == ' ' || !c.is_ascii())
        {
            return Err(mistake(format!(
                "`{bad}` in the path must be percent-encoded"
            )));
        }
        let path = match path {
            "" => "/".to_string(),
            path if path.starts_with('?') => format!("/{path}"),
            path => path.to_string(),
        };
        let protocol = match (version, tls) {
            (HttpVersion::Http1, false) => Protocol::Http1,
            (HttpVersion::Http1, true) => Protocol::Https1,
            (HttpVersion::Http2, false) => Protocol::H2c,
            (HttpVersion::Http2, true) => Protocol::H2,
            (HttpVersion::Http3, true) if unix.is_none() => Protocol::H3,
            (HttpVersion::Http3, true) => {
                return Err(mistake("HTTP/3 does not run over a unix socket".into()));
            }
            (HttpVersion::Http3, false) => {
                return Err(mistake("HTTP/3 needs an https:// URL".into()));
            }
        };
        let (name, port) = split_authority(authority, tls).map_err(mistake)?;
        let address = match unix {
            Some(path) => Address::Unix(path),
            None => Address::Tcp(resolve(&name, port)?),
        };
        guard(&address, reach)?;
        Ok(Target {
            url: url.to_string(),
            address,
            authority: authority.to_string(),
            name,
            path,
            protocol,
        })
    }
}

/// Splits into host without brackets, and port.
fn split_authority(authority: &str, tls: bool) -> Result<(String, u16), String> {
    let default = if tls { 443 } else { 80 };
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest
                .split_once(']')
                .ok_or(format!("`{authority}`: missing closing bracket"))?;
            (host, after.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        None => default,
        Some(port) => port
            .parse()
            .map_err(|_| format!("`{port}` is not a port (1 to 65535)"))?,
    };
    // `:8080` is this machine, as in server configurations.
    let host = if host.is_empty() { "localhost" } else { host };
    Ok((host.to_string(), port))
}

/// The first address of a host, IPv4 before IPv6: servers under test listen on both or on IPv4.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, NoTarget> {
    let failed = |text: String| NoTarget {
        class: Some(FailureClass::Resolve),
        text,
    };
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|error| failed(format!("`{host}` cannot be resolved: {error}")))?;
    let mut found: Vec<SocketAddr> = found.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    let first = found.first().copied();
    first.ok_or_else(|| failed(format!("`{host}` has no address")))
}

/// A load on somebody else's host would be an attack.
fn guard(address: &Address, reach: Reach) -> Result<(), NoTarget> {
    let Address::Tcp(address) = address else {
        return Ok(());
    };
    let own = match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unspecified(),
    };
    if own || reach == Reach::Anywhere {
        return Ok(());
    }
    let text = format!(
        "{} is not this machine: load without consent is an attack; if the host is yours, add --i-own-this-host",
        address.ip()
    );
    Err(NoTarget { class: None, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Target, NoTarget> {
        Target::parse(url, HttpVersion::Http1, None, Reach::Loopback)
    }

    #[test]
    fn urls_are_taken_apart() {
        for (url, address, authority, path, protocol) in [
            (
                "http://127.0.0.1:8080",
                "127.0.0.1:8080",
                "127.0.0.1:8080",
                "/",
                Protocol::Http1,
            ),
            (
                "https://127.0.0.1/a?b#c",
                "127.0.0.1:443",
                "127.0.0.1",
                "/a?b",
                Protocol::Https1,
            ),
            (
                "http://[::1]:81/x",
                "[::1]:81",
                "[::1]:81",
                "/x",
                Protocol::Http1,
            ),
            (
                "127.0.0.1:9?q",
                "127.0.0.1:9",
                "127.0.0.1:9",
                "/?q",
                Protocol::Http1,
            ),
        ] {
            let target = parse(url).unwrap();
            assert_eq!(
                target.address,
                Address::Tcp(address.parse().unwrap()),
                "{url}"
            );
            assert_eq!(
                (target.authority.as_str(), target.path.as_str()),
                (authority, path)
            );
            assert_eq!(target.protocol, protocol);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (url, word) in [
            ("ftp://a/", "ftp"),
            ("http:///a", "no host"),
            ("http://a@127.0.0.1/", "Authorization"),
            ("http://127.0.0.1:99999/", "99999"),
            ("http://127.0.0.1/a b", "percent-encoded"),
            ("http://192.0.2.1/", "--i-own-this-host"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.text.contains(word), "{url}: {}", error.text);
        }
    }

    #[test]
    fn a_name_that_does_not_resolve_has_its_class() {
        let error = parse("http://name.invalid/").unwrap_err();
        assert_eq!(error.class, Some(FailureClass::Resolve));
    }

    #[test]
    fn a_socket_takes_the_place_of_the_address() {
        let path = PathBuf::from("/run/a.sock");
        let parse = |url, version| Target::parse(url, version, Some(path.clone()), Reach::Loopback);
        let target = parse("http://app/x", HttpVersion::Http1);
        assert_eq!(target.unwrap().address, Address::Unix(path.clone()));
        let error = parse("https://app/x", HttpVersion::Http3).unwrap_err();
        assert!(error.text.contains("unix socket"), "{}", error.text);
    }

    #[test]
    fn http3_needs_tls() {
        let parse = |url| Target::parse(url, HttpVersion::Http3, None, Reach::Loopback);
        let target = parse("https://127.0.0.1:8443/").unwrap();
        assert_eq!(
            (target.protocol.as_str(), target.protocol.alpn()),
            ("h3", &b"h3"[..])
        );
        let error = parse("http://127.0.0.1:8080/").unwrap_err();
        assert!(error.text.contains("https://"), "{}", error.text);
    }
}
