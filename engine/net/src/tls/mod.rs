//! TLS behind a small interface of our own, because the library's is still changing: a session turns bytes into bytes
//! and never sees a socket; [`TlsStream`] connects it to one. `sluice-certs` selects the certificates.

pub mod der;
mod rustls_session;
mod session;
mod stream;

pub use rustls_session::{ChainTrust, ChainTrustError, Doubt};
pub use rustls_session::{
    ClientIdentity, ConfigChoice, Connector, ConnectorError, ConnectorOptions, Identity,
    Preparation, Resumes, RustlsAcceptor, SendsName, ServerTrust, Signatures, Versions,
    certificates_from_pem, revoked_from_pem, system_certificates,
};
pub use rustls_session::{direct_trust, signed};
pub use session::{Acceptor, Ends, Session, SessionError};
pub use stream::{HandshakeError, TlsStream};

#[cfg(test)]
mod tests;
