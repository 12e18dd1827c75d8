//! Signed structures: certificates, revocation lists and OCSP responses have the same form (RFC 5280, section 4.1). The
//! callers check whether the signer is authorized.

use rustls::crypto::aws_lc_rs as provider;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::tls::der::{BIT_STRING, Element, Reader, SEQUENCE};

/// A signed structure.
pub struct Signed<'a> {
    /// What is signed.
    pub said: Element<'a>,
    algorithm: &'a [u8],
    signature: &'a [u8],
    rest: Reader<'a>,
}

impl<'a> Signed<'a> {
    /// Parses one (DER); `None` if it is malformed.
    pub fn parse(bytes: &'a [u8]) -> Option<Signed<'a>> {
        let mut parts = Reader(Reader(bytes).take(SEQUENCE)?.content);
        Some(Signed {
            said: parts.take(SEQUENCE)?,
            algorithm: parts.take(SEQUENCE)?.content,
            // The first byte is the number of unused bits.
            signature: parts.take(BIT_STRING)?.content.strip_prefix(&[0])?,
            rest: parts,
        })
    }

    /// The embedded certificates.
    pub fn certificates(&self) -> impl Iterator<Item = &'a [u8]> {
        let list = Reader(self.rest.0).take(0xa0);
        let list = list.and_then(|list| Reader(list.content).take(SEQUENCE));
        let mut list = Reader(list.map_or(&[][..], |list| list.content));
        std::iter::from_fn(move || list.take(SEQUENCE).map(|one| one.whole)).take(8)
    }

    /// Verifies the signature with a public key (a SubjectPublicKeyInfo).
    pub fn is_by(&self, key: &[u8]) -> bool {
        let Some((algorithm, bits)) = key_parts(key) else {
            return false;
        };
        let known = provider::default_provider()
            .signature_verification_algorithms
            .all;
        known.iter().any(|one| {
            one.signature_alg_id().as_ref() == self.algorithm
                && one.public_key_alg_id().as_ref() == algorithm
                && one
                    .verify_signature(bits, self.said.whole, self.signature)
                    .is_ok()
        })
    }
}

/// Algorithm and raw key of a SubjectPublicKeyInfo.
pub fn key_parts(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = Reader(Reader(key).take(SEQUENCE)?.content);
    let algorithm = parts.take(SEQUENCE)?.content;
    let bits = parts.take(BIT_STRING)?.content.strip_prefix(&[0])?;
    Some((algorithm, bits))
}

/// The raw public key of a certificate; `None` if it cannot be parsed.
pub fn key_of(cert: &[u8]) -> Option<&[u8]> {
    key_parts(public_key_of(cert)?).map(|(_, bits)| bits)
}

/// The public key (a SubjectPublicKeyInfo) of a certificate of any X.509 version; `None` if it cannot be parsed.
pub fn public_key_of(cert: &[u8]) -> Option<&[u8]> {
    let (_, cert) = X509Certificate::from_der(cert).ok()?;
    Some(cert.tbs_certificate.subject_pki.raw)
}
