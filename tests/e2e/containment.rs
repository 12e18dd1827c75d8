//! Faults that must not spread.

use crate::client::{Client, ask};
use crate::harness::Server;

const SITE: &str = "{\n\tadmin off\n}\n:{port} {\n\trespond \"hello\"\n}\n";

#[test]
fn clients_that_go_away_leave_nothing_behind() {
    let server = Server::start(SITE);
    assert_eq!(server.ask("/").status, 200);
    let before = server.open_files();
    for bytes in [
        "",
        "G",
        "GET / HTTP/1.1\r\nHost: a",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
    ] {
        for _ in 0..25 {
            Client::connect(server.port).send(bytes);
        }
    }
    crate::harness::eventually(
        "the connections to go",
        || server.open_files() <= before,
        || format!("{} files, {before} before", server.open_files()),
    );
    assert_eq!(ask(server.port, "/").text(), "hello");
}

#[test]
fn garbage_is_refused_or_closed_and_others_are_served() {
    let server = Server::start(SITE);
    let mut other = Client::connect(server.port);
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        &[b'a'; 100_000],
    ] {
        let mut client = Client::connect(server.port);
        // The server may have closed before it has read everything.
        let _ = client.try_send(garbage);
        if let Ok(response) = client.try_response() {
            assert!(response.status >= 400, "{garbage:?}: {response:?}");
        }
        assert_eq!(other.get("/").text(), "hello");
    }
}
