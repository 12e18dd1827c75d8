//! `worker_shutdown_timeout`: tunnels and requests over HTTP/2 end when their time is over, after a reload and when the
//! server quits, as do plain requests (`tests/e2e/reload.rs`).

use std::io::Read;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use sluice_net::sys::process::Signal;

use super::setup;
use crate::client::{Client, ask};
use crate::h2::peer::{END_HEADERS, END_STREAM, HEADERS, Peer};
use crate::harness::{Server, Setup, eventually};
use crate::upstream::Upstream;

/// The time that requests have. What they wait for never comes.
const TIMEOUT: Duration = Duration::from_millis(300);

/// How long an upstream waits for its connection to end, which a fault alone exceeds.
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(20);

/// An upstream that switches protocols where it is asked to, else begins a response without an end; and reports when its
/// connection has ended.
fn endless() -> (Upstream, Receiver<()>) {
    let (sender, ended) = channel();
    let sender = Mutex::new(sender);
    let upstream = Upstream::start(move |mut wire| {
        let Some(head) = wire.head() else { return };
        let is_upgrade = head.iter().any(|line| line.starts_with("Upgrade:"));
        wire.send(match is_upgrade {
            true => "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello",
            false => "HTTP/1.1 200 OK\r\n\r\nhello",
        });
        let mut rest = Vec::new();
        let _ = wire.reader.read_to_end(&mut rest);
        let _ = sender.lock().expect("no panic").send(());
    });
    (upstream, ended)
}

fn conf(upstream: &Upstream, port: &str, text: &str) -> String {
    format!(
        "worker_processes 1;\nworker_shutdown_timeout {}ms;\nevents {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{port};\nhttp2 on;\n\
         location = / {{ return 200 {text}; }}\n\
         location / {{ proxy_buffering off; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;\n\
         proxy_set_header Connection $http_connection; proxy_pass http://127.0.0.1:{}; }}\n}}\n}}\n",
        TIMEOUT.as_millis(),
        upstream.port
    )
}

/// A tunnel over HTTP/1.1, and a request over HTTP/2, both under way.
struct Clients {
    tunnel: Client,
    http2: Peer,
    stream: u32,
}

impl Clients {
    fn begin(server: &Server) -> Clients {
        let mut tunnel = Client::connect(server.port);
        tunnel.send(
            "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        );
        assert_eq!(tunnel.response().status, 101);
        let mut http2 = Peer::connect(server.port);
        let stream = http2.get("/stream");
        let head = http2.frame_of(HEADERS).expect("a response begins");
        assert_eq!((head.id, head.flags & END_HEADERS), (stream, END_HEADERS));
        Clients {
            tunnel,
            http2,
            stream,
        }
    }

    /// Reads until both connections end, as those to the upstream do.
    fn end(mut self, ended: &Receiver<()>) {
        while self.tunnel.byte().is_ok() {}
        while let Some(frame) = self.http2.frame() {
            let is_end = frame.id == self.stream && frame.flags & END_STREAM != 0;
            assert!(!is_end, "a response without an end looks complete");
        }
        for _ in 0..2 {
            ended
                .recv_timeout(UPSTREAM_TIMEOUT)
                .expect("the connection to the upstream ends");
        }
    }
}

#[test]
fn tunnels_and_streams_of_a_replaced_configuration_end_in_time() {
    let (upstream, ended) = endless();
    let server = setup(&conf(&upstream, "{port}", "old")).start();
    let clients = Clients::begin(&server);
    let began = Instant::now();
    let text = conf(&upstream, &server.port.to_string(), "new");
    server.folder.write("nginx.conf", text);
    server.signal(Signal::Hangup);
    eventually(
        "the new configuration",
        || ask(server.port, "/").text() == "new",
        || server.stderr(),
    );
    clients.end(&ended);
    assert!(began.elapsed() >= TIMEOUT, "{:?}", began.elapsed());
    assert_eq!(ask(server.port, "/").text(), "new");
}

/// As nginx does with SIGQUIT, and `sluice run` with SIGTERM.
#[test]
fn tunnels_and_streams_end_in_time_when_the_server_quits() {
    let as_nginx = ["nginx", "-c", "{folder}/nginx.conf", "-g", "daemon off;"];
    for (args, signal) in [
        (&as_nginx[..], Signal::Quit),
        (&["--config", "nginx.conf"], Signal::Terminate),
    ] {
        let (upstream, ended) = endless();
        let setup = Setup::bare().args(args);
        let text = setup.fill(&conf(&upstream, "{port}", "only"));
        setup.folder().write(
            "nginx.conf",
            format!(
                "error_log stderr;\npid {}/pid;\n{text}",
                setup.folder().path().display()
            ),
        );
        let mut server = setup.start();
        let clients = Clients::begin(&server);
        let began = Instant::now();
        server.signal(signal);
        clients.end(&ended);
        assert!(began.elapsed() >= TIMEOUT, "{:?}", began.elapsed());
        assert!(server.wait_for_end().success());
    }
}
