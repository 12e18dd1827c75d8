//! Issuers of certificates: the local CA issues immediately, ACME CAs after a process of minutes. `maintain` decides
//! when to use them and manages the certificates.

use std::time::SystemTime;

use pki_types::CertificateDer;
use rcgen::KeyPair;

use crate::failure::CertsError;
use crate::pair::Pair;
use crate::renewal::Advice;
use crate::subject::Subject;

/// Issues certificates.
pub trait Issuer: Send + Sync {
    /// A name that is the same in every run; certificates are stored under it.
    fn id(&self) -> &str;

    /// Issues a certificate. May take long if [`Issuer::is_remote`].
    fn issue(&self, request: &Request<'_>, now: SystemTime) -> Result<Issued, CertsError>;

    /// Whether an earlier certificate may be used. The local CA rejects those of another root.
    fn accepts(&self, chain: &[CertificateDer<'_>]) -> bool;

    /// The fraction of the lifetime that remains when renewal starts.
    fn renewal_share(&self) -> f64;

    /// Whether it is reached over the network; then it is never called while something waits for it.
    fn is_remote(&self) -> bool {
        false
    }

    /// The issuer's suggestion when to renew a certificate; `None` if it makes none.
    fn advice(&self, _pair: &Pair, _now: SystemTime) -> Option<Result<Advice, CertsError>> {
        None
    }

    /// When the issuer itself needs upkeep, such as renewing its intermediate; `None` for never.
    fn upkeep_at(&self) -> Option<SystemTime> {
        None
    }

    /// Performs the upkeep.
    fn keep_up(&self, _now: SystemTime) -> Result<(), CertsError> {
        Ok(())
    }
}

/// A request to an issuer.
pub struct Request<'a> {
    /// The subject of the certificate.
    pub subject: &'a Subject,
    /// The key pair of the certificate.
    pub key: &'a KeyPair,
    /// The certificate that is being replaced.
    pub replaces: Option<&'a Pair>,
    /// Number of failed attempts before this one.
    pub failures: u32,
    /// Whether to include the must-staple extension (RFC 7633); the local CA has no OCSP responder and omits it.
    pub must_staple: bool,
}

/// A newly issued certificate.
#[derive(Debug)]
pub struct Issued {
    /// The chain, as PEM.
    pub chain: Vec<u8>,
    /// Metadata that the issuer wants to store, as JSON; `null` for none.
    pub about: serde_json::Value,
}
