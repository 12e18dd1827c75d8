//! Conditions on connections for TLS policies, in addition to the server name. `policy` selects among the matching
//! policies.

use std::fmt;
use std::net::IpAddr;

use sluice_net::tls::Ends;
use sluice_route::matcher::IpRanges;
use sluice_route::regexp::Regexp;

/// Conditions on a connection; all of them must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// IP ranges that contain the local address; any if empty.
    pub local: Vec<String>,
    /// IP ranges that contain the client's address; any if empty.
    pub remote: Vec<String>,
    /// IP ranges that do not contain the client's address.
    pub not_remote: Vec<String>,
    /// A regular expression that matches the server name; without SNI it is matched against the empty string.
    pub name_pattern: Option<String>,
}

/// The compiled conditions.
#[derive(Debug)]
pub(crate) struct Condition {
    local: Option<IpRanges>,
    remote: Option<IpRanges>,
    not_remote: Option<IpRanges>,
    name_pattern: Option<Regexp>,
}

/// An IP range or a regular expression that cannot be parsed.
#[derive(Debug)]
pub(crate) struct WhenError(pub(crate) String);

impl fmt::Display for WhenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl When {
    /// `None` if there are no conditions.
    pub(crate) fn compile(&self) -> Result<Option<Condition>, WhenError> {
        if *self == When::default() {
            return Ok(None);
        }
        let ranges = |texts: &[String]| match texts {
            [] => Ok(None),
            texts => IpRanges::new(texts)
                .map(Some)
                .map_err(|error| WhenError(error.to_string())),
        };
        let pattern = self.name_pattern.as_deref().map(Regexp::new);
        Ok(Some(Condition {
            local: ranges(&self.local)?,
            remote: ranges(&self.remote)?,
            not_remote: ranges(&self.not_remote)?,
            name_pattern: pattern
                .transpose()
                .map_err(|error| WhenError(error.to_string()))?,
        }))
    }
}

impl Condition {
    /// Whether the conditions hold for a client between `ends` that requests `server_name`.
    pub(crate) fn holds(&self, server_name: Option<&str>, ends: Ends) -> bool {
        let is_in = |ranges: &Option<IpRanges>, ip: Option<IpAddr>| match ranges {
            None => true,
            Some(ranges) => ip.is_some_and(|ip| ranges.contains(ip)),
        };
        let name = server_name.unwrap_or_default().as_bytes();
        let is_excluded = self.not_remote.is_some() && is_in(&self.not_remote, ends.remote);
        is_in(&self.local, ends.local)
            && is_in(&self.remote, ends.remote)
            && !is_excluded
            && self
                .name_pattern
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_given_must_hold() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let when = When {
            local: texts(&["10.0.0.1", "::1"]),
            remote: texts(&["192.0.2.0/24"]),
            not_remote: texts(&["192.0.2.128/25"]),
            name_pattern: Some("^[a-c]\\.test$".to_owned()),
        };
        let condition = when.compile().unwrap().unwrap();
        let holds = |name, local: &str, remote: &str| {
            let (local, remote) = (local.parse().ok(), remote.parse().ok());
            condition.holds(name, Ends { local, remote })
        };
        assert!(holds(Some("b.test"), "10.0.0.1", "192.0.2.1"));
        assert!(holds(Some("b.test"), "::1", "192.0.2.1"));
        assert!(!holds(Some("d.test"), "10.0.0.1", "192.0.2.1"));
        assert!(!holds(None, "10.0.0.1", "192.0.2.1"));
        assert!(!holds(Some("b.test"), "10.0.0.2", "192.0.2.1"));
        assert!(!holds(Some("b.test"), "10.0.0.1", "192.0.2.200"));
        assert!(!holds(Some("b.test"), "10.0.0.1", "192.0.3.1"));
        // A connection without an IP address matches no range.
        assert!(!holds(Some("b.test"), "", "192.0.2.1"));
        assert!(!holds(Some("b.test"), "10.0.0.1", ""));
        assert!(When::default().compile().unwrap().is_none());
    }

    #[test]
    fn invalid_networks_and_expressions_are_named() {
        let bad = When {
            local: vec!["10.0.0.0/99".to_owned()],
            ..When::default()
        };
        let said = bad.compile().unwrap_err().to_string();
        assert!(said.contains("10.0.0.0/99"), "{said}");
        let bad = When {
            name_pattern: Some("(".to_owned()),
            ..When::default()
        };
        assert!(bad.compile().is_err());
    }
}
