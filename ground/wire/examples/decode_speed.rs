//! Prints how many nanoseconds it takes to decode and to encode the heads of a typical exchange. To compare servers,
//! use `sluice-lab`.

use std::hint::black_box;
use std::time::Instant;

use sluice_message::{FieldId, Fields, Method, RequestHead, ResponseHead, Status, Version};
use sluice_wire::h1::{
    BodyDecoder, BodyFraming, BodyStep, ConnectionHeader, Limits, Progress, RequestDecoder,
    ResponseDecoder, encode_request_head, encode_response_head,
};
use sluice_wire::h2;

const REQUEST: &[u8] = b"GET /articles/2026/11/hot-dogs.html?ref=front HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Referer: https://www.example.com/articles/\r\n\
    Connection: keep-alive\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Cache-Control: max-age=0\r\n\r\n";

const SHORT: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Server: origin\r\n\
    Date: Sat, 21 Nov 2026 21:00:00 GMT\r\n\
    Content-Type: text/html; charset=utf-8\r\n\
    Content-Length: 12345\r\n\
    Last-Modified: Fri, 20 Nov 2026 10:00:00 GMT\r\n\
    ETag: \"5f3e-61a2b3c4d5e6f\"\r\n\
    Vary: Accept-Encoding\r\n\
    Cache-Control: public, max-age=3600\r\n\r\n";

const ROUNDS: u32 = 5_000;

/// The fastest of 300 runs: what the code costs when nothing else has the core. A word on the command line
/// chooses the lines that hold it.
fn measure(name: &str, mut work: impl FnMut()) {
    if std::env::args()
        .nth(1)
        .is_some_and(|word| !name.contains(&word))
    {
        return;
    }
    let mut best = f64::MAX;
    for _ in 0..300 {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            work();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    println!("{name:<36} {best:8.1} ns");
}

fn main() {
    http1();
    http2();
}

/// Cost of a request and its 12-byte response in the server state machine: with headers sent for the first time, and
/// with headers that repeat.
fn http2() {
    let mut head = RequestHead::default();
    RequestDecoder::new()
        .decode(&Limits::DEFAULT, REQUEST, &mut head)
        .expect("the head is valid");
    let limits = h2::Limits::DEFAULT;
    let (mut client, mut server) = (h2::Client::new(&limits), h2::Server::new(&limits, false));
    let mut fields = Fields::new();
    fields.push(FieldId::Server, b"sluice");
    fields.push(FieldId::ContentType, b"text/plain; charset=utf-8");
    let mut read = RequestHead::default();
    let mut frames = Vec::new();
    for _ in 0..3 {
        let id = client
            .open(&head, true, BodyFraming::None, h2::End::Here)
            .expect("a stream is free");
        client.release(id);
        let out = std::mem::take(client.output());
        let at = out.windows(4).rposition(|word| word == [1, 5, 0, 0]);
        frames.push(out[at.expect("a head") - 3..].to_vec());
        respond_to_all(&mut server, &out, &mut read, &fields);
    }
    // A window large enough for all responses.
    let window = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xe0, 0, 0];
    respond_to_all(&mut server, &window, &mut read, &fields);
    let mut number = 7u32;
    for (name, at) in [("again", 2), ("for the first time", 0)] {
        let mut frame = frames[at].clone();
        let len = 9 + usize::from(frame[2]) + (usize::from(frame[1]) << 8);
        frame.truncate(len);
        measure(&format!("h2 exchange, 12 fields {name}"), || {
            frame[5..9].copy_from_slice(&number.to_be_bytes());
            number += 2;
            respond_to_all(&mut server, black_box(&frame), &mut read, &fields);
        });
    }
}

fn respond_to_all(server: &mut h2::Server, bytes: &[u8], read: &mut RequestHead, fields: &Fields) {
    let mut rest = bytes;
    loop {
        let received = server.receive(rest, read).expect("right frames");
        rest = &rest[received.consumed..];
        match received.event {
            None => break,
            Some(h2::Event::Head { id, .. }) => {
                let date = b"Sat, 21 Nov 2026 21:00:00 GMT";
                let framing = BodyFraming::Length(12);
                server
                    .send_head(id, Status::OK, fields, framing, date, h2::End::Later)
                    .expect("the stream is open");
                let sent = server.send_data(id, b"Hello world\n", h2::End::Here);
                assert_eq!(sent, Ok(12));
                server.release(id);
            }
            Some(event) => panic!("{event:?}"),
        }
    }
    black_box(server.output()).clear();
}

fn http1() {
    let mut decoder = RequestDecoder::new();
    let mut head = RequestHead::default();
    for (name, bytes) in [("request, 12 fields", REQUEST), ("request, 1 field", SHORT)] {
        measure(&format!("decode {name}"), || {
            let step = decoder
                .decode(&Limits::DEFAULT, black_box(bytes), &mut head)
                .expect("the head is valid");
            assert!(matches!(step, Progress::Complete { .. }));
        });
    }
    let mut decoder = ResponseDecoder::new();
    let mut response = ResponseHead::default();
    measure("decode response, 8 fields", || {
        let step = decoder.decode(
            &Limits::DEFAULT,
            black_box(RESPONSE),
            &Method::Get,
            &mut response,
        );
        assert!(matches!(step, Ok(Progress::Complete { .. })));
    });
    RequestDecoder::new()
        .decode(&Limits::DEFAULT, REQUEST, &mut head)
        .expect("the head is valid");
    let mut out = Vec::new();
    measure("encode request, 12 fields", || {
        out.clear();
        let _ = encode_request_head(black_box(&head), BodyFraming::None, &mut out);
    });
    let mut fields = Fields::new();
    fields.push(FieldId::Server, b"sluice");
    fields.push(FieldId::ContentType, b"text/plain; charset=utf-8");
    for (name, fields) in [("2 fields", &fields), ("8 fields", &response.fields)] {
        measure(&format!("encode response, {name}"), || {
            out.clear();
            encode_response_head(
                Status::OK,
                black_box(fields),
                BodyFraming::Length(12),
                ConnectionHeader::None,
                b"Sat, 21 Nov 2026 21:00:00 GMT",
                (Version::Http11, sluice_message::Status::reason),
                &mut out,
            );
            black_box(&out);
        });
    }
    let chunked = [&b"1000\r\n"[..], &[b'x'; 4096], b"\r\n0\r\n\r\n"].concat();
    measure("decode a chunked body of 4 KiB", || {
        let mut body = BodyDecoder::new(BodyFraming::Chunked, &Limits::DEFAULT);
        let mut at = 0;
        loop {
            match body
                .decode(black_box(&chunked[at..]))
                .expect("the body is valid")
            {
                BodyStep::Data { end, .. } => at += end,
                BodyStep::End { .. } => break,
                BodyStep::NeedMore { .. } => unreachable!("the body is whole"),
            }
        }
    });
}
