//! Binary upgrades of `sluice run` and `start`: a new process takes over under load, and the old one goes on if that fails.
//! Those of `sluice nginx` are in `nginx::upgrade`.

mod failing;
pub mod running;
mod soak;
mod state;

use sluice_wire::sections::End;

use crate::h2::tunnels::websocket;
use crate::h3::peer::Peer;
use crate::h3::serving::pattern;
use crate::harness::{Setup, eventually};
use crate::nginx::prefix::is_alive;
use crate::proxy::WEBSOCKET_KEY;
use crate::support::wire::Wire;
use running::{Clients, Running};

/// An HTTPS site with HTTP/3 on `{port}`, and a plain one on `{plain}`.
const SITES: &str = "{\n\tadmin localhost:{admin}\n\thttp_port 0\n\thttps_port {port}\n\tskip_install_trust\n\
    \tauto_https disable_redirects\n}\nlocalhost, http://localhost:{plain} {\n\ttls internal\n\troot {folder}\n\
    \trespond /word hello\n\thandle /chat {\n\t\treverse_proxy 127.0.0.1:{upstream}\n\t}\n\tfile_server\n}\n";

#[test]
fn new_processes_take_over_without_a_lost_request() {
    outlive_upgrades(2, 12);
}

/// A slow download whose client has read its head, and a WebSocket over HTTP/1.1.
struct Long {
    download: Wire,
    chat: Wire,
}

impl Long {
    fn begin(port: u16) -> Long {
        let mut download = Wire::connect(port);
        download.send("GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let head = download.head().expect("a head");
        assert!(head[0].starts_with("HTTP/1.1 200 "), "{head:?}");
        let mut chat = Wire::connect(port);
        chat.send(format!(
            "GET /chat HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {WEBSOCKET_KEY}\r\n\r\n"
        ));
        let head = chat.head().expect("a head");
        assert!(head[0].starts_with("HTTP/1.1 101 "), "{head:?}");
        // What the upstream says about the request.
        chat.line().expect("a line");
        Long { download, chat }
    }

    fn says(&mut self, text: &str) {
        self.chat.send(text);
        assert_eq!(self.chat.take(text.len() as u64), text.as_bytes());
    }
}

/// Upgrades so many times, by the command and by the signal, under `connections` keep-alive clients and new connections. Each
/// process begins a download, a WebSocket, and an HTTP/3 connection with both, which end after all upgrades.
fn outlive_upgrades(rounds: usize, connections: usize) {
    let plain = crate::harness::free_port();
    let upstream = websocket();
    let sites = SITES
        .replace("{plain}", &plain.to_string())
        .replace("{upstream}", &upstream.port.to_string());
    let setup = Setup::new(&sites);
    let large = pattern(8_000_000);
    setup.folder().write("large", &large);
    let running = Running::of(setup);
    let clients = Clients::start(plain, "/word", connections);
    let mut long = Vec::new();
    for round in 0..rounds {
        let before = running.pid().expect("it runs");
        let mut peer = Peer::connect(running.port());
        assert_eq!(peer.fetch("/word").text(), "hello");
        let chat = peer.open_websocket("/chat");
        let download = peer.get("/large");
        peer.drive("its beginning", |peer| {
            peer.so_far(download).body.len() > 10_000
        });
        long.push((Long::begin(plain), peer, chat, download));
        match round % 2 {
            0 => _ = running.upgrade(),
            _ => running.upgrade_by_signal(),
        }
        clients.wait_for(200);
        assert!(is_alive(before), "it has connections");
        for (long, peer, chat, _) in &mut long {
            long.says(&format!("round {round}"));
            peer.echoed(*chat, &format!("round {round}"));
        }
    }
    // All of the WebSockets at first: the downloads take longer than the upstream waits for a message.
    for (one, peer, chat, _) in &mut long {
        one.says("goodbye");
        peer.send(*chat, &[], End::Here);
        peer.response(*chat);
    }
    for (mut one, mut peer, _, download) in long {
        assert!(one.download.take(large.len() as u64) == large);
        assert!(peer.response(download).body == large);
    }
    clients.wait_for(100);
    clients.end();
    // Nothing is left of the old processes.
    let first = running.server.pid();
    eventually("the end", || !is_alive(first), || running.server.stderr());
    assert!(!running.server.stderr().contains("connections_cut_off=1"));
}
