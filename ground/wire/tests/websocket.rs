//! WebSockets as peers may use them, however their bytes are split, and two ends on one link.

use crate::feed_websocket::{self, DEFLATE, LIMITS, Outcome, check, line};
use crate::support::Random;
use sluice_wire::limits::WEBSOCKET_PIECE_BYTES_MAX;
use sluice_wire::websocket::{
    Compression, Deflater, Event, Fault, Kind, Limits, MessagePart, WebSocket,
};

/// A frame of a client: the first byte, and the payload, masked.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x11, 0x80, 0xfe, 0x03];
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

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;
/// The first fragment of a text; others have the opcode 0.
const TEXT_BEGINS: u8 = 0x01;

fn receive(bytes: &[u8], limits: Limits) -> Outcome {
    feed_websocket::receive(bytes, limits, Compression::Off)
}

fn server() -> WebSocket {
    WebSocket::server(LIMITS, Compression::Off)
}

fn events(frames: &[Vec<u8>]) -> Vec<String> {
    let outcome = receive(&frames.concat(), LIMITS);
    assert_eq!(outcome.fault, None);
    outcome.events
}

/// The fault that these frames are, the Close frame that the client gets, and that nothing was reported before.
fn fault(frames: &[Vec<u8>]) -> Fault {
    let outcome = receive(&frames.concat(), LIMITS);
    let fault = outcome.fault.expect("a fault");
    let code = fault.code().to_be_bytes();
    assert_eq!(outcome.output, [0x88, 2, code[0], code[1]], "{fault:?}");
    assert_eq!(outcome.events, Vec::<String>::new());
    assert!(outcome.is_done);
    fault
}

#[test]
fn messages_whole_and_in_fragments() {
    let found = events(&[
        frame(TEXT, "grüße".as_bytes()),
        frame(BINARY, b""),
        frame(TEXT_BEGINS, b"a\xc3"),
        frame(PING, b"in between"),
        frame(0x00, b""),
        frame(0x80, b"\xa4b"),
        frame(PONG, b"unasked"),
        frame(BINARY, &[7; 300]),
    ]);
    let long = format!("Binary {}", [7u8; 300].escape_ascii());
    let expected = [
        r"Text gr\xc3\xbc\xc3\x9fe",
        "Binary ",
        "ping",
        r"Text a\xc3\xa4b",
        "pong unasked",
        &long,
    ];
    assert_eq!(found, expected);
}

#[test]
fn frames_that_break_the_rules() {
    for rsv in [0x40, 0x20, 0x10] {
        assert_eq!(fault(&[frame(TEXT | rsv, b"x")]), Fault::ReservedBits);
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        assert_eq!(fault(&[frame(0x80 | opcode, b"")]), Fault::Opcode(opcode));
    }
    assert_eq!(fault(&[frame(0x09, b"")]), Fault::FragmentedControl);
    assert_eq!(fault(&[frame(PING, &[0; 126])]), Fault::LongControl);
    assert_eq!(fault(&[vec![TEXT, 1, b'x']]), Fault::Unmasked);
    assert_eq!(fault(&[frame(0x80, b"x")]), Fault::Continuation);
    let twice = [frame(TEXT_BEGINS, b"x"), frame(TEXT, b"y")];
    assert_eq!(fault(&twice), Fault::Interleaved);
    assert_eq!(fault(&[frame(CLOSE, b"\x03")]), Fault::CloseLength);
    let no_code = frame(CLOSE, b"\x03\xed");
    assert_eq!(fault(&[no_code]), Fault::CloseCode(1005));
    assert_eq!(fault(&[frame(CLOSE, b"\x03\xe8\xc3")]), Fault::Text);
}

#[test]
fn texts_that_are_not_utf_8_are_refused_with_the_byte_that_shows_it() {
    assert_eq!(fault(&[frame(TEXT, b"a\xff")]), Fault::Text);
    // The character may end in the next fragment, but not with the message.
    let open = [frame(TEXT_BEGINS, b"\xc3"), frame(0x80, b"")];
    assert_eq!(fault(&open), Fault::Text);
    // A surrogate: the rest of the frame need not arrive.
    let surrogate = frame(TEXT, b"\xed\xa0\x80 and much more");
    assert_eq!(fault(&[surrogate[..8].to_vec()]), Fault::Text);
}

#[test]
fn large_messages_are_refused_before_they_arrive() {
    assert_eq!(
        fault(&[frame(BINARY, &[0; 301])[..8].to_vec()]),
        Fault::TooLarge
    );
    let grown = [
        frame(0x02, &[0; 200]),
        frame(0x00, &[0; 100]),
        frame(0x80, b"x"),
    ];
    assert_eq!(fault(&grown), Fault::TooLarge);
    let huge = [
        0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
    ];
    assert_eq!(fault(&[huge.to_vec()]), Fault::TooLarge);
}

#[test]
fn a_close_frame_is_the_last_and_is_echoed() {
    let frames = [
        frame(CLOSE, b"\x0f\xa0see you"),
        frame(TEXT, b"too late"),
        vec![0xff; 20],
    ];
    let outcome = receive(&frames.concat(), LIMITS);
    assert_eq!(outcome.events, ["close 4000 see you"]);
    assert_eq!(outcome.output, [0x88, 2, 0x0f, 0xa0]);
    assert!(outcome.is_done);
    let outcome = receive(&frame(CLOSE, b""), LIMITS);
    assert_eq!(outcome.events, ["close 1005 "]);
    assert_eq!(outcome.output, [0x88, 0]);
}

#[test]
fn a_client_that_reads_nothing_gets_the_pong_to_its_last_ping() {
    let mut server = server();
    for number in 0..1000u16 {
        let bytes = frame(PING, &number.to_be_bytes());
        let received = server.receive(&bytes).unwrap();
        assert_eq!(received.event, Some(Event::Ping));
    }
    assert_eq!(server.output(), [0x8a, 2, 0, 0], "the first");
    server.sent(4);
    assert_eq!(server.output(), [0x8a, 2, 3, 231], "the last");
    server.sent(4);
    assert!(server.output().is_empty());
}

#[test]
fn what_arrives_after_our_close_frame_is_dropped_until_that_of_the_peer() {
    let mut server = server();
    server.close(1001, "restart").unwrap();
    assert_eq!(server.output(), b"\x88\x09\x03\xe9restart");
    assert!(
        server
            .send(Kind::Text, b"x", MessagePart::Last, None)
            .is_err()
    );
    assert!(server.ping(b"").is_err());
    let bytes = [
        // Too large for a message, and not UTF-8: neither matters any more.
        frame(TEXT, &[0xff; 400]),
        frame(PING, b"?"),
        frame(CLOSE, b"\x03\xe9"),
    ]
    .concat();
    let (mut rest, mut found) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let received = server.receive(rest).unwrap();
        found.extend(received.event.as_ref().map(line));
        rest = &rest[received.consumed..];
    }
    assert_eq!(found, ["ping", "close 1001 "]);
    assert!(!server.is_done(), "its own frame is unsent");
    server.sent(11);
    assert!(server.is_done());
}

#[test]
fn codes_that_must_not_be_sent_are_left_out() {
    for code in [1005, 1006, 1015, 999, 0] {
        let mut server = server();
        server.close(code, "unseen").unwrap();
        assert_eq!(server.output(), [0x88, 0]);
    }
    let mut server = server();
    server.close(1000, &"x".repeat(1000)).unwrap();
    assert_eq!(server.output().len(), 127);
}

#[test]
fn masked_frames_of_a_server_are_refused() {
    let mut client = WebSocket::client(LIMITS, Compression::Off, 1);
    assert_eq!(
        client.receive(&frame(TEXT, b"x")).err(),
        Some(Fault::Masked)
    );
}

#[test]
fn whatever_a_client_sends_is_taken_alike_in_any_pieces() {
    let seed = 0xba5e_ba11_u64;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for _ in 0..500 {
        let mut bytes = Vec::new();
        while random.below(5) > 0 {
            let first = (random.next() as u8) & [0xff, 0x8f, 0x8b][random.below(3)];
            let length = [0, 1, 5, 125, 126, 200][random.below(6)];
            let payload: Vec<u8> = (0..length)
                .map(|_| random.next() as u8 & [0xff, 0x7f][random.below(2)])
                .collect();
            bytes.extend(frame(first, &payload));
        }
        check(&bytes);
    }
}

/// What a server makes of frames when it takes long messages and decompresses them.
fn decompressed(frames: &[Vec<u8>]) -> Outcome {
    let limits = Limits {
        message_bytes_max: 200_000,
    };
    feed_websocket::receive(&frames.concat(), limits, DEFLATE)
}

/// The first byte of a compressed text.
const PACKED_TEXT: u8 = TEXT | 0x40;

#[test]
fn long_messages_are_reported_in_pieces_that_end_between_characters() {
    // 150,000 bytes, in which each limit of a piece is within a character.
    let text = "€".repeat(50_000);
    let (first, second) = text.as_bytes().split_at(100_000);
    let outcome = decompressed(&[frame(TEXT_BEGINS, first), frame(0x80, second)]);
    assert_eq!(outcome.fault, None);
    let whole = WEBSOCKET_PIECE_BYTES_MAX / 3;
    let rest = 50_000 - 2 * whole;
    let shown = |count: usize| "€".repeat(count).as_bytes().escape_ascii().to_string();
    let expected = [
        format!("part of Text {}", shown(whole)),
        format!("part of Text {}", shown(whole)),
        format!("Text {}", shown(rest)),
    ];
    assert!(
        outcome.events == expected,
        "{} events",
        outcome.events.len()
    );
}

#[test]
fn compressed_messages() {
    // The examples of RFC 7692, section 7.2.3: whole, in fragments, without compression, with a last block.
    let outcome = decompressed(&[
        frame(PACKED_TEXT, b"\xf2\x48\xcd\xc9\xc9\x07\x00"),
        frame(0x41, b"\xf2\x48\xcd"),
        frame(PING, b""),
        frame(0x80, b"\xc9\xc9\x07\x00"),
        frame(PACKED_TEXT, b"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00"),
        frame(PACKED_TEXT, b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00"),
        frame(PACKED_TEXT, b"\x00"),
        frame(TEXT, b"plain"),
    ]);
    assert_eq!(outcome.fault, None);
    let hello = "Text Hello";
    let expected = [hello, "ping", hello, hello, hello, "Text ", "Text plain"];
    assert_eq!(outcome.events, expected);
}

#[test]
fn compressed_frames_that_break_the_rules() {
    let fault = |frames: &[Vec<u8>]| decompressed(frames).fault;
    let hello = b"\xf2\x48\xcd\xc9\xc9\x07\x00";
    for first in [0xc0, PING | 0x40, CLOSE | 0x40, TEXT | 0x60, TEXT | 0x20] {
        assert_eq!(fault(&[frame(first, b"")]), Some(Fault::ReservedBits));
    }
    let continued = [frame(0x41, &hello[..3]), frame(0xc0, &hello[3..])];
    assert_eq!(fault(&continued), Some(Fault::ReservedBits));
    assert_eq!(
        fault(&[frame(PACKED_TEXT, b"\xff\xff")]),
        Some(Fault::Deflate)
    );
    // "\xff", stored.
    let not_text = frame(PACKED_TEXT, b"\x00\x01\x00\xfe\xff\xff\x00");
    assert_eq!(fault(&[not_text]), Some(Fault::Text));
}

/// A compressed message of so many zeros, as the payload of a frame.
fn bomb(length: usize) -> Vec<u8> {
    let limits = Limits::default();
    let mut sender = WebSocket::server(limits, DEFLATE);
    let (zeros, mut deflater) = (vec![0; length], Deflater::new());
    sender
        .send(Kind::Binary, &zeros, MessagePart::Last, Some(&mut deflater))
        .expect("nothing was closed");
    let header = match sender.output()[1] {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    assert_eq!(sender.output()[0], BINARY | 0x40);
    sender.output()[header..].to_vec()
}

#[test]
fn a_compressed_message_is_bounded_while_it_is_decompressed() {
    let whole = decompressed(&[frame(BINARY | 0x40, &bomb(200_000))]);
    assert_eq!(whole.fault, None);
    let more = decompressed(&[frame(BINARY | 0x40, &bomb(200_001))]);
    assert_eq!(more.fault, Some(Fault::TooLarge));
    let huge = bomb(50_000_000);
    assert!(huge.len() < 200_000, "{} bytes", huge.len());
    let mut server = WebSocket::server(LIMITS, DEFLATE);
    let bytes = frame(BINARY | 0x40, &huge);
    assert_eq!(server.receive(&bytes), Err(Fault::TooLarge));
}

#[test]
fn messages_are_compressed_only_where_that_helps() {
    let mut server = WebSocket::server(LIMITS, DEFLATE);
    let mut deflater = Deflater::new();
    let mut first = |data: &[u8], deflater: Option<&mut Deflater>| {
        server
            .send(Kind::Binary, data, MessagePart::Last, deflater)
            .unwrap();
        let first = server.output()[0];
        server.sent(server.output().len());
        first
    };
    assert_eq!(first(&[7; 500], Some(&mut deflater)), BINARY | 0x40);
    assert_eq!(first(&[7; 500], None), BINARY, "switched off");
    assert_eq!(first(&[7; 100], Some(&mut deflater)), BINARY, "too short");
    let mut random = Random(3);
    let noise: Vec<u8> = (0..500).map(|_| random.next() as u8).collect();
    assert_eq!(first(&noise, Some(&mut deflater)), BINARY, "it would grow");
}

/// One end on a link: what it sent, and what it received.
struct End {
    machine: WebSocket,
    deflater: Option<Deflater>,
    sent: Vec<String>,
    got: Vec<String>,
    /// The message whose pieces arrive.
    partial: Vec<u8>,
}

impl End {
    /// Sends something at random.
    fn act(&mut self, random: &mut Random) {
        let length = [0, 1, 125, 126, 5000, 70_000][random.below(6)];
        let kind = [Kind::Text, Kind::Binary][random.below(2)];
        let data: Vec<u8> = (0..length).map(|index| b'a' + (index % 26) as u8).collect();
        let mut rest = &data[..];
        loop {
            let count = match random.below(2) {
                0 => rest.len(),
                _ => random.below(rest.len() + 1),
            };
            let (now, later) = rest.split_at(count);
            let piece = MessagePart::last_if(later.is_empty());
            let deflater = self.deflater.as_mut();
            if self.machine.send(kind, now, piece, deflater).is_err() {
                return;
            }
            rest = later;
            if piece.is_last() {
                break;
            }
        }
        self.sent.push(line(&Event::Message {
            kind,
            data: &data,
            piece: MessagePart::Last,
        }));
    }

    /// Moves some bytes of the output to the peer.
    fn flush_to(&mut self, peer: &mut End, random: &mut Random) {
        let count = random.below(self.machine.output().len() + 1).min(20_000);
        let bytes = self.machine.output()[..count].to_vec();
        self.machine.sent(count);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let received = peer.machine.receive(rest).expect("frames are valid");
            if let Some(Event::Message { kind, data, piece }) = received.event {
                peer.partial.extend_from_slice(data);
                if piece.is_last() {
                    let data = &std::mem::take(&mut peer.partial)[..];
                    peer.got.push(line(&Event::Message { kind, data, piece }));
                }
            }
            rest = &rest[received.consumed..];
        }
    }
}

#[test]
fn two_ends_on_a_link() {
    let seed = 0x5eed_0016;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for round in 0..20 {
        let compression = match round % 3 {
            0 => Compression::Off,
            1 => DEFLATE,
            _ => Compression::Deflate { window_bits: 9 },
        };
        let end = |machine| End {
            machine,
            deflater: Some(Deflater::new()),
            sent: Vec::new(),
            got: Vec::new(),
            partial: Vec::new(),
        };
        let limits = Limits::default();
        let mut server = end(WebSocket::server(limits, compression));
        let mut client = end(WebSocket::client(limits, compression, random.next()));
        for _ in 0..30 {
            match random.below(6) {
                0 => server.act(&mut random),
                1 => client.act(&mut random),
                2 => server.machine.ping(b"here?").unwrap(),
                _ => {}
            }
            server.flush_to(&mut client, &mut random);
            client.flush_to(&mut server, &mut random);
        }
        client.machine.close(1000, "done").unwrap();
        while !(server.machine.is_done() && client.machine.is_done()) {
            server.flush_to(&mut client, &mut random);
            client.flush_to(&mut server, &mut random);
        }
        assert_eq!(server.got, client.sent, "round {round}");
        // What the server sent before it saw the Close frame may be dropped by the client, but nothing else.
        assert_eq!(client.got, server.sent[..client.got.len()], "round {round}");
    }
}
