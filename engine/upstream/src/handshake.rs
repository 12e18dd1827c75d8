//! TLS handshakes with upstreams, and with proxies on the way to them.

use std::time::Duration;

use crate::failures::{handshake_failed, timed_out};
use sluice_net::failure::{Failure, FailureKind, Retry, Side};
use sluice_net::stream::Stream;
use sluice_net::timeout::within;
use sluice_net::tls::{Connector, TlsStream};
use sluice_net::worker::Worker;

/// Performs a TLS handshake on `stream`.
pub(crate) async fn secure(
    worker: &Worker,
    stream: Stream,
    connector: &Connector,
    host: &str,
    limit: Option<Duration>,
) -> Result<Stream, Failure> {
    let session = connector.connect(host).map_err(|error| {
        Failure::new(Side::Upstream, FailureKind::Tls)
            .with_retry(Retry::Always)
            .because(error)
    })?;
    let mut tls = TlsStream::client(stream, session);
    let handshake = std::future::poll_fn(|cx| tls.poll_handshake(cx));
    let handshaken = match limit {
        None => handshake.await,
        Some(limit) => within(worker, limit, handshake)
            .await
            .ok_or_else(timed_out)?,
    };
    handshaken.map_err(handshake_failed)?;
    Ok(Stream::Tls(Box::new(tls)))
}
