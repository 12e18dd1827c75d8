//! SCGI and uwsgi requests as applications parse them, and responses with a status line, however they are split.

use sluice_wire::h1::Limits;
use sluice_wire::{scgi, uwsgi};

use crate::feed_fastcgi::{head, head_of_http};

/// Names and values of a netstring, and how many bytes it takes.
fn netstring(bytes: &[u8]) -> (Vec<(String, String)>, usize) {
    let at = bytes
        .iter()
        .position(|byte| *byte == b':')
        .expect("a length");
    let length: usize = String::from_utf8_lossy(&bytes[..at])
        .parse()
        .expect("a number");
    let content = &bytes[at + 1..at + 1 + length];
    assert_eq!(bytes[at + 1 + length], b',');
    let text = content.strip_suffix(&[0]).expect("every value is ended");
    let parts: Vec<String> = text
        .split(|byte| *byte == 0)
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect();
    let pairs = parts
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()));
    (pairs.collect(), at + 1 + length + 1)
}

#[test]
fn a_netstring_begins_with_the_length_of_the_content() {
    for length in [0, 27, u64::MAX] {
        let mut out = b"before".to_vec();
        let mut params = scgi::Params::new(&mut out, length);
        params.push(b"REQUEST_METHOD", b"POST");
        params.push_with(b"EMPTY", |_| {});
        let mut named = Vec::new();
        scgi::encode_name(b"LONG".into(), &mut named).unwrap();
        params.push_named(&named, &[b'x'; 70_000]);
        params.push_named_with(&named, |_| {});
        params.end().unwrap();
        let (pairs, used) = netstring(&out[6..]);
        assert_eq!(used, out.len() - 6);
        let expected = [
            ("CONTENT_LENGTH", length.to_string()),
            ("SCGI", "1".to_owned()),
            ("REQUEST_METHOD", "POST".to_owned()),
            ("EMPTY", String::new()),
            ("LONG", "x".repeat(70_000)),
            ("LONG", String::new()),
        ];
        let expected: Vec<_> = expected
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        assert_eq!(pairs, expected);
    }
}

#[test]
fn no_byte_of_a_value_can_add_a_variable() {
    for byte in 0..=255 {
        let value = [b'a', byte, b'b'];
        let mut out = Vec::new();
        let mut params = scgi::Params::new(&mut out, 0);
        params.push(b"A", &value);
        let ended = params.end();
        assert_eq!(ended.is_err(), byte == 0, "{byte}");
        assert_eq!(
            out.is_empty(),
            byte == 0,
            "nothing is left of a refused one"
        );
        let mut params = scgi::Params::new(&mut out, 0);
        let mut named = Vec::new();
        scgi::encode_name(b"A".into(), &mut named).unwrap();
        params.push_named(&named, &value);
        params.push_named(&named, b"");
        assert_eq!(params.end().is_err(), byte == 0, "{byte} with a name");
        let mut out = Vec::new();
        let mut params = scgi::Params::new(&mut out, 0);
        params.push(&value, b"");
        assert_eq!(params.end().is_err(), byte == 0, "{byte} in a name");
        let mut named = Vec::new();
        let encoded = scgi::encode_name(value[..].into(), &mut named);
        assert_eq!(encoded.is_err(), byte == 0, "{byte} in an encoded name");
        assert_eq!(named.is_empty(), byte == 0);
    }
}

#[test]
fn a_packet_has_its_length_and_that_of_each_part() {
    let mut out = b"before".to_vec();
    let modifiers = uwsgi::Modifiers {
        first: 14,
        second: 7,
    };
    let mut params = uwsgi::Params::new(&mut out, modifiers);
    let long = vec![b'v'; 300];
    params.push(b"A", b"bc");
    params.push_with(b"", |out| out.extend_from_slice(&long));
    let mut named = Vec::new();
    uwsgi::encode_name(b"name".into(), &mut named).unwrap();
    params.push_named(&named, &long);
    params.push_named(&named, b"");
    params.end().unwrap();
    let content = [
        &[1, 0][..],
        b"A",
        &[2, 0],
        b"bc",
        &[0, 0],
        &[300_u16.to_le_bytes()[0], 1],
        &long,
        &[4, 0],
        b"name",
        &[300_u16.to_le_bytes()[0], 1],
        &long,
        &[4, 0],
        b"name",
        &[0, 0],
    ]
    .concat();
    let [low, high] = u16::try_from(content.len()).unwrap().to_le_bytes();
    assert_eq!(out, [b"before", &[14, low, high, 7][..], &content].concat());
}

#[test]
fn an_oversized_packet_is_refused() {
    let mut named = Vec::new();
    uwsgi::encode_name(b"A".into(), &mut named).unwrap();
    let end = |sizes: &[usize]| {
        let [ended, again] = [false, true].map(|is_named| {
            let mut out = b"before".to_vec();
            let mut params = uwsgi::Params::new(&mut out, uwsgi::Modifiers::default());
            for size in sizes {
                match is_named {
                    true => params.push_named(&named, &vec![b'x'; *size]),
                    false => params.push(b"A", &vec![b'x'; *size]),
                }
            }
            let ended = params.end();
            assert_eq!(ended.is_err(), out == b"before", "all or nothing");
            ended.is_ok()
        });
        assert_eq!(ended, again);
        ended
    };
    // Each variable has 2 + 1 + 2 bytes beside its value.
    assert!(end(&[0xffff - 5]));
    assert!(!end(&[0xffff - 4]));
    assert!(!end(&[0x10000]));
    assert!(!end(&[0x10000, 1]));
    assert!(end(&[30_000, 35_525]));
    assert!(!end(&[30_000, 35_526]));
}

#[test]
fn a_status_line_is_taken_where_it_may_stand() {
    let limits = Limits::DEFAULT;
    for (bytes, expected) in [
        ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "25 200 None A=b"),
        ("HTTP/1.0 404 Not Found\n\n", "24 404 None"),
        ("HTTP/1.1 204\r\n\r\n", "16 204 None"),
        ("HTTP/1.1 200 \r\n\r\n", "17 200 None"),
        (
            "HTTP/1.1 500 x\r\nStatus: 200 OK\r\nContent-Length: 3\r\n\r\n",
            "53 500 Some(3) Status=200 OK Content-Length=3",
        ),
        ("Status: 404 x\r\n\r\n", "17 404 None"),
        ("Location: /\r\n\r\n", "15 302 None Location=/"),
        ("\r\n", "2 200 None"),
    ] {
        assert_eq!(head_of_http(bytes.as_bytes(), &limits), expected, "{bytes}");
    }
    for bytes in [
        "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 \r\n\r\n",
        "HTTP/1.1 20\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/11 200 OK\r\n\r\n",
        "HTTP/x.1 200 OK\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\n\r\n",
        "A: b\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        let found = head_of_http(bytes.as_bytes(), &limits);
        assert!(found.starts_with("refused"), "{bytes}: {found}");
    }
    let refused = head(b"HTTP/1.1 200 OK\r\n\r\n", &limits);
    assert!(refused.starts_with("refused"), "FastCGI has no such line");
}
