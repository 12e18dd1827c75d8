//! Response bodies: every framing, truncation, back-pressure, trailers.

use super::*;
use sluice_net::failure::{FailureKind, Side};
use sluice_net::limits::{BODY_BUFFER_BYTES, BULK_BUFFER_BYTES, READ_BUFFER_BYTES};

fn truncated(response: &'static str) {
    let fake = Fake::closing(response);
    on_worker(|worker| async move {
        let failure = fetch(&worker, &fake.endpoint())
            .await
            .err()
            .expect(response);
        assert_eq!(
            (failure.side, failure.kind),
            (Side::Upstream, FailureKind::Closed),
            "{response}"
        );
        assert_eq!(Pool::of(&worker).idle(), 0);
    });
}

#[test]
fn a_truncated_body_is_never_presented_as_whole() {
    truncated("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhi");
    truncated("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n");
    truncated("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
    truncated("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    truncated("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n");
}

#[test]
fn malformed_chunks_are_a_protocol_error() {
    let fake =
        Fake::closing("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello+5\r\n");
    on_worker(|worker| async move {
        let failure = fetch(&worker, &fake.endpoint()).await.err().unwrap();
        assert_eq!(
            (failure.side, failure.kind),
            (Side::Upstream, FailureKind::Protocol)
        );
    });
}

#[test]
fn every_framing_gives_the_same_body() {
    for (response, kept) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 1),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            1,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
            0,
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 0),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
            1,
        ),
        // Unexpected bytes: the response is complete, but the connection cannot be trusted.
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n",
            0,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nmore",
            0,
        ),
    ] {
        let fake = Fake::responding(response);
        on_worker(|worker| async move {
            let got = fetch(&worker, &fake.endpoint()).await.expect(response);
            assert_eq!(got.body, b"hello", "{response}");
            assert_eq!(Pool::of(&worker).idle(), kept, "{response}");
        });
    }
    let fake = Fake::closing("HTTP/1.1 200 OK\r\n\r\nhello");
    on_worker(|worker| async move {
        assert_eq!(
            fetch(&worker, &fake.endpoint()).await.unwrap().body,
            b"hello"
        );
        assert_eq!(Pool::of(&worker).idle(), 0);
    });
}

#[test]
fn responses_without_a_body_leave_the_connection_usable() {
    for (method, response) in [
        (
            Method::Head,
            "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n",
        ),
        (
            Method::Head,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        (Method::Get, "HTTP/1.1 204 No Content\r\n\r\n"),
        (
            Method::Get,
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n",
        ),
        (Method::Get, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ] {
        let fake = Fake::responding(response);
        on_worker(|worker| async move {
            let endpoint = fake.endpoint();
            for _ in 0..2 {
                let upload = upload(GET, BodyFraming::None, RequestBody::None);
                let got = fetch_with(&worker, &endpoint, method.clone(), upload)
                    .await
                    .unwrap();
                assert_eq!(got.body, b"");
            }
            assert_eq!(fake.accepted(), 1, "{response}");
        });
    }
}

#[test]
fn tiny_chunks_come_in_few_pieces() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        let chunks = "1\r\nx\r\n".repeat(10_000);
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        socket
            .write_all(format!("{head}{chunks}0\r\n\r\n").as_bytes())
            .unwrap();
        read_head(&mut socket);
    });
    on_worker(|worker| async move {
        let got = fetch(&worker, &fake.endpoint()).await.unwrap();
        assert_eq!(got.body, vec![b'x'; 10_000]);
        assert!(got.pieces < 100, "{} pieces", got.pieces);
        assert_eq!(Pool::of(&worker).idle(), 1);
    });
}

#[test]
fn trailer_fields_are_handed_on_but_not_those_that_may_not_trail() {
    let fake = Fake::responding(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
         2\r\nhi\r\n0\r\nX-Sum: 42\r\nContent-Length: 7\r\nConnection: close\r\n\r\n",
    );
    on_worker(|worker| async move {
        let got = fetch(&worker, &fake.endpoint()).await.unwrap();
        let trailers = got.trailers.unwrap();
        assert_eq!(trailers.find_first(b"x-sum"), Some(&b"42"[..]));
        assert!(trailers.find_first(b"content-length").is_none());
        assert!(trailers.find_first(b"connection").is_none());
        assert_eq!(got.body, b"hi");
    });
}

#[test]
fn a_large_body_arrives_whole_and_the_connection_is_kept() {
    const SIZE: usize = 3_000_000;
    let fake = Fake::new(|mut socket| {
        while read_head(&mut socket).is_some() {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n");
            socket.write_all(head.as_bytes()).unwrap();
            let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
            socket.write_all(&bytes).unwrap();
        }
    });
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        for _ in 0..2 {
            let got = fetch(&worker, &endpoint).await.unwrap();
            assert_eq!(got.body.len(), SIZE);
            assert!(
                got.body
                    .iter()
                    .enumerate()
                    .all(|(at, byte)| *byte == (at % 251) as u8)
            );
        }
        assert_eq!(fake.accepted(), 1);
    });
}

#[test]
fn a_slow_client_holds_the_upstream_back() {
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    let fake = Fake::new(move |mut socket| {
        read_head(&mut socket);
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while socket.write_all(&[b'x'; 65_536]).is_ok() {
            count.fetch_add(65_536, Ordering::SeqCst);
        }
    });
    on_worker(|worker| async move {
        let (endpoint, request) = (
            fake.endpoint(),
            upload(GET, BodyFraming::None, RequestBody::None),
        );
        let begun = begin(&worker, &endpoint, Method::Get, request).await;
        let (response, call) = begun.map_err(|f| f.failure).unwrap();
        let body = call
            .into_body(&worker, response.framing, &mut Vec::new())
            .unwrap();
        let Body::Stream(mut stream) = body else {
            panic!("an endless body is a stream")
        };
        for _ in 0..5 {
            let count = poll_fn(|cx| stream.poll_data(cx).map_ok(<[u8]>::len))
                .await
                .unwrap();
            assert!(count <= BULK_BUFFER_BYTES);
            stream.consume(count);
        }
        // That the upstream is held up is seen by nothing but the time.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let before = written.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(
            written.load(Ordering::SeqCst),
            before,
            "the upstream has to wait"
        );
        // Dropping the body closes the connection: the upstream's writes fail.
        drop(stream);
        eventually(|| Arc::strong_count(&written) == 2).await;
        assert_eq!(
            Arc::strong_count(&written),
            2,
            "the script has ended but for its accept loop"
        );
    });
}

#[test]
fn a_silent_body_ends_after_the_read_timeout() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        socket
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
            .unwrap();
        read_head(&mut socket);
    });
    on_worker(|worker| async move {
        let timeouts = Timeouts {
            read: Some(Duration::from_millis(100)),
            ..Timeouts::default()
        };
        let endpoint = fake.endpoint_with(Options {
            timeouts,
            ..Options::default()
        });
        let failure = fetch(&worker, &endpoint).await.err().unwrap();
        assert_eq!(
            (failure.side, failure.kind),
            (Side::Upstream, FailureKind::Timeout)
        );
    });
}

#[test]
fn what_a_slow_receiver_leaves_is_kept_in_order() {
    let body: String = (0..300_000)
        .map(|at| char::from(b'a' + (at % 23) as u8))
        .collect();
    let chunks: Vec<String> = (0..body.len())
        .step_by(5000)
        .map(|at| format!("{:x}\r\n{}\r\n", 5000, &body[at..at + 5000]))
        .collect();
    let fixed = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
        chunks.concat()
    );
    for response in [fixed, chunked] {
        let fake = Fake::new(move |mut socket| {
            while read_head(&mut socket).is_some() {
                socket.write_all(response.as_bytes()).unwrap();
            }
        });
        on_worker(|worker| {
            let body = body.clone();
            async move {
                let endpoint = fake.endpoint();
                for _ in 0..3 {
                    let request = upload(GET, BodyFraming::None, RequestBody::None);
                    let got = read_slowly(&worker, &endpoint, request).await;
                    assert!(got == body.as_bytes(), "{} bytes", got.len());
                }
                assert_eq!(fake.accepted(), 1, "the connection is reused");
            }
        });
    }
}

/// The lengths of the pieces of an endless body, of which `take` says how many bytes are consumed at once.
fn lengths_of_pieces(options: Options, take: impl Fn(usize) -> usize) -> Vec<usize> {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while socket.write_all(&[b'x'; BULK_BUFFER_BYTES]).is_ok() {}
    });
    on_worker(|worker| async move {
        let endpoint = fake.endpoint_with(options);
        let request = upload(GET, BodyFraming::None, RequestBody::None);
        let begun = begin(&worker, &endpoint, Method::Get, request).await;
        let (response, call) = begun.map_err(|f| f.failure).unwrap();
        let body = call.into_body(&worker, response.framing, &mut Vec::new());
        let Ok(Body::Stream(mut stream)) = body else {
            panic!("an endless body is a stream")
        };
        let mut lengths = Vec::new();
        for _ in 0..500 {
            let length = poll_fn(|cx| stream.poll_data(cx).map_ok(<[u8]>::len));
            let length = length.await.unwrap();
            lengths.push(length);
            stream.consume(take(length));
        }
        lengths
    })
}

#[test]
fn slow_receivers_and_settings_get_shorter_pieces() {
    let longest = |lengths: &[usize]| lengths.iter().copied().max().unwrap();
    let fast = lengths_of_pieces(Options::default(), |length| length);
    assert!(longest(&fast) <= BULK_BUFFER_BYTES);
    // A byte of each piece is left, which is all of the next one.
    let slow = lengths_of_pieces(Options::default(), |length| length.max(2) - 1);
    let after_the_first = slow.iter().position(|length| *length == 1).unwrap();
    assert!(longest(&slow[after_the_first..]) <= BODY_BUFFER_BYTES);
    for bytes in [READ_BUFFER_BYTES / 4, 2 * READ_BUFFER_BYTES] {
        let options = Options {
            read_bytes: Some(bytes),
            ..Options::default()
        };
        let lengths = lengths_of_pieces(options, |length| length);
        // What follows the head is read with it, if it has arrived by then.
        assert!(lengths[0] <= READ_BUFFER_BYTES.max(bytes));
        assert!(longest(&lengths[1..]) <= bytes);
    }
}
