//! Attacks on HTTP/2, each with its cost for the server and what stops it: the attacks listed in RFC 9113, section 10.5
//! and in the advisories of other servers.

use std::time::Duration;

use sluice_message::Moment;
use sluice_wire::h1::BodyFraming;
use sluice_wire::h2::{End, ErrorCode, FrameKind, Limits, Reason};

use crate::feed_h2::*;

/// Far more than anybody in good faith sends.
const FLOOD: usize = 1_000_000;

/// The memory that one connection may hold beside its frames to send.
const MEMORY: usize = 256 * 1024;

/// Sends `frame` again and again, the output read by the peer, until the connection ends; gives after how many.
fn flood(session: &mut Session, mut frame: impl FnMut(usize) -> Vec<u8>) -> usize {
    for count in 0..FLOOD {
        if session.over.is_some() {
            return count;
        }
        session.send(&frame(count));
        session.events.clear();
        assert!(session.server.output().len() < 70_000);
        session.server.output().clear();
        assert!(session.server.capacity_bytes() < MEMORY);
    }
    panic!("the connection lives on");
}

fn ends_calmly(session: &Session) {
    let closed = session.over.expect("the connection is over");
    assert_eq!(closed.reason, Reason::Glitches);
    assert_eq!(closed.code, ErrorCode::ENHANCE_YOUR_CALM);
}

/// CVE-2023-44487: open and reset in turn. The owner's work counts until it has stopped.
#[test]
fn rapid_reset() {
    let mut session = Session::new();
    let mut most = 0;
    let rounds = flood(&mut session, |count| {
        most = most.max(count);
        let stream = 2 * count as u32 + 1;
        [get(stream), reset(stream, ErrorCode::CANCEL)].concat()
    });
    ends_calmly(&session);
    assert!(rounds <= 1100, "{rounds}");
    assert!(session.server.open_streams() <= 128);
    // Also if the owner lets go of each at once.
    let mut session = Session::new();
    for count in 0..FLOOD as u32 {
        session.send(&get(2 * count + 1));
        session.send(&reset(2 * count + 1, ErrorCode::CANCEL));
        let Some(id) = session.open.pop() else {
            break;
        };
        session.server.release(id);
        session.server.output().clear();
        if session.over.is_some() {
            assert!((1000..1100).contains(&count), "{count}");
            return ends_calmly(&session);
        }
    }
    panic!("the connection lives on");
}

/// CVE-2025-8671, MadeYouReset: the client makes us reset.
#[test]
fn made_you_reset() {
    for forced in [
        |stream| window_update(stream, 0),
        |stream| window_update(stream, 0x7fff_ffff),
        |stream| data(stream, 0, b"after the end"),
        |stream| frame(FrameKind::PRIORITY, 0, stream, b"1"),
        get,
    ] {
        let mut session = Session::new();
        for count in 0..FLOOD as u32 {
            session.send(&[get(2 * count + 1), forced(2 * count + 1)].concat());
            session.server.output().clear();
            if session.over.is_some() {
                assert!(count < 600, "{count}");
                break;
            }
            // The owner's work is not over when the stream is.
            assert!(session.server.open_streams() > 0);
            session.release(2 * count + 1);
        }
        ends_calmly(&session);
    }
}

/// Requests that are malformed, or one too many.
#[test]
fn refused_requests() {
    let mut session = Session::new();
    flood(&mut session, |count| {
        headers(2 * count as u32 + 1, END_STREAM, &[(":bad", "x")])
    });
    ends_calmly(&session);
}

/// RUSTSEC-2024-0332, CVE-2024-27316: header blocks without end.
#[test]
fn continuation_flood() {
    for (part, most) in [(&b""[..], 10), (&[0x82; 1000], 10), (&[0x82; 16_000], 4)] {
        let mut session = Session::new();
        session.send(&frame(FrameKind::HEADERS, END_STREAM, 1, &block(&GET)));
        let rounds = flood(&mut session, |_| frame(FrameKind::CONTINUATION, 0, 1, part));
        assert!(rounds <= most, "{rounds}");
        assert_eq!(session.over.unwrap().reason, Reason::BlockTooLong);
        assert_eq!(session.over.unwrap().code, ErrorCode::ENHANCE_YOUR_CALM);
    }
}

/// CVE-2026-49975, HTTP/2 Bomb: one byte each for a field of the table, on as many streams as may be open, none of
/// which can be served because the window is closed.
#[test]
fn hpack_bomb() {
    let mut session = Session::new();
    session.send(&settings(&[(4, 0)]));
    let mut fill = block(&GET);
    fill.extend_from_slice(&[0x40, 6]);
    fill.extend_from_slice(b"cookie");
    fill.extend_from_slice(&[0x7f, 0xa1, 0x1e]);
    fill.extend_from_slice(&[b'y'; 4000]);
    session.send(&frame(FrameKind::HEADERS, 5, 1, &fill));
    let mut held = 0;
    for count in 1..FLOOD {
        for (stream, crumbs) in [(4 * count + 1, 7), (4 * count + 3, 16_000)] {
            let mut bomb = block(&GET);
            bomb.extend(std::iter::repeat_n(0xbe, crumbs));
            session.send(&frame(FrameKind::HEADERS, 5, stream as u32, &bomb));
            // The owner keeps the heads of all open requests.
            if session.events().iter().any(|line| line.contains(" head ")) {
                held += session.head.fields.capacity_bytes();
                session.head = Default::default();
            }
            session.server.output().clear();
            if session.over.is_some() {
                ends_calmly(&session);
                assert!(held < 512 * 1024, "{held}");
                assert!(session.server.capacity_bytes() < MEMORY);
                return;
            }
        }
    }
    panic!("the connection lives on");
}

/// A name that the table gives, with empty values: fields are counted, not only their bytes.
#[test]
fn empty_crumbs() {
    let mut session = Session::new();
    let mut bomb = block(&GET);
    for _ in 0..5000 {
        bomb.extend_from_slice(&[0x0f, 17, 0]);
    }
    session.send(&frame(FrameKind::HEADERS, 5, 1, &bomb));
    assert_eq!(session.events(), ["1 refused TooMany"]);
    assert!(session.head.fields.capacity_bytes() < 16_384);
}

/// CVE-2019-9518, RUSTSEC-2026-0258 and CVE-2019-9512 to 9517: frames that do nothing.
#[test]
fn floods_of_frames_that_do_nothing() {
    let open = || {
        let mut session = Session::new();
        session.send(&post(1, &[]));
        session
    };
    let floods: [(&str, Vec<u8>); 11] = [
        ("empty data", data(1, 0, b"")),
        ("padded data", data(1, PADDED, b"\x02\0\0")),
        ("bytes", data(1, 0, b"x")),
        ("settings", settings(&[])),
        ("settings acks", frame(FrameKind::SETTINGS, ACK, 0, b"")),
        (
            "answers to no ping",
            frame(FrameKind::PING, ACK, 0, b"12345678"),
        ),
        ("pings", frame(FrameKind::PING, 0, 0, b"12345678")),
        (
            "priorities",
            frame(FrameKind::PRIORITY, 0, 1, b"\0\0\0\0\0"),
        ),
        (
            "priority updates",
            frame(FrameKind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x09u=1"),
        ),
        ("unknown frames", frame(FrameKind(0xbb), 0, 1, b"")),
        (
            "goaways",
            frame(FrameKind::GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0"),
        ),
    ];
    for (name, bytes) in floods {
        let mut session = open();
        let rounds = flood(&mut session, |_| bytes.clone());
        ends_calmly(&session);
        assert!(rounds <= 17_000, "{name}: {rounds}");
    }
    // Window updates of one byte, for the stream and for the connection.
    for stream in [0, 1] {
        let mut session = open();
        let rounds = flood(&mut session, |_| window_update(stream, 1));
        ends_calmly(&session);
        assert!(rounds < 5000, "{rounds}");
    }
    // Frames for a stream that we have reset.
    let mut session = open();
    session.response(1);
    flood(&mut session, |_| data(1, 0, b"late"));
    ends_calmly(&session);
}

/// A peer that does not read: the state machine accepts no more input, whatever it is asked to send.
#[test]
fn unread_responses() {
    let too_many: Vec<u8> = (0..20_000).flat_map(|n| get(2 * n + 1)).collect();
    for many in [
        frame(FrameKind::PING, 0, 0, b"12345678").repeat(20_000),
        settings(&[]).repeat(20_000),
        too_many,
    ] {
        let limits = Limits {
            glitch_points_max: u32::MAX,
            ..Limits::SERVER
        };
        let mut session = Session::with(&limits);
        let mut used = 0;
        while used < many.len() {
            let taken = session.send(&many[used..]);
            if taken == 0 || session.over.is_some() {
                break;
            }
            used += taken;
        }
        assert!(used < many.len());
        assert!(session.server.output().len() < 65_536 + 64);
    }
}

/// Priorities of streams that never come: few are kept, and all are paid for.
#[test]
fn priorities_sent_before_their_streams() {
    let mut session = Session::new();
    let before = session.server.capacity_bytes();
    let rounds = flood(&mut session, |count| {
        let stream = 2 * count as u32 + 1;
        let payload = [&stream.to_be_bytes()[..], b"u=0"].concat();
        frame(FrameKind::PRIORITY_UPDATE, 0, 0, &payload)
    });
    ends_calmly(&session);
    assert!(rounds < 5000, "{rounds}");
    assert!(session.server.capacity_bytes() < before + 1024);
}

/// Windows of one byte: each step needs a frame of the client's, and is paid for.
#[test]
fn windows_given_in_crumbs() {
    let mut session = Session::new();
    session.send(&settings(&[(4, 0)]));
    session.send(&get(1));
    let id = session.begin_response(1, BodyFraming::Chunked);
    for count in 0..FLOOD {
        session.send(&window_update(1, 1));
        let _ = session.server.send_data(id, &[0; 1000], End::Later);
        session.server.output().clear();
        session.events.clear();
        if session.over.is_some() {
            assert!(count < 5000, "{count}");
            return ends_calmly(&session);
        }
    }
    panic!("the connection lives on");
}

/// At three quarters of the budget the connection is drained: the client gets GOAWAY, and its open requests are served.
#[test]
fn an_odd_client_is_sent_away_before_it_is_cut_off() {
    let mut session = Session::new();
    session.send(&get(1));
    let mut events = 0;
    for count in 0..FLOOD {
        session.send(&frame(FrameKind::PING, 0, 0, b"12345678"));
        if session
            .sent()
            .iter()
            .any(|line| line.starts_with("GOAWAY 2147483647"))
        {
            events = count;
            break;
        }
    }
    assert!((3000..3200).contains(&events), "{events}");
    session.response(1);
    assert!(session.sent()[0].starts_with("HEADERS 1 end"));
    session.send(&frame(FrameKind::PING, ACK, 0, b"slc-bye!"));
    assert_eq!(session.sent(), ["GOAWAY 1 NO_ERROR"]);
    assert!(session.server.is_done());
}

/// Requests that end well and time pay for what clients in good faith do.
#[test]
fn usual_clients_are_never_sent_away() {
    // Half of all requests cancelled, for ever.
    let mut session = Session::new();
    for count in 0..20_000u32 {
        let (a, b) = (4 * count + 1, 4 * count + 3);
        session.send(&[get(a), get(b), reset(b, ErrorCode::CANCEL)].concat());
        session.response(a);
        session.release(b);
        session.server.output().clear();
    }
    assert_eq!(session.over, None);
    assert!(session.server.glitch_points() < 100);
    // A stream of small messages, each followed by a window update for stream and connection and by a ping, as in gRPC.
    let mut session = Session::new();
    session.send(&post(1, &[]));
    let id = session.begin_response(1, BodyFraming::Chunked);
    for _ in 0..100_000 {
        session.send(&data(1, 0, b"a message of some length"));
        assert_eq!(
            session.server.send_data(id, b"its answer", End::Later),
            Ok(10)
        );
        session.send(&[window_update(0, 10), window_update(1, 10)].concat());
        session.send(&frame(FrameKind::PING, 0, 0, b"12345678"));
        session.server.output().clear();
        session.events.clear();
    }
    assert_eq!((session.over, session.server.glitch_points()), (None, 0));
    // Keystrokes and pings, ten times a second for two hours.
    let mut session = Session::new();
    session.send(&post(1, &[]));
    for tick in 0..72_000u64 {
        session
            .server
            .calm(Moment::new(Duration::from_millis(100 * tick)));
        session.send(&data(1, 0, b"k"));
        session.send(&frame(FrameKind::PING, 0, 0, b"12345678"));
        session.server.output().clear();
        session.events.clear();
    }
    assert_eq!(session.over, None);
    assert!(session.server.glitch_points() < 100);
}

/// Uploads that nobody reads hold no more than the connection's window, however many streams there are.
#[test]
fn unread_content_is_bounded() {
    let mut session = Session::new();
    session.consumes = false;
    let mut unread = 0;
    for stream in (1..256).step_by(2) {
        session.send(&post(stream, &[]));
    }
    for _ in 0..100 {
        for stream in (1..256).step_by(2) {
            let before: usize = session.events.iter().map(String::len).sum();
            session.send(&data(stream, 0, &[b'x'; 100]));
            unread += session.events.iter().map(String::len).sum::<usize>() - before;
        }
        session.events.clear();
    }
    assert_eq!(session.over.unwrap().reason, Reason::WindowExceeded);
    assert!(unread < 256 * 1024 * 12 / 10, "{unread}");
}
