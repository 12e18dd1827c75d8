//! The client state machine: what servers may and may not send, by the sections of RFC 9113.

use sluice_message::{FieldId, Fields, Method, RequestHead, ResponseHead};
use sluice_wire::h1::BodyFraming;
use sluice_wire::h2::hpack::Decoder;
use sluice_wire::h2::{
    Client, ClientEvent, Closed, End, ErrorCode, FrameKind, Limits, OpenRefused, Reason, StreamId,
};

use crate::feed_h2::*;

fn request(method: &str) -> RequestHead {
    let mut head = RequestHead {
        method: Method::from_token(method.as_bytes()).expect("a token"),
        ..RequestHead::default()
    };
    head.uri.set(b"/x?y");
    head.set_authority(b"a.example:8080");
    head
}

/// A client that has sent a request, and the events that its owner received.
struct Asking {
    client: Client,
    ids: Vec<StreamId>,
    events: Vec<String>,
    over: Option<Closed>,
}

impl Asking {
    fn new(methods: &[&str]) -> Asking {
        let mut client = Client::new(&Limits::DEFAULT);
        let ids = methods.iter().map(|method| {
            client
                .open(&request(method), true, BodyFraming::None, End::Here)
                .expect("a stream is free")
        });
        let ids = ids.collect();
        client.output().clear();
        let mut asking = Asking {
            client,
            ids,
            events: Vec::new(),
            over: None,
        };
        asking.send(&settings(&[]));
        asking.sent();
        asking.events.clear();
        asking
    }

    fn send(&mut self, bytes: &[u8]) {
        let (mut rest, mut head) = (bytes, ResponseHead::default());
        while self.over.is_none() {
            match self.client.receive(rest, &mut head) {
                Err(closed) => self.over = Some(closed),
                Ok(received) => {
                    rest = &rest[received.consumed..];
                    match received.event {
                        None => break,
                        Some(ClientEvent::Head { id, end, body }) => self.events.push(format!(
                            "{} head {} {body:?}{}{}",
                            id.number(),
                            head.status.code(),
                            fields_text(&head.fields),
                            if end.is_here() { " end" } else { "" }
                        )),
                        Some(ClientEvent::Interim { id }) => self.events.push(format!(
                            "{} interim {}{}",
                            id.number(),
                            head.status.code(),
                            fields_text(&head.fields)
                        )),
                        Some(ClientEvent::Data { id, data, end }) => {
                            let end = if end.is_here() { " end" } else { "" };
                            self.events
                                .push(format!("{} data {}{end}", id.number(), text(data)));
                        }
                        Some(ClientEvent::Trailers { id, fields }) => self.events.push(format!(
                            "{} trailers{}",
                            id.number(),
                            fields_text(&fields)
                        )),
                        Some(ClientEvent::Reset {
                            id,
                            code,
                            by,
                            fault,
                        }) => {
                            let id = id.number();
                            self.events
                                .push(format!("{id} reset {code} by {by:?} {fault:?}"));
                        }
                        Some(event) => self.events.push(format!("{event:?}")),
                    }
                }
            }
        }
    }

    fn sent(&mut self) -> Vec<String> {
        let out = std::mem::take(self.client.output());
        describe(&out, &mut Decoder::new(4096))
    }
}

fn events(methods: &[&str], frames: &[Vec<u8>]) -> Vec<String> {
    let mut asking = Asking::new(methods);
    asking.send(&frames.concat());
    assert_eq!(asking.over, None);
    asking.events
}

fn fails(frames: &[Vec<u8>]) -> Option<Reason> {
    let mut asking = Asking::new(&["GET"]);
    asking.send(&frames.concat());
    asking.over.map(|closed| closed.reason)
}

#[test]
fn requests_are_written_as_http2_has_them() {
    let mut client = Client::new(&Limits::DEFAULT);
    let mut head = request("POST");
    for (name, value) in [
        ("Host", "b.example"),
        ("Connection", "close, x-a"),
        ("Transfer-Encoding", "chunked"),
        ("Keep-Alive", "1"),
        ("Upgrade", "h2c"),
        ("TE", "gzip, Trailers"),
        ("Content-Length", "99"),
        ("X-A", "1"),
        ("Cookie", "a=b; c=d"),
    ] {
        let id = FieldId::of(name.as_bytes());
        head.fields.push_raw(id, name.as_bytes(), value.as_bytes());
    }
    let open = |client: &mut Client, head: &RequestHead, framing, end| {
        client.open(head, false, framing, end).unwrap()
    };
    let id = open(&mut client, &head, BodyFraming::Length(3), End::Later);
    assert_eq!(client.send_data(id, b"abc", End::Here), Ok(3));
    open(
        &mut client,
        &request("CONNECT"),
        BodyFraming::Chunked,
        End::Later,
    );
    let id = open(
        &mut client,
        &request("PUT"),
        BodyFraming::Chunked,
        End::Later,
    );
    let mut trailers = Fields::new();
    trailers.push_raw(FieldId::Other, b"X-Sum", b"1");
    client.send_trailers(id, &trailers).unwrap();
    let out = std::mem::take(client.output());
    assert_eq!(
        describe(&out, &mut Decoder::new(4096)),
        [
            "SETTINGS 2",
            "WINDOW_UPDATE 0 983041",
            "HEADERS 1 [:method: POST] [:scheme: http] [:authority: b.example] [:path: /x?y] [x-a: 1] \
             [cookie: a=b; c=d] [te: trailers] [content-length: 3]",
            "DATA 1 3 end",
            "HEADERS 3 [:method: CONNECT] [:authority: a.example:8080]",
            "HEADERS 5 [:method: PUT] [:scheme: http] [:authority: a.example:8080] [:path: /x?y]",
            "HEADERS 5 end [x-sum: 1]",
        ]
    );
}

#[test]
fn responses_become_events() {
    let lines = events(
        &["GET", "HEAD"],
        &[
            headers(1, 0, &[(":status", "103"), ("link", "</a>")]),
            headers(
                1,
                0,
                &[
                    (":status", "200"),
                    ("content-length", "3"),
                    ("set-cookie", "a"),
                ],
            ),
            data(1, 0, b"ab"),
            headers(
                3,
                END_STREAM,
                &[(":status", "200"), ("content-length", "9")],
            ),
            data(1, 0, b"c"),
            headers(1, END_STREAM, &[("grpc-status", "0")]),
        ],
    );
    assert_eq!(
        lines,
        [
            "1 interim 103 [link: </a>]",
            "1 head 200 Length(3) [content-length: 3] [set-cookie: a]",
            "1 data ab",
            "3 head 200 None [content-length: 9] end",
            "1 data c",
            "1 trailers [grpc-status: 0]",
        ]
    );
}

/// Sections 8.1, 8.1.1 and 8.3.2.
#[test]
fn malformed_responses_are_reset() {
    for (fields, fault) in [
        (vec![("x", "y")], "PseudoMissing"),
        (
            vec![(":status", "200"), (":status", "200")],
            "PseudoRepeated",
        ),
        (vec![("x", "y"), (":status", "200")], "PseudoLate"),
        (vec![(":status", "200"), (":path", "/")], "PseudoUnknown"),
        (vec![(":status", "20")], "Status"),
        (vec![(":status", "099")], "Status"),
        (vec![(":status", "+20")], "Status"),
        (vec![(":status", "101")], "Status"),
        (
            vec![(":status", "200"), ("connection", "close")],
            "ConnectionField",
        ),
        (vec![(":status", "200"), ("X", "y")], "NameByte"),
        (vec![(":status", "200"), ("x", "a\nb")], "ValueByte"),
        (
            vec![(":status", "200"), ("content-length", "1, 1")],
            "Length",
        ),
    ] {
        let mut asking = Asking::new(&["GET"]);
        asking.send(&headers(1, 0, &fields));
        assert_eq!(
            asking.events,
            [format!("1 reset PROTOCOL_ERROR by Us Some({fault})")]
        );
        assert_eq!(asking.sent(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
        assert_eq!(asking.over, None);
    }
}

#[test]
fn responses_of_another_form_or_length_are_reset() {
    let last = |methods: &[&str], frames: &[Vec<u8>]| events(methods, frames).pop().unwrap();
    let ended = headers(
        1,
        END_STREAM,
        &[(":status", "200"), ("content-length", "1")],
    );
    assert_eq!(
        last(&["GET"], &[ended]),
        "1 reset PROTOCOL_ERROR by Us Some(LengthUnmet)"
    );
    let interim = headers(1, END_STREAM, &[(":status", "100")]);
    assert_eq!(
        last(&["GET"], &[interim]),
        "1 reset PROTOCOL_ERROR by Us Some(Status)"
    );
    let reset = "1 reset PROTOCOL_ERROR by Us None";
    let ok = || headers(1, 0, &[(":status", "200")]);
    let long = headers(1, 0, &[(":status", "200"), ("content-length", "2")]);
    let empty = headers(1, 0, &[(":status", "304")]);
    for (methods, frames) in [
        (["GET"], vec![data(1, 0, b"x")]),
        (["GET"], vec![long.clone(), data(1, END_STREAM, b"x")]),
        (["GET"], vec![long, data(1, 0, b"xyz")]),
        (["GET"], vec![ok(), headers(1, 0, &[("x", "y")])]),
        (["GET"], vec![ok(), ok()]),
        (["HEAD"], vec![ok(), data(1, 0, b"x")]),
        (["GET"], vec![empty, data(1, 0, b"x")]),
    ] {
        assert_eq!(last(&methods, &frames), reset, "{frames:?}");
    }
    assert_eq!(
        last(
            &["GET"],
            &[
                headers(1, END_STREAM, &[(":status", "200")]),
                data(1, 0, b"x")
            ]
        ),
        "1 reset STREAM_CLOSED by Us None"
    );
}

/// Sections 3.4, 5.1, 5.1.1 and 8.4.
#[test]
fn faulty_servers_end_the_connection() {
    for (frames, reason) in [
        (
            vec![headers(3, 0, &[(":status", "200")])],
            Reason::StreamIdle,
        ),
        (
            vec![headers(2, 0, &[(":status", "200")])],
            Reason::StreamIdle,
        ),
        (vec![data(5, 0, b"x")], Reason::StreamIdle),
        (vec![reset(3, ErrorCode::CANCEL)], Reason::StreamIdle),
        (
            vec![frame(FrameKind::PUSH_PROMISE, 4, 1, b"\0\0\0\x02")],
            Reason::FrameUnexpected,
        ),
        (vec![settings(&[(2, 1)])], Reason::SettingValue),
        (
            vec![frame(FrameKind::HEADERS, 4, 1, &[0xc0])],
            Reason::Compression,
        ),
    ] {
        assert_eq!(fails(&frames), Some(reason), "{frames:?}");
    }
    let mut client = Client::new(&Limits::DEFAULT);
    let received = client.receive(
        b"HTTP/1.1 400 Bad Request\r\n",
        &mut ResponseHead::default(),
    );
    assert_eq!(received.unwrap_err().reason, Reason::SettingsMissing);
}

#[test]
fn no_more_streams_are_opened_than_the_server_takes() {
    let mut asking = Asking::new(&["GET"]);
    assert_eq!(asking.client.streams_free(), 127);
    asking.send(&settings(&[(3, 2)]));
    assert_eq!(asking.events, ["Settings"]);
    assert_eq!(asking.client.streams_free(), 1);
    let open =
        |client: &mut Client| client.open(&request("GET"), true, BodyFraming::None, End::Here);
    assert!(open(&mut asking.client).is_ok());
    assert_eq!(open(&mut asking.client), Err(OpenRefused::Full));
    // A stream counts until it is released.
    asking.send(&reset(1, ErrorCode::REFUSED_STREAM));
    assert_eq!(asking.events[1], "1 reset REFUSED_STREAM by Peer None");
    assert_eq!(asking.client.streams_free(), 0);
    let first = asking.ids[0];
    asking.client.release(first);
    assert_eq!(asking.client.streams_free(), 1);
    asking.send(&settings(&[(3, 0)]));
    assert_eq!(open(&mut asking.client), Err(OpenRefused::Full));
    asking.client.drain();
    assert_eq!(open(&mut asking.client), Err(OpenRefused::Closing));
    assert_eq!(asking.sent().last().unwrap(), "GOAWAY 0 NO_ERROR");
}

/// A request that nobody waits for any more.
#[test]
fn released_requests_are_cancelled() {
    let mut asking = Asking::new(&["GET"]);
    let id = asking.ids[0];
    asking.send(&headers(1, 0, &[(":status", "200")]));
    asking.client.release(id);
    assert_eq!(asking.sent(), ["RST_STREAM 1 CANCEL"]);
    asking.send(&data(1, END_STREAM, b"late"));
    assert_eq!((asking.over, asking.events.len()), (None, 1));
}

/// A server that floods the client with resets, pings or interim responses does not keep it busy.
#[test]
fn floods_end_the_connection() {
    for flood in [
        headers(1, 0, &[(":status", "103")]),
        frame(FrameKind::PING, 0, 0, b"12345678"),
        settings(&[(3, 5)]),
        data(1, 0, b""),
    ] {
        let mut asking = Asking::new(&["GET"]);
        if flood[3] == 0 {
            asking.send(&headers(1, 0, &[(":status", "200")]));
        }
        for _ in 0..10_000 {
            asking.send(&flood);
            asking.client.output().clear();
            asking.events.clear();
        }
        assert_eq!(asking.over.unwrap().reason, Reason::Glitches);
    }
}

#[test]
fn cuts_do_not_matter() {
    let bytes = [
        settings(&[(3, 100)]),
        headers(1, 0, &[(":status", "103"), ("link", "</a>")]),
        headers(1, 0, &[(":status", "200"), ("content-length", "3")]),
        data(1, PADDED, b"\x02ab\0\0"),
        headers(
            3,
            END_STREAM,
            &[(":status", "404"), ("content-length", "9")],
        ),
        headers(5, 0, &[(":status", "200")]),
        window_update(0, 5),
        data(5, 0, b"tunnel"),
        data(1, 0, b"c"),
        headers(1, END_STREAM, &[("x-sum", "0")]),
        reset(5, ErrorCode::CANCEL),
        frame(FrameKind::GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0"),
    ]
    .concat();
    for at in 0..bytes.len() {
        let (a, b) = bytes.split_at(at);
        assert_eq!(client_transcript(&[a, b]), client_transcript(&[&bytes]));
        check_client(a);
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        check_client(&changed);
    }
}
