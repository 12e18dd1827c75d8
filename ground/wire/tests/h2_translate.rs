//! Translation between HTTP/2, HTTP/3 and HTTP/1 with every byte at every position of a head. What one version's parser
//! accepts, the other's parser reads as the same message once it is encoded, and never as two messages or with a
//! different header.

use sluice_message::{FieldId, Fields, Method, RequestHead, ResponseHead, Status};
use sluice_wire::h1::{
    self, BodyFraming, ConnectionHeader, Progress, RequestDecoder, ResponseDecoder,
};
use sluice_wire::h2::{Client, ClientEvent, End, Event, Limits, OpenRefused, Server};

use crate::feed_h2::*;
use crate::feed_h3;

/// A head as text, names without case, the fields that frame it left out.
fn lines(fields: &Fields) -> String {
    let framing = |id| {
        matches!(
            id,
            FieldId::ContentLength | FieldId::TransferEncoding | FieldId::Connection
        )
    };
    let kept = fields.iter().filter(|field| !framing(field.id));
    kept.map(|f| {
        format!(
            "{}: {}\n",
            text(&f.name.to_ascii_lowercase()),
            text(f.value)
        )
    })
    .collect()
}

fn request_text(head: &RequestHead) -> String {
    format!(
        "{} {} {} {:?} {}\n{}",
        head.method,
        text(&head.target),
        text(&head.host),
        head.port,
        text(head.uri.as_bytes()),
        lines(&head.fields)
    )
}

/// The head that a server's machine reads from a block, if it takes it.
fn read_request(fields: &[(Vec<u8>, Vec<u8>)]) -> Option<RequestHead> {
    let mut server = Server::new(&Limits::SERVER, false);
    let mut head = RequestHead::default();
    let mut bytes = sluice_wire::h2::PREFACE.to_vec();
    bytes.extend(settings(&[]));
    bytes.extend(frame(
        sluice_wire::h2::FrameKind::HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &block(fields),
    ));
    let received = server.receive(&bytes, &mut head).expect("right frames");
    match received.event {
        Some(Event::Head { .. }) => Some(head),
        Some(Event::Refused { .. }) => None,
        event => panic!("{event:?}"),
    }
}

/// The head that comes out when it is written in HTTP/1 and read again.
fn through_h1(head: &RequestHead) -> RequestHead {
    let mut bytes = Vec::new();
    h1::encode_request_head(head, BodyFraming::None, &mut bytes).expect("the head fits");
    let mut read = RequestHead::default();
    match RequestDecoder::new().decode(&h1::Limits::DEFAULT, &bytes, &mut read) {
        Ok(Progress::Complete { consumed, .. }) => assert_eq!(consumed, bytes.len()),
        other => panic!("{other:?} {}", text(&bytes)),
    }
    read
}

/// The head that comes out when a client's machine sends it to a server's, if that takes it.
fn through_h2(head: &RequestHead) -> Option<RequestHead> {
    let mut client = Client::new(&Limits::DEFAULT);
    client
        .open(head, true, BodyFraming::None, End::Here)
        .expect("a stream is free");
    let mut server = Server::new(&Limits::SERVER, false);
    let mut read = RequestHead::default();
    let out = std::mem::take(client.output());
    let received = server.receive(&out, &mut read).expect("right frames");
    match received.event {
        Some(Event::Head { .. }) => Some(read),
        Some(Event::Refused { .. }) => None,
        event => panic!("{event:?}"),
    }
}

/// `text` with one byte put in at its front, in its middle, at its end and instead of it.
fn mutants(text: &[u8], byte: u8) -> Vec<Vec<u8>> {
    let mut all = vec![vec![byte]];
    for at in [0, text.len() / 2, text.len()] {
        let mut mutant = text.to_vec();
        mutant.insert(at, byte);
        all.push(mutant);
    }
    all
}

#[test]
fn requests_keep_their_meaning_with_every_byte_at_every_place() {
    let usual: Vec<(Vec<u8>, Vec<u8>)> = GET
        .iter()
        .chain(&[("x-name", "some value"), ("cookie", "a=b")])
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect();
    let mut taken = [0; 7];
    for byte in 0..=255u8 {
        for (at, (name, value)) in usual.iter().enumerate() {
            for mutant in mutants(value, byte) {
                let mut fields = usual.clone();
                fields[at].1 = mutant;
                taken[at] += check_request(&fields);
            }
            if at == 4 {
                for mutant in mutants(name, byte) {
                    let mut fields = usual.clone();
                    fields[at].0 = mutant;
                    let valid = sluice_message::name::is_token_byte(byte);
                    let expected = valid && !byte.is_ascii_uppercase();
                    let found = check_request(&fields);
                    assert_eq!(found == 1, expected, "{:?}", fields[at]);
                    taken[6] += found;
                }
            }
        }
    }
    // Tokens; no scheme; 77 bytes of names and a colon at the end, but no dot alone; 92 bytes of paths, and a slash
    // anywhere; 224 bytes of values, two of them not at the ends; small tokens.
    assert_eq!(
        taken,
        [
            4 * 77,
            0,
            4 * 77 + 1 - 1,
            92 + 3,
            224 + 3 * 222,
            224 + 3 * 222,
            4 * 51
        ]
    );
}

/// 1 if the request is taken, and then it is the same for all who read it after us. HTTP/3 takes the same requests.
fn check_request(fields: &[(Vec<u8>, Vec<u8>)]) -> usize {
    let over_h3 = feed_h3::read_request(&feed_h3::section(fields));
    let Some(head) = read_request(fields) else {
        assert!(over_h3.is_none());
        return 0;
    };
    let expected = request_text(&head);
    let over_h3 = over_h3.expect("HTTP/2 takes it");
    assert_eq!(request_text(&over_h3), expected);
    let again = feed_h3::request_over(&over_h3).expect("what came by HTTP/3 can go by it");
    assert_eq!(request_text(&again), expected);
    let plain = through_h1(&head);
    assert_eq!(request_text(&plain), expected);
    let again = through_h2(&plain).expect("what came by HTTP/2 can go by it");
    assert_eq!(request_text(&again), expected);
    let again = through_h1(&again);
    assert_eq!(request_text(&again), expected);
    1
}

/// Heads that handlers made: rewrites and placeholders can put any byte anywhere. What HTTP/2 sends is what HTTP/1
/// would send, or its reader refuses it.
#[test]
fn requests_that_we_make_are_the_same_in_both_versions() {
    for byte in 0..=255u8 {
        for mutant in mutants(b"/some path", byte) {
            let mut head = request();
            head.uri.set(&mutant);
            compare_request(&head, true);
        }
        for mutant in mutants(b"b.example", byte) {
            let mut head = request();
            head.fields.set(FieldId::Host, &mutant);
            compare_request(&head, false);
        }
        for mutant in mutants(b"X-Other", byte) {
            let mut head = request();
            let id = FieldId::of(&mutant);
            head.fields.push_raw(id, &mutant, b"v");
            compare_request(&head, true);
        }
        for mutant in mutants(b"some value", byte) {
            let mut head = request();
            head.fields.push(FieldId::UserAgent, &mutant);
            compare_request(&head, true);
        }
    }
}

fn request() -> RequestHead {
    let mut head = RequestHead::default();
    head.uri.set(b"/");
    head.set_authority(b"a.example");
    head.fields.push(FieldId::Host, b"a.example");
    head
}

fn compare_request(head: &RequestHead, certain: bool) {
    let mut bytes = Vec::new();
    let refused = h1::encode_request_head(head, BodyFraming::None, &mut bytes).err();
    if let Some(unfit) = refused {
        let opened = Client::new(&Limits::DEFAULT).open(head, true, BodyFraming::None, End::Here);
        assert_eq!(opened.err(), Some(OpenRefused::Unfit(unfit)));
        return;
    }
    let mut plain = RequestHead::default();
    let read = RequestDecoder::new().decode(&h1::Limits::DEFAULT, &bytes, &mut plain);
    let read = matches!(read, Ok(Progress::Complete { consumed, .. }) if consumed == bytes.len());
    let over_h3 = feed_h3::request_over(head).map(|head| request_text(&head));
    assert_eq!(over_h3, through_h2(head).map(|head| request_text(&head)));
    match through_h2(head) {
        Some(found) => {
            assert!(read, "{}", text(&bytes));
            assert_eq!(request_text(&found), request_text(&plain));
        }
        None => assert!(!certain || !read, "{}", text(&bytes)),
    }
}

fn response_text(head: &ResponseHead) -> String {
    format!("{}\n{}", head.status.code(), lines(&head.fields))
}

/// The head that a client's machine reads from a server's bytes, if it takes it.
fn read_response(client: &mut Client, bytes: &[u8]) -> Option<ResponseHead> {
    let (mut head, mut rest) = (ResponseHead::default(), bytes);
    loop {
        let received = client.receive(rest, &mut head).expect("right frames");
        rest = &rest[received.consumed..];
        match received.event {
            Some(ClientEvent::Head { .. }) => return Some(head),
            Some(ClientEvent::Reset { .. }) => return None,
            Some(ClientEvent::Settings) => {}
            event => panic!("{event:?}"),
        }
    }
}

fn asking(method: Method) -> Client {
    let mut client = Client::new(&Limits::DEFAULT);
    let head = RequestHead {
        method,
        ..request()
    };
    client
        .open(&head, true, BodyFraming::None, End::Here)
        .expect("a stream is free");
    client.output().clear();
    client
}

/// What an upstream says in HTTP/2 is, once taken, the same in HTTP/1.
#[test]
fn responses_keep_their_meaning_with_every_byte_at_every_place() {
    let usual: [(&[u8], &[u8]); 3] = [
        (b":status", b"200"),
        (b"x-name", b"value"),
        (b"set-cookie", b"a"),
    ];
    let mut taken = [0; 4];
    for byte in 0..=255u8 {
        for (at, (name, value)) in usual.iter().enumerate() {
            for mutant in mutants(value, byte) {
                let mut fields = usual.map(|(n, v)| (n.to_vec(), v.to_vec()));
                fields[at].1 = mutant;
                taken[at] += check_response(&fields);
            }
            if at == 1 {
                for mutant in mutants(name, byte) {
                    let mut fields = usual.map(|(n, v)| (n.to_vec(), v.to_vec()));
                    fields[at].0 = mutant;
                    taken[3] += check_response(&fields);
                }
            }
        }
    }
    // A status has three digits, and no mutant has; the middle of one letter is its front.
    assert_eq!(taken, [0, 224 + 3 * 222, 4 * 222, 4 * 51]);
}

fn check_response(fields: &[(Vec<u8>, Vec<u8>)]) -> usize {
    let mut bytes = settings(&[]);
    bytes.extend(frame(
        sluice_wire::h2::FrameKind::HEADERS,
        END_HEADERS,
        1,
        &block(fields),
    ));
    let over_h3 = feed_h3::read_response(&feed_h3::section(fields));
    let over_h3 = over_h3.map(|head| response_text(&head));
    let Some(head) = read_response(&mut asking(Method::Get), &bytes) else {
        assert_eq!(over_h3, None);
        return 0;
    };
    assert_eq!(over_h3, Some(response_text(&head)));
    let mut bytes = Vec::new();
    let framing = BodyFraming::Chunked;
    h1::encode_response_head(
        head.status,
        &head.fields,
        framing,
        ConnectionHeader::None,
        DATE,
        (
            sluice_message::Version::Http11,
            sluice_message::Status::reason,
        ),
        &mut bytes,
    );
    let plain = read_plain_response(&bytes);
    let dated = response_text(&head) + "date: Sun, 22 Nov 2026 04:00:00 GMT\n";
    assert_eq!(response_text(&plain), dated);
    1
}

fn read_plain_response(bytes: &[u8]) -> ResponseHead {
    let mut plain = ResponseHead::default();
    match ResponseDecoder::new().decode(&h1::Limits::DEFAULT, bytes, &Method::Get, &mut plain) {
        Ok(Progress::Complete { consumed, .. }) => assert_eq!(consumed, bytes.len()),
        other => panic!("{other:?} {}", text(bytes)),
    }
    plain
}

/// A handler's response is the same in both versions, whatever bytes it contains.
#[test]
fn responses_that_we_make_are_the_same_in_both_versions() {
    for byte in 0..=255u8 {
        let names = mutants(b"X-Other", byte).into_iter();
        let values = mutants(b"some value", byte).into_iter();
        let all = names
            .map(|name| (name, b"v".to_vec()))
            .chain(values.map(|value| (b"X-Other".to_vec(), value)));
        for (name, value) in all {
            let mut fields = Fields::new();
            fields.push(FieldId::ContentType, b"text/plain");
            fields.push_raw(FieldId::of(&name), &name, &value);
            let (status, framing) = (Status::NOT_FOUND, BodyFraming::Length(3));
            let mut bytes = Vec::new();
            h1::encode_response_head(
                status,
                &fields,
                framing,
                ConnectionHeader::None,
                DATE,
                (
                    sluice_message::Version::Http11,
                    sluice_message::Status::reason,
                ),
                &mut bytes,
            );
            let plain = read_plain_response(&bytes);
            let mut session = Session::new();
            session.send(&get(1));
            let id = session.id(1);
            session
                .server
                .send_head(id, status, &fields, framing, DATE, End::Later)
                .expect("the stream is open");
            let mut bytes = settings(&[]);
            bytes.append(session.server.output());
            let head = read_response(&mut asking(Method::Get), &bytes).expect("it is taken");
            assert_eq!(
                response_text(&head),
                response_text(&plain),
                "{}",
                text(&name)
            );
            let over_h3 = feed_h3::response_over(status, &fields, framing, DATE);
            assert_eq!(response_text(&over_h3), response_text(&plain));
        }
    }
}
