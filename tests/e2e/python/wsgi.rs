//! WSGI (PEP 3333) as applications see it.

use std::io::Read;

use sluice_net::sys::limits::raise_open_files;

use super::{caddyfile, digest, directive, get, lines_with, metric, pattern, pid, post, start};
use crate::client::{Client, exchange};
use crate::harness::{Server, eventually};
use crate::support::abilities::skipped_part;
use crate::support::python::Python;
use crate::wire::Wire;

const APP: &str = "module_wsgi wsgi:app";

/// The environment that the application got.
fn environ(port: u16, request: &str) -> serde_json::Value {
    let response = exchange(port, request);
    assert_eq!(response.status, 200, "{}", response.head);
    serde_json::from_slice(&response.body).expect("it is JSON")
}

#[test]
fn the_environment_is_that_of_pep_3333() {
    let Some(server) = start(APP) else { return };
    let found = environ(
        server.port,
        "GET /caf%C3%A9/a%2Fb?x=1&y=%41 HTTP/1.1\r\nHost: example.com:81\r\nX-One: 1\r\nX-One: 2\r\nX_Two: spoofed\r\n\
         Proxy: http://evil\r\nCookie: a=1\r\nCookie: b=2\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n\
         Content-Type: text/x\r\nConnection: close\r\n\r\n",
    );
    for (name, value) in [
        ("REQUEST_METHOD", "GET"),
        // The bytes of the path, decoded as latin-1.
        ("PATH_INFO", "/caf\u{c3}\u{a9}/a/b"),
        ("SCRIPT_NAME", ""),
        ("QUERY_STRING", "x=1&y=%41"),
        ("SERVER_NAME", "example.com"),
        ("SERVER_SOFTWARE", "sluice"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("HTTP_HOST", "example.com:81"),
        ("HTTP_COOKIE", "a=1; b=2"),
        ("CONTENT_TYPE", "text/x"),
        ("wsgi.url_scheme", "http"),
    ] {
        assert_eq!(found[name], value, "{name} of {found}");
    }
    let one = found["HTTP_X_ONE"].as_str().unwrap_or_default();
    assert_eq!(one.replace(' ', ""), "1,2");
    assert_eq!(found["wsgi.version"], serde_json::json!([1, 0]));
    for absent in [
        "HTTP_PROXY",
        "HTTP_X_TWO",
        "HTTP_X_FORWARDED_FOR",
        "HTTP_X_FORWARDED_PROTO",
        "HTTP_CONTENT_TYPE",
    ] {
        assert!(found[absent].is_null(), "{absent} of {found}");
    }
}

#[test]
fn the_mount_path_is_the_script_name() {
    let Some(python) = Python::find() else { return };
    let site = format!("handle_path /app/* {{\n{}\n}}", directive(&python, APP));
    let server = Server::start(&caddyfile(&site));
    let request = "GET /app/a%20b/c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let found = environ(server.port, request);
    assert_eq!(found["SCRIPT_NAME"], "/app");
    assert_eq!(found["PATH_INFO"], "/a b/c");
}

#[test]
fn a_trusted_proxy_names_the_client_and_its_scheme() {
    let Some(python) = Python::find() else { return };
    let text = caddyfile(&directive(&python, APP));
    let text = text.replace("protocols h1 h2c", "trusted_proxies static 127.0.0.0/8");
    let server = Server::start(&text);
    let found = environ(
        server.port,
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(found["REMOTE_ADDR"], "192.0.2.7");
    assert_eq!(found["wsgi.url_scheme"], "https");
    assert_eq!(found["HTTP_X_FORWARDED_FOR"], "192.0.2.7");
}

#[test]
fn bodies_of_all_sizes_arrive_whole() {
    let Some(server) = start(APP) else { return };
    for length in [0, 1, 1000, 65_536, 65_537, 300_000, 5_000_000] {
        let body = pattern(length);
        let response = post(server.port, "/digest", &body);
        assert_eq!(response.text(), digest(&body), "{length}");
    }
    let mut client = Client::connect(server.port);
    client.send(
        "POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n5\r\ndefgh\r\n0\r\n\r\n",
    );
    assert_eq!(client.response().text(), digest(b"abcdefgh"));
    client.send("POST /lines HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab\ncd\r\nef");
    assert_eq!(client.response().text(), "[3, 4, 2]");
    client.send(
        "POST /digest HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
    );
    assert!(
        client
            .head()
            .expect("an interim response")
            .contains("100 Continue")
    );
    client.send("hi");
    assert_eq!(client.response().text(), digest(b"hi"));
}

#[test]
fn a_large_upload_takes_a_file_and_no_memory() {
    let Some(server) = start(APP) else { return };
    assert_eq!(server.ask("/pid").status, 200);
    let before = server.peak();
    let body = pattern(64 << 20);
    assert_eq!(post(server.port, "/digest", &body).text(), digest(&body));
    let grown = server.grown(before);
    assert!(grown < 24 * 1024, "{grown} KiB for 64 MiB");
}

#[test]
fn a_body_that_is_not_read_does_not_disturb_the_next_request() {
    let Some(server) = start(APP) else { return };
    let mut client = Client::connect(server.port);
    client.send("POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nGET /evil");
    assert_eq!(client.response().text(), "did not read");
    assert_eq!(client.get("/unread").text(), "did not read");
}

#[test]
fn responses_of_all_kinds() {
    let Some(server) = start(APP) else { return };
    let mut client = Client::connect(server.port);
    let streamed = client.get("/streamed");
    assert_eq!(
        streamed.text(),
        "piece 0\npiece 1\npiece 2\npiece 3\npiece 4\n"
    );
    assert_eq!(client.get("/closed").text(), "1", "`close()` was called");
    assert_eq!(client.get("/writing").text(), "written, returned");
    let source = std::fs::read(super::apps().join("wsgi.py")).expect("it is there");
    assert_eq!(client.get("/wrapped").body, source);
    assert_eq!(client.get("/wrapped-memory").text(), "no descriptor");
    let replaced = client.get("/replaced");
    assert_eq!(
        (replaced.status, replaced.text().as_str()),
        (418, "replaced")
    );
    assert_eq!(replaced.field("X-First"), None);
    let cookies = client.get("/cookies");
    assert_eq!(cookies.head.matches("Set-Cookie: ").count(), 2);
    let empty = client.get("/empty");
    assert_eq!((empty.status, empty.field("Content-Length")), (204, None));
    let large = client.get("/large?3000000");
    let expected: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
    assert!(large.body == expected, "{} bytes", large.body.len());
    client.send("HEAD /large?1000 HTTP/1.1\r\nHost: a\r\n\r\nGET /pid HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head().expect("a response");
    assert!(head.contains("Content-Length: 1000\r\n"), "{head}");
    assert_eq!(client.response().status, 200, "no body came with the head");
}

#[test]
fn the_process_runs_where_the_directive_says() {
    let Some(server) = start(&format!("{APP}\nenv_var GREETING \"good morning\"")) else {
        return;
    };
    let text = server.ask("/where").text();
    let lines: Vec<&str> = text.lines().collect();
    let apps = super::apps().display().to_string();
    assert_eq!(lines[..2], [apps.as_str(), apps.as_str()]);
    assert!(
        lines[2].starts_with(
            env!("CARGO_MANIFEST_DIR")
                .rsplit_once("/bin")
                .unwrap_or_default()
                .0
        )
    );
    assert_eq!(server.ask("/variable?GREETING").text(), "good morning");
    assert_eq!(server.ask("/variable?NOTIFY_SOCKET").text(), "(unset)");
}

#[test]
fn what_an_application_prints_is_in_the_log() {
    let Some(server) = start(APP) else { return };
    assert_eq!(server.ask("/log").text(), "logged");
    server.wait_for_words("a line on standard output");
    server.wait_for_words("a line on wsgi.errors");
    let line = lines_with(&server, "a line on standard output").remove(0);
    let entry: serde_json::Value = serde_json::from_str(&line).expect("an entry of the log");
    assert_eq!(entry["python_app"], "apps/wsgi:app");
    assert_eq!(entry["worker"], 0);
}

#[test]
fn the_access_log_names_application_and_process() {
    let Some(server) = start(APP) else { return };
    server.ask("/pid");
    let log = || server.folder.read("access.log");
    eventually("an entry", || log().contains("\"/pid\""), log);
    let log = log();
    let entry: serde_json::Value =
        serde_json::from_str(log.lines().next().expect("a line")).expect("it is JSON");
    assert_eq!(entry["python_app"], "apps/wsgi:app");
    assert_eq!(entry["worker"].to_string().trim_matches('"'), "0");
}

#[test]
fn slow_requests_get_threads_of_their_own() {
    let Some(server) = start(&format!("{APP}\nthreads 4")) else {
        return;
    };
    // Four at a time: if they ran one by one, the last one would be asked for in the queue of a thread.
    let asked: Vec<_> = (0..4)
        .map(|_| {
            let port = server.port;
            std::thread::spawn(move || get(port, "/slow?0.5", "").text())
        })
        .collect();
    let said: Vec<String> = asked
        .into_iter()
        .map(|one| one.join().expect("a response"))
        .collect();
    let threads: std::collections::BTreeSet<&String> = said.iter().collect();
    assert!(threads.len() > 1, "{said:?}");
}

/// The response is in sluice, not in the thread of the application.
#[test]
fn a_slow_client_holds_no_thread() {
    let Some(server) = start(&format!("{APP}\nthreads 1")) else {
        return;
    };
    let mut slow: Vec<Wire> = (0..5)
        .map(|_| {
            let mut wire = Wire::connect(server.port);
            wire.send("GET /large?8000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            wire
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(server.ask("/pid").status, 200, "the only thread is free");
    }
    for wire in &mut slow {
        let mut bytes = Vec::new();
        wire.reader.read_to_end(&mut bytes).expect("a response");
        assert!(bytes.len() > 8_000_000);
    }
}

/// A body that arrives slowly is collected before the application gets the request.
#[test]
fn slow_uploads_hold_no_thread() {
    let Some(server) = start(&format!("{APP}\nthreads 1")) else {
        return;
    };
    let mut slow: Vec<Client> = (0..20)
        .map(|_| {
            let mut client = Client::connect(server.port);
            client.send("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
            client
        })
        .collect();
    assert_eq!(server.ask("/pid").status, 200, "the only thread is free");
    for client in &mut slow {
        client.send("cd");
        assert_eq!(client.response().text(), digest(b"abcd"));
    }
}

/// Half of them are in the middle of their heads, half in the middle of their bodies.
#[test]
fn ten_thousand_slow_clients_cost_no_threads() {
    let Some(server) = start(&format!("{APP}\nthreads 4")) else {
        return;
    };
    // Two descriptors for each: one of this process, one of the server, which has the same limit. Other tests need some.
    let files = raise_open_files().expect("limits can be read");
    let count =
        usize::try_from(files).map_or(10_000, |files| files.saturating_sub(4_000).min(10_000));
    if count < 10_000 {
        skipped_part(format_args!("{count} clients: {files} files may be open"));
    }
    let process = pid(&server);
    let threads = || {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
        tasks.expect("the process is there").count()
    };
    let before = threads();
    let mut slow: Vec<Client> = (0..count)
        .map(|at| {
            let mut client = Client::connect(server.port);
            client.send(match at % 2 {
                0 => "POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab",
                _ => "POST /digest HTTP/1.1\r\nHost: a\r\nContent-Le",
            });
            client
        })
        .collect();
    for _ in 0..10 {
        assert_eq!(pid(&server), process);
    }
    assert_eq!(threads(), before);
    let in_flight = metric(&server, "sluice_python_in_flight_requests");
    assert_eq!(in_flight, 0, "none has reached the application");
    for (at, client) in slow.iter_mut().enumerate().rev().take(200) {
        client.send(match at % 2 {
            0 => "cd",
            _ => "ngth: 4\r\n\r\nabcd",
        });
        assert_eq!(client.response().text(), digest(b"abcd"));
    }
}

#[test]
fn a_client_that_leaves_ends_an_endless_response() {
    let Some(server) = start(&format!("{APP}\nthreads 1\nresponse_buffers off")) else {
        return;
    };
    let mut wire = Wire::connect(server.port);
    wire.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(wire.take(1_000_000).len(), 1_000_000);
    drop(wire);
    // The only thread is free again, and the iterable was closed.
    assert_eq!(server.ask("/closed").text(), "1");
}

#[test]
fn files_beside_the_application_are_served_without_it() {
    let Some(python) = Python::find() else { return };
    let site = directive(
        &python,
        &format!("{APP}\nstatic /static/ {{folder}}/public"),
    );
    let setup = crate::harness::Setup::new(&caddyfile(&site));
    setup.folder().write("public/css/a.css", "body {}");
    let server = setup.start();
    let response = server.ask("/static/css/a.css");
    assert_eq!(response.text(), "body {}");
    assert_eq!(
        response.field("Content-Type"),
        Some("text/css; charset=utf-8")
    );
    assert_eq!(server.ask("/static/none.css").status, 404);
    assert_eq!(server.ask("/static").status, 200, "the application's");
}

#[test]
fn a_factory_makes_the_application() {
    let Some(server) = start("module_wsgi wsgi:create_app()") else {
        return;
    };
    assert_eq!(server.ask("/unread").text(), "did not read");
}

/// `time.sleep` lets other greenlets run.
#[test]
fn under_gevent_each_request_has_a_greenlet() {
    let Some(server) = start(&format!("{APP}\nruntime gevent")) else {
        return;
    };
    let mut clients: Vec<Client> = (0..50).map(|_| Client::connect(server.port)).collect();
    for client in &mut clients {
        client.send("GET /slow?1 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let first = clients[0].response().text();
    let process = first.split(' ').next().unwrap_or_default();
    for client in &mut clients[1..] {
        assert!(client.response().text().starts_with(process));
    }
    let body = pattern(300_000);
    assert_eq!(post(server.port, "/digest", &body).text(), digest(&body));
}
