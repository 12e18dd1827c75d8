//! What must hold for any bytes from a Python worker. Shared by the tests and the fuzz targets.
#![allow(dead_code, reason = "each user checks a part")]

use sluice_message::Fields;
use sluice_wire::python::{
    ControlReader, End, Event, Fault, Form, HopByHop, Lane, StreamId, decode_block,
};

/// The window of the lanes.
pub const WINDOW: u32 = 1000;

/// A lane with an HTTP stream (0x00010001) and a WebSocket (0x00020002), and one HTTP stream that was given up
/// (0x00030003).
pub fn lane() -> (Lane, [StreamId; 3]) {
    let mut lane = Lane::new(WINDOW);
    let ids = [Form::Http, Form::WebSocket, Form::Http].map(|form| {
        let opened = lane.open(form, End::Later, |out| out.extend_from_slice(b"{0"));
        opened.expect("there is room for a stream")
    });
    lane.release(ids[2]);
    lane.output().clear();
    (lane, ids)
}

/// An event, with the bytes of a body together however they arrived.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Body(StreamId, Vec<u8>, End),
    Other(String),
}

/// What a lane makes of `bytes` in pieces of at most `size`: its events, and how it ended.
fn heard(bytes: &[u8], size: usize) -> (Vec<Heard>, Option<Fault>) {
    let (mut lane, ids) = lane();
    let mut all = Vec::new();
    for piece in bytes.chunks(size) {
        let mut at = 0;
        while at < piece.len() {
            let received = match lane.receive(&piece[at..]) {
                Ok(received) => received,
                Err(fault) => return (all, Some(fault)),
            };
            assert!(received.consumed > 0, "it makes progress");
            at += received.consumed;
            assert!(at <= piece.len());
            match (received.event, all.last_mut()) {
                (None, _) => {}
                (Some(Event::Data { id, data, end }), Some(Heard::Body(same, sum, last)))
                    if *same == id && *last == End::Later =>
                {
                    sum.extend_from_slice(data);
                    *last = end;
                }
                (Some(Event::Data { id, data, end }), _) => {
                    all.push(Heard::Body(id, data.to_vec(), end));
                }
                (Some(event), _) => all.push(Heard::Other(format!("{event:?}"))),
            }
        }
    }
    // Whatever was heard, everything can be given up.
    for id in ids {
        lane.release(id);
    }
    (all, None)
}

/// The events of a lane do not depend on how the bytes are split.
pub fn check_lane(bytes: &[u8]) {
    let (mut whole, fault) = heard(bytes, usize::MAX);
    let (mut single, single_fault) = heard(bytes, 1);
    assert_eq!(fault, single_fault);
    if fault.is_some() {
        // Bytes of a body in whose midst the fault is may be reported or not.
        for all in [&mut whole, &mut single] {
            all.retain(|heard| matches!(heard, Heard::Other(_)));
        }
    }
    assert_eq!(whole, single);
    check_control(bytes);
}

/// The frames of a control channel do not depend on how the bytes are split.
fn check_control(bytes: &[u8]) {
    let read = |size: usize| {
        let mut reader = ControlReader::new();
        let mut frames = Vec::new();
        for piece in bytes.chunks(size) {
            let mut at = 0;
            while at < piece.len() {
                match reader.read(&piece[at..]) {
                    Ok((consumed, frame)) => {
                        assert!(consumed > 0);
                        at += consumed;
                        frames.extend(frame.map(|(header, payload)| (header, payload.to_vec())));
                    }
                    Err(fault) => return (frames, Some(fault)),
                }
            }
        }
        (frames, None)
    };
    assert_eq!(read(usize::MAX), read(1));
}

/// What is accepted as a header block cannot inject anything: written out, it is the same block in the end.
pub fn check_block(bytes: &[u8]) {
    for rule in [HopByHop::Refuse, HopByHop::Drop] {
        let mut fields = Fields::new();
        if decode_block(bytes, rule, &mut fields).is_err() {
            assert!(fields.is_empty());
            continue;
        }
        let lines = bytes.windows(2).filter(|pair| pair == b"\r\n").count();
        assert!(fields.len() <= lines);
        if rule == HopByHop::Refuse {
            assert_eq!(fields.len(), lines);
        }
        for field in fields.iter() {
            assert!(!field.name.is_empty());
            let breaks = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
            assert!(!field.value.iter().chain(field.name).any(breaks));
        }
        let mut written = Vec::new();
        fields.write_lines(&mut written, |_| true);
        let mut again = Fields::new();
        decode_block(&written, rule, &mut again).expect("what was accepted is accepted again");
        assert_eq!(again.len(), fields.len());
    }
}
