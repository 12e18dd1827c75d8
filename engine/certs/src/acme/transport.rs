//! The HTTP transport of the ACME library. Records what the library does not expose: `Retry-After` and alternate
//! chains.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use time::format_description::well_known::Rfc2822;
use ureq::http::{HeaderMap, Request, Response, header};

use sluice_dns::fetch::Fetcher;

/// Details recorded from the responses so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// The `Retry-After` time of the last response.
    pub(super) retry_at: Option<SystemTime>,
    /// The alternate chains offered by the last response with a chain.
    pub(super) alternates: Vec<String>,
    /// The body of the last response.
    pub(super) body: Bytes,
    /// Whether a request got no response at all.
    pub(super) unreachable: bool,
}

/// Sends the library's requests on the thread that polls them: each order has its own thread.
#[derive(Clone)]
pub(super) struct Transport {
    fetcher: Fetcher,
    notes: Arc<Mutex<Notes>>,
}

impl Transport {
    pub(super) fn new(fetcher: Fetcher) -> Transport {
        Transport {
            fetcher,
            notes: Arc::default(),
        }
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        // Notes are never left incomplete.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, request: Request<Vec<u8>>) -> Result<BytesResponse, Error> {
        let (response, body) = self.exchange(request)?;
        let (parts, ()) = response.into_parts();
        Ok(BytesResponse {
            parts,
            body: Box::new(Bytes::from(body)),
        })
    }

    /// Sends one request and records details of its response.
    pub(super) fn exchange(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<(Response<()>, Vec<u8>), Error> {
        self.notes().unreachable = true;
        let response = self
            .fetcher
            .send(request)
            .map_err(|what| Error::Other(what.into()))?;
        let (parts, body) = response.into_parts();
        let mut notes = self.notes();
        notes.retry_at = retry_at(&parts.headers, SystemTime::now());
        notes.unreachable = parts.status.is_server_error();
        notes.body = Bytes::from(body.clone());
        if is_chain(&parts.headers) {
            notes.alternates = alternates(&parts.headers);
        }
        Ok((Response::from_parts(parts, ()), body))
    }
}

impl HttpClient for Transport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let transport = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            transport.send(Request::from_parts(parts, body.to_bytes().to_vec()))
        })
    }
}

fn is_chain(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| {
        kind.as_bytes()
            .starts_with(b"application/pem-certificate-chain")
    })
}

/// RFC 8555, section 7.4.2: links with relation `alternate` refer to other chains.
fn alternates(headers: &HeaderMap) -> Vec<String> {
    let links = headers.get_all(header::LINK).into_iter();
    let texts = links.filter_map(|link| link.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .filter_map(|link| {
            let (target, parameters) = link.split_once(';')?;
            let is_alternate = parameters
                .split(';')
                .any(|p| matches!(p.trim(), "rel=\"alternate\"" | "rel=alternate"));
            let target = target.trim().strip_prefix('<')?.strip_suffix('>')?;
            is_alternate.then(|| target.to_owned())
        })
        .collect()
}

/// RFC 9110, section 10.2.3: seconds or a date.
pub(crate) fn retry_at(headers: &HeaderMap, now: SystemTime) -> Option<SystemTime> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(now + Duration::from_secs(seconds.into()));
    }
    time::OffsetDateTime::parse(&text.replace("GMT", "+0000"), &Rfc2822)
        .ok()
        .map(SystemTime::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), header::HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn links_to_other_chains_are_found() {
        let links = headers(
            header::LINK,
            &[
                "<https://a.test/index>;rel=\"index\"",
                "<https://a.test/1>;rel=\"alternate\", <https://a.test/2>; title=x; rel=alternate",
                "nonsense",
            ],
        );
        assert_eq!(alternates(&links), ["https://a.test/1", "https://a.test/2"]);
    }

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let now = SystemTime::UNIX_EPOCH;
        let read = |text| retry_at(&headers(header::RETRY_AFTER, &[text]), now);
        assert_eq!(read("120"), Some(now + Duration::from_secs(120)));
        assert_eq!(
            read("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(now + Duration::from_secs(784_111_777))
        );
        assert_eq!(read("soon"), None);
    }
}
