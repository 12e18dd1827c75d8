//! Feeds the same bytes of a WebSocket to one end in one piece, split in two at many positions, and one by one. The tests
//! state the expected result.

#![allow(dead_code)]

use sluice_wire::websocket::{Compression, Event, Fault, Kind, Limits, MessagePart, WebSocket};

/// Small, so that a fuzzer reaches it.
pub const LIMITS: Limits = Limits {
    message_bytes_max: 300,
};

/// Compression as it is negotiated with browsers.
pub const DEFLATE: Compression = Compression::Deflate { window_bits: 15 };

/// What one end found in the bytes of its peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// One line for each event.
    pub events: Vec<String>,
    pub fault: Option<Fault>,
    /// What it wants to send.
    pub output: Vec<u8>,
    pub is_done: bool,
}

/// An event as a line.
pub fn line(event: &Event<'_>) -> String {
    match event {
        Event::Message { kind, data, piece } => {
            if *kind == Kind::Text {
                assert!(std::str::from_utf8(data).is_ok(), "a text is UTF-8");
            }
            let more = match piece {
                MessagePart::More => "part of ",
                MessagePart::Last => "",
            };
            format!("{more}{kind:?} {}", data.escape_ascii())
        }
        Event::Ping => "ping".to_owned(),
        Event::Pong(payload) => format!("pong {}", payload.escape_ascii()),
        Event::Close { code, reason } => format!("close {code} {reason}"),
    }
}

/// The outcome of bytes given in these pieces. Nothing is sent meanwhile.
pub fn receive_in(mut end: WebSocket, pieces: &[&[u8]]) -> Outcome {
    let mut outcome = Outcome::default();
    'all: for piece in pieces {
        let mut rest = *piece;
        loop {
            match end.receive(rest) {
                Ok(received) => {
                    let (consumed, event) = (received.consumed, received.event);
                    rest = &rest[consumed..];
                    let Some(event) = event else {
                        assert!(rest.is_empty(), "nothing is left for later");
                        break;
                    };
                    outcome.events.push(line(&event));
                }
                Err(fault) => {
                    outcome.fault = Some(fault);
                    break 'all;
                }
            }
        }
    }
    if outcome.fault.is_some() {
        assert!(end.is_closed_here(), "a fault closes");
        let after = end.receive(b"anything").expect("the rest is dropped");
        assert_eq!((after.consumed, after.event), (8, None));
    }
    outcome.output = end.output().to_vec();
    let length = outcome.output.len();
    end.sent(length);
    outcome.is_done = end.is_done();
    outcome
}

/// The outcome at a server for bytes given in one piece, after checking that every other way of cutting them has the same.
pub fn receive(bytes: &[u8], limits: Limits, compression: Compression) -> Outcome {
    let server = || WebSocket::server(limits, compression);
    let whole = receive_in(server(), &[bytes]);
    let one_by_one: Vec<&[u8]> = bytes.chunks(1).collect();
    let pieces = receive_in(server(), &one_by_one);
    assert_eq!(pieces, whole, "byte by byte");
    let stride = 1 + bytes.len() / 200;
    for cut in (0..=bytes.len()).step_by(stride) {
        let (first, second) = bytes.split_at(cut);
        let halves = receive_in(server(), &[first, second]);
        assert_eq!(halves, whole, "cut at {cut}");
    }
    whole
}

/// What the fuzzer asserts of any bytes from a client, and of what a server makes of them.
pub fn check(bytes: &[u8]) {
    check_with(bytes, Compression::Off);
    check_with(bytes, DEFLATE);
}

fn check_with(bytes: &[u8], compression: Compression) {
    let outcome = receive(bytes, LIMITS, compression);
    let output = outcome.output;
    // Two Pongs and a Close frame at most, whatever was asked.
    assert!(output.len() <= 3 * 127, "{} bytes of output", output.len());
    let back = receive_in(WebSocket::client(LIMITS, compression, 1), &[&output]);
    assert_eq!(back.fault, None, "a client understands {output:?}");
    let data: usize = outcome.events.iter().map(String::len).sum();
    // A compressed message of seven bytes or more may have the largest length.
    let most = match compression {
        Compression::Off => bytes.len(),
        Compression::Deflate { .. } => bytes.len() * (1 + LIMITS.message_bytes_max / 7),
    };
    assert!(data <= 4 * most + 32 * outcome.events.len());
}
