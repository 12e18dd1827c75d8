//! Verification of the certificates that rustls-webpki refuses and OpenSSL and Go accept: those of X.509 version 1, those
//! that are a CA and a peer's own at once, and those that are trusted themselves, with any issuer. `chains` judges them.
//! Names of servers are checked here too: OpenSSL takes the common name of a certificate without others.

use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

use super::Signatures;
use super::chains::{ChainTrust, Doubt, PeerKind};

/// Which names of a server's certificate count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameRule {
    /// Its subject alternative names (RFC 9110, section 4.3.4), as in Go.
    #[default]
    Alternative,
    /// Its common name as well if it has no DNS names, as in OpenSSL.
    OrCommonName,
}

/// Judges the certificates that rustls-webpki cannot.
#[derive(Debug)]
pub struct SecondOpinion {
    kind: PeerKind,
    trusted: Trusted,
    /// Revocation lists (DER).
    lists: Vec<Vec<u8>>,
    /// Made when it is first needed, which is never for most.
    chains: OnceLock<ChainTrust>,
}

/// Where trusted certificates are.
#[derive(Debug)]
pub(super) enum Trusted {
    /// Here (DER).
    Pool(Vec<Vec<u8>>),
    /// In the system's certificate store.
    System,
}

impl SecondOpinion {
    /// For the certificates of clients; `pool` has those that are trusted (DER).
    pub fn of_clients(pool: Vec<Vec<u8>>) -> SecondOpinion {
        SecondOpinion::new(PeerKind::Client, Trusted::Pool(pool), Vec::new())
    }

    pub(super) fn of_servers(trusted: Trusted, lists: Vec<Vec<u8>>) -> SecondOpinion {
        SecondOpinion::new(PeerKind::Server, trusted, lists)
    }

    fn new(kind: PeerKind, trusted: Trusted, lists: Vec<Vec<u8>>) -> SecondOpinion {
        SecondOpinion {
            kind,
            trusted,
            lists,
            chains: OnceLock::new(),
        }
    }

    /// Judges a chain that rustls-webpki refused with `error`. Names are not checked.
    ///
    /// # Errors
    /// Why the certificate is not trusted; `error` itself if that states a fact about the certificate.
    pub fn of(
        &self,
        error: rustls::Error,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        // `Other` stands for version 1 and for a CA in the place of a peer, among others.
        let is_open = matches!(
            error,
            rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::Other(_)
            )
        );
        if !is_open {
            return Err(error);
        }
        let chain = std::iter::once(end_entity).chain(intermediates);
        let chain: Vec<Vec<u8>> = chain.map(|cert| cert.to_vec()).collect();
        let time = UNIX_EPOCH + std::time::Duration::from_secs(now.as_secs());
        match self.chains().judge(&chain, time) {
            Ok(()) => Ok(()),
            Err(doubt) => Err(as_error(doubt).into()),
        }
    }

    fn chains(&self) -> &ChainTrust {
        self.chains.get_or_init(|| match &self.trusted {
            Trusted::Pool(pool) => ChainTrust::anchored(self.kind, pool, &self.lists),
            Trusted::System => {
                let found = rustls_native_certs::load_native_certs().certs;
                let pool: Vec<Vec<u8>> = found.iter().map(|cert| cert.to_vec()).collect();
                ChainTrust::anchored(self.kind, &pool, &self.lists)
            }
        })
    }
}

fn as_error(doubt: Doubt) -> CertificateError {
    match doubt {
        Doubt::Ahead => CertificateError::NotValidYet,
        Doubt::Expired => CertificateError::Expired,
        Doubt::Revoked => CertificateError::Revoked,
        Doubt::NoList => CertificateError::UnknownRevocationStatus,
        Doubt::ListExpired => CertificateError::ExpiredRevocationList,
        Doubt::Purpose => CertificateError::InvalidPurpose,
        Doubt::SelfSigned | Doubt::SelfSignedInChain | Doubt::NoIssuer | Doubt::Unverified => {
            CertificateError::UnknownIssuer
        }
        Doubt::ListSignature | Doubt::TooLong | Doubt::Unhandled | Doubt::Unreadable => {
            CertificateError::Other(OtherError(Arc::new(doubt)))
        }
    }
}

/// Verifies servers: by rustls-webpki, and by a second opinion where that cannot judge.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    pub(super) webpki: Arc<WebPkiServerVerifier>,
    pub(super) opinion: SecondOpinion,
    pub(super) names: NameRule,
    pub(super) signatures: Signatures,
}

impl ServerVerifier {
    fn verify_name(
        &self,
        cert: &CertificateDer<'_>,
        name: &ServerName<'_>,
    ) -> Result<(), rustls::Error> {
        let judged = match ParsedCertificate::try_from(cert) {
            Ok(parsed) => verify_server_name(&parsed, name),
            // Version 1 has no alternative names.
            Err(_) => Err(CertificateError::NotValidForName.into()),
        };
        judged.or_else(|error| self.verify_common_name(error, cert, name))
    }

    /// Whether the common name fits after all, once other names did not: `error`.
    fn verify_common_name(
        &self,
        error: rustls::Error,
        cert: &CertificateDer<'_>,
        name: &ServerName<'_>,
    ) -> Result<(), rustls::Error> {
        match self.names == NameRule::OrCommonName && has_common_name(cert, name) {
            true => Ok(()),
            false => Err(error),
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self.webpki.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match judged {
            Ok(verified) => return Ok(verified),
            // The name is checked last: the chain is right.
            Err(
                error @ rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                ),
            ) => self.verify_common_name(error, end_entity, server_name)?,
            Err(error) => {
                self.opinion.of(error, end_entity, intermediates, now)?;
                self.verify_name(end_entity, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.verify_tls12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.verify_tls13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.schemes()
    }
}

/// Whether a certificate without DNS names has `name` as one of its common names, as OpenSSL's `X509_check_host` checks
/// it: addresses by their text, and a whole label may be `*` if at least two follow.
fn has_common_name(cert: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    let Ok((_, cert)) = X509Certificate::from_der(cert) else {
        return false;
    };
    let has_dns_names = cert.extensions().iter().any(|extension| {
        let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
            return false;
        };
        let mut names = names.general_names.iter();
        names.any(|name| matches!(name, GeneralName::DNSName(_)))
    });
    let name = name.to_str();
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    let mut commons = cert.subject().iter_common_name();
    !has_dns_names
        && commons.any(|common| {
            common
                .as_str()
                .is_ok_and(|common| fits(common, &name, is_address))
        })
}

fn fits(common: &str, name: &str, is_address: bool) -> bool {
    if common.eq_ignore_ascii_case(name) {
        return !name.is_empty();
    }
    match (common.strip_prefix("*."), name.split_once('.')) {
        (Some(parent), Some((label, rest))) => {
            !is_address
                && !label.is_empty()
                && parent.contains('.')
                && parent.eq_ignore_ascii_case(rest)
        }
        (Some(_) | None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
        KeyPair, KeyUsagePurpose, NameConstraints,
    };
    use rustls::crypto::aws_lc_rs;

    use super::super::{ServerTrust, server_verifier};
    use super::*;

    #[test]
    fn common_names_fit_whole_or_with_a_whole_label() {
        for (common, name, expected) in [
            ("up.test", "UP.test", true),
            ("up.test", "a.up.test", false),
            ("*.up.test", "a.up.test", true),
            ("*.up.test", "a.b.up.test", false),
            ("*.up.test", "up.test", false),
            ("*.up.test", ".up.test", false),
            // Measured with nginx 1.22 and OpenSSL 3.0: at least two labels follow the star.
            ("*.test", "up.test", false),
            ("*", "up.test", false),
            ("a*.up.test", "ab.up.test", false),
            ("", "", false),
        ] {
            assert_eq!(fits(common, name, false), expected, "{common} {name}");
        }
        assert!(fits("127.0.0.1", "127.0.0.1", true));
        assert!(!fits("*.0.0.1", "127.0.0.1", true));
    }

    fn params(name: &str) -> CertificateParams {
        let names = vec!["up.test".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    fn authority(name: &str) -> CertificateParams {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    fn judge(pool: &[&[u8]], chain: &[&[u8]], name: &str) -> Result<(), rustls::Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let pool = ServerTrust::Pool(pool.iter().map(|der| der.to_vec()).collect());
        let verifier = server_verifier(pool, NameRule::Alternative, Vec::new(), provider).unwrap();
        let chain: Vec<CertificateDer<'_>> = chain.iter().map(|der| (*der).into()).collect();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::now();
        let judged = verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], now);
        judged.map(drop)
    }

    #[test]
    fn a_trusted_certificate_is_accepted_for_its_names_its_time_and_its_purpose_only() {
        let own = |change: &dyn Fn(&mut CertificateParams)| {
            let mut params = authority("own");
            change(&mut params);
            let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            made.der().to_vec()
        };
        let refusal = |own: &[u8]| format!("{:?}", judge(&[own], &[own], "up.test").unwrap_err());
        let plain = own(&|_| {});
        assert_eq!(judge(&[&plain], &[&plain], "up.test"), Ok(()));
        assert!(judge(&[&plain], &[&plain], "other.test").is_err());
        let twin = own(&|_| {});
        let unknown = Err(CertificateError::UnknownIssuer.into());
        assert_eq!(judge(&[&plain], &[&twin], "up.test"), unknown);
        let over = own(&|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
        assert!(refusal(&over).contains("Expired"));
        let ahead = own(&|params| params.not_before = rcgen::date_time_ymd(2100, 1, 1));
        assert!(refusal(&ahead).contains("NotValidYet"));
        let wrong = Err(CertificateError::InvalidPurpose.into());
        let for_clients = own(&|params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        });
        assert_eq!(judge(&[&for_clients], &[&for_clients], "up.test"), wrong);
        let signs_only = own(&|params| params.key_usages = vec![KeyUsagePurpose::KeyCertSign]);
        assert_eq!(judge(&[&signs_only], &[&signs_only], "up.test"), wrong);
    }

    #[test]
    fn name_constraints_hold_for_authorities_in_the_place_of_servers() {
        let mut root = authority("root");
        root.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![rcgen::GeneralSubtree::DnsName("other.test".to_owned())],
            excluded_subtrees: Vec::new(),
        });
        let key = KeyPair::generate().unwrap();
        let root_der = root.self_signed(&key).unwrap().der().to_vec();
        let issuer = Issuer::new(root, key);
        let leaf_key = KeyPair::generate().unwrap();
        let leaf = authority("leaf").signed_by(&leaf_key, &issuer).unwrap();
        assert!(judge(&[&root_der], &[leaf.der()], "up.test").is_err());
    }

    #[test]
    fn facts_of_webpki_are_not_overruled() {
        let opinion = SecondOpinion::of_servers(Trusted::Pool(Vec::new()), Vec::new());
        let made = authority("own").self_signed(&KeyPair::generate().unwrap());
        let made = made.unwrap().der().clone();
        for fact in [
            CertificateError::Expired,
            CertificateError::Revoked,
            CertificateError::BadSignature,
        ] {
            let error = rustls::Error::from(fact);
            let judged = opinion.of(error.clone(), &made, &[], UnixTime::now());
            assert_eq!(judged, Err(error));
        }
        assert!(opinion.chains.get().is_none());
        let soon = SystemTime::now() + Duration::from_secs(1);
        assert!(opinion.chains().judge(&[made.to_vec()], soon).is_err());
    }
}
