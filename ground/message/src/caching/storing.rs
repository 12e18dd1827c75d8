//! Decides which responses may be stored, and for how long they are fresh (RFC 9111, sections 3 and 4.2.1).

use super::directives::{ResponseDirectives, delta_seconds, forbids_storing};
use super::times::Lifetime;
use super::vary::{Vary, vary};
use crate::date::parse_http;
use crate::fields::Fields;
use crate::name::FieldId;
use crate::status::Status;

/// Settings by which a configuration overrides the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `X-Accel-Expires` is ignored.
    pub ignores_accel_expires: bool,
    /// `Cache-Control` of responses is ignored.
    pub ignores_cache_control: bool,
    /// `Expires` is ignored.
    pub ignores_expires: bool,
    /// Responses with `Set-Cookie` are stored like any other.
    pub ignores_set_cookie: bool,
    /// `Vary` is ignored.
    pub ignores_vary: bool,
    /// `Authorization` is ignored: the upstream does not see the credentials, or they are part of the cache key.
    pub ignores_authorization: bool,
    /// Something that the cache does not see has admitted the client, such as a cookie: the response is handled like one to
    /// a request with `Authorization`.
    pub has_credentials: bool,
    /// Partial responses (206) are stored: requests with the same cache key ask for the same range.
    pub takes_parts: bool,
    /// Lifetime, in seconds, of responses with this status that do not specify one.
    pub usual: Option<u32>,
}

/// The request that led to the response.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its headers.
    pub fields: &'a Fields,
}

/// The response.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Its status.
    pub status: Status,
    /// Its headers as received.
    pub fields: &'a Fields,
    /// When it was received, in seconds since 1970.
    pub at: u64,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its status: it is partial, or the result of a conditional request.
    Status,
    /// Its `Cache-Control` makes it private or forbids storing it.
    Private,
    /// It sets a cookie.
    Cookie,
    /// The request carried credentials, and the response does not allow sharing it.
    Credentials,
    /// The request forbids it.
    Request,
    /// It varies by something that a cache cannot see.
    Vary,
    /// It is already stale.
    Stale,
    /// Nothing says how long it is fresh.
    Unknown,
}

/// For how long a shared cache may use a response, or why the cache may not store it.
///
/// `X-Accel-Expires` addresses this cache alone and takes precedence over `Expires` and `Cache-Control`. A configured
/// lifetime applies only if the response specifies none.
///
/// # Errors
///
/// The reason why the response is not stored.
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
    let is_authorized = rules.has_credentials || asked.fields.has(FieldId::Authorization);
    if !rules.ignores_authorization && is_authorized && !is_for_all {
        return Err(Refused::Credentials);
    }
    lifetime(given, rules)
}

/// Like [`may_be_stored`], for a cached response that the upstream has confirmed to be still valid.
///
/// # Errors
///
/// The reason why the response may not stay in the cache.
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
            // If a response both forbids and allows stale use, the prohibition wins.
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

/// Age of a response in seconds when it was received (RFC 9111, section 4.2.3). The response delay counts as 0, because
/// caches keep time in seconds.
fn age(given: Given<'_>) -> u32 {
    let given_age = given.fields.first(FieldId::Age).and_then(delta_seconds);
    let apparent = date(given, FieldId::Date).map_or(0, |date| seconds_between(date, given.at));
    given_age.unwrap_or(0).max(apparent)
}

/// RFC 9111, section 5.3: an invalid date is treated as one in the past.
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
