//! OCSP responses (RFC 6960, section 4.2), verified: the certificate they are for, their validity period, and the
//! signature of the issuer or its delegate.

use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use pki_types::CertificateDer;
use time::{Date, Month, OffsetDateTime, Time};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::limits::OCSP_CLOCK_SKEW;
use sluice_net::tls::der::{
    ENUMERATED, Element, GENERALIZED_TIME, INTEGER, NULL, OCTET_STRING, OID, Reader, SEQUENCE,
    element,
};
use sluice_net::tls::signed::{Signed, key_parts};

/// The OIDs `id-sha1` and `id-pkix-ocsp-basic`, without tag and length.
const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
const BASIC: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];

/// The status of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) status: Status,
    /// Start of its validity.
    pub(super) from: SystemTime,
    /// End of its validity; if the responder specifies none, a day.
    pub(super) until: SystemTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Good,
    Revoked,
    Unknown,
}

/// The certificate in question and its issuer.
pub(super) struct Question<'a> {
    leaf: X509Certificate<'a>,
    issuer: X509Certificate<'a>,
}

impl<'a> Question<'a> {
    /// For the first certificate of a chain; `None` if its issuer is missing or one of them cannot be parsed.
    pub(super) fn new(chain: &'a [CertificateDer<'_>]) -> Option<Question<'a>> {
        let [leaf, issuer, ..] = chain else {
            return None;
        };
        let (_, leaf) = X509Certificate::from_der(leaf).ok()?;
        let (_, issuer) = X509Certificate::from_der(issuer).ok()?;
        (leaf.issuer().as_raw() == issuer.subject().as_raw()).then_some(Question { leaf, issuer })
    }

    /// The certificate in question.
    pub(super) fn leaf(&self) -> &X509Certificate<'a> {
        &self.leaf
    }

    /// The request (RFC 6960, section 4.1), with SHA-1 hashes as in RFC 5019, which all responders support.
    pub(super) fn encode(&self) -> Vec<u8> {
        let request = element(SEQUENCE, &[&self.id()]);
        let list = element(SEQUENCE, &[&request]);
        element(SEQUENCE, &[&element(SEQUENCE, &[&list])])
    }

    /// The identifier of the certificate.
    fn id(&self) -> Vec<u8> {
        let algorithm = element(SEQUENCE, &[&element(OID, &[SHA1]), &element(NULL, &[])]);
        element(
            SEQUENCE,
            &[
                &algorithm,
                &element(OCTET_STRING, &[&sha1(self.issuer.subject().as_raw())]),
                &element(OCTET_STRING, &[&sha1(key_bits(&self.issuer))]),
                &element(INTEGER, &[self.leaf.raw_serial()]),
            ],
        )
    }

    /// The status in a response at `now`; `None` if it is malformed, for another certificate, or not signed by the
    /// issuer.
    pub(super) fn read(&self, response: &[u8], now: SystemTime) -> Option<Said> {
        let signed = Signed::parse(basic_of(response)?)?;
        if !self.is_believed(&signed, now) {
            return None;
        }
        self.find(Reader(signed.said.content))
    }

    /// The part of a response that is about this certificate.
    fn find(&self, mut data: Reader<'_>) -> Option<Said> {
        // Skip the version, if present, the responder ID and the production time.
        data.take(0xa0);
        data.any()?;
        data.take(GENERALIZED_TIME)?;
        let mut responses = Reader(data.take(SEQUENCE)?.content);
        let own = self.id();
        while let Some(one) = responses.take(SEQUENCE) {
            let mut one = Reader(one.content);
            if !is_same(one.take(SEQUENCE)?, &own) {
                continue;
            }
            let status = match one.any()?.tag {
                0x80 => Status::Good,
                0xa1 => Status::Revoked,
                _ => Status::Unknown,
            };
            let from = moment(one.take(GENERALIZED_TIME)?.content)?;
            let until = match one.take(0xa0) {
                Some(until) => moment(Reader(until.content).take(GENERALIZED_TIME)?.content)?,
                None => from + Duration::from_secs(24 * 3600),
            };
            return Some(Said {
                status,
                from,
                until,
            });
        }
        None
    }

    /// Whether the issuer has signed, or a delegate with a certificate of the issuer (section 4.2.2.2).
    fn is_believed(&self, signed: &Signed<'_>, now: SystemTime) -> bool {
        let key = self.issuer.public_key().raw;
        if signed.is_by(key) {
            return true;
        }
        signed.certificates().any(|der| {
            let Ok((_, cert)) = X509Certificate::from_der(der) else {
                return false;
            };
            let by_issuer = Signed::parse(der).is_some_and(|signed| signed.is_by(key));
            let usage = cert.extended_key_usage().ok().flatten();
            let may_sign = usage.is_some_and(|usage| usage.value.ocsp_signing);
            let at = OffsetDateTime::from(now).unix_timestamp();
            let validity = cert.validity();
            let is_valid =
                (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&at);
            by_issuer && may_sign && is_valid && signed.is_by(cert.public_key().raw)
        })
    }
}

/// The signed part of a successful response.
fn basic_of(response: &[u8]) -> Option<&[u8]> {
    let mut outer = Reader(Reader(response).take(SEQUENCE)?.content);
    if outer.take(ENUMERATED)?.content != [0] {
        return None;
    }
    let mut bytes = Reader(Reader(outer.take(0xa0)?.content).take(SEQUENCE)?.content);
    if bytes.take(OID)?.content != BASIC {
        return None;
    }
    Some(bytes.take(OCTET_STRING)?.content)
}

/// Whether bytes are a successful OCSP response, whatever its contents (RFC 6960, section 4.2.1).
pub(crate) fn is_ocsp_response(bytes: &[u8]) -> bool {
    basic_of(bytes).and_then(Signed::parse).is_some()
}

impl Said {
    /// Whether it is valid at `now`, allowing for clock skew.
    pub(super) fn holds(&self, now: SystemTime) -> bool {
        now + OCSP_CLOCK_SKEW >= self.from && now <= self.until
    }
}

fn key_bits<'a>(cert: &'a X509Certificate<'_>) -> &'a [u8] {
    key_parts(cert.public_key().raw).map_or(&[], |(_, bits)| bits)
}

/// Whether two certificate identifiers are equal; the NULL after the algorithm may be omitted.
fn is_same(found: Element<'_>, own: &[u8]) -> bool {
    let parts = |content| {
        let mut parts = Reader(content);
        let algorithm = Reader(parts.take(SEQUENCE)?.content).take(OID)?.content;
        Some((algorithm, parts.0))
    };
    let own = Reader(own).take(SEQUENCE);
    let own = own.and_then(|own| parts(own.content));
    own.is_some() && parts(found.content) == own
}

fn sha1(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes)
        .as_ref()
        .to_vec()
}

/// A time such as `20260131235959Z`, the only form in DER.
fn moment(text: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if text.len() != 14 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number = |at: usize, length: usize| text[at..at + length].parse::<u16>().ok();
    let two = |at: usize| u8::try_from(number(at, 2)?).ok();
    let month = Month::try_from(two(4)?).ok()?;
    let date = Date::from_calendar_date(i32::from(number(0, 4)?), month, two(6)?).ok()?;
    let time = Time::from_hms(two(8)?, two(10)?, two(12)?).ok()?;
    Some(OffsetDateTime::new_utc(date, time).into())
}
