//! TLS to engines that have no client of ours.

use std::fmt;

/// How servers are verified, and what they are shown.
#[derive(Clone, Default)]
pub struct TlsOptions {
    /// The certificates (PEM) of the CAs that are trusted; those of the system if `None`.
    pub ca: Option<Vec<u8>>,
    /// The certificate chain (PEM) that is presented to servers, with its private key (PEM).
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// How far the certificates of servers are verified.
    pub verification: TlsVerification,
}

/// How far the certificates of servers are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVerification {
    /// They are signed by a trusted CA for the name of the server.
    #[default]
    Full,
    /// Any certificate is accepted: the connection is encrypted, but the server is not authenticated.
    None,
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("verification", &self.verification)
            .finish_non_exhaustive()
    }
}
