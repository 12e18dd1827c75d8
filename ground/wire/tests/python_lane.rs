//! Lanes of Python workers: both ends on a simulated link, in pieces of any size, and workers that break the rules.

use std::collections::VecDeque;

use sluice_message::Status;
use sluice_wire::limits::{PYTHON_MESSAGE_BYTES_MAX, PYTHON_PAYLOAD_BYTES_MAX};
use sluice_wire::python::{
    End, ErrorStage, Event, Fault, Form, Header, Kind, Lane, MessageKind, StreamId,
};
use sluice_wire::websocket::MessagePart;

use crate::feed_python;
use crate::support::Random;

const WINDOW: u32 = 1000;

/// A frame as a worker writes it.
fn frame(kind: Kind, stream: u32, flags: u8, small: u16, large: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        length: payload.len() as u32,
        stream,
        kind,
        flags,
        small,
        large,
    };
    [&header.encode()[..], payload].concat()
}

fn response(id: StreamId, flags: u8, block: &str, body: &[u8]) -> Vec<u8> {
    let payload = [block.as_bytes(), body].concat();
    let length = block.len() as u32;
    frame(Kind::Response, id.number(), flags, 200, length, &payload)
}

fn body(id: StreamId, flags: u8, data: &[u8]) -> Vec<u8> {
    frame(Kind::ResponseBody, id.number(), flags, 0, 0, data)
}

/// An event as text, with the bytes of a body in one place however they arrived.
fn shown(event: &Event<'_>) -> String {
    match event {
        Event::Data { id, data, end } => {
            format!("data {} {} {end:?}", id.number(), data.escape_ascii())
        }
        other => format!("{other:?}"),
    }
}

/// What a lane makes of `bytes` in pieces of these sizes; adjacent data of a stream is joined.
fn heard(lane: &mut Lane, bytes: &[u8], mut size: impl FnMut() -> usize) -> Result<String, Fault> {
    let mut all = String::new();
    let mut joined: Option<(StreamId, Vec<u8>, End)> = None;
    let mut at = 0;
    while at < bytes.len() {
        let upto = (at + size()).min(bytes.len());
        while at < upto {
            let received = lane.receive(&bytes[at..upto])?;
            assert!(received.consumed > 0);
            at += received.consumed;
            match received.event {
                None => {}
                Some(Event::Data { id, data, end }) => match &mut joined {
                    Some((same, sum, last)) if *same == id => {
                        sum.extend_from_slice(data);
                        *last = end;
                    }
                    other => {
                        flush(other, &mut all);
                        *other = Some((id, data.to_vec(), end));
                    }
                },
                Some(event) => {
                    flush(&mut joined, &mut all);
                    all.push_str(&shown(&event));
                    all.push('\n');
                }
            }
        }
    }
    flush(&mut joined, &mut all);
    Ok(all)
}

fn flush(joined: &mut Option<(StreamId, Vec<u8>, End)>, all: &mut String) {
    if let Some((id, data, end)) = joined.take() {
        let data = &data[..];
        all.push_str(&shown(&Event::Data { id, data, end }));
        all.push('\n');
    }
}

fn opened(lane: &mut Lane, form: Form) -> StreamId {
    let write = |out: &mut Vec<u8>| out.extend_from_slice(b"{0");
    let id = lane
        .open(form, End::Later, write)
        .expect("the test writes it well");
    lane.output().clear();
    id
}

/// The frames in a lane's output.
fn sent(lane: &mut Lane) -> Vec<(Header, Vec<u8>)> {
    let output = std::mem::take(lane.output());
    let mut rest = &output[..];
    let mut frames = Vec::new();
    while let Some((head, more)) = rest.split_first_chunk::<16>() {
        let header = Header::decode(head).expect("the test writes it well");
        let (payload, more) = more.split_at(header.length as usize);
        frames.push((header, payload.to_vec()));
        rest = more;
    }
    assert!(rest.is_empty());
    frames
}

#[test]
fn what_a_worker_says_does_not_depend_on_how_it_is_split() {
    let script = |lane: &mut Lane| {
        let ids: Vec<StreamId> = (0..4).map(|_| opened(lane, Form::Http)).collect();
        let socket = opened(lane, Form::WebSocket);
        let part = [7_u64.to_le_bytes(), 5_u64.to_le_bytes()].concat();
        let number = |at: usize| ids[at].number();
        [
            response(ids[0], 1, "A: b\r\n", b"hello"),
            response(ids[1], 0, "", b""),
            frame(Kind::EarlyHints, number(2), 0, 0, 0, b"Link: x\r\n"),
            frame(Kind::RequestCredit, number(2), 0, 0, 10, b""),
            body(ids[1], 0, b"one"),
            body(ids[1], 0, b""),
            body(ids[1], 1, b"two"),
            response(ids[2], 0, "C: d\r\n", b"x"),
            frame(Kind::File, number(2), 0, 0, 0, &part),
            frame(Kind::Trailers, number(2), 1, 0, 0, b"T: u\r\n"),
            frame(Kind::Accept, socket.number(), 0, 0, 0, b""),
            frame(Kind::Message, socket.number(), 2, 0, 0, "é".as_bytes()),
            frame(Kind::Message, socket.number(), 0, 0, 0, b"\xff"),
            frame(Kind::Message, socket.number(), 6, 0, 0, "gr".as_bytes()),
            frame(Kind::Message, socket.number(), 2, 0, 0, "üße".as_bytes()),
            frame(Kind::Close, socket.number(), 1, 1000, 0, b"bye"),
            frame(Kind::Error, number(3), 1, 1, 0, b"Traceback"),
        ]
        .concat()
    };
    let mut lane = Lane::new(WINDOW);
    let bytes = script(&mut lane);
    let whole = heard(&mut lane, &bytes, || usize::MAX / 2).expect("the test writes it well");
    assert_eq!(whole.lines().count(), 17, "{whole}");
    assert!(
        whole.contains("offset: 7, length: 5, end: Later"),
        "{whole}"
    );
    for seed in 0..200 {
        let mut random = Random(seed * 7 + 1);
        let mut lane = Lane::new(WINDOW);
        let bytes = script(&mut lane);
        let size = || match seed {
            0 => 1,
            _ => 1 + random.below(40),
        };
        assert_eq!(
            heard(&mut lane, &bytes, size).as_deref(),
            Ok(&whole[..]),
            "seed {seed}"
        );
    }
}

#[test]
fn requests_are_one_frame_with_their_dictionary() {
    let mut lane = Lane::new(WINDOW);
    let write = |out: &mut Vec<u8>| out.extend_from_slice(b"{...0");
    let id = lane
        .open(Form::Http, End::Here, write)
        .expect("the test writes it well");
    let other = lane
        .open(Form::WebSocket, End::Later, write)
        .expect("the test writes it well");
    assert_ne!((id, id.slot()), (other, other.slot()));
    let frames = sent(&mut lane);
    assert_eq!(frames.len(), 2);
    assert_eq!((frames[0].0.kind, frames[0].0.flags), (Kind::Request, 1));
    assert_eq!((frames[1].0.kind, frames[1].0.flags), (Kind::Request, 2));
    assert_eq!(frames[0].0.stream, id.number());
    assert_eq!(frames[1].1, b"{...0");
    let huge = |out: &mut Vec<u8>| out.resize(out.len() + PYTHON_PAYLOAD_BYTES_MAX as usize + 1, 0);
    assert!(lane.open(Form::Http, End::Here, huge).is_none());
    assert!(lane.output().is_empty(), "nothing is left of it");
    assert_eq!(lane.open_streams(), 2);
}

#[test]
fn a_request_body_waits_for_credit() {
    let mut lane = Lane::new(WINDOW);
    let id = opened(&mut lane, Form::Http);
    assert_eq!(lane.send_body(id, &[b'a'; 700], End::Later), 700);
    assert_eq!(lane.send_body(id, &[b'b'; 700], End::Here), 300);
    assert_eq!(lane.capacity(id), Some(0));
    assert_eq!(lane.send_body(id, b"c", End::Here), 0);
    let frames = sent(&mut lane);
    assert_eq!(frames.len(), 2);
    assert!(
        frames.iter().all(|(header, _)| header.flags == 0),
        "not the end yet"
    );
    let credit = frame(Kind::RequestCredit, id.number(), 0, 0, 500, b"");
    let event = lane
        .receive(&credit)
        .expect("the test writes it well")
        .event;
    assert_eq!(event, Some(Event::Credit { id, held: 500 }));
    assert_eq!(lane.send_body(id, &[b'b'; 400], End::Here), 400);
    assert_eq!(lane.capacity(id), None, "the end was sent");
    assert_eq!(sent(&mut lane)[0].0.flags, 1);
    let other = opened(&mut lane, Form::Http);
    assert_eq!(lane.send_body(other, b"", End::Later), 0);
    assert!(sent(&mut lane).is_empty());
    lane.send_body(other, b"", End::Here);
    assert_eq!(sent(&mut lane)[0].0.end(), End::Here);
}

#[test]
fn a_worker_gets_credit_for_what_was_consumed() {
    let mut lane = Lane::new(WINDOW);
    let id = opened(&mut lane, Form::Http);
    let bytes = response(id, 0, "A: b\r\n", &[b'x'; 1000]);
    heard(&mut lane, &bytes, || 100).expect("the test writes it well");
    lane.consumed(id, 249);
    assert!(sent(&mut lane).is_empty(), "not worth a frame");
    lane.consumed(id, 1);
    let frames = sent(&mut lane);
    assert_eq!(
        (frames[0].0.kind, frames[0].0.large),
        (Kind::ResponseCredit, 250)
    );
    heard(&mut lane, &body(id, 0, &[b'y'; 250]), || 100).expect("the test writes it well");
    assert_eq!(lane.receive(&body(id, 0, b"y")).unwrap_err(), Fault::Window);
}

#[test]
fn messages_to_a_worker_wait_for_credit_before_their_first_piece() {
    let mut lane = Lane::new(WINDOW);
    let id = opened(&mut lane, Form::WebSocket);
    let kind = MessageKind::Text;
    assert_eq!(
        lane.send_piece(id, kind, &[b'a'; 472], MessagePart::Last),
        Some(600)
    );
    // Each piece counts 128 bytes besides.
    assert_eq!(lane.may_send_piece(id, 272), Some(true));
    assert_eq!(lane.may_send_piece(id, 273), Some(false));
    assert_eq!(
        lane.send_piece(id, kind, &[b'b'; 272], MessagePart::More),
        Some(1000)
    );
    // What was begun goes on: the application receives nothing of it, and gives no credit, before its end.
    for held in [5128, 9256] {
        assert_eq!(lane.may_send_piece(id, 4000), Some(true));
        assert_eq!(
            lane.send_piece(id, kind, &[b'c'; 4000], MessagePart::More),
            Some(held)
        );
    }
    assert_eq!(
        lane.send_piece(id, kind, b"", MessagePart::Last),
        Some(9384)
    );
    assert_eq!(lane.may_send_piece(id, 1), Some(false));
    let flags: Vec<u8> = sent(&mut lane).iter().map(|(h, _)| h.flags).collect();
    assert_eq!(flags, [2, 6, 6, 6, 2]);
    let credit = |count| frame(Kind::RequestCredit, id.number(), 0, 0, count, b"");
    let event = |held| Some(Event::Credit { id, held });
    assert_eq!(lane.receive(&credit(600)).unwrap().event, event(8784));
    assert_eq!(lane.may_send_piece(id, 1), Some(false));
    assert_eq!(lane.receive(&credit(8784)).unwrap().event, event(0));
    assert_eq!(
        lane.may_send_piece(id, 5000),
        Some(true),
        "all of it is free"
    );
    let long = vec![0; PYTHON_MESSAGE_BYTES_MAX as usize + 1];
    assert_eq!(lane.send_piece(id, kind, &long, MessagePart::Last), None);
    lane.send_close(id, 1000, b"");
    assert_eq!(lane.send_piece(id, kind, b"x", MessagePart::Last), None);
}

#[test]
fn no_message_of_a_worker_exceeds_the_window() {
    let accepted = |lane: &mut Lane| {
        let id = opened(lane, Form::WebSocket);
        lane.receive(&frame(Kind::Accept, id.number(), 0, 0, 0, b""))
            .expect("the test writes it well");
        id
    };
    let mut lane = Lane::new(WINDOW);
    let id = accepted(&mut lane);
    let piece = |flags, length| frame(Kind::Message, id.number(), flags, 0, 0, &vec![0; length]);
    // Four windows, of which one is here at a time.
    for round in 0..4 {
        let flags = if round < 3 { 4 } else { 0 };
        heard(&mut lane, &piece(flags, 872), || 999).expect("the test writes it well");
        lane.consumed(id, 999);
        lane.consumed(id, 1);
        let credit: u32 = sent(&mut lane).iter().map(|(header, _)| header.large).sum();
        assert_eq!(credit, 1000, "the last byte frees the window");
    }
    heard(&mut lane, &piece(4, 745), || 1000).expect("the test writes it well");
    // Not even an empty one.
    assert_eq!(heard(&mut lane, &piece(0, 0), || 1000), Err(Fault::Window));
    let mut lane = Lane::new(u32::MAX);
    let id = accepted(&mut lane);
    let length = PYTHON_MESSAGE_BYTES_MAX + 1;
    let mut header = Header::new(Kind::Message, id.number(), length as usize);
    header.flags = 4;
    let fault = Fault::Length {
        kind: Kind::Message,
        length,
    };
    assert_eq!(lane.receive(&header.encode()).unwrap_err(), fault);
    let mut lane = Lane::new(WINDOW);
    let id = accepted(&mut lane);
    let mixed = [
        frame(Kind::Message, id.number(), 6, 0, 0, b"text"),
        frame(Kind::Message, id.number(), 0, 0, 0, b"bytes"),
    ];
    let fault = Fault::Order(Kind::Message);
    assert_eq!(heard(&mut lane, &mixed.concat(), || 5), Err(fault));
}

#[test]
fn a_stream_that_was_given_up_is_free_when_the_worker_says_so() {
    let mut lane = Lane::new(WINDOW);
    let id = opened(&mut lane, Form::Http);
    heard(&mut lane, &response(id, 0, "", b"abc"), || 7).expect("the test writes it well");
    assert!(!lane.release(id));
    assert_eq!(sent(&mut lane)[0].0.kind, Kind::Cancel);
    assert!(!lane.release(id), "twice changes nothing");
    assert!(sent(&mut lane).is_empty());
    assert_eq!(
        heard(&mut lane, &body(id, 0, &[b'x'; 900]), || 50).expect("the test writes it well"),
        ""
    );
    assert_eq!(lane.open_streams(), 1);
    let file = frame(Kind::File, id.number(), 0, 0, 0, &[0; 16]);
    let end = End::Later;
    let event = lane.receive(&file).expect("the test writes it well").event;
    assert_eq!(
        event,
        Some(Event::DroppedFile { id, end }),
        "its descriptor is there"
    );
    let end = body(id, 1, b"");
    let event = lane.receive(&end).expect("the test writes it well").event;
    assert_eq!(event, Some(Event::Freed { id }));
    assert_eq!(lane.open_streams(), 0);
    let next = opened(&mut lane, Form::Http);
    assert_eq!(next.slot(), id.slot());
    assert_ne!(next, id);
    assert!(lane.release(id), "the old one is none any more");
    assert_eq!(lane.open_streams(), 1);
}

#[test]
fn a_stream_that_takes_too_long_is_stopped_even_after_it_was_given_up() {
    let mut lane = Lane::new(WINDOW);
    for is_released_before in [false, true] {
        let id = opened(&mut lane, Form::Http);
        if is_released_before {
            lane.release(id);
            sent(&mut lane);
        }
        lane.stop(id);
        let header = sent(&mut lane)[0].0;
        assert_eq!((header.kind, header.small), (Kind::Cancel, 1));
        assert!(!lane.release(id));
        assert!(sent(&mut lane).is_empty());
        let end = body(id, 1, b"");
        let event = lane.receive(&end).unwrap().event;
        assert_eq!(event, Some(Event::Freed { id }));
        lane.stop(id);
        assert!(sent(&mut lane).is_empty());
    }
}

#[test]
fn a_lost_websocket_is_closed_with_1006() {
    let mut lane = Lane::new(WINDOW);
    let id = opened(&mut lane, Form::WebSocket);
    assert!(!lane.release(id));
    let frames = sent(&mut lane);
    let header = frames[0].0;
    assert_eq!(
        (header.kind, header.small, header.flags),
        (Kind::ClientClose, 1006, 1)
    );
    let close = frame(Kind::Close, id.number(), 1, 1006, 0, b"");
    assert_eq!(
        lane.receive(&close).expect("the test writes it well").event,
        Some(Event::Freed { id })
    );
    // One that the client has closed is not closed again.
    let id = opened(&mut lane, Form::WebSocket);
    lane.send_close(id, 1001, b"going");
    assert_eq!(sent(&mut lane)[0].1, b"going");
    assert_eq!(lane.may_send_piece(id, 1), None);
    lane.send_close(id, 1001, b"going");
    lane.release(id);
    assert!(sent(&mut lane).is_empty());
}

#[test]
fn a_stream_that_has_ended_is_free_at_once() {
    let mut lane = Lane::new(WINDOW);
    let id = opened(&mut lane, Form::Http);
    heard(&mut lane, &response(id, 1, "", b"abc"), || 7).expect("the test writes it well");
    lane.consumed(id, 3);
    assert!(lane.send_body(id, b"late", End::Here) == 0);
    assert!(lane.release(id));
    assert!(sent(&mut lane).is_empty());
    let late = frame(Kind::RequestCredit, id.number(), 0, 0, 9, b"");
    assert!(
        lane.receive(&late)
            .expect("the test writes it well")
            .event
            .is_none(),
        "the rest of the body was read"
    );
    lane.shrink();
    assert_eq!(lane.open_streams(), 0);
}

/// Frames for a stream, and the fault that they are.
type Breach = (Box<dyn Fn(u32) -> Vec<u8>>, Fault);

fn breach(fault: Fault, bytes: impl Fn(u32) -> Vec<u8> + 'static) -> Breach {
    (Box::new(bytes), fault)
}

/// One frame.
fn one(kind: Kind, flags: u8, small: u16, payload: &'static [u8]) -> impl Fn(u32) -> Vec<u8> {
    move |number| frame(kind, number, flags, small, 0, payload)
}

fn order_breaches() -> Vec<Breach> {
    let order = |kind| breach(Fault::Order(kind), one(kind, 1, 0, b""));
    let twice = |n| [response_for(n), response_for(n)].concat();
    vec![
        order(Kind::ResponseBody),
        order(Kind::Trailers),
        order(Kind::Accept),
        order(Kind::Message),
        order(Kind::Close),
        breach(Fault::Order(Kind::Response), twice),
        breach(Fault::Order(Kind::File), one(Kind::File, 1, 0, &[0; 16])),
    ]
}

fn content_breaches() -> Vec<Breach> {
    let part = [u64::MAX.to_le_bytes(), 5_u64.to_le_bytes()].concat();
    let long = vec![b'x'; 1 << 20];
    let (kind, length) = (Kind::EarlyHints, 1 << 20);
    let too_much = |n| {
        let body = frame(Kind::ResponseBody, n, 0, 0, 0, &[0; 1001]);
        [response_for(n), body].concat()
    };
    vec![
        breach(Fault::Status(103), one(Kind::Response, 0, 103, b"")),
        breach(Fault::Status(2000), one(Kind::Response, 0, 2000, b"")),
        breach(Fault::Kind(1), one(Kind::Request, 0, 0, b"")),
        breach(Fault::Kind(0x50), one(Kind::Ready, 0, 0, b"")),
        breach(Fault::Text(Kind::Error), one(Kind::Error, 1, 1, b"\xff")),
        breach(Fault::Window, too_much),
        breach(Fault::Block, |n| {
            frame(Kind::Response, n, 0, 200, 4, b"abc")
        }),
        breach(Fault::Credit, |n| {
            frame(Kind::RequestCredit, n, 0, 0, u32::MAX, b"")
        }),
        breach(Fault::File, move |n| {
            [response_for(n), frame(Kind::File, n, 1, 0, 0, &part)].concat()
        }),
        breach(Fault::Length { kind, length }, move |n| {
            frame(kind, n, 0, 0, 0, &long)
        }),
    ]
}

#[test]
fn breaches_of_the_protocol_are_faults() {
    for (bytes, fault) in order_breaches().into_iter().chain(content_breaches()) {
        for size in [1, 7, 1 << 30] {
            let mut lane = Lane::new(WINDOW);
            let id = opened(&mut lane, Form::Http);
            assert_eq!(heard(&mut lane, &bytes(id.number()), || size), Err(fault));
        }
    }
    let mut lane = Lane::new(WINDOW);
    let number = opened(&mut lane, Form::Http).number() + 1;
    let found = heard(&mut lane, &response_for(number), || 16);
    assert_eq!(found, Err(Fault::Stream(number)));
}

fn response_for(stream: u32) -> Vec<u8> {
    frame(Kind::Response, stream, 0, 200, 0, b"")
}

/// A worker that sends each body back, with windows of its own.
#[derive(Default)]
struct Echo {
    input: Vec<u8>,
    /// Per stream: what is to be sent, what may be sent, whether the request has ended, whether the head was sent.
    streams: Vec<(u32, VecDeque<u8>, i64, bool, bool)>,
}

impl Echo {
    /// Takes frames and returns what it sends.
    fn turn(&mut self, bytes: &[u8], random: &mut Random) -> Vec<u8> {
        self.input.extend_from_slice(bytes);
        let mut out = Vec::new();
        while let Some(head) = self.input.first_chunk::<16>() {
            let header = Header::decode(head).expect("the test writes it well");
            let total = 16 + header.length as usize;
            if self.input.len() < total {
                break;
            }
            let frame_bytes: Vec<u8> = self.input.drain(..total).collect();
            self.heed(&header, &frame_bytes[16..], &mut out);
        }
        for (number, data, window, is_done, is_begun) in &mut self.streams {
            if !*is_begun {
                out.extend(response_for(*number));
                *is_begun = true;
            }
            let count = data.len().min(*window as usize).min(1 + random.below(300));
            let bytes: Vec<u8> = data.drain(..count).collect();
            *window -= count as i64;
            let is_last = *is_done && data.is_empty();
            if count > 0 || is_last {
                let flags = u8::from(is_last);
                out.extend(frame(Kind::ResponseBody, *number, flags, 0, 0, &bytes));
                // What was sent on is worth credit.
                out.extend(frame(Kind::RequestCredit, *number, 0, 0, count as u32, b""));
            }
        }
        self.streams
            .retain(|(_, data, _, is_done, _)| !*is_done || !data.is_empty());
        out
    }

    fn heed(&mut self, header: &Header, payload: &[u8], out: &mut Vec<u8>) {
        let number = header.stream;
        let found = self.streams.iter_mut().find(|stream| stream.0 == number);
        match (header.kind, found) {
            (Kind::Request, None) => {
                let window = i64::from(WINDOW);
                self.streams
                    .push((number, VecDeque::new(), window, false, false));
            }
            (Kind::RequestBody, Some(stream)) => {
                stream.1.extend(payload);
                assert!(
                    stream.1.len() <= 2 * WINDOW as usize,
                    "bounded by the window"
                );
                stream.3 |= header.end().is_here();
            }
            (Kind::ResponseCredit, Some(stream)) => stream.2 += i64::from(header.large),
            (Kind::Cancel, Some(_)) => {
                self.streams.retain(|stream| stream.0 != number);
                out.extend(frame(Kind::ResponseBody, number, 1, 0, 0, b""));
            }
            // For a stream that has ended here.
            (_, None) => {}
            (kind, Some(_)) => panic!("{kind:?}"),
        }
    }
}

/// A client of the simulated link.
struct Client {
    id: StreamId,
    seed: u8,
    to_send: usize,
    received: usize,
    unread: usize,
    is_given_up: bool,
}

#[test]
fn many_streams_share_a_lane_and_each_gets_its_own_bytes() {
    for seed in 1..40 {
        let mut random = Random(seed * 77);
        simulate(&mut random).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

fn simulate(random: &mut Random) -> Result<(), Fault> {
    let (mut lane, mut worker) = (Lane::new(WINDOW), Echo::default());
    let mut clients: Vec<Client> = Vec::new();
    let (mut begun, mut done) = (0, 0);
    let mut back: VecDeque<u8> = VecDeque::new();
    while done < 60 {
        if begun < 60 && random.below(3) == 0 {
            let id = lane
                .open(Form::Http, End::Later, |out| out.push(b'{'))
                .expect("the test writes it well");
            let to_send = 1 + random.below(5000);
            clients.push(Client {
                id,
                seed: begun as u8,
                to_send,
                received: 0,
                unread: 0,
                is_given_up: false,
            });
            begun += 1;
        }
        for client in &mut clients {
            step(&mut lane, client, random);
        }
        let output = std::mem::take(lane.output());
        back.extend(worker.turn(&output, random));
        let count = random.below(back.len() + 1);
        let input: Vec<u8> = back.drain(..count).collect();
        let mut at = 0;
        while at < input.len() {
            let received = lane.receive(&input[at..])?;
            at += received.consumed;
            let ended = match received.event {
                Some(Event::Data { id, data, end }) => {
                    let client = clients
                        .iter_mut()
                        .find(|client| client.id == id)
                        .expect("the test writes it well");
                    assert!(data.iter().all(|byte| *byte == client.seed));
                    client.received += data.len();
                    client.unread += data.len();
                    end.is_here().then_some(id)
                }
                Some(Event::Freed { id }) => Some(id),
                _ => None,
            };
            if let Some(id) = ended {
                let at = clients
                    .iter()
                    .position(|client| client.id == id)
                    .expect("the test writes it well");
                let client = clients.swap_remove(at);
                assert!(client.is_given_up || client.to_send == 0 && client.received > 0);
                assert!(lane.release(id));
                done += 1;
            }
        }
    }
    assert_eq!(lane.open_streams(), 0);
    Ok(())
}

fn step(lane: &mut Lane, client: &mut Client, random: &mut Random) {
    if client.is_given_up {
        return;
    }
    if random.below(200) == 0 {
        client.is_given_up = true;
        lane.release(client.id);
        return;
    }
    let count = random.below(client.to_send + 1).min(400);
    let end = End::here_if(count == client.to_send && count > 0);
    if count > 0 {
        client.to_send -= lane.send_body(client.id, &vec![client.seed; count], end);
    }
    let read = random.below(client.unread + 1);
    lane.consumed(client.id, read);
    client.unread -= read;
}

#[test]
fn random_bytes_never_panic() {
    for seed in 1..2000 {
        let mut random = Random(seed);
        let mut lane = Lane::new(WINDOW);
        let id = opened(&mut lane, Form::Http);
        opened(&mut lane, Form::WebSocket);
        let mut bytes = Vec::new();
        for _ in 0..random.below(8) {
            let kinds = [
                0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x50,
            ];
            let length = random.below(40);
            bytes.extend((length as u32).to_le_bytes());
            bytes.extend((id.number() + random.below(3) as u32).to_le_bytes());
            bytes.push(kinds[random.below(kinds.len())]);
            bytes.push(random.below(4) as u8);
            bytes.extend((random.below(700) as u16).to_le_bytes());
            bytes.extend((random.below(20) as u32).to_le_bytes());
            bytes.extend((0..length).map(|_| random.below(256) as u8));
        }
        let whole = heard(&mut lane, &bytes, || usize::MAX / 2);
        let mut other = Lane::new(WINDOW);
        opened(&mut other, Form::Http);
        opened(&mut other, Form::WebSocket);
        assert_eq!(heard(&mut other, &bytes, || 1), whole, "seed {seed}");
    }
}

#[test]
fn errors_say_when_the_application_failed() {
    for (small, stage) in [
        (1, ErrorStage::BeforeResponse),
        (2, ErrorStage::AfterHead),
        (3, ErrorStage::Rules),
    ] {
        let mut lane = Lane::new(WINDOW);
        let id = opened(&mut lane, Form::Http);
        let bytes = frame(Kind::Error, id.number(), 1, small, 0, "é".as_bytes());
        let event = lane.receive(&bytes).expect("the test writes it well").event;
        let text = "é";
        assert_eq!(event, Some(Event::Error { id, stage, text }));
        assert!(lane.release(id));
    }
    assert_eq!(Status::new(200).map(Status::code), Some(200));
}

/// The seeds of a fuzz target with some bytes changed, many times.
fn mutate(target: &str, rounds: u64, check: impl Fn(&[u8])) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
    let entries = std::fs::read_dir(format!("{folder}/{target}")).expect("there are seeds");
    for entry in entries {
        let path = entry.expect("the folder can be read").path();
        let seed = std::fs::read(&path).expect("the seed can be read");
        for round in 1..=rounds {
            let mut random = Random(round * 31);
            let mut bytes = seed.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() + 1);
                match random.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, random.below(256) as u8),
                    _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                    _ => bytes.extend_from_slice(&seed),
                }
            }
            println!("{} round {round}", path.display());
            check(&bytes);
        }
    }
}

#[test]
fn changed_bytes_give_values_or_errors_however_they_are_split() {
    mutate("python_lane", 500, feed_python::check_lane);
    mutate("python_block", 500, feed_python::check_block);
}
