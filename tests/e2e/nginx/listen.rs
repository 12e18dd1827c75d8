//! The parameters of `listen`: socket options, and the addresses it accepts.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use super::setup;
use crate::client::Client;
use crate::harness::{eventually, free_port};
use crate::support::abilities::{can_run, has_ipv6};
use sluice_net::sys::process::Signal;

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

/// What a client at a unix socket receives.
fn ask_unix(path: &std::path::Path, request: &str) -> String {
    let mut stream = UnixStream::connect(path).expect("somebody listens");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

/// nginx calls such a client `unix:` wherever it has an address.
#[test]
fn clients_of_a_unix_socket_have_a_name() {
    let upstream = crate::upstream::Upstream::echo();
    let conf = format!(
        "events {{}}\nhttp {{\nlog_format m '$remote_addr|$realip_remote_addr';\n\
         limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m;\nserver {{\nlisten 127.0.0.1:{{port}};\n\
         listen unix:{{folder}}/s.sock;\naccess_log {{folder}}/a.log m;\n\
         location / {{ return 200 $remote_addr; }}\nlocation /limited {{ limit_req zone=z; }}\n\
         location /up {{ proxy_pass http://127.0.0.1:{}; proxy_set_header X-Real-IP $remote_addr;\n\
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }}\n}}\n}}\n",
        upstream.port
    );
    let server = setup(&conf).start();
    let socket = server.folder.path().join("s.sock");
    let ask = |path: &str, more: &str| {
        ask_unix(
            &socket,
            &format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n"),
        )
    };
    assert!(ask("/", "").ends_with("\r\n\r\nunix:"));
    let proxied = ask("/up", "");
    assert!(
        proxied.contains("X-Real-IP: unix:\n") && proxied.contains("X-Forwarded-For: unix:\n"),
        "{proxied}"
    );
    let proxied = ask("/up", "X-Forwarded-For: 192.0.2.1\r\n");
    assert!(
        proxied.contains("X-Forwarded-For: 192.0.2.1, unix:\n"),
        "{proxied}"
    );
    // All of them are one client.
    ask("/limited", "");
    assert!(ask("/limited", "").starts_with("HTTP/1.1 503 "));
    let log = || server.folder.read("a.log");
    eventually("the log", || log().starts_with("unix:|unix:\n"), log);
}

/// The file goes with its listener: when a reload removes that, and at the end. A dead one is replaced.
#[test]
fn the_file_of_a_unix_socket_lasts_as_long_as_its_listener() {
    let conf = |more: &str| {
        format!(
            "events {{}}\nhttp {{ server {{ listen 127.0.0.1:{{port}}; listen unix:{{folder}}/a.sock; {more} return 200 ok; }} }}\n"
        )
    };
    let setup = setup(&conf("listen unix:{folder}/b.sock;"));
    let [a, b] = ["a.sock", "b.sock"].map(|name| setup.folder().path().join(name));
    drop(UnixListener::bind(&a).expect("the folder is writable"));
    assert!(a.exists(), "left behind by a dead process");
    let reloaded = setup.fill(&conf(""));
    let mut server = setup.start();
    let request = "GET / HTTP/1.0\r\n\r\n";
    assert!(ask_unix(&a, request).ends_with("ok") && ask_unix(&b, request).ends_with("ok"));
    server.folder.write("nginx.conf", reloaded);
    server.signal(Signal::Hangup);
    eventually("one file goes", || !b.exists(), || server.stderr());
    assert!(ask_unix(&a, request).ends_with("ok"));
    server.signal(Signal::Terminate);
    server.wait_for_end();
    assert!(!a.exists());
}
