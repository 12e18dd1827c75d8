//! Feeds the same FastCGI response to the decoders in one piece, split in two at many positions, and one by one. The
//! tests state the expected result.

#![allow(dead_code)]

use sluice_message::ResponseHead;
use sluice_wire::fastcgi::{HeadDecoder, ResponseDecoder};
use sluice_wire::h1::{Limits, Progress};

/// The result of decoding the records of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Head and body.
    pub content: Vec<u8>,
    pub stderr: Vec<u8>,
    pub dropped: u64,
    /// Bytes of the input that belong to the response.
    pub consumed: usize,
    /// `end`, `unfinished`, or the fault.
    pub state: String,
}

/// The outcome of records given in these pieces.
pub fn respond_in(pieces: &[&[u8]]) -> Outcome {
    let mut decoder = ResponseDecoder::keeping_stderr();
    let mut outcome = Outcome {
        state: "unfinished".to_owned(),
        ..Outcome::default()
    };
    for piece in pieces {
        let mut piece = piece.to_vec();
        match decoder.decode_merged(&mut piece) {
            Ok(step) => {
                outcome
                    .content
                    .extend_from_slice(&piece[step.content.clone()]);
                outcome.consumed += step.consumed;
                assert_eq!(step.ended, decoder.is_done());
                if step.ended {
                    outcome.state = "end".to_owned();
                    break;
                }
                assert_eq!(step.consumed, piece.len(), "nothing is left for later");
            }
            Err(fault) => {
                outcome.state = format!("{fault:?}");
                // How much was taken before the fault depends on the cut; no one may use it.
                outcome.content.clear();
                outcome.consumed = 0;
                break;
            }
        }
    }
    assert_eq!(decoder.finish_at_eof().is_ok(), outcome.state == "end");
    outcome.stderr = decoder.stderr().text.clone();
    outcome.dropped = decoder.stderr().dropped;
    outcome
}

/// The outcome for records given in one piece, after checking that every other way of cutting them has the same.
pub fn response(bytes: &[u8]) -> Outcome {
    let whole = respond_in(&[bytes]);
    let one_by_one: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(respond_in(&one_by_one), whole, "byte by byte");
    let stride = 1 + bytes.len() / 200;
    for cut in (0..=bytes.len()).step_by(stride) {
        let (first, second) = bytes.split_at(cut);
        assert_eq!(respond_in(&[first, second]), whole, "cut at {cut}");
    }
    whole
}

fn look(decoder: &mut HeadDecoder, bytes: &[u8], head: &mut ResponseHead) -> Option<String> {
    match decoder.decode(bytes, head) {
        Ok(Progress::Incomplete) => {
            assert!(head.fields.is_empty(), "an incomplete head is empty");
            None
        }
        Ok(Progress::Complete { consumed, value }) => {
            let fields = head.fields.iter().map(|field| {
                let (name, value) = (field.name.escape_ascii(), field.value.escape_ascii());
                format!(" {name}={value}")
            });
            let fields: String = fields.collect();
            Some(format!(
                "{consumed} {} {value:?}{fields}",
                head.status.code()
            ))
        }
        Err(error) => {
            assert!(head.fields.is_empty(), "a refused head is empty");
            Some(format!("refused: {error} {:?}", error.fault))
        }
    }
}

/// The outcome for a head given in one piece, after checking that every other way of cutting it has the same.
pub fn head(bytes: &[u8], limits: &Limits) -> String {
    head_by(bytes, || HeadDecoder::new(limits.clone()))
}

/// The same for a head that may begin with a status line.
pub fn head_of_http(bytes: &[u8], limits: &Limits) -> String {
    head_by(bytes, || HeadDecoder::with_status_line(limits.clone()))
}

fn head_by(bytes: &[u8], decoder: impl Fn() -> HeadDecoder) -> String {
    let mut head = ResponseHead::default();
    let unfinished = || "incomplete".to_owned();
    let whole = look(&mut decoder(), bytes, &mut head);
    let whole = whole.unwrap_or_else(unfinished);
    let mut growing = decoder();
    let grown = (0..=bytes.len()).find_map(|end| look(&mut growing, &bytes[..end], &mut head));
    assert_eq!(grown.unwrap_or_else(unfinished), whole, "byte by byte");
    for cut in (0..bytes.len()).step_by(1 + bytes.len() / 200) {
        let mut decoder = decoder();
        let halves = look(&mut decoder, &bytes[..cut], &mut head)
            .or_else(|| look(&mut decoder, bytes, &mut head));
        assert_eq!(halves.unwrap_or_else(unfinished), whole, "cut at {cut}");
    }
    whole
}

/// What the fuzzer asserts of any input: records, and the head in their content.
pub fn check(bytes: &[u8]) {
    let outcome = response(bytes);
    assert!(outcome.content.len() + outcome.stderr.len() <= bytes.len());
    for limits in [
        Limits::DEFAULT,
        Limits {
            head_bytes_max: 60,
            fields_max: 2,
            name_bytes_max: 12,
            ..Limits::DEFAULT
        },
    ] {
        head(&outcome.content, &limits);
        head(bytes, &limits);
        head_of_http(bytes, &limits);
    }
}
