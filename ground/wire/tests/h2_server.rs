//! The server state machine: each rule of RFC 9113, by its section, and the operations of the owner.

use sluice_message::{FieldId, Fields, Status};
use sluice_wire::h1::{BodyFraming, TargetBytes};
use sluice_wire::h2::{End, ErrorCode, FirstFrame, FrameKind, Limits, PREFACE, Reason, StreamGone};

use crate::feed_h2::*;

/// What a sequence of frames ends with, if it ends the connection.
fn fails(frames: &[Vec<u8>]) -> Option<Reason> {
    let mut session = Session::new();
    session.send(&frames.concat());
    let sent = session.sent();
    let closed = session.over?;
    assert_eq!(closed.code, closed.reason.code());
    let last = sent.last().expect("the client is told");
    assert!(
        last.starts_with("GOAWAY") && last.ends_with(&closed.code.to_string()),
        "{last}"
    );
    // Nothing goes on after that.
    let mut head = Default::default();
    assert_eq!(
        session.server.receive(&get(99), &mut head).err(),
        Some(closed)
    );
    Some(closed.reason)
}

/// What a sequence of frames makes us say and tell while the connection goes on.
fn lives(frames: &[Vec<u8>]) -> (Vec<String>, Vec<String>) {
    let mut session = Session::new();
    session.send(&frames.concat());
    assert_eq!(session.over, None);
    (session.sent(), session.events())
}

/// The last stream reset, while the connection still works.
fn resets(frames: &[Vec<u8>]) -> String {
    let mut session = Session::new();
    session.send(&frames.concat());
    let sent = session.sent();
    session.send(&frame(FrameKind::PING, 0, 0, b"12345678"));
    assert_eq!(session.sent(), ["PING ack 12345678"]);
    let found = sent.iter().rfind(|line| line.starts_with("RST_STREAM"));
    found.unwrap_or_else(|| panic!("{sent:?}")).clone()
}

/// How a request with these fields is refused. Its stream is reset once its owner has let go of it.
fn refused(flags: u8, fields: &[(&str, &str)]) -> (String, String) {
    let mut session = Session::new();
    session.send(&headers(1, flags, fields));
    let events = session.events();
    assert!(events[0].starts_with("1 refused "), "{events:?}");
    assert!(session.sent().is_empty());
    session.release(1);
    let sent = session.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(session.over, None);
    (events[0]["1 refused ".len()..].to_string(), sent[0].clone())
}

#[test]
fn requests_become_events_and_get_responses() {
    let mut session = Session::bare(&Limits::SERVER);
    session.send(PREFACE);
    session.send(&settings(&[]));
    assert_eq!(
        session.sent(),
        ["SETTINGS 4", "WINDOW_UPDATE 0 196609", "SETTINGS ack"]
    );
    session.send(&get(1));
    assert_eq!(
        session.events(),
        ["1 head GET / [host: a.example] end None None No u=3 i=true"]
    );
    session.response(1);
    assert_eq!(
        session.sent(),
        ["HEADERS 1 end [:status: 200] [date: Sun, 22 Nov 2026 04:00:00 GMT] [content-length: 0]"]
    );
    assert_eq!(session.server.open_streams(), 0);
}

#[test]
fn content_and_trailers_go_both_ways() {
    let mut session = Session::new();
    session.send(&post(
        1,
        &[("content-length", "6"), ("expect", "100-continue")],
    ));
    session.send(&data(1, 0, b"abc"));
    session.send(&data(1, 0, b"def"));
    session.send(&headers(
        1,
        END_STREAM,
        &[("x-sum", "1"), ("content-length", "6")],
    ));
    assert_eq!(
        session.events(),
        [
            "1 head POST /p [host: a.example] [content-length: 6] [expect: 100-continue] Length(6) Continue No \
             u=3 i=true",
            "1 data abcdef",
            "1 trailers [x-sum: 1]",
        ]
    );
    let id = session.id(1);
    let mut fields = Fields::new();
    session
        .server
        .send_interim(id, Status::CONTINUE, &fields)
        .unwrap();
    fields.push(FieldId::Link, b"</a>");
    session
        .server
        .send_interim(id, Status::EARLY_HINTS, &fields)
        .unwrap();
    session.begin_response(1, BodyFraming::Chunked);
    assert_eq!(session.server.send_data(id, b"hello", End::Later), Ok(5));
    let mut trailers = Fields::new();
    trailers.push_raw(FieldId::Other, b"Grpc-Status", b"0");
    trailers.push(FieldId::SetCookie, b"never");
    session.server.send_trailers(id, &trailers).unwrap();
    session.release(1);
    assert_eq!(
        session.sent(),
        [
            "HEADERS 1 [:status: 100]",
            "HEADERS 1 [:status: 103] [link: </a>]",
            "HEADERS 1 [:status: 200] [date: Sun, 22 Nov 2026 04:00:00 GMT]",
            "DATA 1 5",
            "HEADERS 1 end [grpc-status: 0]",
        ]
    );
}

/// Section 3.4.
#[test]
fn the_preface_and_settings_come_first() {
    for (bytes, reason) in [
        (&b"GET / HTTP/1.1\r\n"[..], Reason::Preface),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", Reason::Preface),
    ] {
        let mut session = Session::bare(&Limits::SERVER);
        session.send(bytes);
        assert_eq!(session.over.unwrap().reason, reason);
    }
    for first in [get(1), frame(FrameKind::SETTINGS, ACK, 0, b"")] {
        let mut session = Session::bare(&Limits::SERVER);
        session.send(PREFACE);
        session.send(&first);
        assert_eq!(session.over.unwrap().reason, Reason::SettingsMissing);
    }
}

/// Clients that send SETTINGS late or never are served where the limits allow it; the preface is needed in any case.
#[test]
fn settings_may_come_late_where_asked() {
    let limits = Limits {
        first_frame: FirstFrame::Any,
        ..Limits::SERVER
    };
    let settings = frame(FrameKind::SETTINGS, 0, 0, b"");
    for first in [
        vec![get(1), settings.clone()],
        vec![get(1)],
        vec![frame(FrameKind::PING, 0, 0, b"12345678"), get(1)],
        vec![
            frame(FrameKind::WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]),
            settings.clone(),
            get(1),
        ],
    ] {
        let mut session = Session::bare(&limits);
        session.send(PREFACE);
        for frame in first {
            session.send(&frame);
        }
        assert_eq!(session.over, None);
        assert!(session.server.has_begun());
        assert_eq!(session.events().len(), 1);
    }
    // What is wrong on any new connection stays wrong.
    for (first, reason) in [
        (frame(FrameKind::DATA, 0, 1, b"x"), Reason::StreamIdle),
        (
            frame(FrameKind::CONTINUATION, END_HEADERS, 1, b""),
            Reason::BlockInterrupted,
        ),
    ] {
        let mut session = Session::bare(&limits);
        session.send(PREFACE);
        session.send(&first);
        assert_eq!(session.over.unwrap().reason, reason);
    }
    let mut session = Session::bare(&limits);
    session.send(b"GET / HTTP/1.1\r\n");
    assert_eq!(session.over.unwrap().reason, Reason::Preface);
}

/// As in HTTP/1: any visible byte, and a fragment that is not part of path and query.
#[test]
fn targets_may_be_raw_and_values_have_a_limit() {
    let limits = Limits {
        targets: TargetBytes::Raw,
        value_bytes_max: 10,
        ..Limits::SERVER
    };
    let outcome = |path: &'static str, value: &'static str| {
        let mut fields = [&GET[..], &[("x", value)]].concat();
        fields[3].1 = path;
        let mut session = Session::with(&limits);
        session.send(&headers(1, END_STREAM, &fields));
        session.events().join(" ")
    };
    for path in ["/\u{e9}?\u{fc}", "/a#b?c", "/#"] {
        let found = outcome(path, "y");
        assert!(
            !found.contains("refused") && found.starts_with('1'),
            "{path} gave {found}"
        );
    }
    for path in ["/a b", "/\u{7f}", "#", "\u{e9}"] {
        assert_eq!(outcome(path, "y"), "1 refused Path", "{path}");
    }
    assert_eq!(outcome("/", "01234567890"), "1 refused ValueTooLong");
    assert!(!outcome("/", "0123456789").contains("refused"));
}

/// What a time limit of heads has to watch.
#[test]
fn beginnings_and_slow_heads_are_known() {
    let mut session = Session::bare(&Limits::SERVER);
    session.send(&PREFACE[..20]);
    assert!(!session.server.has_begun());
    session.send(&PREFACE[20..]);
    session.send(&settings(&[]));
    assert!(session.server.has_begun() && !session.server.is_in_head());
    let whole = block(&GET);
    let frames = [
        frame(FrameKind::HEADERS, 0, 1, &whole[..9]),
        frame(FrameKind::CONTINUATION, END_HEADERS, 1, &whole[9..]),
        data(1, 0, b"abc"),
    ]
    .concat();
    let head_len = frames.len() - 12;
    for (at, byte) in frames.iter().enumerate() {
        session.send(&[*byte]);
        // Within the head of a frame as well, but not within content.
        let within = at + 1 < head_len || (head_len..head_len + 8).contains(&at);
        assert_eq!(session.server.is_in_head(), within, "{at}");
    }
}

/// Sections 4.1 and 5.5.
#[test]
fn unknown_kinds_and_flags_are_ignored() {
    let (sent, events) = lives(&[
        frame(FrameKind(0xfa), 0xff, 0, b"anything"),
        frame(FrameKind(0xfa), 0xff, 7, b""),
        frame(FrameKind::PING, 0xfe, 0, b"12345678"),
        get(1),
    ]);
    assert_eq!(sent, ["PING ack 12345678"]);
    assert_eq!(events.len(), 1);
}

/// Section 4.2.
#[test]
fn lengths_are_checked() {
    let long = vec![0; 16_385];
    for (frames, reason) in [
        (vec![get(1), data(1, 0, &long)], Reason::FrameTooLong),
        (
            vec![frame(FrameKind::HEADERS, 4, 1, &long)],
            Reason::FrameTooLong,
        ),
        (
            vec![frame(FrameKind(0xfa), 0, 0, &long)],
            Reason::FrameTooLong,
        ),
        (
            vec![frame(FrameKind::SETTINGS, 0, 0, b"12345")],
            Reason::FrameLength,
        ),
        (
            vec![frame(FrameKind::SETTINGS, ACK, 0, b"123456")],
            Reason::FrameLength,
        ),
        (
            vec![frame(FrameKind::PING, 0, 0, b"1234567")],
            Reason::FrameLength,
        ),
        (
            vec![frame(FrameKind::GOAWAY, 0, 0, b"1234567")],
            Reason::FrameLength,
        ),
        (
            vec![frame(FrameKind::WINDOW_UPDATE, 0, 0, b"123")],
            Reason::FrameLength,
        ),
        (
            vec![get(1), frame(FrameKind::RST_STREAM, 0, 1, b"12345")],
            Reason::FrameLength,
        ),
        (
            vec![post(1, &[]), data(1, PADDED, b"")],
            Reason::FrameLength,
        ),
        (
            vec![frame(FrameKind::HEADERS, 4 | PADDED, 1, b"")],
            Reason::FrameLength,
        ),
        (
            vec![frame(FrameKind::HEADERS, 4 | PRIORITY, 1, b"1234")],
            Reason::FrameLength,
        ),
        (
            vec![frame(FrameKind::PRIORITY_UPDATE, 0, 0, b"123")],
            Reason::FrameLength,
        ),
        (
            vec![frame(FrameKind::PRIORITY, 0, 1, b"1234")],
            Reason::FrameLength,
        ),
    ] {
        assert_eq!(fails(&frames), Some(reason), "{frames:?}");
    }
    // Section 6.3: on an open stream only that is lost.
    assert_eq!(
        resets(&[post(1, &[]), frame(FrameKind::PRIORITY, 0, 1, b"123456")]),
        "RST_STREAM 1 FRAME_SIZE_ERROR"
    );
}

/// Section 6: which frames have a stream.
#[test]
fn frames_stand_on_the_right_streams() {
    for kind in [
        FrameKind::DATA,
        FrameKind::HEADERS,
        FrameKind::PRIORITY,
        FrameKind::RST_STREAM,
    ] {
        assert_eq!(
            fails(&[frame(kind, 4, 0, b"1234")]),
            Some(Reason::FrameStream)
        );
    }
    for (kind, len) in [
        (FrameKind::SETTINGS, 6),
        (FrameKind::PING, 8),
        (FrameKind::GOAWAY, 8),
        (FrameKind::PRIORITY_UPDATE, 8),
    ] {
        let payload = vec![1; len];
        assert_eq!(
            fails(&[frame(kind, 0, 1, &payload)]),
            Some(Reason::FrameStream)
        );
    }
    let none = frame(FrameKind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\0u=1");
    assert_eq!(fails(&[none]), Some(Reason::FrameStream));
    // Section 8.4: clients do not push.
    let push = frame(FrameKind::PUSH_PROMISE, 4, 1, b"\0\0\0\x02");
    assert_eq!(fails(&[push]), Some(Reason::FrameUnexpected));
}

/// Sections 6.1 and 6.2.
#[test]
fn padding_and_priorities_are_taken_off() {
    let head = [&[3u8][..], &[0, 0, 0, 0, 16], &block(&GET), &[0; 3]].concat();
    let flags = END_HEADERS | PADDED | PRIORITY;
    let (_, events) = lives(&[
        frame(FrameKind::HEADERS, flags, 1, &head),
        data(1, PADDED, b"\x04abc\0\0\0\0"),
        data(1, PADDED | END_STREAM, b"\x00d"),
    ]);
    assert_eq!(events[1..], ["1 data abcd", "1 end"]);
    for (frames, reason) in [
        (
            vec![post(1, &[]), data(1, PADDED, b"\x04abc")],
            Reason::Padding,
        ),
        (
            vec![frame(FrameKind::HEADERS, 4 | PADDED, 1, b"\x04abc")],
            Reason::Padding,
        ),
        (
            vec![frame(FrameKind::HEADERS, flags, 1, b"\x01\0\0\0\0\0")],
            Reason::Padding,
        ),
        (
            vec![frame(
                FrameKind::HEADERS,
                4 | PRIORITY,
                3,
                b"\x80\0\0\x03\0",
            )],
            Reason::SelfDependency,
        ),
        (
            vec![frame(FrameKind::PRIORITY, 0, 3, b"\0\0\0\x03\0")],
            Reason::SelfDependency,
        ),
    ] {
        assert_eq!(fails(&frames), Some(reason), "{frames:?}");
    }
    // Padding that fills the whole frame is not an error.
    let (_, events) = lives(&[post(1, &[]), data(1, PADDED | END_STREAM, b"\x03\0\0\0")]);
    assert_eq!(events[1..], ["1 end"]);
}

/// Sections 4.3 and 6.10.
#[test]
fn header_blocks_stay_together() {
    let whole = block(&GET);
    let (a, b) = whole.split_at(20);
    let start = |flags| frame(FrameKind::HEADERS, flags, 1, a);
    let more = |flags, stream, part: &[u8]| frame(FrameKind::CONTINUATION, flags, stream, part);
    let (_, events) = lives(&[
        start(END_STREAM),
        more(0, 1, b""),
        more(0, 1, b),
        more(END_HEADERS, 1, b""),
    ]);
    assert!(
        events[0].starts_with("1 head GET / [host: a.example] end"),
        "{events:?}"
    );
    for frames in [
        vec![start(0), get(1)],
        vec![start(0), frame(FrameKind::PING, 0, 0, b"12345678")],
        vec![start(0), frame(FrameKind(0xfa), 0, 1, b"")],
        vec![start(0), more(END_HEADERS, 3, b)],
        vec![more(END_HEADERS, 1, b)],
        vec![get(1), more(END_HEADERS, 1, b)],
    ] {
        assert_eq!(fails(&frames), Some(Reason::BlockInterrupted), "{frames:?}");
    }
    let broken = frame(FrameKind::HEADERS, END_HEADERS | END_STREAM, 1, &[0x80]);
    assert_eq!(fails(&[broken]), Some(Reason::Compression));
}

/// Section 5.1: idle, half-closed and closed streams.
#[test]
fn frames_come_only_in_their_states() {
    for (frames, reason) in [
        (vec![data(1, 0, b"x")], Reason::StreamIdle),
        (vec![reset(1, ErrorCode::CANCEL)], Reason::StreamIdle),
        (vec![window_update(1, 1)], Reason::StreamIdle),
        (vec![get(1), window_update(2, 1)], Reason::StreamIdle),
        (vec![get(2)], Reason::StreamNumber),
        (vec![get(5), get(3)], Reason::StreamNumber),
    ] {
        assert_eq!(fails(&frames), Some(reason), "{frames:?}");
    }
    let cancelled = || [post(1, &[]), reset(1, ErrorCode::CANCEL)].concat();
    for late in [data(1, 0, b"x"), get(1)] {
        assert_eq!(fails(&[cancelled(), late]), Some(Reason::StreamClosed));
    }
    assert_eq!(fails(&[cancelled(), window_update(1, 1)]), None);
    assert_eq!(
        resets(&[get(1), data(1, 0, b"x")]),
        "RST_STREAM 1 STREAM_CLOSED"
    );
    assert_eq!(resets(&[get(1), get(1)]), "RST_STREAM 1 STREAM_CLOSED");
    let closed = |last: Vec<u8>| {
        let mut session = Session::new();
        session.send(&get(1));
        session.response(1);
        session.send(&last);
        session.over.map(|closed| closed.reason)
    };
    assert_eq!(closed(data(1, 0, b"x")), Some(Reason::StreamClosed));
    assert_eq!(closed(get(1)), Some(Reason::StreamClosed));
    assert_eq!(closed(window_update(1, 1)), None);
    assert_eq!(closed(reset(1, ErrorCode::CANCEL)), None);
    assert_eq!(
        closed(frame(FrameKind::PRIORITY, 0, 1, b"\0\0\0\x03\0")),
        None
    );
}

/// Section 5.1, closed: what was under way when we reset a stream is decoded, counted and ignored.
#[test]
fn frames_that_cross_a_reset_are_ignored() {
    let mut session = Session::new();
    session.send(&post(1, &[]));
    session.response(1);
    assert_eq!(session.sent()[1], "RST_STREAM 1 NO_ERROR");
    let content = vec![b'x'; 16_384];
    for _ in 0..100 {
        session.send(&data(1, 0, &content));
    }
    session.send(&headers(1, END_STREAM, &[("x-late", "1")]));
    let incremental = [&[0x40, 3][..], b"x-l", &[1], b"v"].concat();
    session.send(&frame(FrameKind::HEADERS, 5, 1, &incremental));
    assert_eq!(session.over, None);
    assert!(
        session
            .sent()
            .iter()
            .all(|line| line.starts_with("WINDOW_UPDATE 0"))
    );
    // The table has the field of the ignored block.
    let mut next = block(&GET);
    next.push(0xbe);
    session.send(&frame(FrameKind::HEADERS, 5, 3, &next));
    assert!(session.events().last().unwrap().contains("[x-l: v]"));
}

/// Section 5.1.2, and who counts: a stream that the client reset as long as its owner works on it.
#[test]
fn streams_beyond_the_limit_are_refused() {
    let limits = Limits {
        streams_max: 2,
        ..Limits::SERVER
    };
    let mut session = Session::with(&limits);
    for stream in [1, 3, 5] {
        session.send(&get(stream));
    }
    assert_eq!(session.events().len(), 2);
    assert_eq!(session.sent(), ["RST_STREAM 5 REFUSED_STREAM"]);
    session.send(&reset(1, ErrorCode::CANCEL));
    assert_eq!(session.events(), ["1 reset CANCEL by Peer"]);
    session.send(&get(7));
    assert_eq!(session.sent(), ["RST_STREAM 7 REFUSED_STREAM"]);
    session.release(1);
    session.send(&get(9));
    assert!(session.sent().is_empty());
    assert_eq!(session.events().len(), 1);
    let slots: Vec<usize> = session.open.iter().map(|id| id.slot()).collect();
    assert_eq!(slots, [1, 0]);
}

/// Section 6.5.
#[test]
fn settings_are_checked_and_acknowledged() {
    for (id, value, reason) in [
        (2, 2, Reason::SettingValue),
        (4, 1 << 31, Reason::SettingWindow),
        (5, 16_383, Reason::SettingValue),
        (5, 1 << 24, Reason::SettingValue),
        (8, 2, Reason::SettingValue),
        (9, 2, Reason::SettingValue),
    ] {
        assert_eq!(fails(&[settings(&[(id, value)])]), Some(reason));
    }
    let (sent, _) = lives(&[settings(&[(1, 0), (3, 1), (0xff, 7)]), settings(&[])]);
    assert_eq!(sent, ["SETTINGS ack", "SETTINGS ack"]);
}

/// Section 6.7.
#[test]
fn pings_are_acknowledged() {
    let (sent, _) = lives(&[
        frame(FrameKind::PING, 0, 0, b"abcdefgh"),
        frame(FrameKind::PING, ACK, 0, b"ignored!"),
    ]);
    assert_eq!(sent, ["PING ack abcdefgh"]);
    let mut session = Session::new();
    session.server.ping();
    assert_eq!(
        (session.server.pings_pending(), session.sent().len()),
        (1, 1)
    );
    session.send(&frame(FrameKind::PING, ACK, 0, b"\0\0\0\0\0\0\0\x01"));
    assert_eq!(session.server.pings_pending(), 0);
}

/// Sections 6.8 and 5.1: a goodbye that loses nothing.
#[test]
fn draining_serves_what_the_client_opened_before_it_knew() {
    let mut session = Session::new();
    session.send(&get(1));
    session.server.drain();
    session.server.drain();
    assert_eq!(session.sent(), ["GOAWAY 2147483647 NO_ERROR", "PING"]);
    session.send(&get(3));
    assert_eq!(session.events().len(), 2);
    session.send(&frame(FrameKind::PING, ACK, 0, b"slc-bye!"));
    assert_eq!(session.sent(), ["GOAWAY 3 NO_ERROR"]);
    // However many are under way, they do not end what is served.
    for stream in (5..1000).step_by(2) {
        session.send(&post(stream, &[]));
    }
    for stream in (5..1000).step_by(2) {
        session.send(&data(stream, 0, b"some content"));
        session.send(&headers(stream, END_STREAM, &[("x", "y")]));
    }
    assert!(session.events().is_empty() && session.sent().is_empty());
    session.response(1);
    assert!(!session.server.is_done());
    session.response(3);
    assert!(session.server.is_done());
    assert_eq!(session.over, None);
}

#[test]
fn a_client_that_leaves_is_served_to_the_end() {
    let mut session = Session::new();
    session.send(&get(1));
    session.send(&frame(FrameKind::GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0debug"));
    assert_eq!(session.events()[1], "goaway NO_ERROR");
    assert!(!session.server.is_done());
    session.response(1);
    assert!(session.server.is_done());
}

/// Section 6.9: windows of the client, which bound what we send.
#[test]
fn content_is_sent_within_both_windows() {
    let limits = Limits {
        output_bytes_max: 1 << 20,
        ..Limits::SERVER
    };
    let mut session = Session::with(&limits);
    session.send(&settings(&[(4, 10)]));
    session.send(&[get(1), get(3)].concat());
    session.events();
    let (one, three) = (
        session.begin_response(1, BodyFraming::Chunked),
        session.begin_response(3, BodyFraming::Chunked),
    );
    session.sent();
    let content = vec![b'x'; 100_000];
    assert_eq!(session.server.send_data(one, &content, End::Here), Ok(10));
    assert_eq!(session.server.send_data(one, &content, End::Here), Ok(0));
    assert_eq!(session.sent(), ["DATA 1 10"]);
    session.send(&window_update(1, 5));
    assert_eq!(session.events(), ["1 window"]);
    assert_eq!(session.server.send_data(one, &content, End::Here), Ok(5));
    // Nobody waits on stream 3, so there is no event.
    session.send(&window_update(3, 1 << 20));
    assert!(session.events().is_empty());
    session.sent();
    // The connection's window of 65,535 bytes is left, less 15; one frame has at most 16,384.
    assert_eq!(
        session.server.send_data(three, &content, End::Here),
        Ok(65_520)
    );
    assert_eq!(
        session.sent(),
        [
            "DATA 3 16384",
            "DATA 3 16384",
            "DATA 3 16384",
            "DATA 3 16368"
        ]
    );
    assert_eq!(session.server.capacity(three), 0);
    session.send(&window_update(0, 100_000));
    assert_eq!(session.events(), ["window"]);
    assert_eq!(
        session
            .server
            .send_data(three, &content[..34_480], End::Here),
        Ok(34_480)
    );
    assert_eq!(session.sent().last().unwrap(), "DATA 3 1712 end");
    assert_eq!(
        session.server.send_data(three, b"x", End::Here),
        Err(StreamGone)
    );
    assert_eq!(session.server.capacity(three), 0);
}

/// Section 6.9.2: another initial window changes those of open streams, which may become negative.
#[test]
fn a_changed_initial_window_moves_open_streams() {
    let mut session = Session::new();
    session.send(&get(1));
    session.events();
    let id = session.begin_response(1, BodyFraming::Chunked);
    assert_eq!(
        session.server.send_data(id, &[0; 1000], End::Later),
        Ok(1000)
    );
    session.send(&settings(&[(4, 500)]));
    assert_eq!(session.server.capacity(id), 0);
    session.send(&window_update(1, 500));
    assert_eq!(session.server.capacity(id), 0);
    assert!(session.events().is_empty());
    session.send(&settings(&[(4, 600)]));
    assert_eq!(session.events(), ["window"]);
    assert_eq!(session.server.capacity(id), 100);
}

/// Sections 6.9 and 6.9.1.
#[test]
fn windows_have_limits() {
    assert_eq!(fails(&[window_update(0, 0)]), Some(Reason::WindowIncrement));
    assert_eq!(
        fails(&[window_update(0, 0x7fff_ffff)]),
        Some(Reason::WindowOverflow)
    );
    let top = 0x7fff_ffff - 65_535;
    assert_eq!(fails(&[window_update(0, top)]), None);
    assert_eq!(
        fails(&[window_update(0, top), window_update(0, 1)]),
        Some(Reason::WindowOverflow)
    );
    assert_eq!(
        fails(&[get(1), window_update(1, 10), settings(&[(4, 0x7fff_ffff)])]),
        Some(Reason::SettingWindow)
    );
    assert_eq!(
        resets(&[get(1), window_update(1, 0)]),
        "RST_STREAM 1 PROTOCOL_ERROR"
    );
    assert_eq!(
        resets(&[get(1), window_update(1, 0x7fff_ffff)]),
        "RST_STREAM 1 FLOW_CONTROL_ERROR"
    );
}

/// Section 6.9.1: our windows bound what the client sends, and unread content is never more than the connection's.
#[test]
fn content_beyond_our_windows_is_refused() {
    let full = vec![b'x'; 16_384];
    let mut frames = vec![post(1, &[])];
    frames.extend((0..4).map(|_| data(1, 0, &full)));
    let mut session = Session::new();
    session.consumes = false;
    session.send(&frames.concat());
    assert_eq!(
        session.events().last().unwrap(),
        "1 reset FLOW_CONTROL_ERROR by Us"
    );
    let mut session = Session::new();
    session.consumes = false;
    let mut unread = 0;
    'streams: for stream in (1..200).step_by(2) {
        session.send(&post(stream, &[]));
        for part in [16_384, 16_384, 16_384, 16_383] {
            session.send(&data(stream, 0, &full[..part]));
            if session.over.is_some() {
                break 'streams;
            }
            unread += part;
        }
    }
    assert_eq!(session.over.unwrap().reason, Reason::WindowExceeded);
    assert!(unread <= 1024 * 1024, "{unread}");
}

#[test]
fn windows_are_given_back_by_halves_and_grow() {
    let mut session = Session::new();
    session.consumes = false;
    session.send(&post(1, &[]));
    session.send(&data(1, 0, &[0; 16_000]));
    session.send(&data(1, 0, &[0; 16_000]));
    session.send(&data(1, 0, &[0; 1000]));
    let id = session.id(1);
    session.server.consumed(id, 32_000);
    assert!(session.sent().is_empty());
    session.server.consumed(id, 1000);
    // Twice the window, less what is still open.
    assert_eq!(session.sent(), ["WINDOW_UPDATE 1 98535"]);
    // Padding counts as well, and is given back by itself (section 6.1).
    let mut session = Session::new();
    session.consumes = false;
    session.send(&post(1, &[]));
    let padded = [&[255u8][..], &[b'x'; 10], &[0; 255]].concat();
    for _ in 0..200 {
        session.send(&data(1, PADDED, &padded));
    }
    assert_eq!(session.over, None);
    assert!(
        session
            .sent()
            .iter()
            .any(|line| line.starts_with("WINDOW_UPDATE 1"))
    );
    // What nobody consumed goes back to the connection with its stream, once.
    let mut session = Session::new();
    session.consumes = false;
    for stream in (1..400).step_by(2) {
        session.send(&post(stream, &[]));
        session.send(&data(stream, END_STREAM, &[0; 16_000]));
        session.response(stream);
    }
    assert_eq!(session.over, None);
    let given: u32 = session
        .sent()
        .iter()
        .filter_map(|line| line.strip_prefix("WINDOW_UPDATE 0 ")?.parse::<u32>().ok())
        .sum();
    assert!(
        given > 200 * 16_000 - 524_288 && given <= 200 * 16_000,
        "{given}"
    );
}

/// Section 8.1.1: requests whose fields are malformed.
#[test]
fn malformed_requests_are_reset() {
    let with = |fields: &[(&'static str, &'static str)]| [&GET, fields].concat();
    let without = |name: &str| -> Vec<(&str, &str)> {
        GET.iter().copied().filter(|(n, _)| *n != name).collect()
    };
    for (fields, fault) in [
        (with(&[("", "x")]), "NameEmpty"),
        (with(&[("X-Upper", "x")]), "NameByte"),
        (with(&[("x y", "x")]), "NameByte"),
        (with(&[("x:y", "x")]), "NameByte"),
        (with(&[("x", "a\r\nb")]), "ValueByte"),
        (with(&[("x", "a\0b")]), "ValueByte"),
        (with(&[("x", " a")]), "ValueByte"),
        (with(&[("x", "a\t")]), "ValueByte"),
        (with(&[("accept", "a"), (":path", "/")]), "PseudoLate"),
        (with(&[(":path", "/")]), "PseudoRepeated"),
        (with(&[(":authority", "a.example")]), "PseudoRepeated"),
        (with(&[(":other", "x")]), "PseudoUnknown"),
        (with(&[(":status", "200")]), "PseudoUnknown"),
        (without(":method"), "PseudoMissing"),
        (without(":scheme"), "PseudoMissing"),
        (without(":path"), "PseudoMissing"),
        (with(&[("connection", "close")]), "ConnectionField"),
        (with(&[("keep-alive", "1")]), "ConnectionField"),
        (with(&[("proxy-connection", "close")]), "ConnectionField"),
        (with(&[("transfer-encoding", "chunked")]), "ConnectionField"),
        (with(&[("upgrade", "h2c")]), "ConnectionField"),
        (with(&[("te", "gzip")]), "Te"),
        (with(&[("te", "trailers, gzip")]), "Te"),
        (with(&[("content-length", "x")]), "Length"),
        (
            with(&[("content-length", "0"), ("content-length", "0")]),
            "Length",
        ),
        (with(&[("content-length", "1")]), "LengthUnmet"),
    ] {
        let found = refused(END_STREAM, &fields);
        assert_eq!(found.0, fault, "{fields:?}");
        assert_eq!(found.1, "RST_STREAM 1 PROTOCOL_ERROR");
    }
    let path = |path| [&without(":path")[..], &[(":path", path)]].concat();
    assert_eq!(refused(1, &path("")).0, "PathEmpty");
    let method = |method| [&[(":method", method)], &GET[1..]].concat();
    assert_eq!(refused(1, &method("G T")).0, "Method");
    assert_eq!(refused(1, &method("")).0, "Method");
    assert_eq!(
        refused(
            1,
            &[&method("GET")[..], &[(":protocol", "websocket")]].concat()
        )
        .0,
        "PseudoUnknown"
    );
}

/// Requests that get a response although they cannot be served.
#[test]
fn exceeded_limits_get_their_error() {
    let with = |fields: &[(&'static str, &'static str)]| [&GET, fields].concat();
    let replace = |at: usize, value: &'static str| {
        let mut fields = GET.to_vec();
        fields[at].1 = value;
        fields
    };
    let many = vec![("x", "y"); 125];
    let crumbs = vec![("cookie", "y"); 125];
    let long: &'static str = "a".repeat(8192).leak();
    let long_path: &'static str = format!("/{long}").leak();
    for (fields, fault, status) in [
        ([&GET[..], &many].concat(), "TooMany", 431),
        ([&GET[..], &crumbs].concat(), "TooMany", 431),
        (with(&[(&long[..257], "x")]), "NameTooLong", 431),
        (replace(0, &long[..33]), "MethodTooLong", 501),
        (replace(1, "ftp"), "Scheme", 400),
        (replace(2, "user@a"), "HostInvalid", 400),
        (replace(2, ""), "HostInvalid", 400),
        (replace(3, "x"), "Path", 400),
        (replace(3, "*"), "Path", 400),
        (replace(3, "/a b"), "Path", 400),
        (replace(3, "/%zz"), "Path", 400),
        (replace(3, "/#x"), "Path", 400),
        (replace(3, "https://a.example/"), "Path", 400),
        (replace(3, long_path), "PathTooLong", 414),
        (with(&[("host", "b.example")]), "HostOther", 400),
        (
            with(&[("host", "a.example"), ("host", "a.example")]),
            "HostRepeated",
            400,
        ),
        (with(&[("expect", "magic")]), "Expectation", 417),
    ] {
        let mut session = Session::new();
        session.send(&headers(1, END_STREAM, &fields));
        assert_eq!(session.events(), [format!("1 refused {fault}")]);
        let id = session.id(1);
        let status = Status::new(status).unwrap();
        let framing = BodyFraming::Length(0);
        let none = Fields::new();
        let sent = session
            .server
            .send_head(id, status, &none, framing, DATE, End::Here);
        assert_eq!(sent, Ok(()));
        session.release(1);
        let sent = session.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert!(sent[0].contains(&format!("[:status: {}]", status.code())));
    }
    // One field of 4,000 bytes that the table gives ten times.
    let mut bomb = block(&GET);
    bomb.extend_from_slice(&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
    bomb.extend_from_slice(&[b'y'; 4000]);
    bomb.extend_from_slice(&[0xbe; 10]);
    let mut session = Session::new();
    session.send(&frame(FrameKind::HEADERS, END_HEADERS, 1, &bomb));
    assert_eq!(session.events(), ["1 refused TooLarge"]);
    let nowhere = [GET[0], GET[1], GET[3]];
    assert_eq!(refused(1, &nowhere).0, "HostMissing");
}

/// Section 8.3.1: the forms that are right.
#[test]
fn usual_and_rare_requests_are_taken() {
    let first = |fields: &[(&str, &str)]| {
        let mut session = Session::new();
        session.send(&headers(1, END_STREAM, fields));
        assert_eq!(session.over, None);
        session.events()[0].clone()
    };
    let options = [
        (":method", "OPTIONS"),
        (":scheme", "https"),
        (":authority", "a:1"),
        (":path", "*"),
    ];
    assert!(first(&options).starts_with("1 head OPTIONS * [host: a:1] end"));
    let host = [
        (":method", "GET"),
        (":scheme", "HTTP"),
        (":path", "/"),
        ("host", "b"),
    ];
    assert!(first(&host).starts_with("1 head GET / [host: b] end"));
    let both = [&GET[..], &[("host", "A.example"), ("te", "trailers")]].concat();
    assert!(first(&both).contains("[host: a.example] [te: trailers] end"));
    let crumbs = [
        &GET[..],
        &[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")],
    ]
    .concat();
    assert!(first(&crumbs).contains("[host: a.example] [x: y] [cookie: a=1; b=2] end"));
    let connect = [(":method", "CONNECT"), (":authority", "a.example:443")];
    assert!(
        first(&connect)
            .contains("CONNECT a.example:443 [host: a.example:443] end None None Authority")
    );
    let websocket = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "a.example"),
    ];
    assert!(first(&websocket).contains("CONNECT /chat [host: a.example] end None None WebSocket"));
    let urgent = [&GET[..], &[("priority", "u=1, i")]].concat();
    assert!(first(&urgent).ends_with("u=1 i=true"));
    let plain = [&GET[..], &[("priority", "u=1")]].concat();
    assert!(first(&plain).ends_with("u=1 i=false"));
}

/// Section 8.5, and RFC 8441.
#[test]
fn faulty_connects_are_refused() {
    for (fields, fault) in [
        (
            vec![(":method", "CONNECT"), (":authority", "a")],
            "HostInvalid",
        ),
        (
            vec![(":method", "CONNECT"), ("host", "a:1")],
            "PseudoMissing",
        ),
        (
            vec![
                (":method", "CONNECT"),
                (":authority", "a:1"),
                (":path", "/"),
            ],
            "PseudoUnknown",
        ),
        (
            vec![
                (":method", "CONNECT"),
                (":authority", "a:1"),
                (":scheme", "https"),
            ],
            "PseudoUnknown",
        ),
        (
            vec![
                (":method", "CONNECT"),
                (":protocol", "websocket"),
                (":authority", "a:1"),
            ],
            "PseudoMissing",
        ),
        (
            [
                &[(":method", "CONNECT"), (":protocol", "connect-udp")],
                &GET[1..],
            ]
            .concat(),
            "ProtocolUnknown",
        ),
    ] {
        assert_eq!(refused(END_STREAM, &fields).0, fault, "{fields:?}");
    }
}

/// Section 8.1.1: as much content as was declared (attack: a request that a proxy would send on with another length).
#[test]
fn content_of_another_length_is_reset() {
    let declared = || post(1, &[("content-length", "3")]);
    for frames in [
        vec![declared(), data(1, END_STREAM, b"ab")],
        vec![declared(), data(1, END_STREAM, b"")],
        vec![declared(), data(1, 0, b"abcd")],
        vec![declared(), data(1, 0, b"abc"), data(1, END_STREAM, b"d")],
        vec![
            declared(),
            data(1, 0, b"ab"),
            headers(1, END_STREAM, &[("x", "y")]),
        ],
    ] {
        assert_eq!(resets(&frames), "RST_STREAM 1 PROTOCOL_ERROR");
        let mut session = Session::new();
        session.send(&frames.concat());
        assert_eq!(
            session.events().last().unwrap(),
            "1 reset PROTOCOL_ERROR by Us"
        );
        // The stream is gone for its owner as well, which still has to let go of it.
        let (id, none) = (session.id(1), Fields::new());
        let framing = BodyFraming::Length(0);
        let sent = session
            .server
            .send_head(id, Status::OK, &none, framing, DATE, End::Here);
        assert_eq!(sent, Err(StreamGone));
        assert_eq!(session.server.open_streams(), 1);
        session.release(1);
        assert_eq!(session.server.open_streams(), 0);
    }
    let (_, events) = lives(&[declared(), data(1, 0, b"abc"), data(1, END_STREAM, b"")]);
    assert_eq!(events[1..], ["1 data abc", "1 end"]);
}

/// Section 8.1: trailers end the stream and have no pseudo-fields.
#[test]
fn faulty_trailers_are_reset() {
    for trailers in [
        headers(1, 0, &[("x", "y")]),
        headers(1, END_STREAM, &[(":path", "/")]),
        headers(1, END_STREAM, &[("X", "y")]),
        headers(1, END_STREAM, &[("connection", "close")]),
    ] {
        assert_eq!(
            resets(&[post(1, &[]), data(1, 0, b"x"), trailers]),
            "RST_STREAM 1 PROTOCOL_ERROR"
        );
    }
}

/// Section 8.1, and attack: a truncated response must not look complete.
#[test]
fn responses_of_another_length_are_reset() {
    let begin = || {
        let mut session = Session::new();
        session.send(&get(1));
        let id = session.begin_response(1, BodyFraming::Length(5));
        session.sent();
        (session, id)
    };
    let (mut session, id) = begin();
    assert_eq!(
        session.server.send_data(id, b"abc", End::Here),
        Err(StreamGone)
    );
    assert_eq!(session.sent(), ["RST_STREAM 1 INTERNAL_ERROR"]);
    let (mut session, id) = begin();
    assert_eq!(
        session.server.send_data(id, b"abcdef", End::Here),
        Err(StreamGone)
    );
    assert_eq!(session.sent(), ["RST_STREAM 1 INTERNAL_ERROR"]);
    let (mut session, id) = begin();
    assert_eq!(
        session.server.send_trailers(id, &Fields::new()),
        Err(StreamGone)
    );
    assert_eq!(session.sent(), ["RST_STREAM 1 INTERNAL_ERROR"]);
    let (mut session, _) = begin();
    session.release(1);
    assert_eq!(session.sent(), ["RST_STREAM 1 INTERNAL_ERROR"]);
    let (mut session, id) = begin();
    assert_eq!(session.server.send_data(id, b"abc", End::Later), Ok(3));
    assert_eq!(session.server.send_data(id, b"de", End::Here), Ok(2));
    session.release(1);
    assert_eq!(session.sent(), ["DATA 1 3", "DATA 1 2 end"]);
}

/// Response heads: connection headers and invalid names are dropped, and values cannot inject headers.
#[test]
fn response_heads_are_sanitized() {
    let mut fields = Fields::new();
    for (name, value) in [
        ("Content-Type", "text/html"),
        ("Connection", "close"),
        ("Keep-Alive", "1"),
        ("Proxy-Connection", "x"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "h2c"),
        (":status", "100"),
        ("x y", "z"),
        ("", "z"),
        ("X-Break", " a\r\nset-cookie: b\0\t"),
        ("Content-Length", "9"),
        ("Date", "Sat, 21 Nov 2026 00:00:00 GMT"),
    ] {
        fields.push_raw(
            FieldId::of(name.as_bytes()),
            name.as_bytes(),
            value.as_bytes(),
        );
    }
    let head = |status: u16, framing| {
        let mut session = Session::new();
        session.send(&get(1));
        let id = session.id(1);
        let status = Status::new(status).unwrap();
        session
            .server
            .send_head(id, status, &fields, framing, DATE, End::Here)
            .unwrap();
        session.sent()[0].clone()
    };
    let clean = "[content-type: text/html] [x-break: a  set-cookie: b] [date: Sat, 21 Nov 2026 00:00:00 GMT]";
    assert_eq!(
        head(200, BodyFraming::Length(0)),
        format!("HEADERS 1 end [:status: 200] {clean} [content-length: 0]")
    );
    // A described length stays where there is no content by rule, but for 204 (RFC 9110, section 8.6).
    assert_eq!(
        head(304, BodyFraming::None),
        format!("HEADERS 1 end [:status: 304] {clean} [content-length: 9]")
    );
    assert_eq!(
        head(204, BodyFraming::Length(0)),
        format!("HEADERS 1 end [:status: 204] {clean}")
    );
    assert_eq!(
        head(799, BodyFraming::Chunked),
        format!("HEADERS 1 end [:status: 799] {clean}")
    );
}

/// Section 4.3: heads longer than a frame.
#[test]
fn long_response_heads_are_split_into_frames() {
    let mut session = Session::new();
    session.send(&get(1));
    let id = session.id(1);
    let mut fields = Fields::new();
    let value = vec![b'\\'; 30_000];
    fields.push_raw(FieldId::Other, b"x-long", &value);
    let sent = session.server.send_head(
        id,
        Status::OK,
        &fields,
        BodyFraming::Length(0),
        DATE,
        End::Here,
    );
    assert_eq!(sent, Ok(()));
    let lines = session.sent();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("HEADERS 1 end [:status: 200] [x-long: "));
    assert!(lines[0].len() > 60_000 && lines[0].contains("content-length"));
}

/// RFC 9218, section 10, and frames of section 7.1.
#[test]
fn the_most_urgent_goes_first_and_equals_share() {
    let mut session = Session::new();
    session.send(&settings(&[(4, 1 << 20)]));
    session.send(&window_update(0, 1 << 20));
    assert!(!session.server.has_priorities());
    let update = |stream: u32, value: &str| {
        let payload = [&stream.to_be_bytes()[..], value.as_bytes()].concat();
        frame(FrameKind::PRIORITY_UPDATE, 0, 0, &payload)
    };
    session.send(&update(5, "u=5, i"));
    assert!(session.server.has_priorities());
    for (stream, priority) in [(1, "u=5"), (3, "u=5"), (5, "u=0"), (7, "u=5, i")] {
        let fields = [&GET[..], &[("priority", priority)]].concat();
        session.send(&headers(stream, END_STREAM, &fields));
    }
    let ids: Vec<_> = [1, 3, 5, 7]
        .into_iter()
        .map(|stream| session.begin_response(stream, BodyFraming::Chunked))
        .collect();
    let mut order = Vec::new();
    for _ in 0..9 {
        let id = session.server.next_to_send(ids.iter().copied()).unwrap();
        assert_eq!(session.server.send_data(id, b"x", End::Later), Ok(1));
        order.push(id.number());
    }
    // 1 and 3 come one after the other and are together as one of those that share.
    assert_eq!(order, [1, 5, 7, 1, 5, 7, 1, 5, 7]);
    session.send(&update(3, "u=1"));
    assert_eq!(
        session.server.next_to_send(ids.iter().copied()),
        Some(ids[1])
    );
    assert_eq!(session.server.next_to_send([]), None);
}

/// RFC 9113, section 8.1 allows a reset once the response is complete. If little is left of the request, it is read and
/// discarded instead: clients that are about to send it treat a reset as a failure.
#[test]
fn an_early_response_waits_for_the_short_rest_of_an_upload() {
    let mut session = Session::new();
    let length = |bytes| [("content-length", bytes)];
    for (stream, end) in [
        (1, vec![data(1, 0, b"abc"), data(1, END_STREAM, b"de")]),
        (3, vec![data(3, 0, b"abcde"), data(3, END_STREAM, b"")]),
        (5, vec![data(5, 0, b"a"), reset(5, ErrorCode::CANCEL)]),
        (
            7,
            vec![
                data(7, 0, b"abcde"),
                headers(7, END_STREAM, &[("x-sum", "1")]),
            ],
        ),
    ] {
        session.send(&post(stream, &length("5")));
        session.response(stream);
        assert_eq!(
            session.server.open_streams(),
            1,
            "it counts until it has ended"
        );
        session.sent();
        end.iter().for_each(|frame| _ = session.send(frame));
        assert_eq!(session.sent(), [""; 0], "{stream}");
        assert_eq!((session.server.open_streams(), session.over), (0, None));
    }
    // More than was declared.
    session.send(&post(9, &length("5")));
    session.response(9);
    session.sent();
    session.send(&data(9, 0, b"abcdef"));
    assert_eq!(session.sent(), ["RST_STREAM 9 PROTOCOL_ERROR"]);
    // What needs leave of ours to be sent, or has no known end.
    for (stream, fields) in [(11, &length("65536")[..]), (13, &[])] {
        session.send(&post(stream, fields));
        session.response(stream);
        let sent = session.sent();
        assert_eq!(
            sent.last().map(String::as_str),
            Some(&*format!("RST_STREAM {stream} NO_ERROR"))
        );
    }
    // Nobody waits for it at the end.
    session.send(&post(15, &length("5")));
    session.response(15);
    session.server.go_away(ErrorCode::NO_ERROR);
    assert!(session.server.is_done());
    assert!(session.server.glitch_points() < 100);
}

/// Content that stands elsewhere is written by the owner behind the head of its frame.
#[test]
fn owners_can_write_content_themselves() {
    let mut session = Session::new();
    session.send(&get(1));
    let id = session.begin_response(1, BodyFraming::Length(4));
    assert_eq!(session.server.capacity(id), 16_384);
    session.server.send_data_head(id, 4, End::Here).unwrap();
    session.server.output().extend_from_slice(b"file");
    assert_eq!(session.sent()[1..], ["DATA 1 4 end"]);
}

#[test]
fn a_full_output_stops_reading_and_content() {
    let limits = Limits {
        output_bytes_max: 1000,
        ..Limits::SERVER
    };
    let mut session = Session::with(&limits);
    session.send(&get(1));
    let id = session.begin_response(1, BodyFraming::Chunked);
    let taken = session
        .server
        .send_data(id, &[0; 5000], End::Later)
        .unwrap();
    assert!(taken > 900 && session.server.output().len() <= 1000);
    let mut pings = Vec::new();
    for _ in 0..200 {
        pings.extend(frame(FrameKind::PING, 0, 0, b"12345678"));
    }
    let used = session.send(&pings);
    assert!(used < pings.len() && session.server.is_output_full());
    assert!(session.server.output().len() < 1000 + 17);
    session.sent();
    assert!(session.send(&pings[used..]) > 0);
}

#[test]
fn an_idle_connection_holds_little() {
    let mut session = Session::new();
    for stream in (1..200).step_by(2) {
        session.send(&post(stream, &[("x-some-name", "some value")]));
        session.send(&data(stream, END_STREAM, &[b'x'; 5000]));
        session.response(stream);
        session.sent();
    }
    let busy = session.server.capacity_bytes();
    session.server.shrink();
    let idle = session.server.capacity_bytes();
    assert!(idle < 4096 && busy < 64 * 1024, "{idle} {busy}");
    session.send(&get(201));
    assert_eq!(session.over, None);
}

/// Whatever is sent, cut anywhere, the machine does the same.
#[test]
fn cuts_do_not_matter() {
    let requests = [
        PREFACE.to_vec(),
        settings(&[(1, 100), (4, 100_000)]),
        post(
            1,
            &[("content-length", "6"), ("cookie", "a"), ("cookie", "b")],
        ),
        data(1, PADDED, b"\x02abc\0\0"),
        window_update(1, 5),
        get(3),
        data(1, END_STREAM, b"def"),
        frame(FrameKind::HEADERS, END_STREAM, 5, &block(&GET)[..9]),
        frame(FrameKind::CONTINUATION, END_HEADERS, 5, &block(&GET)[9..]),
        frame(FrameKind(99), 0, 1, b"unknown"),
        frame(FrameKind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=1"),
        frame(FrameKind::PING, 0, 0, b"12345678"),
        reset(3, ErrorCode::CANCEL),
        get(7),
        get(9),
        frame(FrameKind::GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\x02why"),
        data(9, 0, b"too late"),
    ];
    let bytes = requests.concat();
    check_server(&bytes);
    for at in 0..bytes.len() {
        let (a, b) = bytes.split_at(at);
        assert_eq!(
            server_transcript(&Limits::SERVER, &[a, b]),
            server_transcript(&Limits::SERVER, &[&bytes])
        );
        // Cut off, and with a byte changed.
        check_server(a);
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        check_server(&changed);
    }
}
