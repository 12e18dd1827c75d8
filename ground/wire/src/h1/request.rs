//! Parses request heads. `body` decodes their bodies.

use core::fmt;

use memchr::memchr;
use sluice_message::name::is_token_byte;
use sluice_message::{FieldId, Fields, Method, RequestHead, Status, Version};

use super::Progress;
use super::authority::is_authority;
use super::field_line::{FieldFault, Located, Section, Seen, read_section};
use super::framing::{BodyFraming, Declared, FramingFault, KeepAlive, Options, declared, items};
use super::head::{Resume, Stage};
use super::scan;
use super::target::Target;
use crate::limits::{Leniency, Limits, LineEnds, TargetBytes, UndeclaredContent};

/// What a request says about its body and its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFraming {
    /// How the body ends; never [`BodyFraming::UntilClose`].
    pub body: BodyFraming,
    /// Whether the client wants to send another request.
    pub keep_alive: KeepAlive,
    /// Whether the client waits for a 100 before it sends the body.
    pub expectation: Expectation,
    /// Whether the client wants another protocol on this connection.
    pub upgrade: UpgradeWish,
}

/// What the Expect field asks for (RFC 9110, section 10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Nothing, or there is no body to wait for.
    None,
    /// A 100 or a final response is due before the body.
    Continue,
}

/// Whether `Connection: upgrade` and an Upgrade field are there (RFC 9110, section 7.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeWish {
    /// They are not.
    None,
    /// They are.
    Asked,
}

/// Why a request was refused. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// What was wrong.
    pub fault: RequestFault,
    /// Bytes from the start of the input to the fault, or to the line that has it.
    pub offset: usize,
}

/// What was wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// The first byte cannot start a request. TLS on a plain port looks like this (0x16).
    NotHttp(u8),
    /// The request line ends in something else than CR LF.
    LineEnd,
    /// There are more empty lines before the request line than the limit.
    EmptyLines,
    /// The method is not a token.
    Method,
    /// The method is longer than the limit.
    MethodTooLong,
    /// The request line is longer than method and target may be together.
    LineTooLong,
    /// The target has a byte or a form that is not allowed, or a broken escape in its path.
    Target,
    /// The target is longer than the limit.
    TargetTooLong,
    /// There is no version: HTTP/0.9.
    VersionMissing,
    /// What stands where the version belongs is none.
    Version,
    /// A version of another major number.
    VersionUnsupported,
    /// The connection preface of HTTP/2 (RFC 9113, section 3.4).
    Http2Preface,
    /// The head is longer than the limit.
    HeadTooLarge,
    /// A field line is malformed.
    Field(FieldFault),
    /// HTTP/1.1 without Host.
    HostMissing,
    /// More than one Host.
    HostRepeated,
    /// Host is not a host with an optional port.
    HostInvalid,
    /// The fields that frame the body are malformed or contradict each other.
    Framing(FramingFault),
    /// A method that carries content came in HTTP/1.0 without its length.
    LengthMissing,
    /// An expectation other than `100-continue`.
    Expectation,
}

impl RequestError {
    /// The status to send before closing.
    pub fn status(&self) -> Status {
        match self.fault {
            RequestFault::TargetTooLong | RequestFault::LineTooLong => Status::URI_TOO_LONG,
            RequestFault::MethodTooLong => Status::NOT_IMPLEMENTED,
            RequestFault::VersionUnsupported | RequestFault::Http2Preface => {
                Status::VERSION_NOT_SUPPORTED
            }
            RequestFault::HeadTooLarge
            | RequestFault::Field(
                FieldFault::TooMany | FieldFault::NameTooLong | FieldFault::LineTooLong,
            ) => Status::HEADERS_TOO_LARGE,
            RequestFault::Framing(FramingFault::CodingUnknown) => Status::NOT_IMPLEMENTED,
            RequestFault::LengthMissing => Status::LENGTH_REQUIRED,
            RequestFault::Expectation => Status::EXPECTATION_FAILED,
            RequestFault::NotHttp(_)
            | RequestFault::LineEnd
            | RequestFault::EmptyLines
            | RequestFault::Method
            | RequestFault::Target
            | RequestFault::VersionMissing
            | RequestFault::Version
            | RequestFault::Field(_)
            | RequestFault::HostMissing
            | RequestFault::HostRepeated
            | RequestFault::HostInvalid
            | RequestFault::Framing(_) => Status::BAD_REQUEST,
        }
    }

    fn new(fault: RequestFault, offset: usize) -> Self {
        RequestError { fault, offset }
    }
}

impl From<Located<FieldFault>> for RequestError {
    fn from(at: Located<FieldFault>) -> Self {
        RequestError::new(RequestFault::Field(at.fault), at.offset)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            RequestFault::NotHttp(byte) => write!(f, "byte 0x{byte:02x} cannot start a request")?,
            RequestFault::LineEnd => f.write_str("request line does not end in CR LF")?,
            RequestFault::EmptyLines => f.write_str("too many empty lines before the request")?,
            RequestFault::Method => f.write_str("method is not a token")?,
            RequestFault::MethodTooLong => f.write_str("method too long")?,
            RequestFault::LineTooLong => f.write_str("request line too long")?,
            RequestFault::Target => f.write_str("request target not allowed")?,
            RequestFault::TargetTooLong => f.write_str("request target too long")?,
            RequestFault::VersionMissing => f.write_str("request line without version")?,
            RequestFault::Version => f.write_str("malformed version")?,
            RequestFault::VersionUnsupported => f.write_str("unsupported version")?,
            RequestFault::Http2Preface => f.write_str("HTTP/2 preface on an HTTP/1 connection")?,
            RequestFault::HeadTooLarge => f.write_str("head too large")?,
            RequestFault::Field(fault) => fault.fmt(f)?,
            RequestFault::HostMissing => f.write_str("no host field")?,
            RequestFault::HostRepeated => f.write_str("more than one host field")?,
            RequestFault::HostInvalid => f.write_str("host is not a host with optional port")?,
            RequestFault::Framing(fault) => fault.fmt(f)?,
            RequestFault::LengthMissing => f.write_str("HTTP/1.0 content without length")?,
            RequestFault::Expectation => f.write_str("unknown expectation")?,
        }
        write!(f, " (at byte {})", self.offset)
    }
}

impl core::error::Error for RequestError {}

/// Reads the heads of the requests of one connection.
///
/// It is small: ten thousand connections have one each. The limits, which they share, are given with each call and
/// have to stay the same for one head.
#[derive(Clone, Debug, Default)]
pub struct RequestDecoder {
    resume: Resume,
}

impl RequestDecoder {
    /// A decoder that stands before its first request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets an incomplete head. After a complete one the decoder is ready for the next by itself.
    pub fn reset(&mut self) {
        self.resume = Resume::default();
    }

    /// Parses a request head from the start of `buf`, which holds all bytes that were received and not consumed. `head`
    /// is cleared, and filled only when the head is complete.
    ///
    /// The result, errors included, does not depend on how the bytes arrive, in one piece or one by one.
    pub fn decode(
        &mut self,
        limits: &Limits,
        buf: &[u8],
        head: &mut RequestHead,
    ) -> Result<Progress<RequestFraming>, RequestError> {
        head.clear();
        let window = &buf[..buf.len().min(limits.head_bytes_max)];
        let outcome = self.look(limits, window, head);
        if !matches!(outcome, Ok(Progress::Incomplete)) {
            self.reset();
        }
        if !matches!(outcome, Ok(Progress::Complete { .. })) {
            head.clear();
        }
        outcome
    }

    fn look(
        &mut self,
        limits: &Limits,
        window: &[u8],
        head: &mut RequestHead,
    ) -> Result<Progress<RequestFraming>, RequestError> {
        let resumed = self.resume.scanned > 0;
        if resumed && !self.advance(limits, window)? {
            return self.incomplete(limits, window);
        }
        match self.read(limits, window, head)? {
            Some((consumed, value)) => Ok(Progress::Complete { consumed, value }),
            None => self.incomplete(limits, window),
        }
    }

    /// Checks the lines that became complete since the last call and returns whether the head is complete.
    fn advance(&mut self, limits: &Limits, window: &[u8]) -> Result<bool, RequestError> {
        if self.resume.stage == Stage::AwaitStartLine {
            let Some(at) = skip_empty_lines(window, limits)? else {
                self.resume.scanned = window.len();
                return Ok(false);
            };
            if self.resume.scanned < at {
                self.resume.scanned = at;
            }
            self.resume.at = at;
            if !self.resume.line_is_complete(window) {
                return Ok(false);
            }
            match read_start_line(window, at, limits)? {
                Some(line) => self.resume.enter_fields(line.next),
                None => return Ok(false),
            }
        }
        Ok(self.resume.advance(window, limits)?)
    }

    /// Reads the whole head, or `None` and notes where to go on.
    fn read(
        &mut self,
        limits: &Limits,
        window: &[u8],
        head: &mut RequestHead,
    ) -> Result<Option<(usize, RequestFraming)>, RequestError> {
        self.resume = Resume {
            scanned: window.len(),
            ..Resume::default()
        };
        let Some(at) = skip_empty_lines(window, limits)? else {
            return Ok(None);
        };
        self.resume.at = at;
        let Some(line) = read_start_line(window, at, limits)? else {
            return Ok(None);
        };
        let mut seen = Seen::default();
        match read_section(window, line.next, limits, &mut head.fields, &mut seen)? {
            Section::Unfinished(at) => {
                let fields = head.fields.len();
                self.resume = Resume {
                    stage: Stage::AwaitField,
                    at,
                    scanned: window.len(),
                    fields,
                };
                Ok(None)
            }
            Section::End(end) => {
                seen.note_end(line.ends);
                // Empty lines before it count as well.
                if at > 0 && !window[..at].chunks(2).all(|line| line == b"\r\n") {
                    seen.note_end(LineEnds::LfToo);
                }
                let framing = finish(window, &line, end, seen, &limits.leniency, head)
                    .map_err(|fault| RequestError::new(fault, at))?;
                Ok(Some((end, framing)))
            }
        }
    }

    /// More bytes are needed, unless there are already too many.
    fn incomplete(
        &self,
        limits: &Limits,
        window: &[u8],
    ) -> Result<Progress<RequestFraming>, RequestError> {
        let at = self.resume.at;
        let line_open = self.resume.stage == Stage::AwaitStartLine;
        if line_open && window.len() - at >= start_line_bytes_max(limits) {
            return Err(RequestError::new(too_long(&window[at..], limits), at));
        }
        if window.len() == limits.head_bytes_max {
            return Err(RequestError::new(RequestFault::HeadTooLarge, window.len()));
        }
        Ok(Progress::Incomplete)
    }
}

/// Where the request line starts: after the empty lines that RFC 9112, section 2.2 asks servers to skip. `None`
/// if its first byte has not arrived.
fn skip_empty_lines(bytes: &[u8], limits: &Limits) -> Result<Option<usize>, RequestError> {
    let (mut at, mut skipped) = (0, 0);
    loop {
        let lf_at = match bytes.get(at) {
            None => return Ok(None),
            Some(b'\r') => at + 1,
            Some(byte) if is_token_byte(*byte) => return Ok(Some(at)),
            Some(b'\n') if limits.leniency.line_ends == LineEnds::LfToo => at,
            Some(b'\n') => return Err(RequestError::new(RequestFault::LineEnd, at)),
            Some(byte) => return Err(RequestError::new(RequestFault::NotHttp(*byte), at)),
        };
        match bytes.get(lf_at) {
            None => return Ok(None),
            Some(b'\n') if skipped == limits.empty_lines_max => {
                return Err(RequestError::new(RequestFault::EmptyLines, at));
            }
            Some(b'\n') => skipped += 1,
            Some(_) => return Err(RequestError::new(RequestFault::LineEnd, at)),
        }
        at = lf_at + 1;
    }
}

/// The longest request line: method, target, version, two spaces and CR LF.
fn start_line_bytes_max(limits: &Limits) -> usize {
    let parts = limits.method_bytes_max + limits.target_bytes_max + b"  HTTP/1.1\r\n".len();
    parts.min(limits.line_bytes_max)
}

/// Which part makes a request line too long.
fn too_long(line: &[u8], limits: &Limits) -> RequestFault {
    let start = &line[..line.len().min(limits.method_bytes_max + 1)];
    match memchr(b' ', start) {
        Some(_) => RequestFault::TargetTooLong,
        // A method that long is none that any server knows; its line is what is too much.
        None => RequestFault::LineTooLong,
    }
}

/// A request line; places count from the start of the input.
struct StartLine {
    at: usize,
    method_end: usize,
    target_end: usize,
    /// Whether the target has bytes that only [`TargetBytes::Raw`] allows.
    target: TargetBytes,
    version: Version,
    /// How it ends.
    ends: LineEnds,
    /// Where the first field line starts.
    next: usize,
}

/// Parses the request line that starts at `at`; `None` if it is not complete. Errors are reported only for complete
/// lines.
#[inline]
fn read_start_line(
    bytes: &[u8],
    at: usize,
    limits: &Limits,
) -> Result<Option<StartLine>, RequestError> {
    match read_plain(bytes, at, limits) {
        Some(line) => Ok(Some(line)),
        None => explain(bytes, at, limits),
    }
}

/// Reads a request line that is complete, right and of the two usual versions. In line with its caller, as is
/// the reading of field lines.
#[inline(always)]
fn read_plain(bytes: &[u8], at: usize, limits: &Limits) -> Option<StartLine> {
    let mut method_end = at;
    while is_token_byte(*bytes.get(method_end)?) {
        method_end += 1;
    }
    if bytes[method_end] != b' ' || method_end == at || method_end - at > limits.method_bytes_max {
        return None;
    }
    let target_at = method_end + 1;
    let target_end = scan::target_end(bytes, target_at);
    if target_end == target_at || target_end - target_at > limits.target_bytes_max {
        return None;
    }
    let version = match bytes.get(target_end..)?.first_chunk::<11>()? {
        b" HTTP/1.1\r\n" => Version::Http11,
        b" HTTP/1.0\r\n" => Version::Http10,
        _ => return None,
    };
    let next = target_end + 11;
    if next - at > limits.line_bytes_max {
        return None;
    }
    Some(StartLine {
        at,
        method_end,
        target_end,
        target: TargetBytes::Ascii,
        version,
        ends: LineEnds::CrLf,
        next,
    })
}

/// Says why [`read_plain`] gave up: the line is not complete, has a fault, or a rare version.
#[cold]
fn explain(bytes: &[u8], at: usize, limits: &Limits) -> Result<Option<StartLine>, RequestError> {
    let Some(length) = memchr(b'\n', &bytes[at..]) else {
        return Ok(None);
    };
    let line = &bytes[at..at + length + 1];
    let fail = |fault, place: usize| Err(RequestError::new(fault, at + place));
    if line.len() > start_line_bytes_max(limits) {
        return fail(too_long(line, limits), 0);
    }
    let takes_lf = limits.leniency.line_ends == LineEnds::LfToo;
    let (text, ends) = match line.strip_suffix(b"\r\n") {
        Some(text) => (text, LineEnds::CrLf),
        None if takes_lf => (&line[..length], LineEnds::LfToo),
        None => return fail(RequestFault::LineEnd, length),
    };
    if let Some(cr) = memchr(b'\r', text) {
        return fail(RequestFault::LineEnd, cr);
    }
    let method_end = text
        .iter()
        .position(|byte| !is_token_byte(*byte))
        .unwrap_or(text.len());
    if method_end > limits.method_bytes_max {
        return fail(RequestFault::MethodTooLong, 0);
    }
    if text.get(method_end) != Some(&b' ') {
        return fail(RequestFault::Method, method_end);
    }
    if text == b"PRI * HTTP/2.0" {
        return fail(RequestFault::Http2Preface, 0);
    }
    let target_at = method_end + 1;
    let plain_end = scan::target_end(text, target_at);
    let (target_end, target) = match limits.leniency.targets {
        TargetBytes::Ascii => (plain_end, TargetBytes::Ascii),
        TargetBytes::Raw => match scan::raw_target_end(text, plain_end) {
            end if end == plain_end => (end, TargetBytes::Ascii),
            end => (end, TargetBytes::Raw),
        },
    };
    if target_end - target_at > limits.target_bytes_max {
        return fail(RequestFault::TargetTooLong, target_at);
    }
    match text.get(target_end) {
        _ if target_end == target_at => fail(RequestFault::Target, target_at),
        None => fail(RequestFault::VersionMissing, target_end),
        Some(b' ') => match read_version(&text[target_end + 1..]) {
            Ok(version) => {
                let next = at + line.len();
                let (method_end, target_end) = (at + method_end, at + target_end);
                Ok(Some(StartLine {
                    at,
                    method_end,
                    target_end,
                    target,
                    version,
                    ends,
                    next,
                }))
            }
            Err(fault) => fail(fault, target_end + 1),
        },
        Some(_) => fail(RequestFault::Target, target_end),
    }
}

/// RFC 9112, section 2.3: case counts, one digit each. Minor versions above 1 speak 1.1 to us.
fn read_version(text: &[u8]) -> Result<Version, RequestFault> {
    match text {
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            major @ b'0'..=b'9',
            b'.',
            minor @ b'0'..=b'9',
        ] => match (major, minor) {
            (b'1', b'0') => Ok(Version::Http10),
            (b'1', _) => Ok(Version::Http11),
            _ => Err(RequestFault::VersionUnsupported),
        },
        _ => Err(RequestFault::Version),
    }
}

/// Fills `head` from a head section that ends at `end` and reads what its fields say together.
fn finish(
    bytes: &[u8],
    line: &StartLine,
    end: usize,
    seen: Seen,
    leniency: &Leniency,
    head: &mut RequestHead,
) -> Result<RequestFraming, RequestFault> {
    head.fields.adopt_marked(&bytes[line.next..end]);
    let method = &bytes[line.at..line.method_end];
    // A cleared head says GET; moving a method into place costs as much as reading a field.
    if method != b"GET" {
        head.method = Method::from_token(method).ok_or(RequestFault::Method)?;
    }
    head.version = line.version;
    let target = &bytes[line.method_end + 1..line.target_end];
    head.target.extend_from_slice(target);
    take_target(
        target,
        line.target,
        seen,
        &bytes[seen.host.0..seen.host.0 + seen.host.1],
        head,
    )?;
    // Another reader may see another end of such a head, and take what follows for something else.
    let mut is_last = seen.line_ends == LineEnds::LfToo;
    let body = match declared(&head.fields, seen, head.version).map_err(RequestFault::Framing)? {
        Declared::Length(length) => BodyFraming::Length(length),
        Declared::Chunked => BodyFraming::Chunked,
        // RFC 9112, section 6.3, item 7: no body. HTTP/1.0 clients that send content until they close exist
        // (RFC 1945, section 7.2.2 forbids it); what they send must not be read as a request.
        Declared::Nothing if head.version == Version::Http10 && carries_content(&head.method) => {
            if leniency.undeclared_content == UndeclaredContent::Refuse {
                return Err(RequestFault::LengthMissing);
            }
            is_last = true;
            BodyFraming::None
        }
        Declared::Nothing => BodyFraming::None,
    };
    let options = Options::read(&head.fields, seen);
    let keep_alive = match is_last {
        true => KeepAlive::Close,
        false => options.keep_alive(head.version),
    };
    let wants_upgrade =
        options.upgrade && seen.has(Seen::UPGRADE) && head.version == Version::Http11;
    Ok(RequestFraming {
        body,
        keep_alive,
        expectation: expectation(&mut head.fields, seen, head.version, body)?,
        upgrade: if wants_upgrade {
            UpgradeWish::Asked
        } else {
            UpgradeWish::None
        },
    })
}

/// Path and query up to the first `#`.
#[cold]
fn without_fragment(path: &[u8]) -> &[u8] {
    &path[..memchr(b'#', path).unwrap_or(path.len())]
}

fn carries_content(method: &Method) -> bool {
    matches!(method, Method::Post | Method::Put | Method::Patch)
}

/// Takes the target apart and settles which host is meant (RFC 9112, section 3.2).
fn take_target(
    target: &[u8],
    bytes: TargetBytes,
    seen: Seen,
    host: &[u8],
    head: &mut RequestHead,
) -> Result<(), RequestFault> {
    let form = Target::of(&head.method, target).ok_or(RequestFault::Target)?;
    if seen.repeated(Seen::HOST) {
        return Err(RequestFault::HostRepeated);
    }
    if !seen.has(Seen::HOST) {
        if head.version != Version::Http10 {
            return Err(RequestFault::HostMissing);
        }
    } else if !is_authority(host) {
        return Err(RequestFault::HostInvalid);
    }
    let cut = |path| match bytes {
        TargetBytes::Ascii => path,
        TargetBytes::Raw => without_fragment(path),
    };
    let (authority, well_formed) = match form {
        Target::Origin(path) => (host, head.uri.set(cut(path))),
        Target::Asterisk => (host, head.uri.set(b"*")),
        Target::Authority(authority) => (authority, true),
        Target::Absolute { authority, rest } => {
            let rest = cut(rest);
            let well_formed = match rest.first() {
                Some(b'/') => head.uri.set(rest),
                // RFC 9112, section 3.2.4: `OPTIONS http://host` means `OPTIONS *` there.
                None if head.method == Method::Options => head.uri.set(b"*"),
                None => head.uri.set(b"/"),
                Some(_) => {
                    head.uri.set(b"/");
                    head.uri.set_query(Some(&rest[1..]));
                    true
                }
            };
            (authority, well_formed)
        }
    };
    if !well_formed {
        return Err(RequestFault::Target);
    }
    head.set_authority(authority);
    // RFC 9112, section 3.2.2: the authority part of the target replaces `Host`, also in the forwarded request.
    if authority != host {
        head.fields.set(FieldId::Host, authority);
    }
    Ok(())
}

/// RFC 9110, section 10.1.1. In HTTP/1.0 an expectation is ignored. It is also removed, because it would take effect
/// when forwarded in a newer version.
fn expectation(
    fields: &mut Fields,
    seen: Seen,
    version: Version,
    body: BodyFraming,
) -> Result<Expectation, RequestFault> {
    if !seen.has(Seen::EXPECT) {
        return Ok(Expectation::None);
    }
    if version == Version::Http10 {
        fields.remove(FieldId::Expect);
        return Ok(Expectation::None);
    }
    for value in fields.all(FieldId::Expect) {
        if !items(value).all(|item| item.eq_ignore_ascii_case(b"100-continue")) {
            return Err(RequestFault::Expectation);
        }
    }
    match body {
        BodyFraming::None | BodyFraming::Length(0) => Ok(Expectation::None),
        BodyFraming::Length(_) | BodyFraming::Chunked | BodyFraming::UntilClose => {
            Ok(Expectation::Continue)
        }
    }
}
