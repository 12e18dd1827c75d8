//! Who makes certificates: the local CA at once, authorities behind ACME after a conversation that takes minutes.
//! When they are asked and what becomes of their certificates is left to `maintain`.

use std::time::SystemTime;

use pki_types::CertificateDer;
use rcgen::KeyPair;

use crate::failure::CertsError;
use crate::pair::Pair;
use crate::renewal::Advice;
use crate::subject::Subject;

/// Makes certificates.
pub trait Issuer: Send + Sync {
    /// A name that is the same in every run; certificates are stored under it.
    fn id(&self) -> &str;

    /// Makes a certificate. May take long where [`Issuer::is_remote`].
    fn issue(&self, request: &Request<'_>, now: SystemTime) -> Result<Issued, CertsError>;

    /// Whether a certificate made earlier may be used. The local CA refuses those of another root.
    fn accepts(&self, chain: &[CertificateDer<'_>]) -> bool;

    /// The share of a lifetime that is left when a renewal starts.
    fn renewal_share(&self) -> f64;

    /// Whether it is asked over the network: then never while something waits for it.
    fn is_remote(&self) -> bool {
        false
    }

    /// When the issuer advises to renew a certificate of its own; `None` if it gives no advice.
    fn advice(&self, _pair: &Pair, _now: SystemTime) -> Option<Result<Advice, CertsError>> {
        None
    }

    /// When the issuer itself has to do something, such as renewing its intermediate; `None` for never.
    fn upkeep_at(&self) -> Option<SystemTime> {
        None
    }

    /// Does it.
    fn keep_up(&self, _now: SystemTime) -> Result<(), CertsError> {
        Ok(())
    }
}

/// What an issuer is asked for.
pub struct Request<'a> {
    /// Whom the certificate is for.
    pub subject: &'a Subject,
    /// The key it is for.
    pub key: &'a KeyPair,
    /// The certificate that it comes in place of.
    pub replaces: Option<&'a Pair>,
    /// Attempts that failed before this one.
    pub failures: u32,
    /// Whether clients are to take it only with a fresh OCSP answer (RFC 7633); our own authority has none to give and
    /// leaves that out.
    pub must_staple: bool,
}

/// A certificate just made.
#[derive(Debug)]
pub struct Issued {
    /// The chain, as PEM.
    pub chain: Vec<u8>,
    /// What the issuer wants to remember of it, as JSON; `null` for nothing.
    pub about: serde_json::Value,
}
