//! A WebSocket client for tests (RFC 6455). Separate from the server's code, so that a mistake there is not hidden by the
//! same mistake here.

use std::io::Read;

use crate::wire::{Wire, field};

/// Opcodes (section 5.2).
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

/// The key of section 1.3, and the value that confirms it.
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
pub const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// An open WebSocket.
pub struct WebSocket {
    pub wire: Wire,
    /// The lines of the handshake's response.
    pub head: Vec<String>,
}

/// The handshake for a path, with more header lines.
pub fn handshake(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{more}\r\n"
    )
}

impl WebSocket {
    /// Opens a WebSocket, which must succeed.
    pub fn open(port: u16, path: &str, more: &str) -> WebSocket {
        let mut wire = Wire::connect(port);
        wire.send(handshake(path, more));
        let head = wire.head().expect("a response");
        assert!(head[0].starts_with("HTTP/1.1 101 "), "{head:?}");
        assert_eq!(field(&head, "Sec-WebSocket-Accept"), Some(ACCEPT));
        let upgrade = field(&head, "Upgrade").unwrap_or_default();
        assert!(upgrade.eq_ignore_ascii_case("websocket"), "{head:?}");
        WebSocket { wire, head }
    }

    /// Sends one frame, masked; `first` is its first byte.
    pub fn frame(&mut self, first: u8, payload: &[u8]) {
        self.wire.send(frame(first, payload));
    }

    /// Sends a whole message.
    pub fn send(&mut self, opcode: u8, payload: &[u8]) {
        self.frame(0x80 | opcode, payload);
    }

    pub fn say(&mut self, text: &str) {
        self.send(TEXT, text.as_bytes());
    }

    /// The next message or control frame of the server: opcode and payload, that of all fragments together; `None` at the
    /// end of the connection.
    pub fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut whole: Option<(u8, Vec<u8>)> = None;
        loop {
            let (first, payload) = self.next_frame()?;
            assert_eq!(first & 0x70, 0, "no reserved bits");
            whole = Some(match (first & 0x0f, whole) {
                (0, Some((opcode, mut sum))) => {
                    sum.extend(payload);
                    (opcode, sum)
                }
                (0, None) => panic!("a continuation of nothing"),
                (opcode, None) => (opcode, payload),
                (opcode, Some(_)) => panic!("opcode {opcode} within a message"),
            });
            if first & 0x80 != 0 {
                return whole;
            }
        }
    }

    /// The next frame of the server as it comes: its first byte and its payload.
    pub fn next_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.wire.reader.read_exact(&mut head).ok()?;
        assert_eq!(head[1] & 0x80, 0, "servers do not mask");
        let more = match head[1] {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let length = match more {
            0 => u64::from(head[1]),
            more => self
                .wire
                .take(more)
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        Some((head[0], self.wire.take(length)))
    }

    /// The text of the next message.
    pub fn hear(&mut self) -> String {
        let (opcode, payload) = self.next().expect("a message");
        assert_eq!(opcode, TEXT, "{payload:?}");
        String::from_utf8(payload).expect("text is UTF-8")
    }

    /// The code and the reason of the Close frame that must be next.
    pub fn closed(&mut self) -> (u16, String) {
        let (opcode, payload) = self.next().expect("a Close frame");
        assert_eq!(opcode, CLOSE, "{payload:?}");
        match payload.as_slice() {
            [] => (1005, String::new()),
            [high, low, reason @ ..] => (
                u16::from_be_bytes([*high, *low]),
                String::from_utf8(reason.to_vec()).expect("reasons are UTF-8"),
            ),
            [_] => panic!("a Close frame of one byte"),
        }
    }
}

/// A masked frame.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let mut bytes = vec![first];
    match payload.len() {
        short @ 0..=125 => bytes.push(0x80 | short as u8),
        middle @ 126..=0xffff => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&mask);
    let masked = payload.iter().zip(mask.iter().cycle());
    bytes.extend(masked.map(|(byte, mask)| byte ^ mask));
    bytes
}
