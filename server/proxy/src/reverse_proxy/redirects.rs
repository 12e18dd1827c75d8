//! Redirects followed by health checks. `active` interprets the final response.

use std::sync::Arc;

use sluice_message::{Method, Status};
use sluice_net::tls::{Connector, ConnectorOptions};
use sluice_upstream::{Endpoint, Options, Protocol};

use super::addresses::tcp;
use super::transport::Transport;
use sluice_pipeline::refusal::Refusal;

/// How redirects to another host are followed.
pub struct Redirects {
    plain: Options,
    secured: Options,
}

/// One request of a check.
pub struct Step {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// The host and port in the request.
    pub authority: String,
    /// Path and query.
    pub target: String,
    /// The method.
    pub method: Method,
}

impl Redirects {
    /// Prepares the options for both schemes, since a redirect may lead to either.
    pub fn build(transport: &Transport) -> Result<Redirects, Refusal> {
        let options = transport.options(None);
        let connector = match &options.tls {
            Some(connector) => connector.clone(),
            None => {
                let made = Connector::new(ConnectorOptions::default());
                Arc::new(made.map_err(|error| {
                    Refusal::new(format!("TLS for `health_follow_redirects`: {error}"))
                })?)
            }
        };
        // Other hosts get the protocol of the upstreams if they have the same scheme.
        let (plain, secured) = match options.tls {
            None => (options.protocol, Protocol::Http1),
            Some(_) => (Protocol::Http1, options.protocol),
        };
        Ok(Redirects {
            plain: Options {
                tls: None,
                protocol: plain,
                ..options.clone()
            },
            secured: Options {
                tls: Some(connector),
                protocol: secured,
                ..options
            },
        })
    }

    /// The request that follows `place` after a response with `status` and `location`; `None` if the response is final.
    pub fn next(&self, place: &Step, status: Status, location: &[u8]) -> Option<Step> {
        // RFC 9110, section 15.4: 303 changes the method to GET; for 301 and 302 browsers do the same.
        let method = match status.code() {
            301..=303 if place.method != Method::Head => Method::Get,
            301..=303 | 307 | 308 => place.method.clone(),
            _ => return None,
        };
        let location = std::str::from_utf8(location).ok()?;
        let location = location.split('#').next().unwrap_or_default();
        if location.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return None;
        }
        let (endpoint, authority, target) = match location.split_once("://") {
            Some((scheme, rest)) => self.elsewhere(scheme, rest)?,
            None => match location.strip_prefix("//") {
                Some(rest) => {
                    let is_tls = place.endpoint.options().tls.is_some();
                    self.elsewhere(if is_tls { "https" } else { "http" }, rest)?
                }
                None => {
                    let target = beside(&place.target, location);
                    (place.endpoint.clone(), place.authority.clone(), target)
                }
            },
        };
        Some(Step {
            endpoint,
            authority,
            target,
            method,
        })
    }

    fn elsewhere(&self, scheme: &str, rest: &str) -> Option<(Arc<Endpoint>, String, String)> {
        let (options, usual) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (&self.plain, 80),
            "https" => (&self.secured, 443),
            _ => return None,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let parsed = sluice_model::Address::parse(authority).ok()?;
        let port = parsed.ports.map_or(usual, |ports| ports.first);
        let (address, _, _) = tcp(&parsed.host, port);
        let target = if target.starts_with('/') {
            target.to_owned()
        } else {
            format!("/{target}")
        };
        let endpoint = Endpoint::new(address, options.clone());
        Some((Arc::new(endpoint), authority.to_owned(), target))
    }
}

/// Resolves a reference without a host relative to `target` (RFC 3986, section 5.2, without removing dot segments).
fn beside(target: &str, reference: &str) -> String {
    if reference.starts_with('/') {
        return reference.to_owned();
    }
    let path = target.split('?').next().unwrap_or_default();
    if reference.starts_with('?') {
        return format!("{path}{reference}");
    }
    let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
    format!("{folder}{reference}")
}

#[cfg(test)]
mod tests {
    use sluice_wire::h1::Leniency;

    use super::super::group::Shared;
    use super::*;

    fn start() -> (Redirects, Step) {
        let transport =
            Transport::build(None, None, None, Leniency::default(), &Shared::default()).unwrap();
        let (address, authority, _) = tcp("127.0.0.1", 8080);
        let step = Step {
            endpoint: Arc::new(Endpoint::new(address, transport.options(None))),
            authority,
            target: "/health/one?q".to_owned(),
            method: Method::Post,
        };
        (Redirects::build(&transport).unwrap(), step)
    }

    #[test]
    fn references_lead_where_they_say() {
        let (redirects, step) = start();
        for (location, authority, target) in [
            ("/two?x", "127.0.0.1:8080", "/two?x"),
            ("two", "127.0.0.1:8080", "/health/two"),
            ("?r", "127.0.0.1:8080", "/health/one?r"),
            ("http://a.example", "a.example", "/"),
            ("http://a.example?x", "a.example", "/?x"),
            ("//b.example:81/p#f", "b.example:81", "/p"),
            ("https://[::1]:444/p", "[::1]:444", "/p"),
        ] {
            let next = redirects.next(&step, Status::FOUND, location.as_bytes());
            let next = next.expect(location);
            assert_eq!((&*next.authority, &*next.target), (authority, target));
            assert_eq!(next.method, Method::Get);
        }
        let https = redirects
            .next(&step, Status::FOUND, b"https://a.example/")
            .unwrap();
        assert!(https.endpoint.options().tls.is_some());
        assert_eq!(https.endpoint.address().host(), "a.example");
    }

    #[test]
    fn other_responses_are_final_and_methods_are_kept_where_required() {
        let (redirects, step) = start();
        assert!(redirects.next(&step, Status::OK, b"/two").is_none());
        assert!(
            redirects
                .next(&step, Status::NOT_MODIFIED, b"/two")
                .is_none()
        );
        assert!(redirects.next(&step, Status::FOUND, b"ftp://a/").is_none());
        assert!(redirects.next(&step, Status::FOUND, b"/a b").is_none());
        let kept = redirects
            .next(&step, Status::new(307).unwrap(), b"/two")
            .unwrap();
        assert_eq!(kept.method, Method::Post);
    }
}
