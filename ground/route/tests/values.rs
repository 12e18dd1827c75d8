//! The values of placeholders, compared with those of Caddy 2.11.4 for the same requests.
#![allow(clippy::unwrap_used)]

use sluice_message::{Method, Remote, TlsInfo};
use sluice_route::{RequestValues, Template, Unknown};

use crate::support::{Request, get};

fn expand(request: &Request, text: &str) -> String {
    let template = Template::parse(text).unwrap();
    let mut out = Vec::new();
    request.with(|input| template.expand(input.values, Unknown::Keep, &mut out));
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn paths_come_apart_as_in_caddy() {
    let text = "[{http.request.uri.path}] [{http.request.uri.path.dir}] [{http.request.uri.path.file}] \
        [{http.request.uri.path.file.base}] [{http.request.uri.path.file.ext}] [{http.request.uri.path.0}] \
        [{http.request.uri.path.1}] [{http.request.uri.path.2}] [{http.request.uri}] \
        [{http.request.uri.prefixed_query}]";
    for (target, expected) in [
        (
            "/cp/a%2Fb/c.tar.gz?x",
            "[/cp/a/b/c.tar.gz] [/cp/a/b/] [c.tar.gz] [c.tar] [.gz] [cp] [a] [b] [/cp/a%2Fb/c.tar.gz?x] [?x]",
        ),
        (
            "/cp/./x/../y",
            "[/cp/./x/../y] [/cp/./x/../] [y] [y] [] [cp] [.] [x] [/cp/./x/../y] []",
        ),
        ("/cp/", "[/cp/] [/cp/] [] [cp] [] [cp] [] [] [/cp/] []"),
        (
            "/cp/a?",
            "[/cp/a] [/cp/] [a] [a] [] [cp] [a] [] [/cp/a?] []",
        ),
        (
            "//cp//x",
            "[//cp//x] [//cp//] [x] [x] [] [] [cp] [] [//cp//x] []",
        ),
        (
            "/%63p/x",
            "[/cp/x] [/cp/] [x] [x] [] [cp] [x] [] [/%63p/x] []",
        ),
    ] {
        assert_eq!(expand(&get("h", target), text), expected, "{target}");
    }
}

#[test]
fn fields_cookies_and_parameters_are_joined_and_decoded() {
    let request = get("127.0.0.1:18471", "/hdr?a=1&a=2&b=%20x;y")
        .field("Host", "127.0.0.1:18471")
        .field("X-A", "1")
        .field("x-a", "{env.HOME}")
        .field("Cookie", "foo=\"q v\"; Foo=2");
    for (text, expected) in [
        ("{http.request.header.Host}", ""),
        ("{http.request.header.X-A}", "1,{env.HOME}"),
        ("{http.request.uri.query.a}", "1,2"),
        ("{http.request.uri.query.b}", ""),
        ("{http.request.cookie.Foo}", "q v"),
        ("{http.request.cookie.bar}", ""),
        ("{http.request.host.labels.0}", "1"),
        ("{http.request.host.labels.9}", ""),
        (
            "{http.request.host}|{http.request.port}|{http.request.hostport}",
            "127.0.0.1|18471|127.0.0.1:18471",
        ),
        ("{http.regexp.1}", "{http.regexp.1}"),
        ("{http.request.uri.path_escaped}", "%2Fhdr"),
        (
            "{http.request.uri.query_escaped}",
            "a%3D1%26a%3D2%26b%3D%2520x%3By",
        ),
        (
            "{http.request.uri_escaped}",
            "%2Fhdr%3Fa%3D1%26a%3D2%26b%3D%2520x%3By",
        ),
        ("{http.request.tls.version}", ""),
        (
            "{http.request.scheme} {http.request.method} {http.request.proto}",
            "http GET HTTP/1.1",
        ),
    ] {
        assert_eq!(expand(&request, text), expected, "{text}");
    }
}

#[test]
fn the_connection_has_its_placeholders() {
    let mut request = get("h", "/");
    let text = "{http.request.remote} {http.request.remote.host} {http.request.remote.port} \
        {http.request.remote.host/24,64} {http.request.local} {http.request.local.host} {http.request.local.port} \
        {http.vars.client_ip}";
    let expected =
        "192.0.2.7:40000 192.0.2.7 40000 192.0.2.0/24 192.0.2.1:80 192.0.2.1 80 192.0.2.7";
    assert_eq!(expand(&request, text), expected);
    request.conn.remote = Remote::Ip("[2001:db8:1:2:3::4]:5".parse().unwrap());
    assert_eq!(
        expand(&request, "{http.request.remote.host/24,64}"),
        "2001:db8:1:2::/64"
    );
    assert_eq!(expand(&request, "{http.request.remote.host/0}"), "::/0");
    assert_eq!(expand(&request, "{http.request.remote.host/129}"), "");
    request.conn.remote = Remote::Unix;
    request.conn.local = None.into();
    assert_eq!(expand(&request, &text.replace(' ', "")), "");
    request.conn.tls = Some(Box::new(TlsInfo {
        version: "tls1.3",
        cipher: "TLS_AES_128_GCM_SHA256",
        server_name: "h".into(),
        alpn: b"http/1.1".to_vec(),
        ..TlsInfo::default()
    }));
    let text = "{http.request.scheme} {http.request.tls.version} {http.request.tls.cipher_suite} \
        {http.request.tls.resumed} {http.request.tls.proto} {http.request.tls.server_name}";
    assert_eq!(
        expand(&request, text),
        "https tls1.3 TLS_AES_128_GCM_SHA256 false http/1.1 h"
    );
}

#[test]
fn the_original_request_outlives_rewrites() {
    let mut request = get("h", "/a%20b/c?x=1");
    request.head.uri.set(b"/new");
    request.head.method = Method::Put;
    let text = "{http.request.orig_uri} {http.request.orig_uri.path} {http.request.orig_uri.path.dir} \
        {http.request.orig_uri.path.file} {http.request.orig_uri.path.0} {http.request.orig_uri.query} \
        {http.request.orig_uri.prefixed_query} {http.request.uri}";
    assert_eq!(
        expand(&request, text),
        "/a%20b/c?x=1 /a b/c /a b/ c a b x=1 ?x=1 /new"
    );
    request.head.target = b"http://h:80/p?q".to_vec();
    assert_eq!(
        expand(
            &request,
            "{http.request.orig_uri.path} {http.request.orig_uri.query}"
        ),
        "/p q"
    );
    let values = RequestValues {
        head: &request.head,
        conn: &request.conn,
        client_ip: None,
        original_method: Some(&Method::Get),
        scratch: &request.scratch,
    };
    let mut out = Vec::new();
    let template = Template::parse("{http.request.method} {http.request.orig_method}").unwrap();
    template.expand(&values, Unknown::Keep, &mut out);
    assert_eq!(out, b"PUT GET");
}
