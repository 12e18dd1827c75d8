//! ASGI 3 as applications see it: HTTP and lifespan.

use super::{caddyfile, digest, directive, pattern, post, start};
use crate::client::{Client, exchange};
use crate::h2::peer::{DATA, END_STREAM, Peer};
use crate::harness::{Server, Setup, eventually};
use crate::support::python::Python;
use crate::wire::Wire;

const APP: &str = "module_asgi asgi:app";

#[test]
fn the_scope_is_that_of_asgi_3() {
    let Some(server) = start(APP) else { return };
    let response = exchange(
        server.port,
        "GET /caf%C3%A9/a%2Fb?x=%41 HTTP/1.1\r\nHost: example.com:81\r\nX-One: 1\r\nX-One: 2\r\n\
         X-Forwarded-For: 6.6.6.6\r\nConnection: close\r\n\r\n",
    );
    let scope: serde_json::Value = serde_json::from_slice(&response.body).expect("it is JSON");
    assert_eq!(scope["type"], "http");
    assert_eq!(scope["asgi"]["version"], "3.0");
    assert_eq!(scope["http_version"], "1.1");
    assert_eq!(scope["method"], "GET");
    assert_eq!(scope["scheme"], "http");
    assert_eq!(scope["path"], "/caf\u{e9}/a/b");
    assert_eq!(scope["raw_path"], "/caf%C3%A9/a%2Fb");
    assert_eq!(scope["query_string"], "x=%41");
    assert_eq!(scope["root_path"], "");
    assert_eq!(scope["client"][0], "127.0.0.1");
    assert_eq!(scope["server"][1], server.port);
    let headers = scope["headers"].as_array().expect("a list");
    let has = |name: &str, value: &str| headers.contains(&serde_json::json!([name, value]));
    assert!(
        has("host", "example.com:81") && has("x-one", "1") && has("x-one", "2"),
        "{scope}"
    );
    let names: Vec<&str> = headers.iter().filter_map(|pair| pair[0].as_str()).collect();
    assert!(!names.contains(&"x-forwarded-for"), "{scope}");
}

#[test]
fn the_mount_path_is_the_root_path() {
    let Some(python) = Python::find() else { return };
    let site = format!("handle_path /app/* {{\n{}\n}}", directive(&python, APP));
    let server = Server::start(&caddyfile(&site));
    let scope: serde_json::Value =
        serde_json::from_slice(&server.ask("/app/x").body).expect("it is JSON");
    assert_eq!(scope["root_path"], "/app");
    // Since version 2.4 of the specification `path` includes it.
    let path = scope["path"].as_str().unwrap_or_default();
    assert!(path == "/app/x" || path == "/x", "{scope}");
}

#[test]
fn bodies_of_all_sizes_arrive_whole() {
    let Some(server) = start(APP) else { return };
    for length in [0, 1, 65_536, 300_000, 20_000_000] {
        let body = pattern(length);
        let response = post(server.port, "/digest", &body);
        assert_eq!(response.text(), digest(&body), "{length}");
    }
    let mut client = Client::connect(server.port);
    client.send("POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(client.response().text(), digest(b"abc"));
}

#[test]
fn request_and_response_flow_at_the_same_time() {
    let Some(server) = start(APP) else { return };
    let mut wire = Wire::connect(server.port);
    wire.send("POST /both-ways HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for word in ["one", "two", "three"] {
        wire.send(format!("{:x}\r\n{word}\r\n", word.len()));
        if word == "one" {
            wire.head().expect("the head of the response");
        }
        assert_eq!(wire.chunk().expect("a chunk"), word.as_bytes());
    }
    wire.send("0\r\n\r\n");
    assert_eq!(wire.chunk().expect("the end"), b"");
}

/// The first events of a stream, which may share a chunk.
fn events(wire: &mut Wire, count: usize) -> String {
    let mut text = String::new();
    while text.matches("\n\n").count() < count {
        text += &String::from_utf8(wire.chunk().expect("an event")).expect("it is text");
    }
    let (at, end) = text.match_indices("\n\n").nth(count - 1).expect("as many");
    text[..at + end.len()].to_owned()
}

#[test]
fn events_stream_and_a_client_that_leaves_is_noticed() {
    let Some(server) = start(APP) else { return };
    let mut wire = Wire::connect(server.port);
    wire.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = wire.head().expect("a head");
    assert!(head.iter().any(|line| line.contains("text/event-stream")));
    assert_eq!(events(&mut wire, 3), "data: 0\n\ndata: 1\n\ndata: 2\n\n");
    drop(wire);
    let count = || server.ask("/disconnects").text();
    eventually("the application notices", || count() == "1", count);
}

#[test]
fn a_client_that_leaves_ends_an_endless_response() {
    let Some(server) = start(APP) else { return };
    let mut wire = Wire::connect(server.port);
    wire.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(wire.take(1_000_000).len(), 1_000_000);
    drop(wire);
    let count = || server.ask("/disconnects").text();
    eventually("the application notices", || count() == "1", count);
}

#[test]
fn a_slow_client_holds_a_window_of_an_endless_response() {
    let Some(server) = start(APP) else { return };
    assert_eq!(server.ask("/pid").status, 200);
    let before = server.peak();
    let mut wires: Vec<Wire> = (0..30).map(|_| Wire::connect(server.port)).collect();
    for wire in &mut wires {
        wire.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(wire.take(100_000).len(), 100_000);
    }
    for _ in 0..20 {
        assert_eq!(server.ask("/pid").status, 200);
    }
    let grown = server.grown(before);
    // Without a limit it would be all that the application can produce.
    assert!(grown < 96 * 1024, "{grown} KiB for thirty slow clients");
}

#[test]
fn early_hints_trailers_and_files() {
    let Some(server) = start(APP) else { return };
    let mut client = Client::connect(server.port);
    client.send("GET /hints HTTP/1.1\r\nHost: a\r\n\r\n");
    let interim = client.head().expect("an interim response");
    assert!(interim.starts_with("HTTP/1.1 103 "), "{interim}");
    assert!(
        interim.contains("Link: </style.css>; rel=preload\r\n")
            || interim.contains("link: </style.css>; rel=preload\r\n"),
        "{interim}"
    );
    assert_eq!(client.response().text(), "hinted");
    let file = client.get("/path");
    assert_eq!(file.text(), "from a file\n".repeat(1000));
    let mut wire = Wire::connect(server.port);
    wire.send("GET /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
    wire.head().expect("a head");
    assert_eq!(wire.chunk().expect("a chunk"), b"with trailers");
    assert_eq!(wire.chunk().expect("the last chunk"), b"");
    let trailers = wire.head().expect("trailers");
    assert!(
        trailers
            .iter()
            .any(|line| line.eq_ignore_ascii_case("x-sum: 13")),
        "{trailers:?}"
    );
}

#[test]
fn many_requests_run_at_once_in_one_process() {
    let Some(server) = start(APP) else { return };
    let mut clients: Vec<Client> = (0..50).map(|_| Client::connect(server.port)).collect();
    for client in &mut clients {
        client.send("GET /slow?1 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.response().text(), "slept");
    }
    // One after the other they would have taken 50 s, which is beyond the timeout of a client.
}

#[test]
fn lifespan_starts_and_ends_the_application() {
    let Some(python) = Python::find() else { return };
    let options = format!("{APP}\nlifespan on\nenv_var SHUTDOWN_FILE {{folder}}/ended");
    let mut server = Server::start(&caddyfile(&directive(&python, &options)));
    let scope: serde_json::Value =
        serde_json::from_slice(&server.ask("/").body).expect("it is JSON");
    assert_eq!(scope["state"]["greeting"], "from lifespan");
    server.signal(sluice_net::sys::process::Signal::Terminate);
    assert!(server.wait_for_end().success());
    assert_eq!(server.folder.read("ended"), "shut down");
}

#[test]
fn a_failed_lifespan_refuses_the_configuration() {
    let Some(python) = Python::find() else { return };
    let options = format!("{APP}\nlifespan on\nenv_var LIFESPAN fails");
    let setup = Setup::new(&caddyfile(&directive(&python, &options)));
    let output = crate::harness::run_to_end(setup.folder(), &["run"]);
    let said = crate::harness::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no database"), "{said}");
    assert!(
        said.contains("Caddyfile:"),
        "the line of the directive: {said}"
    );
}

#[test]
fn http_2_requests_reach_the_application() {
    let Some(server) = start(APP) else { return };
    let mut peer = Peer::connect(server.port);
    let response = peer.fetch("/x");
    let scope: serde_json::Value = serde_json::from_str(&response.text()).expect("it is JSON");
    assert_eq!(scope["http_version"], "2");
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/digest"),
    ];
    let id = peer.begin_request(&fields);
    peer.send(DATA, 0, id, b"ab");
    peer.send(DATA, END_STREAM, id, b"cd");
    assert_eq!(peer.response(id).text(), digest(b"abcd"));
}
