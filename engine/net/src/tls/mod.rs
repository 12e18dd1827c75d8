//! TLS behind a small interface of our own, because the library's is changing: a session turns bytes into bytes
//! and never sees a socket; [`TlsStream`] joins it to one. Which certificate is shown is left to `sluice-certs`.

mod rustls_session;
mod session;
mod stream;

pub use rustls_session::{
    ClientIdentity, ConfigChoice, Connector, ConnectorError, ConnectorOptions, Identity,
    Preparation, Resumes, RustlsAcceptor, ServerTrust, Signatures, TellsName, Versions,
    certificates_from_pem, revoked_from_pem, system_certificates,
};
pub use session::{Acceptor, Ends, Session, SessionError};
pub use stream::{HandshakeError, TlsStream};

#[cfg(test)]
mod tests;
