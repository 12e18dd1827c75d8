//! Which answers may be stored, and for how long they are fresh (RFC 9111, sections 3 and 4.2.1).

use super::directives::{ResponseDirectives, delta_seconds, forbids_storing};
use super::times::Lifetime;
use super::vary::{Vary, vary};
use crate::date::parse_http;
use crate::fields::Fields;
use crate::name::FieldId;
use crate::status::Status;

/// What a configuration says in place of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// X-Accel-Expires is not looked at.
    pub ignores_accel_expires: bool,
    /// Cache-Control of answers is not looked at.
    pub ignores_cache_control: bool,
    /// Expires is not looked at.
    pub ignores_expires: bool,
    /// Answers that set cookies are stored like others.
    pub ignores_set_cookie: bool,
    /// Vary is not looked at.
    pub ignores_vary: bool,
    /// Credentials do not matter: whoever answers does not see them, or the cache tells clients apart by them.
    pub ignores_authorization: bool,
    /// Parts (206) are stored: whoever asks for the same key asks for the same part.
    pub takes_parts: bool,
    /// For how many seconds answers with this status are fresh that do not say so themselves.
    pub usual: Option<u32>,
}

/// The request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its fields.
    pub fields: &'a Fields,
}

/// The answer.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Its status.
    pub status: Status,
    /// Its fields as they came.
    pub fields: &'a Fields,
    /// When it came, in seconds since 1970.
    pub at: u64,
}

/// Why an answer is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its status: it is a part, or an answer to a condition.
    Status,
    /// It is for one client, or forbids it.
    Private,
    /// It sets a cookie.
    Cookie,
    /// It is for a client who showed credentials.
    Credentials,
    /// The request forbids it.
    Request,
    /// It varies by what no cache sees.
    Vary,
    /// It is stale already.
    Stale,
    /// Nothing says how long it is fresh.
    Unknown,
}

/// For how long a shared cache may use an answer, or why it may not store it.
///
/// `X-Accel-Expires` is said to this cache alone and wins over Expires and Cache-Control; a time that the configuration
/// gives counts only where the answer says nothing itself.
///
/// # Errors
///
/// The reason for which it is not stored.
pub fn may_be_stored(
    asked: Asked<'_>,
    given: Given<'_>,
    rules: &Rules,
) -> Result<Lifetime, Refused> {
    let is_part = given.status == Status::PARTIAL_CONTENT && !rules.takes_parts;
    if is_part || matches!(given.status.code(), 100..=199 | 304 | 416) {
        return Err(Refused::Status);
    }
    if forbids_storing(asked.fields) {
        return Err(Refused::Request);
    }
    if !rules.ignores_set_cookie && given.fields.has(FieldId::SetCookie) {
        return Err(Refused::Cookie);
    }
    if !rules.ignores_vary && vary(given.fields) == Vary::Everything {
        return Err(Refused::Vary);
    }
    let said = said(given.fields, rules);
    // RFC 9111, section 3.5.
    let is_for_all = said.public || said.must_revalidate || said.s_maxage.is_some();
    if !rules.ignores_authorization && asked.fields.has(FieldId::Authorization) && !is_for_all {
        return Err(Refused::Credentials);
    }
    lifetime(given, rules)
}

/// As [`may_be_stored`] for an answer that was stored before, and that its upstream has said to be still valid.
///
/// # Errors
///
/// The reason for which it may not be kept.
pub fn lifetime(given: Given<'_>, rules: &Rules) -> Result<Lifetime, Refused> {
    let said = said(given.fields, rules);
    let age = age(given);
    let accel = match rules.ignores_accel_expires {
        true => None,
        false => accel_expires(given),
    };
    if accel.is_none() && (said.no_store || said.no_cache || said.private) {
        return Err(Refused::Private);
    }
    let fresh = accel
        .or_else(|| {
            said.s_maxage
                .or(said.max_age)
                .map(|seconds| seconds.saturating_sub(age))
        })
        .or_else(|| match rules.ignores_expires {
            true => None,
            false => expires(given, age),
        })
        .or(rules.usual);
    match fresh {
        None => Err(Refused::Unknown),
        Some(0) => Err(Refused::Stale),
        Some(fresh) => {
            // An answer that forbids to be used stale is not to be taken for one that also allows it.
            let is_strict =
                said.must_revalidate || said.proxy_revalidate || said.s_maxage.is_some();
            let allows = !said.must_revalidate && !said.proxy_revalidate;
            let stale = |seconds: Option<u32>| seconds.filter(|_| allows).unwrap_or(0);
            Ok(Lifetime {
                age,
                fresh,
                stale_if_error: stale(said.stale_if_error),
                stale_while_updating: stale(said.stale_while_revalidate),
                is_strict,
            })
        }
    }
}

fn said(fields: &Fields, rules: &Rules) -> ResponseDirectives {
    match rules.ignores_cache_control {
        true => ResponseDirectives::default(),
        false => ResponseDirectives::read(fields),
    }
}

/// How old an answer was when it came (RFC 9111, section 4.2.3). How long it was under way counts as nothing: the clocks
/// of caches tick in seconds.
fn age(given: Given<'_>) -> u32 {
    let told = given.fields.first(FieldId::Age).and_then(delta_seconds);
    let apparent = date(given, FieldId::Date).map_or(0, |date| seconds_between(date, given.at));
    told.unwrap_or(0).max(apparent)
}

/// RFC 9111, section 5.3: what is no date is one in the past.
fn expires(given: Given<'_>, age: u32) -> Option<u32> {
    given.fields.first(FieldId::Expires)?;
    let Some(expires) = date(given, FieldId::Expires) else {
        return Some(0);
    };
    // Without a date it is said of now.
    let from = date(given, FieldId::Date).unwrap_or(given.at);
    Some(seconds_between(from, expires).saturating_sub(age))
}

/// nginx's own field: seconds, `@` and a point in time, or `off`. What cannot be read says nothing.
fn accel_expires(given: Given<'_>) -> Option<u32> {
    let text = given.fields.find_first(b"X-Accel-Expires")?;
    match text {
        b"off" => Some(0),
        [b'@', at @ ..] => {
            let at = delta_seconds(at)?;
            Some(seconds_between(given.at, u64::from(at)))
        }
        seconds => delta_seconds(seconds),
    }
}

fn date(given: Given<'_>, id: FieldId) -> Option<u64> {
    let text = given.fields.first(id)?;
    let seconds = parse_http(text, given.at)?;
    Some(u64::try_from(seconds).unwrap_or(0))
}

fn seconds_between(from: u64, to: u64) -> u32 {
    u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX)
}
