//! `transport fastcgi` with scripted applications, good or bad. The real PHP is tested in `php`.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::TLS13;

use crate::client::{Client, ask, exchange};
use crate::harness::{Server, Setup, TIMEOUT, free_port};
use crate::support::fastcgi::{self, Asked, STDERR, STDOUT, end, read_request, record};
use crate::tls;
use crate::upstream::{Upstream, dead};
use crate::wire::Wire;

/// A complete response with this head and body.
fn said(content: &str) -> Vec<u8> {
    fastcgi::said(content.as_bytes())
}

/// An application that sends the same response to every request, on persistent connections.
fn responding(bytes: Vec<u8>) -> Upstream {
    Upstream::start(
        move |mut wire| {
            while read_request(&mut wire).is_some() && wire.try_send(&bytes).is_ok() {}
        },
    )
}

/// An application that responds to one request with these bytes and closes.
fn closing(bytes: Vec<u8>) -> Upstream {
    Upstream::start(move |mut wire| {
        let _ = read_request(&mut wire).map(|_| wire.try_send(&bytes));
    })
}

/// An application that responds with `ok` and reports its requests.
pub fn recording() -> (Upstream, Receiver<Asked>) {
    let (sender, asked) = sync_channel(100);
    let upstream = Upstream::start(move |mut wire| {
        while let Some(request) = read_request(&mut wire) {
            let _ = sender.send(request);
            if wire
                .try_send(said("Content-Type: text/plain\r\n\r\nok"))
                .is_err()
            {
                break;
            }
        }
    });
    (upstream, asked)
}

/// A site in front of applications on these ports, with these lines for the transport and for the directive.
fn site(ports: &[u16], transport: &str, block: &str) -> String {
    let to: String = ports
        .iter()
        .map(|port| format!(" 127.0.0.1:{port}"))
        .collect();
    format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy{to} {{\n\t\ttransport fastcgi {{\n\t\t\troot /srv/app\n\
         \t\t\tsplit .php\n{transport}\n\t\t}}\n{block}\n\t}}\n}}\n"
    )
}

fn start(upstream: &Upstream) -> Server {
    Server::start(&site(&[upstream.port], "", ""))
}

fn last(asked: &Receiver<Asked>) -> Asked {
    asked
        .recv_timeout(Duration::from_secs(20))
        .expect("it was asked")
}

#[test]
fn the_script_and_its_path_info_are_separated() {
    let (upstream, asked) = recording();
    let server = start(&upstream);
    for (path, script, info, translated) in [
        ("/a.php", "/a.php", "", None),
        ("/a.php/b/c", "/a.php", "/b/c", Some("/srv/app/b/c")),
        ("/A.PHP/b", "/A.PHP", "/b", Some("/srv/app/b")),
        (
            "/a.php/b.php/c",
            "/a.php",
            "/b.php/c",
            Some("/srv/app/b.php/c"),
        ),
        // Matchers see these without dot segments, and so does the application.
        ("/a.php/../../etc", "/etc", "", None),
        ("/a.php/../b.php/./c", "/b.php", "/c", Some("/srv/app/c")),
        ("/a.php//b", "/a.php", "/b", Some("/srv/app/b")),
        ("//a.php", "/a.php", "", None),
        // Only the end of a segment ends the script name.
        ("/a.phpx/b", "/a.phpx/b", "", None),
        ("/a.phps", "/a.phps", "", None),
        ("/no/script", "/no/script", "", None),
        // Letters outside ASCII are not case-folded: the Kelvin sign is not a k.
        ("/a.%E2%84%AAhp/b", "/a.\u{212a}hp/b", "", None),
    ] {
        assert_eq!(server.ask(path).text(), "ok", "{path}");
        let asked = last(&asked);
        assert_eq!(asked.param("SCRIPT_NAME"), Some(script), "{path}");
        assert_eq!(asked.param("DOCUMENT_URI"), Some(script), "{path}");
        assert_eq!(asked.param("PATH_INFO"), Some(info), "{path}");
        assert_eq!(asked.param("PATH_TRANSLATED"), translated, "{path}");
        let file = format!("/srv/app{script}");
        assert_eq!(
            asked.param("SCRIPT_FILENAME"),
            Some(file.as_str()),
            "{path}"
        );
    }
    // With dot segments escaped, a rule about the path as sent would be about another script.
    for path in ["/a.php%00.jpg", "/a.php/%2e%2e/x", "/a.php/..%2fb.php"] {
        assert_eq!(server.ask(path).status, 400, "{path}");
    }
    assert!(asked.try_recv().is_err());
}

#[test]
fn scripts_stay_below_the_root() {
    let (upstream, asked) = recording();
    let server = start(&upstream);
    for path in [
        "/../x.php",
        "/a/../../../x.php",
        "/a/%2e%2e.php/../../x.php",
        "//../x.php",
    ] {
        server.ask(path);
        let asked = last(&asked);
        assert_eq!(
            asked.param("SCRIPT_FILENAME"),
            Some("/srv/app/x.php"),
            "{path}"
        );
    }
}

#[test]
fn no_field_can_pass_for_another_or_for_a_variable() {
    let (upstream, asked) = recording();
    let server = Server::start(&site(
        &[upstream.port],
        "env REMOTE_USER bob\nenv HTTP_X_ROLE admin",
        "",
    ));
    let fields = "Proxy: http://evil\r\nX_Real_Ip: 1\r\nX.Real.Ip: 2\r\nX-Real-Ip: 3\r\nX-Role: guest\r\n\
        Content_Length: 9\r\nCookie: a=1\r\nCookie: b=2\r\nAccept: x\r\nAccept: y\r\nRemote-User: eve\r\n\
        Transfer_Encoding: chunked\r\nHttps: on\r\n";
    let request = format!("GET /a.php HTTP/1.1\r\nHost: h:81\r\n{fields}\r\n");
    assert_eq!(exchange(server.port, request).text(), "ok");
    let asked = last(&asked);
    for (name, value) in [
        ("HTTP_PROXY", None),
        ("HTTP_X_REAL_IP", Some("3")),
        ("HTTP_X.REAL.IP", None),
        ("HTTP_X_ROLE", Some("admin")),
        ("REMOTE_USER", Some("bob")),
        ("HTTP_REMOTE_USER", Some("eve")),
        ("CONTENT_LENGTH", Some("0")),
        ("HTTP_CONTENT_LENGTH", Some("0")),
        ("HTTP_TRANSFER_ENCODING", None),
        ("HTTP_COOKIE", Some("a=1; b=2")),
        ("HTTP_ACCEPT", Some("x, y")),
        ("HTTPS", None),
        ("HTTP_HOST", Some("h:81")),
        ("SERVER_NAME", Some("h")),
        ("SERVER_PORT", Some("81")),
    ] {
        assert_eq!(asked.param(name), value, "{name}");
    }
    let mut names: Vec<&[u8]> = asked.params.iter().map(|(name, _)| &name[..]).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "no variable is told twice");
}

#[test]
fn applications_know_of_tls() {
    let (upstream, asked) = recording();
    let site = "{\n\tadmin off\n\thttp_port {plain}\n\thttps_port {port}\n\tskip_install_trust\n}\n\
        localhost {\n\treverse_proxy 127.0.0.1:{up} {\n\t\ttransport fastcgi\n\t}\n}\n";
    let site = site.replace("{plain}", &free_port().to_string());
    let server = Server::start(&site.replace("{up}", &upstream.port.to_string()));
    let config = tls::client(&server.folder, &[&TLS13]);
    let mut wire = tls::connect(&config, server.port, "localhost").expect("a trusted connection");
    assert_eq!(tls::get(&mut wire, "localhost", "/x").1, "ok");
    let asked = last(&asked);
    for (name, value) in [
        ("HTTPS", "on"),
        ("SSL_PROTOCOL", "TLSv1.3"),
        ("REQUEST_SCHEME", "https"),
        ("SERVER_PORT", "443"),
        ("HTTP_X_FORWARDED_PROTO", "https"),
    ] {
        assert_eq!(asked.param(name), Some(value), "{name}");
    }
    let cipher = asked.param("SSL_CIPHER").unwrap_or_default();
    assert!(cipher.starts_with("TLS_"), "{cipher}");
}

#[test]
fn a_request_without_a_host_has_a_server_name() {
    let (upstream, asked) = recording();
    let server = start(&upstream);
    assert_eq!(
        exchange(server.port, "GET /a.php HTTP/1.0\r\n\r\n").text(),
        "ok"
    );
    let asked = last(&asked);
    assert_eq!(asked.param("SERVER_NAME"), Some("127.0.0.1"));
    assert_eq!(asked.param("SERVER_PROTOCOL"), Some("HTTP/1.0"));
    assert_eq!(asked.param("HTTP_HOST"), None);
}

#[test]
fn the_application_may_be_named_by_the_request() {
    let (upstream, asked) = recording();
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\treverse_proxy {header.X-Up}:{header.X-Port} {\n\
         \t\ttransport fastcgi\n\t}\n}\n",
    );
    let port = upstream.port;
    let request =
        format!("GET /x HTTP/1.1\r\nHost: h\r\nX-Up: 127.0.0.1\r\nX-Port: {port}\r\n\r\n");
    assert_eq!(exchange(server.port, request).text(), "ok");
    assert_eq!(last(&asked).param("PATH_INFO"), Some("/x"));
}

#[test]
fn a_client_that_does_not_read_costs_no_memory() {
    let upstream = Upstream::start(|mut wire| {
        if read_request(&mut wire).is_none() {
            return;
        }
        let _ = wire.try_send(record(STDOUT, b"Content-Type: x\r\n\r\n"));
        let piece = record(STDOUT, &[b'x'; 60_000]);
        for _ in 0..2000 {
            if wire.try_send(&piece).is_err() {
                return;
            }
        }
    });
    let server = start(&upstream);
    let before = server.peak();
    let mut client = Client::connect(server.port);
    client.send("GET /a.php HTTP/1.1\r\nHost: h\r\n\r\n");
    client.head().expect("a head");
    // The upstream sends as long as anybody takes it; that it is held up is seen by nothing but the time.
    thread::sleep(Duration::from_millis(700));
    let grown = server.grown(before);
    assert!(grown < 8 * 1024, "{grown} KiB wait for the client");
}

#[test]
fn many_and_long_fields_arrive_whole() {
    let (upstream, asked) = recording();
    let server = start(&upstream);
    let mut request = "GET /a.php HTTP/1.1\r\nHost: h\r\n".to_owned();
    let long = "v".repeat(300);
    for number in 0..80 {
        request.push_str(&format!("X-Long-{number}: {long}\r\n"));
    }
    assert_eq!(exchange(server.port, request + "\r\n").text(), "ok");
    let asked = last(&asked);
    for number in 0..80 {
        let name = format!("HTTP_X_LONG_{number}");
        assert_eq!(asked.param(&name), Some(long.as_str()));
    }
}

#[test]
fn a_body_without_a_length_gets_one_or_is_refused() {
    let (upstream, asked) = recording();
    let server = start(&upstream);
    let chunked = "POST /a.php HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let request = format!("{chunked}3\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Sum: 1\r\n\r\n");
    assert_eq!(exchange(server.port, request).text(), "ok");
    let request = last(&asked);
    assert_eq!(
        (&request.body[..], request.param("CONTENT_LENGTH")),
        (&b"abcdefg"[..], Some("7"))
    );
    let mut client = Client::connect(server.port);
    let chunk = format!("{chunked}10000\r\n{}\r\n0\r\n\r\n", "x".repeat(65_536));
    client.send(chunk);
    assert_eq!(client.response().status, 411);
    assert!(asked.try_recv().is_err());
    // The configured number of bytes is accepted.
    let server = Server::start(&site(&[upstream.port], "", "request_buffers 1MiB"));
    let request = format!("{chunked}80000\r\n{}\r\n0\r\n\r\n", "x".repeat(0x80000));
    assert_eq!(exchange(server.port, request).text(), "ok");
    assert_eq!(last(&asked).param("CONTENT_LENGTH"), Some("524288"));
}

#[test]
fn an_expected_continue_is_ours_to_say() {
    let (upstream, asked) = recording();
    let server = start(&upstream);
    let mut client = Client::connect(server.port);
    client.send(
        "POST /a.php HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
    );
    let began = Instant::now();
    assert!(
        client
            .head()
            .expect("an interim answer")
            .starts_with("HTTP/1.1 100")
    );
    assert!(
        began.elapsed() < Duration::from_millis(900),
        "nobody waits for the application to say it"
    );
    client.send("abc");
    assert_eq!(client.response().text(), "ok");
    assert_eq!(last(&asked).body, b"abc");
}

#[test]
fn an_invalid_response_becomes_an_error() {
    let whole = said("Status: 200\r\n\r\nbody");
    let huge = [
        record(STDOUT, b"X: "),
        record(STDOUT, &[b'y'; 60_000]),
        end(0),
    ]
    .concat();
    for (bytes, status) in [
        (Vec::new(), 502),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
            502,
        ),
        (whole[..12].to_vec(), 502),
        (b"\x01\x06\0\x07\0\x02\0\0\n\n".to_vec(), 502),
        (b"\x01\x0b\0\0\0\x08\0\0\0\0\0\0\0\0\0\0".to_vec(), 502),
        (end(0), 502),
        (end(1), 502),
        (end(2), 503),
        (end(3), 502),
        (record(3, b"short"), 502),
        (said("Status: 200\r\nStatus: 404\r\n\r\n"), 502),
        (said("X: a\r\n folded\r\n\r\n"), 502),
        (said("X: a\0b\r\n\r\n"), 502),
        (said("HTTP/1.1 200 OK\r\n\r\n"), 502),
        (
            said("Status: 101 Up\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
            502,
        ),
        (said("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 502),
        (huge, 502),
    ] {
        let upstream = closing(bytes.clone());
        let response = start(&upstream).ask("/a.php");
        assert_eq!(
            response.status,
            status,
            "{:?}",
            bytes.escape_ascii().to_string()
        );
        assert!(response.body.is_empty());
    }
}

#[test]
fn a_truncated_response_is_not_completed() {
    let length = said("Content-Length: 9\r\n\r\nbody");
    let open = record(STDOUT, b"Content-Type: x\r\n\r\nbody");
    let late = [
        open.clone(),
        record(STDOUT, b"more"),
        b"\x07garbage".to_vec(),
    ]
    .concat();
    for bytes in [length, open, late] {
        let upstream = closing(bytes);
        let server = start(&upstream);
        let mut client = Client::connect(server.port);
        client.send("GET /a.php HTTP/1.1\r\nHost: h\r\n\r\n");
        let whole = client
            .try_response()
            .is_ok_and(|response| response.status == 200);
        assert!(!whole, "it was passed on as whole");
    }
}

#[test]
fn a_flood_of_complaints_neither_stops_nor_swells() {
    let upstream = Upstream::start(|mut wire| {
        if read_request(&mut wire).is_none() {
            return;
        }
        let line = record(STDERR, &[b'e'; 60_000]);
        for _ in 0..1000 {
            if wire.try_send(&line).is_err() {
                return;
            }
        }
        let _ = wire.try_send(said("Status: 200\r\n\r\nthrough"));
    });
    let server = start(&upstream);
    let before = server.peak();
    assert_eq!(server.ask("/a.php").text(), "through");
    let grown = server.grown(before);
    assert!(grown < 8 * 1024, "60 MB of complaints took {grown} KiB");
}

#[test]
fn stderr_is_logged_if_configured() {
    let bytes = [
        record(STDERR, b"PHP Warning: odd"),
        record(STDOUT, b"Status: 200\r\n\r\n"),
        record(STDERR, b"; and more"),
        end(0),
    ];
    let upstream = responding(bytes.concat());
    let server = Server::start(&site(&[upstream.port], "capture_stderr", ""));
    assert_eq!(server.ask("/a.php?x").status, 200);
    server.wait_for_words("PHP Warning: odd; and more");
    let line = server.stderr();
    for part in [
        "\"level\":\"warn\"",
        "\"logger\":\"http.reverse_proxy.transport.fastcgi\"",
        "\"msg\":\"stderr\"",
        "\"uri\":\"/a.php?x\"",
        "\"status\":200",
    ] {
        assert!(line.contains(part), "{part} is missing:\n{line}");
    }
    let server = start(&upstream);
    assert_eq!(server.ask("/a.php").status, 200);
    assert!(!server.stderr().contains("PHP Warning"));
}

#[test]
fn applications_are_asked_whether_they_are_well() {
    let (upstream, asked) = recording();
    let block = "health_uri /ping.php/now?x\nhealth_interval 100ms\nhealth_body ok";
    let server = Server::start(&site(&[upstream.port], "", block));
    assert_eq!(server.ask("/a.php").text(), "ok");
    let checks = std::iter::from_fn(|| Some(last(&asked)));
    let mut checks = checks.filter(|asked| asked.param("REQUEST_URI") == Some("/ping.php/now?x"));
    let check = checks.next().expect("it is asked");
    for (name, value) in [
        ("SCRIPT_FILENAME", "/srv/app/ping.php"),
        ("PATH_INFO", "/now"),
        ("QUERY_STRING", "x"),
        ("REQUEST_METHOD", "GET"),
    ] {
        assert_eq!(check.param(name), Some(value), "{name}");
    }
    assert_eq!(server.ask("/a.php").status, 200);
}

#[test]
fn responses_are_streamed() {
    // Each piece is sent once the client has the one before.
    let (received, next) = sync_channel::<()>(3);
    let next = Mutex::new(next);
    let upstream = Upstream::start(move |mut wire| {
        while read_request(&mut wire).is_some() {
            let _ = wire.try_send(record(STDOUT, b"Content-Type: text/event-stream\r\n\r\n"));
            for _ in 0..3 {
                let _ = wire.try_send(record(STDOUT, b"data: x\n\n"));
                let next = next.lock().expect("nobody panics with it");
                next.recv_timeout(TIMEOUT).expect("the piece arrives");
            }
            let _ = wire.try_send(end(0));
        }
    });
    let server = start(&upstream);
    let mut wire = Wire::connect(server.port);
    wire.send("GET /a.php HTTP/1.1\r\nHost: h\r\n\r\n");
    wire.head().expect("a head");
    for _ in 0..3 {
        assert_eq!(wire.chunk().expect("a piece"), b"data: x\n\n");
        received.send(()).expect("the upstream waits");
    }
    assert_eq!(wire.chunk().expect("the end"), b"");
}

#[test]
fn silence_has_its_limit() {
    let upstream = Upstream::start(|mut wire| {
        if read_request(&mut wire).is_some_and(|asked| asked.param("QUERY_STRING") == Some("late"))
        {
            let _ = wire.try_send(record(STDOUT, b"Content-Type: x\r\n\r\nbegun"));
        }
        // Until the other side gives up.
        wire.drain();
    });
    let server = Server::start(&site(&[upstream.port], "read_timeout 300ms", ""));
    let began = Instant::now();
    assert_eq!(server.ask("/a.php").status, 504);
    assert!(began.elapsed() < Duration::from_secs(5));
    let mut client = Client::connect(server.port);
    client.send("GET /a.php?late HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(client.try_response().is_err(), "it ends in the middle");
}

#[test]
fn other_applications_take_over() {
    let (upstream, asked) = recording();
    let lines = "lb_policy first\nlb_try_duration 5s\nfail_duration 10s";
    let server = Server::start(&site(&[dead(), upstream.port], "", lines));
    let request =
        "POST /a.php HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
    assert_eq!(exchange(server.port, request).text(), "ok");
    assert_eq!(last(&asked).body, b"abc");
    // An overloaded application has not started to process the request: even a POST may be retried elsewhere.
    let busy = responding(end(2));
    let server = Server::start(&site(&[busy.port, upstream.port], "", lines));
    let request = "POST /a.php HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(server.port, request).text(), "ok");
}

#[test]
fn handle_response_replaces_responses() {
    let upstream = responding(said("Status: 404 X\r\nX-Up: a\r\n\r\nnot here"));
    let block = "header_down X-Down b\n@lost status 404\nhandle_response @lost {\nrespond \"instead of {rp.status_code}\"\n}";
    let server = Server::start(&site(&[upstream.port], "", block));
    assert_eq!(server.ask("/a.php").text(), "instead of 404");
    let server = Server::start(&site(&[upstream.port], "", "header_down X-Down b"));
    let response = server.ask("/a.php");
    assert_eq!(
        (response.status, response.text().as_str()),
        (404, "not here")
    );
    assert_eq!(
        (response.field("X-Up"), response.field("X-Down")),
        (Some("a"), Some("b"))
    );
    assert_eq!(response.field("Status"), None);
}

#[test]
fn a_request_is_changed_before_its_variables_are_made() {
    let (upstream, asked) = recording();
    let block = "header_up X-Up {method}\nheader_up -User-Agent\nheader_up Host inner:82\nmethod PUT\nrewrite /b.php?z=1";
    let server = Server::start(&site(
        &[upstream.port],
        "env A {http.request.header.X-In}",
        block,
    ));
    let request = "GET /a.php?x=1 HTTP/1.1\r\nHost: h\r\nUser-Agent: u\r\nX-In: in\r\n\r\n";
    assert_eq!(exchange(server.port, request).text(), "ok");
    let asked = last(&asked);
    for (name, value) in [
        ("REQUEST_METHOD", Some("PUT")),
        ("REQUEST_URI", Some("/a.php?x=1")),
        ("SCRIPT_NAME", Some("/b.php")),
        ("QUERY_STRING", Some("z=1")),
        ("HTTP_HOST", Some("inner:82")),
        ("SERVER_NAME", Some("inner")),
        ("SERVER_PORT", Some("82")),
        ("HTTP_USER_AGENT", None),
        ("HTTP_X_FORWARDED_HOST", Some("h")),
        ("HTTP_X_FORWARDED_FOR", Some("127.0.0.1")),
        ("REMOTE_ADDR", Some("127.0.0.1")),
        ("A", Some("in")),
    ] {
        assert_eq!(asked.param(name), value, "{name}");
    }
}

#[test]
fn the_root_may_be_a_link_that_moves() {
    let (upstream, asked) = recording();
    let setup = Setup::new(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy 127.0.0.1:{} {{\n\t\ttransport fastcgi {{\n\
         \t\t\troot {{folder}}/current\n\t\t\tsplit .php\n\t\t\tresolve_root_symlink\n\t\t}}\n\t}}\n}}\n",
        upstream.port
    ));
    let folder = setup.folder().path().canonicalize().expect("it is there");
    for release in ["one", "two"] {
        std::fs::create_dir(folder.join(release)).expect("the folder is writable");
    }
    let server = setup.start();
    for release in ["one", "two"] {
        let _ = std::fs::remove_file(folder.join("current"));
        std::os::unix::fs::symlink(folder.join(release), folder.join("current")).expect("writable");
        assert_eq!(server.ask("/a.php").text(), "ok");
        let expected = folder.join(release).display().to_string();
        assert_eq!(last(&asked).param("DOCUMENT_ROOT"), Some(expected.as_str()));
    }
    std::fs::remove_file(folder.join("current")).expect("writable");
    assert_eq!(server.ask("/a.php").status, 500);
}

#[test]
fn connections_are_used_again_but_not_for_what_must_not_be_repeated() {
    let (upstream, _asked) = recording();
    let server = Setup::new(&site(&[upstream.port], "", ""))
        .env("SLUICE_WORKERS", "1")
        .start();
    for _ in 0..10 {
        assert_eq!(ask(server.port, "/a.php").text(), "ok");
    }
    let kept = upstream.connections();
    assert!(
        kept <= 3,
        "{kept} connections for ten requests within moments"
    );
    let request =
        "POST /a.php HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    for _ in 0..5 {
        assert_eq!(exchange(server.port, request).text(), "ok");
    }
    assert!(upstream.connections() >= kept + 5);
}
