//! A server of HTTP/3 on quinn-proto and a blocking socket, as an upstream that does what a test says, also what breaks the
//! rules.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;
use sluice_wire::h3::Settings;
use sluice_wire::sections::End;

use super::peer::{data, head};

/// How often the thread looks whether the test has ended.
const PAUSE: Duration = Duration::from_millis(50);

/// A request that has arrived, at least the beginning of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// How many requests were there before, on all connections.
    pub number: usize,
    connection: ConnectionHandle,
    pub id: StreamId,
}

/// What is done about a request.
pub type Act = fn(&mut Responder, Asked);

/// What a connection reports of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It wants no more of a response.
    Stopped(u64),
    /// It has closed the connection.
    Closed(u64),
}

/// The server. Dropping it ends it.
pub struct Origin {
    pub port: u16,
    pub reports: Receiver<Report>,
    connections: Arc<AtomicUsize>,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    /// Calls `respond` with each request, on a thread.
    pub fn start(respond: impl FnMut(&mut Responder, Asked) + Send + 'static) -> Origin {
        Origin::with(TransportConfig::default(), respond)
    }

    pub fn with(
        transport: TransportConfig,
        mut respond: impl FnMut(&mut Responder, Asked) + Send + 'static,
    ) -> Origin {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = socket.local_addr().expect("it is bound").port();
        let (reporting, reports) = mpsc::channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let has_ended = Arc::new(AtomicBool::new(false));
        let config = Arc::new(EndpointConfig::default());
        let mut responder = Responder {
            socket,
            endpoint: Endpoint::new(config, Some(Arc::new(configured(transport))), true, None),
            open: BTreeMap::new(),
            asked: 0,
            repeated: None,
            reporting,
            connections: connections.clone(),
        };
        let is_over = has_ended.clone();
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                responder.step();
                while let Some(asked) = responder.next() {
                    respond(&mut responder, asked);
                }
                if let Some((asked, act)) = responder.repeated {
                    act(&mut responder, asked);
                }
                responder.transmit();
            }
        });
        Origin {
            port,
            reports,
            connections,
            has_ended,
            thread: Some(thread),
        }
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the upstream failed");
        }
    }
}

/// The server's end of all connections.
pub struct Responder {
    socket: UdpSocket,
    endpoint: Endpoint,
    open: BTreeMap<usize, Open>,
    asked: usize,
    /// What is done again with each datagram that arrives.
    repeated: Option<(Asked, Act)>,
    reporting: Sender<Report>,
    connections: Arc<AtomicUsize>,
}

struct Open {
    quic: Connection,
    control: Option<StreamId>,
    /// What QUIC did not take yet.
    unsent: BTreeMap<StreamId, (Vec<u8>, End)>,
}

impl Responder {
    /// Responds with a body.
    pub fn respond(&mut self, to: Asked, body: &[u8]) {
        let mut bytes = head(&[(":status", "200")]);
        bytes.extend(data(body));
        self.send(to, &bytes, End::Here);
    }

    /// Sends bytes on the stream of a request.
    pub fn send(&mut self, to: Asked, bytes: &[u8], end: End) {
        self.open_of(to).send(to.id, bytes, end);
    }

    /// Resets the stream of a request.
    pub fn reset(&mut self, to: Asked, code: u64) {
        let code = VarInt::from_u64(code).expect("a code");
        let _ = self.open_of(to).quic.send_stream(to.id).reset(code);
    }

    /// Sends bytes on the control stream of the connection of a request.
    pub fn control(&mut self, of: Asked, bytes: &[u8], end: End) {
        let open = self.open_of(of);
        let id = open.control.expect("opened behind the handshake");
        open.send(id, bytes, end);
    }

    /// Does something again and again, as far as the client allows.
    pub fn repeat(&mut self, about: Asked, act: Act) {
        self.repeated = Some((about, act));
    }

    /// Opens a unidirectional stream and sends bytes on it; false if the client allows none now.
    pub fn push(&mut self, of: Asked, bytes: &[u8]) -> bool {
        let open = self.open_of(of);
        let Some(id) = open.quic.streams().open(Dir::Uni) else {
            return false;
        };
        open.send(id, bytes, End::Here);
        true
    }

    fn open_of(&mut self, asked: Asked) -> &mut Open {
        let open = self.open.get_mut(&asked.connection.0);
        open.expect("it is kept until the end")
    }

    /// Waits for a datagram or a timer, and takes it.
    fn step(&mut self) {
        let now = Instant::now();
        let due = self
            .open
            .values_mut()
            .filter_map(|open| open.quic.poll_timeout());
        let wait = due.map(|due| due.saturating_duration_since(now)).min();
        let wait = wait
            .unwrap_or(PAUSE)
            .clamp(Duration::from_micros(100), PAUSE);
        self.socket
            .set_read_timeout(Some(wait))
            .expect("it is longer than zero");
        let mut buf = [0; 65_536];
        // Nothing within this time, and a client that has gone.
        if let Ok((count, from)) = self.socket.recv_from(&mut buf) {
            self.receive(from, &buf[..count]);
        }
        for (handle, open) in &mut self.open {
            open.quic.handle_timeout(Instant::now());
            while let Some(event) = open.quic.poll_endpoint_events() {
                let handle = ConnectionHandle(*handle);
                if let Some(reply) = self.endpoint.handle_event(handle, event) {
                    open.quic.handle_event(reply);
                }
            }
            open.heed(&self.reporting);
        }
    }

    fn receive(&mut self, from: SocketAddr, datagram: &[u8]) {
        let (bytes, mut out) = (BytesMut::from(datagram), Vec::new());
        let now = Instant::now();
        match self.endpoint.handle(now, from, None, None, bytes, &mut out) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(open) = self.open.get_mut(&handle.0) {
                    open.quic.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut out, None);
                let Ok((handle, quic)) = accepted else { return };
                self.connections.fetch_add(1, Ordering::Relaxed);
                // It may have the number of one that is over.
                let repeated = self.repeated.take();
                self.repeated = repeated.filter(|(asked, _)| asked.connection != handle);
                let (control, unsent) = (None, BTreeMap::new());
                let open = Open {
                    quic,
                    control,
                    unsent,
                };
                self.open.insert(handle.0, open);
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    /// The next request.
    fn next(&mut self) -> Option<Asked> {
        for (handle, open) in &mut self.open {
            if let Some(id) = open.quic.streams().accept(Dir::Bi) {
                open.skip(id);
                self.asked += 1;
                return Some(Asked {
                    number: self.asked - 1,
                    connection: ConnectionHandle(*handle),
                    id,
                });
            }
        }
        None
    }

    fn transmit(&mut self) {
        let mut out = Vec::new();
        for open in self.open.values_mut() {
            while let Some(transmit) = open.quic.poll_transmit(Instant::now(), 1, &mut out) {
                // A full buffer is like a lost packet.
                let bytes = &out[..transmit.size];
                let _ = self.socket.send_to(bytes, transmit.destination);
                out.clear();
            }
        }
    }
}

impl Open {
    fn heed(&mut self, reporting: &Sender<Report>) {
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => {
                    let control = self.quic.streams().open(Dir::Uni);
                    let control = control.expect("the client allows some");
                    self.control = Some(control);
                    let mut settings = vec![0];
                    Settings::default().encode(&mut settings);
                    self.send(control, &settings, End::Later);
                }
                Event::ConnectionLost {
                    reason: ConnectionError::ApplicationClosed(close),
                } => {
                    let _ = reporting.send(Report::Closed(close.error_code.into_inner()));
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.unsent.remove(&id);
                    let _ = reporting.send(Report::Stopped(error_code.into_inner()));
                }
                Event::Stream(StreamEvent::Writable { id }) => self.flush(id),
                Event::Stream(StreamEvent::Readable { id }) => self.skip(id),
                Event::ConnectionLost { .. } | Event::Stream(_) | Event::HandshakeDataReady => {}
                Event::DatagramReceived | Event::DatagramsUnblocked => {}
            }
        }
    }

    /// Reads what has arrived on a stream: QUIC allows another one when this one has ended.
    fn skip(&mut self, id: StreamId) {
        if let Ok(mut chunks) = self.quic.recv_stream(id).read(true) {
            while let Ok(Some(_)) = chunks.next(usize::MAX) {}
            let _ = chunks.finalize();
        }
    }

    fn send(&mut self, id: StreamId, bytes: &[u8], end: End) {
        let unsent = self.unsent.entry(id);
        let (waiting, last) = unsent.or_insert_with(|| (Vec::new(), End::Later));
        waiting.extend_from_slice(bytes);
        *last = end;
        self.flush(id);
    }

    fn flush(&mut self, id: StreamId) {
        let Some((waiting, end)) = self.unsent.get_mut(&id) else {
            return;
        };
        let mut stream = self.quic.send_stream(id);
        let mut sent = 0;
        while sent < waiting.len()
            && let Ok(count) = stream.write(&waiting[sent..])
        {
            sent += count;
        }
        waiting.drain(..sent);
        if waiting.is_empty() {
            if end.is_here() {
                let _ = stream.finish();
            }
            self.unsent.remove(&id);
        }
    }
}

fn configured(transport: TransportConfig) -> ServerConfig {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("the provider knows TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .expect("they belong together");
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicServerConfig::try_from(tls).expect("it has the suite of Initial packets");
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    config
}
