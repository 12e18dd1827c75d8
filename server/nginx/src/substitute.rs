//! `nginx_sub`: replaces strings in responses as they are sent. Only bytes that may begin a match in the next piece
//! are held back.

use std::task::{Context, Poll, ready};

use sluice_message::{FieldId, Fields, Method};
use sluice_model::nginx::Substitutions as Config;
use sluice_net::{Body, BodyStream, Failure};
use sluice_route::Template;

use super::changed;
use super::types::Kinds;
use sluice_handlers::filters::encode::{Silence, Source};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Filtering, Handler};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expanded;

struct Settings {
    texts: Vec<(Template, Template)>,
    how_often: HowOften,
    types: Kinds,
    keeps_last_modified: bool,
}

/// How often each string is replaced per response (`sub_filter_once`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HowOften {
    Once,
    Always,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let texts = config.texts.iter();
    let texts = texts.map(|one| Ok((builder.template(&one.text)?, builder.template(&one.with)?)));
    Ok(Filtering::boxed(Settings {
        texts: texts.collect::<Result<_, Refusal>>()?,
        how_often: match config.every {
            true => HowOften::Always,
            false => HowOften::Once,
        },
        types: Kinds::build(&config.types),
        keeps_last_modified: config.keeps_last_modified,
    }))
}

impl Settings {
    /// Whether the filter applies: an uncompressed body of a configured type.
    fn is_for(&self, exchange: &Exchange, body: &Body) -> bool {
        let fields = &exchange.res.fields;
        if exchange.res.status.is_bodiless()
            || body.len(exchange.inline.len()) == Some(0)
            || fields.has(FieldId::ContentEncoding)
        {
            return false;
        }
        self.types.include(fields)
    }

    /// Removes headers that described the original bytes.
    fn change_fields(&self, exchange: &mut Exchange) {
        let fields = &mut exchange.res.fields;
        changed::note(fields);
        if !self.keeps_last_modified {
            fields.remove(FieldId::LastModified);
            fields.remove(FieldId::Etag);
        }
    }
}

impl Filter for Settings {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if !self.is_for(exchange, &body) {
            return body;
        }
        let mut search = Search::new(self.how_often);
        for (text, with) in &self.texts {
            search.add(&expanded(text, exchange), expanded(with, exchange));
        }
        let source = match Source::of(exchange, body) {
            Ok(source) => source,
            Err(other) => return other,
        };
        self.change_fields(exchange);
        if exchange.req.method == Method::Head {
            // The length is only known after replacement, which HEAD does not do.
            return Body::Stream(Box::new(Silence));
        }
        if source.is_at_hand() {
            search.read(source.at_hand());
            search.end();
            exchange.inline = search.out;
            return Body::Inline;
        }
        Body::Stream(Box::new(SubstituteStream {
            source,
            search,
            sent: 0,
            state: State::Reading,
        }))
    }
}

/// A string to search for.
struct Text {
    text: Vec<u8>,
    with: Vec<u8>,
    is_done: bool,
}

/// The state of the search in one response.
struct Search {
    texts: Vec<Text>,
    how_often: HowOften,
    /// The first bytes of the strings still searched for.
    first: [bool; 256],
    /// Bytes that may begin a match.
    held: Vec<u8>,
    out: Vec<u8>,
}

/// The result of a comparison at one position.
enum Place {
    /// This string matches.
    Text(usize),
    /// A string may match, but its end has not arrived.
    Perhaps,
    Nothing,
}

impl Search {
    fn new(how_often: HowOften) -> Search {
        Search {
            texts: Vec::new(),
            how_often,
            first: [false; 256],
            held: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Adds a string to search for; an empty one never matches.
    fn add(&mut self, text: &[u8], with: Vec<u8>) {
        if !text.is_empty() {
            self.texts.push(Text {
                text: text.to_ascii_lowercase(),
                with,
                is_done: false,
            });
            self.note_first();
        }
    }

    fn note_first(&mut self) {
        self.first = [false; 256];
        for text in self.texts.iter().filter(|text| !text.is_done) {
            let byte = text.text[0];
            self.first[usize::from(byte)] = true;
            self.first[usize::from(byte.to_ascii_uppercase())] = true;
        }
    }

    /// Processes the next bytes.
    fn read(&mut self, piece: &[u8]) {
        match self.held.is_empty() {
            true => {
                let left = self.look(piece, false);
                self.held.extend_from_slice(&piece[piece.len() - left..]);
            }
            false => {
                let mut held = std::mem::take(&mut self.held);
                held.extend_from_slice(piece);
                let left = self.look(&held, false);
                held.drain(..held.len() - left);
                self.held = held;
            }
        }
    }

    /// Ends the input.
    fn end(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.look(&held, true);
    }

    /// Writes `bytes` with replacements; returns how many at the end have to wait for more input.
    fn look(&mut self, bytes: &[u8], is_end: bool) -> usize {
        let (mut written, mut at) = (0, 0);
        while let Some(ahead) = bytes[at..]
            .iter()
            .position(|byte| self.first[usize::from(*byte)])
        {
            at += ahead;
            match self.place(&bytes[at..], is_end) {
                Place::Nothing => at += 1,
                Place::Perhaps => {
                    self.out.extend_from_slice(&bytes[written..at]);
                    return bytes.len() - at;
                }
                Place::Text(index) => {
                    self.out.extend_from_slice(&bytes[written..at]);
                    let text = &mut self.texts[index];
                    self.out.extend_from_slice(&text.with);
                    at += text.text.len();
                    written = at;
                    if self.how_often == HowOften::Once {
                        text.is_done = true;
                        self.note_first();
                    }
                }
            }
        }
        self.out.extend_from_slice(&bytes[written..]);
        0
    }

    fn place(&self, rest: &[u8], is_end: bool) -> Place {
        for (index, text) in self.texts.iter().enumerate() {
            if text.is_done {
                continue;
            }
            match rest.get(..text.text.len()) {
                Some(start) if start.eq_ignore_ascii_case(&text.text) => return Place::Text(index),
                Some(_) => {}
                None if !is_end && text.text[..rest.len()].eq_ignore_ascii_case(rest) => {
                    return Place::Perhaps;
                }
                None => {}
            }
        }
        Place::Nothing
    }
}

/// A body with replacements.
struct SubstituteStream {
    source: Source,
    search: Search,
    /// Bytes of the output that have been sent.
    sent: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    Ended,
}

impl BodyStream for SubstituteStream {
    fn len(&self) -> Option<u64> {
        None
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.source.poll_ahead(cx)
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        while self.sent == self.search.out.len() && self.state == State::Reading {
            self.search.out.clear();
            self.sent = 0;
            let piece = ready!(self.source.poll_piece(cx))?;
            let count = piece.len();
            match count {
                0 => {
                    self.search.end();
                    self.state = State::Ended;
                }
                count => {
                    self.search.read(piece);
                    self.source.take(count);
                }
            }
        }
        Poll::Ready(Ok(&self.search.out[self.sent..]))
    }

    fn consume(&mut self, count: usize) {
        self.sent += count;
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.source.trailers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(how_often: HowOften, texts: &[(&str, &str)]) -> Search {
        let mut search = Search::new(how_often);
        for (text, with) in texts {
            search.add(text.as_bytes(), with.as_bytes().to_vec());
        }
        search
    }

    /// How often, the replacements, a response, and the expected result.
    type Case = (
        HowOften,
        &'static [(&'static str, &'static str)],
        &'static str,
        &'static str,
    );

    #[test]
    fn texts_are_replaced_however_they_arrive() {
        let cases: [Case; 8] = [
            (HowOften::Once, &[("a", "b")], "xaxa", "xbxa"),
            (HowOften::Always, &[("A", "bb")], "xaxA", "xbbxbb"),
            (HowOften::Always, &[("aab", "-")], "aaabaab", "a--"),
            (
                HowOften::Once,
                &[("one", "1"), ("two", "2")],
                "two one two one",
                "2 1 two one",
            ),
            (
                HowOften::Always,
                &[("abc", "1"), ("ab", "2")],
                "abcabab",
                "122",
            ),
            (
                HowOften::Always,
                &[("</head>", "<x></HEAD>")],
                "<head></HEAD><",
                "<head><x></HEAD><",
            ),
            (HowOften::Always, &[("", "x")], "abc", "abc"),
            (HowOften::Always, &[("abcd", "")], "abcabcdabc", "abcabc"),
        ];
        for (how_often, texts, input, expected) in cases {
            for first in 0..=input.len() {
                for second in first..=input.len() {
                    let mut search = search(how_often, texts);
                    for piece in [&input[..first], &input[first..second], &input[second..]] {
                        search.read(piece.as_bytes());
                    }
                    search.end();
                    let found = String::from_utf8(search.out).unwrap();
                    assert_eq!(found, expected, "{input} cut at {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn little_is_held_back() {
        let mut search = search(HowOften::Always, &[("needle", "x")]);
        search.read(&b"need".repeat(10_000));
        assert!(search.held.len() < "needle".len(), "{}", search.held.len());
    }
}
