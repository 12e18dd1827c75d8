//! Converts response heads to header blocks, and decoded fields to response heads (RFC 9113, section 8.3.2). `conn`
//! handles the content.

use alloc::vec::Vec;

use sluice_message::{Field, FieldId, Fields, Method, ResponseHead, Status, Version};

use super::encoder::{FieldEncoder, Keep};
use super::facts::End;
use super::fields::{HeadFault, Section, push_field, push_length};
use super::limits::HeadLimits;
use crate::h1::{BodyFraming, may_trail};
use crate::h2::hpack::{Decoded, NameKind, Pseudo};

/// Appends the block of a final response, as `h1::encode_response_head` writes it: `framing` says what
/// Content-Length has, `None` keeps a described one, and Date is added unless the list has one.
pub(crate) fn encode_response(
    encoder: &mut impl FieldEncoder,
    status: Status,
    fields: &Fields,
    framing: BodyFraming,
    date: &[u8; 29],
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let framing = if status.is_bodiless() {
        BodyFraming::None
    } else {
        framing
    };
    encoder.begin(out);
    encoder.status(status, out);
    let described = framing == BodyFraming::None && status != Status::NO_CONTENT;
    let (mut dated, mut length) = (false, None);
    for field in fields.iter() {
        match field.id {
            FieldId::ContentLength => length = Some(field),
            FieldId::Date => {
                dated = true;
                push_field(encoder, field, scratch, out);
            }
            _ => push_field(encoder, field, scratch, out),
        }
    }
    if !dated {
        encoder.field(FieldId::Date, b"date", date, Keep::Allowed, out);
    }
    match (framing, length) {
        (BodyFraming::Length(length), _) => push_length(encoder, length, out),
        (BodyFraming::None, Some(field)) if described => push_field(encoder, field, scratch, out),
        _ => {}
    }
}

/// Appends the block of an interim response.
pub(crate) fn encode_interim(
    encoder: &mut impl FieldEncoder,
    status: Status,
    fields: &Fields,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    encoder.begin(out);
    encoder.status(status, out);
    for field in fields.iter() {
        if field.id != FieldId::ContentLength {
            push_field(encoder, field, scratch, out);
        }
    }
}

/// Appends the block of a trailer section. Fields that must not be trailers are left out (RFC 9110, section 6.5.1).
pub(crate) fn encode_trailers(
    encoder: &mut impl FieldEncoder,
    fields: &Fields,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    encoder.begin(out);
    let may_trail = |field: &Field<'_>| may_trail(field.id, field.name);
    for field in fields.iter().filter(may_trail) {
        push_field(encoder, field, scratch, out);
    }
}

/// Reads the head of a response, field by field.
pub(crate) struct ResponseReader<'a> {
    limits: &'a HeadLimits,
    head: &'a mut ResponseHead,
    section: Section,
    status: Option<Status>,
    version: Version,
    fault: Option<HeadFault>,
}

impl<'a> ResponseReader<'a> {
    /// A reader that fills `head`, which is cleared.
    pub fn new(limits: &'a HeadLimits, version: Version, head: &'a mut ResponseHead) -> Self {
        head.clear();
        ResponseReader {
            limits,
            head,
            section: Section::default(),
            status: None,
            version,
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

    /// The body framing of a response to such a request: `None`, `Length`, or `Chunked` if only the end of the stream
    /// shows the length. On an error the head is empty.
    pub fn finish(mut self, asked: Asked, end: End) -> Result<BodyFraming, HeadFault> {
        let facts = match self.fault {
            Some(fault) => Err(fault),
            None => self.conclude(asked, end),
        };
        if facts.is_err() {
            self.head.clear();
        }
        facts
    }

    fn try_take(&mut self, field: Decoded<'_>) -> Result<(), HeadFault> {
        self.section.count(&field, self.limits)?;
        match field.kind {
            NameKind::Pseudo(Pseudo::Status) if self.section.late => Err(HeadFault::PseudoLate),
            NameKind::Pseudo(Pseudo::Status) if self.status.is_some() => {
                Err(HeadFault::PseudoRepeated)
            }
            NameKind::Pseudo(Pseudo::Status) => {
                self.status = Some(read_status(field.value).ok_or(HeadFault::Status)?);
                Ok(())
            }
            _ => {
                let id = self.section.check(&field)?;
                self.head.fields.push_clean(id, field.name, field.value);
                Ok(())
            }
        }
    }

    fn conclude(&mut self, asked: Asked, end: End) -> Result<BodyFraming, HeadFault> {
        let status = self.status.ok_or(HeadFault::PseudoMissing)?;
        // RFC 9113, section 8.6: there is nothing to switch to; section 8.1: an interim response does not end the
        // stream.
        if status == Status::SWITCHING_PROTOCOLS || status.is_informational() && end.is_here() {
            return Err(HeadFault::Status);
        }
        self.head.status = status;
        self.head.version = self.version;
        let tunnel = asked == Asked::Connect && (200..300).contains(&status.code());
        let bodiless = status.is_bodiless() || asked == Asked::Head;
        let body = match (end, self.section.length) {
            _ if bodiless => BodyFraming::None,
            (_, Some(_)) if tunnel => return Err(HeadFault::Length),
            (End::Here, None) => BodyFraming::None,
            (End::Here, Some(0)) => BodyFraming::Length(0),
            (End::Here, Some(_)) => return Err(HeadFault::LengthUnmet),
            (End::Later, Some(length)) => BodyFraming::Length(length),
            (End::Later, None) => BodyFraming::Chunked,
        };
        Ok(body)
    }
}

/// What matters of a request's method for its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Head,
    Connect,
    Other,
}

impl Asked {
    pub fn of(method: &Method) -> Asked {
        match method {
            Method::Head => Asked::Head,
            Method::Connect => Asked::Connect,
            _ => Asked::Other,
        }
    }
}

/// Three digits (RFC 9113, section 8.3.2).
fn read_status(value: &[u8]) -> Option<Status> {
    let digits = <[u8; 3]>::try_from(value).ok()?;
    let number = digits.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + u16::from(byte - b'0'))
    })?;
    Status::new(number)
}
