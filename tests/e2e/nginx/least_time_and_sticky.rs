//! Upstream groups: policies by response time, learned sessions, and variables about their servers.

use std::thread::sleep;
use std::time::Duration;

use super::setup;
use crate::client::Client;
use crate::harness::{Server, eventually};
use crate::upstream::{Upstream, dead, respond};

fn start(groups: &str, lines: &str) -> Server {
    setup(&format!(
        "events {{}}\nhttp {{\n{groups}\nserver {{\nlisten 127.0.0.1:{{port}};\n{lines}\n}}\n}}\n"
    ))
    .start()
}

/// Long compared with a fast response, even on a busy machine.
const SLOW: Duration = Duration::from_secs(2);

#[test]
fn slow_servers_get_fewer_requests() {
    let fast = || Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfast");
    let slow_head = Upstream::start(|mut wire| {
        while wire.head().is_some() {
            // The time of a response is what is compared.
            sleep(SLOW);
            let sent = wire.try_send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
            if sent.is_err() {
                break;
            }
        }
    });
    let slow_body = Upstream::start(|mut wire| {
        while wire.head().is_some() {
            let head = wire.try_send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
            // As above.
            sleep(SLOW);
            if head.and_then(|_| wire.try_send(b"slow")).is_err() {
                break;
            }
        }
    });
    let (one, two, three) = (fast(), fast(), fast());
    let server = start(
        &format!(
            "upstream header {{ least_time header; server 127.0.0.1:{}; server 127.0.0.1:{}; }}\n\
             upstream last {{ least_time last_byte inflight; server 127.0.0.1:{}; server 127.0.0.1:{}; }}\n\
             upstream two {{ random two least_time=header; server 127.0.0.1:{}; server 127.0.0.1:{}; }}",
            slow_head.port, one.port, slow_body.port, two.port, slow_head.port, three.port
        ),
        "location /header { proxy_pass http://header; }\nlocation /last { proxy_pass http://last; }\n\
         location /two { proxy_pass http://two; }",
    );
    for path in ["/header", "/last", "/two"] {
        let mut client = Client::connect(server.port);
        let said: Vec<String> = (0..12).map(|_| client.get(path).text()).collect();
        let slow = said.iter().filter(|said| *said == "slow").count();
        // The first server has no known response time yet; random choice may skip it.
        assert!(slow <= 2, "{path}: {said:?}");
        assert!(path == "/two" || slow >= 1, "{path}: {said:?}");
    }
}

/// An upstream that starts a session unless there is one, and responds with its name.
fn with_sessions(name: &'static str) -> Upstream {
    Upstream::start(move |mut wire| {
        let mut count = 0;
        while let Some(head) = wire.head() {
            let has_one = head.iter().any(|line| line.starts_with("Cookie: "));
            count += 1;
            let cookie = match has_one {
                true => String::new(),
                false => format!(
                    "Set-Cookie: other=1; Path=/\r\nSet-Cookie: SID={name}{count}; Path=/\r\n"
                ),
            };
            let text = format!("HTTP/1.1 200 OK\r\n{cookie}Content-Length: 1\r\n\r\n{name}");
            if wire.try_send(text.as_bytes()).is_err() {
                break;
            }
        }
    })
}

#[test]
fn sticky_learn_reads_sessions_from_responses() {
    let (a, b) = (with_sessions("a"), with_sessions("b"));
    let servers = format!("server 127.0.0.1:{}; server 127.0.0.1:{};", a.port, b.port);
    let learn = "sticky learn create=$upstream_cookie_sid lookup=$arg_sid lookup=$cookie_sid";
    let server = start(
        &format!(
            "upstream end {{ {servers} {learn} zone=end:1m timeout=1h; }}\n\
             upstream head {{ {servers} {learn} zone=head:1m header; }}"
        ),
        "location /end { proxy_pass http://end; }\nlocation /head { proxy_pass http://head; proxy_hide_header Set-Cookie; }",
    );
    for path in ["/end", "/head"] {
        let mut client = Client::connect(server.port);
        let mut get = |cookie: &str| {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{cookie}\r\n"));
            client.response().text()
        };
        let first = [get(""), get("")];
        assert_eq!(first, ["a", "b"], "{path}: they take turns");
        for _ in 0..3 {
            for session in ["a1", "b1"] {
                let said = get(&format!("Cookie: x=y; SID={session}\r\n"));
                assert_eq!(said, session[..1], "{path}");
            }
        }
        let by_turns: String = (0..4).map(|_| get("Cookie: SID=unknown\r\n")).collect();
        assert!(
            by_turns.contains('a') && by_turns.contains('b'),
            "{path}: {by_turns}"
        );
    }
    // The first non-empty one counts.
    let mut client = Client::connect(server.port);
    for _ in 0..3 {
        client.send("GET /end?sid=b1 HTTP/1.1\r\nHost: a\r\nCookie: SID=a1\r\n\r\n");
        assert_eq!(client.response().text(), "b");
    }
}

#[test]
fn upstream_variables_hold_bytes_cookies_and_hidden_headers() {
    const RESPONSE: &str = "HTTP/1.1 200 OK\r\nX-Hidden: secret\r\nServer: own\r\nSet-Cookie: a=1; Path=/\r\n\
                          Set-Cookie: Bee = 2 ; Secure\r\nContent-Length: 5\r\n\r\nhello";
    let good = Upstream::responding(RESPONSE);
    let gone = dead();
    let groups = format!(
        "log_format all '$upstream_bytes_sent|$upstream_bytes_received|$upstream_cookie_a|$upstream_cookie_bee|\
         $upstream_cookie_c|$upstream_http_x_hidden|$upstream_http_server|$request_length';\n\
         upstream some {{ server 127.0.0.1:{gone}; server 127.0.0.1:{}; }}",
        good.port
    );
    let server = start(
        &groups,
        "access_log {folder}/all.log all;\nadd_header X-Seen $upstream_http_x_hidden;\n\
         location / { proxy_pass http://some; proxy_hide_header X-Hidden; proxy_set_header Host a; }",
    );
    let mut client = Client::connect(server.port);
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    let response = client.response();
    assert_eq!(response.text(), "hello");
    assert_eq!(response.field("X-Seen"), Some("secret"));
    assert_eq!(response.field("X-Hidden"), None);
    let read = || server.folder.read("all.log");
    eventually("a line", || read().lines().count() == 1, read);
    let log = read();
    let parts: Vec<&str> = log.trim_end().split('|').collect();
    // The upstream receives what the client sent: line, host, length and body.
    let sent = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc".len();
    assert_eq!(parts[0], format!("0, {sent}"), "{log}");
    assert_eq!(parts[1], format!("0, {}", RESPONSE.len()), "{log}");
    assert_eq!(parts[2..7], ["1", "2", "-", "secret", "own"], "{log}");
}

#[test]
fn upstream_trailer_variables_hold_the_trailers() {
    let good = Upstream::start(|mut wire| {
        let text: &[u8] =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
                            5\r\nhello\r\n0\r\nX-Sum: 42\r\n\r\n";
        while respond(&mut wire, text).is_some() {}
    });
    let server = start(
        "log_format all '$upstream_trailer_x_sum|$sent_trailer_x_sum|$sent_trailer_x_own|$upstream_bytes_received';",
        &format!(
            "access_log {{folder}}/all.log all;\n\
             location / {{ proxy_pass http://127.0.0.1:{}; add_trailer X-Own yes; }}\n\
             location /none {{ return 200 x; }}",
            good.port
        ),
    );
    // Data after a response must not reach this client: each request uses a separate connection.
    assert_eq!(Client::connect(server.port).get("/").text(), "hello");
    let read = || server.folder.read("all.log");
    eventually("a line", || read().lines().count() == 1, read);
    assert_eq!(Client::connect(server.port).get("/none").text(), "x");
    eventually("two lines", || read().lines().count() == 2, read);
    let log = read();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].starts_with("42|42|yes|"), "{log}");
    assert_eq!(lines[1], "-|-|-|-", "{log}");
}
