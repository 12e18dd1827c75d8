//! Interim responses, and requests whose upload and response are independent.

use super::*;

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\
    Connection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 9\r\n\r\n";

/// Sends `before` in response to each request, and continues when the test says so.
fn hinting(before: &'static str) -> (Fake, std::sync::mpsc::SyncSender<()>) {
    let (go, wait) = std::sync::mpsc::sync_channel(0);
    let wait = Mutex::new(wait);
    let fake = Fake::new(move |mut peer| {
        while peer.head().is_some() {
            peer.send(before);
            if wait.lock().unwrap().recv().is_err() {
                return;
            }
            peer.send(HI);
        }
    });
    (fake, go)
}

#[test]
fn early_hints_reach_the_client_before_the_response() {
    let (fake, go) = hinting(HINTS);
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send(GET);
        let hints = client.response();
        assert_eq!(hints.status(), 103);
        let lines: Vec<_> = hints.head.trim_end().lines().skip(1).collect();
        assert_eq!(lines, ["Link: </a.css>; rel=preload"]);
        // The response has not started: the upstream is still waiting.
        go.send(()).unwrap();
        let response = client.response();
        assert_eq!((response.status(), &response.body[..]), (200, &b"hi"[..]));
        assert_eq!(response.field("Link"), None);
    }
}

#[test]
fn early_hints_and_the_response_in_one_read_keep_their_order() {
    let fake = Fake::new(|mut peer| {
        while peer.head().is_some() {
            peer.send(format!("{HINTS}HTTP/1.1 102 Processing\r\n\r\n{HINTS}{HI}"));
        }
    });
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    client.send(format!("{GET}{GET}"));
    for _ in 0..2 {
        let statuses: Vec<u16> = (0..4).map(|_| client.response().status()).collect();
        assert_eq!(statuses, [103, 102, 103, 200]);
    }
}

#[test]
fn http10_clients_get_no_interim_responses_and_continue_is_not_forwarded() {
    let (fake, go) = hinting(HINTS);
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.0\r\nHost: x\r\n\r\n");
    go.send(()).unwrap();
    assert_eq!(client.response().status(), 200);
    let (fake, go) = hinting("HTTP/1.1 100 Continue\r\n\r\n");
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    client.send(GET);
    go.send(()).unwrap();
    assert_eq!(client.response().status(), 200);
}

#[test]
fn hints_without_end_are_ended() {
    let flood = Fake::new(|mut peer| {
        peer.head();
        while peer.socket.write_all(HINTS.as_bytes()).is_ok() {}
    });
    let proxy = Proxy::to(&[&flood]);
    let mut client = proxy.connect();
    client.send(GET);
    let mut hints = 0;
    let last = loop {
        match client.response().status() {
            103 => hints += 1,
            status => break status,
        }
    };
    assert_eq!(last, 502);
    assert!(hints <= 16, "{hints}");
}

#[test]
fn hints_come_with_an_expected_continue() {
    let (fake, go) = hinting("");
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(client.response().status(), 100);
    client.send("ab");
    go.send(()).unwrap();
    assert_eq!(client.response().status(), 200);
}

/// The upstream sends a long response at once while it still reads the upload; the client reads nothing before it has
/// sent everything.
#[test]
fn an_upload_ends_while_nobody_reads_the_response() {
    const BYTES: usize = 24 * 1024 * 1024;
    for piece in [100, 20_000] {
        let fake = Fake::new(move |mut peer| {
            peer.head();
            let mut responses = peer.socket.try_clone().unwrap();
            thread::spawn(move || {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n");
                responses.write_all(head.as_bytes()).unwrap();
                for _ in 0..BYTES / piece {
                    let _ = responses.write_all(&vec![b'a'; piece]);
                }
                let _ = responses.write_all(&vec![b'z'; BYTES % piece]);
            });
            let mut upload = (&peer.socket).take(BYTES as u64);
            let taken = std::io::copy(&mut upload, &mut std::io::sink()).unwrap();
            assert_eq!(taken, BYTES as u64);
        });
        let proxy = Proxy::to(&[&fake]);
        let mut client = proxy.connect();
        client
            .socket
            .set_write_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {BYTES}\r\n\r\n"
        ));
        for _ in 0..BYTES / (1 << 20) {
            client.send(vec![b'u'; 1 << 20]);
        }
        let response = client.response();
        assert_eq!(response.body.len(), BYTES, "pieces of {piece}");
    }
}
