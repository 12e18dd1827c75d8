//! Which requests are retried, and with which body.

use std::time::Instant;

use super::*;

/// An upstream that reads a complete request with `Content-Length`, records it and closes.
fn dying() -> Fake {
    Fake::new(|mut peer| {
        note_request(&mut peer);
    })
}

/// An upstream that records complete requests and responds.
fn living(status: u16) -> Fake {
    Fake::new(move |mut peer| {
        while note_request(&mut peer) {
            peer.send(format!(
                "HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nhi"
            ));
        }
    })
}

/// Appends the request body to the recorded head.
fn note_request(peer: &mut Peer) -> bool {
    let Some(head) = peer.head() else {
        return false;
    };
    let body = if head.contains("Transfer-Encoding: chunked") {
        read_until(&mut peer.socket, b"0\r\n\r\n").unwrap()
    } else {
        let length = lines_named(&head, "Content-Length")
            .first()
            .map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        peer.socket.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    };
    peer.seen.lock().unwrap().push(body);
    true
}

fn settings(more: Value) -> Value {
    let mut balancing = json!({ "selection_policy": { "policy": "first" }, "retries": 2 });
    for (key, value) in more.as_object().unwrap() {
        balancing[key] = value.clone();
    }
    json!({ "load_balancing": balancing })
}

fn request(method: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
}

#[test]
fn a_body_is_sent_again_as_it_was() {
    let (dead, well) = (dying(), living(200));
    let proxy = Proxy::with(&[&dead, &well], settings(json!({})));
    let body = "x".repeat(50_000);
    assert_eq!(proxy.ask(&request("PUT", &body)).status(), 200);
    assert_eq!(dead.last(), body);
    assert_eq!(well.last(), body);
    // The same with chunks and an announced trailer.
    let chunked = "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
        3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert_eq!(proxy.ask(chunked).status(), 200);
    assert!(well.last().contains("abc"), "{}", well.last());
}

#[test]
fn a_body_longer_than_what_is_kept_is_not_sent_again() {
    let (dead, well) = (dying(), living(200));
    let body = "x".repeat(sluice_proxy::limits::REPLAY_BYTES_MAX + 1);
    let proxy = Proxy::with(&[&dead, &well], settings(json!({})));
    assert_eq!(proxy.ask(&request("PUT", &body)).status(), 502);
    assert!(well.seen().is_empty());
    // With request buffering the limit is higher.
    let mut more = settings(json!({}));
    more["request_buffers"] = json!(body.len());
    let proxy = Proxy::with(&[&dead, &well], more);
    assert_eq!(proxy.ask(&request("PUT", &body)).status(), 200);
    assert_eq!(well.last(), body);
}

#[test]
fn what_is_named_is_sent_again_and_nothing_else() {
    let (dead, well) = (dying(), living(200));
    let named = json!({ "retry_match": [{ "method": ["POST"], "path": ["/safe*"] }] });
    let proxy = Proxy::with(&[&dead, &well], settings(named));
    let post = request("POST", "hello");
    assert_eq!(proxy.ask(&post).status(), 502);
    assert!(well.seen().is_empty(), "the path is another");
    let safe = post.replace("POST / ", "POST /safe ");
    assert_eq!(proxy.ask(&safe).status(), 200);
    assert_eq!((dead.last(), well.last()), ("hello".into(), "hello".into()));
    assert_eq!(
        proxy.ask(GET).status(),
        502,
        "the conditions replace the usual ones"
    );
}

#[test]
fn request_conditions_leave_responses_alone() {
    let (sick, well) = (living(503), living(200));
    let named = json!({ "retry_match": [{ "method": ["GET"] }] });
    let proxy = Proxy::with(&[&sick, &well], settings(named));
    assert_eq!(proxy.ask(GET).status(), 503);
    assert!(well.seen().is_empty());
}

#[test]
fn retries_of_requests_that_arrived_are_a_share_of_all() {
    let dead = dying();
    let proxy = Proxy::with(&[&dead], json!({ "load_balancing": { "retries": 1 } }));
    let count = 60;
    for _ in 0..count {
        assert_eq!(proxy.ask(GET).status(), 502);
    }
    // Ten are allowed at the start, then one in ten.
    let heads = dead
        .seen()
        .iter()
        .filter(|seen| seen.starts_with("GET"))
        .count();
    assert_eq!(heads, count + 10 + count / 10);
}

#[test]
fn a_request_that_nobody_saw_goes_to_each_other_upstream_whatever_its_method() {
    let well = living(200);
    let first = json!({ "load_balancing": { "selection_policy": { "policy": "first" } } });
    let dials = [nobody(), nobody(), nobody(), well.address.to_string()];
    let proxy = Proxy::dialling(&dials, first.clone());
    for (method, body) in [("GET", ""), ("POST", "once"), ("PATCH", "twice")] {
        assert_eq!(proxy.ask(&request(method, body)).status(), 200, "{method}");
        assert_eq!(well.last(), body);
    }
    let long = "x".repeat(sluice_proxy::limits::REPLAY_BYTES_MAX + 1);
    assert_eq!(proxy.ask(&request("POST", &long)).status(), 200);
    assert_eq!(well.last(), long);
    // If no upstream is left the request fails, and an upstream that has received the request was the last one.
    assert_eq!(
        Proxy::dialling(&dials[..3], first.clone())
            .ask(GET)
            .status(),
        502
    );
    let dead = dying();
    let dials = [nobody(), dead.address.to_string(), well.address.to_string()];
    let proxy = Proxy::dialling(&dials, first);
    assert_eq!(proxy.ask(&request("GET", "")).status(), 502);
    assert_eq!(
        dead.seen()
            .iter()
            .filter(|seen| seen.starts_with("GET"))
            .count(),
        1
    );
}

#[test]
fn a_handshake_that_fails_comes_before_the_request() {
    // The upstream does not speak TLS.
    let plain = Fake::new(|mut peer| {
        peer.seen.lock().unwrap().push("dialled".to_owned());
        peer.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let dials = [
        plain.address.to_string(),
        plain.address.to_string(),
        nobody(),
    ];
    let settings = json!({
        "transport": { "protocol": "http", "tls": { "insecure_skip_verify": true } },
        "load_balancing": { "selection_policy": { "policy": "round_robin" } },
    });
    assert_eq!(
        Proxy::dialling(&dials, settings)
            .ask(&request("POST", "x"))
            .status(),
        502
    );
    assert_eq!(plain.seen(), ["dialled", "dialled"], "each was tried once");
}

#[test]
fn the_response_is_quick_if_all_upstreams_are_down() {
    let dials: Vec<String> = (0..3).map(|_| nobody()).collect();
    let settings = json!({
        "health_checks": { "passive": { "fail_duration": "1m" } },
        "load_balancing": { "retries": 2 },
    });
    let proxy = Proxy::dialling(&dials, settings);
    for expected in [502, 503, 503, 503] {
        let began = Instant::now();
        assert_eq!(proxy.ask(GET).status(), expected);
        assert!(
            began.elapsed() < Duration::from_millis(100),
            "{:?}",
            began.elapsed()
        );
    }
}

#[test]
fn waiting_for_an_upstream_is_no_spinning() {
    let dead = dying();
    let settings = json!({ "load_balancing": { "try_duration": "1s" } });
    let proxy = Proxy::with(&[&dead], settings);
    let began = Instant::now();
    assert_eq!(proxy.ask(GET).status(), 502);
    assert!(began.elapsed() >= Duration::from_millis(800));
    assert!(
        (2..=6).contains(&dead.accepted()),
        "{} tries",
        dead.accepted()
    );
}
