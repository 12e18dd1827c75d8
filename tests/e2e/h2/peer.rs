//! An HTTP/2 client, and an upstream, that send exactly the given frames. Each test decides what they mean.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use sluice_wire::h2::PREFACE;
use sluice_wire::h2::hpack::Decoder;

use crate::wire::patient;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const PRIORITY_UPDATE: u8 = 16;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// Settings by their identifiers (RFC 9113, section 6.5.2).
pub const INITIAL_WINDOW: u16 = 4;
pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub id: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM or GOAWAY.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("four bytes"))
    }
}

/// The response on one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    /// Preceding interim responses.
    pub interims: Vec<u16>,
    /// The error code of a reset, even one after the complete response.
    pub reset: Option<u32>,
    /// Whether the response is complete.
    pub ended: bool,
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

/// One end of a connection.
pub struct Peer<S = TcpStream> {
    stream: S,
    decoder: Decoder,
    next_id: u32,
    /// Frames read while waiting for others, and the decoded headers of those that have any.
    pending: Vec<(Frame, Vec<(String, String)>)>,
}

impl Peer {
    /// Connects and sends preface and settings.
    pub fn connect(port: u16) -> Peer {
        Peer::connect_with(port, &[])
    }

    /// Like `connect`, with settings.
    pub fn connect_with(port: u16, settings: &[(u16, u32)]) -> Peer {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("somebody listens");
        Peer::begin(patient(stream), settings)
    }

    /// Closes both directions, even if another thread is reading.
    pub fn close(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl<S: Read + Write> Peer<S> {
    /// Starts a client connection on a connected stream.
    pub fn begin(mut stream: S, settings: &[(u16, u32)]) -> Peer<S> {
        stream.write_all(PREFACE).expect("the server takes it");
        Peer::greet(stream, settings)
    }

    /// The server side of an accepted stream; `None` if it is not HTTP/2.
    pub fn accept(mut stream: S, settings: &[(u16, u32)]) -> Option<Peer<S>> {
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).ok()?;
        (&preface == PREFACE).then(|| Peer::greet(stream, settings))
    }

    fn greet(stream: S, settings: &[(u16, u32)]) -> Peer<S> {
        let mut peer = Peer {
            stream,
            decoder: Decoder::new(4096),
            next_id: 1,
            pending: Vec::new(),
        };
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        peer.send(SETTINGS, 0, 0, &payload);
        peer
    }

    pub fn send(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        self.try_send(&frame(kind, flags, id, payload))
            .expect("the server takes it");
    }

    /// Sends bytes that the server may no longer accept.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Opens a stream with a request without a body; returns its ID.
    pub fn ask(&mut self, fields: &[(&str, &str)]) -> u32 {
        self.open(fields, END_STREAM)
    }

    /// Opens a stream whose body follows.
    pub fn begin_request(&mut self, fields: &[(&str, &str)]) -> u32 {
        self.open(fields, 0)
    }

    /// Sends a GET request for a path.
    pub fn get(&mut self, path: &str) -> u32 {
        self.ask(&request("GET", path))
    }

    /// Sends a GET request for a path and waits for the response.
    pub fn fetch(&mut self, path: &str) -> Response {
        let id = self.get(path);
        self.response(id)
    }

    fn open(&mut self, fields: &[(&str, &str)], flags: u8) -> u32 {
        let id = self.next_id;
        self.next_id += 2;
        self.head(id, flags, fields);
        id
    }

    /// The stream ID of the next request.
    pub fn next_id(&self) -> u32 {
        self.next_id
    }

    /// Sends a head, of a request or a response.
    pub fn head(&mut self, id: u32, flags: u8, fields: &[(&str, &str)]) {
        self.send(HEADERS, flags | END_HEADERS, id, &block(fields));
    }

    pub fn give_window(&mut self, id: u32, bytes: u32) {
        self.send(WINDOW_UPDATE, 0, id, &bytes.to_be_bytes());
    }

    pub fn reset(&mut self, id: u32, code: u32) {
        self.send(RST_STREAM, 0, id, &code.to_be_bytes());
    }

    /// The next frame; `None` at the end of the connection, also after a reset.
    pub fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; len];
        self.stream.read_exact(&mut payload).ok()?;
        let id = u32::from_be_bytes(head[5..9].try_into().expect("four bytes"));
        Some(Frame {
            kind: head[3],
            flags: head[4],
            id,
            payload,
        })
    }

    /// The next frame of that type; others are discarded.
    pub fn frame_of(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.frame()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// Reads to the end of the connection; returns the last GOAWAY.
    pub fn goodbye(&mut self) -> Option<Frame> {
        let mut last = None;
        while let Some(frame) = self.frame() {
            if frame.kind == GOAWAY {
                last = Some(frame);
            }
        }
        last
    }

    /// The response on stream `id`, up to its end, a reset or the end of the connection. Settings and pings are
    /// acknowledged, and windows updated.
    pub fn response(&mut self, id: u32) -> Response {
        let mut response = Response::default();
        let (mut pending, mut kept) = (std::mem::take(&mut self.pending).into_iter(), Vec::new());
        while let Some((frame, fields)) = pending.next().or_else(|| self.frame_with_fields()) {
            if frame.id != id {
                kept.extend((frame.id != 0).then_some((frame, fields)));
                continue;
            }
            self.take(&mut response, &frame, fields);
            if response.ended || response.reset.is_some() {
                break;
            }
        }
        self.pending = kept;
        self.pending.extend(pending);
        response
    }

    /// The next frame, with its headers if it has any: these have to be decoded in the order of arrival.
    pub fn frame_with_fields(&mut self) -> Option<(Frame, Vec<(String, String)>)> {
        let frame = self.frame()?;
        match (frame.kind, frame.flags & ACK) {
            (SETTINGS, 0) => self.send(SETTINGS, ACK, 0, &[]),
            (PING, 0) => self.send(PING, ACK, 0, &frame.payload),
            _ => {}
        }
        let count = u32::try_from(frame.payload.len()).expect("it fits");
        if frame.kind == DATA && count > 0 {
            // A window update for a stream that has ended is allowed.
            self.give_window(frame.id, count);
            self.give_window(0, count);
        }
        let fields = match frame.kind {
            HEADERS => {
                assert!(frame.flags & END_HEADERS != 0, "short heads only");
                self.decode(&frame.payload)
            }
            _ => Vec::new(),
        };
        Some((frame, fields))
    }

    fn take(&mut self, response: &mut Response, frame: &Frame, mut fields: Vec<(String, String)>) {
        match frame.kind {
            HEADERS => {
                let status = fields.first().filter(|(name, _)| name == ":status");
                let status = status.map(|(_, value)| value.parse().expect("a number"));
                match status {
                    None => response.trailers = fields,
                    Some(status @ 100..200) => response.interims.push(status),
                    Some(status) => {
                        response.status = status;
                        response.fields = fields.split_off(1);
                    }
                }
            }
            DATA => response.body.extend_from_slice(&frame.payload),
            RST_STREAM => response.reset = Some(frame.code()),
            _ => {}
        }
        let ends = matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0;
        response.ended |= ends;
    }

    /// Decodes a header block. All blocks of a connection have to be decoded, in order.
    pub fn decode(&mut self, block: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.decoder
            .decode(block, |field| {
                fields.push((text(field.name), text(field.value)))
            })
            .expect("the server encodes what can be decoded");
        fields
    }
}

/// The headers of a plain request.
pub fn request<'a>(method: &'a str, path: &'a str) -> [(&'a str, &'a str); 4] {
    [
        (":method", method),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", path),
    ]
}

/// Serializes a frame.
pub fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("it fits");
    let mut bytes = len.to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A header block without any compression.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            length(text.len(), &mut bytes);
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

/// Encodes the length of a string (RFC 7541, section 5.1).
fn length(len: usize, out: &mut Vec<u8>) {
    let mut rest = match len.checked_sub(127) {
        None => return out.push(len as u8),
        Some(rest) => rest,
    };
    out.push(127);
    while rest >= 128 {
        out.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    out.push(rest as u8);
}
