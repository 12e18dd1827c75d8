//! Calls to FastCGI applications: records in both directions, invalid responses, and which connections are reused.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use sluice_wire::fastcgi::{Params, WhenDone, encode_begin};

use super::*;
use crate::limits::{END_RECORD_TIMEOUT, KEPT_BRIEFLY};
use sluice_net::failure::{FailureKind, Retry};

const STDOUT: u8 = 6;
const STDERR: u8 = 7;

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, kind, 0, 1];
    bytes.extend_from_slice(&(content.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[3, 0]);
    bytes.extend_from_slice(content);
    bytes.extend_from_slice(&[0; 3]);
    bytes
}

fn end(protocol_status: u8) -> Vec<u8> {
    record(3, &[0, 0, 0, 0, protocol_status, 0, 0, 0])
}

/// A complete response with this head and body.
fn response(content: &str) -> Vec<u8> {
    [record(STDOUT, content.as_bytes()), end(0)].concat()
}

/// Reads records until the end of a request's body, which is returned; `None` at the end of the connection.
fn read_request(socket: &mut impl Read) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut head = [0; 8];
        socket.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        socket.read_exact(&mut content).ok()?;
        match (head[1], length) {
            (5, 0) => return Some(body),
            (5, _) => body.extend_from_slice(&content[..length]),
            _ => {}
        }
    }
}

/// An application that sends the same bytes after each request.
fn sending(bytes: Vec<u8>) -> Fake {
    Fake::new(move |mut socket| {
        while read_request(&mut socket).is_some() {
            let _ = socket.write_all(&bytes);
        }
    })
}

/// An application that sends these bytes after the first request and closes.
fn sending_once(bytes: Vec<u8>) -> Fake {
    Fake::new(move |mut socket| {
        read_request(&mut socket);
        let _ = socket.write_all(&bytes);
    })
}

fn options() -> Options {
    Options {
        protocol: Protocol::FastCgi,
        keep_alive: KeepAlive::Briefly(KEPT_BRIEFLY),
        ..Options::default()
    }
}

/// Like [`options`], with this maximum age of pooled connections.
fn options_of(kept: Duration) -> Options {
    Options {
        keep_alive: KeepAlive::Briefly(kept),
        ..options()
    }
}

fn request(body: RequestBody) -> Upload {
    let mut head = Vec::new();
    encode_begin(WhenDone::Keep, &mut head);
    let mut params = Params::new(&mut head);
    params.push(b"REQUEST_METHOD", b"GET");
    params.end().expect("the variables fit");
    Upload::new(head, BodyFraming::None, body)
}

async fn ask(worker: &Rc<Worker>, endpoint: &Arc<Endpoint>) -> Result<Got, Failure> {
    fetch_with(worker, endpoint, Method::Get, request(RequestBody::None)).await
}

/// The response to one request, or the failure, whichever part of the call it comes from.
fn outcome(fake: Fake) -> Result<Got, Failure> {
    on_worker(|worker| async move { ask(&worker, &fake.endpoint_with(options())).await })
}

#[test]
fn a_response_is_read_from_its_records() {
    let bytes = [
        record(STDOUT, b"Status: 404 X\r\nA"),
        record(STDERR, b"notice"),
        record(STDOUT, b": b\r\n\r\nno"),
        record(STDOUT, b"ne"),
        record(STDOUT, b""),
        end(0),
    ];
    let got = outcome(sending(bytes.concat())).unwrap();
    assert_eq!(got.head.status.code(), 404);
    assert_eq!(got.head.fields.find_first(b"a"), Some(&b"b"[..]));
    assert_eq!(got.body, b"none");
}

/// With the time from before the wait, an application that responds at once would seem to be overloaded.
#[test]
fn the_end_timer_starts_with_the_wait() {
    let fake = sending(Vec::new());
    let (worker, endpoint) = (Worker::new(0, 1), fake.endpoint_with(options()));
    let before = worker.clock.coarse();
    // Between two ticks of the clock, which is what is tested.
    thread::sleep(Duration::from_millis(20));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(fake.address).await.unwrap();
        let stream = sluice_net::stream::Stream::Tcp(socket.into());
        let slot = worker.take_slot().await.expect("slots are unlimited");
        let link = Link::new(stream, endpoint.clone(), slot);
        let mut call = LinkCall::new(link, request(RequestBody::None), None);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        call.note_unaccepted(&mut cx, &worker);
        worker.timers.sweep(before + END_RECORD_TIMEOUT);
        call.note_unaccepted(&mut cx, &worker);
        assert!(
            !endpoint.is_at_capacity(before),
            "it has not waited for so long"
        );
        worker
            .timers
            .sweep(worker.clock.coarse() + END_RECORD_TIMEOUT);
        call.note_unaccepted(&mut cx, &worker);
        assert!(endpoint.is_at_capacity(worker.clock.coarse()), "now it has");
    });
}

#[test]
fn a_response_may_arrive_byte_by_byte() {
    let bytes = [
        record(STDOUT, b"A: b\n\n"),
        record(STDOUT, b"hello"),
        end(0),
    ]
    .concat();
    let fake = Fake::new(move |mut socket| {
        socket.set_nodelay(true).unwrap();
        read_request(&mut socket);
        for byte in &bytes {
            socket.write_all(&[*byte]).unwrap();
            // Usually enough for the client to read each byte by itself; if not, the test is easier, not wrong.
            thread::sleep(Duration::from_millis(1));
        }
        read_request(&mut socket);
    });
    assert_eq!(outcome(fake).unwrap().body, b"hello");
}

#[test]
fn large_responses_arrive_unchanged() {
    let part: Vec<u8> = (0..60_000_u32).map(|at| (at % 251) as u8).collect();
    let mut bytes = record(STDOUT, b"Content-Length: 600000\r\n\r\n");
    for _ in 0..10 {
        bytes.extend_from_slice(&record(STDOUT, &part));
    }
    bytes.extend_from_slice(&end(0));
    let fake = sending(bytes);
    on_worker(|worker| async move {
        let endpoint = fake.endpoint_with(options());
        for _ in 0..3 {
            let got = ask(&worker, &endpoint).await.unwrap();
            assert!(got.body == part.repeat(10));
        }
        assert_eq!((fake.accepted(), Pool::of(&worker).idle()), (1, 1));
    });
}

#[test]
fn bodies_of_requests_are_sent_in_records() {
    let (sender, seen) = channel();
    let sender = Mutex::new(sender);
    let fake = Fake::new(move |mut socket| {
        let body = read_request(&mut socket).unwrap();
        sender.lock().unwrap().send(body).unwrap();
        socket.write_all(&response("A: b\r\n\r\nok")).unwrap();
    });
    let large = "x".repeat(200_000);
    on_worker(|worker| async move {
        let body = Pieces::new(&["hello", "", "", &large, "end"]);
        let upload = request(RequestBody::Stream(Box::new(body)));
        let endpoint = fake.endpoint_with(options());
        let got = fetch_with(&worker, &endpoint, Method::Post, upload).await;
        assert_eq!(got.unwrap().body, b"ok");
    });
    let body = seen.recv().unwrap();
    assert_eq!(body.len(), 200_008);
    assert!(body.starts_with(b"hellox") && body.ends_with(b"xend"));
}

#[test]
fn an_incomplete_response_fails() {
    let cut_off = response("Status: 200\r\n\r\nbody");
    let cases: [(Vec<u8>, FailureKind); 10] = [
        (b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), FailureKind::Protocol),
        (Vec::new(), FailureKind::Closed),
        (cut_off[..cut_off.len() - 1].to_vec(), FailureKind::Closed),
        (cut_off[..20].to_vec(), FailureKind::Closed),
        (record(STDOUT, b"Status: 200\r\n"), FailureKind::Closed),
        (response("Status: 200\r\n"), FailureKind::Protocol),
        (end(0), FailureKind::Protocol),
        (response("nonsense\r\n\r\n"), FailureKind::Protocol),
        (end(1), FailureKind::Protocol),
        (end(2), FailureKind::Unavailable),
    ];
    for (bytes, kind) in cases {
        let shown = bytes.escape_ascii().to_string();
        let failure = outcome(sending_once(bytes)).err().expect(&shown);
        assert_eq!(failure.kind, kind, "{shown}");
    }
}

#[test]
fn a_body_shorter_than_its_content_length_is_an_error() {
    let short = response("Content-Length: 9\r\n\r\nbody");
    assert_eq!(
        outcome(sending(short)).err().unwrap().kind,
        FailureKind::Closed
    );
    // Excess content is dropped, and the connection is closed.
    let fake = sending(response("Content-Length: 2\r\n\r\nbody"));
    on_worker(|worker| async move {
        let got = ask(&worker, &fake.endpoint_with(options())).await.unwrap();
        assert_eq!((&got.body[..], Pool::of(&worker).idle()), (&b"bo"[..], 0));
    });
}

#[test]
fn responses_without_a_body_have_none() {
    for (method, content) in [
        (Method::Head, "Content-Length: 9\r\n\r\n"),
        (Method::Head, "A: b\r\n\r\nbody"),
        (Method::Get, "Status: 304\r\n\r\nbody"),
        (Method::Get, "Status: 204\r\n\r\n"),
    ] {
        let fake = sending(response(content));
        on_worker(|worker| async move {
            let endpoint = fake.endpoint_with(options());
            let got = fetch_with(&worker, &endpoint, method, request(RequestBody::None)).await;
            assert_eq!(got.unwrap().body, b"");
        });
    }
}

#[test]
fn an_overloaded_application_may_be_asked_again_whatever_the_method() {
    let fake = sending(end(2));
    on_worker(|worker| async move {
        let endpoint = fake.endpoint_with(options());
        let asked = begin(&worker, &endpoint, Method::Post, request(RequestBody::None));
        let failed = asked.await.err().unwrap();
        assert_eq!(failed.failure.retry, Retry::Always);
        assert!(failed.body.is_some());
    });
}

#[test]
fn connections_are_kept_for_a_moment_only() {
    let fake = sending(response("A: b\r\n\r\nok"));
    on_worker(|worker| async move {
        let brief = Duration::from_millis(300);
        let endpoint = fake.endpoint_with(options_of(brief));
        let (began, mut asked) = (std::time::Instant::now(), 0);
        while began.elapsed() < brief * 3 {
            ask(&worker, &endpoint).await.unwrap();
            asked += 1;
            // Some requests in the life of a connection, not thousands.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Pooling is disabled while the application seems overloaded, as on a slow machine.
        let accepted = fake.accepted();
        assert!(
            (2..asked).contains(&accepted),
            "{accepted} connections of {asked}"
        );
    });
}

/// An application whose content is complete before its responses are: it sends the rest on request.
fn ending_late() -> (Fake, Sender<Vec<u8>>, Receiver<()>) {
    let ((late, received), (sender, sent)) = (channel::<Vec<u8>>(), channel());
    let state = Mutex::new((received, sender));
    let fake = Fake::new(move |mut socket| {
        while read_request(&mut socket).is_some() {
            let content = record(STDOUT, b"Content-Length: 2\r\n\r\nok");
            socket.write_all(&content).unwrap();
            let state = state.lock().unwrap();
            let Ok(late) = state.0.recv() else { return };
            let _ = socket.write_all(&late);
            let _ = state.1.send(());
        }
    });
    (fake, late, sent)
}

#[test]
fn a_response_ending_after_its_body_leaves_the_connection_reusable() {
    let (fake, late, sent) = ending_late();
    let whole = [record(STDOUT, b""), record(STDERR, b"bye"), end(0)].concat();
    let stray = [record(STDOUT, b"!"), end(0)].concat();
    let broken = record(9, b"");
    on_worker(|worker| async move {
        let endpoint = fake.endpoint_with(options_of(Duration::from_secs(60)));
        let mut expected = 1;
        // What arrives late, and whether the connection can be reused after it.
        for (bytes, is_good) in [
            (&whole, true),
            (&stray, false),
            (&whole, true),
            (&broken, false),
        ] {
            assert_eq!(ask(&worker, &endpoint).await.unwrap().body, b"ok");
            assert_eq!(fake.accepted(), expected);
            late.send(bytes.clone()).unwrap();
            sent.recv().unwrap();
            // Lets the worker notice it.
            tokio::time::sleep(Duration::from_millis(5)).await;
            expected += usize::from(!is_good);
        }
    });
}

#[test]
fn an_unfinished_response_keeps_its_connection_to_itself() {
    let (fake, late, sent) = ending_late();
    on_worker(|worker| async move {
        let endpoint = fake.endpoint_with(options_of(Duration::from_secs(60)));
        for number in 1..=3 {
            assert_eq!(ask(&worker, &endpoint).await.unwrap().body, b"ok");
            assert_eq!(
                (fake.accepted(), Pool::of(&worker).idle()),
                (number, number)
            );
        }
        // The oldest connection receives the end of its response, and is reused although there are two newer ones.
        late.send(end(0)).unwrap();
        sent.recv().unwrap();
        // Lets the worker notice it.
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(ask(&worker, &endpoint).await.unwrap().body, b"ok");
        assert_eq!((fake.accepted(), Pool::of(&worker).idle()), (3, 3));
    });
}

/// An application that serves one connection at a time, as one process does; it counts its requests.
fn single(pause: Duration) -> (Fake, Receiver<()>) {
    let (sender, asked) = channel();
    let state = Mutex::new(sender);
    let fake = Fake::new(move |mut socket| {
        let sender = state.lock().unwrap();
        while read_request(&mut socket).is_some() {
            sender.send(()).unwrap();
            // The work of the application.
            thread::sleep(pause);
            socket.write_all(&response("A: b\r\n\r\nok")).unwrap();
        }
    });
    (fake, asked)
}

#[test]
fn a_kept_connection_does_not_lock_others_out() {
    let (fake, _asked) = single(Duration::from_millis(20));
    on_worker(|worker| async move {
        // Far longer than the test: idle connections have to be closed early.
        let endpoint = fake.endpoint_with(options_of(Duration::from_secs(60)));
        let began = std::time::Instant::now();
        let (other_worker, other_endpoint) = (worker.clone(), endpoint.clone());
        let other = async move { ask(&other_worker, &other_endpoint).await };
        let other = tokio::task::spawn_local(other);
        assert_eq!(ask(&worker, &endpoint).await.unwrap().body, b"ok");
        assert_eq!(other.await.unwrap().unwrap().body, b"ok");
        assert!(began.elapsed() < Duration::from_secs(5));
        // From now on each request has its own connection.
        let before = fake.accepted();
        for _ in 0..3 {
            ask(&worker, &endpoint).await.unwrap();
        }
        assert_eq!(fake.accepted(), before + 3);
    });
}

#[test]
fn stderr_records_are_reported_once_with_the_status() {
    let bytes = [
        record(STDERR, b"PHP Warning"),
        record(STDOUT, b"Status: 500\r\n\r\nbody"),
        record(STDERR, b": x"),
        end(0),
    ];
    let fake = sending(bytes.concat());
    let received = on_worker(|worker| async move {
        let endpoint = fake.endpoint_with(options());
        let link = obtain(&worker, &endpoint, Wanted::Any, b"").await.unwrap();
        let mut call = Call::new(link, request(RequestBody::None), None);
        let received = Rc::new(std::cell::RefCell::new(Vec::new()));
        let notes = received.clone();
        call.listen(Box::new(move |stderr, status| {
            let text = String::from_utf8(stderr.text.clone()).unwrap();
            notes.borrow_mut().push((text, status.map(|s| s.code())));
        }));
        let response = call.response(&worker, &Method::Get).await.ok().unwrap();
        let mut inline = Vec::new();
        drop(call.into_body(&worker, response.framing, &mut inline));
        received.take()
    });
    assert_eq!(received, [("PHP Warning: x".to_owned(), Some(500))]);
}

#[test]
fn an_idle_connection_keeps_the_memory_of_its_decoder_and_nothing_of_a_response() {
    let fake = sending(response("A: b\r\n\r\nx"));
    on_worker(|worker| async move {
        let endpoint = fake.endpoint_with(options_of(Duration::from_secs(600)));
        for _ in 0..3 {
            let got = ask(&worker, &endpoint).await.unwrap();
            assert_eq!(got.head.fields.len(), 1);
            assert_eq!(got.body, b"x");
        }
        assert_eq!(fake.accepted(), 1);
        let link = Pool::of(&worker).take(&endpoint, worker.clock.coarse());
        assert!(link.is_some_and(|link| link.spare.is_some()));
    });
}

#[test]
fn a_connection_of_another_protocol_is_not_taken() {
    let fake = Fake::responding("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    on_worker(|worker| async move {
        fetch(&worker, &fake.endpoint()).await.unwrap();
        assert_eq!(Pool::of(&worker).idle(), 1);
        assert!(
            Pool::of(&worker)
                .take(&fake.endpoint_with(options()), worker.clock.coarse())
                .is_none()
        );
    });
}

#[test]
fn what_a_slow_receiver_leaves_of_records_is_kept_in_order() {
    let body: String = (0..90_000)
        .map(|at| char::from(b'a' + (at % 23) as u8))
        .collect();
    let mut bytes = record(STDOUT, b"Content-Type: text/plain\r\n\r\n");
    for piece in body.as_bytes().chunks(7000) {
        bytes.extend(record(STDOUT, piece));
    }
    bytes.extend(end(0));
    let fake = sending(bytes);
    on_worker(|worker| async move {
        let endpoint = fake.endpoint_with(options());
        for _ in 0..3 {
            let got = read_slowly(&worker, &endpoint, request(RequestBody::None)).await;
            assert!(got == body.as_bytes(), "{} bytes", got.len());
        }
    });
}
