//! The effect of attacks on others: while some connections flood, every request of a polite client gets a response, and
//! each attacking connection makes the server hold little memory. The polite client's latency is printed, not asserted:
//! that needs a quiet machine.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::peer::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW, PING, Peer, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, block, frame, request,
};
use super::serving::plain;
use crate::harness::{MEMORY_STEPS, Server, Setup};

/// Permitted memory growth for one attacking connection, in KiB.
const GROWTH_MAX: u64 = 1024;

/// Concurrent attacking connections.
const ATTACKERS: usize = 4;

/// How long the polite client measures the quiet server, and how long the attack lasts.
const CALM: Duration = Duration::from_millis(300);
const SIEGE: Duration = Duration::from_millis(1200);

/// The next bytes of an attacker; the number is its next stream ID.
type Flood = fn(&mut u32) -> Vec<u8>;

fn opened(id: &mut u32, flags: u8, path: &str) -> Vec<u8> {
    let fields = block(&request("GET", path));
    let bytes = frame(HEADERS, END_HEADERS | flags, *id, &fields);
    *id += 2;
    bytes
}

const FLOODS: [(&str, Flood); 9] = [
    ("rapid reset", |id| {
        let reset = frame(RST_STREAM, 0, *id, &[0, 0, 0, 8]);
        [opened(id, END_STREAM, "/"), reset].concat()
    }),
    ("made you reset", |id| {
        let window = frame(WINDOW_UPDATE, 0, *id, &[0; 4]);
        [opened(id, 0, "/"), window].concat()
    }),
    ("continuations", |id| {
        let piece = block(&[("x-y", &"z".repeat(1000))]);
        let kind = if *id == 1 { HEADERS } else { CONTINUATION };
        *id += 2;
        frame(kind, 0, 1, &piece)
    }),
    ("indexed fields", |id| {
        let mut bytes = block(&request("GET", "/"));
        if *id == 1 {
            // Literal with indexing: a cookie crumb of 3,000 bytes is added to the table.
            bytes.push(0x40);
            bytes.extend_from_slice(&block(&[("cookie", &"c".repeat(3000))])[1..]);
        } else {
            bytes.extend([0x80 | 62; 9]);
        }
        let bytes = frame(HEADERS, END_HEADERS | END_STREAM, *id, &bytes);
        *id += 2;
        bytes
    }),
    ("shut windows", |id| opened(id, END_STREAM, "/large.bin")),
    ("empty content", |id| match *id {
        1 => opened(id, 0, "/"),
        _ => frame(DATA, 0, 1, &[]).repeat(20),
    }),
    ("settings", |_| frame(SETTINGS, 0, 0, &[]).repeat(20)),
    ("pings", |_| frame(PING, 0, 0, &[7; 8]).repeat(20)),
    ("windows", |_| {
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(20)
    }),
];

/// An attacker's connection, which reads what arrives and waits for nothing.
fn attacker(port: u16) -> (Peer, TcpStream) {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("somebody listens");
    let timeout = Some(Duration::from_millis(200));
    stream
        .set_write_timeout(timeout)
        .expect("it can be limited");
    let reader = stream.try_clone().expect("a second handle");
    (Peer::begin(stream, &[(INITIAL_WINDOW, 0)]), reader)
}

/// Floods one connection after the other until `stop` is set; counts those that the server closed.
fn flood(port: u16, make: Flood, stop: &AtomicBool, closed: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        let (mut peer, mut reader) = attacker(port);
        let reads =
            thread::spawn(move || while matches!(reader.read(&mut [0; 16_384]), Ok(1..)) {});
        let mut id = 1;
        while !stop.load(Ordering::Relaxed) {
            let bytes: Vec<u8> = (0..32).flat_map(|_| make(&mut id)).collect();
            if peer.try_send(&bytes).is_err() {
                closed.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
        peer.close();
        let _ = reads.join();
    }
}

/// Sends requests repeatedly; returns the 99th percentile latency, and the peak memory.
fn polite(server: &Server, time: Duration) -> (Duration, u64, usize) {
    let mut peer = Peer::connect(server.port);
    let (begun, mut waited, mut held) = (Instant::now(), Vec::new(), 0);
    while begun.elapsed() < time {
        let asked = Instant::now();
        let response = peer.fetch("/");
        waited.push(asked.elapsed());
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
        if waited.len() % 16 == 1 {
            held = held.max(server.status("RssAnon"));
        }
    }
    waited.sort();
    (waited[waited.len() * 99 / 100], held, waited.len())
}

#[test]
fn a_polite_client_is_served_during_every_attack() {
    let setup = Setup::new(&plain(
        "",
        "handle /large.bin {\n\troot * {folder}/www\n\tfile_server\n}\nrespond hello",
    ));
    setup.folder().write("www/large.bin", vec![b'x'; 1 << 20]);
    let server = setup.start();
    // A server that has already served requests does not grow from first use.
    for _ in 0..8 {
        let mut peer = Peer::connect(server.port);
        let ids: Vec<u32> = (0..100).map(|_| peer.get("/large.bin")).collect();
        ids.into_iter()
            .for_each(|id| assert_eq!(peer.response(id).body.len(), 1 << 20));
    }
    // Memory released between two attacks may be needed again without anything being held.
    let mut most = 0;
    for (name, make) in FLOODS {
        let (calm, before, _) = polite(&server, CALM);
        most = most.max(before);
        let (stop, closed) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let attackers: Vec<_> = (0..ATTACKERS)
            .map(|_| {
                let (port, stop, closed) = (server.port, stop.clone(), closed.clone());
                thread::spawn(move || flood(port, make, &stop, &closed))
            })
            .collect();
        let (slow, held, served) = polite(&server, SIEGE);
        stop.store(true, Ordering::Relaxed);
        attackers.into_iter().for_each(|thread| {
            thread.join().expect("no panic");
        });
        let ratio = slow.as_secs_f64() / calm.as_secs_f64();
        let closed = closed.load(Ordering::Relaxed);
        println!(
            "{name}: {served} answered, p99 {calm:?} -> {slow:?} ({ratio:.1}), {closed} closed, {before} -> {held} KiB"
        );
        assert!(
            held <= most + ATTACKERS as u64 * GROWTH_MAX + MEMORY_STEPS,
            "{name}: from {most} to {held} KiB"
        );
    }
}

/// The most that one connection can make us hold at once: as many streams as allowed with heads as long as allowed in
/// total, a full window of unread bodies, and responses that are not read.
#[test]
fn a_connection_makes_us_hold_a_megabyte_at_most() {
    let setup = Setup::new(&plain("", "root * {folder}/www\nfile_server"));
    setup.folder().write("www/large.bin", vec![b'x'; 1 << 20]);
    let server = setup.start();
    // Each worker allocates memory with its first connections; memory free before the attack would hide what it takes.
    for _ in 0..8 {
        assert_eq!(Peer::connect(server.port).fetch("/large.bin").status, 200);
    }
    let before = server.status("RssAnon");
    let peers: Vec<Peer> = (0..16).map(|_| filled(server.port)).collect();
    // The server may still be reading what the sockets hold, and nothing announces that it has.
    thread::sleep(Duration::from_millis(300));
    let after = server.status("RssAnon");
    println!("{before} -> {after} KiB");
    assert!(
        after <= before + peers.len() as u64 * GROWTH_MAX + MEMORY_STEPS,
        "from {before} to {after} KiB"
    );
    assert_eq!(Peer::connect(server.port).fetch("/large.bin").status, 200);
}

/// A connection with 128 requests that hold as much as they can.
fn filled(port: u16) -> Peer {
    let mut peer = Peer::connect_with(port, &[(INITIAL_WINDOW, 0)]);
    let fill = "f".repeat(1300);
    let fields = [&request("GET", "/large.bin")[..], &[("x-fill", &fill)]].concat();
    let ids: Vec<u32> = (0..128).map(|_| peer.begin_request(&fields)).collect();
    for id in ids {
        peer.send(DATA, 0, id, &[b'x'; 1900]);
    }
    // All of them are being processed.
    for _ in 0..128 {
        assert!(peer.frame_of(HEADERS).is_some());
    }
    peer
}
