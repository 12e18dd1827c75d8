//! The rules for ACME clients: which names are allowed, and which challenges are offered.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sluice_certs::limits::LEAF_LIFETIME;
use sluice_certs::subject::Subject;

/// The settings of one ACME server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeRules {
    /// The default lifetime of a certificate; it never exceeds that of its issuer.
    pub lifetime: Duration,
    /// Whether to sign with the root instead of the intermediate.
    pub sign_with_root: bool,
    /// The challenge types offered, in this order.
    pub challenges: Vec<ChallengeKind>,
    /// The DNS servers for dns-01; the system's if empty.
    pub resolvers: Vec<SocketAddr>,
    /// The allowed names; all but wildcards if `None`.
    pub allow: Option<Names>,
    /// The denied names, which take precedence over `allow`.
    pub deny: Option<Names>,
    /// Whether wildcards are allowed, subject to the other rules.
    pub allows_wildcards: bool,
    /// The port for http-01 validation.
    pub http_port: u16,
    /// The port for tls-alpn-01 validation.
    pub tls_port: u16,
}

impl Default for AcmeRules {
    fn default() -> Self {
        AcmeRules {
            lifetime: LEAF_LIFETIME,
            sign_with_root: false,
            challenges: vec![
                ChallengeKind::Http01,
                ChallengeKind::Dns01,
                ChallengeKind::TlsAlpn01,
            ],
            resolvers: Vec::new(),
            allow: None,
            deny: None,
            allows_wildcards: false,
            http_port: 80,
            tls_port: 443,
        }
    }
}

/// A challenge type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// A resource below the name (RFC 8555, section 8.3).
    Http01,
    /// A DNS record (RFC 8555, section 8.4).
    Dns01,
    /// A certificate in a TLS handshake (RFC 8737).
    TlsAlpn01,
}

impl ChallengeKind {
    /// Parses the name in the protocol.
    pub fn parse(name: &str) -> Option<ChallengeKind> {
        use ChallengeKind::{Dns01, Http01, TlsAlpn01};
        [Http01, Dns01, TlsAlpn01]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// The name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            ChallengeKind::Http01 => "http-01",
            ChallengeKind::Dns01 => "dns-01",
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
        }
    }

    /// Whether it can validate this identifier: wildcards require dns-01 (RFC 8555, section 7.1.3), IP addresses do not
    /// permit it (RFC 8738, section 7).
    fn proves(self, subject: &Subject) -> bool {
        match self {
            ChallengeKind::Http01 | ChallengeKind::TlsAlpn01 => !subject.is_wildcard(),
            ChallengeKind::Dns01 => subject.ip().is_none(),
        }
    }
}

/// A set of names and IP addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    domains: Vec<String>,
    ranges: Vec<(IpAddr, u8)>,
}

impl Names {
    /// `domains` are names, or `*.name` for names with exactly one more label; `ranges` are IP addresses or prefixes
    /// such as `10.0.0.0/8`.
    ///
    /// # Errors
    /// The first text that is neither.
    pub fn parse(domains: &[String], ranges: &[String]) -> Result<Names, String> {
        let domain = |text: &String| match Subject::parse(text) {
            Ok(subject) if subject.name().is_some() => Ok(subject.to_string()),
            Ok(_) | Err(_) => Err(text.clone()),
        };
        let range = |text: &String| block(text).ok_or_else(|| text.clone());
        Ok(Names {
            domains: domains.iter().map(domain).collect::<Result<_, _>>()?,
            ranges: ranges.iter().map(range).collect::<Result<_, _>>()?,
        })
    }

    fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.ranges.is_empty()
    }

    /// Whether `subject` is a wildcard that covers one of the names.
    fn is_covered_by(&self, subject: &Subject) -> bool {
        let name = subject.name().filter(|_| subject.is_wildcard());
        name.is_some_and(|wildcard| self.domains.iter().any(|domain| names(wildcard, domain)))
    }

    fn has(&self, subject: &Subject) -> bool {
        match (subject.ip(), subject.name()) {
            (Some(ip), _) => self.ranges.iter().any(|range| is_within(ip, *range)),
            (None, name) => {
                let name = name.unwrap_or_default();
                self.domains.iter().any(|domain| names(domain, name))
            }
        }
    }
}

impl AcmeRules {
    /// Checks whether a certificate for `subject` may be ordered.
    ///
    /// # Errors
    /// The reason, as a human-readable message.
    pub(super) fn check(&self, subject: &Subject) -> Result<(), String> {
        if subject.is_wildcard() && !self.allows_wildcards {
            return Err(format!(
                "`{subject}` is a wildcard, which this CA does not sign"
            ));
        }
        let is_denied = |deny: &Names| deny.has(subject) || deny.is_covered_by(subject);
        if self.deny.as_ref().is_some_and(is_denied) {
            return Err(format!("`{subject}` is denied"));
        }
        let allow = self.allow.as_ref().filter(|allow| !allow.is_empty());
        if allow.is_some_and(|allow| !allow.has(subject)) {
            return Err(format!(
                "`{subject}` is not among the names that are allowed"
            ));
        }
        if self.kinds(subject).next().is_none() {
            return Err(format!(
                "no challenge that is offered can prove `{subject}`"
            ));
        }
        Ok(())
    }

    /// The challenge types for `subject`.
    pub(super) fn kinds(&self, subject: &Subject) -> impl Iterator<Item = ChallengeKind> {
        let kinds = self.challenges.iter().copied();
        kinds.filter(|kind| kind.proves(subject))
    }
}

/// Whether the rule `domain` applies to `name`; a wildcard is treated like one of the names it covers.
fn names(domain: &str, name: &str) -> bool {
    match domain.strip_prefix("*.") {
        None => domain == name,
        Some(parent) => name.split_once('.').is_some_and(|(_, rest)| rest == parent),
    }
}

/// Parses an IP address or prefix.
fn block(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, bits) = match text.split_once('/') {
        Some((ip, bits)) => (ip.parse::<IpAddr>().ok()?, Some(bits.parse::<u8>().ok()?)),
        None => (text.parse::<IpAddr>().ok()?, None),
    };
    let all = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(all);
    (bits <= all).then_some((ip, bits))
}

fn is_within(ip: IpAddr, (of, bits): (IpAddr, u8)) -> bool {
    let bits = u32::from(bits);
    match (ip, of) {
        (IpAddr::V4(ip), IpAddr::V4(of)) => {
            let differ = ip.to_bits() ^ of.to_bits();
            differ.checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(of)) => {
            let differ = ip.to_bits() ^ of.to_bits();
            differ.checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(domains: &[&str], ranges: &[&str]) -> Names {
        let owned = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        Names::parse(&owned(domains), &owned(ranges)).unwrap()
    }

    #[test]
    fn what_is_denied_or_not_allowed_is_refused() {
        let rules = AcmeRules {
            allow: Some(names_of(
                &["*.one.test", "Exact.test"],
                &["10.0.0.0/8", "::1"],
            )),
            deny: Some(names_of(&["bad.one.test"], &["10.9.0.0/16"])),
            ..AcmeRules::default()
        };
        let may = |name: &str| rules.check(&Subject::parse(name).unwrap()).is_ok();
        for good in ["a.one.test", "exact.test", "10.1.2.3", "::1"] {
            assert!(may(good), "{good}");
        }
        for bad in [
            "one.test",
            "a.b.one.test",
            "sub.exact.test",
            "bad.one.test",
            "other.test",
            "*.one.test",
            "10.9.1.1",
            "11.0.0.1",
            "::2",
        ] {
            assert!(!may(bad), "{bad}");
        }
        let wild = AcmeRules {
            allows_wildcards: true,
            ..rules
        };
        // It would cover a name that is denied.
        assert!(wild.check(&Subject::parse("*.one.test").unwrap()).is_err());
        let wild = AcmeRules { deny: None, ..wild };
        assert!(wild.check(&Subject::parse("*.one.test").unwrap()).is_ok());
        assert!(
            wild.check(&Subject::parse("*.exact.test").unwrap())
                .is_err()
        );
    }

    #[test]
    fn without_rules_all_but_wildcards_may_be_asked_for() {
        let rules = AcmeRules::default();
        let may = |name: &str| rules.check(&Subject::parse(name).unwrap()).is_ok();
        assert!(may("a.test") && may("10.0.0.1") && !may("*.a.test"));
        let deny = AcmeRules {
            deny: Some(names_of(&[], &["0.0.0.0/0"])),
            ..AcmeRules::default()
        };
        assert!(deny.check(&Subject::parse("192.0.2.1").unwrap()).is_err());
        assert!(deny.check(&Subject::parse("2001:db8::1").unwrap()).is_ok());
    }

    #[test]
    fn what_no_challenge_can_prove_is_refused() {
        let rules = AcmeRules {
            challenges: vec![ChallengeKind::Dns01],
            allows_wildcards: true,
            ..AcmeRules::default()
        };
        let may = |name: &str| rules.check(&Subject::parse(name).unwrap()).is_ok();
        assert!(may("*.a.test") && may("a.test") && !may("10.0.0.1"));
        assert_eq!(ChallengeKind::parse("dns-02"), None);
    }

    #[test]
    fn invalid_rules_are_reported() {
        let parse = |domain: &str, range: &str| {
            Names::parse(&[domain.to_owned()], &[range.to_owned()]).unwrap_err()
        };
        assert_eq!(parse("a b", "::1"), "a b");
        assert_eq!(parse("a.test", "10.0.0.0/33"), "10.0.0.0/33");
        assert_eq!(parse("a.test", "x"), "x");
    }
}
