//! Establishes a connection: name resolution, the handshake of QUIC with that of TLS in it, each with its timeout.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, Connection, Event, IdleTimeout, TransportConfig, VarInt};

use super::drive;
use super::failures::{not_secured, unshaken};
use super::mux::Mux;
use super::packets::{Packets, Unbegun};
use crate::endpoint::{Address, Endpoint};
use crate::failures::{no_free_slot, refused, timed_out};
use crate::limits::{
    HTTP3_UNIDIRECTIONAL_MAX, QUIC_PING_INTERVAL, QUIC_SILENCE_MAX, QUIC_UNACKNOWLEDGED_BYTES_MAX,
};
use crate::names;
use crate::race::{self, Local};
use crate::streams::{Dialled, Dials, Sharing, Shelf};
use sluice_net::failure::Failure;
use sluice_net::limits::TURNS_MAX;
use sluice_net::timeout::within;
use sluice_net::worker::Worker;

impl Dials for Mux {
    /// QUIC has no place for a preface, and no transport with one asks for HTTP/3.
    async fn dial(
        worker: &Rc<Worker>,
        endpoint: &Arc<Endpoint>,
        _preface: &[u8],
        shelf: &Rc<Shelf<Mux>>,
        sharing: Sharing,
    ) -> Result<Dialled<Mux>, Failure> {
        let slot = worker.take_slot().await.map_err(no_free_slot)?;
        // By reference: a future holds an argument passed by value twice, and thousands may be dialling.
        let connecting = pin!(connect(worker, endpoint));
        let made = within(worker, endpoint.options().timeouts.dial, connecting);
        let (packets, quic) = made.await.unwrap_or_else(|| Err(timed_out()))?;
        worker.counters.http3_upstream_connections.up();
        let mux = Rc::new(Mux::new(worker, quic, endpoint, shelf, sharing));
        if sharing == Sharing::All {
            shelf.add(mux.clone());
        }
        drive::start(mux.clone(), packets, slot);
        Ok(Dialled::Shared(mux))
    }
}

/// Connects to one of the addresses of the upstream.
async fn connect(
    worker: &Rc<Worker>,
    endpoint: &Endpoint,
) -> Result<(Packets, Connection), Failure> {
    let options = endpoint.options();
    let dialling = options.dialling.as_deref();
    let Some(connector) = &options.tls else {
        return Err(refused(io::Error::other("HTTP/3 requires TLS")));
    };
    let host = endpoint.address().host();
    let (tls, name) = connector.for_quic(&host).map_err(not_secured)?;
    let tls = QuicClientConfig::try_from(tls).map_err(not_secured)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport(endpoint)));
    let addresses = match endpoint.address() {
        Address::Ip(ip) => vec![*ip],
        Address::Name { host, port } => names::look_up(worker, host, *port, dialling).await?,
        Address::Unix(_) => return Err(refused(io::Error::other("HTTP/3 needs UDP"))),
    };
    let limit = dialling.and_then(|dialling| dialling.handshake_timeout);
    let (config, name) = (&config, &*name);
    let shake = |address, local| shake(worker, (config, name), (address, local), limit);
    let limits = (dialling, options.timeouts.dial);
    race::connect_by(worker, &addresses, limits, shake).await
}

/// Performs the handshake with one address.
async fn shake(
    worker: &Rc<Worker>,
    (config, name): (&ClientConfig, &str),
    (address, local): (SocketAddr, Local),
    limit: Option<Duration>,
) -> Result<(Packets, Connection), Failure> {
    let begun = Packets::begin(config.clone(), name, address, local);
    let (mut packets, mut quic) = begun.map_err(|unbegun| match unbegun {
        Unbegun::Socket(error) => refused(error),
        Unbegun::Quic(error) => refused(io::Error::other(error)),
    })?;
    let shaking = poll_fn(|cx| poll_handshake(&mut packets, &mut quic, worker, cx));
    match limit {
        None => shaking.await?,
        Some(limit) => within(worker, limit, shaking)
            .await
            .ok_or_else(timed_out)??,
    }
    Ok((packets, quic))
}

fn poll_handshake(
    packets: &mut Packets,
    quic: &mut Connection,
    worker: &Worker,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Failure>> {
    for _ in 0..TURNS_MAX {
        let has_moved = packets.exchange(quic, worker, cx).map_err(refused)?;
        while let Some(event) = quic.poll() {
            match event {
                Event::Connected => return Poll::Ready(Ok(())),
                Event::ConnectionLost { reason } => return Poll::Ready(Err(unshaken(reason))),
                // Whether streams can be opened is asked when one is needed.
                Event::HandshakeDataReady
                | Event::Stream(_)
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
        if !has_moved {
            return Poll::Pending;
        }
    }
    // Yields to other connections.
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// The settings of QUIC: windows as over HTTP/2.
fn transport(endpoint: &Endpoint) -> TransportConfig {
    let windows = &endpoint.options().h2;
    let mut config = TransportConfig::default();
    // Servers open no streams for requests (RFC 9114, section 6.1).
    config.max_concurrent_bidi_streams(VarInt::from_u32(0));
    config.max_concurrent_uni_streams(VarInt::from_u32(HTTP3_UNIDIRECTIONAL_MAX));
    config.stream_receive_window(VarInt::from_u32(windows.stream_window_max));
    config.receive_window(VarInt::from_u32(windows.connection_window));
    config.send_window(QUIC_UNACKNOWLEDGED_BYTES_MAX);
    config.datagram_receive_buffer_size(None);
    config.keep_alive_interval(Some(QUIC_PING_INTERVAL));
    config.max_idle_timeout(IdleTimeout::try_from(QUIC_SILENCE_MAX).ok());
    config
}
