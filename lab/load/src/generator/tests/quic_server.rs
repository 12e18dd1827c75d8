//! An HTTP/3 server that fails on purpose and counts what it did: one thread, quinn-proto and the machines of
//! `sluice-wire`.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
};
use rustls::crypto::aws_lc_rs;
use sluice_message::{Fields, Status};
use sluice_wire::h1::BodyFraming;
use sluice_wire::h3::{
    Code, FrameKind, HeadWriter, Limits, MessageReader, Part, Settings, encode_frame_head,
    encode_varint,
};

use super::BODY;
use crate::result::FailureClass;

const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

/// What the server does with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The expected response.
    Good,
    /// The expected response behind an interim one, without a length and with trailers, among unknown frames.
    Ornate,
    /// The expected response, with a header of the dynamic table whose entry is sent when the client has the rest.
    Late,
    /// The body of the request.
    Echo,
    /// A response with another status.
    Status(u16),
    /// A response with another length.
    Short,
    /// A response with another body of the right length.
    OtherBody,
    /// A response with less content than its Content-Length.
    LengthUnmet,
    /// The end of the stream without a response.
    Nothing,
    /// Content before the head, which breaks the protocol.
    Disorder,
    /// Resets the stream without a response.
    Reset,
    /// Rejects the request without GOAWAY.
    Reject,
    /// Resets the stream inside the body.
    ResetBody,
    /// Closes the connection without an error.
    Close,
    /// Closes the connection without an error inside the body.
    CutBody,
    /// Closes the connection with an error.
    CloseWithError,
    /// Refuses the request, and all after it, with GOAWAY.
    GoAway,
    /// Sends nothing until the client gives up.
    Silent,
    /// Sends a head and a part of the body, then nothing.
    SilentBody,
}

impl Act {
    /// How it is counted after this many responses on the same connection.
    fn class(self, served: u64) -> Option<FailureClass> {
        Some(match self {
            Act::Good | Act::Ornate | Act::Late | Act::Echo | Act::GoAway => return None,
            Act::Status(_) => FailureClass::Status,
            Act::Short => FailureClass::Length,
            Act::OtherBody => FailureClass::Body,
            Act::LengthUnmet | Act::Nothing | Act::Disorder => FailureClass::Malformed,
            Act::Reset | Act::Reject | Act::ResetBody => FailureClass::StreamReset,
            Act::Close if served > 0 => FailureClass::Stale,
            Act::Close => FailureClass::Closed,
            Act::CutBody => FailureClass::BodyCut,
            Act::CloseWithError => FailureClass::ConnectionLost,
            Act::Silent => FailureClass::HeadTimeout,
            Act::SilentBody => FailureClass::BodyTimeout,
        })
    }
}

/// What the server has done so far.
#[derive(Clone, Debug, Default)]
pub struct Did {
    /// Connections whose handshake was completed.
    pub accepted: u64,
    /// Connections that clients have closed, with their codes.
    pub closed: Vec<Code>,
    /// Expected responses sent.
    pub good: u64,
    /// Requests refused with GOAWAY.
    pub refused: u64,
    faults: BTreeMap<FailureClass, u64>,
}

impl Did {
    /// The failures that the load generator should have counted.
    pub fn failures(&self) -> Vec<(FailureClass, u64)> {
        let faults = self.faults.iter();
        faults.map(|(class, count)| (*class, *count)).collect()
    }
}

/// How the server takes connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// All.
    #[default]
    All,
    /// Those with a token of a Retry packet.
    Retry,
    /// None.
    Refuse,
}

/// A running server.
pub struct QuicServer {
    pub address: SocketAddr,
    /// Its certificate.
    pub certificate: String,
    did: Arc<Mutex<Did>>,
}

type Choose = Box<dyn FnMut(u64) -> Act + Send>;

impl QuicServer {
    /// Starts a server that calls `choose` for what to do with its n-th request. It ends with the test process.
    pub fn start(choose: impl FnMut(u64) -> Act + Send + 'static) -> QuicServer {
        QuicServer::with(b"h3", Admission::All, Box::new(choose))
    }

    /// One with this protocol ID.
    pub fn with(alpn: &[u8], admission: Admission, choose: Choose) -> QuicServer {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![alpn.to_vec()];
        let crypto = QuicServerConfig::try_from(tls).unwrap();
        let mut transport = TransportConfig::default();
        // Smaller than the uploads of tests.
        transport.stream_receive_window(VarInt::from_u32(64 * 1024));
        transport.max_concurrent_bidi_streams(VarInt::from_u32(3));
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        let endpoint = Arc::new(EndpointConfig::default());
        let quic = Endpoint::new(endpoint, Some(Arc::new(config)), true, None);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let did = Arc::new(Mutex::new(Did::default()));
        let mut server = Server {
            socket,
            quic,
            connections: HashMap::new(),
            admission,
            choose,
            requests: 0,
            did: did.clone(),
        };
        std::thread::spawn(move || server.run());
        QuicServer {
            address,
            certificate: made.cert.pem(),
            did,
        }
    }

    /// What was done since the last call.
    pub fn take(&self) -> Did {
        std::mem::take(&mut self.did.lock().unwrap())
    }

    /// Waits until clients have closed this many connections, and returns what was done.
    pub fn take_closed(&self, count: usize) -> Did {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.did.lock().unwrap().closed.len() < count {
            assert!(Instant::now() < deadline, "{:?}", self.did.lock().unwrap());
            std::thread::yield_now();
        }
        self.take()
    }
}

struct Server {
    socket: UdpSocket,
    quic: Endpoint,
    connections: HashMap<ConnectionHandle, Peer>,
    admission: Admission,
    choose: Choose,
    requests: u64,
    did: Arc<Mutex<Did>>,
}

/// A connection.
struct Peer {
    quic: Connection,
    control: Option<StreamId>,
    /// A response that waits for its entry, and whether the entry was sent.
    late: Option<StreamId>,
    has_entry: bool,
    requests: HashMap<StreamId, Request>,
    writer: HeadWriter,
    served: u64,
    /// After GOAWAY nothing is served.
    is_leaving: bool,
}

#[derive(Default)]
struct Request {
    reader: MessageReader,
    body: Vec<u8>,
    /// What is left to send.
    out: Vec<u8>,
    is_responding: bool,
    ends: bool,
}

impl Server {
    fn run(&mut self) {
        let mut buf = vec![0; 64 * 1024];
        loop {
            self.drive();
            let timers = self.connections.values_mut();
            let next = timers.filter_map(|peer| peer.quic.poll_timeout()).min();
            let left = next.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.map(|left| left.max(Duration::from_micros(100)));
            self.socket.set_read_timeout(left).unwrap();
            match self.socket.recv_from(&mut buf) {
                Ok((got, from)) => self.receive(&buf[..got], from),
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                    "{error}"
                ),
            }
        }
    }

    fn receive(&mut self, datagram: &[u8], from: SocketAddr) {
        let (now, mut out) = (Instant::now(), Vec::new());
        let bytes = BytesMut::from(datagram);
        match self.quic.handle(now, from, None, None, bytes, &mut out) {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(peer) = self.connections.get_mut(&handle) {
                    peer.quic.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(transmit)) => {
                let _ = self
                    .socket
                    .send_to(&out[..transmit.size], transmit.destination);
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let transmit = match self.admission {
                    Admission::Refuse => self.quic.refuse(incoming, &mut out),
                    Admission::Retry if !incoming.remote_address_validated() => {
                        self.quic.retry(incoming, &mut out).unwrap()
                    }
                    Admission::All | Admission::Retry => {
                        match self.quic.accept(incoming, now, &mut out, None) {
                            Ok((handle, quic)) => {
                                let peer = Peer {
                                    quic,
                                    control: None,
                                    late: None,
                                    has_entry: false,
                                    requests: HashMap::new(),
                                    writer: HeadWriter::default(),
                                    served: 0,
                                    is_leaving: false,
                                };
                                self.connections.insert(handle, peer);
                                return;
                            }
                            Err(error) => match error.response {
                                Some(transmit) => transmit,
                                None => return,
                            },
                        }
                    }
                };
                let _ = self
                    .socket
                    .send_to(&out[..transmit.size], transmit.destination);
            }
        }
    }

    /// Lets all connections make progress.
    fn drive(&mut self) {
        let now = Instant::now();
        let handles: Vec<ConnectionHandle> = self.connections.keys().copied().collect();
        for handle in handles {
            let Some(peer) = self.connections.get_mut(&handle) else {
                continue;
            };
            if peer.quic.poll_timeout().is_some_and(|due| due <= now) {
                peer.quic.handle_timeout(now);
            }
            let complete = peer.listen(&self.did);
            for id in complete {
                let act = (self.choose)(self.requests);
                self.requests += 1;
                let mut did = self.did.lock().unwrap();
                match act.class(peer.served) {
                    _ if act == Act::GoAway => did.refused += 1,
                    None => did.good += 1,
                    Some(class) => *did.faults.entry(class).or_insert(0) += 1,
                }
                drop(did);
                peer.perform(act, id);
                if act == Act::CutBody {
                    // The client has to see a part of the body first.
                    peer.send(&self.socket, now);
                }
                peer.close_after(act, now);
            }
            peer.send(&self.socket, now);
            while let Some(event) = peer.quic.poll_endpoint_events() {
                if let Some(reply) = self.quic.handle_event(handle, event) {
                    peer.quic.handle_event(reply);
                }
            }
            if peer.quic.is_drained() {
                self.connections.remove(&handle);
            }
        }
    }
}

impl Peer {
    /// Takes what QUIC reports. Returns the streams whose requests are complete.
    fn listen(&mut self, did: &Mutex<Did>) -> Vec<StreamId> {
        let mut complete = Vec::new();
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => {
                    did.lock().unwrap().accepted += 1;
                    self.open_control();
                }
                Event::ConnectionLost {
                    reason: ConnectionError::ApplicationClosed(close),
                } => {
                    let code = Code(close.error_code.into_inner());
                    did.lock().unwrap().closed.push(code);
                }
                Event::Stream(StreamEvent::Writable { id }) => self.respond(id),
                Event::Stream(StreamEvent::Finished { id }) if self.late == Some(id) => {
                    self.send_entry();
                }
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi => {
                    complete.extend(self.read(id));
                }
                _ => {}
            }
        }
        while let Some(id) = self.quic.streams().accept(Dir::Bi) {
            self.requests.insert(id, Request::default());
            complete.extend(self.read(id));
        }
        // Nothing that clients send beside requests matters here.
        while self.quic.streams().accept(Dir::Uni).is_some() {}
        complete
    }

    fn open_control(&mut self) {
        let id = self.quic.streams().open(Dir::Uni).unwrap();
        let mut out = vec![0];
        Settings::default().encode(&mut out);
        assert_eq!(self.quic.send_stream(id).write(&out), Ok(out.len()));
        self.control = Some(id);
    }

    /// Reads a request. Returns its stream when it is complete.
    fn read(&mut self, id: StreamId) -> Option<StreamId> {
        let request = self.requests.get_mut(&id)?;
        let mut stream = self.quic.recv_stream(id);
        let mut chunks = stream.read(true).ok()?;
        let ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    let mut input = &chunk.bytes[..];
                    while let Some(part) =
                        request.reader.receive(&mut input, &Limits::SERVER).unwrap()
                    {
                        if let Part::Data(data) = part {
                            request.body.extend_from_slice(data);
                        }
                    }
                }
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        let _ = chunks.finalize();
        (ended && !self.is_leaving).then_some(id)
    }

    fn head(&mut self, status: u16, framing: BodyFraming) -> Vec<u8> {
        let (status, mut out) = (Status::new(status).unwrap(), Vec::new());
        let fields = Fields::default();
        self.writer
            .response(status, &fields, framing, DATE, &mut out);
        out
    }

    fn whole(&mut self, status: u16, body: &[u8]) -> Vec<u8> {
        let mut out = self.head(status, BodyFraming::Length(body.len() as u64));
        out.extend(data(body));
        out
    }

    fn perform(&mut self, act: Act, id: StreamId) {
        let length = BODY.len() as u64;
        let part = &BODY[..4];
        let mut ends = true;
        let out = match act {
            Act::Good => self.whole(200, BODY),
            Act::Echo => {
                let body = std::mem::take(&mut self.requests.get_mut(&id).unwrap().body);
                self.whole(200, &body)
            }
            Act::Ornate => self.ornate(),
            Act::Late => {
                self.late = Some(id);
                [frame(FrameKind::HEADERS, LATE), data(BODY)].concat()
            }
            Act::Status(status) => self.whole(status, BODY),
            Act::Short => self.whole(200, part),
            Act::OtherBody => self.whole(200, &BODY.to_ascii_uppercase()),
            Act::LengthUnmet => {
                let head = self.head(200, BodyFraming::Length(length));
                [head, data(part)].concat()
            }
            Act::Nothing => Vec::new(),
            Act::Disorder => data(BODY),
            Act::ResetBody | Act::CutBody | Act::SilentBody => {
                ends = false;
                let head = self.head(200, BodyFraming::Length(length));
                [head, data(part)].concat()
            }
            Act::Reset
            | Act::Reject
            | Act::Close
            | Act::CloseWithError
            | Act::GoAway
            | Act::Silent => {
                ends = false;
                Vec::new()
            }
        };
        self.served += u64::from(matches!(
            act,
            Act::Good
                | Act::Echo
                | Act::Ornate
                | Act::Late
                | Act::Status(_)
                | Act::Short
                | Act::OtherBody
        ));
        let request = self.requests.get_mut(&id).unwrap();
        (request.out, request.is_responding, request.ends) = (out, true, ends);
        self.respond(id);
        match act {
            Act::Reset => self.reset(id, Code::INTERNAL_ERROR),
            Act::Reject => self.reset(id, Code::REQUEST_REJECTED),
            Act::ResetBody => self.reset(id, Code::INTERNAL_ERROR),
            Act::GoAway => self.go_away(id),
            _ => {}
        }
    }

    fn ornate(&mut self) -> Vec<u8> {
        let (mut interim, mut trailers) = (Vec::new(), Vec::new());
        let hints = Status::new(103).unwrap();
        self.writer.interim(hints, &Fields::default(), &mut interim);
        self.writer.trailers(&Fields::default(), &mut trailers);
        let mut unknown = Vec::new();
        encode_frame_head(FrameKind(0x21), 3, &mut unknown);
        unknown.extend_from_slice(b"???");
        let head = self.head(200, BodyFraming::Chunked);
        let (one, two) = BODY.split_at(3);
        let body = [data(one), unknown.clone(), data(b""), data(two)].concat();
        [unknown.clone(), interim, head, body, trailers, unknown].concat()
    }

    /// Sends the entry of the dynamic table that [`LATE`] refers to.
    fn send_entry(&mut self) {
        if std::mem::replace(&mut self.has_entry, true) {
            return;
        }
        let id = self.quic.streams().open(Dir::Uni).unwrap();
        // The kind of the stream; a table of 4,096 bytes; an entry with a literal name (RFC 9204, section 4.3).
        let out = [&[2, 0x3f, 0xe1, 0x1f, 0x46][..], b"x-late", &[1], b"y"].concat();
        assert_eq!(self.quic.send_stream(id).write(&out), Ok(out.len()));
    }

    /// Sends what is left of a response.
    fn respond(&mut self, id: StreamId) {
        let Some(request) = self.requests.get_mut(&id).filter(|one| one.is_responding) else {
            return;
        };
        while !request.out.is_empty() {
            match self.quic.send_stream(id).write(&request.out) {
                Ok(count) => drop(request.out.drain(..count)),
                Err(_) => return,
            }
        }
        if request.ends {
            let _ = self.quic.send_stream(id).finish();
            self.requests.remove(&id);
        }
    }

    fn reset(&mut self, id: StreamId, code: Code) {
        self.requests.remove(&id);
        let code = VarInt::from_u64(code.0).unwrap();
        self.quic.send_stream(id).reset(code).unwrap();
    }

    fn go_away(&mut self, from: StreamId) {
        self.is_leaving = true;
        let (mut number, mut out) = (Vec::new(), Vec::new());
        encode_varint(from.into(), &mut number);
        encode_frame_head(FrameKind::GOAWAY, number.len() as u64, &mut out);
        out.extend(number);
        let control = self.control.unwrap();
        assert_eq!(self.quic.send_stream(control).write(&out), Ok(out.len()));
    }

    fn close_after(&mut self, act: Act, now: Instant) {
        let code = match act {
            Act::Close | Act::CutBody => Code::NO_ERROR,
            Act::CloseWithError => Code::EXCESSIVE_LOAD,
            _ => return,
        };
        let code = VarInt::from_u64(code.0).unwrap();
        self.quic.close(now, code, Bytes::new());
    }

    fn send(&mut self, socket: &UdpSocket, now: Instant) {
        let mut out = Vec::new();
        while let Some(transmit) = self.quic.poll_transmit(now, 1, &mut out) {
            let _ = socket.send_to(&out[..transmit.size], transmit.destination);
            out.clear();
        }
    }
}

/// A head that needs one entry of the dynamic table (RFC 9204, section 4.5): `:status: 200`, a length of 10, and the
/// entry.
const LATE: &[u8] = &[2, 0, 0xd9, 0x54, 2, b'1', b'0', 0x80];

/// A DATA frame.
fn data(bytes: &[u8]) -> Vec<u8> {
    frame(FrameKind::DATA, bytes)
}

fn frame(kind: FrameKind, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_frame_head(kind, bytes.len() as u64, &mut out);
    out.extend_from_slice(bytes);
    out
}
