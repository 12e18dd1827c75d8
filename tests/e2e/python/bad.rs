//! Applications that break the rules: the right status or a truncated connection, one line in the log, and other requests
//! that notice nothing.

use super::ws_client::{WebSocket, handshake};
use super::{lines_with, start};
use crate::client::Client;
use crate::harness::{Server, eventually};
use crate::wire::Wire;

/// The number of errors in the log.
fn errors(server: &Server) -> usize {
    lines_with(server, "\"level\":\"error\"").len()
}

/// Checks the status for each path, that nothing leaks to the client, that the log has one error more, and that the
/// application goes on.
fn check(server: &Server, expected: &[(&str, u16)]) {
    let before = errors(server);
    for (at, (path, status)) in expected.iter().enumerate() {
        let response = server.ask(path);
        let shown = || format!("after {path}: {}", server.stderr());
        eventually(
            "one error more",
            || errors(server) == before + at + 1,
            shown,
        );
        assert_eq!(response.status, *status, "{path} {}", response.text());
        assert!(!response.head.contains("evil"), "{path} {}", response.head);
        assert!(!response.text().contains("secret detail"), "{path}");
        let fine = server.ask("/fine");
        assert_eq!(
            (fine.status, fine.text().as_str()),
            (200, "fine"),
            "after {path}"
        );
    }
}

/// A response whose body ends too early must not look complete.
fn is_truncated(server: &Server, path: &str) -> bool {
    let mut client = Client::connect(server.port);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.try_response().is_err()
}

#[test]
fn of_wsgi() {
    let Some(server) = start("module_wsgi bad:app") else {
        return;
    };
    check(
        &server,
        &[
            ("/status-number", 500),
            ("/status-text", 500),
            ("/header-crlf", 500),
            ("/header-name", 500),
            ("/hop-by-hop", 500),
            ("/body-text", 500),
            ("/body-number", 500),
            ("/length-text", 500),
            ("/no-start", 500),
            ("/started-twice", 500),
            ("/raises", 500),
            ("/system-exit", 500),
        ],
    );
    server.wait_for_words("secret detail of the traceback");
    let errors = lines_with(&server, "secret detail of the traceback");
    assert_eq!(
        errors.len(),
        1,
        "one entry with the whole traceback: {errors:?}"
    );
    assert!(
        errors[0].contains("Traceback (most recent call last)"),
        "{errors:?}"
    );
}

#[test]
fn lengths_that_disagree_in_wsgi() {
    let Some(server) = start("module_wsgi bad:app") else {
        return;
    };
    let long = server.ask("/too-long");
    assert!(
        long.status >= 500 || long.body == b"more",
        "{} {}",
        long.head,
        long.text()
    );
    // What is known to be wrong before the head was sent is an error; later on the connection is cut.
    assert_eq!(server.ask("/too-short").status, 500);
    assert!(is_truncated(&server, "/raises-late"));
    assert_eq!(server.ask("/fine").text(), "fine");
}

#[test]
fn of_asgi() {
    let Some(server) = start("module_asgi bad_asgi:app") else {
        return;
    };
    check(
        &server,
        &[
            ("/status-text", 500),
            ("/header-crlf", 500),
            ("/body-text", 500),
            ("/body-first", 500),
            ("/unknown-event", 500),
            ("/returns", 500),
            ("/raises", 500),
        ],
    );
    let long = server.ask("/too-long");
    assert!(
        long.status >= 500 || long.body == b"more",
        "{} {}",
        long.head,
        long.text()
    );
    assert_eq!(server.ask("/too-short").status, 500);
    assert!(is_truncated(&server, "/returns-early"));
    assert!(is_truncated(&server, "/raises-late"));
    assert_eq!(server.ask("/fine").text(), "fine");
}

#[test]
fn of_esgi_and_rsgi() {
    for app in ["module_esgi bad_esgi:app", "module_rsgi bad_rsgi:app"] {
        let Some(server) = start(app) else { return };
        check(
            &server,
            &[
                ("/status-text", 500),
                ("/status-number", 500),
                ("/header-crlf", 500),
                ("/header-pair", 500),
                ("/body-text", 500),
                ("/too-long", 500),
                ("/too-short", 500),
                ("/returns", 500),
                ("/raises", 500),
                ("/no-file", 500),
            ],
        );
        // What is wrong after a complete response is only an entry of the log.
        let twice = server.ask("/twice");
        assert_eq!((twice.status, twice.text().as_str()), (200, "once"));
        server.wait_for_words("responded already");
        assert!(is_truncated(&server, "/stream-raises"), "{app}");
        assert!(is_truncated(&server, "/stream-short"), "{app}");
        let mut client = Client::connect(server.port);
        client.send("POST /exits HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.response().status, 502, "{app}");
        assert_eq!(server.ask("/fine").text(), "fine");
    }
}

/// Before the handshake is complete its response says so, afterwards a Close frame.
#[test]
fn of_websockets() {
    let Some(server) = start("module_asgi bad_asgi:app") else {
        return;
    };
    let before = errors(&server);
    let early = ["send-first", "ws-returns", "ws-raises", "ws-header"];
    for path in early {
        let mut client = Client::connect(server.port);
        client.send(handshake(&format!("/{path}"), ""));
        assert_eq!(client.response().status, 500, "{path}");
    }
    let late = [
        "accept-twice",
        "send-nothing",
        "send-number",
        "bad-code",
        "raises-open",
    ];
    for path in late {
        let mut socket = WebSocket::open(server.port, &format!("/{path}"), "");
        assert_eq!(socket.closed().0, 1011, "{path}");
    }
    let count = early.len() + late.len();
    let all = || errors(&server) == before + count;
    eventually("one error for each", all, || server.stderr());
    assert_eq!(server.ask("/fine").text(), "fine");
}

#[test]
fn a_process_that_dies_is_replaced_and_its_request_gets_502() {
    let Some(server) = start("module_wsgi bad:app") else {
        return;
    };
    for path in ["/exits", "/segfault", "/aborts"] {
        // Not idempotent: it is sent once.
        let mut client = Client::connect(server.port);
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(client.response().status, 502, "{path}");
        let fine = server.ask("/fine");
        assert_eq!(
            (fine.status, fine.text().as_str()),
            (200, "fine"),
            "after {path}"
        );
    }
}

/// A GET that kills its process is sent to others, but not for ever.
#[test]
fn a_request_that_kills_every_process_takes_three() {
    let Some(server) = start("module_wsgi bad:app\nworkers 4") else {
        return;
    };
    let response = server.ask("/exits");
    assert_eq!(response.status, 502);
    let restarts = || {
        let page = server.metrics();
        let line = page
            .lines()
            .find(|line| line.starts_with("sluice_python_restarts_total"));
        line.and_then(|line| line.rsplit(' ').next())
            .unwrap_or_default()
            .to_owned()
    };
    eventually("three are replaced", || restarts() == "3", restarts);
    assert_eq!(server.ask("/fine").text(), "fine");
}

#[test]
fn a_request_that_hangs_gets_504_and_its_process_is_replaced() {
    let Some(server) = start("module_wsgi bad:app\nrequest_timeout 1s\nthreads 1") else {
        return;
    };
    for path in ["/hangs", "/spins"] {
        let response = server.ask(path);
        assert_eq!(response.status, 504, "{path}");
        assert_eq!(server.ask("/fine").text(), "fine", "after {path}");
    }
    // The stack of the thread that hung.
    server.wait_for_words("in hangs");
}

#[test]
fn an_event_loop_that_is_blocked_is_replaced() {
    let Some(server) = start("module_asgi bad_asgi:app\nrequest_timeout 1s") else {
        return;
    };
    assert_eq!(server.ask("/blocks").status, 504);
    assert_eq!(server.ask("/fine").text(), "fine");
    assert_eq!(server.ask("/hangs").status, 504);
    assert_eq!(server.ask("/fine").text(), "fine");
}

#[test]
fn a_full_queue_sheds_with_retry_after() {
    let Some(server) = start("module_wsgi bad:app\nthreads 1\nqueue_size 2\nqueue_timeout 1s")
    else {
        return;
    };
    let mut stuck: Vec<Client> = (0..12)
        .map(|_| {
            let mut client = Client::connect(server.port);
            client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    let responses: Vec<_> = stuck.iter_mut().map(Client::response).collect();
    let shed: Vec<_> = responses
        .iter()
        .filter(|response| response.status == 503)
        .collect();
    assert!(
        !shed.is_empty() && shed.len() < responses.len(),
        "{} of 12",
        shed.len()
    );
    for response in &shed {
        let after = response
            .field("Retry-After")
            .and_then(|text| text.parse::<u32>().ok());
        assert!(
            after.is_some_and(|seconds| seconds >= 1),
            "{}",
            response.head
        );
    }
}

#[test]
fn an_endless_response_takes_no_memory() {
    let Some(server) = start("module_wsgi bad:app\nresponse_buffers off") else {
        return;
    };
    assert_eq!(server.ask("/fine").status, 200);
    let before = server.peak();
    let mut wire = Wire::connect(server.port);
    wire.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(wire.take(300_000_000).len(), 300_000_000);
    let grown = server.grown(before);
    assert!(grown < 16 * 1024, "{grown} KiB");
    assert_eq!(server.ask("/fine").status, 200);
}
