//! Dictionaries for Python applications: WSGI environments and ASGI scopes in marshal and JSON, read back by a small
//! reader of marshal; and header blocks.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sluice_message::{FieldId, Fields, Method, RequestHead, Scheme, TlsInfo, Version};
use sluice_wire::h1::FieldFault;
use sluice_wire::python::{
    BlockFault, Facts, Header, HopByHop, Json, Kind, Marshal, ScopeKind, decode_block,
    encode_sample, write_environ, write_scope,
};

/// A value of Python.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    None,
    Bool(bool),
    Int(i32),
    Text(String),
    Bytes(Vec<u8>),
    Tuple(Vec<Value>),
    List(Vec<Value>),
    Dict(BTreeMap<String, Value>),
}

/// Reads a value of marshal; only the codes that decision 0023 lists.
fn load(bytes: &mut &[u8]) -> Option<Value> {
    let code = take(bytes, 1)[0];
    Some(match code {
        b'0' => return None,
        b'N' => Value::None,
        b'T' => Value::Bool(true),
        b'F' => Value::Bool(false),
        b'i' => Value::Int(long(bytes) as i32),
        b'z' => {
            let length = usize::from(take(bytes, 1)[0]);
            ascii(take(bytes, length))
        }
        b'a' => {
            let length = long(bytes) as usize;
            ascii(take(bytes, length))
        }
        b'u' => {
            let length = long(bytes) as usize;
            Value::Text(
                String::from_utf8(take(bytes, length).to_vec()).expect("the test writes it well"),
            )
        }
        b's' => {
            let length = long(bytes) as usize;
            Value::Bytes(take(bytes, length).to_vec())
        }
        b')' => {
            let count = take(bytes, 1)[0];
            Value::Tuple(
                (0..count)
                    .map(|_| load(bytes).expect("the test writes it well"))
                    .collect(),
            )
        }
        b'[' => {
            let count = long(bytes);
            Value::List(
                (0..count)
                    .map(|_| load(bytes).expect("the test writes it well"))
                    .collect(),
            )
        }
        b'{' => {
            let mut dict = BTreeMap::new();
            while let Some(key) = load(bytes) {
                let Value::Text(key) = key else {
                    panic!("{key:?}")
                };
                let value = load(bytes).expect("the test writes it well");
                assert!(dict.insert(key.clone(), value).is_none(), "{key} twice");
            }
            Value::Dict(dict)
        }
        code => panic!("code {code}"),
    })
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

fn long(bytes: &mut &[u8]) -> u32 {
    u32::from_le_bytes(take(bytes, 4).try_into().expect("the test writes it well"))
}

fn ascii(bytes: &[u8]) -> Value {
    assert!(bytes.is_ascii());
    Value::Text(String::from_utf8(bytes.to_vec()).expect("the test writes it well"))
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn head(target: &str, lines: &[(&str, &[u8])]) -> RequestHead {
    let mut head = RequestHead {
        method: Method::Post,
        target: target.as_bytes().to_vec(),
        ..RequestHead::default()
    };
    head.uri.set(target.as_bytes());
    for (name, value) in lines {
        let name = name.as_bytes();
        head.fields.push_raw(FieldId::of(name), name, value);
        if name.eq_ignore_ascii_case(b"host") {
            head.set_authority(value);
        }
    }
    head
}

fn facts() -> Facts<'static> {
    Facts {
        client: Some(SocketAddr::from(([203, 0, 113, 9], 50_000))),
        server: Some(SocketAddr::from(([192, 0, 2, 1], 8080))),
        scheme: Scheme::Http,
        root: b"",
        user: b"",
        content_length: None,
        tls: None,
    }
}

fn environ(head: &RequestHead, facts: &Facts<'_>) -> BTreeMap<String, Value> {
    let mut out = b"before".to_vec();
    write_environ(&mut Marshal::new(&mut out), head, facts);
    dict(&out[6..])
}

fn scope(kind: ScopeKind, head: &RequestHead, facts: &Facts<'_>) -> BTreeMap<String, Value> {
    let mut out = Vec::new();
    write_scope(&mut Marshal::new(&mut out), kind, head, facts);
    dict(&out)
}

fn dict(mut bytes: &[u8]) -> BTreeMap<String, Value> {
    let value = load(&mut bytes).expect("the test writes it well");
    assert!(bytes.is_empty());
    match value {
        Value::Dict(dict) => dict,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_environment_has_what_pep_3333_asks_for() {
    let head = head(
        "/caf%C3%A9/a%2Fb?x=%20&y",
        &[
            ("Host", b"Example.com:8080"),
            ("content-type", b"text/plain"),
            ("Content-Length", b"999"),
            ("Accept-Encoding", b"gzip"),
            ("X-Custom-Header", b"one"),
            ("x-custom-header", b"two"),
            ("X_Custom_Header", b"smuggled"),
            ("Proxy", b"http://evil"),
            ("Cookie", b"a=1"),
            ("Accept", b"text/html"),
            ("cookie", b"b=2"),
            ("Accept", b"*/*"),
            ("Transfer-Encoding", b"chunked"),
            ("X-Latin", b"caf\xe9"),
        ],
    );
    let facts = Facts {
        root: b"/mount/\xc3\xa9",
        user: b"alice",
        content_length: Some(12),
        ..facts()
    };
    let found = environ(&head, &facts);
    let expected = [
        ("REQUEST_METHOD", "POST"),
        ("SCRIPT_NAME", "/mount/\u{c3}\u{a9}"),
        ("PATH_INFO", "/caf\u{c3}\u{a9}/a/b"),
        ("QUERY_STRING", "x=%20&y"),
        ("REQUEST_URI", "/caf%C3%A9/a%2Fb?x=%20&y"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("wsgi.url_scheme", "http"),
        ("SERVER_NAME", "example.com"),
        ("SERVER_PORT", "8080"),
        ("REMOTE_ADDR", "203.0.113.9"),
        ("REMOTE_PORT", "50000"),
        ("REMOTE_USER", "alice"),
        ("CONTENT_LENGTH", "12"),
        ("CONTENT_TYPE", "text/plain"),
        ("HTTP_HOST", "Example.com:8080"),
        ("HTTP_ACCEPT_ENCODING", "gzip"),
        ("HTTP_X_CUSTOM_HEADER", "one, two"),
        ("HTTP_COOKIE", "a=1; b=2"),
        ("HTTP_ACCEPT", "text/html, */*"),
        ("HTTP_X_LATIN", "caf\u{e9}"),
    ];
    let expected: BTreeMap<String, Value> = expected
        .into_iter()
        .map(|(key, value)| (key.to_owned(), text(value)))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn an_environment_without_addresses_has_texts_all_the_same() {
    let facts = Facts {
        client: None,
        server: None,
        scheme: Scheme::Https,
        ..facts()
    };
    let found = environ(&head("/", &[]), &facts);
    for (key, value) in [
        ("REMOTE_ADDR", ""),
        ("SERVER_NAME", "localhost"),
        ("SERVER_PORT", "443"),
        ("HTTPS", "on"),
        ("wsgi.url_scheme", "https"),
        ("QUERY_STRING", ""),
        ("SCRIPT_NAME", ""),
    ] {
        assert_eq!(found.get(key), Some(&text(value)), "{key}");
    }
    for key in [
        "REMOTE_PORT",
        "REMOTE_USER",
        "CONTENT_LENGTH",
        "CONTENT_TYPE",
    ] {
        assert!(!found.contains_key(key), "{key}");
    }
}

#[test]
fn long_names_and_values_have_long_lengths() {
    let name = "X-".to_owned() + &"a".repeat(253);
    let value = vec![b'v'; 70_000];
    let found = environ(&head("/", &[(&name, &value)]), &facts());
    let key = "HTTP_X_".to_owned() + &"A".repeat(253);
    assert_eq!(found[&key], Value::Text("v".repeat(70_000)));
    let high = vec![0xff; 300];
    let found = environ(&head("/", &[("X-High", &high)]), &facts());
    assert_eq!(found["HTTP_X_HIGH"], Value::Text("\u{ff}".repeat(300)));
}

#[test]
fn a_scope_has_what_asgi_asks_for() {
    let mut head = head(
        "/caf%C3%A9/%FF?x=%20",
        &[
            ("Host", b"example.com"),
            ("X-Thing", b"a\xe9"),
            ("X_Thing", b"smuggled"),
            ("Transfer-Encoding", b"chunked"),
        ],
    );
    head.version = Version::Http2;
    let facts = Facts {
        root: b"/mount it",
        ..facts()
    };
    let found = scope(ScopeKind::Http, &head, &facts);
    let pair = |name: &[u8], value: &[u8]| {
        Value::Tuple(vec![
            Value::Bytes(name.to_vec()),
            Value::Bytes(value.to_vec()),
        ])
    };
    let address = |host: &str, port| Value::Tuple(vec![text(host), Value::Int(port)]);
    let expected = [
        ("type", text("http")),
        ("http_version", text("2")),
        ("method", text("POST")),
        ("scheme", text("http")),
        ("root_path", text("/mount it")),
        ("path", text("/mount it/café/\u{fffd}")),
        (
            "raw_path",
            Value::Bytes(b"/mount%20it/caf%C3%A9/%FF".to_vec()),
        ),
        ("query_string", Value::Bytes(b"x=%20".to_vec())),
        (
            "headers",
            Value::List(vec![
                pair(b"host", b"example.com"),
                pair(b"x-thing", b"a\xe9"),
            ]),
        ),
        ("client", address("203.0.113.9", 50_000)),
        ("server", address("192.0.2.1", 8080)),
    ];
    let expected: BTreeMap<String, Value> = expected
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_websocket_has_its_scheme_and_subprotocols() {
    let head = head(
        "/chat",
        &[
            ("Sec-WebSocket-Protocol", b"v1, v2"),
            ("sec-websocket-protocol", b" ,v3"),
        ],
    );
    let tls = TlsInfo {
        version: "tls1.3",
        cipher: "TLS_AES_256_GCM_SHA384",
        client_certs: vec![vec![1, 2, 3]],
        ..TlsInfo::default()
    };
    let facts = Facts {
        scheme: Scheme::Https,
        client: None,
        tls: Some(&tls),
        ..facts()
    };
    let found = scope(ScopeKind::WebSocket, &head, &facts);
    assert_eq!(found["type"], text("websocket"));
    assert_eq!(found["scheme"], text("wss"));
    assert_eq!(found["client"], Value::None);
    let offered = ["v1", "v2", "v3"].map(text).to_vec();
    assert_eq!(found["subprotocols"], Value::List(offered));
    assert!(!found.contains_key("method"));
    let Value::Dict(extensions) = &found["extensions"] else {
        panic!()
    };
    let Value::Dict(tls) = &extensions["tls"] else {
        panic!()
    };
    assert_eq!(tls["tls_version"], Value::Int(0x0304));
    assert_eq!(tls["cipher_suite"], Value::Int(0x1302));
    let pem = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";
    assert_eq!(tls["client_cert_chain"], Value::List(vec![text(pem)]));
}

#[test]
fn the_sample_has_two_forms_and_nearly_every_code() {
    let mut out = Vec::new();
    encode_sample(&mut out);
    let (head, payload) = out
        .split_first_chunk::<16>()
        .expect("the test writes it well");
    let header = Header::decode(head).expect("the test writes it well");
    assert_eq!(
        (header.kind, header.length as usize),
        (Kind::Sample, payload.len())
    );
    let (marshal, json) = payload.split_at(header.large as usize);
    let found = dict(marshal);
    assert_eq!(found["path"], text(&("/é/".repeat(200) + "/café")));
    for code in *b"{0zusi)[N" {
        assert!(marshal.contains(&code), "{}", char::from(code));
    }
    let json = std::str::from_utf8(json).expect("the test writes it well");
    assert!(json.starts_with("{\"type\":\"http\","), "{json}");
    assert!(json.contains("[\"x-latin\",\"café\"]"), "{json}");
    assert!(json.ends_with("\"server\":null}"), "{json}");
}

#[test]
fn json_escapes_what_it_must() {
    let head = head("/a\"b\\c", &[("X-Odd", b"tab\there \x7f")]);
    let mut out = Vec::new();
    write_environ(&mut Json::new(&mut out), &head, &facts());
    let json = String::from_utf8(out).expect("the test writes it well");
    assert!(json.contains(r#""PATH_INFO":"/a\"b\\c""#), "{json}");
    assert!(
        json.contains("\"HTTP_X_ODD\":\"tab\\u0009here \u{7f}\""),
        "{json}"
    );
    let mut out = Vec::new();
    write_scope(&mut Json::new(&mut out), ScopeKind::Http, &head, &facts());
    let json = String::from_utf8(out).expect("the test writes it well");
    assert!(
        json.contains("\"headers\":[[\"x-odd\",\"tab\\u0009here \u{7f}\"]]"),
        "{json}"
    );
    assert!(json.contains(r#""server":["192.0.2.1",8080]}"#), "{json}");
}

fn block(text: &str, hop_by_hop: HopByHop) -> Result<(Option<u64>, Vec<String>), BlockFault> {
    let mut fields = Fields::new();
    let length = decode_block(text.as_bytes(), hop_by_hop, &mut fields);
    if length.is_err() {
        assert!(fields.is_empty());
    }
    let line = |field: sluice_message::Field<'_>| {
        let (name, value) = (field.name, field.value);
        format!("{}={}", name.escape_ascii(), value.escape_ascii())
    };
    Ok((length?, fields.iter().map(line).collect()))
}

#[test]
fn header_blocks_are_lines_without_an_empty_one() {
    let (length, lines) = block(
        "Content-Type: text/plain\r\nContent-Length: 5\r\nX-A:\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n",
        HopByHop::Refuse,
    )
    .expect("the test writes it well");
    assert_eq!(length, Some(5));
    assert_eq!(
        lines,
        [
            "Content-Type=text/plain",
            "Content-Length=5",
            "X-A=",
            "set-cookie=a=1",
            "set-cookie=b=2"
        ]
    );
    assert_eq!(block("", HopByHop::Refuse), Ok((None, vec![])));
}

#[test]
fn header_blocks_that_could_inject_something_are_refused() {
    use HopByHop::Refuse;
    for (text, fault) in [
        ("A: b", BlockFault::Unfinished),
        ("A: b\r\n\r\n", BlockFault::Unfinished),
        ("A: b\r\n\r\nHTTP/1.1 200 OK\r\n", BlockFault::Unfinished),
        ("\r\nA: b\r\n", BlockFault::Unfinished),
        ("A: b\nC: d\r\n", BlockFault::Field(FieldFault::LineEnd)),
        ("A: b\rC: d\r\n", BlockFault::Field(FieldFault::LineEnd)),
        ("A: b\0\r\n", BlockFault::Field(FieldFault::ValueByte(0))),
        ("A b: c\r\n", BlockFault::Field(FieldFault::NameByte(b' '))),
        (": c\r\n", BlockFault::Field(FieldFault::EmptyName)),
        ("A: b\r\n folded\r\n", BlockFault::Field(FieldFault::Folded)),
        ("Content-Length: x\r\n", BlockFault::Length),
        (
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            BlockFault::Length,
        ),
        (
            "Connection: close\r\n",
            BlockFault::HopByHop(FieldId::Connection),
        ),
        (
            "transfer-encoding: chunked\r\n",
            BlockFault::HopByHop(FieldId::TransferEncoding),
        ),
    ] {
        assert_eq!(block(text, Refuse), Err(fault), "{text:?}");
    }
    let many = "A: b\r\n".repeat(1001);
    assert_eq!(
        block(&many, Refuse),
        Err(BlockFault::Field(FieldFault::TooMany))
    );
    let kept = block(
        "A: b\r\nTransfer-Encoding: chunked\r\nTE: x\r\nC: d\r\n",
        HopByHop::Drop,
    );
    assert_eq!(kept, Ok((None, vec!["A=b".to_owned(), "C=d".to_owned()])));
}
