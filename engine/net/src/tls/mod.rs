//! TLS behind a small interface of our own, because the library's is still changing: a session turns bytes into bytes
//! and never sees a socket; [`TlsStream`] connects it to one. `sluice-certs` selects the certificates.

pub mod der;
mod rustls_session;
mod session;
mod stream;

pub use rustls_session::signed;
pub use rustls_session::{ChainTrust, ChainTrustError, Doubt};
pub use rustls_session::{
    ClientIdentity, ConfigChoice, Connector, ConnectorError, ConnectorOptions, Identity, NameRule,
    NoTickets, Preparation, Resumes, RustlsAcceptor, SESSION_ID_LABEL, SecondOpinion, SendsName,
    ServerTrust, Signatures, Versions, certificates_from_pem, certificates_in, iana_name,
    is_key_of, offered, revoked_from_pem, server_verifier, system_certificates,
};
pub use session::{Acceptor, Ends, Session, SessionError};
pub use stream::{HandshakeError, TlsStream};

#[cfg(test)]
mod tests;
