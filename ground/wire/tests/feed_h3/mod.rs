//! Feeds the same bytes of HTTP/3 streams in one piece, split in two at many positions, and one by one. The result must
//! not depend on how they were cut. The tests state the expected result.

#![allow(dead_code)]

use sluice_message::{Fields, Method, RequestHead, ResponseHead, Status, Version};
use sluice_wire::h1::BodyFraming;
use sluice_wire::h3::qpack::{Decoder, Outcome};
use sluice_wire::h3::{
    Code, ControlReader, Follows, HeadReader, HeadWriter, Limits, MessageReader, Part, PeerEvent,
    PeerStreams, Read,
};
use sluice_wire::sections::{End, HeadLimits};

/// Small, so that a fuzzer reaches it.
pub const LIMITS: Limits = Limits {
    block_bytes_max: 200,
    table_bytes_max: 220,
    blocked_streams_max: 2,
    control_frame_bytes_max: 64,
};

/// Ways to cut `bytes`: whole, byte by byte, and in two at up to 64 places.
fn cuts(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let step = bytes.len() / 64 + 1;
    let mut all = vec![vec![bytes], bytes.chunks(1).collect()];
    all.extend((1..bytes.len()).step_by(step).map(|at| {
        let (first, second) = bytes.split_at(at);
        vec![first, second]
    }));
    all
}

/// Asserts that `read` gives the same for all cuts.
fn check_cuts<T: PartialEq + std::fmt::Debug>(bytes: &[u8], read: impl Fn(&[&[u8]]) -> T) {
    let mut results = cuts(bytes).into_iter().map(|cut| read(&cut));
    let whole = results.next().expect("there is one");
    for (at, result) in results.enumerate() {
        assert_eq!(result, whole, "cut {at}");
    }
}

/// The stream of a request; the first byte says what follows its head.
pub fn check_message(bytes: &[u8]) {
    let Some((first, stream)) = bytes.split_first() else {
        return;
    };
    let follows = match first % 4 {
        0 => Follows::Content,
        1 => Follows::Length(5),
        2 => Follows::Tunnel,
        _ => Follows::Head,
    };
    check_cuts(stream, |pieces| read_message(follows, pieces));
}

/// The parts as lines, with content joined, and how the stream ends.
fn read_message(follows: Follows, pieces: &[&[u8]]) -> (Vec<String>, Vec<u8>, String) {
    let mut reader = MessageReader::default();
    let (mut parts, mut content) = (Vec::new(), Vec::new());
    let mut heads = 0;
    for piece in pieces {
        let mut input = *piece;
        loop {
            let mut is_head = false;
            match reader.receive(&mut input, &LIMITS) {
                Ok(None) => break,
                Ok(Some(Part::Head(block))) => {
                    assert!(block.len() <= LIMITS.block_bytes_max);
                    parts.push(format!("head {}", block.escape_ascii()));
                    is_head = true;
                }
                Ok(Some(Part::HeadTooLarge)) => parts.push("too large".to_owned()),
                Ok(Some(Part::Data(bytes))) => {
                    assert!(!bytes.is_empty());
                    content.extend_from_slice(bytes);
                }
                Ok(Some(Part::Trailers(block))) => {
                    parts.push(format!("trailers {}", block.escape_ascii()));
                }
                Err(fault) => return (parts, content, format!("{fault:?}")),
            }
            assert!(reader.capacity_bytes() <= 2 * LIMITS.block_bytes_max + 64);
            if is_head {
                heads += 1;
                reader.expect(if heads > 1 { Follows::Content } else { follows });
            }
        }
        assert!(input.is_empty(), "nothing is left for later");
    }
    let glitches = reader.take_glitches();
    (parts, content, format!("{:?} {glitches}", reader.end()))
}

/// A control stream; the first byte says whose.
pub fn check_control(bytes: &[u8]) {
    let Some((first, stream)) = bytes.split_first() else {
        return;
    };
    check_cuts(stream, |pieces| {
        let mut reader = match first % 2 {
            0 => ControlReader::of_client(),
            _ => ControlReader::of_server(),
        };
        let mut events = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            loop {
                match reader.receive(&mut input, &LIMITS) {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(code) => return (events, Some(code), 0),
                }
            }
        }
        (events, None, reader.take_glitches())
    });
}

/// The streams that a peer opens in one direction. The first byte says whose; then each byte says which of four streams goes
/// on, and how many bytes follow of it, none for its end.
pub fn check_peer_streams(bytes: &[u8]) {
    let Some((first, mut rest)) = bytes.split_first() else {
        return;
    };
    let mut steps = Vec::new();
    while let Some((which, more)) = rest.split_first() {
        let (piece, behind) = more.split_at(more.len().min(usize::from(which / 4)));
        steps.push((u64::from(which % 4), piece));
        rest = behind;
    }
    let whole = read_peer_streams(*first, &steps, usize::MAX);
    assert_eq!(read_peer_streams(*first, &steps, 1), whole, "byte by byte");
    assert_eq!(read_peer_streams(*first, &steps, 2), whole, "in twos");
}

/// The events, without how often entries arrived, and the error or the glitches.
fn read_peer_streams(
    first: u8,
    steps: &[(u64, &[u8])],
    at_once: usize,
) -> (Vec<PeerEvent>, Result<u32, Code>) {
    let mut streams = match first % 2 {
        0 => PeerStreams::of_client(),
        _ => PeerStreams::of_server(),
    };
    (0..4).for_each(|id| streams.accept(id));
    let mut decoder = Decoder::new(&LIMITS);
    let mut events = Vec::new();
    for (id, bytes) in steps {
        if bytes.is_empty()
            && let Err(code) = streams.end(*id)
        {
            return (events, Err(code));
        }
        for piece in bytes.chunks(at_once) {
            let mut input = piece;
            loop {
                match streams.receive(*id, &mut input, &mut decoder, &LIMITS) {
                    Ok(Some(PeerEvent::Entries)) => {}
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(code) => return (events, Err(code)),
                }
            }
            assert!(input.is_empty(), "nothing is left for later");
        }
    }
    (events, Ok(streams.take_glitches()))
}

/// An encoder stream and a field section. The first byte is the length of the section, which comes before the stream; it
/// is decoded before and behind it.
pub fn check_qpack(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let (section, stream) = rest.split_at(rest.len().min(usize::from(*first)));
    check_cuts(stream, |pieces| {
        let mut decoder = Decoder::new(&LIMITS);
        let early = decode(&mut decoder, 4, section);
        let mut fault = None;
        for piece in pieces {
            if fault.is_none() {
                fault = decoder.receive(piece).err();
            }
            assert!(decoder.capacity_bytes() < 64 * 1024);
        }
        let ready = decoder.ready();
        assert!(ready.is_none() || early.0 == "Ok(Blocked)");
        // It may wait again: of a count only the remainder is written, and a peer may have inserted too much meanwhile.
        let late = fault.is_none().then(|| decode(&mut decoder, 4, section));
        (early, fault, ready, late)
    });
}

/// The result of a section and its fields.
fn decode(decoder: &mut Decoder, stream: u64, section: &[u8]) -> (String, Vec<String>) {
    let mut fields = Vec::new();
    let result = decoder.decode(stream, section, |field| {
        let (name, value) = (field.name.escape_ascii(), field.value.escape_ascii());
        fields.push(format!("{name}: {value} {:?} {}", field.kind, field.clean));
    });
    if result == Ok(Outcome::Blocked) {
        assert!(fields.is_empty());
    }
    (format!("{result:?}"), fields)
}

/// A section with these fields, each with a name of its own and uncompressed.
pub fn section<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    let mut out = vec![0, 0];
    for (name, value) in fields {
        for (text, prefix, pattern) in [(name.as_ref(), 3, 0x20), (value.as_ref(), 7, 0)] {
            let mask = (1 << prefix) - 1;
            match text.len() < mask {
                true => out.push(pattern | text.len() as u8),
                false => {
                    out.push(pattern | mask as u8);
                    let rest = text.len() - mask;
                    assert!(rest < 128, "one byte more is enough");
                    out.push(rest as u8);
                }
            }
            out.extend_from_slice(text);
        }
    }
    out
}

/// A reader with the limits of HTTP/2's servers.
pub fn head_reader() -> HeadReader {
    let limits = sluice_wire::h2::Limits::SERVER;
    let heads = HeadLimits {
        section_bytes_max: limits.header_list_bytes_max,
        fields_max: limits.fields_max,
        name_bytes_max: limits.name_bytes_max,
        value_bytes_max: limits.value_bytes_max,
        method_bytes_max: limits.method_bytes_max,
        target_bytes_max: limits.target_bytes_max,
        targets: limits.targets,
    };
    HeadReader::new(Decoder::new(&Limits::SERVER), heads, false)
}

/// The head of a request whose stream ends with it, if it is taken.
pub fn read_request(section: &[u8]) -> Option<RequestHead> {
    let mut head = RequestHead::default();
    let read = head_reader().request(0, section, End::Here, &mut head);
    match read.expect("a right section") {
        Read::Done(_) => {
            assert_eq!(head.version, Version::Http3);
            Some(head)
        }
        Read::Faulty(_) => None,
        Read::Blocked => panic!("it refers to nothing"),
    }
}

/// The head of a response to a GET, if it is taken.
pub fn read_response(section: &[u8]) -> Option<ResponseHead> {
    let mut head = ResponseHead::default();
    let read = head_reader().response(0, section, End::Later, &Method::Get, &mut head);
    match read.expect("a right section") {
        Read::Done(_) => Some(head),
        Read::Faulty(_) => None,
        Read::Blocked => panic!("it refers to nothing"),
    }
}

/// The section of the only frame in `bytes`.
fn only_section(bytes: &[u8]) -> Vec<u8> {
    let mut reader = MessageReader::default();
    let mut input = bytes;
    let section = match reader.receive(&mut input, &Limits::SERVER) {
        Ok(Some(Part::Head(section))) => section.to_vec(),
        other => panic!("{other:?}"),
    };
    assert!(input.is_empty());
    section
}

/// The head that comes out when it is sent over HTTP/3, if it is taken.
pub fn request_over(head: &RequestHead) -> Option<RequestHead> {
    let mut bytes = Vec::new();
    HeadWriter::default().request(head, BodyFraming::None, &mut bytes);
    read_request(&only_section(&bytes))
}

/// The head of a response that is sent over HTTP/3.
pub fn response_over(
    status: Status,
    fields: &Fields,
    framing: BodyFraming,
    date: &[u8; 29],
) -> ResponseHead {
    let mut bytes = Vec::new();
    HeadWriter::default().response(status, fields, framing, date, &mut bytes);
    read_response(&only_section(&bytes)).expect("what is sent is taken")
}
