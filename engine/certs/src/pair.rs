//! A certificate chain with its key, checked and ready to be served. `store` selects among several.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pki_types::pem::PemObject;
use pki_types::{CertificateDer, PrivateKeyDer};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::sign::CertifiedKey;
use sluice_net::tls::certificates_in;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::encrypted_keys::{self, Passwords};
use crate::failure::{CertsError, Notice};
use crate::limits::CHAIN_CERTIFICATES_MAX;
use crate::ocsp::ocsp_response::is_ocsp_response;
use crate::pem_file::read_file;
use crate::renewal::Lifetime;
use crate::storage::StoredPair;
use crate::subject::Subject;

/// A certificate chain with its key.
#[derive(Debug)]
pub struct Pair {
    /// The form that rustls uses.
    pub certified: Arc<CertifiedKey>,
    /// The names and IP addresses it is for.
    pub subjects: Vec<Subject>,
    /// Its validity period.
    pub lifetime: Lifetime,
    /// Its origin, for messages.
    pub origin: String,
    /// Tags by which policies select it.
    pub tags: Vec<String>,
    /// The URL of the OCSP responder, instead of the one in the certificate; empty for the latter.
    pub responder: String,
    /// Whether it counts, or is served until the certificate of another node is there.
    pub standing: PairStanding,
}

/// Whether a certificate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PairStanding {
    /// It does.
    #[default]
    Settled,
    /// It was ordered here and could not be stored: another node has taken over, and what that one stores counts,
    /// whichever was issued first.
    Refused,
}

/// The origin of the two texts of a pair; the same path twice if one file contains both.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The file of the certificate chain.
    pub certificate: &'a Path,
    /// The file of the key.
    pub key: &'a Path,
}

impl Pair {
    /// Reads and checks a pair of files; `passwords` are for an encrypted key.
    pub fn from_files(
        certificate: &Path,
        key: &Path,
        passwords: &Passwords,
    ) -> Result<Pair, CertsError> {
        let read = |path: &Path| match read_file(path) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(CertsError::io(
                "read",
                path,
                std::io::ErrorKind::NotFound.into(),
            )),
            Err(error) => Err(error),
        };
        let stored = StoredPair {
            certificate: read(certificate)?,
            key: read(key)?,
        };
        Self::from_sealed(&stored, Origin { certificate, key }, passwords)
    }

    /// Checks a pair of PEM texts.
    pub fn from_pem(stored: &StoredPair, origin: Origin<'_>) -> Result<Pair, CertsError> {
        Self::from_sealed(stored, origin, &Passwords::default())
    }

    /// Checks a pair of PEM texts; `passwords` are for an encrypted key.
    pub fn from_sealed(
        stored: &StoredPair,
        origin: Origin<'_>,
        passwords: &Passwords,
    ) -> Result<Pair, CertsError> {
        let chain = chain_from_pem(&stored.certificate, origin.certificate)?;
        let key = key_from_pem(&stored.key, origin.key, passwords)?;
        let unusable = |error: rustls::Error| CertsError::UnusableKey {
            path: origin.key.to_owned(),
            what: error.to_string(),
        };
        let certified = CertifiedKey::new(chain, any_supported_type(&key).map_err(unusable)?);
        let facts = Facts::of(&certified.cert[0], origin.certificate)?;
        if !sluice_net::tls::is_key_of(&certified) {
            return Err(CertsError::KeyMismatch {
                certificate: origin.certificate.to_owned(),
                key: origin.key.to_owned(),
            });
        }
        Ok(Pair {
            certified: Arc::new(certified),
            subjects: facts.subjects,
            lifetime: facts.lifetime,
            origin: origin.certificate.display().to_string(),
            tags: Vec::new(),
            responder: String::new(),
            standing: PairStanding::Settled,
        })
    }

    /// The same pair with an OCSP response (RFC 6960, DER) from a file, which is stapled unchanged.
    ///
    /// # Errors
    /// The file does not contain an OCSP response, or contains an error response.
    pub fn stapled(self, file: &Path) -> Result<Pair, CertsError> {
        let missing = || CertsError::io("read", file, std::io::ErrorKind::NotFound.into());
        let response = read_file(file)?.ok_or_else(missing)?;
        if !is_ocsp_response(&response) {
            return Err(CertsError::Damaged {
                path: file.to_owned(),
                what: "it is not an OCSP response".to_owned(),
            });
        }
        let CertifiedKey { cert, key, .. } = &*self.certified;
        let certified = CertifiedKey {
            cert: cert.clone(),
            key: key.clone(),
            ocsp: Some(response),
        };
        Ok(Pair {
            certified: Arc::new(certified),
            ..self
        })
    }

    /// The same pair, after the write of it was refused because another node has taken over.
    #[must_use]
    pub(crate) fn refused(self) -> Pair {
        Pair {
            standing: PairStanding::Refused,
            ..self
        }
    }

    /// Notices about its state at `now`, although it can be served.
    pub fn notices(&self, now: SystemTime) -> Vec<Notice> {
        let origin = || self.origin.clone();
        let mut notices = Vec::new();
        if self.lifetime.has_ended(now) {
            notices.push(Notice::Expired {
                origin: origin(),
                at: self.lifetime.until,
            });
        }
        if self.lifetime.is_ahead(now) {
            notices.push(Notice::NotYetValid {
                origin: origin(),
                from: self.lifetime.from,
            });
        }
        if self.subjects.is_empty() {
            notices.push(Notice::NoNames { origin: origin() });
        }
        notices
    }
}

/// The contents of a certificate.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) subjects: Vec<Subject>,
    pub(crate) lifetime: Lifetime,
    pub(crate) is_authority: bool,
}

impl Facts {
    pub(crate) fn of(cert: &CertificateDer<'_>, path: &Path) -> Result<Facts, CertsError> {
        let damaged = |what: String| CertsError::Damaged {
            path: path.to_owned(),
            what,
        };
        let (_, parsed) =
            X509Certificate::from_der(cert).map_err(|error| damaged(error.to_string()))?;
        let moment = |seconds: i64| {
            // Times before the Unix epoch are equivalent to it.
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.try_into().unwrap_or(0))
        };
        let validity = parsed.validity();
        let lifetime = Lifetime {
            from: moment(validity.not_before.timestamp()),
            until: moment(validity.not_after.timestamp()),
        };
        Ok(Facts {
            subjects: subjects_of(&parsed),
            lifetime,
            is_authority: parsed.is_ca(),
        })
    }
}

/// The subject alternative names; the common name only if there are none. Invalid names are dropped: clients could not
/// request them.
fn subjects_of(parsed: &X509Certificate<'_>) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for extension in parsed.extensions() {
        let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
            continue;
        };
        subjects.extend(names.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Subject::parse(name).ok(),
            GeneralName::IPAddress(bytes) => Subject::parse(&ip_of(bytes)?.to_string()).ok(),
            _ => None,
        }));
    }
    if subjects.is_empty() {
        let common = parsed.subject().iter_common_name().next();
        subjects.extend(common.and_then(|name| Subject::parse(name.as_str().ok()?).ok()));
    }
    subjects
}

fn ip_of(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// The certificates in `text`, at least one.
pub(crate) fn chain_from_pem(
    text: &[u8],
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, CertsError> {
    let damaged = |what: String| CertsError::Damaged {
        path: path.to_owned(),
        what,
    };
    let chain = certificates_in(text).map_err(|error| damaged(error.to_string()))?;
    if chain.is_empty() {
        let has_key = contains(text, b"PRIVATE KEY-----");
        return Err(CertsError::NoCertificate {
            path: path.to_owned(),
            has_key,
        });
    }
    if chain.len() > CHAIN_CERTIFICATES_MAX {
        return Err(damaged(format!(
            "it holds more than {CHAIN_CERTIFICATES_MAX} certificates"
        )));
    }
    Ok(chain)
}

/// The private key in `text`, which is from `path`; `passwords` are for an encrypted one.
///
/// # Errors
/// There is no key, it is malformed, or it is encrypted and no password decrypts it.
pub fn key_from_pem(
    text: &[u8],
    path: &Path,
    passwords: &Passwords,
) -> Result<PrivateKeyDer<'static>, CertsError> {
    if encrypted_keys::is_sealed(text) {
        return encrypted_keys::open(text, passwords, path);
    }
    let path = || PathBuf::from(path);
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pki_types::pem::Error::NoItemsFound => {
            let has_certificate = contains(text, b"BEGIN CERTIFICATE");
            CertsError::NoKey {
                path: path(),
                has_certificate,
            }
        }
        other => CertsError::Damaged {
            path: path(),
            what: other.to_string(),
        },
    })
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tests::{TempFolder, TestCa};

    #[test]
    fn wrong_files_are_distinguished() {
        let (folder, test) = (TempFolder::new(), TestCa::new());
        let path = |name: &str| folder.path().join(name);
        let good = test.issue("a.test");
        let write = |name: &str, bytes: &[u8]| fs::write(path(name), bytes).unwrap();
        write("good.crt", &good.certificate);
        write("good.key", &good.key);
        write("other.key", &test.issue("b.test").key);
        write("empty", b"");
        write(
            "both.pem",
            &[good.certificate.as_slice(), &good.key].concat(),
        );
        write(
            "encrypted.key",
            b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE\n-----END ENCRYPTED PRIVATE KEY-----\n",
        );
        write("old.key", b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE\n-----END RSA PRIVATE KEY-----\n");
        write("torn.crt", &good.certificate[..good.certificate.len() / 4]);
        write(
            "nonsense.crt",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        );
        write(
            "nonsense.key",
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        );
        let root = test.ca.root_pem().repeat(CHAIN_CERTIFICATES_MAX + 1);
        write("long.crt", root.as_bytes());
        let cases = [
            ("good.crt", "good.key", ""),
            ("both.pem", "both.pem", ""),
            ("missing.crt", "good.key", "cannot read `{}/missing.crt`"),
            ("good.crt", "missing.key", "cannot read `{}/missing.key`"),
            (".", "good.key", "cannot read"),
            ("empty", "good.key", "no certificate in `{}/empty`"),
            ("good.key", "good.key", "which holds a private key"),
            ("good.crt", "empty", "no private key in `{}/empty`"),
            ("good.crt", "good.crt", "which holds a certificate"),
            (
                "good.crt",
                "other.key",
                "`{}/other.key` does not belong to the certificate in `{}/good.crt`",
            ),
            ("good.crt", "encrypted.key", "protected by a password"),
            ("good.crt", "old.key", "protected by a password"),
            ("torn.crt", "good.key", "`{}/torn.crt` is damaged"),
            ("nonsense.crt", "good.key", "`{}/nonsense.crt` is damaged"),
            (
                "good.crt",
                "nonsense.key",
                "`{}/nonsense.key` cannot be used",
            ),
            ("long.crt", "good.key", "more than 32 certificates"),
        ];
        for (certificate, key, wanted) in cases {
            let wanted = wanted.replace("{}", &folder.path().display().to_string());
            match Pair::from_files(&path(certificate), &path(key), &Passwords::default()) {
                Ok(pair) => {
                    assert!(wanted.is_empty(), "{certificate} {key} was taken");
                    assert_eq!(pair.subjects, [Subject::parse("a.test").unwrap()]);
                    assert_eq!(pair.certified.cert.len(), 2);
                }
                Err(error) => assert!(
                    !wanted.is_empty() && error.to_string().contains(&wanted),
                    "{certificate} {key}: {error}"
                ),
            }
        }
    }

    fn made(change: impl FnOnce(&mut rcgen::CertificateParams)) -> Pair {
        let mut params = rcgen::CertificateParams::default();
        change(&mut params);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem().into_bytes();
        let stored = StoredPair {
            certificate,
            key: key.serialize_pem().into_bytes(),
        };
        let path = Path::new("made.crt");
        Pair::from_pem(
            &stored,
            Origin {
                certificate: path,
                key: path,
            },
        )
        .unwrap()
    }

    #[test]
    fn names_and_addresses_are_read_and_odd_ones_left_out() {
        let pair = made(|params| {
            let name = |text: &str| rcgen::SanType::DnsName(text.try_into().unwrap());
            params.subject_alt_names = vec![
                name("A.test"),
                name("*.b.test"),
                rcgen::SanType::IpAddress("::ffff:10.0.0.1".parse().unwrap()),
                name("evil\0.test"),
                name("a b"),
                rcgen::SanType::Rfc822Name("a@b.test".try_into().unwrap()),
            ];
        });
        let shown: Vec<_> = pair.subjects.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a.test", "*.b.test", "10.0.0.1"]);
        let common = made(|params| {
            params
                .distinguished_name
                .push(rcgen::DnType::CommonName, "c.test");
        });
        assert_eq!(common.subjects, [Subject::parse("c.test").unwrap()]);
    }

    #[test]
    fn expired_and_nameless_certificates_are_usable_but_noticed() {
        let pair = made(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
        let notices = pair.notices(SystemTime::now());
        assert!(
            matches!(
                &notices[..],
                [Notice::Expired { .. }, Notice::NoNames { .. }]
            ),
            "{notices:?}"
        );
        let early = pair.notices(SystemTime::UNIX_EPOCH);
        assert!(
            matches!(
                &early[..],
                [Notice::NotYetValid { .. }, Notice::NoNames { .. }]
            ),
            "{early:?}"
        );
    }
}
