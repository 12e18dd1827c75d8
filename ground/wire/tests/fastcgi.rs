//! FastCGI responses as applications may send them, however their bytes are split; and requests as an application
//! parses them.

use sluice_wire::cgi::VariableName;
use sluice_wire::fastcgi::{
    Params, ResponseDecoder, STDIN_BYTES_MAX, STDIN_END, WhenDone, encode_begin, encode_name,
    encode_param, encode_stdin_head,
};
use sluice_wire::h1::Limits;
use sluice_wire::limits::STDERR_BYTES_MAX;

use crate::feed_fastcgi::{Outcome, head, respond_in, response};

const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// A record with content and so many bytes of padding.
fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let mut bytes = vec![1, kind, 0, 1];
    bytes.extend_from_slice(&(content.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[padding, 0]);
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + usize::from(padding), 0xee);
    bytes
}

fn end(protocol_status: u8) -> Vec<u8> {
    record(3, &[0, 0, 0, 255, protocol_status, 9, 9, 9], 0)
}

fn joined(records: &[Vec<u8>]) -> Vec<u8> {
    records.concat()
}

#[test]
fn content_is_what_the_records_hold() {
    let bytes = joined(&[
        record(STDOUT, b"Status: 200\r\n", 3),
        record(STDERR, b"PHP Notice: x", 0),
        record(STDOUT, b"\r\n", 255),
        record(STDOUT, b"body", 4),
        record(STDERR, b"; and y", 1),
        record(STDOUT, b"", 7),
        record(STDERR, b"", 0),
        end(0),
        b"rest".to_vec(),
    ]);
    let expected = Outcome {
        content: b"Status: 200\r\n\r\nbody".to_vec(),
        stderr: b"PHP Notice: x; and y".to_vec(),
        dropped: 0,
        consumed: bytes.len() - 4,
        state: "end".to_owned(),
    };
    assert_eq!(response(&bytes), expected);
}

#[test]
fn request_streams_may_stay_open_until_the_response() {
    let bytes = joined(&[record(STDOUT, b"x", 0), end(0)]);
    let outcome = response(&bytes);
    assert_eq!(
        (&outcome.content[..], &outcome.state[..]),
        (&b"x"[..], "end")
    );
    assert_eq!(response(&end(0)).state, "end");
    let padded = joined(&[record(3, &[0; 8], 5), vec![1]]);
    assert_eq!(response(&padded).consumed, padded.len() - 1);
}

#[test]
fn the_largest_records_are_taken() {
    let content = vec![b'x'; 65_535];
    let bytes = joined(&[
        record(STDOUT, &content, 255),
        record(STDOUT, &content, 1),
        end(0),
    ]);
    let outcome = response(&bytes);
    assert_eq!(
        (outcome.content.len(), &outcome.state[..]),
        (131_070, "end")
    );
}

#[test]
fn an_invalid_response_is_refused() {
    let begun = || record(STDOUT, b"x", 0);
    for (bytes, fault) in [
        (b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), "Version(72)"),
        (b"\0\0\0\0\0\0\0\0".to_vec(), "Version(0)"),
        (b"\x02\x06\0\x01\0\0\0\0".to_vec(), "Version(2)"),
        (b"\x01\x06\0\x02\0\0\0\0".to_vec(), "Id(2)"),
        (b"\x01\x06\x01\x01\0\0\0\0".to_vec(), "Id(257)"),
        (b"\x01\x06\0\0\0\0\0\0".to_vec(), "Id(0)"),
        // GET_VALUES_RESULT and UNKNOWN_TYPE, which nobody asked for.
        (b"\x01\x0a\0\0\0\0\0\0".to_vec(), "Kind(10)"),
        (b"\x01\x0b\0\0\0\x08\0\0".to_vec(), "Kind(11)"),
        (b"\x01\x01\0\x01\0\x08\0\0".to_vec(), "Kind(1)"),
        (b"\x01\x05\0\x01\0\0\0\0".to_vec(), "Kind(5)"),
        (b"\x01\x08\0\x01\0\0\0\0".to_vec(), "Kind(8)"),
        (record(3, &[0; 7], 0), "EndLength(7)"),
        (record(3, &[0; 9], 0), "EndLength(9)"),
        (record(3, &[], 0), "EndLength(0)"),
        (end(1), "Refused(CannotMultiplex)"),
        (end(2), "Refused(Overloaded)"),
        (end(3), "Refused(UnknownRole)"),
        (end(200), "Refused(Other(200))"),
        (
            joined(&[record(STDOUT, b"", 0), record(STDOUT, b"x", 0)]),
            "AfterEnd",
        ),
        (
            joined(&[record(STDERR, b"", 0), record(STDERR, b"x", 0)]),
            "AfterEnd",
        ),
    ] {
        assert_eq!(response(&bytes).state, fault);
        let late = joined(&[begun(), bytes]);
        assert_eq!(response(&late).state, fault, "behind content");
    }
}

#[test]
fn a_response_without_its_end_record_is_incomplete() {
    let bytes = joined(&[record(STDOUT, b"Status: 200\r\n\r\nbody", 2), end(0)]);
    for length in 0..bytes.len() {
        assert_eq!(respond_in(&[&bytes[..length]]).state, "unfinished");
    }
}

#[test]
fn standard_error_is_kept_up_to_a_limit_and_only_where_asked_for() {
    let line = vec![b'e'; 1000];
    let mut bytes = Vec::new();
    for _ in 0..70 {
        bytes.extend_from_slice(&record(STDERR, &line, 0));
    }
    bytes.extend_from_slice(&end(0));
    let outcome = respond_in(&[&bytes]);
    assert_eq!(outcome.stderr.len(), STDERR_BYTES_MAX);
    assert_eq!(outcome.dropped, 70_000 - STDERR_BYTES_MAX as u64);
    let mut decoder = ResponseDecoder::new();
    assert!(
        decoder
            .decode_merged(&mut bytes)
            .is_ok_and(|step| step.ended)
    );
    assert_eq!(decoder.stderr().text.capacity(), 0);
}

#[test]
fn heads_are_read_as_cgi_has_them() {
    let limits = Limits::DEFAULT;
    for (bytes, expected) in [
        (
            "Content-Type: text/html\r\n\r\nbody",
            "27 200 None Content-Type=text/html",
        ),
        (
            "Content-Type: text/html\n\nbody",
            "25 200 None Content-Type=text/html",
        ),
        ("A: b\r\nC:d \n\r\n", "13 200 None A=b C=d"),
        ("Status: 404 Not Found\r\nX: y\r\n\r\n", "31 404 None X=y"),
        ("status:500\r\n\r\n", "14 500 None"),
        ("Status: 299 \r\n\r\n", "16 299 None"),
        (
            "Location: https://x/y\r\n\r\n",
            "25 302 None Location=https://x/y",
        ),
        (
            "Location: /y\r\nStatus: 301 X\r\n\r\n",
            "31 301 None Location=/y",
        ),
        (
            "Content-Length: 5\r\n\r\n",
            "21 200 Some(5) Content-Length=5",
        ),
        ("\r\nbody", "2 200 None"),
        ("\nbody", "1 200 None"),
        (
            "Set-Cookie: a\r\nSet-Cookie: b\r\n\r\n",
            "32 200 None Set-Cookie=a Set-Cookie=b",
        ),
        ("X: caf\u{e9}\r\n\r\n", "12 200 None X=caf\\xc3\\xa9"),
        ("X:\r\n\r\n", "6 200 None X="),
    ] {
        assert_eq!(head(bytes.as_bytes(), &limits), expected, "{bytes:?}");
    }
}

#[test]
fn heads_that_can_be_read_in_two_ways_are_refused() {
    for (bytes, fault) in [
        ("HTTP/1.1 200 OK\r\n\r\n", "Field(NameByte(47))"),
        ("no colon\r\n\r\n", "Field(NameByte(32))"),
        ("nocolon\r\n\r\n", "Field(NoColon)"),
        (": y\r\n\r\n", "Field(EmptyName)"),
        (" X: y\r\n\r\n", "Field(Folded)"),
        ("X: y\r\n z\r\n\r\n", "Field(Folded)"),
        ("X : y\r\n\r\n", "Field(SpaceBeforeColon)"),
        ("X: a\rb\r\n\r\n", "Field(ValueByte(13))"),
        ("X: a\0b\r\n\r\n", "Field(ValueByte(0))"),
        ("X\r: y\r\n\r\n", "Field(NameByte(13))"),
        ("Status: 20\r\n\r\n", "Status"),
        ("Status: OK\r\n\r\n", "Status"),
        ("Status: 2000\r\n\r\n", "Status"),
        ("Status: 200OK\r\n\r\n", "Status"),
        ("Status:\r\n\r\n", "Status"),
        ("Status: 103 Early Hints\r\n\r\n", "Status"),
        ("Status: 101 X\r\nUpgrade: y\r\n\r\n", "Status"),
        ("Status: 099 X\r\n\r\n", "Status"),
        ("Status: 200\r\nstatus: 200\r\n\r\n", "StatusRepeated"),
        (
            "Content-Length: 5\r\ncontent-length: 5\r\n\r\n",
            "Framing(LengthRepeated)",
        ),
        ("Content-Length: 5, 5\r\n\r\n", "Framing(LengthInvalid)"),
        ("Content-Length: -1\r\n\r\n", "Framing(LengthInvalid)"),
        ("Transfer-Encoding: chunked\r\n\r\n", "Coded"),
        ("transfer-encoding: identity\r\n\r\n", "Coded"),
    ] {
        let outcome = head(bytes.as_bytes(), &Limits::DEFAULT);
        let is_expected = outcome.starts_with("refused: ") && outcome.ends_with(fault);
        assert!(is_expected, "{bytes:?} gave {outcome}, not {fault}");
    }
}

#[test]
fn heads_are_bounded() {
    let limits = Limits::DEFAULT;
    let refused = |bytes: String, fault: &str| {
        let outcome = head(bytes.as_bytes(), &limits);
        assert!(outcome.ends_with(fault), "{outcome}, not {fault}");
    };
    refused(format!("X: {}\r\n\r\n", "y".repeat(40_000)), "TooLarge");
    refused("y".repeat(40_000), "TooLarge");
    refused(format!("{}\r\n", "X: y\r\n".repeat(101)), "Field(TooMany)");
    refused(
        format!("{}: y\r\n\r\n", "x".repeat(257)),
        "Field(NameTooLong)",
    );
    let all = format!("{}\r\n", "X: y\r\n".repeat(100));
    assert!(head(all.as_bytes(), &limits).starts_with("602 200"));
}

/// Kind, content and padding of each record in `bytes`.
fn records(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    while let [1, kind, 0, 1, high, low, padding, 0, rest @ ..] = bytes {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        found.push((*kind, rest[..length].to_vec()));
        bytes = &rest[length + usize::from(*padding)..];
    }
    assert!(bytes.is_empty(), "nothing stands between records");
    found
}

/// Names and values out of the content of PARAMS records.
fn pairs(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    fn length(bytes: &mut &[u8]) -> usize {
        let (length, used) = match **bytes {
            [short @ 0..0x80, ..] => (usize::from(short), 1),
            [a, b, c, d, ..] => (u32::from_be_bytes([a & 0x7f, b, c, d]) as usize, 4),
            _ => panic!("a length is cut off"),
        };
        *bytes = &bytes[used..];
        length
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        let (first, rest) = bytes.split_at(name);
        let (second, rest) = rest.split_at(value);
        found.push((first.to_vec(), second.to_vec()));
        bytes = rest;
    }
    found
}

#[test]
fn requests_are_read_as_they_were_written() {
    for lengths in [
        &[0, 1, 126][..],
        &[127, 128, 129],
        &[65_000, 300, 255],
        &[65_535, 70_000, 200_000],
        &[],
    ] {
        let mut out = b"before".to_vec();
        encode_begin(WhenDone::Keep, &mut out);
        let mut params = Params::new(&mut out);
        let mut expected = Vec::new();
        for (index, length) in lengths.iter().enumerate() {
            let (name, value) = (vec![b'N'; index + 1 + length / 500], vec![b'v'; *length]);
            params.push(&name[..], &value);
            params.push_with(&name[..], |out| out.extend_from_slice(&value));
            let mut encoded = Vec::new();
            encode_name(name[..].into(), &mut encoded).unwrap();
            params.push_named(&encoded, &value);
            expected.extend(vec![(name, value); 3]);
        }
        params.end().unwrap();
        out.extend_from_slice(&STDIN_END);
        let found = records(&out[6..]);
        assert_eq!(found[0], (1, vec![0, 1, 1, 0, 0, 0, 0, 0]));
        let content: Vec<u8> = found
            .iter()
            .filter(|(kind, _)| *kind == 4)
            .flat_map(|(_, content)| content.clone())
            .collect();
        assert_eq!(pairs(&content), expected);
        let ends: Vec<u8> = found
            .iter()
            .filter(|(_, content)| content.is_empty())
            .map(|(kind, _)| *kind)
            .collect();
        assert_eq!(ends, [4, 5], "each stream ends once");
    }
}

#[test]
fn a_refused_variable_leaves_nothing_behind() {
    for (name, value) in [(&b"A\0"[..], &b"b"[..]), (b"A", b"\0"), (b"A\0", &[0; 200])] {
        let mut out = b"before".to_vec();
        let mut params = Params::new(&mut out);
        params.push(name, value);
        params.push_with(name, |out| out.extend_from_slice(value));
        assert!(params.end().is_err());
        assert_eq!(out, b"before");
        assert!(encode_param(name.into(), value, &mut out).is_err());
        assert_eq!(out, b"before");
        let mut encoded = Vec::new();
        let named = encode_name(name.into(), &mut encoded);
        assert_eq!(named.is_err(), name.contains(&0));
        assert_eq!(encoded.is_empty(), named.is_err());
    }
    let mut encoded = Vec::new();
    encode_name(b"A".into(), &mut encoded).unwrap();
    for value in [&b"\0"[..], &[0; 200], b"value\0"] {
        let mut out = b"before".to_vec();
        let mut params = Params::new(&mut out);
        params.push_named(&encoded, value);
        params.push_named(&encoded, b"fits");
        assert!(params.end().is_err());
        assert_eq!(out, b"before");
    }
    let mut encoded = Vec::new();
    encode_param(VariableName::OfHeader(b"X-A"), b"1", &mut encoded).unwrap();
    let (mut out, mut again) = (Vec::new(), Vec::new());
    let mut params = Params::new(&mut out);
    params.push_encoded(&encoded);
    params.end().unwrap();
    let mut params = Params::new(&mut again);
    params.push(b"HTTP_X_A", b"1");
    params.end().unwrap();
    assert_eq!(out, again);
}

#[test]
fn the_application_is_asked_to_keep_the_connection() {
    let mut out = Vec::new();
    encode_begin(WhenDone::Close, &mut out);
    assert_eq!(records(&out), [(1, vec![0, 1, 0, 0, 0, 0, 0, 0])]);
}

#[test]
fn records_of_a_body_are_as_long_as_they_say() {
    for length in [1, 255, 256, STDIN_BYTES_MAX] {
        let mut out = Vec::new();
        encode_stdin_head(length, &mut out);
        out.resize(out.len() + length, b'x');
        assert_eq!(records(&out), [(5, vec![b'x'; length])]);
    }
}
