//! `memory_limit`: what a server gives up before it uses too much memory.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sluice_net::sys::limits::raise_open_files;
use sluice_net::sys::process::Signal;
use sluice_wire::h2::PREFACE;

use crate::client::Client;
use crate::h2::peer::{
    DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW, SETTINGS, WINDOW_UPDATE, block, frame,
};
use crate::harness::{Server, eventually};
use crate::support::abilities::skipped;
use crate::upstream::Upstream;

fn sum(server: &Server, names: &[&str]) -> u64 {
    names.iter().map(|name| server.metric(name)).sum()
}

#[test]
fn above_the_limit_idle_connections_are_closed_and_others_are_refused() {
    let may_end = Arc::new(AtomicBool::new(false));
    let stop = may_end.clone();
    let slow = Upstream::start(move |mut wire| {
        while wire.head().is_some() {
            eventually("the end", || stop.load(Ordering::Relaxed), String::new);
            let _ = wire.try_send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        }
    });
    let site = format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\treverse_proxy /slow localhost:{}\n\trespond / ok\n}}\n",
        slow.port
    );
    let server = Server::start(&site);
    let mut idle: Vec<Client> = (0..20).map(|_| Client::connect(server.port)).collect();
    for client in &mut idle {
        assert_eq!(client.get("/").text(), "ok");
    }
    let mut busy = Client::connect(server.port);
    busy.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // The lowest limit: every running server uses more.
    server.write(&site.replacen("{\n", "{\n\tmemory_limit 16MiB\n", 1));
    server.signal(Signal::Hangup);
    for client in &mut idle {
        assert!(client.is_closed(), "it was idle");
    }
    let is_refused = || {
        let mut client = Client::connect(server.port);
        let _ = client.try_send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.try_response().is_err()
    };
    eventually("new connections to be refused", is_refused, || {
        server.metrics()
    });
    // A request that is served goes on, and the next one on its connection is refused.
    may_end.store(true, Ordering::Relaxed);
    assert_eq!(busy.response().text(), "hi");
    if busy
        .try_send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .is_ok()
        && let Ok(response) = busy.try_response()
    {
        assert_eq!(response.status, 503);
        assert_eq!(response.field("Retry-After"), Some("2"));
        assert_eq!(response.field("Connection"), Some("close"));
        assert!(server.metric("sluice_memory_requests_refused_total") >= 1);
    }
    assert_eq!(server.metric("sluice_memory_limit_bytes"), 16 << 20);
    assert_eq!(server.metric("sluice_memory_pressure"), 4);
    assert!(server.metric("sluice_memory_used_bytes") > 16 << 20);
    assert!(server.metric("sluice_memory_idle_closed_total") >= 20);
    assert!(server.metric("sluice_memory_connections_refused_total") >= 1);
    // Without the limit everything is as before.
    server.write(&site);
    server.signal(Signal::Hangup);
    eventually(
        "requests to be served again",
        || {
            let mut client = Client::connect(server.port);
            let sent = client.try_send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            sent.is_ok()
                && client
                    .try_response()
                    .is_ok_and(|response| response.status == 200)
        },
        || server.metrics(),
    );
}

/// Clients of each kind in turn, which never wait for the server.
struct Hostile {
    /// Those that take a byte now and then, or send one.
    slow: Vec<(Attack, TcpStream)>,
    /// Those that do nothing after their first request.
    idle: Vec<TcpStream>,
}

/// What a client does.
#[derive(Clone, Copy, PartialEq)]
enum Attack {
    /// Requests a large response, and reads it slowly.
    Download,
    /// Sends a large body to an upstream that does not read it.
    Upload,
    /// Sends the headers of a request slowly.
    Headers,
    /// Opens streams with large responses, and with bodies, on a connection with large windows.
    Streams,
}

const ATTACKS: [Attack; 4] = [
    Attack::Download,
    Attack::Upload,
    Attack::Headers,
    Attack::Streams,
];

/// Idle connections at the beginning.
const IDLE: usize = 1_000;

/// Streams of each HTTP/2 connection.
const STREAMS: u32 = 8;

impl Attack {
    /// The first bytes of a connection.
    fn first(self) -> Vec<u8> {
        match self {
            Attack::Download => b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            Attack::Upload => [
                b"POST /stuck HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n",
                &[b'x'; 128 * 1024][..],
            ]
            .concat(),
            Attack::Headers => b"GET /hello HTTP/1.1\r\nHost: localhost\r\nX-Slow: ".to_vec(),
            Attack::Streams => streams(),
        }
    }

    /// Goes on: sends or reads a little.
    fn go_on(self, stream: &mut TcpStream) {
        let _ = match self {
            Attack::Download => stream.read(&mut [0; 1024]),
            Attack::Upload => stream.write(&[b'x'; 64 * 1024]),
            Attack::Headers => stream.write(b"x"),
            // It reads a little, and grants a window for much more (RFC 9113, section 6.9).
            Attack::Streams => {
                let _ = stream.read(&mut [0; 1024]);
                stream.write(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes()))
            }
        };
    }
}

/// An HTTP/2 connection with streams of both kinds.
fn streams() -> Vec<u8> {
    let window = [
        &INITIAL_WINDOW.to_be_bytes()[..],
        &(1_u32 << 30).to_be_bytes(),
    ]
    .concat();
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &window));
    bytes.extend(frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()));
    for number in 0..STREAMS {
        let id = 2 * number + 1;
        let (method, path, flags) = match number % 2 {
            0 => ("GET", "/large", END_HEADERS | END_STREAM),
            _ => ("POST", "/stuck", END_HEADERS),
        };
        let fields = [
            (":method", method),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
        ];
        bytes.extend(frame(HEADERS, flags, id, &block(&fields)));
        if flags & END_STREAM == 0 {
            bytes.extend(frame(DATA, 0, id, &[b'x'; 4 * 1024]));
        }
    }
    bytes
}

impl Hostile {
    /// Connections that get a response, and then stay idle.
    fn idle(server: &Server) -> Hostile {
        let open = || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).ok()?;
            let request = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
            stream.write_all(request).ok()?;
            Some(stream)
        };
        Hostile {
            slow: Vec::new(),
            idle: (0..IDLE).filter_map(|_| open()).collect(),
        }
    }

    /// Adds some of each kind. The server may refuse them.
    fn add(&mut self, server: &Server, count: usize) {
        for number in 0..count {
            let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)) else {
                continue;
            };
            let attack = ATTACKS[number % ATTACKS.len()];
            let _ = stream.set_nonblocking(true);
            let _ = stream.write_all(&attack.first());
            self.slow.push((attack, stream));
        }
    }

    fn go_on(&mut self) {
        for (attack, stream) in &mut self.slow {
            attack.go_on(stream);
        }
    }
}

/// An upstream with large responses that reads no body.
fn large_and_stuck() -> Upstream {
    Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            if head[0].starts_with("POST") {
                // It ends with the test, or when the server closes the connection.
                std::thread::park();
            }
            let _ = wire.try_send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
            let piece = vec![b'x'; 1 << 20];
            for _ in 0..95 {
                if wire.try_send(&piece).is_err() {
                    return;
                }
            }
        }
    })
}

fn hostile_site(upstream: &Upstream) -> String {
    format!(
        "{{\n\tadmin localhost:{{admin}}\n\tservers {{\n\t\tprotocols h1 h2c\n\t}}\n}}\n\
         :{{port}} {{\n\thandle /hello {{\n\t\trespond hello\n\t}}\n\t\
         reverse_proxy localhost:{} {{\n\t\trequest_buffers 1MiB\n\t\tresponse_buffers 1MiB\n\t}}\n}}\n",
        upstream.port
    )
}

fn says_hello(server: &Server) -> bool {
    let mut client = Client::connect(server.port);
    let sent =
        client.try_send("GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    sent.is_ok()
        && client
            .try_response()
            .is_ok_and(|response| response.text() == "hello")
}

const MEASURES: [&str; 5] = [
    "sluice_memory_buffers_freed_total",
    "sluice_memory_bodies_held_total",
    "sluice_memory_idle_closed_total",
    "sluice_memory_connections_refused_total",
    "sluice_memory_requests_refused_total",
];

/// Hostile clients: many more than suffice for the server to defend itself.
const ROUNDS: usize = 40;
const EACH_ROUND: usize = 25;

/// Adds hostile clients, and checks that the memory of the server stays below `limit` KiB, and that it serves others meanwhile
/// and once they are gone.
fn withstand(server: &mut Server, limit: u64, used: impl Fn(&Server) -> u64) {
    // Clients and upstreams are descriptors of this process.
    raise_open_files().expect("it can be raised");
    let mut hostile = Hostile::idle(server);
    let mut most = 0;
    let (mut served, mut asked) = (0, 0);
    for _ in 0..ROUNDS {
        hostile.add(server, EACH_ROUND);
        hostile.go_on();
        most = most.max(used(server));
        asked += 1;
        served += usize::from(says_hello(server));
    }
    // Whether it suffices to let bodies wait depends on which clients come first.
    assert!(
        sum(server, &MEASURES[1..]) > 0,
        "nothing was done: {most} of {limit} KiB, {}",
        server.metrics()
    );
    for _ in 0..20 {
        hostile.go_on();
        most = most.max(used(server));
    }
    let [slow, idle] = [hostile.slow.len(), hostile.idle.len()];
    println!(
        "{most} KiB at most, of {limit} KiB, with {slow} hostile and {idle} idle clients; {served} of {asked} others served"
    );
    for name in MEASURES {
        println!("{name} {}", server.metric(name));
    }
    assert!(served > 0, "nobody else was served");
    assert!(!server.has_ended(), "it was killed: {}", server.stderr());
    assert!(most < limit, "{most} KiB of {limit}: {}", server.metrics());
    drop(hostile);
    eventually(
        "others to be served",
        || says_hello(server),
        || server.metrics(),
    );
}

#[test]
fn hostile_clients_do_not_make_the_process_exceed_its_limit() {
    let upstream = large_and_stuck();
    let site = hostile_site(&upstream);
    let mut server = Server::start(&site);
    assert!(says_hello(&server));
    let limit = server.status("VmRSS") / 1024 + 128;
    server.write(&site.replacen("{\n", &format!("{{\n\tmemory_limit {limit}MiB\n"), 1));
    server.signal(Signal::Hangup);
    eventually(
        "the limit",
        || server.metrics().contains("sluice_memory_limit_bytes"),
        || server.stderr(),
    );
    assert!(says_hello(&server));
    withstand(&mut server, limit * 1024, |server| server.status("VmRSS"));
}

/// A control group of the first version that limits memory. It is removed with its last process.
struct ControlGroup(PathBuf);

impl ControlGroup {
    fn new(bytes: u64) -> Option<ControlGroup> {
        let lines = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = lines.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            let path = parts.next()?;
            (controllers.split(',').any(|name| name == "memory")).then(|| path.to_owned())
        })?;
        let root = Path::new("/sys/fs/cgroup/memory").join(own.trim_start_matches('/'));
        let folder = root.join(format!("sluice-test-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        let group = ControlGroup(folder);
        group.write("memory.limit_in_bytes", bytes).ok()?;
        Some(group)
    }

    fn write(&self, name: &str, value: u64) -> std::io::Result<()> {
        std::fs::write(self.0.join(name), value.to_string())
    }

    fn used_kib(&self) -> u64 {
        let text = std::fs::read_to_string(self.0.join("memory.usage_in_bytes"));
        let bytes = text.ok().and_then(|text| text.trim().parse::<u64>().ok());
        bytes.unwrap_or_default() / 1024
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn in_a_control_group_the_process_is_not_killed() {
    const LIMIT: u64 = 256 << 20;
    let Some(group) = ControlGroup::new(LIMIT) else {
        return skipped("a control group with a memory limit cannot be made");
    };
    let upstream = large_and_stuck();
    let site = hostile_site(&upstream);
    let mut server = Server::start(&site);
    if group
        .write("cgroup.procs", u64::from(server.pid()))
        .is_err()
    {
        return skipped("a process cannot be moved to a control group");
    }
    server.write(&site.replacen("{\n", "{\n\tmemory_limit 4GiB\n", 1));
    server.signal(Signal::Hangup);
    eventually(
        "the limit",
        || server.metrics().contains("sluice_memory_limit_bytes"),
        || server.stderr(),
    );
    withstand(&mut server, LIMIT / 1024, |_| group.used_kib());
}
