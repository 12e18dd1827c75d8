//! Whom a certificate is for: a host name, a wildcard, or an address. Whether a client believes it is left to the
//! client.

use std::fmt;
use std::net::IpAddr;

use pki_types::DnsName;

use crate::failure::CertsError;

/// A host name in lower case, a wildcard such as `*.example.com`, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(Kind);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Name(String),
    Ip(IpAddr),
}

impl Subject {
    /// Takes `text` apart. International names must come in their ASCII form (`xn--…`).
    pub fn parse(text: &str) -> Result<Self, CertsError> {
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
            Err(_) => Err(CertsError::Subject(text.to_owned())),
        }
    }

    /// The address, if it is one.
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

    /// How files for it are called, as Caddy calls them: `*` and `:` cannot stand in every file name.
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
    fn names_wildcards_and_addresses_are_told_apart() {
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
