//! A client of HTTP/3 on quinn-proto and a blocking socket. It sends what it is asked to, also what breaks the rules.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::crypto::{self, rustls::QuicClientConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId, Transmit, TransportConfig, VarInt,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use sluice_wire::h2;
use sluice_wire::h3::{
    ControlEvent, Follows, FrameKind, HeadReader, Limits, MessageReader, Part, PeerEvent,
    PeerStreams, Read, Settings, encode_frame_head, qpack,
};
use sluice_wire::sections::End;

use super::forging::Forger;
use crate::support::any_certificate::AnyCertificate;

/// How long a client waits for anything.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A response.
#[derive(Clone, Debug, Default)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    /// The code with which the stream was reset.
    pub reset: Option<u64>,
    is_complete: bool,
}

impl Response {
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What a client was made with: sessions are remembered here.
#[derive(Clone)]
pub struct Identity {
    tls: Arc<dyn crypto::ClientConfig>,
}

impl Identity {
    pub fn new() -> Identity {
        Identity::offering(&[b"h3"])
    }

    /// A client that offers these application protocols.
    pub fn offering(protocols: &[&[u8]]) -> Identity {
        Identity::configured(protocols, None)
    }

    /// A client with a certificate.
    pub fn certified(cert: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Identity {
        Identity::configured(&[b"h3"], Some((cert, key)))
    }

    fn configured(
        protocols: &[&[u8]],
        own: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> Identity {
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .expect("the provider knows TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(AnyCertificate::verifier());
        let mut tls = match own {
            Some((cert, key)) => tls
                .with_client_auth_cert(vec![cert], key)
                .expect("they belong together"),
            None => tls.with_no_client_auth(),
        };
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        tls.enable_early_data = true;
        Identity {
            tls: Arc::new(
                QuicClientConfig::try_from(tls).expect("it has the suite of Initial packets"),
            ),
        }
    }

    /// This client, with forged packets.
    pub fn forged(self, forger: &Forger) -> Identity {
        Identity {
            tls: forger.around(self.tls),
        }
    }
}

struct Stream {
    reader: MessageReader,
    response: Response,
}

/// A connection to a server.
pub struct Peer {
    socket: UdpSocket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub quic: Connection,
    server: SocketAddr,
    heads: HeadReader,
    limits: Limits,
    streams: BTreeMap<StreamId, Stream>,
    control: StreamId,
    theirs: PeerStreams,
    /// The first stream that is not served, once the server has said so (GOAWAY).
    pub leaves: Option<u64>,
    /// Whether the handshake has ended.
    pub is_connected: bool,
    /// How the connection has ended.
    pub lost: Option<ConnectionError>,
    /// Bytes sent from the current port.
    pub sent: usize,
}

impl Peer {
    /// Connects to a server that is ready.
    pub fn connect(port: u16) -> Peer {
        let mut peer = Peer::begin(&Identity::new(), port, "localhost");
        peer.drive("the handshake", |peer| peer.is_connected);
        peer
    }

    /// Begins a connection to a name, and sends the settings and no request.
    pub fn begin(identity: &Identity, port: u16, name: &str) -> Peer {
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(None);
        Peer::begin_with(identity, transport, port, name)
    }

    pub fn begin_with(
        identity: &Identity,
        transport: TransportConfig,
        port: u16,
        name: &str,
    ) -> Peer {
        let (socket, endpoint, handle, mut quic) = begun(identity, transport, port, name);
        let control = quic.streams().open(Dir::Uni);
        let limits = Limits::SERVER;
        let decoder = qpack::Decoder::new(&limits);
        let mut peer = Peer {
            socket,
            endpoint,
            handle,
            quic,
            server: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            heads: HeadReader::new(decoder, h2::Limits::DEFAULT.heads(), false),
            limits,
            streams: BTreeMap::new(),
            control: control.unwrap_or(StreamId::new(quinn_proto::Side::Client, Dir::Uni, 0)),
            theirs: PeerStreams::of_server(),
            leaves: None,
            is_connected: false,
            lost: None,
            sent: 0,
        };
        if control.is_none() {
            peer.drive("room for a control stream", |peer| {
                peer.is_connected || peer.lost.is_some()
            });
            if let Some(control) = peer.quic.streams().open(Dir::Uni) {
                peer.control = control;
            }
        }
        let mut settings = vec![0];
        Settings::default().encode(&mut settings);
        let _ = peer.quic.send_stream(peer.control).write(&settings);
        peer
    }

    /// Sends the first packets and says nothing more, as if its address were not its own. Returns the bytes that it sent, and
    /// those that came within `time`.
    pub fn say_nothing_more(port: u16, time: Duration) -> (usize, usize) {
        let transport = TransportConfig::default();
        let (socket, _, _, mut quic) = begun(&Identity::new(), transport, port, "localhost");
        let (mut sent, mut out) = (0, Vec::new());
        while let Some(transmit) = quic.poll_transmit(Instant::now(), 1, &mut out) {
            sent += socket
                .send_to(&out[..transmit.size], transmit.destination)
                .expect("it is sent");
            out.clear();
        }
        let (mut received, end, mut buf) = (0, Instant::now() + time, [0; 65_536]);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (sent, received);
            }
            socket
                .set_read_timeout(Some(left))
                .expect("it is longer than zero");
            received += socket.recv(&mut buf).unwrap_or_default();
        }
    }

    /// The client's own control stream.
    pub fn control(&self) -> StreamId {
        self.control
    }

    /// Opens a stream and sends bytes on it; `end` ends it.
    pub fn open(&mut self, dir: Dir, bytes: &[u8], end: End) -> StreamId {
        let opened = self.try_open(dir, bytes, end);
        opened.unwrap_or_else(|| panic!("the connection was lost: {:?}", self.lost))
    }

    /// Like `open`. `None`: the connection is lost.
    pub fn try_open(&mut self, dir: Dir, bytes: &[u8], end: End) -> Option<StreamId> {
        let deadline = Instant::now() + TIMEOUT;
        let id = loop {
            if self.lost.is_some() {
                return None;
            }
            if let Some(id) = self.quic.streams().open(dir) {
                break id;
            }
            assert!(Instant::now() < deadline, "the server allows no stream");
            self.step();
        };
        if dir == Dir::Bi {
            self.streams.insert(
                id,
                Stream {
                    reader: MessageReader::default(),
                    response: Response::default(),
                },
            );
        }
        self.send(id, bytes, end);
        Some(id)
    }

    /// Sends bytes on a stream, waiting for room.
    pub fn send(&mut self, id: StreamId, bytes: &[u8], end: End) {
        let mut sent = 0;
        let deadline = Instant::now() + TIMEOUT;
        while sent < bytes.len() {
            match self.quic.send_stream(id).write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(quinn_proto::WriteError::Blocked) => {
                    assert!(Instant::now() < deadline, "no room for a request");
                    self.step();
                }
                // The server does not want the rest.
                Err(_) => return,
            }
        }
        if end.is_here() {
            let _ = self.quic.send_stream(id).finish();
        }
        self.transmit();
    }

    /// Sends a request without a body.
    pub fn get(&mut self, path: &str) -> StreamId {
        let head = head(&request("GET", path));
        self.open(Dir::Bi, &head, End::Here)
    }

    /// Sends a request with a body.
    pub fn post(&mut self, path: &str, body: &[u8]) -> StreamId {
        let mut bytes = head(&request("POST", path));
        bytes.extend(data(body));
        self.open(Dir::Bi, &bytes, End::Here)
    }

    /// Opens a WebSocket (RFC 9220), and waits until the server has accepted it.
    pub fn open_websocket(&mut self, path: &str) -> StreamId {
        let mut fields = request("CONNECT", path);
        fields.insert(1, (":protocol", "websocket"));
        fields.push(("sec-websocket-version", "13"));
        let id = self.open(Dir::Bi, &head(&fields), End::Later);
        self.drive("a tunnel", |peer| peer.so_far(id).status != 0);
        assert_eq!(self.so_far(id).status, 200);
        id
    }

    /// Sends a message through a tunnel, and waits for the echo.
    pub fn echoed(&mut self, tunnel: StreamId, message: &str) {
        self.send(tunnel, &data(message.as_bytes()), End::Later);
        self.drive("an echo", |peer| {
            peer.so_far(tunnel).body.ends_with(message.as_bytes())
        });
    }

    /// Sends a GET and returns its response.
    pub fn fetch(&mut self, path: &str) -> Response {
        let id = self.get(path);
        self.response(id)
    }

    /// Waits for a whole response.
    pub fn response(&mut self, id: StreamId) -> Response {
        self.drive("a response", |peer| {
            let stream = &peer.streams[&id];
            stream.response.is_complete || stream.response.reset.is_some() || peer.lost.is_some()
        });
        assert!(
            self.lost.is_none(),
            "the connection was lost: {:?}",
            self.lost
        );
        self.streams
            .remove(&id)
            .expect("it was waited for")
            .response
    }

    /// What has arrived of a response so far.
    pub fn so_far(&self, id: StreamId) -> &Response {
        &self.streams[&id].response
    }

    /// Waits for the server to close the connection; returns the code.
    pub fn closed(&mut self) -> u64 {
        self.drive("the end of the connection", |peer| peer.lost.is_some());
        match &self.lost {
            Some(ConnectionError::ApplicationClosed(close)) => close.error_code.into_inner(),
            Some(ConnectionError::ConnectionClosed(close)) => u64::from(close.error_code),
            other => panic!("the server did not close it: {other:?}"),
        }
    }

    /// Continues from another port, as behind a NAT that has forgotten the old one. Returns the old socket.
    pub fn rebind(&mut self) -> UdpSocket {
        self.sent = 0;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        std::mem::replace(&mut self.socket, socket)
    }

    /// Works until `is_done`, or fails.
    pub fn drive(&mut self, what: &str, mut is_done: impl FnMut(&mut Peer) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.heed();
            self.transmit();
            if is_done(self) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "no {what} in time; the connection: {:?}",
                self.lost
            );
            self.step();
        }
    }

    /// Waits for a datagram or a timer, and takes it.
    pub fn step(&mut self) {
        self.transmit();
        let now = Instant::now();
        let due = self
            .quic
            .poll_timeout()
            .map(|due| due.saturating_duration_since(now));
        let wait = due.unwrap_or(TIMEOUT).min(Duration::from_millis(200));
        let wait = wait.max(Duration::from_micros(100));
        self.socket
            .set_read_timeout(Some(wait))
            .expect("it is longer than zero");
        let mut buf = [0; 65_536];
        match self.socket.recv_from(&mut buf) {
            Ok((count, from)) => self.receive(from, &buf[..count]),
            Err(error) if is_timeout(&error) => {}
            // The port of the server is closed.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => panic!("{error}"),
        }
        self.quic.handle_timeout(Instant::now());
        self.heed();
        self.transmit();
    }

    fn receive(&mut self, from: SocketAddr, datagram: &[u8]) {
        let (bytes, mut out) = (BytesMut::from(datagram), Vec::new());
        let now = Instant::now();
        let event = self.endpoint.handle(now, from, None, None, bytes, &mut out);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.quic.handle_event(event);
        }
    }

    fn heed(&mut self) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(reply) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(reply);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Readable { id }) => self.read(id),
                Event::Stream(_) | Event::HandshakeDataReady => {}
                Event::DatagramReceived | Event::DatagramsUnblocked => {}
            }
        }
        while let Some(id) = self.quic.streams().accept(Dir::Uni) {
            self.theirs.accept(id.into());
            self.read(id);
        }
    }

    /// Reads what has arrived on a stream.
    pub fn read(&mut self, id: StreamId) {
        loop {
            let mut stream = self.quic.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else {
                return;
            };
            let chunk = chunks.next(usize::MAX);
            let _ = chunks.finalize();
            match chunk {
                Ok(Some(chunk)) if id.dir() == Dir::Uni => self.hear(id, &chunk.bytes),
                Ok(Some(chunk)) => self.take(id, &chunk.bytes),
                Ok(None) => {
                    if let Some(stream) = self.streams.get_mut(&id) {
                        stream.reader.end().expect("a whole message");
                        stream.response.is_complete = true;
                    }
                    return;
                }
                Err(ReadError::Blocked) => return,
                Err(ReadError::Reset(code)) => {
                    if let Some(stream) = self.streams.get_mut(&id) {
                        stream.response.reset = Some(code.into_inner());
                    }
                    return;
                }
            }
        }
    }

    /// Takes what the server says about the connection.
    fn hear(&mut self, id: StreamId, mut bytes: &[u8]) {
        let decoder = &mut self.heads.decoder;
        while !bytes.is_empty() {
            let heard = self
                .theirs
                .receive(id.into(), &mut bytes, decoder, &self.limits);
            match heard {
                Ok(Some(PeerEvent::Control(ControlEvent::GoAway(from)))) => {
                    self.leaves = Some(from);
                }
                Ok(_) => {}
                // Acknowledgements of the table, which attacks use and clients here do not.
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, id: StreamId, bytes: &[u8]) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let mut input = bytes;
        loop {
            let part = stream.reader.receive(&mut input, &self.limits);
            match part.expect("the server keeps the rules") {
                None => return,
                Some(Part::Data(data)) => stream.response.body.extend_from_slice(data),
                Some(Part::HeadTooLarge) => panic!("a head beyond the limit"),
                Some(Part::Trailers(section)) => {
                    let read = self.heads.trailers(id.into(), section);
                    let Ok(Read::Done(fields)) = read else {
                        panic!("trailers that cannot be read");
                    };
                    stream.response.trailers = listed(&fields);
                }
                Some(Part::Head(section)) => {
                    let section = section.to_vec();
                    let mut head = sluice_message::ResponseHead::default();
                    let method = sluice_message::Method::Get;
                    let read =
                        self.heads
                            .response(id.into(), &section, End::Later, &method, &mut head);
                    assert!(matches!(read, Ok(Read::Done(_))), "{read:?}");
                    if head.status.is_informational() {
                        stream.reader.expect(Follows::Head);
                        continue;
                    }
                    stream.response.status = head.status.code();
                    stream.response.fields = listed(&head.fields);
                    stream.reader.expect(Follows::Content);
                }
            }
        }
    }

    /// Sends all packets that are due.
    pub fn transmit(&mut self) {
        let mut out = Vec::new();
        loop {
            out.clear();
            let transmit = self.quic.poll_transmit(Instant::now(), 1, &mut out);
            let Some(Transmit { size, .. }) = transmit else {
                return;
            };
            // A full buffer and a closed port are like a lost packet.
            let _ = self.socket.send_to(&out[..size], self.server);
            self.sent += size;
        }
    }

    /// Resets a stream.
    pub fn reset(&mut self, id: StreamId, code: u64) {
        let code = VarInt::from_u64(code).expect("a code");
        let _ = self.quic.send_stream(id).reset(code);
        self.transmit();
    }

    /// Asks the server to stop sending.
    pub fn stop(&mut self, id: StreamId, code: u64) {
        let code = VarInt::from_u64(code).expect("a code");
        let _ = self.quic.recv_stream(id).stop(code);
        self.transmit();
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn listed(fields: &sluice_message::Fields) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lower = |bytes: &[u8]| text(bytes).to_ascii_lowercase();
    let fields = fields.iter();
    fields
        .map(|field| (lower(field.name), text(field.value)))
        .collect()
}

/// A socket, and a connection that has sent nothing yet.
fn begun(
    identity: &Identity,
    transport: TransportConfig,
    port: u16,
    name: &str,
) -> (UdpSocket, Endpoint, ConnectionHandle, Connection) {
    let mut config = ClientConfig::new(identity.tls.clone());
    config.transport_config(Arc::new(transport));
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
    let (handle, quic) = endpoint
        .connect(Instant::now(), config, server, name)
        .expect("it can be configured");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    (socket, endpoint, handle, quic)
}

/// The fields of a request.
pub fn request<'a>(method: &'a str, path: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        (":method", method),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ]
}

/// A HEADERS frame, written without compression (RFC 9204, section 4.5.6).
pub fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        prefixed(0x20, 3, name.len(), &mut section);
        section.extend_from_slice(name.as_bytes());
        prefixed(0, 7, value.len(), &mut section);
        section.extend_from_slice(value.as_bytes());
    }
    frame(FrameKind::HEADERS, &section)
}

/// A DATA frame.
pub fn data(content: &[u8]) -> Vec<u8> {
    frame(FrameKind::DATA, content)
}

/// A frame of any kind.
pub fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_frame_head(kind, payload.len() as u64, &mut out);
    out.extend_from_slice(payload);
    out
}

/// An integer with a prefix of `bits` (RFC 7541, section 5.1).
fn prefixed(first: u8, bits: u32, value: usize, out: &mut Vec<u8>) {
    let max = (1usize << bits) - 1;
    if value < max {
        out.push(first | value as u8);
        return;
    }
    out.push(first | max as u8);
    let mut rest = value - max;
    while rest >= 128 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
}
