//! HTTP/3 through binary upgrades: connections of the old process go on, new ones begin in the new process.

use sluice_net::sys::process::{Signal, send};
use sluice_wire::sections::End;

use super::peer::Peer;
use super::serving::pattern;
use crate::h2::tunnels::websocket;
use crate::harness::eventually;
use crate::nginx::prefix::Prefix;
use crate::nginx::upgrade::wait_for_successor;

/// The site of the test, with a word that tells configurations apart.
const SITE: &str = "listen 127.0.0.1:{port} quic reuseport;\nlisten 127.0.0.1:{port} ssl;\n\
    ssl_certificate site.pem;\nssl_certificate_key site.key;\n\
    location = /word {\nreturn 200 {word};\n}\n\
    location /large {\nroot files;\n}\n\
    location /chat {\nproxy_pass http://127.0.0.1:{upstream};\nproxy_http_version 1.1;\n\
    proxy_set_header Upgrade $http_upgrade;\nproxy_set_header Connection upgrade;\n}\n";

fn configure(prefix: &Prefix, upstream: u16, word: &str) {
    let site = SITE
        .replace("{port}", &prefix.port.to_string())
        .replace("{upstream}", &upstream.to_string());
    let conf = format!(
        "worker_processes 2;\npid logs/nginx.pid;\nerror_log logs/error.log notice;\n\
         events {{\nworker_connections 200;\n}}\nhttp {{\naccess_log off;\nsend_timeout 10m;\nserver {{\n{site}}}\n}}\n"
    );
    prefix
        .folder
        .write("nginx.conf", conf.replace("{word}", word));
}

#[test]
fn connections_outlive_binary_upgrades() {
    outlive_upgrades(3);
}

/// Upgrades the binary so many times. Each process begins a connection with a WebSocket and a download that goes on after all
/// upgrades.
pub fn outlive_upgrades(rounds: usize) {
    let prefix = Prefix::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    prefix.folder.write("site.pem", made.cert.pem());
    prefix
        .folder
        .write("site.key", made.signing_key.serialize_pem());
    let large = pattern(4_000_000);
    prefix.folder.write("files/large", &large);
    let upstream = websocket();
    configure(&prefix, upstream.port, "0");
    assert_eq!(prefix.said(&[]).0, Some(0), "{}", prefix.errors());
    let mut pid = prefix.pid().expect("it runs");
    // A connection of each process, with a WebSocket and a download that stops half way until the end.
    let mut peers = Vec::new();
    for round in 1..=rounds {
        let mut peer = Peer::connect(prefix.port);
        assert_eq!(peer.fetch("/word").text(), (round - 1).to_string());
        let chat = peer.open_websocket("/chat");
        let download = peer.get("/large");
        peer.drive("its beginning", |peer| {
            peer.so_far(download).body.len() > 10_000
        });
        peers.push((peer, chat, download));
        configure(&prefix, upstream.port, &round.to_string());
        send(pid, Signal::User2).expect("it runs");
        let next = wait_for_successor(&prefix, pid);
        // New connections begin in the new process, whose configuration is another one.
        eventually(
            "the new configuration",
            || Peer::connect(prefix.port).fetch("/word").text() == round.to_string(),
            || prefix.errors(),
        );
        send(pid, Signal::Quit).expect("it runs");
        // The connections of old processes go on beside.
        for (peer, chat, _) in &mut peers {
            peer.echoed(*chat, &format!("round {round}"));
        }
        pid = next;
    }
    for (mut peer, chat, download) in peers {
        assert!(peer.response(download).body == large);
        peer.send(chat, &[], End::Here);
        peer.response(chat);
    }
    let word = Peer::connect(prefix.port).fetch("/word").text();
    assert_eq!(word, rounds.to_string());
}
