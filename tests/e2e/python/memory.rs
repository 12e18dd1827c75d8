//! Memory of the server and of the processes of an application while clients stall, send much or leave: it stays below
//! what the limits allow, with a margin for what the allocators keep.

use sluice_net::limits::{BODY_BUFFER_BYTES, BUFFERS_KEPT_MAX};
use sluice_python::limits::WINDOW_BYTES;
use sluice_wire::limits::{PYTHON_MESSAGE_OVERHEAD_BYTES, WEBSOCKET_PIECE_BYTES_MAX};

use super::ws_client::{BINARY, PING, WebSocket, frame};
use super::{metric, pid, start};
use crate::client::Client;
use crate::harness::{MEMORY_STEPS, Server, eventually};
use crate::wire::Wire;

/// The server has two threads, each with a pool of buffers.
const POOLS_KIB: u64 = 2 * (BUFFERS_KEPT_MAX * BODY_BUFFER_BYTES / 1024) as u64;

/// One direction of a request: what is on its way, and what the connection is sending.
const STREAM_KIB: u64 = (WINDOW_BYTES as usize + 2 * BODY_BUFFER_BYTES) as u64 / 1024;

/// Anonymous memory of the server and of the only process of its application, in KiB: pages of files may be counted or
/// not, and the start of a server takes more of them than what is measured here.
struct Meter<'s> {
    server: &'s Server,
    process: u32,
    before: [u64; 2],
    most: [u64; 2],
}

impl Meter<'_> {
    fn new(server: &Server) -> Meter<'_> {
        let mut meter = Meter {
            process: pid(server),
            server,
            before: [0; 2],
            most: [0; 2],
        };
        meter.look();
        meter.before = meter.most;
        meter
    }

    /// Looks at the memory that is in use now.
    fn look(&mut self) {
        let found = [self.server.pid(), self.process].map(anonymous);
        for (most, found) in self.most.iter_mut().zip(found) {
            *most = (*most).max(found);
        }
    }

    /// Fails if the server had more than `server` KiB more than before at a look, or the process more than `process` KiB.
    fn check(mut self, server: u64, process: u64) {
        self.look();
        for (at, (name, bound)) in [("server", server), ("process", process)]
            .iter()
            .enumerate()
        {
            let grown = self.most[at].saturating_sub(self.before[at]);
            println!("the {name} grew by {grown} KiB of {bound} KiB");
            assert!(
                grown <= *bound,
                "the {name} grew by {grown} KiB, not {bound} KiB"
            );
        }
    }
}

fn anonymous(pid: u32) -> u64 {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(path).expect("the process is there");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("a number")
}

#[test]
fn stalled_clients_of_an_endless_response_hold_a_window_each() {
    for app in [
        "module_asgi asgi:app",
        "module_wsgi wsgi:app\nruntime gevent\nresponse_buffers off",
    ] {
        let Some(server) = start(app) else { return };
        let meter = Meter::new(&server);
        let mut wires: Vec<Wire> = (0..50).map(|_| Wire::connect(server.port)).collect();
        for wire in &mut wires {
            wire.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(wire.take(100_000).len(), 100_000);
        }
        for _ in 0..20 {
            assert_eq!(server.ask("/pid").status, 200);
        }
        let bound = 50 * STREAM_KIB + POOLS_KIB + MEMORY_STEPS;
        meter.check(bound, bound);
    }
}

/// With temporary files a body has up to three buffers besides: one in memory, one being written, one that is filled.
#[test]
fn stalled_clients_of_buffered_responses_hold_three_buffers_more() {
    let Some(server) = start("module_wsgi wsgi:app\nthreads 8") else {
        return;
    };
    let meter = Meter::new(&server);
    let mut wires: Vec<Wire> = (0..30).map(|_| Wire::connect(server.port)).collect();
    for wire in &mut wires {
        wire.send("GET /large?30000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for wire in &mut wires {
        assert_eq!(wire.take(100_000).len(), 100_000);
    }
    for _ in 0..20 {
        assert_eq!(server.ask("/pid").status, 200);
    }
    let each = STREAM_KIB + 3 * BODY_BUFFER_BYTES as u64 / 1024;
    let bound = 2 * (30 * each + POOLS_KIB + MEMORY_STEPS);
    meter.check(bound, 64 * 1024);
}

/// Clients that take only the start of what an application sends: many messages, or one that is far larger than a window.
#[test]
fn stalled_websockets_hold_a_window_each() {
    stall("large 100000", 100, 100_000);
    stall("large 16000000", 1, 16_000_000);
}

/// Each of 200 WebSockets asks so often for a message of this size.
fn stall(message: &str, times: usize, size: usize) {
    const SOCKETS: u64 = 200;
    let Some(server) = start("module_asgi asgi:app") else {
        return;
    };
    let meter = Meter::new(&server);
    let mut sockets: Vec<WebSocket> = (0..SOCKETS)
        .map(|_| WebSocket::open(server.port, "/ws", ""))
        .collect();
    // 10 or 16 MB for each, and 2 or 3 GB for all.
    for socket in &mut sockets {
        for _ in 0..times {
            socket.say(message);
        }
    }
    for socket in &mut sockets {
        // A slow machine lets the server ask first whether the client is there.
        let mut next = || socket.next_frame().expect("a fragment");
        let first = std::iter::repeat_with(&mut next).find(|(first, _)| first & 0x0f != PING);
        let length = first.map(|(_, payload)| payload.len());
        let most = WINDOW_BYTES as usize - PYTHON_MESSAGE_OVERHEAD_BYTES;
        assert_eq!(length, Some(size.min(most)));
    }
    for _ in 0..20 {
        assert_eq!(server.ask("/pid").status, 200);
    }
    let held = metric(&server, "sluice_python_websocket_outbound_bytes");
    println!("{held} bytes are held");
    assert!(held > SOCKETS * 64 * 1024, "{held} bytes: nobody stalls");
    assert!(held <= SOCKETS * u64::from(WINDOW_BYTES), "{held} bytes");
    let bound = SOCKETS * STREAM_KIB + POOLS_KIB + MEMORY_STEPS;
    meter.check(bound, bound);
}

/// Clients that stall within a message: the process holds what has arrived, since the application receives whole messages.
#[test]
fn a_message_of_a_client_is_not_held_by_the_server() {
    const SOCKETS: u64 = 20;
    const LENGTH: u64 = 4_000_000;
    let Some(server) = start("module_asgi asgi:app") else {
        return;
    };
    let meter = Meter::new(&server);
    let mut sockets: Vec<WebSocket> = (0..SOCKETS)
        .map(|_| WebSocket::open(server.port, "/ws", ""))
        .collect();
    for socket in &mut sockets {
        // The first fragment of a message, and a part of the second one.
        socket.frame(BINARY, &vec![7; LENGTH as usize]);
        socket.wire.send(&frame(0, &[8; 1000])[..500]);
    }
    // What a piece lacks waits for the rest of it.
    let held = || metric(&server, "sluice_python_websocket_inbound_bytes");
    let least = SOCKETS * (LENGTH - WEBSOCKET_PIECE_BYTES_MAX as u64);
    eventually(
        "all of it has arrived",
        || held() >= least,
        || held().to_string(),
    );
    let bound = SOCKETS * STREAM_KIB + POOLS_KIB + MEMORY_STEPS;
    meter.check(bound, bound + SOCKETS * LENGTH * 5 / 4 / 1024);
    for socket in &mut sockets {
        socket.wire.send(&frame(0, &[8; 1000])[500..]);
        socket.frame(0x80, b"");
    }
    for socket in &mut sockets {
        let (_, payload) = socket.next().expect("the echo");
        assert_eq!(payload.len() as u64, LENGTH + 1000);
    }
    eventually("all was received", || held() == 0, || held().to_string());
}

/// At `max_message_memory` a connection waits, and after `queue_timeout` it is closed with 1013.
#[test]
fn what_processes_hold_of_messages_is_bounded() {
    let Some(server) = start(
        "module_asgi asgi:app\nmax_message_size 1MiB\nmax_message_memory 2MiB\nqueue_timeout 200ms",
    ) else {
        return;
    };
    let open = || WebSocket::open(server.port, "/deaf", "");
    let held = || metric(&server, "sluice_python_websocket_inbound_bytes");
    let mut deaf: Vec<WebSocket> = (0..2).map(|_| open()).collect();
    for (socket, sum) in deaf.iter_mut().zip([900_000, 1_800_000]) {
        socket.send(BINARY, &[1; 900_000]);
        eventually("it is held", || held() >= sum, || held().to_string());
    }
    let mut third = open();
    third.send(BINARY, &[2; 900_000]);
    assert_eq!(third.closed().0, 1013);
    assert_eq!(metric(&server, "sluice_python_websockets_shed_total"), 1);
    assert!(held() <= 2 * 1024 * 1024, "{}", held());
    // Others go on meanwhile, and there is room when one has left.
    let mut small = WebSocket::open(server.port, "/ws", "");
    small.say("small");
    assert_eq!(small.hear(), "small");
    drop((deaf, third));
    eventually("all is free", || held() == 0, || held().to_string());
    small.send(BINARY, &[3; 900_000]);
    assert_eq!(small.next().map(|(_, data)| data.len()), Some(900_000));
}

/// Sends so many bytes, and checks what memory that takes.
pub(super) fn upload(app: &str, length: u64) {
    let Some(server) = start(app) else { return };
    let mut meter = Meter::new(&server);
    let mut client = Client::connect(server.port);
    client.send(format!(
        "POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    ));
    let block = vec![b'x'; 1 << 20];
    for _ in 0..length / (1 << 20) {
        client.send(&block);
        meter.look();
    }
    let said = client.response().text();
    assert!(said.starts_with(&format!("{length} ")), "{said}");
    let bound = 2 * (STREAM_KIB + MEMORY_STEPS) + POOLS_KIB;
    meter.check(bound, 16 * 1024);
}

#[test]
fn uploads_take_a_window() {
    upload("module_wsgi wsgi:app", 128 << 20);
    upload("module_asgi asgi:app", 128 << 20);
}

/// A client that leaves in the middle of ten gigabytes: nothing of them stays.
#[test]
fn a_stream_of_ten_gigabytes_that_its_client_cuts() {
    for app in ["module_wsgi wsgi:app\nthreads 1", "module_asgi asgi:app"] {
        let Some(server) = start(app) else { return };
        let mut meter = Meter::new(&server);
        let mut wire = Wire::connect(server.port);
        wire.send("GET /large?10000000000 HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = wire.head().expect("a response");
        let length = crate::wire::field(&head, "Content-Length");
        assert_eq!(length, Some("10000000000"));
        for _ in 0..20 {
            assert_eq!(wire.take(10_000_000).len(), 10_000_000);
            meter.look();
        }
        drop(wire);
        // The application is not busy with it any more.
        let in_flight = || super::metric(&server, "sluice_python_in_flight_requests");
        eventually("it ends", || in_flight() == 0, || in_flight().to_string());
        let bound = 2 * (STREAM_KIB + MEMORY_STEPS) + POOLS_KIB;
        meter.check(bound, 16 * 1024);
    }
}
