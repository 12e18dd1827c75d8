//! A table of raw responses as upstreams may send them and the expected result for each, however its bytes are split.

use sluice_message::Method;
use sluice_wire::h1::Limits;

use crate::feed;
use crate::feed::response;

fn outcome(method: &Method, raw: &[u8]) -> String {
    response(raw, method, &Limits::DEFAULT)
}

fn refused(raw: &[u8], fault: &str) {
    let outcome = outcome(&Method::Get, raw);
    let found = outcome.rsplit(' ').next().unwrap_or_default();
    let wanted = [
        fault.into(),
        format!("Field({fault})"),
        format!("Framing({fault})"),
    ];
    let is_expected = outcome.starts_with("refused: ") && wanted.iter().any(|w| w == found);
    assert!(
        is_expected,
        "{} gave {outcome}, not {fault}",
        feed::text(raw)
    );
}

/// Asserts what a response to `method` is taken for: kind, body and whether the connection lasts.
fn taken(method: &Method, raw: &str, expected: &str) {
    let outcome = outcome(method, raw.as_bytes());
    assert!(
        outcome.contains(&format!(" {expected}\n")),
        "{raw:?} gave {outcome}, not {expected}"
    );
}

#[test]
fn bodies_end_as_the_standard_says() {
    // RFC 9112, section 6.3, in its order.
    let get = Method::Get;
    for (raw, expected) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            "Http11 Final Length(5) Reuse",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "Http11 Final Length(0) Reuse",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "Http11 Final Chunked Reuse",
        ),
        ("HTTP/1.1 200 OK\r\n\r\n", "Http11 Final UntilClose Close"),
        (
            "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n",
            "Http11 Final UntilClose Close",
        ),
        (
            "HTTP/1.1 500 X\r\nContent-Length: 1\r\nConnection: close\r\n\r\n",
            "Http11 Final Length(1) Close",
        ),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
            "Http10 Final Length(5) Close",
        ),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: Keep-Alive\r\n\r\n",
            "Http10 Final Length(5) Reuse",
        ),
        ("HTTP/1.0 200 OK\r\n\r\n", "Http10 Final UntilClose Close"),
        ("HTTP/1.1 204 No Content\r\n\r\n", "Http11 Final None Reuse"),
        (
            "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
            "Http11 Final None Reuse",
        ),
        (
            "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
            "Http11 Final None Close",
        ),
        (
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
            "Http11 Final None Close",
        ),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
            "Http11 Final None Reuse",
        ),
        (
            "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
            "Http11 Final None Reuse",
        ),
        (
            "HTTP/1.1 205 Reset Content\r\n\r\n",
            "Http11 Final UntilClose Close",
        ),
    ] {
        taken(&get, raw, expected);
    }
}

#[test]
fn interim_and_switching_responses_are_distinguished() {
    let get = Method::Get;
    for (raw, expected) in [
        ("HTTP/1.1 100 Continue\r\n\r\n", "Http11 Interim None Reuse"),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
            "Http11 Interim None Reuse",
        ),
        (
            "HTTP/1.1 199 X\r\nContent-Length: 5\r\n\r\n",
            "Http11 Interim None Close",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            "Http11 Switched None Close",
        ),
        (
            "HTTP/1.1 101 X\r\nConnection: keep-alive, upgrade\r\nupgrade: h\r\nContent-Length: 5\r\n\r\n",
            "Http11 Switched None Close",
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
            "Http11 Final UntilClose Close",
        ),
    ] {
        taken(&get, raw, expected);
    }
    refused(b"HTTP/1.1 101 X\r\n\r\n", "SwitchedToNothing");
    refused(
        b"HTTP/1.1 101 X\r\nConnection: upgrade\r\n\r\n",
        "SwitchedToNothing",
    );
    refused(
        b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\n\r\n",
        "SwitchedToNothing",
    );
    refused(
        b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade:\r\n\r\n",
        "SwitchedToNothing",
    );
}

#[test]
fn the_method_decides_too() {
    for (method, raw, expected) in [
        (
            Method::Head,
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            "Http11 Final None Reuse",
        ),
        (
            Method::Head,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "Http11 Final None Reuse",
        ),
        (
            Method::Head,
            "HTTP/1.1 200 OK\r\n\r\n",
            "Http11 Final None Reuse",
        ),
        (
            Method::Head,
            "HTTP/1.0 200 OK\r\n\r\n",
            "Http10 Final None Close",
        ),
        (
            Method::Connect,
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            "Http11 Switched None Close",
        ),
        (
            Method::Connect,
            "HTTP/1.1 204 X\r\n\r\n",
            "Http11 Switched None Close",
        ),
        (
            Method::Connect,
            "HTTP/1.1 407 X\r\nContent-Length: 5\r\n\r\n",
            "Http11 Final Length(5) Reuse",
        ),
        (
            Method::Post,
            "HTTP/1.1 413 X\r\nContent-Length: 5\r\n\r\n",
            "Http11 Final Length(5) Reuse",
        ),
    ] {
        taken(&method, raw, expected);
    }
}

#[test]
fn status_lines_are_taken_strictly_but_for_the_reason() {
    for line in [
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 ",
        "HTTP/1.1 200",
        "HTTP/1.1 299 Any \t thing: \u{e9}!",
        "HTTP/1.1 999 X",
        "HTTP/1.9 200 OK",
        "HTTP/1.0 600 X",
        "HTTP/1.1 200  two spaces",
    ] {
        let outcome = outcome(
            &Method::Get,
            format!("{line}\r\nContent-Length: 0\r\n\r\n").as_bytes(),
        );
        assert!(outcome.contains("Final Length(0)"), "{line} gave {outcome}");
    }
    for line in [
        "HTTP/1.1  200 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 000 OK",
        "HTTP/1.1 +20 OK",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1 200OK",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1",
        "HTTP/1.1 ",
        "HTTP/1.x 200 OK",
        "HTTP/1.10 200 OK",
        "HTTP/1. 200 OK",
        "HTTP/1.1 -200 OK",
        "HTTP/1.1 200 a\0b",
        "HTTP/1.1 200 \x1b[2J",
        "HTTP/1.1 \u{664}00 OK",
    ] {
        refused(
            format!("{line}\r\nContent-Length: 0\r\n\r\n").as_bytes(),
            "StatusLine",
        );
    }
    for raw in [
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/0.9 200 OK\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "200 OK\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        " HTTP/1.1 200 OK\r\n\r\n",
        "<html>",
        "SSH-2.0-x\r\n",
        "HTTPS/1.1 200 OK\r\n\r\n",
        "HTTP /1.1 200 OK\r\n\r\n",
        "\0",
        "\x15\x03\x01",
    ] {
        refused(raw.as_bytes(), "NotHttp");
    }
    for raw in [
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 OK\r\r\n\r\n",
        "HTTP/1.1 200 OK\rX: y\r\n\r\n",
        "HTTP/1.1 200\n",
        "HTTP/1.1\n",
    ] {
        refused(raw.as_bytes(), "LineEnd");
    }
}

#[test]
fn contradictory_framing_is_refused() {
    for (lines, fault) in [
        ("Content-Length: 5\r\nContent-Length: 5", "LengthRepeated"),
        ("Content-Length: 5\r\nContent-Length: 6", "LengthRepeated"),
        ("Content-Length: 5, 5", "LengthInvalid"),
        ("Content-Length: -1", "LengthInvalid"),
        ("Content-Length: +5", "LengthInvalid"),
        ("Content-Length: ", "LengthInvalid"),
        ("Content-Length: 99999999999999999999", "LengthInvalid"),
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "LengthAndCoding",
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 5",
            "LengthAndCoding",
        ),
        ("Transfer-Encoding: identity", "CodingInvalid"),
        ("Transfer-Encoding: gzip", "CodingInvalid"),
        ("Transfer-Encoding: chunked, chunked", "CodingInvalid"),
        ("Transfer-Encoding: chunked, gzip", "CodingInvalid"),
        ("Transfer-Encoding: gzip, chunked", "CodingUnknown"),
        ("Transfer-Encoding:", "CodingInvalid"),
    ] {
        for status in ["200 OK", "404 X", "304 X", "204 X", "103 X"] {
            refused(
                format!("HTTP/1.1 {status}\r\n{lines}\r\n\r\n").as_bytes(),
                fault,
            );
        }
    }
    refused(
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "CodingInHttp10",
    );
}

#[test]
fn malformed_fields_are_refused() {
    for (line, fault) in [
        ("x : y", "SpaceBeforeColon"),
        (" x: y", "Folded"),
        (": y", "EmptyName"),
        ("x", "NoColon"),
        ("x: a\0", "ValueByte(0)"),
        ("x: a\r\n b", "Folded"),
        ("x: a\rb", "LineEnd"),
        ("x: a\ny: b", "LineEnd"),
        ("x\u{e9}: y", "NameByte(195)"),
        ("Content-Length : 5", "SpaceBeforeColon"),
    ] {
        refused(
            format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").as_bytes(),
            fault,
        );
        refused(
            format!("HTTP/1.1 200 OK\r\nServer: x\r\n{line}\r\n\r\n").as_bytes(),
            fault,
        );
    }
}

#[test]
fn heads_are_bounded() {
    let limits = Limits::DEFAULT;
    let value = |length: usize| format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(length));
    refused(value(limits.head_bytes_max).as_bytes(), "HeadTooLarge");
    refused(
        format!("HTTP/1.1 200 {}", "y".repeat(40_000)).as_bytes(),
        "HeadTooLarge",
    );
    let fields = |count: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(count));
    refused(fields(limits.fields_max + 1).as_bytes(), "TooMany");
    taken(
        &Method::Get,
        &fields(1),
        "Http11 Final UntilClose Close\nX: y",
    );
}

#[test]
fn an_incomplete_head_is_not_a_response() {
    let raw = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\n";
    for end in 0..raw.len() {
        assert_eq!(outcome(&Method::Get, &raw[..end]), "incomplete");
    }
}
