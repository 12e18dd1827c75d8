//! The subject of a certificate: a host name, a wildcard, or an IP address.

use std::fmt;
use std::net::IpAddr;

use pki_types::DnsName;

/// A host name in lower case, a wildcard such as `*.example.com`, or an IP address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(Kind);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Name(String),
    Ip(IpAddr),
}

/// A text that is not the subject of any certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectError(pub String);

impl fmt::Display for SubjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot issue a certificate for `{}`", self.0)
    }
}

impl std::error::Error for SubjectError {}

impl Subject {
    /// Parses `text`. Internationalized names must be in ASCII form (`xn--…`).
    ///
    /// # Errors
    /// It is neither a host name nor a wildcard nor an IP address.
    pub fn parse(text: &str) -> Result<Self, SubjectError> {
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Subject(Kind::Ip(ip.to_canonical())));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let host = name.strip_prefix("*.").unwrap_or(&name);
        match DnsName::try_from(host) {
            Ok(_) => Ok(Subject(Kind::Name(name))),
            Err(_) => Err(SubjectError(text.to_owned())),
        }
    }

    /// The IP address, if it is one.
    pub fn ip(&self) -> Option<IpAddr> {
        match &self.0 {
            Kind::Name(_) => None,
            Kind::Ip(ip) => Some(*ip),
        }
    }

    /// The name or wildcard, if it is one.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Kind::Name(name) => Some(name),
            Kind::Ip(_) => None,
        }
    }

    /// Whether it is a wildcard such as `*.example.com`.
    pub fn is_wildcard(&self) -> bool {
        self.name().is_some_and(|name| name.starts_with("*."))
    }

    /// The server name that requests it in a handshake; for an IP address its reverse mapping (RFC 8738, section 6).
    pub fn handshake_name(&self) -> String {
        match &self.0 {
            Kind::Name(name) => name.clone(),
            Kind::Ip(IpAddr::V4(ip)) => {
                let [a, b, c, d] = ip.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            Kind::Ip(IpAddr::V6(ip)) => {
                let nibbles = ip.octets().into_iter().rev().flat_map(|b| [b & 15, b >> 4]);
                let labels: String = nibbles.map(|nibble| format!("{nibble:x}.")).collect();
                format!("{labels}ip6.arpa")
            }
        }
    }

    /// The base name of its files, as in Caddy: `*` and `:` are not allowed on all file systems.
    pub fn file_name(&self) -> String {
        self.to_string().replace('*', "wildcard_").replace(':', "-")
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Name(name) => f.write_str(name),
            Kind::Ip(ip) => write!(f, "{ip}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_name_addresses_backwards() {
        let shown = |text: &str| Subject::parse(text).unwrap().handshake_name();
        assert_eq!(shown("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        // The example of RFC 8738, section 6.
        assert_eq!(
            shown("2001:db8::1"),
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
        );
        assert_eq!(shown("*.a.test"), "*.a.test");
    }

    #[test]
    fn names_wildcards_and_addresses_are_distinguished() {
        let shown = |text: &str| Subject::parse(text).map(|subject| subject.file_name()).ok();
        assert_eq!(shown("LocalHost.").as_deref(), Some("localhost"));
        assert_eq!(
            shown("*.Example.com").as_deref(),
            Some("wildcard_.example.com")
        );
        assert_eq!(shown("[::1]").as_deref(), Some("--1"));
        assert_eq!(shown("127.0.0.1").as_deref(), Some("127.0.0.1"));
        for bad in [
            "",
            "*",
            "a b",
            "../x",
            "a/b",
            "a*.b",
            "*.*.b",
            "bücher.example",
            "a\0b",
            "*.",
        ] {
            assert_eq!(shown(bad), None, "{bad:?}");
        }
    }
}
