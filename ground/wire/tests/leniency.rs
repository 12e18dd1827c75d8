//! What decoders accept beyond RFC 9112 where their limits allow it, and that nothing behind such a message can be read as
//! another one.

use sluice_message::{Method, RequestHead};
use sluice_wire::h1::{
    BodyFraming, Leniency, Limits, LineEnds, OddNames, TargetBytes, UndeclaredContent,
    encode_request_head, encode_with_target,
};

use crate::feed::{self, lenient, request, response, text};

/// Limits with one leniency.
fn only(leniency: Leniency) -> Limits {
    Limits {
        leniency,
        ..Limits::DEFAULT
    }
}

fn lf_too() -> Limits {
    only(Leniency {
        line_ends: LineEnds::LfToo,
        ..Leniency::default()
    })
}

fn raw_targets() -> Limits {
    only(Leniency {
        targets: TargetBytes::Raw,
        ..Leniency::default()
    })
}

fn gives(raw: &[u8], limits: &Limits, parts: &[&str]) {
    let outcome = request(raw, limits);
    for part in parts {
        assert!(
            outcome.contains(part),
            "{} gave {outcome}, not {part}",
            text(raw)
        );
    }
}

#[test]
fn a_line_of_a_request_may_end_with_lf_and_the_connection_ends_with_it() {
    let close = ["RequestFraming", "keep_alive: Close", "Host: a\n"];
    for raw in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a  \nX: y\r\n\r\n",
        "GET / HTTP/1.0\nHost: a\nConnection: keep-alive\n\n",
    ] {
        gives(raw.as_bytes(), &lf_too(), &close);
        assert!(request(raw.as_bytes(), &Limits::DEFAULT).starts_with("400 "));
    }
    let usual = b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    gives(usual, &lf_too(), &["keep_alive: Reuse"]);
    let body = b"POST / HTTP/1.1\nHost: a\nContent-Length: 3\n\nabcGET / HTTP/1.1\n";
    gives(
        body,
        &lf_too(),
        &["43 POST", "Length(3)", "keep_alive: Close"],
    );
}

/// Attack classes 1, 2 and 10: what two readers could take apart in two ways is refused with LF as with CR LF.
#[test]
fn bare_lf_lets_no_request_be_smuggled() {
    for lines in [
        "Content-Length: 3\nTransfer-Encoding: chunked\n",
        "Transfer-Encoding: chunked\nContent-Length: 3\n",
        "Content-Length: 3\nContent-Length: 3\n",
        "Content-Length: 3\r\nContent-Length: 4\n",
        "Content-Length : 3\n",
        "Content-Length: 3\n \n",
        "X: y\n Content-Length: 3\n",
        "X: y\n\tContent-Length: 3\n",
        "Content-Length: +3\n",
        "Transfer-Encoding : chunked\n",
        "Transfer-Encoding: chunked \rX: y\n",
        "X: y\rContent-Length: 3\n",
        "X: y\r\rContent-Length: 3\n",
        "X: y\r\r\n",
        "\rContent-Length: 3\n",
        "\0: y\n",
        ": y\n",
        "X\n",
        "X: \0\n",
        "Host: b\n",
    ] {
        for start in [
            "POST / HTTP/1.1\nHost: a\n",
            "POST / HTTP/1.1\r\nHost: a\r\n",
        ] {
            let raw = format!("{start}{lines}\n");
            let outcome = request(raw.as_bytes(), &lf_too());
            assert!(outcome.starts_with("400 "), "{raw:?} gave {outcome}");
        }
    }
    // A request line ends where every reader sees its end.
    for raw in [
        "GET / HTTP/1.1\rHost: a\n\n",
        "GET /\nHTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1 \nHost: a\n\n",
        "GET\n/ HTTP/1.1\nHost: a\n\n",
        "GET /\n",
        "PRI * HTTP/2.0\n\nSM\n\n",
    ] {
        let outcome = request(raw.as_bytes(), &lf_too());
        assert!(
            outcome.starts_with("400 ") || outcome.starts_with("505 "),
            "{raw:?} gave {outcome}"
        );
    }
    // Odd names are left out whichever the line end is; those that resemble names of framing are refused.
    let odd = Limits {
        odd_names: OddNames::PassOver,
        ..lf_too()
    };
    let raw = b"GET / HTTP/1.1\r\nHost: a\r\nB[d: 1\n\r\n";
    gives(raw, &odd, &["keep_alive: Close", "Host: a\n"]);
    let raw = b"GET / HTTP/1.1\r\nHost: a\r\nContent[-Length: 1\n\r\n";
    assert!(request(raw, &odd).starts_with("400 "));
}

/// Chunks and trailers are read strictly whatever heads may have.
#[test]
fn chunks_are_framed_strictly_behind_any_head() {
    for raw in [
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc\r\n0\n\r\n",
        "3\r\nabc\r\n0\r\n\n",
        "3\r\nabc\r\n0\r\nX: y\n\r\n",
        "3\r\nabc\r\n0\r\nX: y\r\n\n",
    ] {
        let found = feed::body(raw.as_bytes(), BodyFraming::Chunked, &lenient());
        assert!(
            found.state != "end" && found.state != "more",
            "{raw:?} gave {found:?}"
        );
    }
}

#[test]
fn a_line_of_a_response_may_end_with_lf_and_the_connection_ends_with_it() {
    for raw in [
        "HTTP/1.1 200 OK\nContent-Length: 2\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\n",
        "HTTP/1.1 200\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\n",
    ] {
        let found = response(raw.as_bytes(), &Method::Get, &lf_too());
        assert!(
            found.contains("Final Length(2) Close"),
            "{raw:?} gave {found}"
        );
        let found = response(raw.as_bytes(), &Method::Get, &Limits::DEFAULT);
        assert!(found.starts_with("refused"), "{raw:?} gave {found}");
    }
    for raw in [
        "HTTP/1.1 200 OK\nContent-Length: 2\nTransfer-Encoding: chunked\n\n",
        "HTTP/1.1 200 OK\nContent-Length: 2\nContent-Length: 3\n\n",
        "HTTP/1.1 200 OK\rX: y\n\n",
        "HTTP/1.1 200 OK\nX: y\r\r\n\n",
        "HTTP/1.1\n200 OK\n\n",
        "HTTP/1.1 200 OK\nX: y\n z\n\n",
    ] {
        let found = response(raw.as_bytes(), &Method::Get, &lf_too());
        assert!(found.starts_with("refused"), "{raw:?} gave {found}");
    }
    let usual = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
    let found = response(usual.as_bytes(), &Method::Get, &lf_too());
    assert!(found.contains("Final Length(2) Reuse"), "{found}");
}

#[test]
fn targets_may_have_any_visible_byte_and_a_fragment() {
    for (target, uri) in [
        ("/caf\u{e9}?q=\u{fc}", "/caf\\xc3\\xa9?q=\\xc3\\xbc"),
        ("/a#b?c", "/a"),
        ("/a?b#c?d", "/a?b"),
        ("/a#/../b", "/a"),
        ("/%41#%zz", "/%41"),
        ("/#", "/"),
        ("http://a/x#y", "/x"),
        ("http://a?x#y", "/?x"),
        ("http://a/\u{e9}", "/\\xc3\\xa9"),
    ] {
        let raw = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let uri = format!(" uri={uri} ");
        let kept = format!(" GET {} Http11", text(target.as_bytes()));
        gives(raw.as_bytes(), &raw_targets(), &[&uri, &kept, "Reuse"]);
        assert!(request(raw.as_bytes(), &Limits::DEFAULT).starts_with("400 "));
    }
    gives(
        b"GET /\xff\x80 HTTP/1.1\r\nHost: a\r\n\r\n",
        &raw_targets(),
        &["uri=/\\xff\\x80 "],
    );
    for target in [
        "/a\x7f",
        "/a\x01",
        "#",
        "#/",
        "\u{e9}",
        "http://a#/",
        "http://\u{e9}/",
        "a#b",
        "/%zz\u{e9}",
    ] {
        let raw = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let outcome = request(raw.as_bytes(), &raw_targets());
        assert!(outcome.starts_with("400 "), "{target:?} gave {outcome}");
    }
}

/// Each byte goes out as it stood, or escaped, and none ends the target.
#[test]
fn targets_go_out_raw_only_where_asked() {
    for byte in 0..=255u8 {
        let mut head = RequestHead::default();
        head.set_authority(b"a");
        head.uri.set(&[b'/', byte, b'x']);
        let line = |targets| {
            let mut out = Vec::new();
            encode_with_target(&head, targets, BodyFraming::None, &mut out).unwrap();
            let end = out.iter().position(|byte| *byte == b'\r').unwrap();
            out[..end].to_vec()
        };
        let escaped = format!("GET /%{byte:02X}x HTTP/1.1").into_bytes();
        let plain = [b"GET /", &[byte][..], b"x HTTP/1.1"].concat();
        let is_ascii = byte.is_ascii_graphic() && byte != b'#';
        let is_raw = byte > b' ' && byte != 0x7f;
        assert_eq!(
            line(TargetBytes::Ascii),
            if is_ascii { &plain } else { &escaped }.clone()
        );
        assert_eq!(
            line(TargetBytes::Raw),
            if is_raw { &plain } else { &escaped }.clone()
        );
        let mut usual = Vec::new();
        encode_request_head(&head, BodyFraming::None, &mut usual).unwrap();
        assert!(usual.starts_with(&line(TargetBytes::Ascii)));
    }
}

/// Attack class 3: what follows is never read as a request.
#[test]
fn content_of_http_1_0_without_a_length_may_be_none() {
    let empty = only(Leniency {
        undeclared_content: UndeclaredContent::Empty,
        ..Leniency::default()
    });
    for method in ["POST", "PUT", "PATCH"] {
        for option in ["", "Connection: keep-alive\r\n"] {
            let raw =
                format!("{method} / HTTP/1.0\r\nHost: a\r\n{option}\r\nGET / HTTP/1.0\r\n\r\n");
            gives(raw.as_bytes(), &empty, &["body: None", "keep_alive: Close"]);
            assert!(request(raw.as_bytes(), &Limits::DEFAULT).starts_with("411 "));
        }
    }
    let raw = b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(request(raw, &empty).starts_with("400 "));
    let raw = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    gives(raw, &empty, &["keep_alive: Reuse"]);
}

#[test]
fn a_line_has_a_limit_of_its_own() {
    let limits = Limits {
        line_bytes_max: 40,
        ..lf_too()
    };
    // The line end counts.
    for (path, expected) in [(24, "RequestFraming"), (25, "414 ")] {
        let path = "a".repeat(path);
        gives(
            format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(),
            &limits,
            &[expected],
        );
    }
    assert!(request(&[b'a'; 39], &limits).starts_with("incomplete"));
    for (value, line_end, expected) in [
        (35, "\r\n", "RequestFraming"),
        (36, "\r\n", "LineTooLong"),
        (36, "\n", "RequestFraming"),
        (37, "\n", "LineTooLong"),
    ] {
        let value = "a".repeat(value);
        for behind in ["X: y\r\n\r\n", "\r\n", "X y\r\n\r\n", "Y: z"] {
            let raw = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {value}{line_end}{behind}");
            let outcome = request(raw.as_bytes(), &limits);
            match expected {
                "LineTooLong" => assert!(
                    outcome.starts_with("431 ") && outcome.ends_with("Field(LineTooLong)"),
                    "{raw:?} gave {outcome}"
                ),
                _ => assert!(!outcome.contains("LineTooLong"), "{raw:?} gave {outcome}"),
            }
        }
    }
    // A line that has another fault as well, and one behind a line with a fault.
    let long = "a".repeat(40);
    let outcome = request(
        format!("GET / HTTP/1.1\r\nX {long}\r\n\r\n").as_bytes(),
        &limits,
    );
    assert!(outcome.ends_with("Field(LineTooLong)"), "{outcome}");
    let outcome = request(
        format!("GET / HTTP/1.1\r\nX y\r\nX: {long}\r\n\r\n").as_bytes(),
        &limits,
    );
    assert!(outcome.starts_with("400 "), "{outcome}");
    let outcome = request(
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}").as_bytes(),
        &limits,
    );
    assert!(outcome.starts_with("431 "), "{outcome}");
}
