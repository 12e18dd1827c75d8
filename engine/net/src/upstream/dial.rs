//! Establishes connections to upstreams: name resolution, connect and handshakes, each with its timeout. `pool` keeps
//! idle connections.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpStream, UnixStream};

use crate::connection_slots::{Crowded, Place};
use crate::failure::{Failure, FailureKind, Retry, Side};
use crate::gate::Shut;
use crate::stream::Stream;
use crate::timeout::within;
use crate::tls::{Connector, HandshakeError, TlsStream};
use crate::upstream::call::Carrier;
use crate::upstream::endpoint::{Address, Endpoint};
use crate::upstream::link::Link;
use crate::upstream::{h2, names, race, through};
use crate::worker::Worker;

/// Which connections are acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// An idle one, if there is one.
    Any,
    /// A new one: an idle connection has just turned out to be closed, or each request needs its own.
    Fresh,
    /// A new one that no other request uses, for example to check whether the upstream is reachable.
    Own,
}

/// Takes an idle connection to `endpoint`, or a stream on a shared one, if that is acceptable and the upstream has no
/// concurrency limit. To be tried first: [`obtain`] is a large future and seldom needed.
pub fn take_kept(worker: &Worker, endpoint: &Arc<Endpoint>, wanted: Wanted) -> Option<Carrier> {
    let is_limited = endpoint.gate().is_some();
    match (wanted, endpoint.options().protocol.may_share()) {
        (Wanted::Fresh | Wanted::Own, _) => None,
        (Wanted::Any, true) => h2::take(worker, endpoint),
        (Wanted::Any, false) if is_limited => None,
        (Wanted::Any, false) => take_link(worker, endpoint),
    }
}

/// Takes an idle connection for one call.
pub(super) fn take_link(worker: &Worker, endpoint: &Arc<Endpoint>) -> Option<Carrier> {
    let link = worker.upstreams.take(endpoint, worker.clock.coarse());
    link.map(Carrier::Link)
}

/// Obtains a connection or stream for a request to `endpoint`. Waits while the endpoint's concurrency limit is reached.
///
/// `preface`, if any, is sent on a new connection before anything else: a PROXY protocol header. Every failure may be
/// retried, as nothing of the request was sent.
pub async fn obtain(
    worker: &Rc<Worker>,
    endpoint: &Arc<Endpoint>,
    wanted: Wanted,
    preface: &[u8],
) -> Result<Carrier, Failure> {
    if endpoint.options().protocol.may_share() {
        return Box::pin(h2::obtain(worker, endpoint, wanted, preface)).await;
    }
    let permit = match endpoint.gate() {
        None => None,
        Some(gate) => Some(
            gate.enter(worker, endpoint.options().timeouts.queue)
                .await
                .map_err(shut)?,
        ),
    };
    let kept = match wanted {
        Wanted::Any => worker.upstreams.take(endpoint, worker.clock.coarse()),
        Wanted::Fresh | Wanted::Own => None,
    };
    let mut link = match kept {
        Some(link) => link,
        None => {
            let (stream, place) = dial(worker, endpoint, preface).await?;
            Link::new(stream, endpoint.clone(), place)
        }
    };
    link.permit = permit;
    Ok(Carrier::Link(link))
}

/// The worker has no free connection slot. The response is 500, as in nginx.
fn crowded(crowded: Crowded) -> Failure {
    Failure::new(Side::Internal, FailureKind::Io)
        .because(format!("{crowded} while connecting to upstream"))
}

pub(super) fn shut(shut: Shut) -> Failure {
    Failure::new(Side::Upstream, FailureKind::Limit)
        .with_retry(Retry::Always)
        .because(shut.as_str())
}

/// Establishes a connection and sends `preface` on it.
pub(super) async fn dial(
    worker: &Rc<Worker>,
    endpoint: &Arc<Endpoint>,
    preface: &[u8],
) -> Result<(Stream, Place), Failure> {
    let place = worker.take_place().await.map_err(crowded)?;
    // By reference: a future holds an argument passed by value twice, and thousands may be dialling.
    let connecting = pin!(connect(worker, endpoint, preface));
    let made = within(worker, endpoint.options().timeouts.dial, connecting);
    let stream = made.await.unwrap_or_else(|| Err(timed_out()))?;
    Ok((stream, place))
}

async fn connect(
    worker: &Rc<Worker>,
    endpoint: &Endpoint,
    preface: &[u8],
) -> Result<Stream, Failure> {
    let dialling = endpoint.options().dialling.as_deref();
    let dial = endpoint.options().timeouts.dial;
    let (mut stream, host) = match (endpoint.address(), dialling) {
        (Address::Unix(path), _) => {
            let socket = UnixStream::connect(path).await.map_err(refused)?;
            if let Some(dialling) = dialling {
                let size = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX);
                if let Some(bytes) = dialling.buffers.send {
                    let sized = SockRef::from(&socket).set_send_buffer_size(size(bytes));
                    sized.map_err(refused)?;
                }
                if let Some(bytes) = dialling.buffers.receive {
                    let sized = SockRef::from(&socket).set_recv_buffer_size(size(bytes));
                    sized.map_err(refused)?;
                }
            }
            (Stream::Unix(socket), String::new())
        }
        (address, Some(dialling)) => {
            // Boxed: few upstreams need it.
            let made = Box::pin(through::connect(worker, address, dialling, dial)).await?;
            (made, address.host())
        }
        (Address::Ip(addr), None) => (connect_tcp(*addr).await?, addr.ip().to_string()),
        (Address::Name { host, port }, None) => {
            let addresses = Box::pin(names::look_up(worker, host, *port, None)).await?;
            let made = Box::pin(race::connect(worker, &addresses, None, dial)).await?;
            (made, host.to_string())
        }
    };
    if let (Stream::Tcp(socket), Some(probes)) = (&stream, &endpoint.options().probes) {
        // If probes cannot be enabled, the connection is used without.
        let _ = probes.set(SockRef::from(socket));
    }
    send_all(&mut stream, preface).await.map_err(refused)?;
    let Some(connector) = &endpoint.options().tls else {
        return Ok(stream);
    };
    let limit = dialling.and_then(|dialling| dialling.handshake_timeout);
    Box::pin(secure(worker, stream, connector, &host, limit)).await
}

/// Performs a TLS handshake on `stream`.
pub(super) async fn secure(
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

async fn connect_tcp(address: SocketAddr) -> Result<Stream, Failure> {
    let socket = TcpStream::connect(address).await.map_err(refused)?;
    // Heads and bodies are written in as few pieces as possible, so Nagle's algorithm would only delay them.
    socket.set_nodelay(true).map_err(refused)?;
    Ok(Stream::Tcp(socket))
}

pub(super) async fn send_all(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let slices = [IoSlice::new(bytes)];
        let sent = std::future::poll_fn(|cx| stream.poll_write(cx, &slices)).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

pub(super) fn refused(error: io::Error) -> Failure {
    Failure::new(Side::Upstream, FailureKind::Dial)
        .with_retry(Retry::Always)
        .because(error)
}

/// As in Caddy and Go, a dial timeout gives 502 like any other dial failure, not 504.
pub(super) fn timed_out() -> Failure {
    refused(io::Error::new(
        io::ErrorKind::TimedOut,
        "no connection within the dial timeout",
    ))
}

fn handshake_failed(error: HandshakeError) -> Failure {
    Failure::new(Side::Upstream, FailureKind::Tls)
        .with_retry(Retry::Always)
        .because(error)
}
