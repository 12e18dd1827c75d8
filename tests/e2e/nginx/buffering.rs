//! Bodies buffered in memory and in temporary files, so that slow clients do not occupy upstreams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sluice_net::sys::process::Signal;

use super::{setup, site};
use crate::client::{Client, exchange};
use crate::h2::peer::Peer;
use crate::harness::{Server, Setup, eventually, finish, sluice, text};
use crate::support::cgi::read_scgi;
use crate::upstream::Upstream;

const MIB: usize = 1024 * 1024;
/// More than the socket buffers of two connections hold.
const LONG: usize = 48 * MIB;

/// Bytes of which each kilobyte differs from the others.
fn content(len: usize) -> Vec<u8> {
    let mut content = vec![b'x'; len];
    for (number, part) in content.chunks_exact_mut(1024).enumerate() {
        part[..8].copy_from_slice(&(number as u64).to_be_bytes());
    }
    content
}

/// A server with these lines, with `UPSTREAM` replaced by `upstream`.
fn before(upstream: &Upstream, lines: &str) -> Setup {
    site(&lines.replace("UPSTREAM", &format!("127.0.0.1:{}", upstream.port)))
}

/// Open temporary files of the server: they have no names.
fn temp_files(server: &Server) -> usize {
    let folder = format!("/proc/{}/fd", server.pid());
    let entries = std::fs::read_dir(folder).expect("the process is there");
    let targets = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets
        .filter(|target| {
            let target = target.to_string_lossy();
            target.contains("/tmp/") && target.ends_with(" (deleted)")
        })
        .count()
}

fn wait_for_files(server: &Server, count: usize) {
    let what = format!("{count} temporary files");
    eventually(
        &what,
        || temp_files(server) == count,
        || temp_files(server).to_string(),
    );
}

/// Files in the folder of temporary files.
fn names(server: &Server) -> usize {
    std::fs::read_dir(server.folder.path().join("tmp"))
        .expect("the server made it")
        .count()
}

const IN_FOLDER: &str = "client_body_temp_path {folder}/tmp 1 2; proxy_temp_path {folder}/tmp; \
                         client_max_body_size 100m; ";

/// An upstream that sends `bytes` of body, and counts the bytes sent and the requests.
fn sending(bytes: usize, fields: &str) -> (Upstream, Arc<AtomicU64>, Arc<AtomicUsize>) {
    let (sent, served) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n{fields}\r\n");
    let (counted, ended) = (sent.clone(), served.clone());
    let content = content(bytes);
    let upstream = Upstream::start(move |mut wire| {
        while wire.head().is_some() {
            wire.send(&head);
            for piece in content.chunks(64 * 1024) {
                if wire.try_send(piece).is_err() {
                    return;
                }
                counted.fetch_add(piece.len() as u64, Ordering::SeqCst);
            }
            ended.fetch_add(1, Ordering::SeqCst);
        }
    });
    (upstream, sent, served)
}

fn wait_until_sent(what: &str, count: &AtomicUsize, wanted: usize) {
    eventually(
        what,
        || count.load(Ordering::SeqCst) == wanted,
        || count.load(Ordering::SeqCst).to_string(),
    );
}

/// The body of an echo.
fn echoed(response: &crate::client::Response) -> (String, Vec<u8>) {
    let end = response.body.windows(2).position(|pair| pair == b"\n\n");
    let end = end.expect("the head that was asked with");
    let head = String::from_utf8_lossy(&response.body[..end]).into_owned();
    (head, response.body[end + 2..].to_vec())
}

#[test]
fn half_of_a_request_opens_no_connection_to_an_upstream() {
    let echo = Upstream::echo();
    let server = before(&echo, "location / { proxy_pass http://UPSTREAM; }").start();
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(server.port)).collect();
    for client in &mut clients {
        client.send(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\nConnection: close\r\n\r\nhalf",
        );
    }
    let whole = exchange(
        server.port,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nwhole",
    );
    assert!(whole.text().ends_with("\n\nwhole"));
    assert_eq!(echo.connections(), 1, "that of the whole one");
    for client in &mut clients {
        client.send("-end");
        assert!(client.response().text().ends_with("\n\nhalf-end"));
    }
}

#[test]
fn with_buffering_off_a_request_is_passed_on_as_it_comes() {
    let echo = Upstream::echo();
    let lines = "location / { proxy_pass http://UPSTREAM; proxy_request_buffering off; }";
    let server = before(&echo, lines).start();
    let mut client = Client::connect(server.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf");
    let there = || echo.connections() == 1;
    eventually("a connection", there, || echo.connections().to_string());
    client.send("-end");
    assert!(client.response().text().ends_with("\n\nhalf-end"));
}

#[test]
fn a_long_request_waits_in_a_file_that_has_no_name() {
    let echo = Upstream::echo();
    let lines = format!("{IN_FOLDER} location / {{ proxy_pass http://UPSTREAM; }}");
    let server = before(&echo, &lines).start();
    let body = content(2 * MIB);
    let mut client = Client::connect(server.port);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(&body[..MIB]);
    wait_for_files(&server, 1);
    assert_eq!((names(&server), echo.connections()), (0, 0));
    client.send(&body[MIB..]);
    let (head, came) = echoed(&client.response());
    assert!(head.contains("Content-Length: 2097152"), "{head}");
    assert!(came == body, "every byte in its place");
    wait_for_files(&server, 0);
}

#[test]
fn chunks_become_a_length() {
    let echo = Upstream::echo();
    let lines = format!(
        "{IN_FOLDER} location / {{ proxy_pass http://UPSTREAM; }} \
         location /off {{ proxy_pass http://UPSTREAM; proxy_request_buffering off; proxy_http_version 1.0; }}"
    );
    let server = before(&echo, &lines).start();
    let body = content(300_000);
    for (path, len) in [("/", 10), ("/", 70_000), ("/", 300_000), ("/off", 300_000)] {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        .into_bytes();
        for chunk in body[..len].chunks(5000) {
            request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            request.extend_from_slice(chunk);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"0\r\n\r\n");
        let (head, came) = echoed(&exchange(server.port, request));
        assert!(
            head.contains(&format!("Content-Length: {}", came.len())),
            "{head}"
        );
        assert!(!head.contains("Transfer-Encoding"), "{head}");
        assert!(came == body[..len], "{path} {len}");
    }
}

#[test]
fn a_request_beyond_the_limit_never_reaches_an_upstream() {
    let echo = Upstream::echo();
    let lines = "client_max_body_size 100k; location / { proxy_pass http://UPSTREAM; }";
    let server = before(&echo, lines).start();
    let mut client = Client::connect(server.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = [b"8000\r\n", &[b'x'; 0x8000][..], b"\r\n"].concat();
    for _ in 0..4 {
        client.send(&chunk);
    }
    assert_eq!(client.response().status, 413);
    assert_eq!(echo.connections(), 0);
}

#[test]
fn a_client_that_leaves_takes_its_file_with_it() {
    let echo = Upstream::echo();
    let lines = format!(
        "access_log {{folder}}/access.log; {IN_FOLDER} location / {{ proxy_pass http://UPSTREAM; }}"
    );
    let server = before(&echo, &lines).start();
    let mut client = Client::connect(server.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n");
    client.send(content(MIB));
    wait_for_files(&server, 1);
    drop(client);
    wait_for_files(&server, 0);
    let log =
        || std::fs::read_to_string(server.folder.path().join("access.log")).unwrap_or_default();
    // As in nginx: the client aborted its own request.
    eventually("a line with its status", || log().contains("\" 400 "), log);
    assert_eq!(echo.connections(), 0);
}

#[test]
fn who_waits_to_be_asked_is_asked_before_the_upstream_is() {
    let echo = Upstream::echo();
    let server = before(&echo, "location / { proxy_pass http://UPSTREAM; }").start();
    let mut client = Client::connect(server.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert!(
        client
            .head()
            .expect("an interim response")
            .starts_with("HTTP/1.1 100")
    );
    assert_eq!(echo.connections(), 0);
    client.send("body");
    let text = client.response().text();
    assert!(
        text.ends_with("\n\nbody") && !text.contains("Expect"),
        "{text}"
    );
}

#[test]
fn the_next_upstream_gets_the_body_from_the_file() {
    let echo = Upstream::echo();
    let broken = Upstream::start(|mut wire| {
        let head = wire.head().unwrap_or_default();
        wire.body(&head);
    });
    let conf = format!(
        "events {{}}\nhttp {{\nupstream both {{ server 127.0.0.1:{}; server 127.0.0.1:{} backup; }}\n\
         server {{ listen 127.0.0.1:{{port}}; {IN_FOLDER} location / {{ proxy_pass http://both; }} }}\n}}\n",
        broken.port, echo.port
    );
    let server = setup(&conf).start();
    let body = content(MIB);
    let head = format!(
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let (_, came) = echoed(&exchange(server.port, [head.as_bytes(), &body].concat()));
    assert!(came == body, "the whole body, from its beginning");
    assert_eq!(broken.connections(), 1);
}

#[test]
fn applications_get_the_content_length_of_long_chunked_requests() {
    let application = Upstream::start(|mut wire| {
        if let Some(asked) = read_scgi(&mut wire) {
            let text = format!("{}", asked.body.len());
            wire.send(format!("Status: 200 OK\r\n\r\n{text}"));
        }
    });
    let lines = format!("{IN_FOLDER} location / {{ scgi_pass UPSTREAM; }}");
    let server = before(&application, &lines).start();
    let mut request =
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            .to_vec();
    for _ in 0..10 {
        request.extend_from_slice(b"8000\r\n");
        request.extend_from_slice(&[b'x'; 0x8000]);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(exchange(server.port, request).text(), "327680");
}

#[test]
fn a_client_that_reads_nothing_does_not_occupy_the_upstream() {
    let (upstream, _, served) = sending(LONG, "");
    let lines = format!("{IN_FOLDER} location / {{ proxy_pass http://UPSTREAM; }}");
    let server = before(&upstream, &lines).start();
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(server.port)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    wait_until_sent("the upstream is done", &served, 2);
    wait_for_files(&server, 2);
    assert_eq!(names(&server), 0);
    let expected = content(LONG);
    for mut client in clients {
        assert!(
            client.response().body == expected,
            "every byte in its place"
        );
    }
    wait_for_files(&server, 0);
}

#[test]
fn nor_does_one_of_http2() {
    let (upstream, _, served) = sending(LONG, "");
    let lines = format!("{IN_FOLDER} http2 on; location / {{ proxy_pass http://UPSTREAM; }}");
    let server = before(&upstream, &lines).start();
    let mut peer = Peer::connect(server.port);
    let id = peer.get("/");
    wait_until_sent("the upstream is done", &served, 1);
    wait_for_files(&server, 1);
    peer.give_window(0, 1 << 30);
    peer.give_window(id, 1 << 30);
    assert!(
        peer.response(id).body == content(LONG),
        "every byte in its place"
    );
    wait_for_files(&server, 0);
}

#[test]
fn filters_let_the_upstream_go_as_well() {
    let (upstream, _, served) = sending(LONG, "Content-Type: text/html\r\n");
    let lines = format!(
        "{IN_FOLDER} location / {{ proxy_pass http://UPSTREAM; sub_filter nothing-of-it x; }} \
         location /slow {{ proxy_pass http://UPSTREAM; limit_rate 1; }}"
    );
    let server = before(&upstream, &lines).start();
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    wait_until_sent("the upstream is done", &served, 1);
    assert!(
        client.response().body == content(LONG),
        "every byte in its place"
    );
    // A client limited to one byte a second.
    let mut client = Client::connect(server.port);
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until_sent("the upstream is done", &served, 2);
}

#[test]
fn where_nothing_may_wait_the_upstream_does() {
    let (upstream, sent, served) = sending(LONG, "X-Accel-Buffering: no\r\n");
    let lines = format!(
        "{IN_FOLDER} location / {{ proxy_pass http://UPSTREAM; }} \
         location /off {{ proxy_pass http://UPSTREAM; proxy_buffering off; }} \
         location /none {{ proxy_pass http://UPSTREAM; proxy_max_temp_file_size 0; }} \
         location /ignored {{ proxy_pass http://UPSTREAM; proxy_ignore_headers X-Accel-Buffering; }}"
    );
    let server = before(&upstream, &lines).start();
    let mut count = 0;
    for path in ["/", "/off", "/none"] {
        let mut client = Client::connect(server.port);
        let before = sent.load(Ordering::SeqCst);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let some = || sent.load(Ordering::SeqCst) > before + MIB as u64;
        eventually("sockets are filled", some, || {
            sent.load(Ordering::SeqCst).to_string()
        });
        assert_eq!(temp_files(&server), 0, "{path}");
        assert_eq!(served.load(Ordering::SeqCst), count, "{path}");
        let response = client.response();
        assert!(response.body == content(LONG), "{path}");
        assert_eq!(
            response.field("X-Accel-Buffering"),
            None,
            "it is for the server"
        );
        count += 1;
        wait_until_sent(path, &served, count);
        assert_eq!(temp_files(&server), 0, "{path}");
    }
    let mut client = Client::connect(server.port);
    client.send("GET /ignored HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until_sent("the upstream is done", &served, count + 1);
}

#[test]
fn an_upstream_may_ask_for_it() {
    let (upstream, _, served) = sending(LONG, "X-Accel-Buffering: yes\r\n");
    let lines =
        format!("{IN_FOLDER} location / {{ proxy_pass http://UPSTREAM; proxy_buffering off; }}");
    let server = before(&upstream, &lines).start();
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until_sent("the upstream is done", &served, 1);
}

#[test]
fn a_response_that_breaks_off_is_never_whole() {
    let half = content(LONG);
    let upstream = Upstream::start(move |mut wire| {
        wire.head();
        wire.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            2 * LONG
        ));
        wire.send(&half);
    });
    let lines = format!("{IN_FOLDER} location / {{ proxy_pass http://UPSTREAM; }}");
    let server = before(&upstream, &lines).start();
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_for_files(&server, 1);
    assert!(client.try_response().is_err(), "half of it is all there is");
    wait_for_files(&server, 0);
}

#[test]
fn on_a_full_disk_bodies_go_on_without_files() {
    let echo = Upstream::echo();
    let (upstream, sent, _) = sending(LONG, "");
    let lines = format!(
        "{IN_FOLDER} location / {{ proxy_pass http://UPSTREAM; }} \
         location /down {{ proxy_pass http://127.0.0.1:{}; }}",
        upstream.port
    );
    // The size limit of files is a megabyte or two.
    let server = before(&echo, &lines).blocks_max(2048).start();
    let body = content(8 * MIB);
    let head = format!(
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let (_, came) = echoed(&exchange(server.port, [head.as_bytes(), &body].concat()));
    assert!(came == body, "what was written, what was not, and the rest");
    server.wait_for_words("a body is forwarded without a temporary file");
    let mut client = Client::connect(server.port);
    client.send("GET /down HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let some = || sent.load(Ordering::SeqCst) > MIB as u64;
    eventually("sockets are filled", some, || {
        sent.load(Ordering::SeqCst).to_string()
    });
    assert!(
        client.response().body == content(LONG),
        "every byte in its place"
    );
}

#[test]
fn a_folder_that_cannot_be_used_is_reported_where_it_is_named() {
    let setup =
        site("proxy_temp_path {folder}/file/tmp;\nlocation / { proxy_pass http://127.0.0.1:1; }");
    setup.folder().write("file", "no folder");
    let run = finish(sluice(setup.folder()).args(["run", "--config", "nginx.conf"]));
    let said = text(&run.stderr);
    assert!(!run.status.success());
    assert!(said.contains("no temporary file can be made in"), "{said}");
    assert!(said.contains("nginx.conf:6:"), "{said}");
}

#[test]
fn a_reload_leaves_waiting_bodies_alone() {
    let echo = Upstream::echo();
    let lines = format!("{IN_FOLDER} location / {{ proxy_pass http://UPSTREAM; }}");
    let server = before(&echo, &lines).start();
    let body = content(MIB);
    let mut client = Client::connect(server.port);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(&body[..MIB / 2]);
    wait_for_files(&server, 1);
    let conf = server.folder.read("nginx.conf");
    let conf = conf.replace("location /", "location /new { return 204; } location /");
    server.folder.write("nginx.conf", conf);
    server.signal(Signal::Hangup);
    let is_new = || crate::client::ask(server.port, "/new").status == 204;
    eventually("the new configuration", is_new, String::new);
    client.send(&body[MIB / 2..]);
    assert!(echoed(&client.response()).1 == body);
}

#[test]
fn a_killed_server_leaves_no_file_behind() {
    let echo = Upstream::echo();
    let lines = format!("{IN_FOLDER} location / {{ proxy_pass http://UPSTREAM; }}");
    let mut server = before(&echo, &lines).start();
    let mut client = Client::connect(server.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n");
    client.send(content(MIB));
    wait_for_files(&server, 1);
    server.kill();
    assert_eq!(names(&server), 0);
}

#[test]
fn with_a_folder_bodies_of_a_caddyfile_wait_in_files() {
    let (upstream, _, served) = sending(LONG, "");
    let echo = Upstream::echo();
    let server = Server::start(&format!(
        ":{{port}} {{\n\thandle /echo {{\n\t\treverse_proxy 127.0.0.1:{} {{\n\t\t\trequest_buffers 16KiB\n\
         \t\t\tbuffer_folder {{folder}}/tmp\n\t\t}}\n\t}}\n\thandle {{\n\t\treverse_proxy 127.0.0.1:{} {{\n\
         \t\t\tresponse_buffers 64KiB\n\t\t\tbuffer_folder {{folder}}/tmp\n\t\t}}\n\t}}\n}}\n",
        echo.port, upstream.port
    ));
    let body = content(MIB);
    let mut client = Client::connect(server.port);
    client.send(format!(
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(&body[..MIB / 2]);
    wait_for_files(&server, 1);
    assert_eq!(echo.connections(), 0);
    client.send(&body[MIB / 2..]);
    assert!(echoed(&client.response()).1 == body);
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until_sent("the upstream is done", &served, 1);
    assert_eq!(server.metric("sluice_buffer_files"), 1);
    assert!(server.metric("sluice_buffer_bytes") > MIB as u64);
    assert!(server.metric("sluice_buffer_files_created_total") >= 2);
    drop(client);
    wait_for_files(&server, 0);
    let zero = || server.metric("sluice_buffer_bytes") == 0;
    eventually("nothing in files", zero, || server.metrics());
}
