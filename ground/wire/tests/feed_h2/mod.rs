//! A scripted HTTP/2 client in front of the server state machine, whose owner records the events and does not respond
//! on its own. The tests state the expected result.

#![allow(dead_code)]

use sluice_message::{Fields, RequestHead, ResponseHead, Status};
use sluice_wire::h1::BodyFraming;
use sluice_wire::h2::hpack::Decoder;
use sluice_wire::h2::{
    Client, ClientEvent, Closed, End, ErrorCode, Event, FRAME_HEAD_LEN, FrameHead, FrameKind,
    Limits, PREFACE, Server, StreamId,
};

pub const DATE: &[u8; 29] = b"Sun, 22 Nov 2026 04:00:00 GMT";

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;
pub const PRIORITY: u8 = 0x20;

/// A frame as bytes.
pub fn frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead {
        len: payload.len() as u32,
        kind,
        flags,
        stream,
    };
    let mut bytes = head.to_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// A header block of literals, without any compression: names and values are what the test says.
pub fn block<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name.as_ref(), value.as_ref()] {
            push_len(text.len(), &mut out);
            out.extend_from_slice(text);
        }
    }
    out
}

fn push_len(len: usize, out: &mut Vec<u8>) {
    if len < 127 {
        out.push(len as u8);
        return;
    }
    out.push(127);
    let mut rest = len - 127;
    while rest >= 128 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A HEADERS frame; `flags` beside END_HEADERS.
pub fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(
        FrameKind::HEADERS,
        flags | END_HEADERS,
        stream,
        &block(fields),
    )
}

/// The pseudo-fields of a usual request.
pub const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.example"),
    (":path", "/"),
];

/// The same for a request with content.
pub const POST: [(&str, &str); 4] = [
    (":method", "POST"),
    (":scheme", "https"),
    (":authority", "a.example"),
    (":path", "/p"),
];

/// A whole request.
pub fn get(stream: u32) -> Vec<u8> {
    headers(stream, END_STREAM, &GET)
}

/// The head of a request with content, and with other fields.
pub fn post(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    headers(stream, 0, &[&POST, fields].concat())
}

pub fn data(stream: u32, flags: u8, content: &[u8]) -> Vec<u8> {
    frame(FrameKind::DATA, flags, stream, content)
}

pub fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (id, value) in entries {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame(FrameKind::SETTINGS, 0, 0, &payload)
}

/// A frame that holds one number of 32 bits.
pub fn word(kind: FrameKind, stream: u32, value: u32) -> Vec<u8> {
    frame(kind, 0, stream, &value.to_be_bytes())
}

pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    word(FrameKind::WINDOW_UPDATE, stream, increment)
}

pub fn reset(stream: u32, code: ErrorCode) -> Vec<u8> {
    word(FrameKind::RST_STREAM, stream, code.0)
}

/// Bytes as readable text.
pub fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Fields as readable text.
pub fn fields_text(fields: &Fields) -> String {
    let line = |name: &[u8], value: &[u8]| format!(" [{}: {}]", text(name), text(value));
    fields.iter().map(|f| line(f.name, f.value)).collect()
}

/// A server's machine with an owner.
pub struct Session {
    pub server: Server,
    pub head: RequestHead,
    /// The events that the owner received, one line each; content that follows other content is joined to it.
    pub events: Vec<String>,
    /// The streams that were reported and not released, by number.
    pub open: Vec<StreamId>,
    pub over: Option<Closed>,
    /// Whether content is consumed as it comes.
    pub consumes: bool,
    decoder: Decoder,
}

impl Session {
    /// Before the preface.
    pub fn bare(limits: &Limits) -> Session {
        Session {
            server: Server::new(limits, true),
            head: RequestHead::default(),
            events: Vec::new(),
            open: Vec::new(),
            over: None,
            consumes: true,
            decoder: Decoder::new(4096),
        }
    }

    /// After preface and settings, and with the output so far forgotten.
    pub fn new() -> Session {
        Session::with(&Limits::SERVER)
    }

    /// As [`Session::new`] with other limits.
    pub fn with(limits: &Limits) -> Session {
        let mut session = Session::bare(limits);
        session.send(PREFACE);
        session.send(&settings(&[]));
        session.send(&frame(FrameKind::SETTINGS, ACK, 0, b""));
        session.server.output().clear();
        session
    }

    /// Gives bytes to the machine and writes down what happens, until they are used up, the output is full or the
    /// connection is over. Gives how many were used.
    pub fn send(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while self.over.is_none() {
            match self.server.receive(rest, &mut self.head) {
                Err(closed) => self.over = Some(closed),
                Ok(received) => {
                    rest = &rest[received.consumed..];
                    let Some(event) = received.event else {
                        if received.consumed == 0 || rest.is_empty() {
                            break;
                        }
                        continue;
                    };
                    let mut given = (None, 0);
                    let line = match event {
                        Event::Head { id, end, facts } => {
                            self.open.push(id);
                            let head = &self.head;
                            format!(
                                "{} head {} {}{}{} {:?} {:?} {:?} u={} i={}",
                                id.number(),
                                head.method,
                                text(&head.target),
                                fields_text(&head.fields),
                                if end.is_here() { " end" } else { "" },
                                facts.body,
                                facts.expectation,
                                facts.connect,
                                facts.priority.urgency,
                                facts.priority.incremental,
                            )
                        }
                        Event::Data { id, data, end } => {
                            given = (Some(id), data.len());
                            let number = id.number();
                            self.join_data(number, data);
                            if !end.is_here() {
                                self.consume(given);
                                continue;
                            }
                            format!("{number} end")
                        }
                        Event::Trailers { id, fields } => {
                            format!("{} trailers{}", id.number(), fields_text(&fields))
                        }
                        Event::Reset { id, code, by } => {
                            format!("{} reset {code} by {by:?}", id.number())
                        }
                        Event::Window { id: Some(id) } => format!("{} window", id.number()),
                        Event::Window { id: None } => "window".to_string(),
                        Event::Refused { id, fault, .. } => {
                            assert!(
                                self.head.fields.is_empty() && self.head.target.is_empty(),
                                "a refused head is empty"
                            );
                            self.open.push(id);
                            format!("{} refused {fault:?}", id.number())
                        }
                        Event::GoAway { code } => format!("goaway {code}"),
                    };
                    self.events.push(line);
                    self.consume(given);
                }
            }
        }
        bytes.len() - rest.len()
    }

    fn consume(&mut self, (id, bytes): (Option<StreamId>, usize)) {
        if let Some(id) = id.filter(|_| self.consumes) {
            self.server.consumed(id, bytes);
        }
    }

    /// Content that follows content of the same stream is one line.
    fn join_data(&mut self, number: u32, data: &[u8]) {
        let start = format!("{number} data ");
        if data.is_empty() {
            return;
        }
        match self.events.last_mut() {
            Some(line) if line.starts_with(&start) => *line += &text(data),
            _ => self.events.push(start + &text(data)),
        }
    }

    /// The events since the last call.
    pub fn events(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }

    /// The stream with that number.
    pub fn id(&self, number: u32) -> StreamId {
        *self
            .open
            .iter()
            .rfind(|id| id.number() == number)
            .expect("the stream was told of")
    }

    /// Lets go of a stream.
    pub fn release(&mut self, number: u32) {
        let id = self.id(number);
        self.open.retain(|open| *open != id);
        self.server.release(id);
    }

    /// Sends a response without a body and releases the stream.
    pub fn response(&mut self, number: u32) {
        let (id, none) = (self.id(number), Fields::new());
        let framing = BodyFraming::Length(0);
        let sent = self
            .server
            .send_head(id, Status::OK, &none, framing, DATE, End::Here);
        assert!(sent.is_ok());
        self.release(number);
    }

    /// Begins a response with a body.
    pub fn begin_response(&mut self, number: u32, framing: BodyFraming) -> StreamId {
        let (id, none) = (self.id(number), Fields::new());
        self.server
            .send_head(id, Status::OK, &none, framing, DATE, End::Later)
            .expect("the stream is open");
        id
    }

    /// What was sent since the last call.
    pub fn sent(&mut self) -> Vec<String> {
        let out = std::mem::take(self.server.output());
        describe(&out, &mut self.decoder)
    }
}

/// Frames as lines of text. Every frame must be one that may be sent.
pub fn describe(bytes: &[u8], decoder: &mut Decoder) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
    let mut fragments: Option<(String, Vec<u8>)> = None;
    while let Some((head, after)) = rest.split_first_chunk::<FRAME_HEAD_LEN>() {
        let head = FrameHead::decode(head);
        assert!(
            head.len <= 16_384,
            "frames are no larger than any peer takes"
        );
        let (payload, after) = after.split_at(head.len as usize);
        rest = after;
        let end = if head.flags & 1 != 0 { " end" } else { "" };
        let stream = head.stream;
        let at = |at: usize| {
            payload[at..]
                .first_chunk()
                .map_or(0, |word| u32::from_be_bytes(*word))
        };
        let in_block = fragments.is_some();
        assert_eq!(in_block, head.kind == FrameKind::CONTINUATION);
        let line = match head.kind {
            FrameKind::HEADERS | FrameKind::CONTINUATION => {
                let (start, mut gathered) = fragments
                    .take()
                    .unwrap_or_else(|| (format!("HEADERS {stream}{end}"), Vec::new()));
                gathered.extend_from_slice(payload);
                if head.flags & END_HEADERS == 0 {
                    fragments = Some((start, gathered));
                    continue;
                }
                let mut line = start;
                let each = |field: sluice_wire::h2::hpack::Decoded<'_>| {
                    line += &format!(" [{}: {}]", text(field.name), text(field.value));
                };
                decoder
                    .decode(&gathered, each)
                    .expect("blocks can be decoded");
                line
            }
            FrameKind::DATA => format!("DATA {stream} {}{end}", payload.len()),
            FrameKind::RST_STREAM => format!("RST_STREAM {stream} {}", ErrorCode(at(0))),
            FrameKind::SETTINGS if head.flags & ACK != 0 => "SETTINGS ack".to_string(),
            FrameKind::SETTINGS => format!("SETTINGS {}", payload.len() / 6),
            FrameKind::PING if head.flags & ACK != 0 => format!("PING ack {}", text(payload)),
            FrameKind::PING => "PING".to_string(),
            FrameKind::GOAWAY => format!("GOAWAY {} {}", at(0), ErrorCode(at(4))),
            FrameKind::WINDOW_UPDATE => format!("WINDOW_UPDATE {stream} {}", at(0)),
            kind => panic!("{kind:?} is never sent"),
        };
        lines.push(line);
    }
    assert!(rest.is_empty() && fragments.is_none(), "whole frames");
    lines
}

/// What a server's machine tells and says about these bytes, and when it is at its end. Windows given back are left
/// out: they depend on how the content was cut.
pub fn server_transcript(limits: &Limits, parts: &[&[u8]]) -> String {
    let mut session = Session::bare(limits);
    let mut lines = Vec::new();
    for part in parts {
        let mut rest = *part;
        while session.over.is_none() {
            let used = session.send(rest);
            rest = &rest[used..];
            let windows = |line: &String| !line.starts_with("WINDOW_UPDATE");
            lines.extend(session.sent().into_iter().filter(windows));
            assert!(session.server.open_streams() <= usize::from(limits.streams_max));
            if rest.is_empty() {
                break;
            }
        }
    }
    format!("{:?}\n{lines:#?}\n{:?}", session.events, session.over)
}

/// Checks that events and output do not depend on how the bytes are split.
pub fn check_server(bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let limits = Limits {
        streams_max: 4,
        glitch_points_max: 400,
        ..Limits::DEFAULT
    };
    let whole = server_transcript(&limits, &[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(server_transcript(&limits, &single), whole);
    for at in [
        1,
        bytes.len() / 3,
        bytes.len() / 2,
        bytes.len().saturating_sub(1),
    ] {
        let (a, b) = bytes.split_at(at.min(bytes.len()));
        assert_eq!(server_transcript(&limits, &[a, b]), whole);
    }
}

/// What a client's machine tells about these bytes after it has opened some streams.
pub fn client_transcript(parts: &[&[u8]]) -> String {
    let mut client = Client::new(&Limits::DEFAULT);
    let mut request = RequestHead::default();
    request.uri.set(b"/");
    request.set_authority(b"a.example");
    for method in ["GET", "HEAD", "CONNECT"] {
        request.method = sluice_message::Method::from_token(method.as_bytes()).expect("a token");
        let _ = client.open(&request, true, BodyFraming::None, End::Here);
    }
    let (mut head, mut events) = (ResponseHead::default(), Vec::<String>::new());
    client.output().clear();
    for part in parts {
        let mut rest = *part;
        loop {
            client.output().clear();
            let received = match client.receive(rest, &mut head) {
                Ok(received) => received,
                Err(closed) => return format!("{events:#?} {closed:?}"),
            };
            rest = &rest[received.consumed..];
            let Some(event) = received.event else {
                break;
            };
            match event {
                ClientEvent::Data { id, data, end } => {
                    let start = format!("{} data ", id.number());
                    match events.last_mut() {
                        Some(line) if line.starts_with(&start) => *line += &text(data),
                        _ => events.push(start + &text(data)),
                    }
                    if end.is_here() {
                        events.push("end".to_string());
                    }
                    client.consumed(id, data.len());
                }
                ClientEvent::Head { .. } | ClientEvent::Interim { .. } => events.push(format!(
                    "{event:?} {}{}",
                    head.status.code(),
                    fields_text(&head.fields)
                )),
                event => events.push(format!("{event:?}")),
            }
        }
    }
    format!("{events:#?}")
}

/// As [`check_server`] for what a server says.
pub fn check_client(bytes: &[u8]) {
    let whole = client_transcript(&[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(client_transcript(&single), whole);
    for at in [
        1,
        bytes.len() / 3,
        bytes.len() / 2,
        bytes.len().saturating_sub(1),
    ] {
        let (a, b) = bytes.split_at(at.min(bytes.len()));
        assert_eq!(client_transcript(&[a, b]), whole);
    }
}

/// Blocks, of which the first byte of each says how long it is: what can be decoded is within its bounds, and comes
/// back when it is encoded and decoded again.
pub fn check_hpack(bytes: &[u8]) {
    use sluice_message::FieldId;
    use sluice_wire::h2::hpack::{Encoder, Keep};
    let (mut decoder, mut again) = (Decoder::new(512), Decoder::new(4096));
    let mut encoder = Encoder::new(512);
    let mut rest = bytes;
    while let Some((len, after)) = rest.split_first() {
        let (part, after) = after.split_at(usize::from(*len).min(after.len()));
        rest = after;
        let (mut fields, mut total) = (Vec::new(), 0);
        let decoded = decoder.decode(part, |field| {
            total += field.name.len() + field.value.len();
            fields.push((field.name.to_ascii_lowercase(), field.value.to_vec()));
        });
        // A byte names an entry of at most the table's size.
        assert!(total <= part.len() * 512);
        if decoded.is_err() {
            return;
        }
        let mut out = Vec::new();
        encoder.begin(&mut out);
        for (name, value) in &fields {
            encoder.field(FieldId::Other, name, value, Keep::Allowed, &mut out);
        }
        let mut found = Vec::new();
        again
            .decode(&out, |field| {
                found.push((field.name.to_vec(), field.value.to_vec()));
            })
            .expect("what was encoded can be decoded");
        assert_eq!(found, fields);
    }
}
