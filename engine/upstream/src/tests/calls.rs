//! Response heads: interim ones, garbage, silence, and what may be retried.

use super::*;
use sluice_net::failure::{FailureKind, Retry, Side};

const HI: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

fn failing(response: &'static str) -> Failure {
    let fake = Fake::closing(response);
    on_worker(|worker| async move { fetch(&worker, &fake.endpoint()).await.err().unwrap() })
}

#[test]
fn garbage_instead_of_a_response_is_a_protocol_error() {
    for garbage in [
        "garbage\r\n\r\n",
        "220 mail.example ESMTP\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ] {
        let failure = failing(garbage);
        assert_eq!(
            (failure.side, failure.kind),
            (Side::Upstream, FailureKind::Protocol),
            "{garbage}"
        );
    }
}

#[test]
fn an_endless_head_is_given_up_at_the_limit() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n");
        while socket
            .write_all(b"X-More: of the same, and never an empty line\r\n")
            .is_ok()
        {}
    });
    on_worker(|worker| async move {
        let failure = fetch(&worker, &fake.endpoint()).await.err().unwrap();
        assert_eq!(failure.kind, FailureKind::Protocol);
        assert_eq!(Pool::of(&worker).idle(), 0);
    });
}

#[test]
fn interim_responses_are_accepted_up_to_the_limit() {
    const FEW: &str = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let fake = Fake::responding(FEW);
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        for _ in 0..2 {
            let got = fetch(&worker, &endpoint).await.unwrap();
            assert_eq!((got.head.status.code(), &got.body[..]), (200, &b"hi"[..]));
            assert!(got.head.fields.find_first(b"link").is_none());
        }
        assert_eq!(fake.accepted(), 1);
    });

    let flood = Fake::new(|mut socket| {
        read_head(&mut socket);
        while socket.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").is_ok() {}
    });
    on_worker(|worker| async move {
        let failure = fetch(&worker, &flood.endpoint()).await.err().unwrap();
        assert_eq!(failure.kind, FailureKind::Protocol);
    });
}

#[test]
fn a_head_in_single_bytes_is_read_like_one_in_one_piece() {
    let fake = Fake::new(|mut socket| {
        socket.set_nodelay(true).unwrap();
        read_head(&mut socket);
        for byte in b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 3\r\n\r\nabc" {
            socket.write_all(&[*byte]).unwrap();
            // Usually enough for the client to read each byte by itself; if not, the test is easier, not wrong.
            thread::sleep(Duration::from_micros(200));
        }
        read_head(&mut socket);
    });
    on_worker(|worker| async move {
        let got = fetch(&worker, &fake.endpoint()).await.unwrap();
        assert_eq!(got.body, b"abc");
        assert_eq!(got.head.fields.find_first(b"x-a"), Some(&b"1"[..]));
        assert_eq!(Pool::of(&worker).idle(), 1);
    });
}

#[test]
fn silence_ends_after_the_response_timeout() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        read_head(&mut socket);
    });
    on_worker(|worker| async move {
        let timeouts = Timeouts {
            response: Some(Duration::from_millis(100)),
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
fn an_upstream_that_does_not_take_the_body_has_its_time_and_a_slow_client_its_own() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        // Longer than the timeout of a write.
        thread::sleep(Duration::from_secs(1));
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let _ = socket.read_to_end(&mut Vec::new());
    });
    on_worker(|worker| async move {
        let timeouts = Timeouts {
            write: Some(Duration::from_millis(200)),
            ..Timeouts::default()
        };
        let endpoint = fake.endpoint_with(Options {
            timeouts,
            ..Options::default()
        });
        let post = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        let send = |body: Box<dyn BodyStream>| {
            upload(post, BodyFraming::Chunked, RequestBody::Stream(body))
        };
        let flood = send(Box::new(Pieces::endless()));
        let failure = fetch_with(&worker, &endpoint, Method::Post, flood)
            .await
            .err()
            .unwrap();
        assert_eq!(
            (failure.side, failure.kind),
            (Side::Upstream, FailureKind::Timeout)
        );
        let slow = send(Box::new(Never));
        assert_eq!(
            fetch_with(&worker, &endpoint, Method::Post, slow)
                .await
                .unwrap()
                .body,
            b""
        );
    });
}

/// A client that sends nothing of its body.
struct Never;

impl BodyStream for Never {
    fn len(&self) -> Option<u64> {
        None
    }

    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        Poll::Pending
    }

    fn consume(&mut self, _: usize) {}
}

#[test]
fn a_refused_connection_may_always_be_retried() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    on_worker(|worker| async move {
        for address in [
            Address::Ip(address),
            Address::unix("/nonexistent/sluice.sock"),
        ] {
            let endpoint = Arc::new(Endpoint::new(address, Options::default()));
            let failure = fetch(&worker, &endpoint).await.err().unwrap();
            assert_eq!(
                (failure.kind, failure.retry),
                (FailureKind::Dial, Retry::Always)
            );
        }
    });
}

#[test]
fn an_upstream_that_says_nothing_and_closes_may_be_retried_if_idempotent() {
    let failure = failing("");
    assert_eq!(
        (failure.kind, failure.retry),
        (FailureKind::Closed, Retry::IfIdempotent)
    );
    let failure = failing("HTTP/1.1 200 O");
    assert_eq!(failure.kind, FailureKind::Closed);
}

#[test]
fn names_and_unix_sockets_are_dialled() {
    let fake = Fake::responding("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    let folder = std::env::temp_dir().join(format!("sluice-upstream-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("up.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        while read_head(&mut socket).is_some() {
            socket
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nunix")
                .unwrap();
        }
    });
    on_worker(|worker| async move {
        let by_name = Address::tcp("localhost", fake.address.port());
        assert!(matches!(by_name, Address::Name { .. }));
        assert!(matches!(Address::tcp("::1", 1), Address::Ip(_)));
        for (address, body) in [(by_name, &b"hi"[..]), (Address::unix(&path), b"unix")] {
            let endpoint = Arc::new(Endpoint::new(address, Options::default()));
            for _ in 0..2 {
                assert_eq!(fetch(&worker, &endpoint).await.unwrap().body, body);
            }
        }
        assert_eq!(fake.accepted(), 1);
        let nowhere = Address::tcp("name.invalid", 80);
        let endpoint = Arc::new(Endpoint::new(nowhere, Options::default()));
        let failure = fetch(&worker, &endpoint).await.err().unwrap();
        assert_eq!(
            (failure.kind, failure.retry),
            (FailureKind::Dial, Retry::Always)
        );
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A waker that counts how often it was called.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl std::task::Wake for Wakes {
    fn wake(self: Arc<Wakes>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Connection;

impl sluice_net::retirement::Outliving for Connection {
    fn close_if_older(&self, _: u32) {}
}

/// As many client connections as make calls look early for their responses.
fn add_clients(worker: &Worker) {
    for _ in 0..crate::limits::EARLY_LOOK_CONNECTIONS_MIN {
        worker.retirement.add(std::rc::Weak::<Connection>::new());
    }
}

#[test]
fn an_early_look_finds_a_response_that_the_runtime_has_not_reported() {
    let (written, waiting) = std::sync::mpsc::channel();
    let fake = Fake::new(move |mut socket| {
        while read_head(&mut socket).is_some() {
            socket
                .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                .unwrap();
            written.send(()).unwrap();
        }
    });
    on_worker(|worker| async move {
        add_clients(&worker);
        let endpoint = fake.endpoint();
        // The first looks are usual ones, as none was successful before; then one tries, and all others follow.
        let trial = usize::from(crate::limits::EARLY_LOOK_INTERVAL) - 1;
        for call in 0..trial + 3 {
            let link = obtain_link(&worker, &endpoint).await;
            let request = upload(GET, BodyFraming::None, RequestBody::None);
            let mut begun = Call::new(Carrier::Link(link), request, None);
            let mut response = Box::pin(begun.response(&worker, &Method::Get));
            let wakes = Arc::new(Wakes::default());
            let waker = wakes.clone().into();
            let mut cx = Context::from_waker(&waker);
            assert!(response.as_mut().poll(&mut cx).is_pending());
            let is_early = call >= trial;
            assert_eq!(
                wakes.0.load(Ordering::SeqCst),
                usize::from(is_early),
                "{call}"
            );
            // This holds up the thread of the runtime, which therefore reports nothing.
            waiting.recv().unwrap();
            let outcome = match response.as_mut().poll(&mut cx) {
                Poll::Ready(response) => response,
                Poll::Pending => {
                    assert!(!is_early, "{call}");
                    response.as_mut().await
                }
            };
            drop(response);
            let framing = outcome.map_err(|f| f.failure).unwrap().framing;
            let body = begun.into_body(&worker, framing, &mut Vec::new());
            assert!(matches!(body, Ok(Body::Empty)));
        }
        assert_eq!(fake.accepted(), 1);
    });
}

#[test]
fn an_early_look_that_finds_nothing_waits_for_the_response() {
    let (go, gate) = std::sync::mpsc::channel();
    let gate = std::sync::Mutex::new(gate);
    let fake = Fake::new(move |mut socket| {
        while read_head(&mut socket).is_some() {
            gate.lock().unwrap().recv().unwrap();
            socket.write_all(HI.as_bytes()).unwrap();
        }
    });
    on_worker(|worker| async move {
        add_clients(&worker);
        Pool::of(&worker).early_looks.note_found();
        let endpoint = fake.endpoint();
        let link = obtain_link(&worker, &endpoint).await;
        let request = upload(GET, BodyFraming::None, RequestBody::None);
        let mut begun = Call::new(Carrier::Link(link), request, None);
        let mut response = Box::pin(begun.response(&worker, &Method::Get));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(response.as_mut().poll(&mut cx).is_pending());
        assert!(response.as_mut().poll(&mut cx).is_pending());
        assert!(
            !Pool::of(&worker).early_looks.is_due(1000),
            "it was in vain"
        );
        go.send(()).unwrap();
        let response = response.await.map_err(|f| f.failure).unwrap();
        assert_eq!(response.head.status.code(), 200);
    });
}
