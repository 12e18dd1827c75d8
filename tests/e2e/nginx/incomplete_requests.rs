//! Access log entries of requests that do not end with a complete response: with the statuses and lengths of nginx,
//! taken from its own log.

use std::io::Read;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use super::setup;
use crate::client::Client;
use crate::harness::{Server, eventually};
use crate::support;

const CONF: &str = "
error_log {folder}/error.log info;
events {}
http {
log_format m '[$request] $status rl=$request_length b=$body_bytes_sent cr=$connection_requests $request_completion $pipe $request_method';
client_header_timeout 300ms; client_body_timeout 300ms;
server {
listen 127.0.0.1:{port};
access_log {folder}/access.log m;
error_page 400 /bad;
location / { return 200 hello; }
location /up { proxy_pass http://127.0.0.1:UP; }
location /direct { proxy_request_buffering off; proxy_pass http://127.0.0.1:UP; }
location /444 { return 444; }
location = /bad { internal; return 200 'bad: $uri'; }
}
}
";

/// What a client does after sending its request.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// It reads to the end.
    Reads,
    /// It disconnects once its upstream has received the request.
    Leaves,
    /// It disconnects at once.
    LeavesAtOnce,
}

const CASES: &[(&str, Then, &[&str])] = &[
    (
        "GET / HTT",
        Then::Reads,
        &["[GET / HTT] 408 rl=0 b=0 cr=1  . -"],
    ),
    (
        "GET /x HTTP/1.1\r\nHost: a.test\r\nX: y",
        Then::Reads,
        &["[GET /x HTTP/1.1] 408 rl=31 b=0 cr=1  . GET"],
    ),
    (
        "POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc",
        Then::Reads,
        &["[POST /up HTTP/1.1] 408 rl=58 b=0 cr=1  . POST"],
    ),
    (
        "POST /direct HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc",
        Then::Reads,
        &["[POST /direct HTTP/1.1] 408 rl=62 b=0 cr=1  . POST"],
    ),
    (
        "GET /up HTTP/1.1\r\nHost: a.test\r\n\r\n",
        Then::Leaves,
        &["[GET /up HTTP/1.1] 499 rl=34 b=0 cr=1  . GET"],
    ),
    (
        "POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc",
        Then::LeavesAtOnce,
        &["[POST /up HTTP/1.1] 400 rl=58 b=0 cr=1  . POST"],
    ),
    (
        "GET /444 HTTP/1.1\r\nHost: a.test\r\n\r\n",
        Then::Reads,
        &["[GET /444 HTTP/1.1] 444 rl=35 b=0 cr=1  . GET"],
    ),
    (
        "GET\u{1} / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        Then::Reads,
        &["[GET\\x01 / HTTP/1.1] 400 rl=0 b=9 cr=1 OK . GET"],
    ),
    (
        "GET / HTTP/2.5\r\nHost: a.test\r\n\r\n",
        Then::Reads,
        &["[GET / HTTP/2.5] 505 rl=0 b=181 cr=1 OK . -"],
    ),
    (
        "GET /nh HTTP/1.1\r\n\r\n",
        Then::Reads,
        &["[GET /nh HTTP/1.1] 400 rl=20 b=9 cr=1 OK . GET"],
    ),
    (
        "GET /bf HTTP/1.1\r\nHost: a.test\r\nA B: c\r\n\r\n",
        Then::Reads,
        &["[GET /bf HTTP/1.1] 400 rl=32 b=9 cr=1 OK . GET"],
    ),
    (
        "POST /te HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: foo\r\n\r\n",
        Then::Reads,
        &["[POST /te HTTP/1.1] 400 rl=59 b=9 cr=1 OK . GET"],
    ),
    (
        "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
        Then::Reads,
        &[
            "[GET /1 HTTP/1.1] 200 rl=33 b=5 cr=1 OK . GET",
            "[GET /2 HTTP/1.1] 200 rl=52 b=5 cr=2 OK p GET",
        ],
    ),
];

/// An upstream that never responds, and the requests it receives.
fn silent() -> (u16, Receiver<String>) {
    let (asked, is_asked) = channel();
    let asked = Mutex::new(asked);
    let port = support::listen(move |mut wire| {
        if let Some(head) = wire.head() {
            let _ = asked
                .lock()
                .expect("nobody panics with it")
                .send(head[0].clone());
            let _ = wire.reader.read_to_end(&mut Vec::new());
        }
    });
    (port, is_asked)
}

/// Waits until the upstream receives a request.
fn await_asked(asked: &Receiver<String>, path: &str) {
    let line = format!("GET {path} HTTP/1.1");
    while asked.recv().expect("the upstream is asked") != line {}
}

fn server() -> (Server, Receiver<String>) {
    let (up, asked) = silent();
    (setup(&CONF.replace("UP", &up.to_string())).start(), asked)
}

#[test]
fn the_log_says_how_requests_end_as_that_of_nginx() {
    let (server, asked) = server();
    let log = || server.folder.read("access.log");
    let mut known = 0;
    for (sent, then, expected) in CASES {
        let mut client = Client::connect(server.port);
        client.send(sent);
        match then {
            Then::Reads => {
                let _ = client.try_response();
            }
            Then::Leaves => await_asked(&asked, "/up"),
            Then::LeavesAtOnce => {}
        }
        drop(client);
        known += expected.len();
        eventually("its lines", || log().lines().count() >= known, log);
        let lines = log();
        let lines: Vec<&str> = lines.lines().skip(known - expected.len()).collect();
        assert_eq!(lines, *expected, "{sent:?}");
    }
    let errors = server.folder.read("error.log");
    assert!(
        errors.contains("client timed out") && !errors.contains("[error]"),
        "{errors}"
    );
}

/// A client that is rejected or too slow receives what nginx sends, which is nothing or a configured page.
#[test]
fn such_clients_get_nginxs_pages() {
    let (server, _asked) = server();
    for late in ["GET / HTT", CASES[2].0, CASES[3].0] {
        let mut client = Client::connect(server.port);
        client.send(late);
        assert!(client.is_closed(), "{late:?}");
    }
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nA B: c\r\n\r\n");
    let response = client.response();
    assert_eq!(
        (response.status, response.text()),
        (400, "bad: /bad".to_owned())
    );
    assert_eq!(response.field("connection"), Some("close"));
    let mut client = Client::connect(server.port);
    client.send(format!(
        "GET /{} HTTP/1.1\r\nHost: a\r\n\r\n",
        "x".repeat(9000)
    ));
    let response = client.response();
    assert_eq!(response.status, 414);
    assert!(
        response
            .text()
            .contains("<center><h1>414 Request-URI Too Large</h1></center>")
    );
}

/// In HTTP/2 the stream of a client whose body takes too long is reset, and the log entry is the same.
#[test]
fn the_log_says_the_same_of_http2() {
    let conf = CONF.replace("error_page 400 /bad;", "http2 on;");
    let (up, asked) = silent();
    let server = setup(&conf.replace("UP", &up.to_string())).start();
    let mut peer = crate::h2::peer::Peer::connect(server.port);
    let id = peer.begin_request(&crate::h2::peer::request("POST", "/up"));
    assert!(peer.response(id).reset.is_some());
    let id = peer.get("/up/left");
    await_asked(&asked, "/up/left");
    peer.reset(id, 8);
    let log = || server.folder.read("access.log");
    eventually("two lines", || log().lines().count() >= 2, log);
    let statuses: Vec<String> = log()
        .lines()
        .filter_map(|line| line.split("] ").nth(1)?.get(..3).map(str::to_owned))
        .collect();
    assert_eq!(statuses, ["408", "499"]);
}
