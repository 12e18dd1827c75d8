//! Who makes certificates. The local CA is one; ACME will be another, whose orders take minutes, so issuing always
//! happens on the thread of the maintenance and never during a handshake.

use std::time::SystemTime;

use pki_types::CertificateDer;

use crate::failure::CertsError;
use crate::renewal::Lifetime;
use crate::storage::StoredPair;
use crate::subject::Subject;

/// Makes certificates.
pub trait Issuer: Send + Sync {
    /// A name that is the same in every run; certificates are stored under it.
    fn id(&self) -> &str;

    /// Makes a certificate for `subject`. May take long.
    fn issue(&self, subject: &Subject, now: SystemTime) -> Result<Issued, CertsError>;

    /// Whether a certificate made earlier may be used. The local CA refuses those of another root.
    fn accepts(&self, chain: &[CertificateDer<'_>]) -> bool;

    /// The share of a lifetime that is left when a renewal starts.
    fn renewal_share(&self) -> f64;

    /// When the issuer itself has to do something, such as renewing its intermediate; `None` for never.
    fn upkeep_at(&self) -> Option<SystemTime>;

    /// Does it.
    fn keep_up(&self, now: SystemTime) -> Result<(), CertsError>;
}

/// A certificate just made.
#[derive(Debug)]
pub struct Issued {
    /// The chain and the key.
    pub pair: StoredPair,
    /// From when to when it is valid.
    pub lifetime: Lifetime,
}
