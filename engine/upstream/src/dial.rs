//! Establishes connections to upstreams: name resolution, connect and handshakes, each with its timeout. `pool` keeps
//! idle connections.

use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::endpoint::{Address, Endpoint};
use crate::failures::{no_free_slot, refused, timed_out};
use crate::handshake::secure;
use crate::{names, race, special_dial};
use sluice_net::failure::Failure;
use sluice_net::stream::Stream;
use sluice_net::timeout::within;
use sluice_net::worker::Worker;
use sluice_net::{ConnectionSlot, UnixSocket};

/// Establishes a connection and sends `preface` on it.
pub(crate) async fn dial(
    worker: &Rc<Worker>,
    endpoint: &Arc<Endpoint>,
    preface: &[u8],
) -> Result<(Stream, ConnectionSlot), Failure> {
    let slot = worker.take_slot().await.map_err(no_free_slot)?;
    // By reference: a future holds an argument passed by value twice, and thousands may be dialling.
    let connecting = pin!(connect(worker, endpoint, preface));
    let made = within(worker, endpoint.options().timeouts.dial, connecting);
    let stream = made.await.unwrap_or_else(|| Err(timed_out()))?;
    Ok((stream, slot))
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
            let socket = UnixSocket::connect(path).map_err(refused)?;
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
            (Stream::Unix(Box::new(socket)), String::new())
        }
        (address, Some(dialling)) => {
            // Boxed: few upstreams need it.
            let made = Box::pin(special_dial::connect(worker, address, dialling, dial)).await?;
            (made, address.host())
        }
        (Address::Ip(addr), None) => (connect_tcp(*addr).await?, addr.ip().to_string()),
        (Address::Name { host, port }, None) => {
            let addresses = Box::pin(names::look_up(worker, host, *port, None)).await?;
            let made = Box::pin(race::connect(worker, &addresses, None, dial)).await?;
            (made, host.to_string())
        }
    };
    if let (Stream::Tcp(socket), Some(probes)) = (&stream, &endpoint.options().probes)
        && let Some(socket) = socket.descriptor()
    {
        // If probes cannot be enabled, the connection is used without.
        let _ = probes.set(SockRef::from(&socket));
    }
    stream.write_all(preface).await.map_err(refused)?;
    let Some(connector) = &endpoint.options().tls else {
        return Ok(stream);
    };
    let limit = dialling.and_then(|dialling| dialling.handshake_timeout);
    Box::pin(secure(worker, stream, connector, &host, limit)).await
}

async fn connect_tcp(address: SocketAddr) -> Result<Stream, Failure> {
    let socket = TcpStream::connect(address).await.map_err(refused)?;
    // Heads and bodies are written in as few pieces as possible, so Nagle's algorithm would only delay them.
    socket.set_nodelay(true).map_err(refused)?;
    Ok(Stream::Tcp(socket.into()))
}
