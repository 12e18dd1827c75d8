//! `handle_response`, `replace_status`, and upstreams that only authorize requests.

use super::*;

#[test]
fn intercepted_responses_are_replaced() {
    let fake = Fake::new(|mut peer| {
        while let Some(head) = peer.head() {
            peer.send(match head.split(' ').nth(1) {
                Some("/lost") => {
                    "HTTP/1.1 404 Not Found\r\nX-Why: gone\r\nContent-Length: 4\r\n\r\nlost"
                }
                Some("/teapot") => "HTTP/1.1 418 Teapot\r\nContent-Length: 3\r\n\r\ntea",
                _ => HI,
            });
        }
    });
    let settings = json!({ "handle_response": [
        { "match": { "status_code": [404] }, "routes": [{ "handle": [{
            "handler": "static_response", "status_code": "410",
            "body": "{http.reverse_proxy.status_code} {http.reverse_proxy.header.X-Why}"
        }] }] },
        { "match": { "status_code": [418] }, "status_code": 200 },
    ] });
    let proxy = Proxy::with(&[&fake], settings);
    let mut client = proxy.connect();
    for (path, status, body) in [
        ("/lost", 410, "404 gone"),
        ("/teapot", 200, "tea"),
        ("/", 200, "hi"),
        ("/lost", 410, "404 gone"),
    ] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let response = client.response();
        assert_eq!(
            (response.status(), String::from_utf8(response.body).unwrap()),
            (status, body.into())
        );
        assert!(response.head.lines().all(|line| !line.starts_with("X-Why")));
    }
    assert_eq!(fake.accepted(), 1);
}

/// The settings that `forward_auth` expands to.
#[test]
fn an_upstream_may_decide_whether_a_request_passes() {
    let guard = Fake::new(|mut peer| {
        while let Some(head) = peer.head() {
            peer.send(if lines_named(&head, "authorization") == ["good"] {
                "HTTP/1.1 200 OK\r\nRemote-User: ann\r\nContent-Length: 2\r\n\r\nok"
            } else {
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno"
            });
        }
    });
    let behind = Fake::new(|mut peer| {
        while peer.head().is_some() {
            let mut body = [0; 5];
            peer.socket.read_exact(&mut body).unwrap();
            peer.seen
                .lock()
                .unwrap()
                .push(String::from_utf8(body.to_vec()).unwrap());
            peer.send(HI);
        }
    });
    let proxy = Proxy::serving(json!({ "routes": [{ "handle": [
        {
            "handler": "reverse_proxy", "upstreams": [{ "dial": guard.address.to_string() }],
            "rewrite": { "method": "GET", "uri": "/check" },
            "handle_response": [{ "match": { "status_code": [2] }, "routes": [{ "handle": [{
                "handler": "headers", "request": { "set": {
                    "Remote-User": ["{http.reverse_proxy.header.Remote-User}"]
                } }
            }] }] }],
        },
        { "handler": "reverse_proxy", "upstreams": [{ "dial": behind.address.to_string() }] },
    ] }] }));
    let post = |who: &str| {
        proxy.ask(&format!(
            "POST /do HTTP/1.1\r\nHost: x\r\nAuthorization: {who}\r\nRemote-User: forged\r\n\
             Content-Length: 5\r\n\r\nhello"
        ))
    };
    let refused = post("bad");
    assert_eq!((refused.status(), &refused.body[..]), (401, &b"no"[..]));
    assert_eq!(refused.fields("www-authenticate"), ["Basic"]);
    assert!(behind.seen().is_empty());
    let let_in = post("good");
    assert_eq!((let_in.status(), &let_in.body[..]), (200, &b"hi"[..]));
    assert!(guard.last().starts_with("GET /check HTTP/1.1\r\n"));
    assert!(lines_named(&guard.last(), "content-length").is_empty());
    let seen = behind.seen();
    assert!(seen[0].starts_with("POST /do HTTP/1.1\r\n"));
    assert_eq!(lines_named(&seen[0], "remote-user"), ["ann"]);
    assert_eq!(seen[1], "hello");
}
