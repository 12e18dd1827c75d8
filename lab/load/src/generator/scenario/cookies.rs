//! The cookies of one session (RFC 6265): what the target sets is sent back to paths below the cookie's path. All requests
//! go to one host in one load, so `Domain` and `Secure` change nothing; a cookie that expires during its session is sent until
//! the end of it.

use std::time::{SystemTime, UNIX_EPOCH};

use sluice_message::date::parse_http;

use crate::generator::limits::{COOKIE_BYTES_MAX, COOKIES_MAX};

/// The cookies of one session.
#[derive(Clone, Debug, Default)]
pub struct Jar(Vec<Cookie>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cookie {
    name: String,
    value: String,
    path: String,
}

impl Jar {
    /// Takes the value of a `Set-Cookie` header of the response to a request for `path`. What is not a cookie, or too
    /// long, is ignored, as browsers do.
    pub fn take(&mut self, header: &[u8], path: &str) {
        let Some((cookie, deletes)) = parse(header, path) else {
            return;
        };
        self.0
            .retain(|known| (&known.name, &known.path) != (&cookie.name, &cookie.path));
        if !deletes {
            if self.0.len() >= COOKIES_MAX {
                self.0.remove(0);
            }
            self.0.push(cookie);
        }
    }

    /// The value of the `Cookie` header of a request; `None` without cookies for its path. Longer paths come first
    /// (RFC 6265, section 5.4).
    pub fn header(&self, path: &str) -> Option<String> {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let mut fitting: Vec<&Cookie> = self.0.iter().filter(|one| one.fits(path)).collect();
        fitting.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> = fitting
            .iter()
            .map(|cookie| format!("{}={}", cookie.name, cookie.value))
            .collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

impl Cookie {
    /// RFC 6265, section 5.1.4.
    fn fits(&self, path: &str) -> bool {
        path.strip_prefix(self.path.as_str()).is_some_and(|rest| {
            rest.is_empty() || self.path.ends_with('/') || rest.starts_with('/')
        })
    }
}

/// A cookie, and whether the header deletes it (RFC 6265, section 5.2).
fn parse(header: &[u8], path: &str) -> Option<(Cookie, bool)> {
    let text = std::str::from_utf8(header).ok()?;
    if text.len() > COOKIE_BYTES_MAX || text.contains(char::is_control) {
        return None;
    }
    let mut parts = text.split(';');
    let (name, value) = parts.next()?.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return None;
    }
    let mut cookie = Cookie {
        name: name.to_string(),
        value: value.to_string(),
        path: default_path(path),
    };
    // `Max-Age` has precedence over `Expires` (RFC 6265, section 5.3).
    let (mut by_age, mut by_date) = (None, None);
    for attribute in parts {
        let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        match key.trim().to_ascii_lowercase().as_str() {
            "path" if value.trim().starts_with('/') => cookie.path = value.trim().to_string(),
            "max-age" => by_age = value.trim().parse::<i64>().ok().map(|age| age <= 0),
            "expires" => by_date = is_past(value.trim()),
            _ => {}
        }
    }
    Some((cookie, by_age.or(by_date).unwrap_or(false)))
}

/// Whether a date is in the past; `None` if it is not a date.
fn is_past(date: &str) -> Option<bool> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |passed| passed.as_secs());
    let date = parse_http(date.as_bytes(), now)?;
    Some(date <= now as i64)
}

/// RFC 6265, section 5.1.4: the folder of the request.
fn default_path(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    match path.rfind('/') {
        None | Some(0) => "/".to_string(),
        Some(at) => path[..at].to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_sent_back_below_their_path_until_deleted() {
        let mut jar = Jar::default();
        assert_eq!(jar.header("/"), None);
        jar.take(b"id=7; Path=/; HttpOnly; SameSite=Lax", "/login");
        jar.take(b"cart=a=b", "/shop/cart?x");
        jar.take(b"deep=1; Path=/shop/cart/item", "/");
        assert_eq!(jar.header("/").as_deref(), Some("id=7"));
        assert_eq!(jar.header("/shopping").as_deref(), Some("id=7"));
        assert_eq!(jar.header("/shop/?q").as_deref(), Some("cart=a=b; id=7"));
        assert_eq!(
            jar.header("/shop/cart/item").as_deref(),
            Some("deep=1; cart=a=b; id=7")
        );
        jar.take(b"id=8; Path=/", "/login");
        assert_eq!(jar.header("/").as_deref(), Some("id=8"));
        jar.take(b"id=; Path=/; Max-Age=0", "/logout");
        assert_eq!(jar.header("/"), None);
        jar.take(b"a=1", "/");
        jar.take(b"a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "/");
        assert_eq!(jar.header("/"), None);
        jar.take(
            b"a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60",
            "/",
        );
        jar.take(b"b=1; Expires=Fri, 31 Dec 2100 00:00:00 GMT", "/");
        assert_eq!(jar.header("/").as_deref(), Some("a=1; b=1"));
    }

    #[test]
    fn a_jar_is_bounded_and_strange_headers_are_ignored() {
        let mut jar = Jar::default();
        let long = format!("a={}", "x".repeat(COOKIE_BYTES_MAX));
        for header in [long.as_bytes(), b"novalue", b"=x", b"\xff=1", b"a=\x01"] {
            jar.take(header, "/");
        }
        assert_eq!(jar.header("/"), None);
        for number in 0..COOKIES_MAX + 5 {
            jar.take(format!("c{number}=1").as_bytes(), "/");
        }
        let header = jar.header("/").unwrap();
        assert_eq!(header.split("; ").count(), COOKIES_MAX);
        assert!(!header.contains("c4=") && header.contains("c5="));
    }
}
