//! Requests over HTTP/2: heads, bodies, concurrent streams, and the end of connections.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::TLS13;
use sluice_net::sys::process::Signal;

use super::peer::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW, PING, Peer, Response, SETTINGS,
    WINDOW_UPDATE, block, request,
};
use crate::client::exchange;
use crate::harness::{MEMORY_STEPS, Server, Setup, eventually};
use crate::tls::{Secure, client, connect, get};
use crate::upstream::Upstream;
use crate::wire::Wire;

/// A Caddyfile whose servers accept HTTP/2 without TLS, too. `more` is added to the server options.
pub fn plain(more: &str, site: &str) -> String {
    format!(
        "{{\n\tadmin localhost:{{admin}}\n\tservers {{\n\t\tprotocols h1 h2c\n\t\t{more}\n\t}}\n}}\n\
         :{{port}} {{\n{site}\n}}\n"
    )
}

#[test]
fn requests_are_classified() {
    let site = "log {\n\toutput file {folder}/access.log\n}\n@two protocol http/2+\nrespond @two \
        \"{http.request.proto} {method} {host} {uri} {header.cookie}\"\nrespond old";
    let server = Server::start(&plain("", site));
    let mut peer = Peer::connect(server.port);
    let mut fields = request("GET", "/a?b").to_vec();
    fields.extend([("cookie", "a=1"), ("cookie", "b=2")]);
    let id = peer.ask(&fields);
    let response = peer.response(id);
    assert_eq!(response.status, 200);
    assert_eq!(response.text(), "HTTP/2.0 GET localhost /a?b a=1; b=2");
    assert_eq!(response.field("server"), Some("sluice"));
    assert_eq!(response.field("content-length"), Some("36"));
    assert!(response.field("date").is_some());
    assert_eq!(response.reset, None);
    // The same connection, and an HTTP/1.1 connection beside it.
    assert_eq!(peer.fetch("/").status, 200);
    assert_eq!(server.ask("/").text(), "old");
    let logged = || server.folder.read("access.log");
    eventually("three lines", || logged().lines().count() == 3, logged);
    let proto = |line: &str| line.contains("\"proto\":\"HTTP/2.0\"");
    assert_eq!(logged().lines().filter(|line| proto(line)).count(), 2);
}

#[test]
fn responses_without_a_body_end_with_their_heads() {
    let site = "respond /204 204\nrespond /304 304\nrespond /head \"some words\"\nabort /abort\nrespond end";
    let server = Server::start(&plain("", site));
    let mut peer = Peer::connect(server.port);
    for status in [204, 304] {
        let response = peer.fetch(&format!("/{status}"));
        assert_eq!((response.status, response.ended), (status, true));
        assert_eq!(
            (response.field("content-length"), response.body.len()),
            (None, 0)
        );
    }
    let id = peer.ask(&request("HEAD", "/head"));
    let response = peer.response(id);
    assert_eq!((response.status, response.body.len()), (200, 0));
    assert_eq!(response.field("content-length"), Some("10"));
    let aborted = peer.fetch("/abort");
    assert_eq!((aborted.status, aborted.reset), (0, Some(2)));
    assert_eq!(peer.fetch("/").text(), "end", "other streams go on");
}

#[test]
fn http2_without_tls_has_to_be_allowed() {
    let server = Server::start(":{port} {\n\trespond hello\n}\n");
    let mut wire = Wire::connect(server.port);
    wire.send(sluice_wire::h2::PREFACE);
    let head = wire.head().expect("an answer");
    assert!(head[0].starts_with("HTTP/1.1 505 "), "{head:?}");
    // The h2c upgrade is no longer part of the protocol, and is ignored.
    let asked = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
        HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    let response = exchange(server.port, asked);
    assert_eq!((response.status, &*response.text()), (200, "hello"));
}

/// After an upgrade to HTTP/2 the client could request anything from the upstream, bypassing all rules here.
#[test]
fn nobody_is_led_past_the_proxy_by_an_upgrade() {
    let upstream = echo();
    let site = format!(
        ":{{port}} {{\n\treverse_proxy localhost:{}\n}}\n",
        upstream.port
    );
    let server = Server::start(&site);
    for protocol in ["h2c", "websocket, H2C", "h2c/1"] {
        let asked = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        );
        let seen = exchange(server.port, asked).text();
        assert!(!seen.to_ascii_lowercase().contains("upgrade"), "{seen}");
    }
}

#[test]
fn the_older_version_has_to_be_allowed_too() {
    let site =
        "{\n\tadmin off\n\tservers {\n\t\tprotocols h2c\n\t}\n}\n:{port} {\n\trespond hello\n}\n";
    let server = Server::start(site);
    assert_eq!(server.ask("/").status, 505);
    assert_eq!(Peer::connect(server.port).fetch("/").text(), "hello");
}

fn secure(server: &Server, alpn: &[&str], name: &str) -> Option<Wire<Secure>> {
    let mut config = client(&server.folder, &[&TLS13]);
    let offered = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::get_mut(&mut config)
        .expect("it is ours alone")
        .alpn_protocols = offered;
    connect(&config, server.port, name).ok()
}

fn peer(wire: Wire<Secure>) -> Peer<Secure> {
    Peer::begin(wire.reader.into_inner(), &[])
}

const SECURE: &str = "{\n\tadmin off\n\thttps_port {port}\n\tauto_https disable_redirects\n\
    \tskip_install_trust\n}\n";

#[test]
fn handshakes_choose_the_version() {
    let sites = "localhost {\n\trespond \"{http.request.proto} {tls_version} {http.request.tls.proto}\"\n}\n\
        old.localhost {\n\ttls internal {\n\t\talpn http/1.1\n\t}\n\trespond old\n}\n";
    let server = Server::start(&format!("{SECURE}{sites}"));
    let chosen = |alpn: &[&str], name| {
        let mut wire = secure(&server, alpn, name)?;
        let protocol = wire.stream().conn.alpn_protocol().map(<[u8]>::to_vec);
        Some(String::from_utf8(protocol.unwrap_or_default()).expect("a name"))
    };
    let chosen = |alpn, name| chosen(alpn, name).unwrap_or_else(|| "refused".to_owned());
    assert_eq!(chosen(&["h2", "http/1.1"], "localhost"), "h2");
    assert_eq!(
        chosen(&["http/1.1", "h2"], "localhost"),
        "h2",
        "we prefer it"
    );
    assert_eq!(chosen(&["http/1.1"], "localhost"), "http/1.1");
    assert_eq!(chosen(&[], "localhost"), "");
    assert_eq!(chosen(&["h2", "http/1.1"], "old.localhost"), "http/1.1");
    assert_eq!(chosen(&["h2"], "old.localhost"), "refused");
    let mut two = peer(secure(&server, &["h2"], "localhost").expect("a connection"));
    assert_eq!(two.fetch("/").text(), "HTTP/2.0 tls1.3 h2");
    let mut one = secure(&server, &[], "localhost").expect("a connection");
    assert_eq!(get(&mut one, "localhost", "/").1, "HTTP/1.1 tls1.3 ");
}

#[test]
fn addresses_can_speak_different_versions() {
    let site = "{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n\
        https://localhost:{port} {\n\tbind 127.0.0.1 {\n\t\tprotocols h1\n\t}\n\tbind ::1 {\n\t\tprotocols h2\n\t}\n\
        \trespond \"{http.request.proto}\"\n}\n";
    let setup = Setup::new(site);
    let server = setup.start();
    assert!(secure(&server, &["h2"], "localhost").is_none());
    let mut one = secure(&server, &["h2", "http/1.1"], "localhost").expect("a connection");
    assert_eq!(get(&mut one, "localhost", "/").1, "HTTP/1.1");
}

#[test]
fn other_sites_need_a_handshake_of_their_own_where_that_is_strict() {
    let site = "{\n\tadmin off\n\thttps_port {port}\n\tauto_https disable_redirects\n\tskip_install_trust\n\
        \tservers {\n\t\tstrict_sni_host on\n\t}\n}\nlocalhost {\n\trespond one\n}\na.localhost {\n\ttls internal\n\trespond two\n}\n";
    let server = Server::start(site);
    let mut peer = peer(secure(&server, &["h2"], "localhost").expect("a connection"));
    let to = |host| {
        [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", host),
            (":path", "/"),
        ]
    };
    let id = peer.ask(&to("localhost"));
    assert_eq!(peer.response(id).text(), "one");
    let id = peer.ask(&to("a.localhost"));
    assert_eq!(peer.response(id).status, 421);
    let id = peer.ask(&to("localhost"));
    assert_eq!(peer.response(id).text(), "one", "the connection goes on");
}

/// A site that requires client certificates cannot be reached over a connection to another site that did not: browsers
/// reuse a connection if its certificate names both.
#[test]
fn a_shared_connection_leads_past_no_client_certificate() {
    let site = format!(
        "{SECURE}localhost {{\n\trespond open\n}}\n\
         closed.localhost {{\n\ttls internal {{\n\t\tclient_auth {{\n\t\t\tmode require\n\t\t}}\n\t}}\n\trespond closed\n}}\n"
    );
    let server = Server::start(&site);
    let mut peer = peer(secure(&server, &["h2"], "localhost").expect("a connection"));
    for (host, status) in [
        ("localhost", 200),
        ("closed.localhost", 421),
        ("CLOSED.localhost:443", 421),
        ("other.localhost", 421),
        ("localhost", 200),
    ] {
        let mut fields = request("GET", "/");
        fields[2].1 = host;
        let id = peer.ask(&fields);
        let response = peer.response(id);
        assert_eq!(response.status, status, "{host}");
        assert!(!response.text().contains("closed"), "{host}");
    }
}

/// An upstream that responds to `/slow` on demand, and to everything else with an echo.
fn echo() -> Upstream {
    Upstream::echo()
}

#[test]
fn streams_are_served_beside_one_another() {
    let (sender, signal) = std::sync::mpsc::channel::<()>();
    let signal = std::sync::Mutex::new(signal);
    let upstream = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            if head[0].contains("/slow") {
                let _ = signal.lock().expect("no panic").recv();
            }
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let server = Server::start(&plain(
        "",
        &format!("reverse_proxy localhost:{}", upstream.port),
    ));
    let mut peer = Peer::connect(server.port);
    let slow = peer.get("/slow");
    let fast: Vec<u32> = (0..100).map(|_| peer.get("/fast")).collect();
    for id in fast {
        assert_eq!(peer.response(id).text(), "ok");
    }
    sender.send(()).expect("the upstream waits");
    assert_eq!(peer.response(slow).text(), "ok");
}

#[test]
fn bodies_and_trailers_pass_the_proxy_both_ways() {
    let upstream = Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            let mut body = Vec::new();
            while let Some(chunk) = wire.chunk() {
                if chunk.is_empty() {
                    break;
                }
                body.extend_from_slice(&chunk);
            }
            let trailers = wire.head().expect("trailers");
            let via = head.iter().find(|line| line.starts_with("Via")).cloned();
            let text = format!("{} {trailers:?} {via:?}", String::from_utf8_lossy(&body));
            let length = text.len();
            wire.send(format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n{length:x}\r\n{text}\r\n\
                 0\r\nX-Sum: 7\r\n\r\n"
            ));
        }
    });
    let server = Server::start(&plain(
        "",
        &format!("reverse_proxy localhost:{}", upstream.port),
    ));
    let mut peer = Peer::connect(server.port);
    let mut fields = request("POST", "/").to_vec();
    fields.extend([("trailer", "x-end"), ("te", "trailers")]);
    let id = peer.begin_request(&fields);
    peer.send(DATA, 0, id, b"some ");
    peer.send(DATA, 0, id, b"words");
    peer.send(
        HEADERS,
        END_STREAM | END_HEADERS,
        id,
        &block(&[("x-end", "yes")]),
    );
    let response = peer.response(id);
    assert_eq!(response.status, 200);
    let text = response.text();
    assert!(text.starts_with("some words [\"x-end: yes\"]"), "{text}");
    assert!(text.contains("2.0 sluice"), "{text}");
    assert_eq!(response.trailers, [("x-sum".to_owned(), "7".to_owned())]);
    assert_eq!(response.field("transfer-encoding"), None);
}

#[test]
fn a_client_that_expects_100_continue_gets_it() {
    let upstream = echo();
    let server = Server::start(&plain(
        "",
        &format!("reverse_proxy localhost:{}", upstream.port),
    ));
    let mut peer = Peer::connect(server.port);
    let mut fields = request("POST", "/").to_vec();
    fields.extend([("content-length", "5"), ("expect", "100-continue")]);
    let id = peer.begin_request(&fields);
    let go_on = peer.frame_of(HEADERS).expect("an interim answer");
    assert_eq!(peer.decode(&go_on.payload)[0].1, "100");
    peer.send(DATA, END_STREAM, id, b"words");
    let response = peer.response(id);
    assert_eq!(response.status, 200);
    assert!(response.text().ends_with("words"), "{}", response.text());
}

#[test]
fn content_that_differs_from_its_length_reaches_nobody_as_a_whole() {
    let upstream = echo();
    let server = Server::start(&plain(
        "",
        &format!("reverse_proxy localhost:{}", upstream.port),
    ));
    let mut peer = Peer::connect(server.port);
    for (length, content) in [("5", "four"), ("3", "four"), ("4", "")] {
        let mut fields = request("POST", "/").to_vec();
        fields.push(("content-length", length));
        let id = peer.begin_request(&fields);
        peer.send(DATA, END_STREAM, id, content.as_bytes());
        let response = peer.response(id);
        assert_eq!(
            (response.status, response.reset),
            (0, Some(1)),
            "{length} {content}"
        );
    }
    let mut fields = request("POST", "/").to_vec();
    fields.push(("content-length", "4"));
    let id = peer.begin_request(&fields);
    peer.send(DATA, END_STREAM, id, b"four");
    assert!(peer.response(id).text().ends_with("four"));
}

#[test]
fn an_early_response_ends_the_upload() {
    let server = Server::start(&plain("", "respond early"));
    let mut peer = Peer::connect(server.port);
    let id = peer.begin_request(&request("POST", "/"));
    assert_eq!(peer.response(id).text(), "early");
    let reset = peer.frame_of(super::peer::RST_STREAM).expect("a reset");
    assert_eq!((reset.id, reset.code()), (id, 0));
    assert_eq!(peer.fetch("/").text(), "early");
}

#[test]
fn heads_beyond_the_limits_are_refused_alone() {
    let server = Server::start(&plain("", "respond hello"));
    let mut peer = Peer::connect(server.port);
    let long = "x".repeat(20_000);
    let mut fields = request("GET", "/").to_vec();
    fields.extend([("x-a", &*long), ("x-b", &*long)]);
    let bytes = block(&fields);
    let id = peer.next_id();
    peer.send(HEADERS, END_STREAM, id, &bytes[..16_000]);
    peer.send(super::peer::CONTINUATION, 0, id, &bytes[16_000..32_000]);
    peer.send(super::peer::CONTINUATION, END_HEADERS, id, &bytes[32_000..]);
    // Beyond the total size of a header block nothing more is read.
    let gone = peer.goodbye().expect("a GOAWAY");
    assert_eq!(gone.code(), 11);
    let mut peer = Peer::connect(server.port);
    let names: Vec<String> = (0..150).map(|number| format!("x-{number}")).collect();
    let mut fields = request("GET", "/").to_vec();
    fields.extend(names.iter().map(|name| (&**name, "v")));
    let id = peer.ask(&fields);
    assert_eq!(peer.response(id).status, 431);
    assert_eq!(peer.fetch("/").text(), "hello");
}

/// A file of this size with varying bytes.
fn file(setup: &Setup, name: &str, len: usize) -> Vec<u8> {
    let content: Vec<u8> = (0..len).map(|at| (at / 7 % 251) as u8).collect();
    setup.folder().write(name, &content);
    content
}

#[test]
fn files_arrive_as_the_windows_allow() {
    let setup = Setup::new(&plain("", "root * {folder}/www\nfile_server"));
    let large = file(&setup, "www/large.bin", 3_000_001);
    let small = file(&setup, "www/small.bin", 20_000);
    let server = setup.start();
    let mut peer = Peer::connect_with(server.port, &[(INITIAL_WINDOW, 3000)]);
    let (first, second) = (peer.get("/large.bin"), peer.get("/small.bin"));
    assert!(
        peer.response(second).body == small,
        "the small one is whole"
    );
    let response = peer.response(first);
    assert_eq!(response.field("content-length"), Some("3000001"));
    assert!(response.body == large, "the large one is whole");
}

#[test]
fn a_stream_that_takes_nothing_is_given_up_and_others_go_on() {
    let setup = Setup::new(&plain(
        "timeouts {\n\t\t\twrite 1s\n\t\t}",
        "root * {folder}/www\nfile_server",
    ));
    file(&setup, "www/large.bin", 300_000);
    setup.folder().write("www/empty.txt", "");
    let server = setup.start();
    let mut peer = Peer::connect_with(server.port, &[(INITIAL_WINDOW, 0)]);
    let stalled = peer.get("/large.bin");
    let begun = Instant::now();
    assert_eq!(peer.fetch("/empty.txt").status, 200);
    let response = peer.response(stalled);
    assert_eq!((response.status, response.reset), (200, Some(8)));
    // Worker clocks are a tick behind.
    assert!(
        begun.elapsed() >= Duration::from_millis(800),
        "not before its time"
    );
    assert_eq!(peer.fetch("/empty.txt").status, 200);
}

#[test]
fn a_client_that_reads_nothing_is_cut_off() {
    let setup = Setup::new(&plain(
        "timeouts {\n\t\t\twrite 1s\n\t\t}",
        "root * {folder}/www\nfile_server",
    ));
    file(&setup, "www/large.bin", 20_000_000);
    let server = setup.start();
    // Workers have memory of their own, which they allocate with their first connections.
    for _ in 0..8 {
        let mut peer = Peer::connect(server.port);
        assert_eq!(peer.fetch("/large.bin").status, 200);
    }
    let before = server.status("RssAnon");
    let mut peer = Peer::connect_with(server.port, &[(INITIAL_WINDOW, 0x7fff_ffff)]);
    peer.give_window(0, 0x7000_0000);
    peer.get("/large.bin");
    // Longer than its timeout, with the window open and nothing read: this is what the server must hold meanwhile.
    thread::sleep(Duration::from_millis(1500));
    let after = server.status("RssAnon");
    assert!(
        after < before + 3072 + MEMORY_STEPS,
        "from {before} to {after} KiB"
    );
    while peer.frame().is_some() {}
}

#[test]
fn idle_connections_end_with_goaway() {
    let server = Server::start(&plain("timeouts {\n\t\t\tidle 1s\n\t\t}", "respond hello"));
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "hello");
    // Pings do not count as requests.
    for _ in 0..8 {
        // Pings for most of the idle timeout.
        thread::sleep(Duration::from_millis(100));
        let _ = peer.try_send(&super::peer::frame(PING, 0, 0, &[0; 8]));
    }
    let gone = peer.goodbye().expect("a GOAWAY");
    assert_eq!((gone.code(), &gone.payload[..4]), (0, &[0, 0, 0, 1][..]));
}

#[test]
fn heads_that_take_too_long_end_the_connection() {
    let server = Server::start(&plain(
        "timeouts {\n\t\t\tread_header 1s\n\t\t}",
        "respond hello",
    ));
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "hello");
    let bytes = block(&request("GET", "/"));
    let id = peer.next_id();
    peer.send(HEADERS, END_STREAM, id, &bytes[..5]);
    let begun = Instant::now();
    assert!(peer.goodbye().is_some(), "a GOAWAY");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_reload_leaves_streams_and_connections_as_they_are() {
    let (sender, signal) = std::sync::mpsc::channel::<()>();
    let signal = std::sync::Mutex::new(signal);
    let upstream = Upstream::start(move |mut wire| {
        while wire.head().is_some() {
            let _ = signal.lock().expect("no panic").recv();
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold");
        }
    });
    let site = format!("reverse_proxy localhost:{}", upstream.port);
    let server = Server::start(&plain("", &site));
    let mut peer = Peer::connect(server.port);
    let old: Vec<u32> = (0..20).map(|_| peer.get("/")).collect();
    eventually("all of them", || upstream.connections() == 20, String::new);
    server.write(&plain("", "respond new"));
    server.signal(Signal::Hangup);
    server.wait_for_words("configuration loaded");
    assert_eq!(peer.fetch("/").text(), "new", "on the same connection");
    (0..20).for_each(|_| sender.send(()).expect("the upstream waits"));
    for id in old {
        assert_eq!(peer.response(id).text(), "old");
    }
}

#[test]
fn a_stop_lets_streams_end() {
    let (sender, signal) = std::sync::mpsc::channel::<()>();
    let signal = std::sync::Mutex::new(signal);
    let upstream = Upstream::start(move |mut wire| {
        while wire.head().is_some() {
            let _ = signal.lock().expect("no panic").recv();
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let site = format!("reverse_proxy localhost:{}", upstream.port);
    let mut server = Server::start(&plain("", &site));
    let mut quiet = Peer::connect(server.port);
    quiet.frame_of(SETTINGS).expect("settings");
    let mut peer = Peer::connect(server.port);
    let id = peer.get("/");
    eventually("the request", || upstream.connections() == 1, String::new);
    server.signal(Signal::Terminate);
    let first = peer.frame_of(GOAWAY).expect("a word ahead");
    assert_eq!(
        (first.code(), &first.payload[..4]),
        (0, &[0x7f, 0xff, 0xff, 0xff][..])
    );
    assert!(quiet.goodbye().is_some(), "a quiet connection ends");
    // What the client sent before it received GOAWAY is served.
    let late = peer.get("/");
    sender.send(()).expect("the upstream waits");
    sender.send(()).expect("the upstream waits");
    assert_eq!(peer.response(id).text(), "ok");
    assert_eq!(peer.response(late).text(), "ok");
    while peer.frame().is_some() {}
    assert!(server.wait_for_end().success());
}

#[test]
fn an_upload_takes_no_more_memory_than_its_window() {
    const BLOCKS: usize = 100 * 64;
    let upstream = Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            let body = wire.body(&head).map_or(0, |body| body.len());
            wire.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{body:9}"
            ));
        }
    });
    let server = Server::start(&plain(
        "",
        &format!("reverse_proxy localhost:{}", upstream.port),
    ));
    let mut peer = Peer::connect(server.port);
    let first = peer
        .frame_of(WINDOW_UPDATE)
        .expect("the connection's window");
    let more = u32::from_be_bytes(first.payload[..4].try_into().expect("four bytes"));
    let (mut window, mut connection) = (65_535, 65_535 + more as usize);
    assert!(peer.fetch("/").text().ends_with('0'));
    let before = server.peak();
    let id = peer.begin_request(&request("POST", "/"));
    let block = vec![b'x'; 16_384];
    for _ in 0..BLOCKS {
        while window < block.len() || connection < block.len() {
            let frame = peer.frame_of(WINDOW_UPDATE).expect("leave to go on");
            let more = u32::from_be_bytes(frame.payload[..4].try_into().expect("four bytes"));
            let of = if frame.id == 0 {
                &mut connection
            } else {
                &mut window
            };
            *of += more as usize;
        }
        window -= block.len();
        connection -= block.len();
        peer.send(DATA, 0, id, &block);
    }
    peer.send(DATA, END_STREAM, id, &[]);
    let response: Response = peer.response(id);
    assert_eq!(response.text().trim(), (BLOCKS * 16_384).to_string());
    let grown = server.grown(before);
    assert!(
        grown < 3 * 1024 + MEMORY_STEPS,
        "by {grown} KiB from {before}"
    );
}
