//! Incremental parser of HTTP/1 messages, mostly responses: head, length, chunks. Responses are verified by `expect`.
//!
//! It is separate from the server's codec, so that a mistake in one is not hidden by the same mistake in the other. It
//! is strict about framing and ignores everything else.

use super::limits::{CHUNK_LINE_BYTES_MAX, HEAD_BYTES_MAX};

/// The values of all headers of that name in an HTTP/1 head.
pub fn fields<'a>(raw: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    raw.split(|byte| *byte == b'\n')
        .skip(1)
        .filter_map(move |line| {
            let colon = memchr::memchr(b':', line)?;
            let ours = line[..colon].eq_ignore_ascii_case(name.as_bytes());
            ours.then(|| line[colon + 1..].trim_ascii())
        })
}

/// What a head says about the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The status; 0 in a request.
    pub status: u16,
    /// Whether it is HTTP/1.0.
    pub old: bool,
    /// Whether the sender closes the connection after this message, or requests that.
    pub closes: bool,
    /// How the body is framed.
    pub framing: Framing,
}

/// How the end of a body is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By its length.
    Length(u64),
    /// By a last chunk.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// Why bytes are not a valid response. The text names what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// The beginning of every response.
const FIRST_BYTES: &[u8] = b"HTTP/1.";

const NOT_HTTP1: Malformed = Malformed("not a status line of HTTP/1");

/// Receives the parts of a response.
pub trait Take {
    /// The final head as received, with its empty line.
    fn head(&mut self, facts: &Facts, raw: &[u8]);
    /// A piece of the body, without framing.
    fn body(&mut self, bytes: &[u8]);
}

/// Progress of a response: decides what the end of the connection means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No byte received.
    Nothing,
    /// A part of the head.
    Head,
    /// The head, and possibly a part of the body.
    Body,
    /// The head of a response that ends with the connection.
    UntilClose,
}

/// The result of `feed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// All bytes were consumed, the response is not complete.
    More,
    /// The response is complete; this many of the bytes belong to it.
    Complete(usize),
}

/// The most recent head on any connection of the thread, parsed. Servers repeat themselves: until `Date` changes, a
/// head is compared rather than parsed.
#[derive(Debug, Default)]
pub struct LastHead {
    raw: Vec<u8>,
    facts: Option<Facts>,
    /// Values of `Set-Cookie` since the list was taken; `None` if nobody wants them.
    pub cookies: Option<Vec<Vec<u8>>>,
}

impl LastHead {
    /// Collects the cookies of an HTTP/1 head.
    fn collect(&mut self, raw: &[u8]) {
        if let Some(cookies) = &mut self.cookies {
            cookies.extend(fields(raw, "set-cookie").map(<[u8]>::to_vec));
        }
    }
}

/// The parser of one connection.
#[derive(Debug)]
pub struct Reader {
    kind: Kind,
    state: State,
    /// Bytes of an incomplete head, or of an incomplete line of chunked framing.
    partial: Vec<u8>,
    facts: Option<Facts>,
}

/// The kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Responses,
    Requests,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailer,
    UntilClose,
}

impl Default for Reader {
    fn default() -> Self {
        Reader {
            kind: Kind::Responses,
            state: State::Head,
            partial: Vec::new(),
            facts: None,
        }
    }
}

impl Reader {
    /// A parser of client requests, for the lab's upstreams.
    pub fn of_requests() -> Self {
        Reader {
            kind: Kind::Requests,
            ..Reader::default()
        }
    }

    /// Progress of the current response.
    pub fn progress(&self) -> Progress {
        match self.state {
            State::Head if self.partial.is_empty() => Progress::Nothing,
            State::Head => Progress::Head,
            State::UntilClose => Progress::UntilClose,
            State::Length(_)
            | State::ChunkSize
            | State::ChunkData(_)
            | State::ChunkEnd
            | State::Trailer => Progress::Body,
        }
    }

    /// Facts of the current or last head.
    pub fn facts(&self) -> Option<Facts> {
        self.facts
    }

    /// Consumes bytes of one response, up to its end. `bodiless` for responses to HEAD.
    pub fn feed(
        &mut self,
        input: &[u8],
        bodiless: bool,
        last: &mut LastHead,
        take: &mut impl Take,
    ) -> Result<Fed, Malformed> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            match self.state {
                State::Head => {
                    let (used, ended) = self.head(rest, bodiless, last, take)?;
                    at += used;
                    if ended {
                        return Ok(Fed::Complete(at));
                    }
                }
                State::Length(left) => {
                    let used = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    take.body(&rest[..used]);
                    at += used;
                    if left == used as u64 {
                        self.state = State::Head;
                        return Ok(Fed::Complete(at));
                    }
                    self.state = State::Length(left - used as u64);
                }
                State::UntilClose => {
                    take.body(rest);
                    at = input.len();
                }
                State::ChunkData(left) => {
                    let used = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    take.body(&rest[..used]);
                    at += used;
                    self.state = match left - used as u64 {
                        0 => State::ChunkEnd,
                        left => State::ChunkData(left),
                    };
                }
                State::ChunkSize | State::ChunkEnd | State::Trailer => {
                    let (used, ended) = self.line(rest)?;
                    at += used;
                    if ended {
                        return Ok(Fed::Complete(at));
                    }
                }
            }
        }
        Ok(Fed::More)
    }

    /// Parses the head, or a part of it. Returns the bytes used, and whether the response ends with it.
    fn head(
        &mut self,
        rest: &[u8],
        bodiless: bool,
        last: &mut LastHead,
        take: &mut impl Take,
    ) -> Result<(usize, bool), Malformed> {
        if self.partial.is_empty() {
            let known = last.facts.filter(|_| rest.starts_with(&last.raw));
            if let Some(facts) = known {
                if last.cookies.is_some() {
                    last.collect(&rest[..last.raw.len()]);
                }
                return Ok((last.raw.len(), self.begin(facts, bodiless, &last.raw, take)));
            }
            if let Some(end) = memchr::memmem::find(rest, b"\r\n\r\n") {
                let raw = &rest[..end + 4];
                return Ok((raw.len(), self.fresh_head(raw, bodiless, last, take)?));
            }
        }
        // The empty line may cross the boundary of two reads: start three bytes earlier.
        let before = self.partial.len();
        let room = (HEAD_BYTES_MAX + 1).saturating_sub(before);
        self.partial
            .extend_from_slice(&rest[..rest.len().min(room)]);
        let from = before.saturating_sub(3);
        let found = memchr::memmem::find(&self.partial[from..], b"\r\n\r\n");
        let Some(end) = found.map(|end| from + end + 4) else {
            if self.partial.len() > HEAD_BYTES_MAX {
                return Err(Malformed("a head larger than 64 KiB"));
            }
            // What is not HTTP from its first byte on may never end a line.
            let seen = self.partial.len().min(FIRST_BYTES.len());
            if self.kind == Kind::Responses && self.partial[..seen] != FIRST_BYTES[..seen] {
                return Err(NOT_HTTP1);
            }
            return Ok((rest.len(), false));
        };
        let mut raw = std::mem::take(&mut self.partial);
        raw.truncate(end);
        let ended = self.fresh_head(&raw, bodiless, last, take)?;
        raw.clear();
        self.partial = raw;
        Ok((end - before, ended))
    }

    fn fresh_head(
        &mut self,
        raw: &[u8],
        bodiless: bool,
        last: &mut LastHead,
        take: &mut impl Take,
    ) -> Result<bool, Malformed> {
        let facts = parse_head(raw, self.kind)?;
        last.collect(raw);
        if raw.len() <= CHUNK_LINE_BYTES_MAX {
            last.raw.clear();
            last.raw.extend_from_slice(raw);
            last.facts = Some(facts);
        }
        Ok(self.begin(facts, bodiless, raw, take))
    }

    /// Handles a parsed head. Interim responses are skipped, except 101, after which another protocol begins.
    fn begin(&mut self, facts: Facts, bodiless: bool, raw: &[u8], take: &mut impl Take) -> bool {
        if (100..200).contains(&facts.status) && facts.status != 101 {
            return false;
        }
        self.facts = Some(facts);
        take.head(&facts, raw);
        // RFC 9112, section 6.3, items 1 and 2.
        let none = bodiless || matches!(facts.status, 101 | 204 | 304);
        self.state = match facts.framing {
            Framing::Length(0) => State::Head,
            Framing::Length(left) if !none => State::Length(left),
            Framing::Chunked if !none => State::ChunkSize,
            Framing::UntilClose if !none => State::UntilClose,
            Framing::Length(_) | Framing::Chunked | Framing::UntilClose => State::Head,
        };
        self.state == State::Head
    }

    /// Parses a line of chunked framing, or a part of it. Returns the bytes used, and whether the response ends with
    /// it.
    fn line(&mut self, rest: &[u8]) -> Result<(usize, bool), Malformed> {
        let Some(end) = memchr::memchr(b'\n', rest) else {
            self.partial.extend_from_slice(rest);
            if self.partial.len() > CHUNK_LINE_BYTES_MAX {
                return Err(Malformed("a chunk-size line longer than 8 KiB"));
            }
            return Ok((rest.len(), false));
        };
        self.partial.extend_from_slice(&rest[..end]);
        let mut line = std::mem::take(&mut self.partial);
        let Some(b'\r') = line.pop() else {
            return Err(Malformed("a chunk-size line that ends without CR"));
        };
        let ended = match self.state {
            State::ChunkSize => {
                self.state = match chunk_size(&line)? {
                    0 => State::Trailer,
                    size => State::ChunkData(size),
                };
                false
            }
            State::ChunkEnd if line.is_empty() => {
                self.state = State::ChunkSize;
                false
            }
            State::ChunkEnd => return Err(Malformed("a chunk longer than its size")),
            State::Trailer => line.is_empty(),
            State::Head | State::Length(_) | State::ChunkData(_) | State::UntilClose => {
                unreachable!("called in the states of lines only")
            }
        };
        if ended {
            self.state = State::Head;
        }
        line.clear();
        self.partial = line;
        Ok((end + 1, ended))
    }
}

/// RFC 9112, section 7.1: hexadecimal digits, then optional extensions.
fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line
        .iter()
        .position(|byte| !byte.is_ascii_hexdigit())
        .unwrap_or(line.len());
    let after = line[digits..].first();
    if !matches!(after, None | Some(b';' | b' ' | b'\t')) || digits == 0 || digits > 15 {
        return Err(Malformed("a chunk without a size"));
    }
    let digits = std::str::from_utf8(&line[..digits]).unwrap_or_default();
    u64::from_str_radix(digits, 16).map_err(|_| Malformed("a chunk without a size"))
}

/// Parses a complete head. Rejects whatever would make the end of the message ambiguous.
fn parse_head(raw: &[u8], kind: Kind) -> Result<Facts, Malformed> {
    let mut lines = raw.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let (status, old) = match kind {
        Kind::Responses => status_line(first)?,
        Kind::Requests => (0, request_line(first)?),
    };
    let (mut length, mut chunked, mut coded, mut closes, mut keeps) =
        (None, false, false, false, false);
    for line in lines {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let Some(colon) = memchr::memchr(b':', line).filter(|colon| *colon > 0) else {
            return Err(Malformed("a header line without a colon"));
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let this = decimal(value).ok_or(Malformed("a Content-Length that is not a number"))?;
            if length.is_some_and(|length| length != this) {
                return Err(Malformed("two different Content-Length values"));
            }
            length = Some(this);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            coded = true;
            chunked = last_word(value).eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            closes |= has_word(value, b"close");
            keeps |= has_word(value, b"keep-alive");
        }
    }
    if coded && length.is_some() {
        return Err(Malformed("both Content-Length and Transfer-Encoding"));
    }
    let framing = match (chunked, coded, length) {
        (true, ..) => Framing::Chunked,
        (false, false, Some(length)) => Framing::Length(length),
        // RFC 9112, section 6.3, item 7: a request without either has no body.
        (false, false, None) if kind == Kind::Requests => Framing::Length(0),
        (false, ..) => Framing::UntilClose,
    };
    Ok(Facts {
        status,
        old,
        closes: closes || (old && !keeps) || framing == Framing::UntilClose,
        framing,
    })
}

/// Parses `HTTP/1.1 200 OK`: the status, and whether the version is 1.0.
fn status_line(line: &[u8]) -> Result<(u16, bool), Malformed> {
    let rest = line.strip_prefix(FIRST_BYTES).ok_or(NOT_HTTP1)?;
    let (Some(minor @ (b'0' | b'1')), Some(b' ')) = (rest.first(), rest.get(1)) else {
        return Err(Malformed("a version that is neither 1.0 nor 1.1"));
    };
    let digits = rest.get(2..5).unwrap_or_default();
    let ends = matches!(rest.get(5), None | Some(b' ' | b'\r'));
    match decimal(digits).filter(|status| ends && digits.len() == 3 && *status >= 100) {
        Some(status) => Ok((status as u16, *minor == b'0')),
        None => Err(Malformed("a status that is not three digits")),
    }
}

/// Parses `GET / HTTP/1.1`: whether the version is 1.0.
fn request_line(line: &[u8]) -> Result<bool, Malformed> {
    match line.trim_ascii_end().rsplit(|byte| *byte == b' ').next() {
        Some(b"HTTP/1.1") => Ok(false),
        Some(b"HTTP/1.0") => Ok(true),
        _ => Err(Malformed("a request line without a version")),
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum, digit: &u8| sum * 10 + u64::from(digit - b'0');
    Some(digits.iter().fold(0, add))
}

fn last_word(value: &[u8]) -> &[u8] {
    value
        .rsplit(|byte| *byte == b',')
        .next()
        .unwrap_or_default()
        .trim_ascii()
}

fn has_word(value: &[u8], word: &[u8]) -> bool {
    value
        .split(|byte| *byte == b',')
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
