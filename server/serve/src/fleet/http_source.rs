//! A configuration on an HTTP server: polled with conditional requests (RFC 9110, section 13), at the pace that
//! `Cache-Control: max-age` allows.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sluice_dns::fetch::{FetchOptions, Fetcher};
use sluice_store::{Fault, StoreError};
use ureq::http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
};
use ureq::http::{HeaderMap, HeaderName, Request, Response, StatusCode};

use super::location::Location;
use super::revision::Revision;
use super::seen::{Seen, text_of};
use crate::limits::{HTTP_POLL, HTTP_POLL_MAX, HTTP_POLL_MIN, HTTP_TIMEOUT};

/// A configuration at a URL. Clones share what was read.
#[derive(Clone)]
pub struct HttpSource {
    fetcher: Fetcher,
    url: String,
    login: Option<String>,
    place: String,
    last: Arc<Mutex<Option<Last>>>,
}

/// The last response with a text.
#[derive(Clone, Debug)]
struct Last {
    seen: Seen,
    /// The validators of the response, as the headers of the next request.
    conditions: Vec<(HeaderName, String)>,
}

impl HttpSource {
    /// The configuration at `location`. Nothing is sent yet.
    pub(super) fn open(location: &Location) -> Result<HttpSource, StoreError> {
        let place = location.to_string();
        let url = location.target();
        if location.hosts.len() != 1 || url.parse::<ureq::http::Uri>().is_err() {
            return Err(StoreError::new(
                Fault::Setting,
                &place,
                "the URL is not valid",
            ));
        }
        let options = FetchOptions {
            timeout: HTTP_TIMEOUT,
            ..FetchOptions::default()
        };
        Ok(HttpSource {
            fetcher: Fetcher::new(&options),
            url,
            login: location.login(),
            place,
            last: Arc::default(),
        })
    }

    /// Reads the text, or finds that it has not changed.
    pub(super) fn read(&self) -> Result<Seen, StoreError> {
        let error = |fault, what: String| StoreError::new(fault, &self.place, what);
        let last = self.last();
        let mut request = Request::get(&self.url).header(ACCEPT, "*/*");
        if let Some(login) = &self.login {
            request = request.header(AUTHORIZATION, login);
        }
        for (name, value) in last.iter().flat_map(|last| &last.conditions) {
            request = request.header(name, value);
        }
        let request = request.body(Vec::new());
        let request = request.map_err(|e| error(Fault::Setting, e.to_string()))?;
        let response = self.fetcher.send(request);
        let response = response.map_err(|what| error(Fault::Away, what))?;
        let again = pause(response.headers());
        match (response.status(), last) {
            (StatusCode::OK, _) => self.take(response, again),
            (StatusCode::NOT_MODIFIED, Some(mut last)) => {
                last.seen.again = again;
                Ok(last.seen)
            }
            (status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), _) => Err(error(
                Fault::Credentials,
                format!("status {}", status.as_u16()),
            )),
            (status, _) => Err(error(Fault::Away, format!("status {}", status.as_u16()))),
        }
    }

    fn take(&self, response: Response<Vec<u8>>, again: Duration) -> Result<Seen, StoreError> {
        let (head, body) = response.into_parts();
        let text = text_of(body, &self.place)?;
        let known = self.last().map(|last| last.seen);
        let known = known.filter(|seen| seen.text == text);
        let seen = Seen {
            revision: Revision::of(&text),
            text,
            modified: known.map_or_else(SystemTime::now, |seen| seen.modified),
            is_stale: false,
            again,
        };
        let condition = |from: HeaderName, to: HeaderName| {
            let value = head.headers.get(from)?.to_str().ok()?;
            Some((to, value.to_owned()))
        };
        // The entity tag is the stronger of the two (RFC 9110, section 13.1.3).
        let condition =
            condition(ETAG, IF_NONE_MATCH).or_else(|| condition(LAST_MODIFIED, IF_MODIFIED_SINCE));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(Last {
            seen: seen.clone(),
            conditions: condition.into_iter().collect(),
        });
        Ok(seen)
    }

    fn last(&self) -> Option<Last> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

/// When to ask again.
fn pause(headers: &HeaderMap) -> Duration {
    let values = headers.get_all(CACHE_CONTROL).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let mut parts = texts.flat_map(|text| text.split(','));
    let seconds = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is_age = name.trim().eq_ignore_ascii_case("max-age");
        is_age.then(|| value.trim().trim_matches('"').parse().ok())?
    });
    let wanted = seconds.map_or(HTTP_POLL, Duration::from_secs);
    wanted.clamp(HTTP_POLL_MIN, HTTP_POLL_MAX)
}

impl fmt::Debug for HttpSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpSource({})", self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_that_of_the_server_within_bounds() {
        let pause = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_CONTROL, value.parse().unwrap());
            pause(&headers).as_secs()
        };
        assert_eq!(super::pause(&HeaderMap::new()), HTTP_POLL);
        assert_eq!(pause("public, Max-Age=30"), 30);
        assert_eq!(pause("max-age=0"), 1);
        assert_eq!(pause("max-age=999999"), 3600);
        assert_eq!(pause("no-cache"), 10);
        assert_eq!(pause("max-age=x"), 10);
    }
}
