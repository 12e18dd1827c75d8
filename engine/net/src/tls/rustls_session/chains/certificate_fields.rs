//! The contents of a certificate needed to verify the chains of peers.

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{KeyUsage, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

use super::PeerKind;
use crate::tls::rustls_session::signed::Signed;

/// The contents of a certificate.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) der: Vec<u8>,
    /// The names, as raw DER.
    pub(super) subject: Vec<u8>,
    pub(super) issuer: Vec<u8>,
    /// The public key, as raw DER.
    pub(super) key: Vec<u8>,
    pub(super) serial: Vec<u8>,
    /// The validity period, in seconds since the Unix epoch.
    pub(super) from: i64,
    pub(super) until: i64,
    /// Subject and issuer key identifiers.
    own_key_id: Option<Vec<u8>>,
    issuer_key_id: Option<Vec<u8>>,
    is_of_first_version: bool,
    /// The CA flag of the basic constraints; `None` if there are none.
    says_authority: Option<bool>,
    /// The path length constraint.
    pub(super) path_length: Option<u32>,
    signs_certificates: bool,
    /// Whether its key usage permits signing revocation lists.
    pub(super) signs_lists: bool,
    /// Whether its key usage permits signatures in a handshake.
    signs_messages: bool,
    /// Whether its key usage permits the transport of keys, which OpenSSL takes for a server's as well.
    carries_keys: bool,
    /// Whether it, or what it signs, may be used for the authentication of clients and of servers.
    is_for_clients: bool,
    is_for_servers: bool,
    /// The client, server and CA flags of the Netscape certificate type.
    old_kind: Option<[bool; 3]>,
    /// Whether it has a critical extension that is not supported here, such as name constraints.
    pub(super) is_odd: bool,
}

impl Facts {
    pub(super) fn parse(der: &[u8]) -> Option<Facts> {
        let (rest, cert) = X509Certificate::from_der(der).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let mut facts = Facts {
            der: der.to_vec(),
            subject: cert.subject().as_raw().to_vec(),
            issuer: cert.issuer().as_raw().to_vec(),
            key: cert.public_key().raw.to_vec(),
            serial: cert.tbs_certificate.serial.to_bytes_be(),
            from: cert.validity().not_before.timestamp(),
            until: cert.validity().not_after.timestamp(),
            own_key_id: None,
            issuer_key_id: None,
            is_of_first_version: cert.version() == X509Version::V1,
            says_authority: None,
            path_length: None,
            signs_certificates: true,
            signs_lists: true,
            signs_messages: true,
            carries_keys: true,
            is_for_clients: true,
            is_for_servers: true,
            old_kind: None,
            is_odd: cert.signature_algorithm != cert.tbs_certificate.signature
                || cert.extensions_map().is_err(),
        };
        for extension in cert.extensions() {
            facts.note(extension.parsed_extension(), extension.critical);
        }
        Some(facts)
    }

    fn note(&mut self, extension: &ParsedExtension<'_>, is_critical: bool) {
        match extension {
            ParsedExtension::BasicConstraints(constraints) => {
                self.says_authority = Some(constraints.ca);
                self.path_length = constraints.path_len_constraint;
            }
            ParsedExtension::KeyUsage(usage) => self.note_usage(usage),
            ParsedExtension::ExtendedKeyUsage(usage) => {
                // As in OpenSSL, `anyExtendedKeyUsage` does not include these two.
                self.is_for_clients &= usage.client_auth;
                self.is_for_servers &= usage.server_auth;
            }
            ParsedExtension::NSCertType(kind) => {
                self.old_kind = Some([kind.ssl_client(), kind.ssl_server(), kind.ssl_ca()]);
            }
            ParsedExtension::SubjectKeyIdentifier(id) => self.own_key_id = Some(id.0.to_vec()),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                self.issuer_key_id = id.key_identifier.as_ref().map(|id| id.0.to_vec());
            }
            // Name constraints must be enforced, and that is not implemented here.
            ParsedExtension::NameConstraints(_) | ParsedExtension::ParseError { .. } => {
                self.is_odd = true;
            }
            // Policies are not required, and locations of revocation lists are not used.
            ParsedExtension::CertificatePolicies(_)
            | ParsedExtension::PolicyMappings(_)
            | ParsedExtension::PolicyConstraints(_)
            | ParsedExtension::InhibitAnyPolicy(_)
            | ParsedExtension::SubjectAlternativeName(_)
            | ParsedExtension::CRLDistributionPoints(_) => {}
            _ => self.is_odd |= is_critical,
        }
    }

    fn note_usage(&mut self, usage: &KeyUsage) {
        self.signs_certificates = usage.key_cert_sign();
        self.signs_lists = usage.crl_sign();
        self.signs_messages = usage.digital_signature() || usage.key_agreement();
        self.carries_keys = usage.key_encipherment();
    }

    /// Whether its purposes include peers of this kind. `at` is its place in the chain, from 0 for the peer's own, which
    /// may be a CA as well.
    pub(super) fn is_for(&self, kind: PeerKind, at: usize) -> bool {
        let (is_for_kind, old) = match kind {
            PeerKind::Client => (self.is_for_clients, 0),
            PeerKind::Server => (self.is_for_servers, 1),
        };
        let old = if at > 0 { 2 } else { old };
        is_for_kind && self.old_kind.is_none_or(|flags| flags[old])
    }

    /// Whether its key may be used in the handshake of peers of this kind.
    pub(super) fn may_shake_hands(&self, kind: PeerKind) -> bool {
        self.signs_messages || kind == PeerKind::Server && self.carries_keys
    }

    /// Whether it names itself as its issuer.
    pub(super) fn is_self_issued(&self) -> bool {
        self.subject == self.issuer && self.has_fitting_id(self)
    }

    fn has_fitting_id(&self, issuer: &Facts) -> bool {
        match (&self.issuer_key_id, &issuer.own_key_id) {
            (Some(wanted), Some(own)) => wanted == own,
            _ => true,
        }
    }

    /// Whether issuer name and key identifier match.
    pub(super) fn may_be_signed_by(&self, issuer: &Facts) -> bool {
        self.issuer == issuer.subject && self.has_fitting_id(issuer)
    }

    /// Whether it is signed with the key of `issuer`.
    pub(super) fn is_signed_by(&self, issuer: &Facts) -> bool {
        Signed::parse(&self.der).is_some_and(|signed| signed.is_by(&issuer.key))
    }

    /// Whether it may sign certificates. X.509 v1 roots have no CA flag and are accepted.
    pub(super) fn is_authority(&self) -> bool {
        let says = match self.says_authority {
            Some(says) => says,
            None => self.is_of_first_version && self.is_self_issued(),
        };
        says && self.signs_certificates
    }

    pub(super) fn is_in_time(&self, now: i64) -> bool {
        (self.from..=self.until).contains(&now)
    }
}
