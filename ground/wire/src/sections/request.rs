//! Converts decoded fields to request heads, and request heads to header blocks (RFC 9113, section 8.3.1). `conn`
//! handles the content.

use alloc::vec::Vec;

use sluice_message::name::is_token_byte;
use sluice_message::{FieldId, Method, RequestHead, Version};

use super::encoder::FieldEncoder;
use super::facts::{Connect, End, RequestFacts};
use super::fields::{HeadFault, Section, clean, is_of_connection, push_field, push_length};
use super::limits::HeadLimits;
use super::priority::Priority;
use crate::h1::authority::{is_authority, is_authority_with_port};
use crate::h1::{BodyFraming, Expectation, TargetBytes, push_target, scan};
use crate::h2::hpack::{Decoded, NameKind, Pseudo};

/// Reads the head of a request, field by field.
pub(crate) struct RequestReader<'a> {
    limits: &'a HeadLimits,
    /// What other heads leave of their common limit.
    room: u32,
    head: &'a mut RequestHead,
    /// The crumbs of cookies, joined (RFC 9113, section 8.2.3).
    cookie: &'a mut Vec<u8>,
    section: Section,
    seen: Seen,
    expectation: Expectation,
    priority: Option<Priority>,
    websocket: bool,
    version: Version,
    fault: Option<HeadFault>,
}

/// Which pseudo-fields and hosts there were.
#[derive(Debug, Default)]
struct Seen(u8);

impl Seen {
    const AUTHORITY: u8 = 1;
    const METHOD: u8 = 2;
    const PATH: u8 = 4;
    const SCHEME: u8 = 8;
    const PROTOCOL: u8 = 16;
    const HOST: u8 = 32;

    fn has(&self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Sets `bit` and returns whether it was clear.
    fn note(&mut self, bit: u8) -> bool {
        let new = !self.has(bit);
        self.0 |= bit;
        new
    }
}

impl<'a> RequestReader<'a> {
    /// A reader that clears and fills `head`. It stops storing fields when they exceed `room`; [`RequestReader::bytes`]
    /// reports this.
    pub fn new(
        limits: &'a HeadLimits,
        version: Version,
        room: u32,
        head: &'a mut RequestHead,
        cookie: &'a mut Vec<u8>,
    ) -> Self {
        head.clear();
        cookie.clear();
        RequestReader {
            limits,
            room,
            head,
            cookie,
            section: Section::default(),
            seen: Seen::default(),
            expectation: Expectation::None,
            priority: None,
            websocket: false,
            version,
            fault: None,
        }
    }

    /// Takes the next field; after a fault nothing is looked at any more.
    #[inline]
    pub fn take(&mut self, field: Decoded<'_>) {
        if self.fault.is_none()
            && let Err(fault) = self.try_take(field)
        {
            self.fault = Some(fault);
        }
    }

    /// What the decoded head takes, as far as it was taken.
    pub fn bytes(&self) -> u32 {
        self.section.bytes
    }

    /// Checks the head as a whole; `offered` says whether this end offered extended CONNECT. On an error the head is
    /// empty.
    pub fn finish(mut self, end: End, offered: bool) -> Result<RequestFacts, HeadFault> {
        let facts = match self.fault {
            Some(fault) => Err(fault),
            None => self.conclude(end, offered),
        };
        if facts.is_err() {
            self.head.clear();
        }
        facts
    }

    fn try_take(&mut self, field: Decoded<'_>) -> Result<(), HeadFault> {
        self.section.count(&field, self.limits)?;
        if self.section.bytes > self.room {
            return Err(HeadFault::TooLarge);
        }
        if let NameKind::Pseudo(pseudo) = field.kind {
            return self.take_pseudo(pseudo, field.value);
        }
        let id = self.section.check(&field)?;
        if field.value.len() as u64 > u64::from(self.limits.value_bytes_max) {
            return Err(HeadFault::ValueTooLong);
        }
        match id {
            FieldId::Cookie => {
                if !self.cookie.is_empty() {
                    self.cookie.extend_from_slice(b"; ");
                }
                self.cookie.extend_from_slice(field.value);
                return Ok(());
            }
            FieldId::Host => return self.take_host(field.value),
            FieldId::Expect => {
                let items = field.value.split(|byte| *byte == b',');
                for item in items.map(<[u8]>::trim_ascii) {
                    if !item.eq_ignore_ascii_case(b"100-continue") {
                        return Err(HeadFault::Expectation);
                    }
                }
                self.expectation = Expectation::Continue;
            }
            FieldId::Other if field.name == b"priority" => {
                self.priority = Some(Priority::parse(field.value));
            }
            _ => {}
        }
        self.head.fields.push_clean(id, field.name, field.value);
        Ok(())
    }

    fn take_pseudo(&mut self, pseudo: Pseudo, value: &[u8]) -> Result<(), HeadFault> {
        let bit = match pseudo {
            Pseudo::Authority => Seen::AUTHORITY,
            Pseudo::Method => Seen::METHOD,
            Pseudo::Path => Seen::PATH,
            Pseudo::Scheme => Seen::SCHEME,
            Pseudo::Protocol => Seen::PROTOCOL,
            Pseudo::Status | Pseudo::Unknown => return Err(HeadFault::PseudoUnknown),
        };
        if self.section.late {
            return Err(HeadFault::PseudoLate);
        }
        if !self.seen.note(bit) {
            return Err(HeadFault::PseudoRepeated);
        }
        match pseudo {
            Pseudo::Authority => self.set_authority(value),
            Pseudo::Method => self.set_method(value),
            Pseudo::Path => self.set_path(value),
            Pseudo::Scheme => {
                // RFC 9110, section 4.2.3: case does not count. Which of the two it is our own socket tells better.
                let known =
                    value.eq_ignore_ascii_case(b"https") || value.eq_ignore_ascii_case(b"http");
                if known {
                    Ok(())
                } else {
                    Err(HeadFault::Scheme)
                }
            }
            _ => {
                self.websocket = value.eq_ignore_ascii_case(b"websocket");
                Ok(())
            }
        }
    }

    fn set_method(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        if value.len() > usize::from(self.limits.method_bytes_max) {
            return Err(HeadFault::MethodTooLong);
        }
        if value.is_empty() || !value.iter().all(|byte| is_token_byte(*byte)) {
            return Err(HeadFault::Method);
        }
        self.head.method = Method::from_token(value).ok_or(HeadFault::Method)?;
        Ok(())
    }

    fn set_path(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        if value.is_empty() {
            return Err(HeadFault::PathEmpty);
        }
        if value.len() > usize::from(self.limits.target_bytes_max) {
            return Err(HeadFault::PathTooLong);
        }
        let formed = value[0] == b'/' || value == b"*";
        let mut target = value;
        if scan::target_end(value, 0) != value.len() {
            let raw = self.limits.targets == TargetBytes::Raw;
            if !raw || scan::raw_target_end(value, 0) != value.len() {
                return Err(HeadFault::Path);
            }
            // A fragment is not part of path and query.
            target = &value[..memchr::memchr(b'#', value).unwrap_or(value.len())];
        }
        if !formed || !self.head.uri.set(target) {
            return Err(HeadFault::Path);
        }
        self.head.target.extend_from_slice(value);
        Ok(())
    }

    /// Stores `:authority`, which is also the `Host` header when the request is forwarded over HTTP/1 (RFC 9113,
    /// section 8.3.1).
    fn set_authority(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        if !is_authority(value) {
            return Err(HeadFault::HostInvalid);
        }
        self.head.set_authority(value);
        self.head.fields.push_raw(FieldId::Host, b"host", value);
        Ok(())
    }

    /// Checks a `Host` header: it must equal `:authority`, or takes its place if there is none.
    fn take_host(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        if !self.seen.note(Seen::HOST) {
            return Err(HeadFault::HostRepeated);
        }
        if !self.seen.has(Seen::AUTHORITY) {
            return self.set_authority(value);
        }
        if value.eq_ignore_ascii_case(&self.head.authority) {
            Ok(())
        } else {
            Err(HeadFault::HostOther)
        }
    }

    fn conclude(&mut self, end: End, offered: bool) -> Result<RequestFacts, HeadFault> {
        let connect = self.connect(offered)?;
        self.head.version = self.version;
        if !self.cookie.is_empty() {
            let id = FieldId::Cookie;
            self.head.fields.push_raw(id, b"cookie", self.cookie);
        }
        let body = match (end, self.section.length) {
            (End::Here, None) => BodyFraming::None,
            (End::Here, Some(0)) => BodyFraming::Length(0),
            // RFC 9113, section 8.1.1.
            (End::Here, Some(_)) => return Err(HeadFault::LengthUnmet),
            (End::Later, Some(length)) => BodyFraming::Length(length),
            (End::Later, None) => BodyFraming::Chunked,
        };
        let expectation = match body {
            BodyFraming::None | BodyFraming::Length(0) => Expectation::None,
            _ => self.expectation,
        };
        Ok(RequestFacts {
            body,
            expectation,
            connect,
            priority: self.priority.unwrap_or_default(),
        })
    }

    /// Which pseudo-fields have to be there together (RFC 9113, sections 8.3.1 and 8.5; RFC 8441, section 4).
    fn connect(&mut self, offered: bool) -> Result<Connect, HeadFault> {
        let is_connect = self.head.method == Method::Connect;
        if !self.seen.has(Seen::METHOD) {
            return Err(HeadFault::PseudoMissing);
        }
        let extended = self.seen.has(Seen::PROTOCOL);
        if extended && !is_connect {
            return Err(HeadFault::PseudoUnknown);
        }
        if extended && !offered {
            return Err(HeadFault::ProtocolNotOffered);
        }
        if is_connect && !extended {
            if self.seen.has(Seen::PATH) || self.seen.has(Seen::SCHEME) {
                return Err(HeadFault::PseudoUnknown);
            }
            if !self.seen.has(Seen::AUTHORITY) {
                return Err(HeadFault::PseudoMissing);
            }
            if !is_authority_with_port(&self.head.authority) {
                return Err(HeadFault::HostInvalid);
            }
            self.head.target.extend_from_slice(&self.head.authority);
            return Ok(Connect::Authority);
        }
        if !self.seen.has(Seen::PATH) || !self.seen.has(Seen::SCHEME) {
            return Err(HeadFault::PseudoMissing);
        }
        if self.head.uri.as_bytes() == b"*" && self.head.method != Method::Options {
            return Err(HeadFault::Path);
        }
        if !self.seen.has(Seen::AUTHORITY) && !self.seen.has(Seen::HOST) {
            return Err(HeadFault::HostMissing);
        }
        match (extended, self.websocket) {
            (false, _) => Ok(Connect::No),
            (true, true) => Ok(Connect::WebSocket),
            (true, false) => Err(HeadFault::ProtocolUnknown),
        }
    }
}

/// Appends the block of a request. Connection and framing headers of the list are dropped: `framing` replaces them, and
/// `Host` becomes `:authority`. The caller has checked that the headers fit ([`sluice_message::Fields::fit`]).
pub(crate) fn encode_request(
    encoder: &mut impl FieldEncoder,
    head: &RequestHead,
    https: bool,
    framing: BodyFraming,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    encoder.begin(out);
    encoder.method(head.method.as_str(), out);
    let host = head.fields.first(FieldId::Host).unwrap_or(&head.authority);
    if head.method == Method::Connect {
        encoder.authority(clean(&head.authority, scratch), out);
    } else {
        encoder.scheme(https, out);
        encoder.authority(clean(host, scratch), out);
        scratch.clear();
        push_target(head, TargetBytes::Ascii, scratch);
        encoder.path(scratch, out);
    }
    let mut trailers = false;
    for field in head.fields.iter() {
        match field.id {
            FieldId::Host | FieldId::ContentLength => {}
            FieldId::Te => {
                let mut items = field.value.split(|byte| *byte == b',');
                trailers |= items.any(|item| item.trim_ascii().eq_ignore_ascii_case(b"trailers"));
            }
            id if is_of_connection(id) => {}
            _ => push_field(encoder, field, scratch, out),
        }
    }
    if trailers {
        let te = sluice_message::Field {
            id: FieldId::Te,
            name: b"te",
            value: b"trailers",
        };
        push_field(encoder, te, scratch, out);
    }
    if let BodyFraming::Length(length) = framing {
        push_length(encoder, length, out);
    }
}
