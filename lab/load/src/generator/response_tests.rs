//! Responses in various pieces: whole, byte by byte, one after the other, and malformed ones.

use super::*;

#[derive(Default)]
struct Taken {
    statuses: Vec<u16>,
    body: Vec<u8>,
}

impl Take for Taken {
    fn head(&mut self, facts: &Facts, raw: &[u8]) {
        assert!(raw.ends_with(b"\r\n\r\n"));
        self.statuses.push(facts.status);
    }

    fn body(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

/// Parses one response in pieces of `size` bytes; returns its parts, and how much of the text belongs to it.
fn read(
    text: &[u8],
    size: usize,
    last: &mut LastHead,
) -> Result<(Taken, Option<usize>), Malformed> {
    let (mut reader, mut taken, mut at) = (Reader::default(), Taken::default(), 0);
    for piece in text.chunks(size) {
        match reader.feed(piece, false, last, &mut taken)? {
            Fed::More => at += piece.len(),
            Fed::Complete(used) => {
                assert_eq!(reader.progress(), Progress::Nothing);
                return Ok((taken, Some(at + used)));
            }
        }
    }
    Ok((taken, None))
}

/// Parses one response in pieces of every size, which must not make a difference.
fn read_all(text: &str) -> Result<(u16, String, Option<usize>), Malformed> {
    let mut results = Vec::new();
    let mut last = LastHead::default();
    for size in (1..=text.len()).chain([text.len()]) {
        results.push(read(text.as_bytes(), size, &mut last).map(|(taken, used)| {
            let body = String::from_utf8(taken.body).unwrap();
            (taken.statuses.last().copied().unwrap_or(0), body, used)
        }));
    }
    assert!(
        results.windows(2).all(|pair| pair[0] == pair[1]),
        "{text:?}: {results:?}"
    );
    results.swap_remove(0)
}

#[test]
fn reads_lengths_chunks_and_nothing() {
    for (text, status, body, rest) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP",
            200,
            "hello",
            4,
        ),
        ("HTTP/1.1 204\r\nServer: a\r\n\r\n", 204, "", 0),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nHTTP",
            304,
            "",
            4,
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, Chunked\r\n\r\n3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\nH",
            200,
            "abc0123456789",
            1,
        ),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.0 404 No\r\ncontent-length:0\r\n\r\n",
            404,
            "",
            0,
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\u{1}",
            101,
            "",
            1,
        ),
    ] {
        let expected = (status, body.to_string(), Some(text.len() - rest));
        assert_eq!(read_all(text), Ok(expected), "{text:?}");
    }
}

#[test]
fn a_response_without_a_length_ends_with_the_connection() {
    let text = b"HTTP/1.1 200 OK\r\nServer: a\r\n\r\nall of it";
    let (mut reader, mut taken) = (Reader::default(), Taken::default());
    let fed = reader.feed(text, false, &mut LastHead::default(), &mut taken);
    assert_eq!(fed, Ok(Fed::More));
    assert_eq!(reader.progress(), Progress::UntilClose);
    assert_eq!(taken.body, b"all of it");
    assert!(reader.facts().unwrap().closes);
}

#[test]
fn progress_determines_the_class_of_a_failure() {
    let (mut reader, mut taken, mut last) =
        (Reader::default(), Taken::default(), LastHead::default());
    assert_eq!(reader.progress(), Progress::Nothing);
    reader
        .feed(b"HTTP/1.1 2", false, &mut last, &mut taken)
        .unwrap();
    assert_eq!(reader.progress(), Progress::Head);
    reader
        .feed(
            b"00 OK\r\nContent-Length: 3\r\n\r\n",
            false,
            &mut last,
            &mut taken,
        )
        .unwrap();
    assert_eq!(reader.progress(), Progress::Body);
    reader.feed(b"ab", false, &mut last, &mut taken).unwrap();
    assert_eq!(reader.progress(), Progress::Body);
    assert_eq!(
        reader.feed(b"c", false, &mut last, &mut taken),
        Ok(Fed::Complete(1))
    );
}

#[test]
fn responses_to_head_have_no_body() {
    let (mut reader, mut taken) = (Reader::default(), Taken::default());
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
    let fed = reader.feed(text, true, &mut LastHead::default(), &mut taken);
    assert_eq!(fed, Ok(Fed::Complete(text.len())));
}

#[test]
fn connections_are_kept_alive_by_default() {
    for (head, closes) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n",
            true,
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", true),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n",
            false,
        ),
    ] {
        assert_eq!(
            parse_head(head.as_bytes(), Kind::Responses).unwrap().closes,
            closes,
            "{head:?}"
        );
    }
}

#[test]
fn conflicting_framing_is_refused() {
    for text in [
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\r\n",
    ] {
        assert!(read_all(text).is_err(), "{text:?}");
    }
}

#[test]
fn heads_have_an_end() {
    let text = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(HEAD_BYTES_MAX));
    let whole = read(text.as_bytes(), text.len(), &mut LastHead::default());
    assert!(whole.is_err());
    assert!(read(text.as_bytes(), 1_000, &mut LastHead::default()).is_err());
}

#[test]
fn requests_are_read_too() {
    let text =
        b"POST /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
                 GET / HTTP/1.0\r\n\r\n";
    let (mut reader, mut taken, mut last) =
        (Reader::of_requests(), Taken::default(), LastHead::default());
    let Ok(Fed::Complete(used)) = reader.feed(text, false, &mut last, &mut taken) else {
        panic!("the first request is complete");
    };
    assert_eq!(
        (taken.body.as_slice(), reader.facts().unwrap().closes),
        (&b"abc"[..], false)
    );
    let fed = reader.feed(&text[used..], false, &mut last, &mut taken);
    assert_eq!(fed, Ok(Fed::Complete(text.len() - used)));
    assert!(reader.facts().unwrap().closes);
    let mut stranger = Reader::of_requests();
    assert!(
        stranger
            .feed(b"hello\r\n\r\n", false, &mut last, &mut taken)
            .is_err()
    );
}
