//! Client certificate authentication: which certificates are requested, and how they are verified. `policy` selects the
//! settings.

use std::sync::Arc;

use pki_types::{CertificateDer, UnixTime};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use sluice_net::tls::{SecondOpinion, Signatures};

/// Client certificate requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientAuth {
    /// What to do about a missing or invalid certificate; `None` verifies against the CAs if there are any.
    pub mode: Option<ClientAuthMode>,
    /// CAs (DER) that may have signed it.
    pub authorities: Vec<Vec<u8>>,
    /// If not empty, it must be one of these certificates (DER).
    pub leafs: Vec<Vec<u8>>,
}

/// How strictly client certificates are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuthMode {
    /// Request a certificate; accept any, or none.
    Request,
    /// Require a certificate; accept any.
    Require,
    /// Request a certificate; if there is one, it must be signed by a trusted CA.
    VerifyIfGiven,
    /// Require a certificate signed by a trusted CA.
    RequireAndVerify,
}

impl ClientAuthMode {
    /// Parses the name used in configurations.
    pub fn parse(name: &str) -> Option<ClientAuthMode> {
        match name {
            "request" => Some(ClientAuthMode::Request),
            "require" => Some(ClientAuthMode::Require),
            "verify_if_given" => Some(ClientAuthMode::VerifyIfGiven),
            "require_and_verify" => Some(ClientAuthMode::RequireAndVerify),
            _ => None,
        }
    }
}

/// Why client certificates cannot be verified with the configured CAs.
#[derive(Debug)]
pub(crate) struct ClientAuthError(pub(crate) String);

/// Creates the certificate verifier.
pub(crate) fn verifier(
    auth: &ClientAuth,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, ClientAuthError> {
    let mode = auth.mode.unwrap_or(if auth.authorities.is_empty() {
        ClientAuthMode::Require
    } else {
        ClientAuthMode::RequireAndVerify
    });
    let (mandatory, verified) = match mode {
        ClientAuthMode::Request => (false, false),
        ClientAuthMode::Require => (true, false),
        ClientAuthMode::VerifyIfGiven => (false, true),
        ClientAuthMode::RequireAndVerify => (true, true),
    };
    let mut roots = RootCertStore::empty();
    for cert in &auth.authorities {
        let added = roots.add(CertificateDer::from(cert.clone()));
        if verified {
            added.map_err(|error| ClientAuthError(error.to_string()))?;
        }
    }
    let hints = roots.subjects();
    let mut chains = None;
    if verified {
        let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        chains = Some(
            built
                .build()
                .map_err(|error| ClientAuthError(error.to_string()))?,
        );
    }
    let leafs = auth.leafs.clone();
    Ok(Arc::new(ClientVerifier {
        mandatory,
        hints,
        chains,
        opinion: SecondOpinion::of_clients(auth.authorities.clone()),
        leafs,
        signatures: Signatures::new(provider),
    }))
}

/// Judges certificates of clients after their handshakes: whether they are, or are signed by, one of a list.
#[derive(Clone)]
pub struct ClientJudge {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl std::fmt::Debug for ClientJudge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientJudge")
    }
}

impl ClientJudge {
    /// Accepts these certificates (DER) and what they have signed.
    ///
    /// # Errors
    ///
    /// One of them is not a certificate.
    pub fn new(certificates: Vec<Vec<u8>>) -> Result<ClientJudge, String> {
        let auth = ClientAuth {
            mode: Some(ClientAuthMode::RequireAndVerify),
            authorities: certificates,
            leafs: Vec::new(),
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = verifier(&auth, provider).map_err(|error| error.0)?;
        Ok(ClientJudge { verifier })
    }

    /// Whether it accepts a chain (DER, leaf first) whose owner has proved to have its key.
    pub fn accepts(&self, chain: &[Vec<u8>]) -> bool {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return false;
        };
        let leaf = CertificateDer::from(leaf.as_slice());
        let intermediates: Vec<CertificateDer<'_>> = intermediates
            .iter()
            .map(|one| CertificateDer::from(one.as_slice()))
            .collect();
        let now = UnixTime::now();
        let judged = self.verifier.verify_client_cert(&leaf, &intermediates, now);
        judged.is_ok()
    }
}

/// Verifies a client's certificate as far as the mode requires, and always that the client holds its key.
#[derive(Debug)]
struct ClientVerifier {
    mandatory: bool,
    /// The CA names sent to clients, which select a certificate by them.
    hints: Vec<DistinguishedName>,
    chains: Option<Arc<dyn ClientCertVerifier>>,
    opinion: SecondOpinion,
    leafs: Vec<Vec<u8>>,
    signatures: Signatures,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if let Some(chains) = &self.chains {
            let judged = chains.verify_client_cert(end_entity, intermediates, now);
            if let Err(error) = judged {
                self.opinion.of(error, end_entity, intermediates, now)?;
            }
        }
        let is_known = self.leafs.is_empty()
            || self
                .leafs
                .iter()
                .any(|leaf| leaf.as_slice() == end_entity.as_ref());
        if is_known {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(rustls::CertificateError::ApplicationVerificationFailure.into())
        }
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
