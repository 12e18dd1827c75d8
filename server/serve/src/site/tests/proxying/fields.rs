//! Headers in both directions.

use super::*;

fn seen(settings: Value, request: &str) -> String {
    let fake = Fake::responding(HI);
    let proxy = Proxy::with(&[&fake], settings);
    assert_eq!(proxy.ask(request).status(), 200);
    fake.last()
}

#[test]
fn the_upstream_sees_the_request_and_who_sent_it() {
    let head = seen(
        json!({}),
        "GET /a%2fb?x=%zz HTTP/1.1\r\nHost: ex.com:99\r\nUser-Agent: t\r\nAccept: a\r\nAccept: b\r\n\r\n",
    );
    assert_eq!(
        head,
        "GET /a%2fb?x=%zz HTTP/1.1\r\nHost: ex.com:99\r\nUser-Agent: t\r\nAccept: a\r\nAccept: b\r\n\
         Via: 1.1 sluice\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: ex.com:99\r\n\
         X-Forwarded-Proto: http\r\n\r\n"
    );
}

#[test]
fn fields_of_the_clients_connection_stay_here() {
    let head = seen(
        json!({}),
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: X-Hop, keep-alive, X-Forwarded-For\r\nX-Hop: 1\r\n\
         Keep-Alive: 4\r\nProxy-Connection: x\r\nProxy-Authorization: secret\r\nUpgrade: foo\r\n\
         TE: trailers, deflate\r\nX-Kept: 1\r\nTrailer: X\r\n\r\n",
    );
    for gone in [
        "x-hop",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "upgrade",
        "trailer",
    ] {
        assert!(lines_named(&head, gone).is_empty(), "{gone} in {head}");
    }
    assert_eq!(lines_named(&head, "te"), ["trailers"]);
    assert_eq!(lines_named(&head, "connection"), ["TE"]);
    assert_eq!(lines_named(&head, "x-kept"), ["1"]);
    // The client cannot use `Connection` to remove the headers that describe it.
    assert_eq!(lines_named(&head, "x-forwarded-for"), ["127.0.0.1"]);
}

const FORWARDED: &str = "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 9.9.9.9\r\n\
    x-forwarded-for: 8.8.8.8\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: h\r\n\r\n";

#[test]
fn forwarded_fields_of_strangers_are_replaced() {
    let head = seen(json!({}), FORWARDED);
    assert_eq!(lines_named(&head, "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(lines_named(&head, "x-forwarded-proto"), ["http"]);
    assert_eq!(lines_named(&head, "x-forwarded-host"), ["x"]);
}

#[test]
fn forwarded_fields_of_trusted_proxies_are_continued() {
    let head = seen(json!({ "trusted_proxies": ["127.0.0.0/8"] }), FORWARDED);
    assert_eq!(
        lines_named(&head, "x-forwarded-for"),
        ["9.9.9.9, 8.8.8.8, 127.0.0.1"]
    );
    assert_eq!(lines_named(&head, "x-forwarded-proto"), ["https"]);
    assert_eq!(lines_named(&head, "x-forwarded-host"), ["h"]);

    let fake = Fake::responding(HI);
    let dial = fake.address.to_string();
    let proxy = Proxy::serving(json!({
        "trusted_proxies": { "source": "static", "ranges": ["127.0.0.1/32"] },
        "routes": [{ "handle": [
            { "handler": "reverse_proxy", "upstreams": [{ "dial": dial }] }
        ] }]
    }));
    proxy.ask(FORWARDED);
    assert_eq!(
        lines_named(&fake.last(), "x-forwarded-for"),
        ["9.9.9.9, 8.8.8.8, 127.0.0.1"]
    );
}

#[test]
fn header_up_changes_what_the_upstream_sees_and_nothing_else() {
    let fake = Fake::responding(HI);
    let settings = json!({ "headers": { "request": {
        "set": {
            "X-New": ["{http.reverse_proxy.upstream.hostport}"],
            "Host": ["{http.reverse_proxy.upstream.hostport}"],
        },
        "add": { "X-Two": ["b"] },
        "delete": ["Accept*", "X-Forwarded-Host"],
        "replace": { "User-Agent": [{ "search_regexp": "cu(.)l", "replace": "w$1" }] },
    } } });
    let proxy = Proxy::with(&[&fake], settings);
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send(
            "GET / HTTP/1.1\r\nHost: ex.com\r\nAccept-Language: de\r\nX-Two: a\r\nUser-Agent: curl/7\r\n\r\n",
        );
        assert_eq!(client.response().status(), 200);
        let (head, upstream) = (fake.last(), fake.address.to_string());
        assert_eq!(lines_named(&head, "host"), std::slice::from_ref(&upstream));
        assert_eq!(lines_named(&head, "x-new"), [upstream]);
        assert_eq!(lines_named(&head, "x-two"), ["a", "b"]);
        assert_eq!(lines_named(&head, "user-agent"), ["wr/7"]);
        assert!(lines_named(&head, "accept-language").is_empty());
        assert!(lines_named(&head, "x-forwarded-host").is_empty());
    }
}

#[test]
fn a_request_without_host_gets_the_upstreams() {
    let fake = Fake::responding(HI);
    let proxy = Proxy::to(&[&fake]);
    let response = proxy.ask("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(response.status(), 200);
    let head = fake.last();
    assert_eq!(lines_named(&head, "host"), [fake.address.to_string()]);
    assert_eq!(lines_named(&head, "via"), ["1.0 sluice"]);
    assert!(head.starts_with("GET / HTTP/1.1\r\n"));
    let head = seen(
        json!({ "headers": { "request": { "delete": ["Host"] } } }),
        GET,
    );
    assert_eq!(lines_named(&head, "host").len(), 1);
    let absolute = seen(
        json!({}),
        "GET http://other.com/a HTTP/1.1\r\nHost: x\r\n\r\n",
    );
    assert!(absolute.starts_with("GET /a HTTP/1.1\r\n"));
    assert_eq!(lines_named(&absolute, "host"), ["other.com"]);
}

#[test]
fn method_and_target_are_rewritten_for_the_upstream_only() {
    let head = seen(
        json!({ "rewrite": { "method": "POST", "uri": "/x{http.request.uri.path}?a=b" } }),
        "GET /dup?q=1 HTTP/1.1\r\nHost: x\r\n\r\n",
    );
    assert!(head.starts_with("POST /x/dup?a=b HTTP/1.1\r\n"), "{head}");
    assert_eq!(lines_named(&head, "content-length"), ["0"]);
}

const FULL: &str = "HTTP/1.1 200 OK\r\nServer: up/1\r\nVia: 1.1 other\r\nX-A: 1\r\nX-A: 2\r\n\
    Date: Sat, 01 Jan 2022 00:00:00 GMT\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\n\
    Keep-Alive: 5\r\nUpgrade: h2c\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nhi";

#[test]
fn the_client_sees_the_upstreams_fields_without_those_of_its_connection() {
    let fake = Fake::responding(FULL);
    let response = Proxy::to(&[&fake]).ask(GET);
    assert_eq!(response.fields("x-a"), ["1", "2"]);
    assert_eq!(response.fields("server"), ["up/1"]);
    assert_eq!(response.fields("date"), ["Sat, 01 Jan 2022 00:00:00 GMT"]);
    assert_eq!(response.fields("via"), ["1.1 other", "1.1 sluice"]);
    assert_eq!(response.fields("content-length"), ["2"]);
    for gone in [
        "connection",
        "x-hop",
        "keep-alive",
        "upgrade",
        "proxy-authenticate",
    ] {
        assert!(response.field(gone).is_none(), "{gone}");
    }
    let plain = Fake::responding(HI);
    let response = Proxy::to(&[&plain]).ask(GET);
    assert!(response.field("server").is_none());
    assert_eq!(response.fields("date").len(), 1);
}

#[test]
fn header_down_changes_the_upstreams_fields_and_earlier_directives_add_theirs() {
    let fake = Fake::responding(FULL);
    let dial = fake.address.to_string();
    let proxy = Proxy::serving(json!({ "routes": [{ "handle": [
        { "handler": "headers", "response": { "set": { "X-A": ["zero"] } } },
        { "handler": "reverse_proxy", "upstreams": [{ "dial": dial }], "headers": { "response": {
            "delete": ["Server"],
            "set": { "X-New": ["{http.reverse_proxy.status_code}"] },
            "replace": { "X-A": [{ "search": "2", "replace": "two" }] },
        } } },
    ] }] }));
    let response = proxy.ask(GET);
    assert_eq!(response.fields("x-a"), ["zero", "1", "two"]);
    assert_eq!(response.fields("x-new"), ["200"]);
    assert!(response.field("server").is_none());
}

#[test]
fn a_header_that_would_break_its_line_is_refused() {
    // A client can put a line break into a placeholder with percent-encoding.
    let settings =
        json!({ "headers": { "request": { "set": { "X-Path": ["{http.request.uri.path}"] } } } });
    let fake = Fake::responding(HI);
    let proxy = Proxy::with(&[&fake], settings);
    let request = "GET /a%0d%0aInjected:%20yes HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(proxy.ask(request).status(), 400);
    assert!(fake.seen().is_empty());
}

#[test]
fn forwarded_is_lengthened_for_those_who_are_trusted_and_dropped_for_others() {
    let request = "GET / HTTP/1.1\r\nHost: h.test\r\nForwarded: for=192.0.2.1\r\n\
        Forwarded: for=192.0.2.2;proto=https\r\n\r\n";
    let trusting = json!({ "trusted_proxies": ["127.0.0.0/8"] });
    let head = seen(trusting.clone(), request);
    let expected = "for=192.0.2.1, for=192.0.2.2;proto=https, \
        for=127.0.0.1;host=\"h.test\";proto=http";
    assert_eq!(lines_named(&head, "Forwarded"), [expected]);
    assert_eq!(lines_named(&head, "X-Forwarded-For"), ["127.0.0.1"]);
    let head = seen(json!({}), request);
    assert_eq!(lines_named(&head, "Forwarded"), [""; 0]);
    let head = seen(trusting, "GET / HTTP/1.1\r\nHost: h.test\r\n\r\n");
    assert_eq!(lines_named(&head, "Forwarded"), [""; 0], "nobody uses it");
}
