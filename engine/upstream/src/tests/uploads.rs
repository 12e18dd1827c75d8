//! Sending request bodies: framings, early responses, `100 Continue`, back-pressure.

use super::*;
use sluice_net::failure::{FailureKind, Retry, Side};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

/// An upstream that responds once it has read `marker`, and passes everything it has read to the receiver.
fn listening(marker: &'static str) -> (Fake, std::sync::mpsc::Receiver<String>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let fake = Fake::new(move |mut socket| {
        let (mut all, mut byte) = (Vec::new(), [0]);
        while !all.ends_with(marker.as_bytes()) && socket.read(&mut byte).unwrap_or(0) == 1 {
            all.push(byte[0]);
        }
        sender
            .lock()
            .unwrap()
            .send(String::from_utf8(all).unwrap())
            .unwrap();
        let _ = socket.write_all(OK);
        read_head(&mut socket);
    });
    (fake, receiver)
}

#[test]
fn a_body_of_unknown_length_is_sent_in_chunks_with_its_trailer_fields() {
    let (fake, seen) = listening("\r\n0\r\nX-Sum: 1\r\n\r\n");
    on_worker(|worker| async move {
        let mut body = Pieces::new(&["", "hello", "", "", "big world, this is"]);
        let mut trailers = Fields::new();
        trailers.push_raw(sluice_message::FieldId::Other, b"X-Sum", b"1");
        body.trailers = Some(trailers);
        let body = RequestBody::Stream(Box::new(body));
        let request = upload(CHUNKED, BodyFraming::Chunked, body);
        let got = fetch_with(&worker, &fake.endpoint(), Method::Post, request)
            .await
            .unwrap();
        assert_eq!(got.body, b"ok");
        assert_eq!(Pool::of(&worker).idle(), 1);
    });
    let expected =
        format!("{CHUNKED}5\r\nhello\r\n12\r\nbig world, this is\r\n0\r\nX-Sum: 1\r\n\r\n");
    assert_eq!(seen.recv().unwrap(), expected);
}

#[test]
fn a_body_of_known_length_is_sent_as_it_is() {
    let (fake, seen) = listening("world");
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n";
    on_worker(|worker| async move {
        let body = RequestBody::Stream(Box::new(Pieces::new(&["hello", "", "world"])));
        let request = upload(head, BodyFraming::Length(10), body);
        fetch_with(&worker, &fake.endpoint(), Method::Post, request)
            .await
            .unwrap();
        assert_eq!(Pool::of(&worker).idle(), 1);
    });
    assert_eq!(seen.recv().unwrap(), format!("{head}helloworld"));
}

#[test]
fn an_early_response_is_used_and_its_connection_is_not_reused() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        socket
            .write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
            .unwrap();
        read_head(&mut socket);
    });
    on_worker(|worker| async move {
        let body = Pieces::endless();
        let request = upload(
            CHUNKED,
            BodyFraming::Chunked,
            RequestBody::Stream(Box::new(body)),
        );
        let got = fetch_with(&worker, &fake.endpoint(), Method::Post, request)
            .await
            .unwrap();
        assert_eq!((got.head.status.code(), &got.body[..]), (413, &b"big"[..]));
        assert_eq!(Pool::of(&worker).idle(), 0);
    });
}

#[test]
fn an_early_response_before_a_reset_is_still_used() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        socket
            .write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
            .unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        // The upload fills the socket meanwhile, so that closing it resets the connection.
        thread::sleep(Duration::from_millis(100));
    });
    on_worker(|worker| async move {
        let body = Pieces::endless();
        let request = upload(
            CHUNKED,
            BodyFraming::Chunked,
            RequestBody::Stream(Box::new(body)),
        );
        let got = fetch_with(&worker, &fake.endpoint(), Method::Post, request)
            .await
            .unwrap();
        assert_eq!(got.head.status.code(), 401);
    });
}

#[test]
fn both_directions_flow_at_the_same_time() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        socket
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        let mut reader = socket.try_clone().unwrap();
        loop {
            let mut piece = [0; 3 + 5 + 2];
            reader.read_exact(&mut piece[..5]).unwrap();
            if &piece[..5] == b"0\r\n\r\n" {
                break socket.write_all(b"0\r\n\r\n").unwrap();
            }
            reader.read_exact(&mut piece[5..]).unwrap();
            socket.write_all(&piece).unwrap();
        }
        read_head(&mut socket);
    });
    on_worker(|worker| async move {
        let pieces = ["hello", "", "", "again", "", "", "", "third"];
        let body = RequestBody::Stream(Box::new(Pieces::new(&pieces)));
        let request = upload(CHUNKED, BodyFraming::Chunked, body);
        let got = fetch_with(&worker, &fake.endpoint(), Method::Post, request)
            .await
            .unwrap();
        assert_eq!(got.body, b"helloagainthird");
        assert_eq!(Pool::of(&worker).idle(), 1);
    });
}

#[test]
fn an_upstream_that_does_not_read_holds_the_client_back() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        // Reads nothing until the client has looked.
        thread::sleep(Duration::from_secs(2));
    });
    on_worker(|worker| async move {
        let body = Pieces::endless();
        let consumed = body.consumed.clone();
        let request = upload(
            CHUNKED,
            BodyFraming::Chunked,
            RequestBody::Stream(Box::new(body)),
        );
        let endpoint = fake.endpoint();
        let calling = fetch_with(&worker, &endpoint, Method::Post, request);
        let ended = tokio::time::timeout(Duration::from_millis(500), calling).await;
        assert!(ended.is_err());
        assert!(
            consumed.get() > 0 && consumed.get() < 32_000_000,
            "{}",
            consumed.get()
        );
    });
}

#[test]
fn a_body_waits_for_100_continue_but_not_for_ever() {
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        socket
            .set_read_timeout(Some(Duration::from_millis(80)))
            .unwrap();
        assert!(socket.read(&mut [0]).is_err(), "nothing comes before 100");
        socket.set_read_timeout(None).unwrap();
        socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let mut body = [0; 5];
        socket.read_exact(&mut body).unwrap();
        assert_eq!(&body, b"hello");
        socket.write_all(OK).unwrap();
        read_head(&mut socket);
    });
    let (patient, seen) = listening("hello");
    let refusing = Fake::responding("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
    on_worker(|worker| async move {
        let request = |limit| {
            let body = Pieces::new(&["hello"]);
            let consumed = body.consumed.clone();
            let body = RequestBody::Stream(Box::new(body));
            let upload = upload(head, BodyFraming::Length(5), body);
            (
                upload.expect_continue(&worker, Duration::from_millis(limit)),
                consumed,
            )
        };
        let (upload, _) = request(5_000);
        let got = fetch_with(&worker, &fake.endpoint(), Method::Post, upload)
            .await
            .unwrap();
        assert_eq!(got.body, b"ok");
        let (upload, _) = request(50);
        fetch_with(&worker, &patient.endpoint(), Method::Post, upload)
            .await
            .unwrap();
        let (upload, consumed) = request(5_000);
        let got = fetch_with(&worker, &refusing.endpoint(), Method::Post, upload)
            .await
            .unwrap();
        assert_eq!((got.head.status.code(), consumed.get()), (417, 0));
    });
    assert!(seen.recv().unwrap().ends_with("\r\n\r\nhello"));
}

#[test]
fn a_replayable_body_comes_back_from_a_failed_call() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
    });
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        // While it waited for `100 Continue`, no content was read.
        let body = RequestBody::Stream(Box::new(Pieces::new(&["hello"])));
        let request = upload(CHUNKED, BodyFraming::Chunked, body)
            .expect_continue(&worker, Duration::from_secs(5));
        let failed = begin(&worker, &endpoint, Method::Post, request)
            .await
            .err()
            .unwrap();
        assert!(matches!(failed.body, Some(RequestBody::Stream(_))));
        // Content was read.
        let body = RequestBody::Stream(Box::new(Pieces::new(&["hello"])));
        let request = upload(CHUNKED, BodyFraming::Chunked, body);
        let failed = begin(&worker, &endpoint, Method::Post, request)
            .await
            .err()
            .unwrap();
        assert!(failed.body.is_none());
        assert_eq!(failed.failure.retry, Retry::IfIdempotent);
    });
}

struct Failing;

impl BodyStream for Failing {
    fn len(&self) -> Option<u64> {
        Some(10)
    }

    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        Poll::Ready(Err(Failure::new(Side::Client, FailureKind::Closed)))
    }

    fn consume(&mut self, _: usize) {}
}

#[test]
fn a_client_that_fails_half_way_ends_the_call_and_its_connection() {
    let (fake, seen) = listening("never");
    on_worker(|worker| async move {
        let request = upload(
            GET,
            BodyFraming::Length(10),
            RequestBody::Stream(Box::new(Failing)),
        );
        let endpoint = fake.endpoint();
        let failed = begin(&worker, &endpoint, Method::Post, request)
            .await
            .err()
            .unwrap();
        assert_eq!(
            (failed.failure.side, failed.failure.retry),
            (Side::Client, Retry::Never)
        );
        assert_eq!(Pool::of(&worker).idle(), 0);
    });
    assert_eq!(
        seen.recv().unwrap(),
        "",
        "a request that fails at once is not begun"
    );
}
