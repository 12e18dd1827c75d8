//! Whether a peer holds the key to the certificate it shows. Whether that certificate is believed is left to the
//! verifiers that ask here.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::CertificateDer;
use rustls::{DigitallySignedStruct, SignatureScheme};

/// Checks the signatures of handshakes, for verifiers of our own.
#[derive(Clone, Debug)]
pub struct Signatures(Arc<CryptoProvider>);

impl Signatures {
    /// Checks with the algorithms of `provider`.
    pub fn new(provider: Arc<CryptoProvider>) -> Signatures {
        Signatures(provider)
    }

    /// Checks one of TLS 1.2.
    ///
    /// # Errors
    /// What rustls says of a signature that is wrong or of a scheme that is not known.
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

    /// Checks one of TLS 1.3.
    ///
    /// # Errors
    /// As [`Signatures::verify_tls12`].
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

    /// Checks one of either version against the bits of a public key, for certificates that say more than the library
    /// reads.
    ///
    /// # Errors
    /// A signature that is wrong, or a scheme that is not known.
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

    /// The schemes that can be checked, best first.
    pub fn schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
