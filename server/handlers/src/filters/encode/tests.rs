use std::collections::VecDeque;
use std::io::Read;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use sluice_message::{ConnInfo, Remote};
use sluice_net::body::SharedSlice;
use sluice_net::{BodyStream, Failure, FailureKind, FileSlice, Side, Worker};

use super::*;
use crate::limits::ENCODERS_MAX;

fn codings() -> [Coding; 3] {
    [
        Coding::gzip(0).unwrap(),
        Coding::zstd("", false).unwrap(),
        Coding::brotli(0).unwrap(),
    ]
}

fn filter(coding: Coding) -> EncodeFilter {
    EncodeFilter::new(coding, Arc::new(Eligible::build(0, None).unwrap()))
}

fn new_exchange(fields: &[(FieldId, &str)]) -> Exchange {
    let conn = ConnInfo {
        remote: Remote::Unix,
        local: None.into(),
        tls: None,
        facts: Default::default(),
    };
    let mut exchange = Exchange::new(Rc::new(conn), Rc::new(Worker::default()));
    for (id, value) in fields {
        exchange.res.fields.push(*id, value.as_bytes());
    }
    exchange
}

const TEXT: (FieldId, &str) = (FieldId::ContentType, "text/plain; charset=utf-8");

fn decoded(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes)
            .read_to_end(&mut out)
            .unwrap(),
        "zstd" => zstd::stream::read::Decoder::new(bytes)
            .unwrap()
            .read_to_end(&mut out)
            .unwrap(),
        "br" => brotli::Decompressor::new(bytes, 4096)
            .read_to_end(&mut out)
            .unwrap(),
        other => panic!("unknown coding {other}"),
    };
    out
}

/// Reads a body to its end, in pieces of odd sizes.
fn collect(exchange: &Exchange, body: Body) -> Result<Vec<u8>, Failure> {
    let mut stream = match body {
        Body::Inline => return Ok(exchange.inline.clone()),
        Body::Shared(slice) => return Ok(slice.as_bytes().to_vec()),
        Body::Stream(stream) => stream,
        _ => panic!("unexpected kind of body"),
    };
    let mut cx = Context::from_waker(Waker::noop());
    let mut bytes = Vec::new();
    loop {
        match stream.poll_data(&mut cx) {
            Poll::Ready(data) => {
                let data = data?;
                if data.is_empty() {
                    return Ok(bytes);
                }
                let count = data.len().min(997);
                bytes.extend_from_slice(&data[..count]);
                stream.consume(count);
            }
            Poll::Pending => {}
        }
    }
}

/// Text that compresses, but not to almost nothing.
fn text(len: usize) -> Vec<u8> {
    let mut state = 7u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"etaoin shrdlu\n"[(state >> 16) as usize % 14]
    };
    (0..len).map(|_| letter()).collect()
}

/// What a source yields: data, nothing for now, or a failure.
enum Event {
    Data(Vec<u8>),
    Nothing,
    Broken,
}

struct Scripted(VecDeque<Event>);

impl BodyStream for Scripted {
    fn len(&self) -> Option<u64> {
        None
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if matches!(self.0.front(), Some(Event::Nothing)) {
            self.0.pop_front();
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(match self.0.front() {
            Some(Event::Data(data)) => Ok(data),
            Some(Event::Broken) => Err(Failure::new(Side::Upstream, FailureKind::Closed)),
            Some(Event::Nothing) | None => Ok(&[]),
        })
    }

    fn consume(&mut self, count: usize) {
        if let Some(Event::Data(data)) = self.0.front_mut() {
            data.drain(..count);
            if data.is_empty() {
                self.0.pop_front();
            }
        }
    }
}

#[test]
fn every_kind_of_body_decodes_to_itself() {
    let path = std::env::temp_dir().join(format!("sluice-encode-{}", std::process::id()));
    for len in [512, 10_000, 300_000] {
        let plain = text(len);
        std::fs::write(&path, &plain).unwrap();
        let file = Rc::new(std::fs::File::open(&path).unwrap());
        for coding in codings() {
            let name = coding.name();
            let filter = filter(coding);
            for kind in 0..4 {
                let mut exchange = new_exchange(&[TEXT]);
                let body = match kind {
                    0 => {
                        exchange.inline = plain.clone();
                        Body::Inline
                    }
                    1 => Body::Shared(SharedSlice::new(plain.clone().into())),
                    2 => Body::File(FileSlice {
                        file: file.clone(),
                        start: 0,
                        len: len as u64,
                    }),
                    _ => {
                        let pieces = plain.chunks(4001).map(|piece| Event::Data(piece.to_vec()));
                        Body::Stream(Box::new(Scripted(pieces.collect())))
                    }
                };
                let body = filter.apply(&mut exchange, body);
                let known = body.len(exchange.inline.len()).is_some();
                assert_eq!(known, kind < 2 && len <= 10_000, "{name} {kind} {len}");
                let encoded = collect(&exchange, body).unwrap();
                assert!(encoded.len() < len, "{name} {kind}");
                assert_eq!(decoded(name, &encoded), plain, "{name} {kind}");
                assert_eq!(
                    exchange.res.fields.first(FieldId::ContentEncoding),
                    Some(name.as_bytes())
                );
            }
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn nothing_is_held_back_while_a_stream_pauses() {
    for coding in codings() {
        let name = coding.name();
        let filter = filter(coding);
        let mut exchange = new_exchange(&[(FieldId::ContentType, "text/event-stream")]);
        let events = [
            Event::Data(b"data: one\n\n".to_vec()),
            Event::Nothing,
            Event::Nothing,
            Event::Data(b"data: two\n\n".to_vec()),
        ];
        let source = Body::Stream(Box::new(Scripted(events.into())));
        let Body::Stream(mut stream) = filter.apply(&mut exchange, source) else {
            panic!("no stream")
        };
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(first)) = stream.poll_data(&mut cx) else {
            panic!("{name} waits")
        };
        let first = first.to_vec();
        stream.consume(first.len());
        let mut seen = vec![0; 11];
        let mut reader: Box<dyn Read> = match name {
            "gzip" => Box::new(flate2::read::GzDecoder::new(&first[..])),
            "zstd" => Box::new(zstd::stream::read::Decoder::new(&first[..]).unwrap()),
            _ => Box::new(brotli::Decompressor::new(&first[..], 4096)),
        };
        reader.read_exact(&mut seen).unwrap();
        assert_eq!(seen, b"data: one\n\n", "{name}");
        assert!(stream.poll_data(&mut cx).is_pending());
        let rest = collect(&exchange, Body::Stream(stream)).unwrap();
        let whole = decoded(name, &[first.clone(), rest].concat());
        assert_eq!(whole, b"data: one\n\ndata: two\n\n");
    }
}

#[test]
fn a_broken_stream_never_looks_complete() {
    for coding in codings() {
        let filter = filter(coding);
        let mut exchange = new_exchange(&[TEXT]);
        let events = [Event::Data(text(1000)), Event::Broken];
        let body = filter.apply(
            &mut exchange,
            Body::Stream(Box::new(Scripted(events.into()))),
        );
        assert_eq!(
            collect(&exchange, body).unwrap_err().kind,
            FailureKind::Closed
        );
    }
}

#[test]
fn headers_name_the_coding() {
    let filter = filter(Coding::gzip(0).unwrap());
    let mut exchange = new_exchange(&[
        TEXT,
        (FieldId::Etag, "\"abc\""),
        (FieldId::AcceptRanges, "bytes"),
        (FieldId::Vary, "Origin"),
    ]);
    exchange.inline = text(600);
    filter.apply(&mut exchange, Body::Inline);
    assert_eq!(
        exchange.res.fields.first(FieldId::Etag),
        Some(&b"\"abc-gzip\""[..])
    );
    assert!(!exchange.res.fields.has(FieldId::AcceptRanges));
    let vary: Vec<_> = exchange.res.fields.all(FieldId::Vary).collect();
    assert_eq!(vary, [&b"Origin"[..], b"Accept-Encoding"]);
    let mut weak = new_exchange(&[
        TEXT,
        (FieldId::Etag, "W/\"abc\""),
        (FieldId::Vary, "accept-encoding"),
    ]);
    weak.inline = text(600);
    filter.apply(&mut weak, Body::Inline);
    assert_eq!(
        weak.res.fields.first(FieldId::Etag),
        Some(&b"W/\"abc\""[..])
    );
    assert_eq!(weak.res.fields.all(FieldId::Vary).count(), 1);
}

#[test]
fn what_must_stay_as_it_is_stays() {
    let filter = filter(Coding::gzip(0).unwrap());
    let unchanged = |status: Status, fields: &[(FieldId, &str)], len: usize| {
        let mut exchange = new_exchange(fields);
        exchange.res.status = status;
        exchange.inline = text(len);
        let body = filter.apply(&mut exchange, Body::Inline);
        matches!(body, Body::Inline)
            && exchange.inline.len() == len
            && exchange.res.fields.len() == fields.len()
    };
    assert!(!unchanged(Status::OK, &[TEXT], 512));
    assert!(unchanged(Status::OK, &[TEXT], 511));
    assert!(unchanged(Status::OK, &[], 600));
    assert!(unchanged(
        Status::OK,
        &[(FieldId::ContentType, "image/png")],
        600
    ));
    assert!(unchanged(Status::PARTIAL_CONTENT, &[TEXT], 600));
    assert!(unchanged(
        Status::OK,
        &[TEXT, (FieldId::ContentRange, "bytes 0-1/9")],
        600
    ));
    assert!(unchanged(
        Status::OK,
        &[TEXT, (FieldId::ContentEncoding, "br")],
        600
    ));
    assert!(unchanged(
        Status::OK,
        &[TEXT, (FieldId::CacheControl, "private, No-Transform")],
        600
    ));
    let mut exchange = new_exchange(&[TEXT]);
    assert!(matches!(
        filter.apply(&mut exchange, Body::Empty),
        Body::Empty
    ));
    assert!(!exchange.res.fields.has(FieldId::ContentEncoding));
}

#[test]
fn head_gets_the_fields_of_get_without_a_length() {
    let filter = filter(Coding::gzip(0).unwrap());
    let mut exchange = new_exchange(&[TEXT]);
    exchange.req.method = Method::Head;
    let body = filter.apply(
        &mut exchange,
        Body::Shared(SharedSlice::new(text(9000).into())),
    );
    assert_eq!(body.len(0), None);
    assert_eq!(
        exchange.res.fields.first(FieldId::ContentEncoding),
        Some(&b"gzip"[..])
    );
}

#[test]
fn etags_of_earlier_responses_match() {
    let filter = filter(Coding::gzip(0).unwrap());
    let asked = |tags: &str| {
        let mut exchange = new_exchange(&[(FieldId::Etag, "\"abc\"")]);
        exchange
            .req
            .fields
            .push(FieldId::IfNoneMatch, tags.as_bytes());
        filter.restore_tags(&mut exchange);
        let seen = exchange
            .req
            .fields
            .first(FieldId::IfNoneMatch)
            .unwrap()
            .to_vec();
        assert!(etag::list(&seen).any(|tag| etag::matches_weakly(tag, b"\"abc\"")));
        exchange.res.status = Status::NOT_MODIFIED;
        filter.apply(&mut exchange, Body::Empty);
        String::from_utf8(exchange.res.fields.first(FieldId::Etag).unwrap().to_vec()).unwrap()
    };
    assert_eq!(asked("\"abc-gzip\""), "\"abc-gzip\"");
    assert_eq!(asked("\"x\", W/\"abc-gzip\""), "\"abc-gzip\"");
    assert_eq!(asked("\"abc\""), "\"abc\"");
}

#[test]
fn streams_beyond_the_limit_are_sent_as_they_are() {
    let filter = filter(Coding::gzip(0).unwrap());
    let mut kept = Vec::new();
    for number in 0..=ENCODERS_MAX {
        let mut exchange = new_exchange(&[TEXT]);
        let body = filter.apply(
            &mut exchange,
            Body::Stream(Box::new(Scripted(VecDeque::new()))),
        );
        kept.push(body);
        assert_eq!(
            exchange.res.fields.has(FieldId::ContentEncoding),
            number < ENCODERS_MAX
        );
    }
    drop(kept);
    let mut exchange = new_exchange(&[TEXT]);
    filter.apply(
        &mut exchange,
        Body::Stream(Box::new(Scripted(VecDeque::new()))),
    );
    assert!(exchange.res.fields.has(FieldId::ContentEncoding));
}

#[test]
fn levels_are_checked() {
    assert!(Coding::gzip(10).is_err() && Coding::gzip(-1).is_err() && Coding::gzip(9).is_ok());
    assert!(Coding::brotli(12).is_err() && Coding::brotli(11).is_ok());
    assert!(Coding::zstd("wild", false).is_err() && Coding::zstd("best", true).is_ok());
}
