//! Certificates that the TLS library refuses although they are trusted: one that is itself in the pool and also a CA, as
//! `openssl req -x509` makes them, one of X.509 version 1, and one whose only name is its common name. Caddy and nginx
//! accept the first two; nginx also accepts the third.

use rustls::SignatureScheme;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Version};
use x509_parser::time::ASN1Time;

use super::signed::{Signed, key_parts};

/// What a certificate is presented for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// By a server.
    Server,
    /// By a client.
    Client,
}

/// Whether the common name counts where a certificate has no other names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommonName {
    /// No, as in Caddy (RFC 9525, section 2).
    #[default]
    Ignored,
    /// Yes, as in nginx.
    Counts,
}

/// The certificates (DER) of a trust pool.
#[derive(Clone, Debug, Default)]
pub struct DirectTrust(Vec<Vec<u8>>);

impl DirectTrust {
    /// Trusts these certificates.
    pub fn new(pool: Vec<Vec<u8>>) -> DirectTrust {
        DirectTrust(pool)
    }

    /// Whether `cert` is in the pool itself, or is of X.509 version 1 and signed by a CA of the pool; and is valid now
    /// and for this role. Its names are not checked.
    pub fn covers(&self, cert: &[u8], now: UnixTime, role: Role) -> bool {
        let Ok((_, parsed)) = X509Certificate::from_der(cert) else {
            return false;
        };
        if !is_valid(&parsed, now) || !is_for(&parsed, role) {
            return false;
        }
        let is_old = parsed.version() == X509Version::V1;
        self.0.iter().any(|trusted| {
            trusted == cert || (is_old && may_issue(trusted, &parsed, now) && is_by(cert, trusted))
        })
    }
}

/// Whether the validity period includes `now`.
fn is_valid(cert: &X509Certificate<'_>, now: UnixTime) -> bool {
    let now = i64::try_from(now.as_secs()).ok();
    let now = now.and_then(|now| ASN1Time::from_timestamp(now).ok());
    now.is_some_and(|now| cert.validity().is_valid_at(now))
}

/// Whether the extensions allow the role, and none that is critical is unknown (RFC 5280, section 4.2).
fn is_for(cert: &X509Certificate<'_>, role: Role) -> bool {
    cert.extensions()
        .iter()
        .all(|one| match one.parsed_extension() {
            ParsedExtension::ExtendedKeyUsage(usage) => {
                usage.any
                    || match role {
                        Role::Server => usage.server_auth,
                        Role::Client => usage.client_auth,
                    }
            }
            ParsedExtension::BasicConstraints(_)
            | ParsedExtension::KeyUsage(_)
            | ParsedExtension::SubjectAlternativeName(_) => true,
            _ => !one.critical,
        })
}

/// Whether a trusted certificate is that of a CA which may have issued `cert`.
fn may_issue(trusted: &[u8], cert: &X509Certificate<'_>, now: UnixTime) -> bool {
    let Ok((_, ca)) = X509Certificate::from_der(trusted) else {
        return false;
    };
    let signs = ca.key_usage().ok().flatten();
    let signs = signs.is_none_or(|usage| usage.value.key_cert_sign());
    // One of version 1 cannot say whether it is a CA.
    let is_ca = ca.version() == X509Version::V1 || ca.is_ca();
    is_ca && signs && is_valid(&ca, now) && ca.subject().as_raw() == cert.issuer().as_raw()
}

/// Whether `cert` is signed with the key of `ca`.
fn is_by(cert: &[u8], ca: &[u8]) -> bool {
    let Ok((_, ca)) = X509Certificate::from_der(ca) else {
        return false;
    };
    Signed::parse(cert).is_some_and(|signed| signed.is_by(ca.tbs_certificate.subject_pki.raw))
}

/// Whether a certificate is for this name.
pub fn names_fit(cert: &CertificateDer<'_>, name: &ServerName<'_>, common: CommonName) -> bool {
    let parsed = ParsedCertificate::try_from(cert);
    if parsed.is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok()) {
        return true;
    }
    common == CommonName::Counts && has_common_name(cert, &name.to_str())
}

/// Whether a certificate without DNS names has this common name, whose first label may be a wildcard.
fn has_common_name(cert: &[u8], name: &str) -> bool {
    let Ok((_, cert)) = X509Certificate::from_der(cert) else {
        return false;
    };
    let names = cert.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|names| &names.value.general_names);
    if names
        .into_iter()
        .any(|one| matches!(one, GeneralName::DNSName(_)))
    {
        return false;
    }
    let mut common = cert.subject().iter_common_name();
    common.any(|common| common.as_str().is_ok_and(|common| is_named(common, name)))
}

fn is_named(pattern: &str, name: &str) -> bool {
    if pattern.eq_ignore_ascii_case(name) {
        return true;
    }
    let wildcard = pattern.strip_prefix("*.").zip(name.split_once('.'));
    wildcard.is_some_and(|(rest, (first, name))| {
        !first.is_empty() && rest.contains('.') && rest.eq_ignore_ascii_case(name)
    })
}

/// The raw key of a certificate that the library does not parse, such as one of X.509 version 1.
pub fn old_key<'c>(cert: &'c CertificateDer<'_>) -> Option<&'c [u8]> {
    if ParsedCertificate::try_from(cert).is_ok() {
        return None;
    }
    let (_, cert) = X509Certificate::from_der(cert).ok()?;
    key_parts(cert.tbs_certificate.subject_pki.raw).map(|(_, bits)| bits)
}

/// Whether TLS 1.3 forbids a signature scheme in handshakes (RFC 8446, section 4.2.3).
pub fn is_old_scheme(scheme: SignatureScheme) -> bool {
    matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA1
            | SignatureScheme::ECDSA_SHA1_Legacy
            | SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_names_match_like_names() {
        for (pattern, name, fits) in [
            ("a.test", "A.test", true),
            ("*.a.test", "b.a.test", true),
            ("*.a.test", "a.test", false),
            ("*.a.test", "c.b.a.test", false),
            ("*.test", "a.test", false),
            ("*", "a", false),
            ("127.0.0.1", "127.0.0.1", true),
        ] {
            assert_eq!(is_named(pattern, name), fits, "{pattern} {name}");
        }
    }
}
