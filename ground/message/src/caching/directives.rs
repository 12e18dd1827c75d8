//! The `Cache-Control` header (RFC 9111, section 5.2): parses the directives of requests and responses.

use crate::fields::Fields;
use crate::name::FieldId;

/// The `Cache-Control` directives of a response that concern a shared cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// Nothing of it may be stored.
    pub no_store: bool,
    /// It may not be used again without asking; with names of fields, too, which is as much as a cache may assume.
    pub no_cache: bool,
    /// It is for one client; with names of fields, too.
    pub private: bool,
    /// `public`: a shared cache may store the response even if the request carried credentials.
    pub public: bool,
    /// It may not be used once it is stale.
    pub must_revalidate: bool,
    /// The same for shared caches.
    pub proxy_revalidate: bool,
    /// Seconds for which it is fresh.
    pub max_age: Option<u32>,
    /// The same for shared caches, which go by this one.
    pub s_maxage: Option<u32>,
    /// Seconds for which it may be used stale while a fresh one is fetched (RFC 5861, section 3).
    pub stale_while_revalidate: Option<u32>,
    /// Seconds for which it may be used stale where asking fails (RFC 5861, section 4).
    pub stale_if_error: Option<u32>,
}

impl ResponseDirectives {
    /// Reads all lines of Cache-Control.
    pub fn read(fields: &Fields) -> ResponseDirectives {
        let mut found = ResponseDirectives::default();
        each(fields, |name, value| found.note(name, value));
        found
    }

    fn note(&mut self, name: &[u8], value: Option<&[u8]>) {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match () {
            () if is(b"no-store") => self.no_store = true,
            () if is(b"no-cache") => self.no_cache = true,
            () if is(b"private") => self.private = true,
            () if is(b"public") => self.public = true,
            () if is(b"must-revalidate") => self.must_revalidate = true,
            () if is(b"proxy-revalidate") => self.proxy_revalidate = true,
            () if is(b"max-age") => least(&mut self.max_age, value),
            () if is(b"s-maxage") => least(&mut self.s_maxage, value),
            () if is(b"stale-while-revalidate") => least(&mut self.stale_while_revalidate, value),
            () if is(b"stale-if-error") => least(&mut self.stale_if_error, value),
            () => {}
        }
    }
}

/// The `Cache-Control` directives of a request (RFC 9111, section 5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// A cached response may be used only after it was validated.
    pub no_cache: bool,
    /// The response may not be stored.
    pub no_store: bool,
    /// The client wants a cached response or none.
    pub only_if_cached: bool,
    /// The highest age in seconds that the client accepts.
    pub max_age: Option<u32>,
    /// Seconds for which the response still has to be fresh.
    pub min_fresh: Option<u32>,
    /// Seconds for which the response may be stale; [`u32::MAX`] if the client sets no limit.
    pub max_stale: Option<u32>,
}

impl RequestDirectives {
    /// Reads all lines of Cache-Control.
    pub fn read(fields: &Fields) -> RequestDirectives {
        let mut found = RequestDirectives::default();
        if fields.has(FieldId::CacheControl) {
            each(fields, |name, value| found.note(name, value));
        }
        found
    }

    fn note(&mut self, name: &[u8], value: Option<&[u8]>) {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match () {
            () if is(b"no-cache") => self.no_cache = true,
            () if is(b"no-store") => self.no_store = true,
            () if is(b"only-if-cached") => self.only_if_cached = true,
            () if is(b"max-age") => least(&mut self.max_age, value),
            () if is(b"min-fresh") => {
                // The larger one asks for more; a value that is not a number asks for nothing.
                let seconds = value.and_then(delta_seconds).unwrap_or(0);
                self.min_fresh = Some(self.min_fresh.map_or(seconds, |known| known.max(seconds)));
            }
            () if is(b"max-stale") && value.is_none() => {
                self.max_stale = Some(self.max_stale.unwrap_or(u32::MAX));
            }
            () if is(b"max-stale") => least(&mut self.max_stale, value),
            () => {}
        }
    }
}

/// Whether the request's `Cache-Control` forbids storing the response (`no-store`; RFC 9111, section 5.2.1.5).
pub fn forbids_storing(request: &Fields) -> bool {
    let mut found = false;
    if request.has(FieldId::CacheControl) {
        each(request, |name, _| {
            found |= name.eq_ignore_ascii_case(b"no-store");
        });
    }
    found
}

/// Keeps the smallest of repeated values. A value that is not a number counts as 0: RFC 9111, section 4.2.1 encourages
/// caches to treat a response with invalid freshness information as stale.
fn least(known: &mut Option<u32>, value: Option<&[u8]>) {
    let seconds = value.and_then(delta_seconds).unwrap_or(0);
    *known = Some(known.map_or(seconds, |known| known.min(seconds)));
}

/// RFC 9111, section 1.2.2: what does not fit counts as 2^31.
pub(super) fn delta_seconds(text: &[u8]) -> Option<u32> {
    const MOST: u64 = 1 << 31;
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| (sum * 10 + u64::from(digit - b'0')).min(MOST);
    u32::try_from(text.iter().fold(0, add)).ok()
}

/// Gives each directive with its value, without the quotes around that.
fn each(fields: &Fields, mut take: impl FnMut(&[u8], Option<&[u8]>)) {
    for line in fields.all(FieldId::CacheControl) {
        let mut rest = line;
        while !rest.is_empty() {
            let (item, behind) = split_item(rest);
            rest = behind;
            let equals = memchr::memchr(b'=', item);
            let (name, value) = match equals {
                Some(at) => (&item[..at], Some(unquoted(item[at + 1..].trim_ascii()))),
                None => (item, None),
            };
            let name = name.trim_ascii();
            if !name.is_empty() {
                take(name, value);
            }
        }
    }
}

/// The text before the first comma that stands outside of quotes, and what follows that comma.
fn split_item(text: &[u8]) -> (&[u8], &[u8]) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, &[])
}

fn unquoted(text: &[u8]) -> &[u8] {
    match text {
        [b'"', inner @ .., b'"'] => inner,
        plain => plain,
    }
}
