//! Bodies in both directions, and what an upstream must never receive twice or unparsed.

use super::*;

#[test]
fn bodies_are_passed_on_as_they_were_framed() {
    let fake = Fake::new(|mut peer| {
        while let Some(head) = peer.head() {
            let body = if lines_named(&head, "transfer-encoding") == ["chunked"] {
                read_until(&mut peer.socket, b"0\r\n\r\n").unwrap()
            } else {
                let length = lines_named(&head, "content-length")
                    .pop()
                    .map_or(0, |n| n.parse().unwrap());
                let mut body = vec![0; length];
                peer.socket.read_exact(&mut body).unwrap();
                String::from_utf8(body).unwrap()
            };
            let (length, method) = (body.len(), head.split(' ').next().unwrap());
            let body = if method == "HEAD" { "" } else { &body };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
            ));
        }
    });
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    for (request, body, framing) in [
        (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
            "hello",
            "Content-Length: 5",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
            "",
            "Content-Length: 0",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
            "",
            "Content-Length: 0",
        ),
        (
            "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n005;x=\"y\"\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked",
        ),
        (
            "DELETE / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok",
            "ok",
            "Content-Length: 2",
        ),
    ] {
        client.send(request);
        let response = client.response();
        assert_eq!(String::from_utf8(response.body).unwrap(), body, "{request}");
        let head = fake.last();
        assert!(head.contains(framing), "{head}");
        let named = lines_named(&head, "content-length").len()
            + lines_named(&head, "transfer-encoding").len();
        assert_eq!(named, 1, "{head}");
    }
    client.send(GET);
    assert_eq!(client.response().status(), 200);
    assert!(
        !fake.last().to_ascii_lowercase().contains("content-length"),
        "{}",
        fake.last()
    );
    assert_eq!(fake.accepted(), 1);
}

/// Attack rows 1 to 3 and 10: the upstream does not receive a single byte of a request that two servers could interpret
/// differently.
#[test]
fn ambiguous_requests_never_reach_the_upstream() {
    let fake = Fake::responding(HI);
    let proxy = Proxy::to(&[&fake]);
    for request in [
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello",
        "GET / HTTP/1.1\r\nHost: x\r\n: empty\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\nHost: x\n\n",
    ] {
        let mut client = proxy.connect();
        client.send(request);
        let all = String::from_utf8(client.rest()).unwrap();
        assert!(
            all.starts_with("HTTP/1.1 4") || all.starts_with("HTTP/1.1 5"),
            "{request:?} {all:?}"
        );
        assert_eq!(all.matches("HTTP/1.").count(), 1, "{request:?} {all:?}");
    }
    assert_eq!(fake.seen().len(), 0);
}

/// Row 10: an invalid chunk also ends the request at the upstream, and never as if it were complete.
#[test]
fn a_malformed_chunk_half_way_leaves_the_upstreams_request_incomplete() {
    let ended = Arc::new(Mutex::new(String::new()));
    let all = ended.clone();
    let fake = Fake::new(move |mut peer| {
        peer.head();
        let first = read_until(&mut peer.socket, b"hello\r\n").unwrap();
        peer.seen.lock().unwrap().push(first.clone());
        let mut rest = String::new();
        let _ = peer.socket.read_to_string(&mut rest);
        *all.lock().unwrap() = first + &rest;
    });
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    eventually("the chunk", || fake.seen().len() == 2);
    client.send("0x5\r\nworld\r\n0\r\n\r\n");
    client.rest();
    eventually("its end", || !ended.lock().unwrap().is_empty());
    assert_eq!(*ended.lock().unwrap(), "5\r\nhello\r\n");
}

/// Row 5: a body that was not read must not be parsed as the next request.
#[test]
fn the_body_of_a_refused_request_is_not_the_next_request() {
    let fake = Fake::new(|mut peer| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
        }
    });
    let proxy = Proxy::to(&[&fake]);
    let hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut client = proxy.connect();
    let length = hidden.len();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    ));
    assert_eq!(client.response().status(), 401);
    client.send(hidden);
    client.send(GET);
    client.socket.shutdown(std::net::Shutdown::Write).unwrap();
    let rest = String::from_utf8(client.rest()).unwrap();
    assert!(rest.matches("HTTP/1.1 ").count() <= 1, "{rest}");
    assert!(
        !fake.seen().iter().any(|head| head.contains("/hidden")),
        "{:?}",
        fake.seen()
    );
}

/// Row 12: a truncated response is never presented as complete.
#[test]
fn a_truncated_response_reaches_the_client_as_truncated() {
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
    ] {
        let fake = Fake::new(move |mut peer| {
            peer.head();
            peer.send(response);
        });
        let proxy = Proxy::to(&[&fake]);
        let mut client = proxy.connect();
        client.send(GET);
        assert!(
            client
                .respond_to("GET")
                .is_none_or(|response| response.status() == 502),
            "{response}"
        );
    }
}

#[test]
fn responses_without_content_and_of_unknown_length_keep_their_framing() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
        2\r\nhi\r\n0\r\nX-Sum: 42\r\n\r\n";
    let fake = Fake::responding(chunked);
    let response = Proxy::to(&[&fake]).ask(GET);
    assert_eq!(
        (&response.body[..], response.trailer.as_str()),
        (&b"hi"[..], "X-Sum: 42\r\n")
    );
    assert_eq!(response.fields("trailer"), ["X-Sum"]);

    let fake = Fake::new(|mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\n\r\nuntil the end");
    });
    assert_eq!(Proxy::to(&[&fake]).ask(GET).body, b"until the end");

    let fake = Fake::responding("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n");
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
        let response = client.respond_to("HEAD").unwrap();
        assert_eq!(response.fields("content-length"), ["500"]);
    }
    assert_eq!(fake.accepted(), 1);

    for (status, raw) in [
        (204, "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"),
        (
            304,
            "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 9\r\n\r\n",
        ),
    ] {
        let fake = Fake::responding(raw);
        let proxy = Proxy::to(&[&fake]);
        let mut client = proxy.connect();
        for _ in 0..2 {
            client.send(GET);
            let response = client.response();
            assert_eq!((response.status(), response.body.len()), (status, 0));
        }
        assert_eq!(fake.accepted(), 1);
    }
}

#[test]
fn request_trailers_and_expectations_are_passed_on() {
    let fake = Fake::new(|mut peer| {
        peer.head();
        peer.send("HTTP/1.1 100 Continue\r\n\r\n");
        let body = read_until(&mut peer.socket, b"\r\n\r\n").unwrap();
        peer.seen.lock().unwrap().push(body);
        peer.send(HI);
        peer.head();
    });
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    client.send(
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nTrailer: X-Q\r\n\r\n",
    );
    let interim = read_head(&mut client.socket).unwrap();
    assert!(interim.starts_with("HTTP/1.1 100 "), "{interim}");
    client.send("3\r\nabc\r\n0\r\nX-Q: 1\r\n\r\n");
    assert_eq!(client.response().body, b"hi");
    let seen = fake.seen();
    assert_eq!(lines_named(&seen[0], "expect"), ["100-continue"]);
    assert_eq!(lines_named(&seen[0], "trailer"), ["X-Q"]);
    assert_eq!(seen[1], "3\r\nabc\r\n0\r\nX-Q: 1\r\n\r\n");
}

/// Trailers must not bypass a rule about headers, and unannounced ones are dropped.
#[test]
fn request_trailers_do_not_get_round_rules() {
    let rule = json!({ "headers": { "request": { "delete": ["X-User"] } } });
    for (settings, announced) in [(rule, "Trailer: X-User\r\n"), (json!({}), "")] {
        let fake = Fake::new(|mut peer| {
            peer.head();
            let body = read_until(&mut peer.socket, b"0\r\n\r\n").unwrap();
            peer.seen.lock().unwrap().push(body);
            peer.send(HI);
        });
        let proxy = Proxy::with(&[&fake], settings);
        let response = proxy.ask(&format!(
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n{announced}\r\n\
             2\r\nhi\r\n0\r\nX-User: root\r\n\r\n"
        ));
        assert_eq!(response.status(), 200);
        assert_eq!(fake.last(), "2\r\nhi\r\n0\r\n\r\n");
    }
}

#[test]
fn an_upstream_that_refuses_an_expectation_spares_the_client_its_body() {
    let fake = Fake::responding("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig");
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    client.send(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.response().status(), 413);
}

/// Row 8: buffering a body does not change what is sent to the upstream.
#[test]
fn collected_bodies_are_sent_like_streamed_ones() {
    let requests = [
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world",
        "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\nb\r\nhello world\r\n0\r\nX-T: 1\r\n\r\n",
    ];
    let record = |settings: Value| -> Vec<String> {
        let fake = Fake::new(|mut peer| {
            while let Some(head) = peer.head() {
                let body = if head.contains("chunked") {
                    // Chunk boundaries are not significant.
                    let raw = read_until(&mut peer.socket, b"\r\n\r\n").unwrap();
                    let lines: Vec<&str> = raw.split("\r\n").collect();
                    let (chunks, last) = lines.split_last_chunk::<4>().unwrap();
                    chunks
                        .iter()
                        .skip(1)
                        .step_by(2)
                        .copied()
                        .chain(*last)
                        .collect()
                } else {
                    read_until(&mut peer.socket, b"world").unwrap()
                };
                peer.seen.lock().unwrap().push(body);
                peer.send(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
                );
            }
        });
        let proxy = Proxy::with(&[&fake], settings);
        for request in requests {
            assert_eq!(proxy.ask(request).body, b"hi");
        }
        fake.seen()
    };
    let streamed = record(json!({}));
    for bytes in [4, 11, 12, 1000] {
        let settings = json!({ "request_buffers": bytes, "response_buffers": bytes });
        assert_eq!(record(settings), streamed, "{bytes}");
    }
}

#[test]
fn large_bodies_flow_in_both_directions() {
    let fake = Fake::new(|mut peer| {
        while let Some(head) = peer.head() {
            let length: usize = lines_named(&head, "content-length")[0].parse().unwrap();
            let mut body = vec![0; length];
            peer.socket.read_exact(&mut body).unwrap();
            body.reverse();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
            ));
            peer.send(body);
        }
    });
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    for length in [1, 8 * 1024, 8 * 1024 + 1, 16 * 1024, 100_000, 1_000_000] {
        let body: Vec<u8> = (0..length).map(|at| (at % 253) as u8).collect();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
        ));
        client.send(&body);
        let mut response = client.response();
        response.body.reverse();
        assert!(response.body == body, "{length}");
    }
    assert_eq!(fake.accepted(), 1);
}

/// Row 15: a head that grows beyond the usual limits by rewriting is not truncated.
#[test]
fn a_head_that_grows_is_sent_whole() {
    let fake = Fake::responding(HI);
    let long = "v".repeat(60_000);
    let settings = json!({ "headers": { "request": { "set": { "X-Long": [long] } } } });
    assert_eq!(Proxy::with(&[&fake], settings).ask(GET).status(), 200);
    assert_eq!(lines_named(&fake.last(), "x-long")[0].len(), 60_000);
}
