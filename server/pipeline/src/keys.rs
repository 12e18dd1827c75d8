//! Certificates and certificate authorities, as handlers see them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_certs::{CertStore, LocalCa, Storage};

use crate::refusal::Refusal;

/// The local CAs, for handlers of a configuration that is being built.
pub trait Authorities {
    /// The CA `id`, and the storage that its files are in.
    ///
    /// # Errors
    /// The CA's files cannot be read or created.
    fn local_ca(&self, id: &str) -> Result<(Arc<LocalCa>, Storage), Refusal>;
}

/// The certificates of a configuration, and their sources.
pub struct Keys<'a> {
    /// The storage for certificates and keys.
    pub storage: &'a Storage,
    /// The folder of this node, for copies of shared storages.
    pub data_dir: &'a Path,
    /// The certificates that the configuration loads or manages.
    pub store: &'a Arc<CertStore>,
    /// Returns a local CA's certificate, which is created if necessary; `None` if it does not exist and the configuration
    /// is only validated.
    pub authority: &'a AuthorityFinder<'a>,
}

/// Finds a local CA's certificate.
pub type AuthorityFinder<'a> = dyn Fn(&str, Signer) -> Result<Option<AuthorityPem>, Refusal> + 'a;

/// The certificate of a local CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityPem {
    /// Where it lies, for messages.
    pub place: PathBuf,
    /// The certificate as PEM.
    pub text: Vec<u8>,
}

/// A certificate of a CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// The root certificate, which clients trust.
    Root,
    /// The intermediate certificate, which signs leaf certificates.
    Intermediate,
}
