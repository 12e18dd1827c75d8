//! Verifies that a peer holds the private key of its certificate. The certificate verifiers that use this decide
//! whether to trust the certificate.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, SignatureScheme};

use super::signed::key_of;

/// Verifies handshake signatures, for our own certificate verifiers.
#[derive(Clone, Debug)]
pub struct Signatures(Arc<CryptoProvider>);

impl Signatures {
    /// Uses the algorithms of `provider`.
    pub fn new(provider: Arc<CryptoProvider>) -> Signatures {
        Signatures(provider)
    }

    /// Verifies a TLS 1.2 signature. The certificate may be one that the library cannot parse, such as one of X.509
    /// version 1, which `openssl x509` makes of a request without extensions.
    ///
    /// # Errors
    /// The error of rustls if the signature is wrong or its scheme is unknown.
    pub fn verify_tls12(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if let Some(key) = old_key(cert) {
            return self.verify_by_key(message, key, signed);
        }
        verify_tls12_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    /// Verifies a TLS 1.3 signature, with any certificate like [`Signatures::verify_tls12`].
    ///
    /// # Errors
    /// Like [`Signatures::verify_tls12`].
    pub fn verify_tls13(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if let Some(key) = old_key(cert) {
            // RFC 8446, section 4.2.3: RSASSA-PKCS1-v1_5 is for signatures in certificates only.
            if is_old_scheme(signed.scheme) {
                let error = rustls::PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme;
                return Err(error.into());
            }
            return self.verify_by_key(message, key, signed);
        }
        verify_tls13_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    /// Verifies a signature of either TLS version with the bits of a public key, for certificates with contents that
    /// the library does not parse.
    ///
    /// # Errors
    /// The signature is wrong, or its scheme is unknown.
    fn verify_by_key(
        &self,
        message: &[u8],
        key: &[u8],
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = self.0.signature_verification_algorithms.mapping.iter();
        let mut fitting = known.filter(|(scheme, _)| *scheme == signed.scheme);
        let is_right = fitting.any(|(_, algorithms)| {
            let mut algorithms = algorithms.iter();
            algorithms.any(|one| {
                one.verify_signature(key, message, signed.signature())
                    .is_ok()
            })
        });
        match is_right {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(rustls::CertificateError::BadSignature.into()),
        }
    }

    /// The supported schemes, in order of preference.
    pub fn schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The raw key of a certificate that the library cannot parse.
fn old_key<'c>(cert: &'c CertificateDer<'_>) -> Option<&'c [u8]> {
    match ParsedCertificate::try_from(cert) {
        Ok(_) => None,
        Err(_) => key_of(cert),
    }
}

fn is_old_scheme(scheme: SignatureScheme) -> bool {
    matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA1
            | SignatureScheme::ECDSA_SHA1_Legacy
            | SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
    )
}
