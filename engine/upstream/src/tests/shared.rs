//! Calls that share HTTP/2 connections. The upstreams write each frame themselves.

use std::future::poll_fn;
use std::sync::Mutex;

use sluice_message::{FieldId, RequestHead};
use sluice_wire::h2::PREFACE;
use sluice_wire::h2::hpack::Decoder;

use super::secured::secured_offering;
use super::*;
use crate::limits::{CALL_BYTES_MAX, LINK_BYTES_MAX};
use sluice_net::failure::{FailureKind, Retry, Side};
use sluice_net::timeout::within;
use sluice_net::tls::{Connector, ConnectorOptions};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

const REFUSED: u32 = 7;
const CANCEL: u32 = 8;

/// Names and values.
type Lines = Vec<(String, String)>;

/// What an upstream sends repeatedly, on the stream with this ID.
type Flood = (&'static str, fn(&mut Frames, u32));

/// The server's end of a connection.
struct Frames<S = TcpStream> {
    socket: S,
    decoder: Decoder,
    /// Collects what is to be sent in one piece.
    corked: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    id: u32,
    payload: Vec<u8>,
}

impl Frame {
    fn word(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().unwrap())
    }

    fn ends(&self) -> bool {
        self.flags & END_STREAM != 0
    }
}

impl<S: Read + Write> Frames<S> {
    /// Reads the preface and sends SETTINGS.
    fn begin(mut socket: S, settings: &[(u16, u32)]) -> Frames<S> {
        let mut preface = [0; 24];
        socket.read_exact(&mut preface).unwrap();
        assert_eq!(&preface, PREFACE);
        let decoder = Decoder::new(4096);
        let mut frames = Frames {
            socket,
            decoder,
            corked: None,
        };
        let mut payload = Vec::new();
        for (id, value) in settings {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        frames.send(SETTINGS, 0, 0, &payload);
        frames
    }

    fn send(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        let len = (payload.len() as u32).to_be_bytes();
        let mut bytes = vec![len[1], len[2], len[3], kind, flags];
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.extend_from_slice(payload);
        self.write(&bytes);
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(corked) = &mut self.corked {
            return corked.extend_from_slice(bytes);
        }
        // The other end may be gone.
        let _ = self.socket.write_all(bytes);
        let _ = self.socket.flush();
    }

    /// Sends everything that `send` sends in one piece.
    fn at_once(&mut self, send: impl FnOnce(&mut Self)) {
        self.corked = Some(Vec::new());
        send(self);
        let bytes = self.corked.take().unwrap();
        self.write(&bytes);
    }

    fn head(&mut self, id: u32, flags: u8, fields: &[(&str, &str)]) {
        let mut block = Vec::new();
        for (name, value) in fields {
            block.push(0);
            for text in [name, value] {
                block.push(text.len() as u8);
                block.extend_from_slice(text.as_bytes());
            }
        }
        self.send(HEADERS, flags | END_HEADERS, id, &block);
    }

    fn response(&mut self, id: u32, body: &str) {
        self.head(id, 0, &[(":status", "200")]);
        self.send(DATA, END_STREAM, id, body.as_bytes());
    }

    fn word(&mut self, kind: u8, id: u32, word: u32) {
        self.send(kind, 0, id, &word.to_be_bytes());
    }

    fn goodbye(&mut self, last: u32, code: u32) {
        let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
        self.send(GOAWAY, 0, 0, &payload);
    }

    /// The next frame of a stream, or a GOAWAY; SETTINGS and PING are acknowledged. `None` at the end.
    fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = self.frame()?;
            match (frame.kind, frame.flags & ACK) {
                (SETTINGS, 0) => self.send(SETTINGS, ACK, 0, &[]),
                (PING, 0) => self.send(PING, ACK, 0, &frame.payload),
                (SETTINGS | PING, _) => {}
                _ if frame.id == 0 && frame.kind == WINDOW_UPDATE => {}
                _ => return Some(frame),
            }
        }
    }

    fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head).ok()?;
        let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; len];
        self.socket.read_exact(&mut payload).ok()?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            id: u32::from_be_bytes(head[5..].try_into().unwrap()),
            payload,
        })
    }

    /// The next HEADERS frame, with its decoded headers.
    fn request(&mut self) -> Option<(u32, Lines, bool)> {
        loop {
            let frame = self.next()?;
            if frame.kind == HEADERS {
                let fields = self.fields(&frame);
                return Some((frame.id, fields, frame.ends()));
            }
        }
    }

    fn fields(&mut self, frame: &Frame) -> Lines {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let decoded = self.decoder.decode(&frame.payload, |field| {
            fields.push((text(field.name), text(field.value)));
        });
        decoded.unwrap();
        fields
    }
}

/// An upstream that responds to each request with its path.
fn echo_paths(socket: impl Read + Write) {
    let mut frames = Frames::begin(socket, &[]);
    while let Some((id, fields, _)) = frames.request() {
        let path = fields.iter().find(|(name, _)| name == ":path").unwrap();
        frames.response(id, &path.1.clone());
    }
}

fn prior(fake: &Fake) -> Arc<Endpoint> {
    prior_with(fake, Options::default())
}

fn prior_with(fake: &Fake, options: Options) -> Arc<Endpoint> {
    fake.endpoint_with(Options {
        protocol: Protocol::Http2,
        ..options
    })
}

fn head(method: Method, path: &str) -> RequestHead {
    let mut head = RequestHead {
        method,
        ..RequestHead::default()
    };
    assert!(head.uri.set(path.as_bytes()));
    head.fields.push(FieldId::Host, b"x.test");
    head
}

async fn ask(
    worker: &Rc<Worker>,
    endpoint: &Arc<Endpoint>,
    wanted: Wanted,
    path: &str,
    body: RequestBody,
) -> Result<(Response, Call), Box<CallFailure>> {
    let framing = match &body {
        RequestBody::None => BodyFraming::None,
        RequestBody::Stream(body) => body.len().map_or(BodyFraming::Chunked, BodyFraming::Length),
    };
    let mut carrier = match take_kept(worker, endpoint, wanted) {
        Some(carrier) => carrier,
        None => {
            let obtained = obtain(worker, endpoint, wanted, b"").await;
            obtained.map_err(|failure| {
                Box::new(CallFailure {
                    failure,
                    origin: Origin::Fresh,
                    heard: Heard::Nothing,
                    body: None,
                })
            })?
        }
    };
    let method = match framing {
        BodyFraming::None => Method::Get,
        _ => Method::Post,
    };
    let head = head(method.clone(), path);
    let mut text = Vec::new();
    if !carrier.open(&head, framing) {
        sluice_wire::h1::encode_request_head(&head, framing, &mut text).expect("the head fits");
    }
    let mut call = Call::new(carrier, Upload::new(text, framing, body), None);
    let response = call.response(worker, &method).await?;
    Ok((response, call))
}

async fn get(worker: &Rc<Worker>, endpoint: &Arc<Endpoint>, path: &str) -> Result<Got, Failure> {
    let asked = ask(worker, endpoint, Wanted::Any, path, RequestBody::None).await;
    let (response, call) = asked.map_err(|failed| failed.failure)?;
    whole(worker, response, call).await
}

async fn whole(worker: &Rc<Worker>, response: Response, call: Call) -> Result<Got, Failure> {
    let mut inline = Vec::new();
    let (mut pieces, mut trailers) = (1, None);
    if let Body::Stream(mut stream) = call.into_body(worker, response.framing, &mut inline)? {
        pieces = read_all(&mut *stream, &mut inline).await?;
        trailers = stream.trailers();
    }
    Ok(Got {
        head: response.head,
        body: inline,
        pieces,
        trailers,
    })
}

/// Runs `count` calls in parallel and waits for all of them.
async fn at_once<T: 'static, F: Future<Output = T> + 'static>(
    count: usize,
    call: impl Fn(usize) -> F,
) -> Vec<T> {
    let tasks: Vec<_> = (0..count)
        .map(|number| tokio::task::spawn_local(call(number)))
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.unwrap());
    }
    all
}

async fn gets(worker: &Rc<Worker>, endpoint: &Arc<Endpoint>, count: usize) -> Vec<String> {
    at_once(count, |number| {
        let (worker, endpoint) = (worker.clone(), endpoint.clone());
        async move {
            let got = get(&worker, &endpoint, &format!("/{number}")).await;
            String::from_utf8(got.unwrap().body).unwrap()
        }
    })
    .await
}

#[test]
fn many_requests_share_one_connection() {
    let fake = Fake::new(echo_paths);
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        for _ in 0..3 {
            let received = gets(&worker, &endpoint, 100).await;
            let expected: Vec<String> = (0..100).map(|number| format!("/{number}")).collect();
            assert_eq!(received, expected);
        }
        assert_eq!((fake.accepted(), Pool::of(&worker).shared()), (1, 1));
    });
}

/// Responses are never mixed up, in whatever order the upstream sends them.
#[test]
fn responses_arrive_in_any_order_and_interleaved() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[]);
        let ids: Vec<u32> = (0..5).map(|_| frames.request().unwrap().0).collect();
        for id in ids.iter().rev() {
            frames.head(*id, 0, &[(":status", "200"), ("x-id", &id.to_string())]);
        }
        for _ in 0..10 {
            for id in &ids {
                let part = id.to_string().repeat(1000);
                frames.send(DATA, 0, *id, part.as_bytes());
            }
        }
        for id in &ids {
            frames.send(DATA, END_STREAM, *id, b"");
        }
        while frames.next().is_some() {}
    });
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        let got = at_once(5, |_| {
            let (worker, endpoint) = (worker.clone(), endpoint.clone());
            async move { get(&worker, &endpoint, "/").await.unwrap() }
        })
        .await;
        for got in got {
            let id = String::from_utf8(got.head.fields.find_first(b"x-id").unwrap().to_vec());
            assert_eq!(got.body, id.unwrap().repeat(10_000).as_bytes());
        }
    });
}

#[test]
fn a_further_connection_is_made_when_one_is_full() {
    // No response is sent before there are three pairs: a stream that ends early would be reused.
    let pairs = std::sync::Barrier::new(3);
    let fake = Fake::new(move |socket| {
        let mut frames = Frames::begin(socket, &[(3, 2)]);
        while let Some((first, _, _)) = frames.request() {
            let Some((second, _, _)) = frames.request() else {
                return;
            };
            pairs.wait();
            frames.response(first, "first");
            frames.response(second, "second");
        }
    });
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        assert_eq!(gets(&worker, &endpoint, 6).await.len(), 6);
        assert_eq!(fake.accepted(), 3);
        assert_eq!(gets(&worker, &endpoint, 6).await.len(), 6);
        assert_eq!(fake.accepted(), 3, "they are used again");
    });
}

/// The stream's window bounds its unread data, and the connection's window that of all streams together.
#[test]
fn an_unread_response_stops_at_its_window() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[]);
        let (id, _, _) = frames.request().unwrap();
        frames.head(id, 0, &[(":status", "200")]);
        let mut window = 65_535_usize;
        while window > 0 {
            let count = window.min(16_384);
            frames.send(DATA, 0, id, &vec![b'x'; count]);
            window -= count;
        }
        // WINDOW_UPDATE is sent only once something was read.
        let more = frames.next().unwrap();
        assert_eq!((more.kind, more.id), (WINDOW_UPDATE, id));
        frames.send(DATA, END_STREAM, id, b"end");
        while frames.next().is_some() {}
    });
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        let asked = ask(&worker, &endpoint, Wanted::Any, "/", RequestBody::None);
        let (response, call) = asked.await.ok().unwrap();
        settle().await;
        let got = whole(&worker, response, call).await.unwrap();
        assert_eq!(got.body.len(), 65_535 + 3);
    });
}

/// The body is not read from the client faster than the upstream accepts it.
#[test]
fn a_body_goes_at_the_pace_of_the_upstreams_windows() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[(4, 1000)]);
        // Before SETTINGS arrive, a client may send 64 KiB.
        let (first, _, _) = frames.request().unwrap();
        frames.response(first, "");
        let (id, fields, ends) = frames.request().unwrap();
        assert!(!ends);
        assert!(
            fields
                .iter()
                .any(|(name, value)| (&**name, &**value) == (":method", "POST"))
        );
        let mut taken = 0;
        for _ in 0..20 {
            let frame = frames.next().unwrap();
            assert_eq!((frame.kind, frame.payload.len()), (DATA, 1000));
            taken += frame.payload.len();
            // A window at a time, slowly.
            thread::sleep(Duration::from_millis(2));
            frames.word(WINDOW_UPDATE, id, 1000);
        }
        frames.response(id, &taken.to_string());
        // The rest is not wanted any more.
        loop {
            let frame = frames.next().unwrap();
            if frame.kind == RST_STREAM {
                break;
            }
        }
    });
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        get(&worker, &endpoint, "/").await.unwrap();
        let body = Pieces::endless();
        let consumed = body.consumed.clone();
        let body = RequestBody::Stream(Box::new(body));
        let asked = ask(&worker, &endpoint, Wanted::Any, "/", body).await;
        let (response, call) = asked.ok().unwrap();
        let got = whole(&worker, response, call).await.unwrap();
        assert_eq!(got.body, b"20000");
        assert!(consumed.get() <= 22_000, "{}", consumed.get());
        settle().await;
    });
}

#[test]
fn bodies_trailers_and_interim_responses_pass_both_ways() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[]);
        let (id, _, _) = frames.request().unwrap();
        frames.head(id, 0, &[(":status", "103"), ("link", "</a>")]);
        let mut body = Vec::new();
        let trailers = loop {
            let frame = frames.next().unwrap();
            match frame.kind {
                DATA => body.extend_from_slice(&frame.payload),
                HEADERS => {
                    assert!(frame.ends());
                    break frames.fields(&frame);
                }
                _ => {}
            }
        };
        frames.head(id, 0, &[(":status", "200")]);
        frames.send(DATA, 0, id, &body);
        let (name, value) = &trailers[0];
        frames.head(id, END_STREAM, &[(name, value)]);
        while frames.next().is_some() {}
    });
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        let mut body = Pieces::new(&["one ", "", "two ", "three"]);
        let mut trailers = Fields::new();
        trailers.push_name(&sluice_message::FieldName::new("X-Sum").unwrap(), b"17");
        body.trailers = Some(trailers);
        let body = RequestBody::Stream(Box::new(body));
        let asked = ask(&worker, &endpoint, Wanted::Any, "/", body).await;
        let (response, call) = asked.ok().unwrap();
        let got = whole(&worker, response, call).await.unwrap();
        assert_eq!(got.body, b"one two three");
        let trailers = got.trailers.unwrap();
        assert_eq!(trailers.find_first(b"x-sum"), Some(&b"17"[..]));
    });
}

#[test]
fn a_body_waits_until_it_is_wanted() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[]);
        let (id, _, _) = frames.request().unwrap();
        // A body that does not wait would arrive meanwhile.
        thread::sleep(Duration::from_millis(30));
        frames.head(id, 0, &[(":status", "100")]);
        let frame = frames.next().unwrap();
        assert_eq!(frame.payload, b"wanted");
        frames.response(id, "thanks");
        while frames.next().is_some() {}
    });
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        let mut carrier = obtain(&worker, &endpoint, Wanted::Any, b"").await.unwrap();
        let framing = BodyFraming::Chunked;
        assert!(carrier.open(&head(Method::Post, "/"), framing));
        let body = Pieces::new(&["wanted"]);
        let consumed = body.consumed.clone();
        let body = RequestBody::Stream(Box::new(body));
        let upload = Upload::new(Vec::new(), framing, body);
        let upload = upload.expect_continue(&worker, Duration::from_secs(5));
        let mut call = Call::new(carrier, upload, None);
        let early = within(
            &worker,
            Duration::from_millis(10),
            call.response(&worker, &Method::Post),
        );
        assert!(early.await.is_none());
        assert_eq!(consumed.get(), 0);
        let response = call.response(&worker, &Method::Post).await.ok().unwrap();
        let got = whole(&worker, response, call).await.unwrap();
        assert_eq!(got.body, b"thanks");
    });
}

/// RFC 9113, section 8.7.
#[test]
fn unprocessed_requests_may_always_be_resent() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[]);
        let mut streams = 0;
        while let Some((id, fields, _)) = frames.request() {
            streams += 1;
            let path = &fields.iter().find(|(name, _)| name == ":path").unwrap().1;
            match path.as_str() {
                "/refuse" => frames.word(RST_STREAM, id, REFUSED),
                "/leave" => frames.goodbye(id - 2, 0),
                path => frames.response(id, &format!("{path}{streams}")),
            }
        }
    });
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        assert_eq!(get(&worker, &endpoint, "/a").await.unwrap().body, b"/a1");
        for (path, connections) in [("/refuse", 1), ("/leave", 1)] {
            let body = RequestBody::Stream(Box::new(Pieces::new(&["once"])));
            let asked = ask(&worker, &endpoint, Wanted::Any, path, body).await;
            let failed = asked.err().unwrap();
            let failure = &failed.failure;
            assert_eq!(
                (failure.side, failure.kind, failure.retry),
                (Side::Upstream, FailureKind::Closed, Retry::Always),
                "{path}"
            );
            assert_eq!(failed.origin, Origin::Kept);
            assert_eq!(fake.accepted(), connections);
        }
        // After GOAWAY, the next request uses another connection.
        assert_eq!(get(&worker, &endpoint, "/b").await.unwrap().body, b"/b1");
        assert_eq!(fake.accepted(), 2);
    });
}

#[test]
fn goaway_lets_responses_in_flight_finish() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[]);
        let (id, _, _) = frames.request().unwrap();
        frames.goodbye(id, 0);
        frames.head(id, 0, &[(":status", "200")]);
        // The goodbye is handled before the body arrives.
        thread::sleep(Duration::from_millis(30));
        frames.send(DATA, END_STREAM, id, b"whole");
        while frames.next().is_some() {}
    });
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        assert_eq!(get(&worker, &endpoint, "/").await.unwrap().body, b"whole");
        eventually(|| Pool::of(&worker).shared() == 0).await;
    });
}

#[test]
fn the_end_of_a_connection_ends_each_response_correctly() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[]);
        let (first, _, _) = frames.request().unwrap();
        frames.head(first, 0, &[(":status", "200")]);
        frames.send(DATA, 0, first, b"part");
        frames.request().unwrap();
    });
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        let asked = ask(&worker, &endpoint, Wanted::Any, "/", RequestBody::None).await;
        let (response, call) = asked.ok().unwrap();
        settle().await;
        let second = ask(&worker, &endpoint, Wanted::Any, "/", RequestBody::None).await;
        let failed = second.err().unwrap();
        assert_eq!(failed.failure.kind, FailureKind::Closed);
        assert_eq!(failed.failure.retry, Retry::IfIdempotent, "it was sent");
        assert_eq!(
            (failed.origin, failed.heard),
            (Origin::Kept, Heard::Nothing)
        );
        let failure = whole(&worker, response, call).await.err().unwrap();
        assert_eq!(
            (failure.side, failure.kind),
            (Side::Upstream, FailureKind::Closed)
        );
        assert_eq!(Pool::of(&worker).shared(), 0);
    });
}

#[test]
fn a_call_that_is_given_up_cancels_its_stream_only() {
    let cancelled = Arc::new(Mutex::new(Vec::new()));
    let seen = cancelled.clone();
    let fake = Fake::new(move |socket| {
        let mut frames = Frames::begin(socket, &[]);
        while let Some(frame) = frames.next() {
            match frame.kind {
                HEADERS => {
                    let fields = frames.fields(&frame);
                    if fields.iter().any(|(_, value)| value == "/kept") {
                        frames.response(frame.id, "kept");
                    }
                }
                RST_STREAM => seen.lock().unwrap().push(frame.word()),
                _ => {}
            }
        }
    });
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        assert_eq!(
            get(&worker, &endpoint, "/kept").await.unwrap().body,
            b"kept"
        );
        for _ in 0..3 {
            let asked = ask(&worker, &endpoint, Wanted::Any, "/", RequestBody::None);
            assert!(
                within(&worker, Duration::from_millis(20), asked)
                    .await
                    .is_none()
            );
        }
        assert_eq!(
            get(&worker, &endpoint, "/kept").await.unwrap().body,
            b"kept"
        );
        eventually(|| cancelled.lock().unwrap().len() == 3).await;
        assert_eq!(*cancelled.lock().unwrap(), [CANCEL; 3]);
        assert_eq!(fake.accepted(), 1);
    });
}

/// A connection on which a response timed out is not used again: it may be dead.
#[test]
fn silence_ends_a_call_and_its_connection_gets_no_more() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[]);
        while let Some((id, fields, _)) = frames.request() {
            if fields.iter().any(|(_, value)| value == "/told") {
                frames.response(id, "told");
            }
        }
    });
    on_worker(|worker| async move {
        let timeouts = Timeouts {
            response: Some(Duration::from_secs(1)),
            ..Timeouts::default()
        };
        let endpoint = prior_with(
            &fake,
            Options {
                timeouts,
                ..Options::default()
            },
        );
        assert_eq!(
            get(&worker, &endpoint, "/told").await.unwrap().body,
            b"told"
        );
        let failure = get(&worker, &endpoint, "/silent").await.err().unwrap();
        assert_eq!(
            (failure.side, failure.kind),
            (Side::Upstream, FailureKind::Timeout)
        );
        assert_eq!(
            get(&worker, &endpoint, "/told").await.unwrap().body,
            b"told"
        );
        assert_eq!(fake.accepted(), 2);
    });
}

#[test]
fn an_idle_connection_ends_with_goaway() {
    let (received, heard) = std::sync::mpsc::channel();
    let received = Mutex::new(received);
    let fake = Fake::new(move |socket| {
        let mut frames = Frames::begin(socket, &[]);
        let (id, _, _) = frames.request().unwrap();
        frames.response(id, "");
        let last = frames.next().unwrap();
        assert!(frames.next().is_none());
        received.lock().unwrap().send(last.kind).unwrap();
    });
    on_worker(|worker| async move {
        let keep_alive = KeepAlive::Keep {
            idle_timeout: Duration::from_millis(50),
            idle_max: 1,
        };
        let endpoint = prior_with(
            &fake,
            Options {
                keep_alive,
                ..Options::default()
            },
        );
        get(&worker, &endpoint, "/").await.unwrap();
        assert_eq!(Pool::of(&worker).shared(), 1);
        eventually(|| Pool::of(&worker).shared() == 0).await;
        assert_eq!(heard.recv().unwrap(), GOAWAY);
    });
}

#[test]
fn without_keep_alive_each_call_opens_a_connection() {
    let fake = Fake::new(echo_paths);
    on_worker(|worker| async move {
        let keep_alive = KeepAlive::Off;
        let endpoint = prior_with(
            &fake,
            Options {
                keep_alive,
                ..Options::default()
            },
        );
        for count in 1..4 {
            let asked = ask(&worker, &endpoint, Wanted::Fresh, "/a", RequestBody::None);
            let (response, call) = asked.await.ok().unwrap();
            assert_eq!(whole(&worker, response, call).await.unwrap().body, b"/a");
            assert_eq!(fake.accepted(), count);
        }
        assert_eq!(Pool::of(&worker).shared(), 0);
    });
}

/// Health checks, which are repeated for ever, must not leave connections behind.
#[test]
fn a_connection_of_ones_own_is_closed_after_its_call() {
    let fake = Fake::new(echo_paths);
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        for count in 1..4 {
            let asked = ask(&worker, &endpoint, Wanted::Own, "/a", RequestBody::None);
            let (response, call) = asked.await.ok().unwrap();
            assert_eq!(Pool::of(&worker).shared(), 0);
            assert_eq!(whole(&worker, response, call).await.unwrap().body, b"/a");
            assert_eq!(fake.accepted(), count);
        }
    });
}

#[test]
fn no_more_idle_connections_are_kept_than_configured() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[(3, 1)]);
        while let Some((id, _, _)) = frames.request() {
            // The calls overlap.
            thread::sleep(Duration::from_millis(50));
            frames.response(id, "");
        }
    });
    on_worker(|worker| async move {
        let keep_alive = KeepAlive::Keep {
            idle_timeout: Duration::from_secs(60),
            idle_max: 2,
        };
        let endpoint = prior_with(
            &fake,
            Options {
                keep_alive,
                ..Options::default()
            },
        );
        gets(&worker, &endpoint, 5).await;
        assert_eq!(fake.accepted(), 5);
        assert_eq!(Pool::of(&worker).shared(), 2);
    });
}

#[test]
fn an_upstream_that_takes_no_body_or_stops_in_its_own_has_its_time() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[(4, 10)]);
        while let Some((id, fields, _)) = frames.request() {
            if fields.iter().any(|(_, value)| value == "/half") {
                frames.head(id, 0, &[(":status", "200")]);
                frames.send(DATA, 0, id, b"half");
            }
        }
    });
    on_worker(|worker| async move {
        let timeouts = Timeouts {
            read: Some(Duration::from_millis(100)),
            write: Some(Duration::from_millis(100)),
            ..Timeouts::default()
        };
        let endpoint = prior_with(
            &fake,
            Options {
                timeouts,
                ..Options::default()
            },
        );
        let asked = ask(&worker, &endpoint, Wanted::Any, "/half", RequestBody::None);
        let (response, call) = asked.await.ok().unwrap();
        let failure = whole(&worker, response, call).await.err().unwrap();
        let of = |failure: &Failure| (failure.side, failure.kind);
        assert_eq!(of(&failure), (Side::Upstream, FailureKind::Timeout));
        let body = RequestBody::Stream(Box::new(Pieces::endless()));
        let asked = ask(&worker, &endpoint, Wanted::Any, "/", body).await;
        let failure = asked.err().unwrap().failure;
        assert_eq!(of(&failure), (Side::Upstream, FailureKind::Timeout));
    });
}

/// Support for shared connections must not enlarge calls on exclusive ones.
#[test]
fn a_call_of_its_own_is_as_small_as_ever() {
    assert_eq!(size_of::<Call>(), size_of::<LinkCall>());
    assert_eq!(size_of::<Carrier>(), size_of::<Link>());
    let (call, link) = (size_of::<LinkCall>(), size_of::<Link>());
    assert!(call <= CALL_BYTES_MAX, "{call} bytes");
    assert!(link <= LINK_BYTES_MAX, "{link} bytes");
}

#[test]
fn connections_are_limited_and_calls_wait_for_room() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[(3, 1)]);
        while let Some((id, _, _)) = frames.request() {
            // The calls overlap.
            thread::sleep(Duration::from_millis(5));
            frames.response(id, "one by one");
        }
    });
    on_worker(|worker| async move {
        let endpoint = prior_with(
            &fake,
            Options {
                busy_max: Some(1),
                ..Options::default()
            },
        );
        let received = gets(&worker, &endpoint, 20).await;
        assert!(received.iter().all(|body| body == "one by one"));
        assert_eq!(fake.accepted(), 1);
    });
}

#[test]
fn the_failure_of_one_dial_fails_all_requests_waiting_for_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    on_worker(|worker| async move {
        let options = Options {
            protocol: Protocol::Http2,
            ..Options::default()
        };
        let endpoint = Arc::new(Endpoint::new(Address::Ip(address), options));
        let failures = at_once(50, |_| {
            let (worker, endpoint) = (worker.clone(), endpoint.clone());
            async move { get(&worker, &endpoint, "/").await.err().unwrap() }
        });
        for failure in failures.await {
            assert_eq!(
                (failure.kind, failure.retry),
                (FailureKind::Dial, Retry::Always)
            );
        }
    });
}

/// Upstreams that do not speak HTTP/2, or violate it.
#[test]
fn hostile_upstreams_are_a_protocol_error_and_nothing_more() {
    let floods: [Flood; 9] = [
        ("pings", |frames, _| frames.send(PING, 0, 0, &[0; 8])),
        ("settings", |frames, _| frames.send(SETTINGS, 0, 0, &[])),
        ("empty frames", |frames, id| frames.send(DATA, 0, id, &[])),
        ("windows", |frames, id| frames.word(WINDOW_UPDATE, id, 1)),
        ("unknown frames", |frames, _| frames.send(99, 0, 0, &[])),
        ("interim answers", |frames, id| {
            frames.head(id, 0, &[(":status", "103")]);
        }),
        ("a head without end", |frames, id| {
            frames.send(HEADERS, 0, id, &[]);
            let continuation = [0, 0, 1, 9, 0, 0, 0, 0, id as u8, 0x80];
            (0..1000).for_each(|_| frames.write(&continuation));
        }),
        ("a bomb of indexed fields", |frames, id| {
            // One long header for the HPACK table, then a reference to it in each byte.
            let mut block = vec![0x40, 1, b'a', 127, 0x81, 0x1e];
            block.extend_from_slice(&[b'x'; 4000]);
            block.extend_from_slice(&[0xbe; 12_000]);
            frames.send(HEADERS, END_HEADERS, id, &block);
        }),
        ("pushes", |frames, id| {
            frames.send(5, END_HEADERS, id, &[0, 0, 0, 2])
        }),
    ];
    for (what, flood) in floods {
        let fake = Fake::new(move |socket| {
            socket
                .set_write_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            let mut frames = Frames::begin(socket, &[]);
            let (id, _, _) = frames.request().unwrap();
            if what == "empty frames" {
                frames.head(id, 0, &[(":status", "200")]);
            }
            // Floods of small frames are ended by the budget, those of large ones immediately.
            let rounds = if what.starts_with("a ") { 1 } else { 1000 };
            for _ in 0..20 {
                frames.at_once(|frames| (0..rounds).for_each(|_| flood(frames, id)));
            }
            if rounds > 1 {
                // Closing now might discard what was sent before it is read.
                let _ = frames.socket.read_to_end(&mut Vec::new());
            }
        });
        on_worker(|worker| async move {
            let failure = get(&worker, &prior(&fake), "/").await.err();
            let failure = failure.unwrap_or_else(|| panic!("{what} are survived"));
            assert_eq!(
                (failure.side, failure.kind),
                (Side::Upstream, FailureKind::Protocol),
                "{what}"
            );
            // A flood on one stream turns into one on the connection once that stream is over.
            while Pool::of(&worker).shared() > 0 {
                settle().await;
            }
        });
    }
}

#[test]
fn non_http2_is_refused() {
    for (bytes, kind) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
            FailureKind::Protocol,
        ),
        (&b"\0\0\0\x06\0\0\0\0\0"[..], FailureKind::Protocol),
        (&b""[..], FailureKind::Closed),
    ] {
        let fake = Fake::new(move |mut socket| {
            let _ = socket.read(&mut [0; 1024]);
            let _ = socket.write_all(bytes);
        });
        on_worker(|worker| async move {
            let failure = get(&worker, &prior(&fake), "/").await.err().unwrap();
            assert_eq!(
                (failure.side, failure.kind),
                (Side::Upstream, kind),
                "{bytes:?}"
            );
        });
    }
}

/// Other calls need not wait long for a connection that never sends SETTINGS.
#[test]
fn an_upstream_that_says_nothing_is_given_up_with_the_time_for_dialling() {
    let fake = Fake::new(|mut socket| {
        let _ = socket.read_to_end(&mut Vec::new());
    });
    on_worker(|worker| async move {
        let timeouts = Timeouts {
            dial: Duration::from_millis(100),
            ..Timeouts::default()
        };
        let endpoint = prior_with(
            &fake,
            Options {
                timeouts,
                ..Options::default()
            },
        );
        let failure = get(&worker, &endpoint, "/").await.err().unwrap();
        assert_eq!(
            (failure.side, failure.kind),
            (Side::Upstream, FailureKind::Closed)
        );
    });
}

fn negotiated(fake: &Fake, trust: sluice_net::tls::ServerTrust) -> Arc<Endpoint> {
    let connector = Connector::new(ConnectorOptions {
        trust,
        alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        ..ConnectorOptions::default()
    });
    fake.endpoint_with(Options {
        protocol: Protocol::Negotiated,
        tls: Some(Arc::new(connector.unwrap())),
        ..Options::default()
    })
}

#[test]
fn the_handshake_chooses_the_version() {
    let (new, trust) = secured_offering(&[b"h2", b"http/1.1"], |mut socket| {
        while socket.conn.is_handshaking() {
            if socket.conn.complete_io(&mut socket.sock).is_err() {
                return;
            }
        }
        match socket.conn.alpn_protocol() {
            Some(b"h2") => echo_paths(socket),
            _ => echo_heads(socket),
        }
    });
    on_worker(|worker| async move {
        let endpoint = negotiated(&new, trust);
        assert_eq!(gets(&worker, &endpoint, 20).await[7], "/7");
        assert_eq!((new.accepted(), Pool::of(&worker).shared()), (1, 1));
        // Requests that switch protocols use HTTP/1.1.
        let switching = Arc::new(endpoint.in_http1());
        let got = get(&worker, &switching, "/ws").await.unwrap();
        assert!(got.body.starts_with(b"GET /ws HTTP/1.1\r\n"));
        assert_eq!(new.accepted(), 2);
    });
    for offer in [&[b"http/1.1".as_slice()][..], &[]] {
        let (old, trust) = secured_offering(offer, echo_heads);
        on_worker(|worker| async move {
            let endpoint = negotiated(&old, trust);
            let received = gets(&worker, &endpoint, 5).await;
            assert!(received[3].starts_with("GET /3 HTTP/1.1\r\n"));
            let accepted = old.accepted();
            for _ in 0..3 {
                settle().await;
                get(&worker, &endpoint, "/").await.unwrap();
            }
            assert_eq!(old.accepted(), accepted, "its connections are kept as ever");
        });
    }
}

/// Responds to each HTTP/1.1 request with its head.
fn echo_heads(mut socket: impl Read + Write) {
    while let Some(head) = read_head(&mut socket) {
        let length = head.len();
        write!(
            socket,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{head}"
        )
        .unwrap();
        socket.flush().unwrap();
    }
}

#[test]
fn waiting_for_a_body_holds_no_buffer_and_wakes_once_it_comes() {
    let fake = Fake::new(|socket| {
        let mut frames = Frames::begin(socket, &[]);
        let (id, _, _) = frames.request().unwrap();
        frames.head(id, 0, &[(":status", "200")]);
        for _ in 0..5 {
            // The client waits for each piece.
            thread::sleep(Duration::from_millis(20));
            frames.send(DATA, 0, id, b"tick");
        }
        frames.send(DATA, END_STREAM, id, b"");
        while frames.next().is_some() {}
    });
    on_worker(|worker| async move {
        let endpoint = prior(&fake);
        let asked = ask(&worker, &endpoint, Wanted::Any, "/", RequestBody::None).await;
        let (response, call) = asked.ok().unwrap();
        let mut inline = Vec::new();
        let Ok(Body::Stream(mut body)) = call.into_body(&worker, response.framing, &mut inline)
        else {
            panic!("the body is still to come");
        };
        let first = poll_fn(|cx| body.poll_data(cx).map(|data| data.unwrap().to_vec())).await;
        assert!(first.starts_with(b"tick"));
        body.consume(first.len());
        let mut all = first;
        read_all(&mut *body, &mut all).await.unwrap();
        assert_eq!(all, b"tick".repeat(5));
    });
}
