//! One end of an open WebSocket: bytes in, messages out, and the reverse.

use alloc::vec::Vec;

use super::close::{self, NO_STATUS};
use super::fault::Fault;
use super::frame::{
    self, CONTROL_BYTES_MAX, HEADER_BYTES_MAX, Header, Kind, Opcode, Role, push_header,
};
use super::text::Checked;
use crate::limits::{WEBSOCKET_IDLE_BYTES_MAX, WEBSOCKET_MESSAGE_BYTES_MAX};

/// Bounds of one WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A whole message, its fragments together. A larger one ends the connection with 1009.
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
    /// A whole message.
    Message {
        /// What it is.
        kind: Kind,
        /// Its bytes; UTF-8 if it is a text.
        data: &'a [u8],
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
#[derive(Clone, Copy, Debug)]
enum Message {
    None,
    Text(Checked),
    Binary,
    /// It was reported; its bytes are dropped with the next call.
    Reported,
}

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
    Message(Kind),
    Ping,
    Pong,
    Close,
}

/// One end of an open WebSocket. Memory: the message that arrives, as far as it is here, and the output. The caller stops
/// sending while [`WebSocket::output`] is longer than it likes; replies to the peer add at most two Pongs.
#[derive(Debug)]
pub struct WebSocket {
    role: Role,
    limits: Limits,
    inbound: Inbound,
    message: Message,
    /// The bytes of the message.
    bytes: Vec<u8>,
    /// The payload of the last control frame that was reported.
    control: ([u8; CONTROL_BYTES_MAX], usize),
    outbound: Outbound,
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
    pub fn server(limits: Limits) -> WebSocket {
        WebSocket::new(Role::Server, limits)
    }

    /// The client's end. `seed`, which must not be 0, chooses the masks.
    pub fn client(limits: Limits, seed: u64) -> WebSocket {
        WebSocket::new(Role::Client { masks: seed }, limits)
    }

    fn new(role: Role, limits: Limits) -> WebSocket {
        WebSocket {
            role,
            limits,
            inbound: AWAIT_HEADER,
            message: Message::None,
            bytes: Vec::new(),
            control: ([0; CONTROL_BYTES_MAX], 0),
            outbound: Outbound::Open,
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
                    self.message = Message::None;
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
            Found::Message(kind) => Event::Message {
                kind: *kind,
                data: &self.bytes,
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
            Inbound::Control { header, have, .. } => *have as u64 == header.length,
        }
    }

    fn forget_reported(&mut self) {
        if matches!(self.message, Message::Reported) {
            self.message = Message::None;
            self.bytes.clear();
            if self.bytes.capacity() > WEBSOCKET_IDLE_BYTES_MAX {
                self.bytes = Vec::new();
            }
        }
    }

    /// Takes the bytes of one state: how many, and what they complete.
    fn step(&mut self, rest: &[u8]) -> Result<(usize, Found), Fault> {
        match self.inbound {
            Inbound::Ended => Ok((rest.len(), Found::Nothing)),
            Inbound::Header { mut bytes, have } => {
                let count = rest.len().min(HEADER_BYTES_MAX - have);
                bytes[have..have + count].copy_from_slice(&rest[..count]);
                match frame::parse(&bytes[..have + count], self.role)? {
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
        let is_open = matches!(self.message, Message::Text(_) | Message::Binary);
        match (header.opcode, is_open) {
            (Opcode::Start(_), true) => return Err(Fault::Interleaved),
            (Opcode::Continuation, false) => return Err(Fault::Continuation),
            (Opcode::Start(Kind::Text), false) => self.message = Message::Text(Checked::default()),
            (Opcode::Start(Kind::Binary), false) => self.message = Message::Binary,
            (Opcode::Continuation, true)
            | (Opcode::Close | Opcode::Ping | Opcode::Pong, true | false) => {}
        }
        // Known before any of it is stored.
        let whole = header.length.saturating_add(self.bytes.len() as u64);
        if self.outbound == Outbound::Open && whole > self.limits.message_bytes_max as u64 {
            return Err(Fault::TooLarge);
        }
        self.inbound = Inbound::Data { header, at: 0 };
        Ok(())
    }

    fn take_data(&mut self, header: Header, at: u64, rest: &[u8]) -> Result<(usize, Found), Fault> {
        let count = (header.length - at).min(rest.len() as u64) as usize;
        // After our Close frame no one reads it.
        if self.outbound == Outbound::Open {
            let before = self.bytes.len();
            self.bytes.extend_from_slice(&rest[..count]);
            frame::mask(&mut self.bytes[before..], header.mask, (at % 4) as usize);
            if let Message::Text(checked) = &mut self.message {
                checked.extend(&self.bytes).map_err(|_| Fault::Text)?;
            }
        }
        let at = at + count as u64;
        if at < header.length {
            self.inbound = Inbound::Data { header, at };
            return Ok((count, Found::Nothing));
        }
        self.inbound = AWAIT_HEADER;
        if !header.is_last {
            return Ok((count, Found::Nothing));
        }
        let kind = match self.message {
            Message::Text(checked) => {
                if !checked.is_whole(&self.bytes) {
                    return Err(Fault::Text);
                }
                Kind::Text
            }
            Message::Binary | Message::None | Message::Reported => Kind::Binary,
        };
        self.message = Message::Reported;
        match self.outbound {
            Outbound::Open => Ok((count, Found::Message(kind))),
            Outbound::Closed => {
                self.forget_reported();
                Ok((count, Found::Nothing))
            }
        }
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

    /// Appends a message, in one frame. A text must be UTF-8.
    ///
    /// # Errors
    ///
    /// [`Closed`] after a Close frame, which a peer's Close frame and faults send as well.
    pub fn send(&mut self, kind: Kind, data: &[u8]) -> Result<(), Closed> {
        self.check_open()?;
        self.push(Opcode::Start(kind), data);
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

    fn push(&mut self, opcode: Opcode, payload: &[u8]) {
        let mask = self.role.next_mask();
        push_header(&mut self.out, opcode, payload.len(), mask);
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

    /// Whether nothing more can be sent: a Close frame was, or is in the output.
    pub fn is_closed_here(&self) -> bool {
        self.outbound == Outbound::Closed
    }

    /// Whether the connection can be ended: nothing more is received, and all was sent.
    pub fn is_done(&self) -> bool {
        matches!(self.inbound, Inbound::Ended) && self.output().is_empty()
    }
}
