//! Attacks on the transport of QUIC by clients whose packets lie: acknowledgements of what was never received, handshake data
//! without end, and addresses that change all the time.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quinn_proto::{Dir, TransportConfig};
use sluice_wire::sections::End;

use super::forging::{Forger, Sealing, ack, crypto};
use super::peer::{Identity, Peer, data, head, request};
use super::serving::{pattern, site};
use crate::harness::{MEMORY_STEPS, Server, Setup, eventually};

/// Permitted memory growth for one attacking connection, in KiB.
const GROWTH_MAX: u64 = 4 * 1024;

// RFC 9000, section 20.1.
const INTERNAL_ERROR: u64 = 0x01;
const PROTOCOL_VIOLATION: u64 = 0x0a;
const CRYPTO_BUFFER_EXCEEDED: u64 = 0x0d;
/// Addresses that a connection may come from in a short time, with some slack for the time that the test takes.
const MOVES_MAX: usize = 24;
/// CRYPTO_ERROR with the TLS alert unexpected_message.
const UNEXPECTED_MESSAGE: u64 = 0x10a;

/// A server with a large file, which has served others before.
fn start() -> Server {
    let setup = Setup::new(&site("", "root {folder}\nrespond /word hello\nfile_server"));
    setup.folder().write("large", pattern(4_000_000));
    let server = setup.start();
    assert_served(&server);
    server
}

fn assert_served(server: &Server) {
    let mut peer = Peer::connect(server.port);
    for _ in 0..50 {
        assert_eq!(peer.fetch("/word").text(), "hello");
    }
}

/// A connection whose packets are forged once its handshake is over.
fn connected(server: &Server) -> (Peer, Forger) {
    let forger = Forger::default();
    let mut peer = Peer::begin(&Identity::new().forged(&forger), server.port, "localhost");
    peer.drive("the handshake", |peer| peer.is_connected);
    assert_eq!(peer.fetch("/word").text(), "hello");
    (peer, forger)
}

/// Others are served after an attack that cost at most so much.
fn assert_unharmed(server: &Server, before: u64) {
    let after = server.status("RssAnon");
    assert!(
        after <= before + GROWTH_MAX + MEMORY_STEPS,
        "from {before} to {after} KiB"
    );
    assert_served(server);
}

/// RFC 9000, section 13.1: such an endpoint lies, or is attacked by another one.
#[test]
fn acknowledging_packets_that_were_never_sent_ends_the_connection() {
    let server = start();
    let before = server.status("RssAnon");
    for ahead in [1_000, 1 << 20] {
        let (mut peer, forger) = connected(&server);
        forger.begin(move |sealing: Sealing, _: &[u8]| {
            let unsent = sealing.received + ahead;
            sealing.is_data.then(|| ack(unsent, unsent))
        });
        peer.get("/word");
        assert_eq!(peer.closed(), PROTOCOL_VIOLATION, "{ahead} ahead");
    }
    assert_unharmed(&server, before);
}

/// RFC 9000, section 21.4: who acknowledges everything would be sent more than the network can take. The server leaves out
/// numbers, and who acknowledges one of them has not looked.
#[test]
fn acknowledging_what_was_not_received_ends_the_connection() {
    let server = start();
    let before = server.status("RssAnon");
    let (mut peer, forger) = connected(&server);
    forger.begin(|sealing: Sealing, frames: &[u8]| {
        // Packets without an ACK, such as those that open windows, remain.
        let acknowledges = matches!(frames.first(), Some(2 | 3));
        let all = || ack(0, sealing.received);
        (sealing.is_data && acknowledges).then(all)
    });
    // More than the 64 packets among which the first gap is.
    peer.get("/large");
    assert_eq!(peer.closed(), PROTOCOL_VIOLATION);
    assert_unharmed(&server, before);
}

#[test]
fn handshake_data_has_an_end() {
    let server = start();
    let before = server.status("RssAnon");
    // Far behind a gap.
    let (mut peer, forger) = connected(&server);
    forger.begin(|sealing: Sealing, frames: &[u8]| {
        let data = vec![1; frames.len().saturating_sub(9)];
        sealing.is_data.then(|| crypto(1 << 20, &data))
    });
    peer.get("/word");
    assert_eq!(peer.closed(), CRYPTO_BUFFER_EXCEEDED);
    // In small pieces with a gap before each, so that nothing can be read: as much as may be kept, and then the end.
    let (mut peer, forger) = connected(&server);
    let mut offset = 1;
    forger.begin(move |sealing: Sealing, frames: &[u8]| {
        let mut forged = Vec::new();
        while sealing.is_data && forged.len() + 10 <= frames.len() {
            forged.extend(crypto(offset, &[1]));
            offset += 2;
        }
        (!forged.is_empty()).then_some(forged)
    });
    // The server acknowledges packets whose content it never sees, so streams take what they may and no more.
    let post = head(&request("POST", "/word"));
    while peer.lost.is_none()
        && let Some(id) = peer.try_open(Dir::Bi, &post, End::Later)
    {
        let _ = peer.quic.send_stream(id).write(&data(&[0; 60_000]));
        peer.step();
    }
    // There are too many gaps before the limit of bytes is reached.
    let code = peer.closed();
    assert!(
        matches!(code, INTERNAL_ERROR | CRYPTO_BUFFER_EXCEEDED),
        "{code:x}"
    );
    // In order, after the handshake: TLS has nothing to say any more.
    let (mut peer, forger) = connected(&server);
    forger.begin(|sealing: Sealing, frames: &[u8]| {
        let is_room = frames.len() >= 13;
        // A ClientHello.
        (sealing.is_data && is_room).then(|| crypto(0, &[1, 0, 0, 0]))
    });
    peer.get("/word");
    let code = peer.closed();
    assert!(
        (0x100..0x200).contains(&code),
        "{code:x}, not such as {UNEXPECTED_MESSAGE:x}"
    );
    assert_unharmed(&server, before);
}

/// A ClientHello that never becomes whole is kept up to a limit.
#[test]
fn a_client_hello_without_end_costs_little() {
    let server = start();
    let before = server.status("RssAnon");
    // A long ClientHello, which needs several packets.
    let names: Vec<Vec<u8>> = (0..60u8).map(|at| vec![b'a' + at % 26; 200]).collect();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let forged = Arc::new(AtomicUsize::new(0));
    for _ in 0..50 {
        let forger = Forger::default();
        let count = forged.clone();
        let mut offset = 0;
        forger.begin(move |sealing: Sealing, frames: &[u8]| {
            if sealing.is_data || frames.len() < 1000 {
                return None;
            }
            // A handshake message of 16 MiB, piece by piece; the first bytes are its type and length.
            let mut data = vec![0; 1000 - 9];
            if offset == 0 {
                data[..4].copy_from_slice(&[1, 0xff, 0xff, 0xff]);
            }
            let forged = crypto(offset, &data);
            offset += data.len() as u64;
            count.fetch_add(1, Ordering::Relaxed);
            Some(forged)
        });
        let identity = Identity::offering(&names).forged(&forger);
        let transport = TransportConfig::default();
        Peer::begin_with(&identity, transport, server.port, "localhost").transmit();
    }
    let forged = forged.load(Ordering::Relaxed);
    assert!(forged >= 5 * 50, "{forged}");
    assert_unharmed(&server, before);
}

/// RFC 9000, sections 9.3.1 and 21.5: a new address gets little before it is validated, and a client that changes its address all
/// the time makes the server send to others.
#[test]
fn a_flood_of_addresses_ends_the_connection() {
    let server = start();
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/word").text(), "hello");
    let before = server.status("RssAnon");
    let files = server.open_files();
    let mut left: Vec<(UdpSocket, usize)> = Vec::new();
    for _ in 0..300 {
        let sent = peer.sent;
        left.push((peer.rebind(), sent));
        // Nothing that comes back is read, so no address is validated.
        peer.quic.ping();
        peer.transmit();
    }
    // The client may not hear of it: it has left the address that the server knew.
    let calmed = || server.metric("sluice_http3_connections_calmed_total");
    eventually("the end", || calmed() == 1, || server.metrics());
    // The first one was validated by the handshake. The others get what came from them three times, and a datagram or two in any
    // case: PATH_CHALLENGE is padded (section 8.2.1).
    let mut reached = 0;
    for (socket, sent) in left.iter().skip(1) {
        socket.set_nonblocking(true).expect("a socket");
        let (mut received, mut buf) = (0, [0; 2048]);
        while let Ok(bytes) = socket.recv(&mut buf) {
            received += bytes;
        }
        assert!(received <= 3 * sent + 2 * 1500, "{received} for {sent}");
        reached += usize::from(received > 0);
    }
    assert!(reached <= MOVES_MAX, "{reached}");
    let moved = server.metric("sluice_quic_migrations_total");
    assert!((1..=300).contains(&moved), "{moved}");
    assert!(server.open_files() <= files + 2);
    assert_unharmed(&server, before);
}
