//! WebSockets as peers may use them, however their bytes are split, and two ends on one link.

use crate::feed_websocket::{LIMITS, check, line, receive};
use crate::support::Random;
use sluice_wire::websocket::{Event, Fault, Kind, Limits, WebSocket};

/// A frame of a client: the first byte, and the payload, masked.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x11, 0x80, 0xfe, 0x03];
    let mut bytes = vec![first];
    match payload.len() {
        short @ 0..=125 => bytes.push(0x80 | short as u8),
        long => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(long as u16).to_be_bytes());
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
    let mut server = WebSocket::server(LIMITS);
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
    let mut server = WebSocket::server(LIMITS);
    server.close(1001, "restart").unwrap();
    assert_eq!(server.output(), b"\x88\x09\x03\xe9restart");
    assert!(server.send(Kind::Text, b"x").is_err());
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
        let mut server = WebSocket::server(LIMITS);
        server.close(code, "unseen").unwrap();
        assert_eq!(server.output(), [0x88, 0]);
    }
    let mut server = WebSocket::server(LIMITS);
    server.close(1000, &"x".repeat(1000)).unwrap();
    assert_eq!(server.output().len(), 127);
}

#[test]
fn masked_frames_of_a_server_are_refused() {
    let mut client = WebSocket::client(LIMITS, 1);
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

/// One end on a link: what it sent, and what it received.
struct End {
    machine: WebSocket,
    sent: Vec<String>,
    got: Vec<String>,
}

impl End {
    /// Sends something at random.
    fn act(&mut self, random: &mut Random) {
        let length = [0, 1, 125, 126, 5000, 70_000][random.below(6)];
        let kind = [Kind::Text, Kind::Binary][random.below(2)];
        let data: Vec<u8> = (0..length).map(|index| b'a' + (index % 26) as u8).collect();
        if self.machine.send(kind, &data).is_ok() {
            self.sent.push(line(&Event::Message { kind, data: &data }));
        }
    }

    /// Moves some bytes of the output to the peer.
    fn flush_to(&mut self, peer: &mut End, random: &mut Random) {
        let count = random.below(self.machine.output().len() + 1).min(20_000);
        let bytes = self.machine.output()[..count].to_vec();
        self.machine.sent(count);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let received = peer.machine.receive(rest).expect("frames are valid");
            if let Some(event @ Event::Message { .. }) = &received.event {
                peer.got.push(line(event));
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
        let end = |machine| End {
            machine,
            sent: Vec::new(),
            got: Vec::new(),
        };
        let mut server = end(WebSocket::server(Limits::default()));
        let mut client = end(WebSocket::client(Limits::default(), random.next()));
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
