//! TLS behind a small interface of our own, because the library's is changing: a session turns bytes into bytes
//! and never sees a socket; [`TlsStream`] joins it to one. Which certificate is shown is left to `sluice-certs`.

mod session;
mod stream;

pub use session::{Acceptor, Session};
pub use stream::TlsStream;
