//! Failures of upstreams, from the errors that cause them.

use std::io;

use sluice_net::NoFreeSlot;
use sluice_net::failure::{Failure, FailureKind, Retry, Side};
use sluice_net::gate::Shut;
use sluice_net::tls::HandshakeError;

/// No connection could be established. Nothing of the request was sent, so it may be sent elsewhere.
pub(crate) fn refused(error: io::Error) -> Failure {
    Failure::new(Side::Upstream, FailureKind::Dial)
        .with_retry(Retry::Always)
        .because(error)
}

/// As in Caddy and Go, a dial timeout gives 502 like any other dial failure, not 504.
pub(crate) fn timed_out() -> Failure {
    refused(io::Error::new(
        io::ErrorKind::TimedOut,
        "no connection within the dial timeout",
    ))
}

/// The TLS handshake with the upstream failed.
pub(crate) fn handshake_failed(error: HandshakeError) -> Failure {
    Failure::new(Side::Upstream, FailureKind::Tls)
        .with_retry(Retry::Always)
        .because(error)
}

/// The worker has no free connection slot. The response is 500, as in nginx.
pub(crate) fn no_free_slot(no_free_slot: NoFreeSlot) -> Failure {
    Failure::new(Side::Internal, FailureKind::Io)
        .because(format!("{no_free_slot} while connecting to upstream"))
}

/// The concurrency limit of the upstream rejected the request.
pub(crate) fn shut(shut: Shut) -> Failure {
    Failure::new(Side::Upstream, FailureKind::Limit)
        .with_retry(Retry::Always)
        .because(shut.as_str())
}

/// The upstream closed the connection before the end of its response, or an error ended it.
pub(crate) fn closed(error: io::Error) -> Failure {
    Failure::from_io(Side::Upstream, error)
}

/// The upstream violated the protocol.
pub(crate) fn garbage(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new(Side::Upstream, FailureKind::Protocol).because(error)
}

/// The response ended before the end of its body.
pub(crate) fn cut_off(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new(Side::Upstream, FailureKind::Closed).because(error)
}
