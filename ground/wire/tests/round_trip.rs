//! A decoder reads exactly what was encoded, whatever the lists contain: random heads, heads with every byte at every
//! position, and bodies in random chunks. Each random test prints its seed when it fails.

use sluice_message::{FieldId, Fields, Method, RequestHead, ResponseHead, Status, Unfit, Version};
use sluice_wire::h1::{
    BodyFraming, CHUNK_END, ConnectionHeader, KeepAlive, LAST_CHUNK, Limits, Progress,
    RequestDecoder, RequestFraming, ResponseDecoder, ResponseFraming, encode_chunk_head,
    encode_interim, encode_last_chunk_with_trailers, encode_request_head, encode_response_head,
};

use crate::feed;
use crate::support::Random;

const DATE: &[u8; 29] = b"Sat, 21 Nov 2026 21:00:00 GMT";

impl Random {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn text(&mut self, alphabet: &[u8], longest: usize) -> Vec<u8> {
        (0..self.below(longest + 1))
            .map(|_| self.pick(alphabet))
            .collect()
    }
}

/// Runs `test` with many seeds and names the one that fails.
fn for_seeds(test: impl Fn(&mut Random) + std::panic::RefUnwindSafe) {
    for seed in 1..=120u64 {
        let run = || test(&mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn decode_request(bytes: &[u8]) -> (RequestHead, RequestFraming, usize) {
    let mut head = RequestHead::default();
    match RequestDecoder::new().decode(&Limits::DEFAULT, bytes, &mut head) {
        Ok(Progress::Complete { consumed, value }) => (head, value, consumed),
        other => panic!("{other:?}: {}", feed::text(bytes)),
    }
}

fn decode_response(bytes: &[u8]) -> (ResponseHead, ResponseFraming, usize) {
    let mut head = ResponseHead::default();
    match ResponseDecoder::new().decode(&Limits::DEFAULT, bytes, &Method::Get, &mut head) {
        Ok(Progress::Complete { consumed, value }) => (head, value, consumed),
        other => panic!("{other:?}: {}", feed::text(bytes)),
    }
}

/// End-to-end fields with names the decoders look at and others, and values of any bytes that may stand there.
fn random_fields(random: &mut Random, fields: &mut Fields) {
    const TOKEN: &[u8] = b"abcXYZ019!#$%&'*+-.^_`|~";
    let value: Vec<u8> = (0x20..=255u8)
        .filter(|byte| *byte != 0x7f)
        .chain(*b"\t")
        .collect();
    for _ in 0..random.below(20) {
        let mut name = random.text(TOKEN, 30);
        name.push(b'x');
        if random.below(2) == 0 {
            let known = random.pick(&[
                FieldId::Accept,
                FieldId::Cookie,
                FieldId::Etag,
                FieldId::Via,
            ]);
            name = known.as_str().to_ascii_lowercase().into_bytes();
        }
        let text = random.text(&value, 60);
        fields.push_raw(FieldId::of(&name), &name, text.trim_ascii());
    }
}

fn random_framing(random: &mut Random) -> BodyFraming {
    let length = random.next() >> (1 + random.below(63));
    random.pick(&[
        BodyFraming::None,
        BodyFraming::Length(length),
        BodyFraming::Chunked,
    ])
}

#[test]
fn requests_come_back_as_they_went() {
    for_seeds(|random| {
        let mut head = RequestHead {
            method: Method::Post,
            ..RequestHead::default()
        };
        if random.below(3) == 0 {
            head.method = Method::from_token(b"SEARCH").expect("a token");
        }
        let mut target = b"/".to_vec();
        target.extend(random.text(b"abc/.;:@&=+$,-_~!*'()\\^`{|}\"<>?[]", 50));
        assert!(head.uri.set(&target));
        head.set_authority(random.pick(&[&b"a.example"[..], b"[::1]:80", b"B:1"]));
        random_fields(random, &mut head.fields);
        let framing = random_framing(random);
        let mut bytes = Vec::new();
        encode_request_head(&head, framing, &mut bytes).unwrap();
        let (read, read_framing, consumed) = decode_request(&bytes);
        assert_eq!(consumed, bytes.len());
        assert_eq!(
            (&read.method, read.uri.as_bytes()),
            (&head.method, &target[..])
        );
        assert_eq!((&read.authority, &read.host), (&head.authority, &head.host));
        assert_eq!(
            (read_framing.body, read_framing.keep_alive),
            (framing, KeepAlive::Reuse)
        );
        let host = format!("Host: {}\n", feed::text(&head.authority));
        let fields = host + &feed::fields_text(&head.fields) + framing_line(framing).as_str();
        assert_eq!(feed::fields_text(&read.fields), fields);
        // Encoding what was read gives the same bytes.
        let mut again = Vec::new();
        encode_request_head(&read, read_framing.body, &mut again).unwrap();
        assert_eq!(feed::text(&again), feed::text(&bytes));
        feed::request(&bytes, &Limits::DEFAULT);
    });
}

#[test]
fn responses_come_back_as_they_went() {
    for_seeds(|random| {
        let mut fields = Fields::new();
        random_fields(random, &mut fields);
        let code = random.pick(&[200, 206, 299, 404, 500, 999]);
        let status = Status::new(code).expect("the code has three digits");
        let framing = match random_framing(random) {
            BodyFraming::None => BodyFraming::UntilClose,
            other => other,
        };
        let mut bytes = Vec::new();
        encode_response_head(
            status,
            &fields,
            framing,
            ConnectionHeader::None,
            DATE,
            (Version::Http11, sluice_message::Status::reason),
            &mut bytes,
        );
        let (read, read_framing, consumed) = decode_response(&bytes);
        assert_eq!(
            (consumed, read.status, read_framing.body),
            (bytes.len(), status, framing)
        );
        let date = format!("Date: {}\n", feed::text(DATE));
        let lines = feed::fields_text(&fields) + &date + &framing_line(framing);
        assert_eq!(feed::fields_text(&read.fields), lines);
        feed::response(&bytes, &Method::Get, &Limits::DEFAULT);
    });
}

fn framing_line(framing: BodyFraming) -> String {
    match framing {
        BodyFraming::None | BodyFraming::UntilClose => String::new(),
        BodyFraming::Length(length) => format!("Content-Length: {length}\n"),
        BodyFraming::Chunked => "Transfer-Encoding: chunked\n".into(),
    }
}

#[test]
fn chunked_bodies_come_back_as_they_went() {
    for_seeds(|random| {
        let (mut content, mut bytes) = (Vec::new(), Vec::new());
        let all: Vec<u8> = (0..=255).collect();
        for _ in 0..random.below(12) {
            let longest = random.pick(&[1, 20, 300]);
            let chunk = random.text(&all, longest);
            if !chunk.is_empty() {
                encode_chunk_head(chunk.len(), &mut bytes);
                bytes.extend_from_slice(&chunk);
                bytes.extend_from_slice(CHUNK_END);
                content.extend_from_slice(&chunk);
            }
        }
        let mut trailers = Fields::new();
        if random.below(2) == 0 {
            trailers.push_raw(FieldId::Other, b"X-Sum", b"1");
            trailers.push(FieldId::ContentLength, b"5");
            encode_last_chunk_with_trailers(&trailers, &mut bytes);
        } else {
            bytes.extend_from_slice(LAST_CHUNK);
        }
        bytes.extend_from_slice(b"GET");
        let outcome = feed::body(&bytes, BodyFraming::Chunked, &Limits::DEFAULT);
        assert_eq!((outcome.content, outcome.rest), (content, 3));
        assert_eq!(
            outcome.trailers,
            if trailers.is_empty() {
                ""
            } else {
                "X-Sum: 1\n"
            }
        );
    });
    for length in [1, 9, 15, 16, 255, 256, 0xfffff, usize::MAX] {
        let mut line = Vec::new();
        encode_chunk_head(length, &mut line);
        assert_eq!(line, format!("{length:x}\r\n").into_bytes());
    }
}

/// Rewrites, placeholders and other protocols can put any byte anywhere. Whatever it is, one message with the
/// same number of fields goes out.
#[test]
fn no_byte_of_a_list_can_add_a_line() {
    for byte in 0..=255u8 {
        let mut head = RequestHead::default();
        // A lone `%` stays as it is: it cannot end a line, and its reader may well be lenient.
        let in_path = if byte == b'%' { b'x' } else { byte };
        head.uri.set(&[b'/', b'a', in_path, b'b']);
        head.set_authority(b"a");
        let tail = [byte, b'\n', b'X', b':', b'y'];
        head.fields.push_raw(
            FieldId::Other,
            b"x-value",
            &[b"v", &tail[..], b"w"].concat(),
        );
        head.fields.push(FieldId::Cookie, &[byte]);
        let mut bytes = Vec::new();
        let refused = encode_request_head(&head, BodyFraming::None, &mut bytes);
        assert_eq!(refused, Err(Unfit::Value), "byte {byte}");
        assert_eq!(bytes, b"", "byte {byte}");
        let bare = RequestHead {
            fields: Fields::new(),
            ..head.clone()
        };
        encode_request_head(&bare, BodyFraming::None, &mut bytes).unwrap();
        let (read, _, consumed) = decode_request(&bytes);
        assert_eq!(
            (consumed, read.fields.len()),
            (bytes.len(), 1),
            "byte {byte}"
        );

        head.fields
            .push_raw(FieldId::Other, &[b'x', byte, b'y'], b"z");
        head.fields.push_raw(FieldId::Other, b"", b"z");
        let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        bytes.clear();
        encode_response_head(
            Status::OK,
            &head.fields,
            BodyFraming::Length(0),
            ConnectionHeader::None,
            DATE,
            (Version::Http11, sluice_message::Status::reason),
            &mut bytes,
        );
        let (read, _, consumed) = decode_response(&bytes);
        let expected = 4 + usize::from(is_token);
        assert_eq!(
            (consumed, read.fields.len()),
            (bytes.len(), expected),
            "byte {byte}"
        );
    }
}

/// Encodes a response with the fields `lines` and gives its text.
fn encoded(
    code: u16,
    lines: &[(&str, &str)],
    framing: BodyFraming,
    conn: ConnectionHeader,
    version: Version,
) -> String {
    let mut fields = Fields::new();
    for (name, value) in lines {
        fields.push_raw(
            FieldId::of(name.as_bytes()),
            name.as_bytes(),
            value.as_bytes(),
        );
    }
    let status = Status::new(code).expect("the code has three digits");
    let mut bytes = Vec::new();
    encode_response_head(
        status,
        &fields,
        framing,
        conn,
        DATE,
        (version, sluice_message::Status::reason),
        &mut bytes,
    );
    String::from_utf8(bytes).expect("the head is text")
}

#[test]
fn framing_fields_are_those_of_the_framing() {
    use BodyFraming::{Chunked, Length, None, UntilClose};
    use ConnectionHeader as Conn;
    let lies = [
        ("Content-Length", "7"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "x, close"),
    ];
    let date = "Date: Sat, 21 Nov 2026 21:00:00 GMT\r\n";
    for (code, framing, conn, expected) in [
        (200, Length(3), Conn::None, "Content-Length: 3\r\n"),
        (
            200,
            Chunked,
            Conn::Close,
            "Transfer-Encoding: chunked\r\nConnection: close\r\n",
        ),
        (200, UntilClose, Conn::Close, "Connection: close\r\n"),
        (
            200,
            Length(0),
            Conn::KeepAlive,
            "Content-Length: 0\r\nConnection: keep-alive\r\n",
        ),
        // To HEAD: the length is that of what is not sent.
        (200, None, Conn::None, "Content-Length: 7\r\n"),
        (304, None, Conn::None, "Content-Length: 7\r\n"),
        (304, Length(0), Conn::None, "Content-Length: 7\r\n"),
        (204, None, Conn::None, ""),
        (204, Length(0), Conn::None, ""),
        (204, Chunked, Conn::None, ""),
    ] {
        let head = encoded(code, &lies, framing, conn, Version::Http11);
        let (_, fields) = head.split_once("\r\n").expect("the head has a status line");
        assert_eq!(
            fields,
            format!("{date}{expected}\r\n"),
            "{code} {framing:?}"
        );
    }
    let upgrade = [("Upgrade", "websocket")];
    let head = encoded(101, &upgrade, None, Conn::Upgrade, Version::Http11);
    let text =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    assert_eq!(head, text);
    let head = encoded(200, &upgrade, Length(0), Conn::None, Version::Http10);
    assert_eq!(
        head,
        format!("HTTP/1.0 200 OK\r\nUpgrade: websocket\r\n{date}Content-Length: 0\r\n\r\n"),
        "it announces what the server could switch to (RFC 9110, section 7.8)"
    );
    let head = encoded(
        200,
        &[("Date", "then")],
        Length(0),
        Conn::None,
        Version::Http11,
    );
    assert_eq!(
        head,
        "HTTP/1.1 200 OK\r\nDate: then\r\nContent-Length: 0\r\n\r\n"
    );
}

#[test]
fn interim_responses_carry_their_fields_only() {
    let (mut fields, mut bytes) = (Fields::new(), Vec::new());
    fields.push(FieldId::Link, b"</a.css>");
    fields.push(FieldId::ContentLength, b"5");
    encode_interim(Status::EARLY_HINTS, &fields, &mut bytes);
    assert_eq!(bytes, b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
}

#[test]
fn requests_name_what_their_fields_imply() {
    let mut head = RequestHead::default();
    head.set_authority(b"a");
    head.uri.set(b"/x?y");
    for (name, value) in [
        ("Host", "up:80"),
        ("Connection", "keep-alive, X-Hop"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "close"),
        ("Content-Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "websocket"),
        ("TE", "trailers"),
    ] {
        head.fields.push_raw(
            FieldId::of(name.as_bytes()),
            name.as_bytes(),
            value.as_bytes(),
        );
    }
    let mut bytes = Vec::new();
    encode_request_head(&head, BodyFraming::Length(9), &mut bytes).unwrap();
    let text = "GET /x?y HTTP/1.1\r\nHost: up:80\r\nUpgrade: websocket\r\nTE: trailers\r\nContent-Length: 9\r\n\
                Connection: Upgrade\r\nConnection: TE\r\n\r\n";
    assert_eq!(feed::text(&bytes), feed::text(text.as_bytes()));
    for (method, target, expected) in [
        (Method::Options, &b"*"[..], "OPTIONS * "),
        (Method::Get, b"*", "GET /* "),
        (Method::Get, b"", "GET / "),
        (Method::Get, b"?a", "GET /?a "),
        (Method::Get, b"/a b\r\n\xe9#", "GET /a%20b%0D%0A%E9%23 "),
        (Method::Connect, b"", "CONNECT a "),
    ] {
        head.method = method;
        head.uri.set(target);
        bytes.clear();
        encode_request_head(&head, BodyFraming::None, &mut bytes).unwrap();
        assert!(
            feed::text(&bytes).starts_with(expected),
            "{}",
            feed::text(&bytes)
        );
    }
}

#[test]
#[should_panic(expected = "an empty chunk ends the body")]
fn an_empty_chunk_is_never_written_by_mistake() {
    encode_chunk_head(0, &mut Vec::new());
}

/// Random damage to valid heads: whatever comes of it, it does not depend on how the bytes are cut.
#[test]
fn damaged_heads_have_one_outcome() {
    const START: &[u8] = b"POST /a?b HTTP/1.1\r\nHost: a.example:80\r\nContent-Length: 10\r\n\
        Connection: keep-alive\r\nExpect: 100-continue\r\nX-Other: value\r\n\r\n0123456789";
    for_seeds(|random| {
        let mut bytes = START.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = random.next() as u8,
                1 => bytes.insert(at, random.pick(b"\r\n\0 :\t,x")),
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        feed::request(&bytes, &Limits::DEFAULT);
        let response = [b"HTTP/1.1 200 OK\r\n", &bytes[bytes.len() / 3..]].concat();
        feed::response(&response, &Method::Get, &Limits::DEFAULT);
        feed::body(
            &bytes[bytes.len() / 2..],
            BodyFraming::Chunked,
            &Limits::DEFAULT,
        );
    });
}
