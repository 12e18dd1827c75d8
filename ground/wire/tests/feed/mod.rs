//! Feeds the same bytes to a decoder in one piece, split in two at every position, and one by one. The tests state the
//! expected result.

#![allow(dead_code)]

use sluice_message::{FieldId, Fields, Method, RequestHead, ResponseHead, Version};
use sluice_wire::h1::{
    BodyDecoder, BodyError, BodyFraming, BodyStep, CHUNK_END, ConnectionHeader, KeepAlive,
    LAST_CHUNK, Leniency, Limits, LineEnds, OddNames, Progress, RequestDecoder, ResponseDecoder,
    ResponseKind, TargetBytes, UndeclaredContent, encode_chunk_head,
    encode_last_chunk_with_trailers, encode_request_head, encode_response_head,
};

/// Bytes as readable text.
pub fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Fields as readable text, one line each.
pub fn fields_text(fields: &Fields) -> String {
    fields
        .iter()
        .map(|f| format!("{}: {}\n", text(f.name), text(f.value)))
        .collect()
}

fn decode_request(
    limits: &Limits,
    decoder: &mut RequestDecoder,
    bytes: &[u8],
    head: &mut RequestHead,
) -> Option<String> {
    match decoder.decode(limits, bytes, head) {
        Ok(Progress::Incomplete) => {
            assert!(
                head.fields.is_empty() && head.target.is_empty(),
                "an incomplete head is empty"
            );
            None
        }
        Ok(Progress::Complete { consumed, value }) => Some(format!(
            "{consumed} {} {} {:?} uri={} authority={} host={} port={:?} {value:?}\n{}",
            head.method,
            text(&head.target),
            head.version,
            text(head.uri.as_bytes()),
            text(&head.authority),
            text(&head.host),
            head.port,
            fields_text(&head.fields),
        )),
        Err(error) => {
            assert!(head.fields.is_empty(), "a refused head is empty");
            Some(format!(
                "{} {error} {:?}",
                error.status().code(),
                error.fault
            ))
        }
    }
}

/// The outcome for a request given in one piece, after checking that every other way of cutting it has the same.
pub fn request(bytes: &[u8], limits: &Limits) -> String {
    // Splitting long inputs at every position would take quadratic time; a stride that is not a power of two is enough.
    request_cut(bytes, limits, 1 + bytes.len() / 700)
}

fn request_cut(bytes: &[u8], limits: &Limits, stride: usize) -> String {
    let mut head = RequestHead::default();
    let unfinished = || "incomplete".to_string();
    let mut whole = RequestDecoder::new();
    let expected = decode_request(limits, &mut whole, bytes, &mut head).unwrap_or_else(unfinished);
    let mut one_by_one = RequestDecoder::new();
    let outcome = (0..=bytes.len())
        .find_map(|end| decode_request(limits, &mut one_by_one, &bytes[..end], &mut head));
    assert_eq!(
        outcome.unwrap_or_else(unfinished),
        expected,
        "byte by byte: {}",
        text(bytes)
    );
    for cut in (0..bytes.len()).step_by(stride) {
        let mut halves = RequestDecoder::new();
        let outcome = decode_request(limits, &mut halves, &bytes[..cut], &mut head)
            .or_else(|| decode_request(limits, &mut halves, bytes, &mut head));
        assert_eq!(
            outcome.unwrap_or_else(unfinished),
            expected,
            "cut at {cut}: {}",
            text(bytes)
        );
    }
    expected
}

fn decode_response(
    limits: &Limits,
    decoder: &mut ResponseDecoder,
    method: &Method,
    bytes: &[u8],
    head: &mut ResponseHead,
) -> Option<String> {
    match decoder.decode(limits, bytes, method, head) {
        Ok(Progress::Incomplete) => {
            assert!(head.fields.is_empty(), "an incomplete head is empty");
            None
        }
        Ok(Progress::Complete { consumed, value }) => Some(format!(
            "{consumed} {} {:?} {:?} {:?} {:?}\n{}",
            head.status.code(),
            head.version,
            value.kind,
            value.body,
            value.keep_alive,
            fields_text(&head.fields),
        )),
        Err(error) => Some(format!("refused: {error} {:?}", error.fault)),
    }
}

/// As [`request`] for a response to a request with `method`.
pub fn response(bytes: &[u8], method: &Method, limits: &Limits) -> String {
    response_cut(bytes, method, limits, 1 + bytes.len() / 700)
}

fn response_cut(bytes: &[u8], method: &Method, limits: &Limits, stride: usize) -> String {
    let mut head = ResponseHead::default();
    let unfinished = || "incomplete".to_string();
    let mut whole = ResponseDecoder::new();
    let expected =
        decode_response(limits, &mut whole, method, bytes, &mut head).unwrap_or_else(unfinished);
    let mut one_by_one = ResponseDecoder::new();
    let outcome = (0..=bytes.len())
        .find_map(|end| decode_response(limits, &mut one_by_one, method, &bytes[..end], &mut head));
    assert_eq!(
        outcome.unwrap_or_else(unfinished),
        expected,
        "byte by byte: {}",
        text(bytes)
    );
    for cut in (0..bytes.len()).step_by(stride) {
        let mut halves = ResponseDecoder::new();
        let outcome = decode_response(limits, &mut halves, method, &bytes[..cut], &mut head)
            .or_else(|| decode_response(limits, &mut halves, method, bytes, &mut head));
        assert_eq!(
            outcome.unwrap_or_else(unfinished),
            expected,
            "cut at {cut}: {}",
            text(bytes)
        );
    }
    expected
}

/// What came out of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyOutcome {
    /// The content before the end, the fault or the lack of bytes.
    pub content: Vec<u8>,
    /// `end`, `more`, or the fault.
    pub state: String,
    /// Bytes that belong to what follows.
    pub rest: usize,
    /// Trailer fields.
    pub trailers: String,
}

/// Takes one step of `piece`: the content found, the bytes taken, and whether the body ended.
fn body_step(
    decoder: &mut BodyDecoder,
    piece: &mut [u8],
    merged: bool,
) -> Result<(Vec<u8>, usize, bool), BodyError> {
    if merged {
        let step = decoder.decode_merged(piece)?;
        return Ok((piece[step.content].to_vec(), step.consumed, step.ended));
    }
    Ok(match decoder.decode(piece)? {
        BodyStep::Data { start, end } => {
            assert!(start < end, "data is never empty");
            (piece[start..end].to_vec(), end, false)
        }
        BodyStep::NeedMore { consumed } => {
            assert_eq!(consumed, piece.len(), "all framing is consumed");
            (Vec::new(), consumed, false)
        }
        BodyStep::End { consumed } => (Vec::new(), consumed, true),
    })
}

/// Feeds `pieces` one after the other.
fn decode_body<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    framing: BodyFraming,
    limits: &Limits,
    merged: bool,
) -> BodyOutcome {
    let mut decoder = BodyDecoder::new(framing, limits);
    let (mut content, mut ended, mut rest) = (Vec::new(), false, 0);
    for piece in pieces {
        let mut piece = piece.to_vec();
        let mut at = 0;
        // Also with nothing to give: a body may end without another byte.
        while !ended {
            match body_step(&mut decoder, &mut piece[at..], merged) {
                Err(error) => {
                    let state = format!("{error:?}");
                    return BodyOutcome {
                        content,
                        state,
                        rest: 0,
                        trailers: String::new(),
                    };
                }
                Ok((found, consumed, end)) => {
                    content.extend_from_slice(&found);
                    at += consumed;
                    ended = end;
                }
            }
            if at == piece.len() {
                break;
            }
        }
        rest += piece.len() - at;
    }
    let ended = decoder.is_done();
    let complete = ended || framing == BodyFraming::UntilClose;
    assert_eq!(
        decoder.finish_at_eof().is_ok(),
        complete,
        "only whole bodies may end here"
    );
    let trailers = decoder
        .take_trailers()
        .map_or_else(String::new, |fields| fields_text(&fields));
    let state = if ended { "end" } else { "more" };
    BodyOutcome {
        content,
        state: state.into(),
        rest,
        trailers,
    }
}

/// As [`request`] for a body.
pub fn body(bytes: &[u8], framing: BodyFraming, limits: &Limits) -> BodyOutcome {
    body_cut(bytes, framing, limits, 1 + bytes.len() / 700)
}

fn body_cut(bytes: &[u8], framing: BodyFraming, limits: &Limits, stride: usize) -> BodyOutcome {
    let whole = decode_body([bytes], framing, limits, false);
    let same = |other: BodyOutcome, how: &str| {
        // Content that stood before a fault may or may not have been handed out yet.
        let (mut other, mut whole) = (other, whole.clone());
        if whole.state != "end" && whole.state != "more" {
            other.content.clear();
            whole.content.clear();
        }
        assert_eq!(other, whole, "{how}: {}", text(bytes));
    };
    for merged in [false, true] {
        same(
            decode_body(bytes.chunks(1), framing, limits, merged),
            "byte by byte",
        );
        same(
            decode_body(bytes.chunks(7), framing, limits, merged),
            "seven bytes at a time",
        );
        for cut in (0..bytes.len()).step_by(stride) {
            let (start, end) = bytes.split_at(cut);
            same(
                decode_body([start, end], framing, limits, merged),
                "cut in two",
            );
        }
    }
    same(decode_body([bytes], framing, limits, true), "merged");
    whole
}

/// Limits small enough that short inputs reach them.
fn tight() -> Limits {
    Limits {
        head_bytes_max: 160,
        fields_max: 4,
        target_bytes_max: 24,
        method_bytes_max: 8,
        name_bytes_max: 20,
        empty_lines_max: 1,
        chunk_line_bytes_max: 24,
        chunk_surplus_bytes_max: 30,
        trailer_bytes_max: 60,
        odd_names: OddNames::PassOver,
        line_bytes_max: 50,
        leniency: LENIENT,
    }
}

/// Every leniency at once.
pub const LENIENT: Leniency = Leniency {
    line_ends: LineEnds::LfToo,
    targets: TargetBytes::Raw,
    undeclared_content: UndeclaredContent::Empty,
};

/// The usual limits with every leniency.
pub fn lenient() -> Limits {
    Limits {
        leniency: LENIENT,
        ..Limits::DEFAULT
    }
}

/// For any bytes: a request that only leniency accepts is the last of its connection, and its head goes out as one that
/// every reader reads in the same way, which has no line end of its own.
fn check_lenient_request(bytes: &[u8]) {
    let mut head = RequestHead::default();
    let strict = RequestDecoder::new().decode(&Limits::DEFAULT, bytes, &mut head);
    let decoded = RequestDecoder::new().decode(&lenient(), bytes, &mut head);
    let Ok(Progress::Complete { value, consumed }) = decoded else {
        assert!(!matches!(strict, Ok(Progress::Complete { .. })));
        return;
    };
    let read = &bytes[..consumed];
    let is_bare = read
        .split(|byte| *byte == b'\n')
        .rev()
        .skip(1)
        .any(|line| line.last() != Some(&b'\r'));
    assert!(
        !is_bare || value.keep_alive == KeepAlive::Close,
        "{}",
        text(bytes)
    );
    let target = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    assert!(head.target.iter().all(target) && !head.uri.as_bytes().contains(&b'#'));
    if head.authority.is_empty() {
        head.set_authority(b"upstream");
    }
    let mut out = Vec::new();
    encode_request_head(&head, value.body, &mut out).expect("what was decoded can be encoded");
    let roomy = Limits {
        head_bytes_max: 1 << 20,
        target_bytes_max: 1 << 20,
        fields_max: 1000,
        ..Limits::DEFAULT
    };
    let mut again = RequestHead::default();
    let again = RequestDecoder::new().decode(&roomy, &out, &mut again);
    let Ok(Progress::Complete {
        consumed,
        value: framing,
    }) = again
    else {
        panic!("{} went out as {}: {again:?}", text(bytes), text(&out));
    };
    assert_eq!((consumed, framing.body), (out.len(), value.body));
}

/// For any bytes: one outcome however they are cut, and a request that is accepted goes out as the same request.
pub fn check_request(bytes: &[u8]) {
    for limits in [Limits::DEFAULT, tight(), lenient()] {
        request_cut(bytes, &limits, 1 + bytes.len() / 5);
    }
    check_lenient_request(bytes);
    let mut head = RequestHead::default();
    let decoded = RequestDecoder::new().decode(&Limits::DEFAULT, bytes, &mut head);
    let Ok(Progress::Complete { value, .. }) = decoded else {
        return;
    };
    if head.authority.is_empty() {
        // HTTP/1.0 without `Host`: the forwarding proxy sets the host.
        head.set_authority(b"upstream");
    }
    let mut out = Vec::new();
    encode_request_head(&head, value.body, &mut out).expect("what was decoded can be encoded");
    let mut again = RequestHead::default();
    // Expanding a compact line may take it over the limits, which are not the point here.
    let roomy = Limits {
        head_bytes_max: 1 << 20,
        fields_max: 1000,
        ..Limits::DEFAULT
    };
    let (consumed, framing) = match RequestDecoder::new().decode(&roomy, &out, &mut again) {
        Ok(Progress::Complete { consumed, value }) => (consumed, value),
        other => panic!("{} went out as {}: {other:?}", text(bytes), text(&out)),
    };
    assert_eq!((consumed, framing.body), (out.len(), value.body));
    assert_eq!(
        (&head.method, &head.authority),
        (&again.method, &again.authority)
    );
    assert_eq!(head.uri.as_bytes(), again.uri.as_bytes());
    assert_eq!(end_to_end(&head.fields), end_to_end(&again.fields));
}

/// As [`check_request`] for responses; the first byte chooses the method of the request.
pub fn check_response(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else {
        return;
    };
    let method = [Method::Get, Method::Head, Method::Connect][*first as usize % 3].clone();
    for limits in [Limits::DEFAULT, tight(), lenient()] {
        response_cut(bytes, &method, &limits, 1 + bytes.len() / 5);
    }
    let mut head = ResponseHead::default();
    let decoded = ResponseDecoder::new().decode(&Limits::DEFAULT, bytes, &Method::Get, &mut head);
    let Ok(Progress::Complete { value, .. }) = decoded else {
        return;
    };
    let conn = match value.kind {
        ResponseKind::Switched => ConnectionHeader::Upgrade,
        ResponseKind::Final | ResponseKind::Interim => ConnectionHeader::None,
    };
    let (date, mut out) = (b"Sat, 21 Nov 2026 21:00:00 GMT", Vec::new());
    let (status, fields) = (head.status, &head.fields);
    encode_response_head(
        status,
        fields,
        value.body,
        conn,
        date,
        (Version::Http11, sluice_message::Status::reason),
        &mut out,
    );
    let mut again = ResponseHead::default();
    let roomy = Limits {
        head_bytes_max: 1 << 20,
        fields_max: 1000,
        ..Limits::DEFAULT
    };
    let (consumed, framing) =
        match ResponseDecoder::new().decode(&roomy, &out, &Method::Get, &mut again) {
            Ok(Progress::Complete { consumed, value }) => (consumed, value),
            other => panic!("{} went out as {}: {other:?}", text(bytes), text(&out)),
        };
    assert_eq!((consumed, framing.kind), (out.len(), value.kind));
    assert_eq!((framing.body, again.status), (value.body, head.status));
    assert_eq!(end_to_end(&head.fields), end_to_end(&again.fields));
}

/// As [`check_request`] for chunked bodies.
pub fn check_chunked(bytes: &[u8]) {
    body_cut(bytes, BodyFraming::Chunked, &tight(), 1 + bytes.len() / 5);
    let outcome = body_cut(
        bytes,
        BodyFraming::Chunked,
        &Limits::DEFAULT,
        1 + bytes.len() / 5,
    );
    if outcome.state != "end" {
        return;
    }
    let mut decoder = BodyDecoder::new(BodyFraming::Chunked, &Limits::DEFAULT);
    let (mut out, mut at) = (Vec::new(), 0);
    while let Ok(BodyStep::Data { start, end }) = decoder.decode(&bytes[at..]) {
        encode_chunk_head(end - start, &mut out);
        out.extend_from_slice(&bytes[at + start..at + end]);
        out.extend_from_slice(CHUNK_END);
        at += end;
    }
    match decoder.take_trailers() {
        Some(trailers) => encode_last_chunk_with_trailers(&trailers, &mut out),
        None => out.extend_from_slice(LAST_CHUNK),
    }
    let roomy = Limits {
        trailer_bytes_max: 1 << 20,
        ..Limits::DEFAULT
    };
    let again = body_cut(&out, BodyFraming::Chunked, &roomy, out.len().max(1));
    assert_eq!(again, BodyOutcome { rest: 0, ..outcome });
}

/// All headers except those that the encoder writes itself.
fn end_to_end(fields: &Fields) -> String {
    let written = [
        FieldId::Connection,
        FieldId::ContentLength,
        FieldId::TransferEncoding,
        FieldId::KeepAlive,
        FieldId::ProxyConnection,
        FieldId::Upgrade,
        FieldId::Date,
        FieldId::Host,
    ];
    let mut kept = fields.clone();
    kept.retain(|field| !written.contains(&field.id));
    fields_text(&kept)
}
