//! What a TLS library has to offer. Moving the bytes is left to `stream`.

/// Makes sessions for accepted connections.
pub trait Acceptor: Send + Sync {
    /// A new session in the server's role.
    fn accept(&self) -> Box<dyn Session>;
}

/// One TLS connection without its socket.
pub trait Session {}
