//! What a responder says of a certificate (RFC 6960, section 4.2), verified: for which certificate it is, from when to when
//! it holds, and that its issuer or somebody whom that named has signed it.

use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use pki_types::CertificateDer;
use time::{Date, Month, OffsetDateTime, Time};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::der::{
    ENUMERATED, Element, GENERALIZED_TIME, INTEGER, NULL, OCTET_STRING, OID, Reader, SEQUENCE,
    element,
};
use crate::limits::OCSP_CLOCK_SKEW;
use crate::signed::{Signed, key_parts};

/// `id-sha1` and `id-pkix-ocsp-basic`, as their contents.
const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
const BASIC: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];

/// What is said of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) status: Status,
    /// From when it holds.
    pub(super) from: SystemTime,
    /// Until when; responders that name no end are asked again after a day.
    pub(super) until: SystemTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Good,
    Revoked,
    Unknown,
}

/// The certificate asked about and the one that signed it.
pub(super) struct Question<'a> {
    leaf: X509Certificate<'a>,
    issuer: X509Certificate<'a>,
}

impl<'a> Question<'a> {
    /// About the first of a chain; `None` where its issuer is not there or one of them is damaged.
    pub(super) fn new(chain: &'a [CertificateDer<'_>]) -> Option<Question<'a>> {
        let [leaf, issuer, ..] = chain else {
            return None;
        };
        let (_, leaf) = X509Certificate::from_der(leaf).ok()?;
        let (_, issuer) = X509Certificate::from_der(issuer).ok()?;
        (leaf.issuer().as_raw() == issuer.subject().as_raw()).then_some(Question { leaf, issuer })
    }

    /// The certificate asked about.
    pub(super) fn leaf(&self) -> &X509Certificate<'a> {
        &self.leaf
    }

    /// The request (RFC 6960, section 4.1), with hashes by SHA-1 as RFC 5019 has them: all responders know those.
    pub(super) fn encode(&self) -> Vec<u8> {
        let request = element(SEQUENCE, &[&self.id()]);
        let list = element(SEQUENCE, &[&request]);
        element(SEQUENCE, &[&element(SEQUENCE, &[&list])])
    }

    /// The names and keys that stand for the certificate.
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

    /// What an answer says at `now`; `None` for one that is damaged, another's, or signed by a stranger.
    pub(super) fn read(&self, answer: &[u8], now: SystemTime) -> Option<Said> {
        let signed = Signed::parse(basic_of(answer)?)?;
        if !self.is_believed(&signed, now) {
            return None;
        }
        self.find(Reader(signed.said.content))
    }

    /// The part of an answer that is about our certificate.
    fn find(&self, mut data: Reader<'_>) -> Option<Said> {
        // The version, where it is not the usual one; the responder; the time of the answer.
        data.take(0xa0);
        data.next()?;
        data.take(GENERALIZED_TIME)?;
        let mut answers = Reader(data.take(SEQUENCE)?.content);
        let own = self.id();
        while let Some(one) = answers.take(SEQUENCE) {
            let mut one = Reader(one.content);
            if !is_same(one.take(SEQUENCE)?, &own) {
                continue;
            }
            let status = match one.next()?.tag {
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

    /// Whether the issuer signed, or somebody with a certificate of the issuer's for it (section 4.2.2.2).
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

/// What is signed in an answer that says something.
fn basic_of(answer: &[u8]) -> Option<&[u8]> {
    let mut outer = Reader(Reader(answer).take(SEQUENCE)?.content);
    if outer.take(ENUMERATED)?.content != [0] {
        return None;
    }
    let mut bytes = Reader(Reader(outer.take(0xa0)?.content).take(SEQUENCE)?.content);
    if bytes.take(OID)?.content != BASIC {
        return None;
    }
    Some(bytes.take(OCTET_STRING)?.content)
}

/// Whether bytes are an answer that says something.
pub(super) fn is_answer(bytes: &[u8]) -> bool {
    basic_of(bytes).and_then(Signed::parse).is_some()
}

impl Said {
    /// Whether it holds at `now`, allowing for clocks that differ.
    pub(super) fn holds(&self, now: SystemTime) -> bool {
        now + OCSP_CLOCK_SKEW >= self.from && now <= self.until
    }
}

fn key_bits<'a>(cert: &'a X509Certificate<'_>) -> &'a [u8] {
    key_parts(cert.public_key().raw).map_or(&[], |(_, bits)| bits)
}

/// Whether two ids are of one certificate; the NULL behind the algorithm may be left out.
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

/// A time such as `20260131235959Z`, which DER knows no other form of.
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
