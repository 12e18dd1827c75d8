//! Compressed WebSocket messages (RFC 7692), as raw frames and with the client of Python's `websockets`.

use std::process::Command;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::start;
use super::ws_client::{BINARY, TEXT, WebSocket, frame};
use crate::h2::peer::{DATA, HEADERS, Peer};
use crate::support::python::Python;
use crate::wire::field;

const APP: &str = "module_asgi asgi:app";

/// What browsers send.
const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";

const ACCEPTED: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// The bit of a compressed message.
const RSV1: u8 = 0x40;

/// The payload of a compressed message (section 7.2.1).
fn packed(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 1000);
    Compress::new(Compression::best(), false)
        .compress_vec(message, &mut out, FlushCompress::Sync)
        .expect("there is room");
    assert!(out.ends_with(b"\0\0\xff\xff"));
    out.truncate(out.len() - 4);
    out
}

/// The message of a payload (section 7.2.2).
fn unpacked(payload: &[u8], most: usize) -> Vec<u8> {
    let whole = [payload, b"\0\0\xff\xff"].concat();
    let mut out = Vec::with_capacity(most);
    let mut inflater = Decompress::new(false);
    inflater
        .decompress_vec(&whole, &mut out, FlushDecompress::Sync)
        .expect("it is DEFLATE");
    assert_eq!(inflater.total_in(), whole.len() as u64, "all of it");
    out
}

/// The payload of a compressed binary message in fragments.
fn fragments(socket: &mut WebSocket) -> Vec<u8> {
    let (mut first, mut whole) = (RSV1 | BINARY, Vec::new());
    loop {
        let (byte, payload) = socket.next_frame().expect("a fragment");
        assert_eq!(byte & 0x7f, first);
        whole.extend(payload);
        first = 0;
        if byte & 0x80 != 0 {
            return whole;
        }
    }
}

#[test]
fn messages_are_compressed_if_the_client_offers_it() {
    let Some(server) = start(APP) else { return };
    let mut socket = WebSocket::open(server.port, "/ws", OFFER);
    let chosen = field(&socket.head, "Sec-WebSocket-Extensions");
    assert_eq!(chosen, Some(ACCEPTED));
    let text = "grüße ".repeat(1000);
    // Twice the same: nothing refers to the message before.
    for _ in 0..2 {
        socket.frame(0x80 | RSV1 | TEXT, &packed(text.as_bytes()));
        let (first, payload) = socket.next_frame().expect("the echo");
        assert_eq!(first, 0x80 | RSV1 | TEXT);
        assert!(payload.len() < 200, "{} bytes", payload.len());
        assert!(unpacked(&payload, 20_000) == text.as_bytes());
    }
    // In fragments, byte by byte, uncompressed, and short.
    let bytes = packed(text.as_bytes());
    let (start, end) = bytes.split_at(9);
    socket.frame(RSV1 | TEXT, start);
    for byte in frame(0x80, end) {
        socket.wire.send([byte]);
    }
    let (_, payload) = socket.next_frame().expect("the echo");
    assert!(unpacked(&payload, 20_000) == text.as_bytes());
    socket.say("short");
    assert_eq!(socket.hear(), "short");
    // One that is sent in pieces is one compressed message.
    socket.say("large 1000000");
    let whole = fragments(&mut socket);
    assert!(whole.len() < 20_000, "{} bytes", whole.len());
    assert!(unpacked(&whole, 1_100_000) == vec![b'y'; 1_000_000]);
}

#[test]
fn a_bomb_and_garbage_end_the_connection() {
    let Some(server) = start(&format!("{APP}\nmax_message_size 1MiB")) else {
        return;
    };
    let bomb = packed(&vec![0; 50_000_000]);
    assert!(bomb.len() < 60_000, "{} bytes", bomb.len());
    for (bytes, code) in [
        (frame(0x80 | RSV1 | BINARY, &bomb), 1009),
        (frame(0x80 | RSV1 | BINARY, b"\xff\xff\xff"), 1007),
        (frame(0x80 | RSV1 | TEXT, &packed(b"\xff")), 1007),
        (frame(0x80 | RSV1, b""), 1002),
        (frame(0x80 | 0x20 | TEXT, b"x"), 1002),
    ] {
        let mut socket = WebSocket::open(server.port, "/ws", OFFER);
        let _ = socket.wire.try_send(&bytes);
        assert_eq!(socket.closed().0, code);
    }
    let mut socket = WebSocket::open(server.port, "/ws", OFFER);
    socket.frame(0x80 | RSV1 | BINARY, &packed(&vec![0; 1 << 20]));
    let payload = fragments(&mut socket);
    assert!(
        unpacked(&payload, 1 << 21) == vec![0; 1 << 20],
        "up to the limit"
    );
}

#[test]
fn compression_can_be_switched_off() {
    let Some(server) = start(&format!("{APP}\npermessage_deflate off")) else {
        return;
    };
    let mut socket = WebSocket::open(server.port, "/ws", OFFER);
    assert_eq!(field(&socket.head, "Sec-WebSocket-Extensions"), None);
    socket.say("large 1000");
    assert_eq!(socket.next(), Some((BINARY, vec![b'y'; 1000])));
    socket.frame(0x80 | RSV1 | TEXT, &packed(b"text"));
    assert_eq!(socket.closed().0, 1002);
    // Without an offer there is none, either.
    let Some(server) = start(APP) else { return };
    let mut socket = WebSocket::open(server.port, "/ws", "");
    assert_eq!(field(&socket.head, "Sec-WebSocket-Extensions"), None);
    socket.say("large 1000");
    assert_eq!(socket.next(), Some((BINARY, vec![b'y'; 1000])));
}

#[test]
fn compression_over_http_2() {
    let Some(server) = start(APP) else { return };
    let mut peer = Peer::connect(server.port);
    let id = peer.begin_request(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/ws"),
        ("sec-websocket-version", "13"),
        (
            "sec-websocket-extensions",
            "permessage-deflate; server_max_window_bits=9",
        ),
    ]);
    let head = peer.frame_of(HEADERS).expect("a response");
    let fields = peer.decode(&head.payload);
    let chosen = fields
        .iter()
        .find(|(name, _)| name == "sec-websocket-extensions");
    let expected = format!("{ACCEPTED}; server_max_window_bits=9");
    assert_eq!(chosen.map(|(_, value)| value), Some(&expected));
    let text = [b'x'; 500];
    let bytes = frame(0x80 | RSV1 | TEXT, &packed(&text));
    peer.send(DATA, 0, id, &bytes);
    let said = peer.frame_of(DATA).expect("a message").payload;
    assert_eq!(said[0], 0x80 | RSV1 | TEXT);
    assert_eq!(unpacked(&said[2..], 1000), text);
}

/// Echoes messages of many sizes through the server, and shows what was negotiated.
const CLIENT: &str = r#"
import random, sys
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.sync.client import connect

port, url = sys.argv[1], "ws://127.0.0.1:%s/ws" % sys.argv[1]
chance = random.Random(7)
sizes = [0, 1, 100, 127, 128, 1000, 65535, 65536, 65537, 262144, 262145, 1000000]
for factory in (
    None,
    ClientPerMessageDeflateFactory(server_no_context_takeover=True, client_no_context_takeover=True),
    ClientPerMessageDeflateFactory(server_max_window_bits=9, client_max_window_bits=9),
):
    more = {"extensions": [factory], "compression": None} if factory else {"compression": "deflate"}
    with connect(url, max_size=None, **more) as socket:
        (extension,) = socket.protocol.extensions
        assert extension.remote_no_context_takeover and extension.local_no_context_takeover, extension
        for size in sizes:
            for message in (b"y" * size, "\u20acuro" * (size // 6), chance.randbytes(size)):
                socket.send(message)
                assert socket.recv() == message, size
                if size == 1000:
                    socket.send([message[:10], message[10:500], message[500:]])
                    assert socket.recv() == message
        socket.send("large 3000000")
        assert socket.recv() == b"y" * 3000000
        print(extension.remote_max_window_bits, extension.local_max_window_bits)
"#;

#[test]
fn the_websockets_client_with_compression() {
    let (Some(server), Some(python)) = (start(APP), Python::find()) else {
        return;
    };
    let output = Command::new(python.program("python"))
        .args(["-c", CLIENT, &server.port.to_string()])
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "15 15\n15 15\n9 9\n"
    );
}
