//! A table of bodies and the expected result for each, however its bytes are split and whether or not small chunks are
//! merged.

use sluice_wire::h1::{BodyFraming, Limits};

use crate::feed;
use crate::feed::{BodyOutcome, body};

fn chunked(raw: &[u8]) -> BodyOutcome {
    body(raw, BodyFraming::Chunked, &Limits::DEFAULT)
}

/// Asserts content, unread bytes after the end, and trailers of a whole body.
fn whole(raw: &[u8], content: &[u8], rest: usize, trailers: &str) {
    let trailers = trailers.to_string();
    let expected = BodyOutcome {
        content: content.to_vec(),
        state: "end".into(),
        rest,
        trailers,
    };
    assert_eq!(chunked(raw), expected, "{}", feed::text(raw));
}

#[test]
fn chunks_are_taken_apart() {
    whole(b"0\r\n\r\n", b"", 0, "");
    whole(b"5\r\nhello\r\n0\r\n\r\n", b"hello", 0, "");
    whole(
        b"5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n",
        b"hello world",
        0,
        "",
    );
    whole(b"a\r\n0123456789\r\n0\r\n\r\nGET", b"0123456789", 3, "");
    whole(b"A\r\n0123456789\r\n00\r\n\r\n\r\n", b"0123456789", 2, "");
    whole(
        b"0000000000000005\r\nhello\r\n0000000000000000\r\n\r\n",
        b"hello",
        0,
        "",
    );
    whole(b"2\r\n\r\n\r\n0\r\n\r\n", b"\r\n", 0, "");
    whole(b"3\r\n\0\xff\n\r\n0\r\n\r\n", b"\0\xff\n", 0, "");
}

#[test]
fn extensions_are_skipped_once_they_are_valid() {
    for line in [
        "5;a",
        "5;a=b",
        "5;a=\"b\"",
        "5;a=\"b c\\\"d;\\\\\"",
        "5;a;b=c;d=\"\"",
        "5;a=\"\t\u{e9}\"",
        "5;!#$=%&'",
        "5;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    ] {
        let raw = format!("{line}\r\nhello\r\n0;end=\"x\"\r\n\r\n");
        whole(raw.as_bytes(), b"hello", 0, "");
    }
}

#[test]
fn malformed_chunk_lines_are_refused() {
    for (line, fault) in [
        (&b"\r\n"[..], "SizeByte(13)"),
        (b";a\r\n", "SizeByte(59)"),
        (b"0x5\r\n", "SizeByte(120)"),
        (b"+5\r\n", "SizeByte(43)"),
        (b"-5\r\n", "SizeByte(45)"),
        (b" 5\r\n", "SizeByte(32)"),
        (b"5 \r\n", "SizeByte(32)"),
        (b"5\t\r\n", "SizeByte(9)"),
        (b"5 ;a\r\n", "SizeByte(32)"),
        (b"5,5\r\n", "SizeByte(44)"),
        (b"5.0\r\n", "SizeByte(46)"),
        (b"g\r\n", "SizeByte(103)"),
        (b"5h\r\n", "SizeByte(104)"),
        (b"5_0\r\n", "SizeByte(95)"),
        (b"\0\r\n", "SizeByte(0)"),
        (b"5\0\r\n", "SizeByte(0)"),
        (b"\xd9\xa5\r\n", "SizeByte(217)"),
        (b"5\n", "LineEnd"),
        (b"5\rhello", "LineEnd"),
        (b"5\r\r\n", "LineEnd"),
        (b"\n", "SizeByte(10)"),
        (b"00000000000000005\r\n", "SizeTooLarge"),
        (b"10000000000000000\r\n", "SizeTooLarge"),
        (b"8000000000000000\r\n", "SizeTooLarge"),
        (b"ffffffffffffffff\r\n", "SizeTooLarge"),
        (b"fffffffffffffffff\r\n", "SizeTooLarge"),
        (b"5;\r\n", "ExtensionByte(13)"),
        (b"5;;a\r\n", "ExtensionByte(59)"),
        (b"5; a\r\n", "ExtensionByte(32)"),
        (b"5;a =b\r\n", "ExtensionByte(32)"),
        (b"5;a= b\r\n", "ExtensionByte(32)"),
        (b"5;a=\r\n", "ExtensionByte(13)"),
        (b"5;=b\r\n", "ExtensionByte(61)"),
        (b"5;a=b=c\r\n", "ExtensionByte(61)"),
        (b"5;a=b c\r\n", "ExtensionByte(32)"),
        (b"5;a=\"b\r\n", "ExtensionByte(13)"),
        (b"5;a=\"b\n\"\r\n", "ExtensionByte(10)"),
        (b"5;a=\"b\\\r\n\"\r\n", "ExtensionByte(13)"),
        (b"5;a=\"b\"c\r\n", "ExtensionByte(99)"),
        (b"5;a=\"b\0\"\r\n", "ExtensionByte(0)"),
        (b"5;a\0\r\n", "ExtensionByte(0)"),
        (b"5;a\n", "LineEnd"),
        (b"5;a=b\n", "LineEnd"),
        (b"5;a=\"b\"\n", "LineEnd"),
        (b"5;a\rb\r\n", "LineEnd"),
    ] {
        let first = [line, b"hello\r\n0\r\n\r\n"].concat();
        assert_eq!(chunked(&first).state, fault, "{}", feed::text(&first));
        let second = [b"3\r\nabc\r\n", &first[..]].concat();
        assert_eq!(chunked(&second).state, fault, "{}", feed::text(&second));
    }
}

#[test]
fn content_must_fill_its_chunk() {
    for raw in [
        &b"5\r\nhello!\r\n0\r\n\r\n"[..],
        b"5\r\nhell\r\n0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhello\r0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n",
        b"5\r\nhello\r\r\n0\r\n\r\n",
    ] {
        assert_eq!(chunked(raw).state, "ChunkEnd", "{}", feed::text(raw));
    }
}

#[test]
fn bodies_that_end_early_are_never_whole() {
    let raw = b"5;a=b\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nX-Sum: 1\r\n\r\n";
    for end in 0..raw.len() {
        assert_eq!(chunked(&raw[..end]).state, "more");
    }
    for end in 0..5 {
        assert_eq!(
            body(&b"hello"[..end], BodyFraming::Length(5), &Limits::DEFAULT).state,
            "more"
        );
    }
}

#[test]
fn trailers_are_checked_and_chosen() {
    whole(b"0\r\nX-Sum: 1\r\n\r\n", b"", 0, "X-Sum: 1\n");
    whole(
        b"1\r\na\r\n0\r\nA: 1 \r\nb:\r\nETag: \"x\"\r\n\r\nrest",
        b"a",
        4,
        "A: 1\nb: \nETag: \\\"x\\\"\n",
    );
    let forbidden = "Transfer-Encoding: chunked\r\nContent-Length: 5\r\nHost: b\r\nConnection: close\r\n\
        Authorization: x\r\nCookie: a\r\nSet-Cookie: a\r\nContent-Type: x\r\nContent-Digest: x\r\nTE: gzip\r\n\
        Trailer: x\r\nX-Forwarded-For: 1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nCache-Control: x\r\nRange: x\r\n\
        Expect: x\r\nUpgrade: x\r\nVary: *\r\nWarning: x\r\nX-Forwarded-Prefix: /\r\nProxy-Foo: x\r\n\
        If-Match: x\r\nAccess-Control-Allow-Headers: x\r\n";
    whole(
        format!("0\r\n{forbidden}Grpc-Status: 0\r\n\r\n").as_bytes(),
        b"",
        0,
        "Grpc-Status: 0\n",
    );
    for (lines, fault) in [
        ("X\r\n", "Trailer(NoColon)"),
        (": x\r\n", "Trailer(EmptyName)"),
        (" X: y\r\n", "Trailer(Folded)"),
        ("X : y\r\n", "Trailer(SpaceBeforeColon)"),
        ("X: a\0\r\n", "Trailer(ValueByte(0))"),
        ("X: a\rb\r\n", "Trailer(LineEnd)"),
        ("X: a\n", "Trailer(LineEnd)"),
        ("X: a\r\n b\r\n", "Trailer(Folded)"),
        ("X: a\r\nY\u{e9}: b\r\n", "Trailer(NameByte(195))"),
        ("\n", "LineEnd"),
        ("\rX: y\r\n", "LineEnd"),
        ("X: a\r\n\n", "Trailer(LineEnd)"),
    ] {
        let raw = format!("0\r\n{lines}\r\n");
        assert_eq!(chunked(raw.as_bytes()).state, fault, "{raw:?}");
    }
}

#[test]
fn chunk_lines_and_trailers_are_bounded() {
    let limits = Limits::DEFAULT;
    let line =
        |length: usize| format!("1;{}\r\nx\r\n0\r\n\r\n", "a".repeat(length - 4)).into_bytes();
    whole(&line(limits.chunk_line_bytes_max), b"x", 0, "");
    assert_eq!(
        chunked(&line(limits.chunk_line_bytes_max + 1)).state,
        "ChunkLineTooLong"
    );
    assert_eq!(chunked(&line(100_000)).state, "ChunkLineTooLong");
    let quoted = format!("1;a=\"{}", "b".repeat(5000));
    assert_eq!(chunked(quoted.as_bytes()).state, "ChunkLineTooLong");
    let trailers = |count: usize| format!("0\r\n{}\r\n", "X: y\r\n".repeat(count)).into_bytes();
    assert_eq!(chunked(&trailers(limits.fields_max)).state, "end");
    assert_eq!(
        chunked(&trailers(limits.fields_max + 1)).state,
        "Trailer(TooMany)"
    );
    let value = format!("0\r\nX: {}\r\n\r\n", "y".repeat(limits.trailer_bytes_max));
    assert_eq!(chunked(value.as_bytes()).state, "TrailersTooLarge");
}

/// A byte of content behind 200 bytes of extension costs the reader more than the sender, and is cut off after
/// a few; chunks as small as applications send them are not, nor are extensions that content outweighs.
#[test]
fn extensions_are_paid_for_with_content() {
    let tiny = |count: usize, extension: &str| {
        [
            format!("1{extension}\r\nx\r\n").repeat(count),
            "0\r\n\r\n".into(),
        ]
        .concat()
        .into_bytes()
    };
    let extension = format!(";{}", "a".repeat(200));
    assert_eq!(chunked(&tiny(10, &extension)).state, "end");
    assert_eq!(chunked(&tiny(100, &extension)).state, "ChunkLinesOutweigh");
    assert_eq!(chunked(&tiny(2000, "")).state, "end");
    let paid =
        format!("400;{}\r\n{}\r\n", "a".repeat(200), "x".repeat(1024)).repeat(40) + "0\r\n\r\n";
    assert_eq!(chunked(paid.as_bytes()).state, "end");
    let zeros = "0000000000000001\r\nx\r\n".repeat(2000);
    assert_eq!(chunked(zeros.as_bytes()).state, "ChunkLinesOutweigh");
}

#[test]
fn other_framings_end_where_they_say() {
    let raw = b"hello, and more";
    let outcome = |framing| body(raw, framing, &Limits::DEFAULT);
    let counted = outcome(BodyFraming::Length(5));
    assert_eq!(
        (counted.content, counted.state.as_str(), counted.rest),
        (b"hello".to_vec(), "end", 10)
    );
    for framing in [BodyFraming::None, BodyFraming::Length(0)] {
        let none = outcome(framing);
        assert_eq!(
            (none.content, none.state.as_str(), none.rest),
            (vec![], "end", raw.len())
        );
    }
    let open = outcome(BodyFraming::UntilClose);
    assert_eq!((open.content, open.state.as_str()), (raw.to_vec(), "more"));
    assert_eq!(outcome(BodyFraming::Length(16)).state, "more");
}

/// Tiny chunks come out as one run, and a large one is not moved.
#[test]
fn small_chunks_are_moved_together() {
    use sluice_wire::h1::BodyDecoder;
    let mut raw = [
        b"1\r\na\r\n".repeat(100),
        b"2000\r\n".to_vec(),
        vec![b'b'; 0x2000],
    ]
    .concat();
    let mut decoder = BodyDecoder::new(BodyFraming::Chunked, &Limits::DEFAULT);
    let step = decoder
        .decode_merged(&mut raw)
        .expect("the chunks are valid");
    assert_eq!(&raw[step.content], [b'a'; 100]);
    let rest = step.consumed;
    let step = decoder
        .decode_merged(&mut raw[rest..])
        .expect("the chunk is valid");
    assert_eq!((step.content.len(), step.consumed), (0x2000, 0x2000));
    assert!(!step.ended);
}
