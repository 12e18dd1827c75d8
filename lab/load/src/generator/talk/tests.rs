//! HTTP/2 against the server side of the same codec, over a byte pipe, and the effects of RST_STREAM and GOAWAY.

use std::io::IoSlice;

use sluice_message::{Fields, RequestHead, Status};
use sluice_wire::h1::BodyFraming;
use sluice_wire::h2::{End, ErrorCode, Event, Limits, Server, StreamId};

use super::*;
use crate::generator::expect::Expect;
use crate::generator::request::Draft;
use crate::generator::target::HttpVersion;
use crate::generator::target::{Reach, Target};

const BODY: &[u8] = b"hello";

const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

struct Pair {
    client: H2,
    server: Server,
    requests: Vec<Prepared>,
    last: LastHead,
    done: Vec<Done>,
    /// Streams whose requests have ended, and bytes of their bodies.
    asked: Vec<StreamId>,
    uploaded: usize,
}

impl Pair {
    fn new(body: &[u8]) -> Self {
        let target = Target::parse(
            "http://127.0.0.1:1/x",
            HttpVersion::Http2,
            None,
            Reach::Loopback,
        )
        .unwrap();
        let draft = Draft {
            body: body.into(),
            ..Draft::default()
        };
        let requests = vec![draft.prepare(&target, Expect::exactly(200, BODY)).unwrap()];
        Pair {
            client: H2::new(4, false),
            server: Server::new(&Limits::DEFAULT, false),
            requests,
            last: LastHead::default(),
            done: Vec::new(),
            asked: Vec::new(),
            uploaded: 0,
        }
    }

    fn begin(&mut self, due: Ns) {
        let flight = Flight {
            request: 0,
            due,
            sent: due,
            first: 0,
        };
        self.client.begin(flight, &self.requests);
    }

    /// Carries bytes both ways until nothing moves. Returns the client's verdict on the connection.
    fn carry(&mut self, now: Ns) -> Result<Keep, Fault> {
        let mut keep = Keep::Open;
        loop {
            let mut pieces = [IoSlice::new(&[])];
            let count = self.client.pieces(&mut pieces);
            let up: Vec<u8> = pieces[..count]
                .iter()
                .flat_map(|piece| piece.to_vec())
                .collect();
            self.client.sent(up.len(), &self.requests);
            self.serve(&up);
            let down = std::mem::take(self.server.output());
            if up.is_empty() && down.is_empty() {
                return Ok(keep);
            }
            let mut desk = Desk {
                requests: &self.requests,
                last: &mut self.last,
                done: &mut self.done,
            };
            keep = self.client.receive(&down, now, &mut desk)?;
        }
    }

    fn serve(&mut self, mut bytes: &[u8]) {
        let mut head = RequestHead::default();
        loop {
            let received = self.server.receive(bytes, &mut head).unwrap();
            bytes = &bytes[received.consumed..];
            match received.event {
                None => return,
                Some(Event::Head { id, end, .. }) if end.is_here() => self.asked.push(id),
                Some(Event::Data { id, data, end }) => {
                    self.uploaded += data.len();
                    self.server.consumed(id, data.len());
                    if end.is_here() {
                        self.asked.push(id);
                    }
                }
                Some(_) => {}
            }
        }
    }

    fn response(&mut self, body: &[u8]) {
        let id = self.asked.remove(0);
        let framing = BodyFraming::Length(body.len() as u64);
        self.server
            .send_head(
                id,
                Status::OK,
                &Fields::default(),
                framing,
                DATE,
                End::Later,
            )
            .unwrap();
        self.server.send_data(id, body, End::Here).unwrap();
        self.server.release(id);
    }

    fn classes(&self) -> Vec<Option<FailureClass>> {
        let outcomes = self.done.iter().map(|done| &done.outcome);
        outcomes
            .map(|outcome| outcome.as_ref().err().map(|lost| lost.class))
            .collect()
    }
}

#[test]
fn streams_get_responses_in_any_order() {
    let mut pair = Pair::new(b"");
    for due in 1..=3 {
        pair.begin(due);
    }
    pair.carry(10).unwrap();
    assert_eq!(pair.asked.len(), 3);
    pair.asked.reverse();
    for body in [BODY, b"HELLO", b"hell"] {
        pair.response(body);
    }
    assert_eq!(pair.carry(20), Ok(Keep::Open));
    let dues: Vec<Ns> = pair.done.iter().map(|done| done.due).collect();
    assert_eq!(dues, [3, 2, 1]);
    let expected = [None, Some(FailureClass::Body), Some(FailureClass::Length)];
    assert_eq!(pair.classes(), expected);
    assert_eq!(pair.client.in_flight(), 0);
}

#[test]
fn uploads_wait_for_windows_and_arrive_whole() {
    let mut pair = Pair::new(&[7; 300_000]);
    pair.begin(1);
    pair.carry(10).unwrap();
    assert_eq!(pair.uploaded, 300_000);
    pair.response(BODY);
    pair.carry(20).unwrap();
    assert_eq!(pair.classes(), [None]);
}

#[test]
fn a_reset_stream_is_its_own_class_and_the_others_go_on() {
    let mut pair = Pair::new(b"");
    pair.begin(1);
    pair.begin(2);
    pair.carry(10).unwrap();
    let id = pair.asked.remove(0);
    pair.server.reset(id, ErrorCode::REFUSED_STREAM);
    pair.server.release(id);
    pair.response(BODY);
    assert_eq!(pair.carry(20), Ok(Keep::Open));
    assert_eq!(pair.classes(), [Some(FailureClass::StreamReset), None]);
}

#[test]
fn a_late_request_is_cancelled_alone() {
    let mut pair = Pair::new(b"");
    pair.begin(100);
    pair.begin(200);
    pair.carry(300).unwrap();
    assert_eq!(pair.client.expire(150, &mut pair.done), Keep::Open);
    assert_eq!(pair.classes(), [Some(FailureClass::HeadTimeout)]);
    pair.asked.remove(0);
    pair.response(BODY);
    pair.carry(400).unwrap();
    assert_eq!(pair.classes(), [Some(FailureClass::HeadTimeout), None]);
}

#[test]
fn goaway_ends_the_connection_after_the_open_responses() {
    let mut pair = Pair::new(b"");
    pair.begin(1);
    pair.carry(10).unwrap();
    pair.server.drain();
    pair.response(BODY);
    let keep = pair.carry(20).unwrap();
    assert_eq!(pair.classes(), [None]);
    assert_eq!(keep, Keep::Closes);
}

/// GOAWAY with the last stream that the server has processed.
fn goaway(last: u32, code: u32) -> Vec<u8> {
    let head = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    [&head[..], &last.to_be_bytes(), &code.to_be_bytes()].concat()
}

#[test]
fn requests_refused_by_a_graceful_goaway_are_sent_again() {
    const NO_ERROR: u32 = 0;
    const INTERNAL_ERROR: u32 = 2;
    for (code, what) in [
        (NO_ERROR, What::Unprocessed),
        (INTERNAL_ERROR, What::Flight),
    ] {
        let mut pair = Pair::new(b"");
        pair.begin(1);
        pair.begin(2);
        pair.carry(10).unwrap();
        let mut desk = Desk {
            requests: &pair.requests,
            last: &mut pair.last,
            done: &mut pair.done,
        };
        // The server has processed the first of the two.
        let keep = pair.client.receive(&goaway(1, code), 20, &mut desk);
        assert_eq!(keep, Ok(Keep::Open));
        assert!(pair.client.is_leaving());
        let refused = pair.done.pop().unwrap();
        assert_eq!((refused.due, refused.what), (2, what));
        let class = refused.outcome.map_err(|lost| lost.class);
        assert_eq!(class, Err(FailureClass::GoAway));
        assert_eq!((pair.client.in_flight(), pair.done.len()), (1, 0));
    }
}

/// One HTTP/1 response and what follows it, after `begun` requests. Returns what has ended, by class.
fn h1(begun: usize, input: &[u8]) -> (Vec<Option<FailureClass>>, bool) {
    let target = Target::parse(
        "http://127.0.0.1:1/x",
        HttpVersion::Http1,
        None,
        Reach::Loopback,
    )
    .unwrap();
    let requests = vec![
        Draft::default()
            .prepare(&target, Expect::exactly(200, BODY))
            .unwrap(),
    ];
    let (mut talk, mut last, mut done) = (H1::default(), LastHead::default(), Vec::new());
    for _ in 0..begun {
        talk.begin(Flight {
            request: 0,
            due: 1,
            sent: 1,
            first: 0,
        });
    }
    let mut desk = Desk {
        requests: &requests,
        last: &mut last,
        done: &mut done,
    };
    let usable = talk.receive(input, 5, &mut desk).is_ok();
    let class = |done: &Done| done.outcome.as_ref().err().map(|lost| lost.class);
    (done.iter().map(class).collect(), usable)
}

#[test]
fn bytes_behind_a_response_make_it_a_failure() {
    let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let twice = [&whole[..], &whole[..]].concat();
    let malformed = Some(FailureClass::Malformed);
    assert_eq!(h1(1, whole), (vec![None], true));
    assert_eq!(h1(2, &twice), (vec![None, None], true));
    assert_eq!(h1(1, &twice), (vec![malformed], false));
    assert_eq!(
        h1(1, &[whole, &b"\n"[..]].concat()),
        (vec![malformed], false)
    );
    // Between two requests.
    assert_eq!(h1(0, b"\n"), (vec![malformed], false));
}
