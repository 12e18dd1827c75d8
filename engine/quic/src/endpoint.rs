//! The endpoint of one socket: QUIC's state for all its connections, and what they need of it.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::{
    ConnectionEvent, ConnectionHandle, EndpointEvent, Incoming, ServerConfig, Transmit,
};
use rustls::quic::Suite;
use sluice_net::multiplexed::host::Host;
use sluice_net::tls::{ConfigChoice, Ends};
use sluice_net::{Service, Settings};
use tokio::sync::Notify;

use crate::generations::Generations;
use crate::keys::Keys;
use crate::socket::Socket;
use crate::tls::TlsServer;
use crate::transport;

/// The keys of Initial packets, which are the same for all (RFC 9001, section 5.2).
pub(crate) fn initial_suite() -> Option<Suite> {
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    suite.tls13()?.quic_suite()
}

/// The endpoint of one socket of a worker.
pub(crate) struct Endpoint<S: Service> {
    pub(crate) host: Host<S>,
    pub(crate) socket: Socket,
    /// Its address.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) quic: RefCell<quinn_proto::Endpoint>,
    /// By their numbers, which are dense.
    pub(crate) connections: RefCell<Vec<Option<Rc<dyn Receiving>>>>,
    /// Connections that are open or wait to be accepted.
    pub(crate) open: Cell<usize>,
    /// Notified when one of them has ended.
    pub(crate) closed: Notify,
    /// Connections that wait to be accepted.
    pub(crate) waiting: Cell<usize>,
    /// The number of the socket.
    pub(crate) index: u8,
    /// The other processes that have the socket.
    pub(crate) generations: Generations,
    pub(crate) rate: Rate,
    initial: Suite,
    keys: Keys,
    /// Packets on their way to the socket.
    pub(crate) out: RefCell<Vec<u8>>,
}

/// A connection that receives datagrams.
pub(crate) trait Receiving {
    /// A datagram for this connection has arrived.
    fn receive(&self, event: ConnectionEvent);
}

/// How many handshakes have begun in this second.
#[derive(Default)]
pub(crate) struct Rate {
    second: Cell<u64>,
    count: Cell<u32>,
}

impl Rate {
    pub(crate) fn count(&self, second: u64) -> u32 {
        if self.second.replace(second) != second {
            self.count.set(0);
        }
        self.count.set(self.count.get().saturating_add(1));
        self.count.get()
    }
}

/// A connection that counts as open until it is dropped.
pub(crate) struct Counted<S: Service>(Rc<Endpoint<S>>);

impl<S: Service> Counted<S> {
    pub(crate) fn new(endpoint: &Rc<Endpoint<S>>) -> Counted<S> {
        endpoint.open.set(endpoint.open.get() + 1);
        Counted(endpoint.clone())
    }
}

impl<S: Service> Drop for Counted<S> {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.closed.notify_waiters();
    }
}

impl<S: Service> Endpoint<S> {
    pub(crate) fn new(socket: Socket, index: u8, host: Host<S>, initial: Suite) -> Endpoint<S> {
        let allows_discovery = !socket.may_fragment();
        let secret = host.binding().service.settings().h3.host_key.clone();
        let keys = Keys::new(secret.as_deref());
        let config = transport::endpoint(index, &keys);
        let endpoint = Endpoint {
            local: socket.local_addr().ok(),
            quic: RefCell::new(quinn_proto::Endpoint::new(
                config,
                None,
                allows_discovery,
                None,
            )),
            host,
            socket,
            connections: RefCell::default(),
            open: Cell::new(0),
            closed: Notify::new(),
            waiting: Cell::new(0),
            index,
            generations: Generations::default(),
            rate: Rate::default(),
            initial,
            keys,
            out: RefCell::new(Vec::new()),
        };
        endpoint.take_connections();
        endpoint
    }

    /// Lets quinn-proto take connections. Each gets a configuration of its own when it is accepted; this one says how
    /// much waits before.
    fn take_connections(&self) {
        let nobody = TlsServer::for_nobody(self.initial);
        let config = transport::server(Arc::new(nobody), Arc::default(), &self.keys);
        self.quic
            .borrow_mut()
            .set_server_config(Some(Arc::new(config)));
    }

    /// Sends a packet that belongs to no connection. If the kernel has no room it is lost, as it may be anyway.
    pub(crate) fn send(&self, transmit: &Transmit, bytes: &[u8]) {
        let _ = self.socket.send(transmit, bytes);
    }

    /// The configuration of a new connection.
    pub(crate) fn config(
        &self,
        choice: Arc<dyn ConfigChoice>,
        settings: &Settings,
        incoming: &Incoming,
    ) -> Arc<ServerConfig> {
        let crypto = TlsServer {
            choice: Some(choice),
            early: settings.h3.early_data,
            ends: Ends {
                local: incoming.local_ip().map(|ip| ip.to_canonical()),
                remote: Some(incoming.remote_address().ip().to_canonical()),
            },
            initial: self.initial,
        };
        let idle = settings.client.keep_alive_timeout;
        let transport = transport::transport(&settings.h3, idle);
        let server = transport::server(Arc::new(crypto), Arc::new(transport), &self.keys);
        Arc::new(server)
    }

    /// Accepts a connection whose turn it is. `None`: its handshake has failed, and the client knows.
    pub(crate) fn accept(
        &self,
        incoming: Incoming,
        config: Arc<ServerConfig>,
    ) -> Option<(ConnectionHandle, quinn_proto::Connection)> {
        let mut out = self.out.borrow_mut();
        out.clear();
        let mut quic = self.quic.borrow_mut();
        match quic.accept(incoming, Instant::now(), &mut out, Some(config)) {
            Ok(accepted) => Some(accepted),
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.send(&transmit, &out);
                }
                None
            }
        }
    }

    /// A connection no longer waits to be accepted.
    pub(crate) fn end_waiting(&self) {
        self.waiting.set(self.waiting.get() - 1);
    }

    /// Tells a client that its connection is refused (RFC 9000, section 5.2.2).
    pub(crate) fn refuse(&self, incoming: Incoming) {
        self.host.worker().counters.quic_refused.up();
        let mut out = self.out.borrow_mut();
        out.clear();
        let transmit = self.quic.borrow_mut().refuse(incoming, &mut out);
        self.send(&transmit, &out);
    }

    pub(crate) fn retry(&self, incoming: Incoming) {
        let mut out = self.out.borrow_mut();
        out.clear();
        if let Ok(transmit) = self.quic.borrow_mut().retry(incoming, &mut out) {
            self.send(&transmit, &out);
        }
    }

    /// Gives datagrams of `handle` to `connection` from now on.
    pub(crate) fn register(&self, handle: ConnectionHandle, connection: Rc<dyn Receiving>) {
        let mut connections = self.connections.borrow_mut();
        if connections.len() <= handle.0 {
            connections.resize_with(handle.0 + 1, || None);
        }
        connections[handle.0] = Some(connection);
    }

    /// The connection has ended.
    pub(crate) fn forget(&self, handle: ConnectionHandle) {
        let mut connections = self.connections.borrow_mut();
        let ended = connections.get_mut(handle.0).and_then(Option::take);
        drop(connections);
        drop(ended);
    }

    /// Takes an event of a connection; returns the reply.
    pub(crate) fn notify(
        &self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<ConnectionEvent> {
        self.quic.borrow_mut().handle_event(handle, event)
    }

    /// Our end of a connection on which `ip` was addressed.
    pub(crate) fn local(&self, ip: Option<std::net::IpAddr>) -> Option<SocketAddr> {
        let bound = self.local?;
        let ip = ip.unwrap_or(bound.ip()).to_canonical();
        Some(SocketAddr::new(ip, bound.port()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HANDSHAKES_BEFORE_RETRY;

    #[test]
    fn handshakes_are_counted_by_the_second() {
        let rate = Rate::default();
        for count in 1..=HANDSHAKES_BEFORE_RETRY {
            assert_eq!(rate.count(7), count);
        }
        assert!(rate.count(7) > HANDSHAKES_BEFORE_RETRY);
        assert_eq!(rate.count(8), 1);
    }
}
