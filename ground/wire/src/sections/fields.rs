//! Conversion between decoded fields and heads (RFC 9113, section 8), as far as requests and responses share it.
//! Compression is in `hpack` and `qpack`.

use alloc::vec::Vec;
use core::fmt;

use sluice_message::name::{is_token_byte, is_value_byte};
use sluice_message::{Field, FieldId, Fields, Status};

use super::encoder::{FieldEncoder, Keep};
use super::limits::HeadLimits;
use crate::h1;
use crate::h2::hpack::{Decoded, NameKind};

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident $status:expr, $text:literal;)*) => {
        /// What is wrong with a head or a trailer section. The connection goes on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum HeadFault {
            $($(#[doc = $doc])* $name,)*
        }

        impl HeadFault {
            /// The status of the response to such a request. `None` if the request is malformed (RFC 9113, section
            /// 8.1.1): its stream is reset with PROTOCOL_ERROR.
            pub const fn status(self) -> Option<Status> {
                match self { $(HeadFault::$name => $status,)* }
            }
        }

        impl fmt::Display for HeadFault {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(HeadFault::$name => $text,)* })
            }
        }
    };
}

faults! {
    /// A field without a name.
    NameEmpty None, "field name is empty";
    /// A name with an upper-case letter or a byte that is not of a token (section 8.2.1).
    NameByte None, "field name is not a lower-case token";
    /// A name longer than the limit.
    NameTooLong Some(Status::HEADERS_TOO_LARGE), "field name too long";
    /// A field value is longer than the limit.
    ValueTooLong Some(Status::HEADERS_TOO_LARGE), "field value too long";
    /// A value with a control character, or with white space at its ends (section 8.2.1).
    ValueByte None, "field value not allowed";
    /// More fields than the limit, crumbs of cookies included.
    TooMany Some(Status::HEADERS_TOO_LARGE), "too many fields";
    /// More bytes than the limit.
    TooLarge Some(Status::HEADERS_TOO_LARGE), "head too large";
    /// A pseudo-field after a field (section 8.3).
    PseudoLate None, "pseudo-field after a field";
    /// A pseudo-field twice (section 8.3).
    PseudoRepeated None, "pseudo-field repeated";
    /// A pseudo-field that is not known or not of this kind of message (section 8.3).
    PseudoUnknown None, "pseudo-field not allowed";
    /// A pseudo-field that this kind of message must have is missing (section 8.3.1).
    PseudoMissing None, "pseudo-field missing";
    /// A pseudo-field in trailers (section 8.1).
    PseudoTrailer None, "pseudo-field in trailers";
    /// A field about one HTTP/1 connection (section 8.2.2).
    ConnectionField None, "field of an HTTP/1 connection";
    /// TE with something else than `trailers` (section 8.2.2).
    Te None, "te is not trailers";
    /// The method is not a token.
    Method None, "method is not a token";
    /// The method is longer than the limit.
    MethodTooLong Some(Status::NOT_IMPLEMENTED), "method too long";
    /// The scheme is neither http nor https.
    Scheme Some(Status::BAD_REQUEST), "scheme is not http or https";
    /// The path has a byte or a form that is not allowed, or a broken escape.
    Path Some(Status::BAD_REQUEST), "path not allowed";
    /// An empty path (section 8.3.1).
    PathEmpty None, "path is empty";
    /// The path is longer than the limit.
    PathTooLong Some(Status::URI_TOO_LONG), "path too long";
    /// Neither `:authority` nor `Host`.
    HostMissing Some(Status::BAD_REQUEST), "no authority";
    /// More than one host.
    HostRepeated Some(Status::BAD_REQUEST), "more than one host field";
    /// `:authority` or `Host` is not a host with an optional port.
    HostInvalid Some(Status::BAD_REQUEST), "authority is not a host with optional port";
    /// `Host` differs from `:authority` (section 8.3.1).
    HostOther Some(Status::BAD_REQUEST), "host differs from the authority";
    /// Content-Length is repeated or not one plain decimal number below 2^63.
    Length None, "content-length is not one number";
    /// Content-Length is not zero, but the message ends with its head (section 8.1.1).
    LengthUnmet None, "content-length without content";
    /// An expectation other than `100-continue`.
    Expectation Some(Status::EXPECTATION_FAILED), "unknown expectation";
    /// Extended CONNECT that was not offered (RFC 8441, section 3).
    ProtocolNotOffered None, "extended connect was not offered";
    /// Extended CONNECT to another protocol than WebSocket.
    ProtocolUnknown Some(Status::NOT_IMPLEMENTED), "unknown protocol in extended connect";
    /// The status is not three digits from 100 on, or 101 (section 8.6).
    Status None, "status not allowed";
}

/// What a head or trailer section costs and holds so far, whatever its kind.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// As RFC 9113, section 6.5.2 counts: names, values and 32 bytes for each field.
    pub bytes: u32,
    count: u16,
    /// Whether a field was seen, after which pseudo-fields must not come.
    pub late: bool,
    /// What Content-Length says.
    pub length: Option<u64>,
}

impl Section {
    /// Counts a field against the limits.
    pub fn count(&mut self, field: &Decoded<'_>, limits: &HeadLimits) -> Result<(), HeadFault> {
        let size = field.name.len() + field.value.len() + 32;
        self.bytes = self.bytes.saturating_add(size as u32);
        self.count += 1;
        if self.bytes > limits.section_bytes_max {
            return Err(HeadFault::TooLarge);
        }
        if self.count > limits.fields_max {
            return Err(HeadFault::TooMany);
        }
        if field.name.len() > usize::from(limits.name_bytes_max) {
            return Err(HeadFault::NameTooLong);
        }
        Ok(())
    }

    /// The number of a field that is allowed in any message, and notes what frames it.
    #[inline]
    pub fn check(&mut self, field: &Decoded<'_>) -> Result<FieldId, HeadFault> {
        let id = match field.kind {
            NameKind::Field(id) => id,
            NameKind::Empty => return Err(HeadFault::NameEmpty),
            NameKind::Bad => return Err(HeadFault::NameByte),
            NameKind::Pseudo(_) => return Err(HeadFault::PseudoUnknown),
        };
        self.late = true;
        if !field.clean {
            return Err(HeadFault::ValueByte);
        }
        match id {
            _ if is_of_connection(id) => return Err(HeadFault::ConnectionField),
            FieldId::Te if !field.value.eq_ignore_ascii_case(b"trailers") => {
                return Err(HeadFault::Te);
            }
            FieldId::ContentLength => {
                // As in HTTP/1 the same number twice is refused as well.
                let length = h1::parse_length(field.value).ok_or(HeadFault::Length)?;
                if self.length.replace(length).is_some() {
                    return Err(HeadFault::Length);
                }
            }
            _ => {}
        }
        Ok(id)
    }
}

/// The fields that only HTTP/1 has (RFC 9113, section 8.2.2).
pub(super) const fn is_of_connection(id: FieldId) -> bool {
    matches!(
        id,
        FieldId::Connection
            | FieldId::KeepAlive
            | FieldId::ProxyConnection
            | FieldId::TransferEncoding
            | FieldId::Upgrade
    )
}

/// Reads a trailer section. Fields that must not be trailers are left out (RFC 9110, section 6.5.1).
pub(crate) struct TrailerReader<'a> {
    limits: &'a HeadLimits,
    section: Section,
    fields: Fields,
    fault: Option<HeadFault>,
}

impl<'a> TrailerReader<'a> {
    pub fn new(limits: &'a HeadLimits) -> Self {
        TrailerReader {
            limits,
            section: Section::default(),
            fields: Fields::new(),
            fault: None,
        }
    }

    /// Takes the next field; after a fault nothing is looked at any more.
    pub fn take(&mut self, field: Decoded<'_>) {
        if self.fault.is_none()
            && let Err(fault) = self.try_take(field)
        {
            self.fault = Some(fault);
        }
    }

    /// The fields, if all were right.
    pub fn finish(self) -> Result<Fields, HeadFault> {
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(self.fields),
        }
    }

    fn try_take(&mut self, field: Decoded<'_>) -> Result<(), HeadFault> {
        self.section.count(&field, self.limits)?;
        if matches!(field.kind, NameKind::Pseudo(_)) {
            return Err(HeadFault::PseudoTrailer);
        }
        let id = self.section.check(&field)?;
        if h1::may_trail(id, field.name) {
            self.fields.push_clean(id, field.name, field.value);
        }
        Ok(())
    }
}

/// Appends a field of a list. Fields about an HTTP/1 connection are dropped, and so is a field whose name is not a
/// token, because a recipient would read it as a different field or none. Control characters in a value become spaces
/// and surrounding white space is removed, as RFC 9113, section 8.2.1 requires.
pub(super) fn push_field(
    encoder: &mut impl FieldEncoder,
    field: Field<'_>,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let named = field.id != FieldId::Other
        || !field.name.is_empty() && field.name.iter().all(|byte| is_token_byte(*byte));
    if !named || is_of_connection(field.id) {
        return;
    }
    let keep = match field.id {
        FieldId::Authorization
        | FieldId::ProxyAuthorization
        | FieldId::Cookie
        | FieldId::SetCookie => Keep::Never,
        _ => Keep::Allowed,
    };
    let value = clean(field.value, scratch);
    encoder.field(field.id, field.name, value, keep, out);
}

/// The value as it may go on the wire; `scratch` is used where it has to change.
pub(super) fn clean<'a>(value: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let trim = |byte: &u8| matches!(byte, b' ' | b'\t');
    let valid = value
        .iter()
        .fold(true, |valid, byte| valid & is_value_byte(*byte));
    let mut value = value;
    if !valid {
        let clean = |byte: &u8| if is_value_byte(*byte) { *byte } else { b' ' };
        scratch.clear();
        scratch.extend(value.iter().map(clean));
        value = scratch;
    }
    while let [first, rest @ ..] = value
        && trim(first)
    {
        value = rest;
    }
    while let [rest @ .., last] = value
        && trim(last)
    {
        value = rest;
    }
    value
}

/// Appends Content-Length.
pub(super) fn push_length(encoder: &mut impl FieldEncoder, length: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let (mut at, mut rest) = (digits.len(), length);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    encoder.field(
        FieldId::ContentLength,
        b"content-length",
        &digits[at..],
        Keep::Allowed,
        out,
    );
}
