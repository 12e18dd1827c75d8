//! One end of an open WebSocket: bytes in, messages out, and the reverse.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::close::{self, NO_STATUS};
use super::deflate::{self, Compression, Deflater, Inflater, NotDeflate};
use super::fault::Fault;
use super::frame::{
    self, CONTROL_BYTES_MAX, First, HEADER_BYTES_MAX, Header, Kind, Opcode, Role, push_header,
};
use super::part::MessagePart;
use super::text::Checked;
use crate::limits::{
    WEBSOCKET_DEFLATE_BYTES_MIN, WEBSOCKET_IDLE_BYTES_MAX, WEBSOCKET_MESSAGE_BYTES_MAX,
    WEBSOCKET_PIECE_BYTES_MAX,
};

/// Bounds of one WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A whole message, its fragments together and decompressed. A larger one ends the connection with 1009.
    pub message_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            message_bytes_max: WEBSOCKET_MESSAGE_BYTES_MAX,
        }
    }
}

/// Nothing more can be sent: a Close frame was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// How far [`WebSocket::receive`] came.
#[derive(Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The bytes of the input that are done with: all of them unless there is an event, after which the rest is to be given
    /// again.
    pub consumed: usize,
    /// What happened.
    pub event: Option<Event<'a>>,
}

/// What the peer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A message, or a piece of a long one, independent of its fragments.
    Message {
        /// What it is.
        kind: Kind,
        /// The bytes, at most [`WEBSOCKET_PIECE_BYTES_MAX`]; UTF-8 if it is a text, whose pieces end between characters.
        data: &'a [u8],
        /// Whether the message ends with them.
        piece: MessagePart,
    },
    /// A Ping; the Pong is in the output.
    Ping,
    /// A Pong with this payload.
    Pong(&'a [u8]),
    /// A Close frame, the last event; the one in reply is in the output.
    Close {
        /// Its code; 1005 if it has none.
        code: u16,
        /// Its reason.
        reason: &'a str,
    },
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug)]
enum Inbound {
    /// In the header of a frame, of which `have` bytes are here.
    Header {
        bytes: [u8; HEADER_BYTES_MAX],
        have: usize,
    },
    /// In a frame of a message, of which `at` bytes are done.
    Data { header: Header, at: u64 },
    /// All frames of a compressed message are here; the rest of it is to be decompressed.
    Tail,
    /// In a control frame.
    Control {
        header: Header,
        bytes: [u8; CONTROL_BYTES_MAX],
        have: usize,
    },
    /// A Close frame or a fault was the last.
    Ended,
}

const AWAIT_HEADER: Inbound = Inbound::Header {
    bytes: [0; HEADER_BYTES_MAX],
    have: 0,
};

/// The message of which frames are arriving.
#[derive(Debug)]
struct Message {
    kind: Kind,
    /// How much of its unreported bytes is UTF-8, if it is a text.
    checked: Checked,
    /// For one that is compressed.
    inflater: Option<Box<Inflater>>,
    /// Its bytes so far.
    total: usize,
}

/// Compressed bytes that are unmasked at a time.
const INFLATE_BYTES: usize = 1024;

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outbound {
    Open,
    /// A Close frame is the last in the output.
    Closed,
}

/// What a step of [`WebSocket::receive`] found; borrowed events are made from it.
enum Found {
    Nothing,
    /// The first [`WebSocket::reported`] bytes.
    Message(Kind, MessagePart),
    Ping,
    Pong,
    Close,
}

/// One end of an open WebSocket. Memory: a piece of the message that arrives, 50 KB while that is compressed, and the output.
/// The caller stops sending while [`WebSocket::output`] is longer than it likes; replies to the peer add at most two Pongs.
#[derive(Debug)]
pub struct WebSocket {
    role: Role,
    limits: Limits,
    compression: Compression,
    inbound: Inbound,
    message: Option<Message>,
    /// The bytes of the message that were not reported; after [`WebSocket::receive`] those that were are still there.
    bytes: Vec<u8>,
    /// How many of them were reported, and are dropped with the next call.
    reported: usize,
    /// The payload of the last control frame that was reported.
    control: ([u8; CONTROL_BYTES_MAX], usize),
    outbound: Outbound,
    /// Whether a message that was begun is compressed; `None` between messages.
    sending: Option<bool>,
    out: Vec<u8>,
    /// How much of `out` was sent.
    sent: usize,
    /// Where a Pong in `out` ends, while it may be unsent.
    pong_end: usize,
    /// The newest Ping, if a Pong to an earlier one is unsent (RFC 6455, section 5.5.3).
    pending_pong: Option<([u8; CONTROL_BYTES_MAX], usize)>,
}

impl WebSocket {
    /// The server's end, after its handshake.
    pub fn server(limits: Limits, compression: Compression) -> WebSocket {
        WebSocket::new(Role::Server, limits, compression)
    }

    /// The client's end. `seed`, which must not be 0, chooses the masks.
    pub fn client(limits: Limits, compression: Compression, seed: u64) -> WebSocket {
        WebSocket::new(Role::Client { masks: seed }, limits, compression)
    }

    fn new(role: Role, limits: Limits, compression: Compression) -> WebSocket {
        WebSocket {
            role,
            limits,
            compression,
            inbound: AWAIT_HEADER,
            message: None,
            bytes: Vec::new(),
            reported: 0,
            control: ([0; CONTROL_BYTES_MAX], 0),
            outbound: Outbound::Open,
            sending: None,
            out: Vec::new(),
            sent: 0,
            pong_end: 0,
            pending_pong: None,
        }
    }

    /// Takes bytes of the peer, up to the first event. What arrives after a Close frame in either direction is read and
    /// dropped (section 1.4).
    ///
    /// # Errors
    ///
    /// What the peer did wrong. A Close frame with the code for it is in the output; nothing more is received.
    pub fn receive(&mut self, input: &[u8]) -> Result<Received<'_>, Fault> {
        self.forget_reported();
        let mut consumed = 0;
        let mut found = Found::Nothing;
        while matches!(found, Found::Nothing) {
            let rest = &input[consumed..];
            if matches!(self.inbound, Inbound::Ended) {
                consumed = input.len();
                break;
            }
            if rest.is_empty() && !self.is_between() {
                break;
            }
            match self.step(rest) {
                Ok((count, what)) => {
                    consumed += count;
                    found = what;
                }
                Err(fault) => {
                    self.inbound = Inbound::Ended;
                    self.message = None;
                    self.bytes = Vec::new();
                    // A peer that was already sent a Close frame gets no second one.
                    let _ = self.close(fault.code(), "");
                    return Err(fault);
                }
            }
        }
        let event = self.event(&found)?;
        Ok(Received { consumed, event })
    }

    fn event(&self, found: &Found) -> Result<Option<Event<'_>>, Fault> {
        let (control, length) = &self.control;
        Ok(Some(match found {
            Found::Nothing => return Ok(None),
            Found::Message(kind, piece) => Event::Message {
                kind: *kind,
                data: &self.bytes[..self.reported],
                piece: *piece,
            },
            Found::Ping => Event::Ping,
            Found::Pong => Event::Pong(&control[..*length]),
            Found::Close => {
                let (code, reason) = close::parse(&control[..*length])?;
                Event::Close { code, reason }
            }
        }))
    }

    /// Whether the next state follows without a byte.
    fn is_between(&self) -> bool {
        match &self.inbound {
            Inbound::Header { .. } | Inbound::Ended => false,
            Inbound::Data { header, at } => *at == header.length,
            Inbound::Tail => true,
            Inbound::Control { header, have, .. } => *have as u64 == header.length,
        }
    }

    fn forget_reported(&mut self) {
        self.bytes.drain(..self.reported);
        self.reported = 0;
        if self.message.is_none() && self.bytes.capacity() > WEBSOCKET_IDLE_BYTES_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Takes the bytes of one state: how many, and what they complete.
    fn step(&mut self, rest: &[u8]) -> Result<(usize, Found), Fault> {
        match self.inbound {
            Inbound::Ended => Ok((rest.len(), Found::Nothing)),
            Inbound::Header { mut bytes, have } => {
                let count = rest.len().min(HEADER_BYTES_MAX - have);
                bytes[have..have + count].copy_from_slice(&rest[..count]);
                match frame::parse(&bytes[..have + count], self.role, self.compression)? {
                    None => {
                        let have = have + count;
                        self.inbound = Inbound::Header { bytes, have };
                        Ok((count, Found::Nothing))
                    }
                    Some((header, whole)) => {
                        self.begin(header)?;
                        Ok((whole - have, Found::Nothing))
                    }
                }
            }
            Inbound::Data { header, at } => self.take_data(header, at, rest),
            Inbound::Tail => Ok((0, self.take_tail()?)),
            Inbound::Control {
                header,
                mut bytes,
                have,
            } => {
                let left = header.length as usize - have;
                let count = rest.len().min(left);
                let place = &mut bytes[have..have + count];
                place.copy_from_slice(&rest[..count]);
                frame::mask(place, header.mask, have);
                let have = have + count;
                if count < left {
                    self.inbound = Inbound::Control {
                        header,
                        bytes,
                        have,
                    };
                    return Ok((count, Found::Nothing));
                }
                self.inbound = AWAIT_HEADER;
                self.control = (bytes, have);
                Ok((count, self.end_control(header.opcode)?))
            }
        }
    }

    /// A frame begins: whether it may, and what its payload is for.
    fn begin(&mut self, header: Header) -> Result<(), Fault> {
        if header.opcode.is_control() {
            self.inbound = Inbound::Control {
                header,
                bytes: [0; CONTROL_BYTES_MAX],
                have: 0,
            };
            return Ok(());
        }
        match (header.opcode, &self.message) {
            (Opcode::Start(_), Some(_)) => return Err(Fault::Interleaved),
            (Opcode::Continuation, None) => return Err(Fault::Continuation),
            (Opcode::Start(kind), None) => {
                let is_wanted = header.is_compressed && self.outbound == Outbound::Open;
                let inflater = is_wanted.then(|| Box::new(Inflater::new()));
                self.message = Some(Message {
                    kind,
                    checked: Checked::default(),
                    inflater,
                    total: 0,
                });
            }
            (Opcode::Continuation, Some(_))
            | (Opcode::Close | Opcode::Ping | Opcode::Pong, Some(_) | None) => {}
        }
        if let (Some(message), Outbound::Open) = (&self.message, self.outbound) {
            // Known before any of it is stored, unless it is compressed.
            let whole = header.length.saturating_add(message.total as u64);
            if message.inflater.is_none() && whole > self.limits.message_bytes_max as u64 {
                return Err(Fault::TooLarge);
            }
        }
        self.inbound = Inbound::Data { header, at: 0 };
        Ok(())
    }

    fn take_data(&mut self, header: Header, at: u64, rest: &[u8]) -> Result<(usize, Found), Fault> {
        let here = (header.length - at).min(rest.len() as u64) as usize;
        let count = match self.outbound {
            Outbound::Open => self.store(&rest[..here], header.mask, (at % 4) as usize)?,
            // After our Close frame no one reads it.
            Outbound::Closed => here,
        };
        let at = at + count as u64;
        self.inbound = match (at < header.length, header.is_last) {
            (true, _) => Inbound::Data { header, at },
            (false, false) => AWAIT_HEADER,
            (false, true) => {
                if self.message.as_ref().is_some_and(|m| m.inflater.is_some()) {
                    self.inbound = Inbound::Tail;
                    return Ok((count, self.found_when_full()));
                }
                self.inbound = AWAIT_HEADER;
                return Ok((count, self.end_message()?));
            }
        };
        Ok((count, self.found_when_full()))
    }

    /// Adds masked bytes to the message, as far as there is room. Returns how many were taken.
    fn store(&mut self, bytes: &[u8], mask: [u8; 4], at: usize) -> Result<usize, Fault> {
        let room = WEBSOCKET_PIECE_BYTES_MAX - self.bytes.len();
        let Some(message) = &mut self.message else {
            return Ok(bytes.len());
        };
        let before = self.bytes.len();
        let count = match &mut message.inflater {
            None => {
                let count = bytes.len().min(room);
                self.bytes.extend_from_slice(&bytes[..count]);
                frame::mask(&mut self.bytes[before..], mask, at);
                Ok(count)
            }
            Some(inflater) => {
                let mut plain = [0; INFLATE_BYTES];
                let plain = &mut plain[..bytes.len().min(INFLATE_BYTES)];
                plain.copy_from_slice(&bytes[..plain.len()]);
                frame::mask(plain, mask, at);
                let room = room.min(self.limits.message_bytes_max - message.total + 1);
                inflater.inflate(plain, &mut self.bytes, room)
            }
        };
        // The first fault counts, however the bytes arrive.
        self.count(before)?;
        count.map_err(|NotDeflate| Fault::Deflate)
    }

    /// Decompresses the rest of a message.
    fn take_tail(&mut self) -> Result<Found, Fault> {
        let room = WEBSOCKET_PIECE_BYTES_MAX - self.bytes.len();
        let before = self.bytes.len();
        if let (Some(message), Outbound::Open) = (&mut self.message, self.outbound)
            && let Some(inflater) = &mut message.inflater
        {
            let room = room.min(self.limits.message_bytes_max - message.total + 1);
            let finished = inflater.finish(&mut self.bytes, room);
            self.count(before)?;
            if !finished.map_err(|NotDeflate| Fault::Deflate)? {
                return Ok(self.found_when_full());
            }
        }
        self.inbound = AWAIT_HEADER;
        self.end_message()
    }

    /// Checks the bytes that were added to the message.
    fn count(&mut self, before: usize) -> Result<(), Fault> {
        let Some(message) = &mut self.message else {
            return Ok(());
        };
        message.total += self.bytes.len() - before;
        if message.total > self.limits.message_bytes_max {
            return Err(Fault::TooLarge);
        }
        if message.kind == Kind::Text {
            let checked = message.checked.extend(&self.bytes);
            checked.map_err(|_| Fault::Text)?;
        }
        Ok(())
    }

    /// A piece of the message, once it has the largest size.
    fn found_when_full(&mut self) -> Found {
        let Some(message) = &mut self.message else {
            return Found::Nothing;
        };
        if self.bytes.len() < WEBSOCKET_PIECE_BYTES_MAX {
            return Found::Nothing;
        }
        self.reported = match message.kind {
            Kind::Text => core::mem::take(&mut message.checked).whole_bytes(),
            Kind::Binary => self.bytes.len(),
        };
        Found::Message(message.kind, MessagePart::More)
    }

    /// The message is complete.
    fn end_message(&mut self) -> Result<Found, Fault> {
        let Some(message) = self.message.take() else {
            return Ok(Found::Nothing);
        };
        if self.outbound == Outbound::Closed {
            self.bytes.clear();
            return Ok(Found::Nothing);
        }
        if message.kind == Kind::Text && !message.checked.is_whole(&self.bytes) {
            return Err(Fault::Text);
        }
        self.reported = self.bytes.len();
        Ok(Found::Message(message.kind, MessagePart::Last))
    }

    fn end_control(&mut self, opcode: Opcode) -> Result<Found, Fault> {
        let (bytes, length) = self.control;
        match opcode {
            Opcode::Ping => {
                self.reply_to_ping(bytes, length);
                Ok(Found::Ping)
            }
            Opcode::Pong => Ok(Found::Pong),
            Opcode::Close => {
                let (code, _) = close::parse(&bytes[..length])?;
                self.inbound = Inbound::Ended;
                // The peer's code is echoed (section 5.5.1).
                let _ = self.close(code, "");
                Ok(Found::Close)
            }
            Opcode::Continuation | Opcode::Start(_) => Ok(Found::Nothing),
        }
    }

    /// Replies to a Ping, or remembers it until the Pong before was sent: a peer that reads nothing cannot fill the output.
    fn reply_to_ping(&mut self, bytes: [u8; CONTROL_BYTES_MAX], length: usize) {
        if self.outbound == Outbound::Closed {
            return;
        }
        if self.pong_end > self.sent {
            self.pending_pong = Some((bytes, length));
            return;
        }
        self.push(Opcode::Pong, &bytes[..length]);
        self.pong_end = self.out.len();
    }

    /// Appends a message, or the next piece of one, in one frame. A text must be UTF-8; its pieces, too. With a `deflater` it
    /// is compressed, if that was negotiated and makes it shorter.
    ///
    /// # Errors
    ///
    /// [`Closed`] after a Close frame, which a peer's Close frame and faults send as well.
    pub fn send(
        &mut self,
        kind: Kind,
        data: &[u8],
        piece: MessagePart,
        deflater: Option<&mut Deflater>,
    ) -> Result<(), Closed> {
        self.check_open()?;
        let is_small = data.len() < WEBSOCKET_DEFLATE_BYTES_MIN && piece.is_last();
        let packed = match (self.compression, self.sending, deflater) {
            (Compression::Off, _, _) | (_, Some(false), _) | (_, None, None) => None,
            (Compression::Deflate { .. }, None, Some(_)) if is_small => None,
            (Compression::Deflate { window_bits }, begun, deflater) => {
                let packed = deflate::pack(deflater, data, window_bits, piece);
                // All pieces of a message are compressed, or none.
                (begun.is_some() || packed.len() < data.len()).then_some(packed)
            }
        };
        let opcode = match self.sending {
            None => Opcode::Start(kind),
            Some(_) => Opcode::Continuation,
        };
        let first = First {
            opcode,
            piece,
            is_compressed: self.sending.is_none() && packed.is_some(),
        };
        self.sending = match piece {
            MessagePart::Last => None,
            MessagePart::More => Some(packed.is_some()),
        };
        self.push(first, packed.as_deref().unwrap_or(data));
        Ok(())
    }

    /// Appends a Ping; of `payload` the first 125 bytes are sent.
    ///
    /// # Errors
    ///
    /// As for [`WebSocket::send`].
    pub fn ping(&mut self, payload: &[u8]) -> Result<(), Closed> {
        self.check_open()?;
        let length = payload.len().min(CONTROL_BYTES_MAX);
        self.push(Opcode::Ping, &payload[..length]);
        Ok(())
    }

    /// Appends a Close frame, the last one. A code that must not be sent, such as 1005, leaves the payload empty; a reason
    /// that does not fit is cut.
    ///
    /// # Errors
    ///
    /// As for [`WebSocket::send`].
    pub fn close(&mut self, code: u16, reason: &str) -> Result<(), Closed> {
        self.check_open()?;
        self.outbound = Outbound::Closed;
        self.pending_pong = None;
        if code == NO_STATUS || !close::is_sendable(code) {
            self.push(Opcode::Close, b"");
            return Ok(());
        }
        let reason = close::fitting(reason);
        let mut payload = [0; CONTROL_BYTES_MAX];
        payload[..2].copy_from_slice(&code.to_be_bytes());
        payload[2..2 + reason.len()].copy_from_slice(reason.as_bytes());
        self.push(Opcode::Close, &payload[..2 + reason.len()]);
        Ok(())
    }

    fn check_open(&self) -> Result<(), Closed> {
        match self.outbound {
            Outbound::Open => Ok(()),
            Outbound::Closed => Err(Closed),
        }
    }

    fn push(&mut self, first: impl Into<First>, payload: &[u8]) {
        let mask = self.role.next_mask();
        push_header(&mut self.out, first.into(), payload.len(), mask);
        let start = self.out.len();
        self.out.extend_from_slice(payload);
        if let Some(mask) = mask {
            frame::mask(&mut self.out[start..], mask, 0);
        }
    }

    /// The bytes to send.
    pub fn output(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// Removes the first `count` bytes of the output, which were sent.
    ///
    /// # Panics
    ///
    /// If the output has fewer.
    pub fn sent(&mut self, count: usize) {
        assert!(count <= self.out.len() - self.sent, "only output is sent");
        self.sent += count;
        if self.sent >= self.pong_end
            && let Some((bytes, length)) = self.pending_pong.take()
        {
            self.push(Opcode::Pong, &bytes[..length]);
            self.pong_end = self.out.len();
        }
        if self.sent == self.out.len() {
            self.out.clear();
            (self.sent, self.pong_end) = (0, 0);
            if self.out.capacity() > WEBSOCKET_IDLE_BYTES_MAX {
                self.out = Vec::new();
            }
        } else if self.sent > WEBSOCKET_IDLE_BYTES_MAX && self.sent > self.out.len() / 2 {
            self.out.drain(..self.sent);
            self.pong_end = self.pong_end.saturating_sub(self.sent);
            self.sent = 0;
        }
    }

    /// Whether [`WebSocket::send`] has use for a compressor.
    pub fn compresses(&self) -> bool {
        self.compression != Compression::Off
    }

    /// Whether nothing more can be sent: a Close frame was, or is in the output.
    pub fn is_closed_here(&self) -> bool {
        self.outbound == Outbound::Closed
    }

    /// Whether the connection can be ended: nothing more is received, and all was sent.
    pub fn is_done(&self) -> bool {
        matches!(self.inbound, Inbound::Ended) && self.output().is_empty()
    }
}
