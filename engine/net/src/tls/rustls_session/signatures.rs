//! Verifies that a peer holds the private key of its certificate. The certificate verifiers that use this decide
//! whether to trust the certificate.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::CertificateDer;
use rustls::{DigitallySignedStruct, SignatureScheme};

use crate::tls::direct_trust::{is_old_scheme, old_key};

/// Verifies handshake signatures, for our own certificate verifiers.
#[derive(Clone, Debug)]
pub struct Signatures(Arc<CryptoProvider>);

impl Signatures {
    /// Uses the algorithms of `provider`.
    pub fn new(provider: Arc<CryptoProvider>) -> Signatures {
        Signatures(provider)
    }

    /// Verifies a TLS 1.2 signature.
    ///
    /// # Errors
    /// The error of rustls if the signature is wrong or its scheme is unknown.
    pub fn verify_tls12(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    /// Verifies a TLS 1.3 signature.
    ///
    /// # Errors
    /// Like [`Signatures::verify_tls12`].
    pub fn verify_tls13(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
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
    pub fn verify_by_key(
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

    /// Verifies a TLS 1.2 signature, also of a certificate that the library does not parse.
    ///
    /// # Errors
    /// The signature is wrong, or its scheme is unknown.
    pub fn verify_tls12_of_any(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match old_key(cert) {
            Some(key) => self.verify_by_key(message, key, signed),
            None => self.verify_tls12(message, cert, signed),
        }
    }

    /// Verifies a TLS 1.3 signature, also of a certificate that the library does not parse.
    ///
    /// # Errors
    /// The signature is wrong, or its scheme is unknown or not allowed.
    pub fn verify_tls13_of_any(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match old_key(cert) {
            Some(key) if !is_old_scheme(signed.scheme) => self.verify_by_key(message, key, signed),
            Some(_) => Err(rustls::PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into()),
            None => self.verify_tls13(message, cert, signed),
        }
    }

    /// The supported schemes, in order of preference.
    pub fn schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
