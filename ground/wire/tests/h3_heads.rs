//! Heads of HTTP/3 beyond what `h2_translate` compares: sections that wait, faults, interim responses and trailers.

use sluice_message::{FieldId, Fields, Method, RequestHead, ResponseHead, Status};
use sluice_wire::h1::BodyFraming;
use sluice_wire::h3::{HeadWriter, Limits, MessageReader, Part, Read};
use sluice_wire::sections::{End, HeadFault};

use crate::feed_h3::{head_reader, section};

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/"),
    (":authority", "a.example"),
];

#[test]
fn a_head_waits_for_its_entries() {
    let mut reader = head_reader();
    let mut head = RequestHead::default();
    // It refers to the first entry of the dynamic table.
    let mut waiting = section(&GET);
    waiting[0] = 2;
    waiting.push(0x80);
    let read = reader.request(4, &waiting, End::Here, &mut head);
    assert_eq!(read, Ok(Read::Blocked));
    let insert = [&[0x3f, 0xbd, 0x01, 0x41][..], b"x", &[1], b"y"].concat();
    reader.decoder.receive(&insert).unwrap();
    assert_eq!(reader.decoder.ready(), Some(4));
    let read = reader.request(4, &waiting, End::Here, &mut head);
    assert!(matches!(read, Ok(Read::Done(_))), "{read:?}");
    let last = head.fields.iter().last().unwrap();
    assert_eq!((last.name, last.value), (&b"x"[..], &b"y"[..]));
}

#[test]
fn faults_of_heads_leave_the_connection_alone() {
    let mut reader = head_reader();
    let mut head = RequestHead::default();
    for (fields, fault) in [
        (&GET[..3], HeadFault::HostMissing),
        (&[GET[0], GET[0]][..], HeadFault::PseudoRepeated),
        (
            &[GET[0], GET[1], ("connection", "close")],
            HeadFault::ConnectionField,
        ),
        (
            &[GET[0], GET[1], GET[2], GET[3], ("content-length", "5")],
            HeadFault::LengthUnmet,
        ),
    ] {
        let read = reader.request(0, &section(fields), End::Here, &mut head);
        assert_eq!(read, Ok(Read::Faulty(fault)));
    }
    let read = reader.request(0, &section(&GET), End::Here, &mut head);
    assert!(matches!(read, Ok(Read::Done(facts)) if facts.body == BodyFraming::None));
}

#[test]
fn interim_responses_and_trailers() {
    let mut fields = Fields::new();
    fields.push_raw(FieldId::Other, b"x-checksum", b"1");
    fields.push(FieldId::ContentLength, b"5");
    let mut writer = HeadWriter::default();
    let mut bytes = Vec::new();
    writer.interim(Status::EARLY_HINTS, &fields, &mut bytes);
    let framing = BodyFraming::None;
    let date = b"Sun, 22 Nov 2026 04:00:00 GMT";
    writer.response(Status::OK, &Fields::new(), framing, date, &mut bytes);
    writer.trailers(&fields, &mut bytes);

    let mut sections = Vec::new();
    let mut message = MessageReader::default();
    let mut input = &bytes[..];
    while let Some(part) = message.receive(&mut input, &Limits::SERVER).unwrap() {
        let (section, is_head) = match part {
            Part::Head(section) => (section.to_vec(), true),
            Part::Trailers(section) => (section.to_vec(), false),
            part => panic!("{part:?}"),
        };
        if is_head && sections.is_empty() {
            message.expect(sluice_wire::h3::Follows::Head);
        }
        sections.push(section);
    }
    let mut reader = head_reader();
    let mut head = ResponseHead::default();
    let mut codes = Vec::new();
    for section in &sections[..2] {
        let read = reader.response(0, section, End::Later, &Method::Get, &mut head);
        assert!(matches!(read, Ok(Read::Done(_))), "{read:?}");
        codes.push((head.status.code(), head.fields.iter().count()));
    }
    assert_eq!(codes, [(103, 1), (200, 1)]);
    let Ok(Read::Done(trailers)) = reader.trailers(0, &sections[2]) else {
        panic!("they are right");
    };
    assert_eq!(
        trailers.iter().map(|field| field.name).collect::<Vec<_>>(),
        [b"x-checksum"]
    );
}
