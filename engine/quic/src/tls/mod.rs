//! TLS of QUIC connections: its configuration is chosen by the ClientHello, as that of TLS over TCP is.

mod alert;
mod hello;
mod session;
mod twins;

pub(crate) use session::TlsServer;
