//! The parameters of `listen`: socket options, and the addresses it accepts.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::Command;

use super::setup;
use crate::client::Client;
use crate::harness::{eventually, free_port};
use crate::support::abilities::{can_run, has_ipv6};

/// The system's information about the sockets that listen on a port.
fn sockets_at(port: u16) -> Vec<String> {
    let filter = format!("sport = :{port}");
    let output = Command::new("ss").args(["-ltnmeoH", &filter]).output();
    let text = String::from_utf8(output.expect("ss is there").stdout).expect("it is text");
    let mut sockets: Vec<String> = Vec::new();
    for line in text.lines() {
        match line.starts_with("LISTEN") {
            true => sockets.push(line.to_owned()),
            false => sockets
                .last_mut()
                .expect("a socket comes first")
                .push_str(line),
        }
    }
    sockets
}

#[test]
fn sockets_have_the_options_of_listen() {
    if !can_run("ss", &["-V"]) {
        return;
    }
    let [set, other] = [free_port(), free_port()];
    let conf = "events {}\nhttp {\n\
                server { listen 127.0.0.1:{port}; return 200 a; }\n\
                server { listen 127.0.0.1:SET backlog=77 rcvbuf=16k sndbuf=32k fastopen=9 deferred so_keepalive=30m::10; return 200 set; }\n\
                server { listen 127.0.0.1:OTHER so_keepalive=off; return 200 other; }\n}\n";
    let conf = conf
        .replace("SET", &set.to_string())
        .replace("OTHER", &other.to_string());
    let server = setup(&conf).start();
    let plain = sockets_at(server.port);
    assert!(!plain.is_empty());
    // The third column is the backlog. The system shows buffer sizes as `rb` and `tb`, twice the configured value.
    for socket in sockets_at(set) {
        let words: Vec<&str> = socket.split_whitespace().collect();
        assert_eq!(words[2], "77", "{socket}");
        assert!(
            socket.contains("rb32768") && socket.contains("tb65536"),
            "{socket}"
        );
    }
    for socket in &plain {
        assert!(
            !socket.contains("rb32768") && !socket.contains(" 77 "),
            "{socket}"
        );
    }
    // A silent connection is not accepted (`deferred`); one with a request gets a response.
    let silent = Client::connect(set);
    let mut client = Client::connect(set);
    assert_eq!(client.get("/").text(), "set");
    let probed = |port: u16| {
        let filter = format!("sport = :{port}");
        let output = Command::new("ss").args(["-tnoH", &filter]).output();
        String::from_utf8(output.expect("ss is there").stdout).expect("it is text")
    };
    let mut other_client = Client::connect(other);
    assert_eq!(other_client.get("/").text(), "other");
    // The time to the next keep-alive probe is shown for connections that have one.
    let is_probed = || probed(set).contains("timer:(keepalive,29min");
    eventually("its probe", is_probed, || probed(set));
    assert!(!probed(other).contains("keepalive"), "{}", probed(other));
    drop(silent);
}

/// As in nginx, an IPv6 wildcard address does not accept IPv4 unless configured.
#[test]
fn all_addresses_of_ipv6_are_those_of_ipv4_only_where_that_is_said() {
    if !has_ipv6() {
        return;
    }
    let [own, both] = [free_port(), free_port()];
    let conf = "events {}\nhttp {\nserver { listen 127.0.0.1:{port}; return 200 a; }\n\
                server { listen [::]:OWN; return 200 own; }\n\
                server { listen [::]:BOTH ipv6only=off; return 200 both; }\n}\n";
    let conf = conf
        .replace("OWN", &own.to_string())
        .replace("BOTH", &both.to_string());
    let _server = setup(&conf).start();
    let is_open = |addr: SocketAddr| TcpStream::connect(addr).is_ok();
    assert!(is_open((Ipv6Addr::LOCALHOST, own).into()));
    assert!(!is_open((Ipv4Addr::LOCALHOST, own).into()));
    assert!(is_open((Ipv6Addr::LOCALHOST, both).into()));
    assert!(is_open((Ipv4Addr::LOCALHOST, both).into()));
}
