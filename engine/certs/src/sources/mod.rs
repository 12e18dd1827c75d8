//! Certificate sources queried while a handshake waits: an HTTP endpoint, or the Tailscale daemon of this machine.
//! `on_demand` decides when to query them and caches the results.

mod tailscale;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sluice_dns::fetch::{FetchOptions, Fetcher};
use ureq::http::{Request, Uri};

use crate::failure::CertsError;
use crate::limits::{HELLO_NUMBERS_MAX, SOURCE_TIMEOUT};
use crate::pair::{Origin, Pair};
use crate::storage::StoredPair;
use crate::store::wildcard_of;
use crate::subject::Subject;

/// The default socket of the Tailscale daemon on Linux (`paths.DefaultTailscaledSocket` of its client).
pub const TAILSCALE_SOCKET: &str = "/var/run/tailscale/tailscaled.sock";

/// The configuration of a certificate source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceOptions {
    /// An endpoint at this `http` or `https` URL (Caddy's module `tls.get_certificate.http`).
    Http(String),
    /// The Tailscale daemon at this socket, for names below `ts.net` (Caddy's `tls.get_certificate.tailscale`).
    Tailscale(PathBuf),
}

/// A certificate source.
pub struct Source(Kind);

enum Kind {
    Http { url: String, fetcher: Fetcher },
    Tailscale(PathBuf),
}

/// ClientHello data sent to the endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The client's signature schemes, by number (RFC 8446, section 4.2.3).
    pub signature_schemes: Vec<u16>,
    /// The client's cipher suites, by number (RFC 8446, appendix B.4).
    pub cipher_suites: Vec<u16>,
    /// The local address that the client connected to, if known.
    pub local: Option<IpAddr>,
}

impl SourceOptions {
    /// An HTTP endpoint; the error for an invalid URL is a human-readable message.
    pub fn http(url: &str) -> Result<SourceOptions, String> {
        let uri: Uri = url
            .parse()
            .map_err(|error| format!("`{url}` is not a URL: {error}"))?;
        match uri.scheme_str() {
            Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => {
                Ok(SourceOptions::Http(url.to_owned()))
            }
            _ => Err(format!(
                "`{url}` is not a complete `http://` or `https://` URL"
            )),
        }
    }
}

impl Source {
    /// Creates the source without connecting to it.
    pub fn new(options: &SourceOptions) -> Source {
        Source(match options {
            SourceOptions::Http(url) => Kind::Http {
                // The fragment of a URL is not sent to servers.
                url: url.split('#').next().unwrap_or_default().to_owned(),
                fetcher: Fetcher::new(&FetchOptions {
                    timeout: SOURCE_TIMEOUT,
                    ..FetchOptions::default()
                }),
            },
            SourceOptions::Tailscale(socket) => Kind::Tailscale(socket.clone()),
        })
    }

    /// The certificate for `subject`; `None` if the source is not responsible for it. Blocks for up to
    /// [`SOURCE_TIMEOUT`], or a minute for Tailscale. An expired certificate, or one for another name, is an error.
    pub(crate) fn ask(
        &self,
        subject: &Subject,
        hello: &Hello,
        now: SystemTime,
    ) -> Result<Option<Pair>, CertsError> {
        let (origin, text) = match &self.0 {
            Kind::Http { url, fetcher } => (shown(url), ask_http(fetcher, url, subject, hello)),
            Kind::Tailscale(socket) => ("tailscale".to_owned(), tailscale::ask(socket, subject)),
        };
        let refuse = |what: String| CertsError::Setting {
            name: "get_certificate",
            what: format!("`{origin}` for `{subject}`: {what}"),
        };
        let Some(text) = text.map_err(refuse)? else {
            return Ok(None);
        };
        let stored = StoredPair {
            certificate: text.clone(),
            key: text,
        };
        let path = Path::new(&origin);
        let pair = Pair::from_pem(
            &stored,
            Origin {
                certificate: path,
                key: path,
            },
        )?;
        if pair.lifetime.has_ended(now) {
            return Err(refuse("the certificate has expired".to_owned()));
        }
        let wildcard = wildcard_of(subject);
        let is_for_it = |other: &Subject| other == subject || Some(other) == wildcard.as_ref();
        if !pair.subjects.iter().any(is_for_it) {
            return Err(refuse("the certificate is for other names".to_owned()));
        }
        // Serve it only for the requested name: for its other names, the source may have a better certificate.
        Ok(Some(Pair {
            subjects: vec![subject.clone()],
            ..pair
        }))
    }
}

/// The URL without parts that may be secret.
fn shown(url: &str) -> String {
    let Ok(uri) = url.parse::<Uri>() else {
        return "get_certificate".to_owned();
    };
    let scheme = uri.scheme_str().unwrap_or_default();
    let port = uri.port_u16().map(|port| format!(":{port}"));
    let (host, port) = (uri.host().unwrap_or_default(), port.unwrap_or_default());
    format!("{scheme}://{host}{port}{}", uri.path())
}

/// Caddy's protocol: 200 with chain and key, 204 if the endpoint has no certificate for the name.
fn ask_http(
    fetcher: &Fetcher,
    url: &str,
    subject: &Subject,
    hello: &Hello,
) -> Result<Option<Vec<u8>>, String> {
    let request = Request::get(asked_address(url, subject, hello))
        .body(Vec::new())
        .map_err(|error| error.to_string())?;
    let response = fetcher.send(request)?;
    match response.status().as_u16() {
        200 => Ok(Some(response.into_body())),
        204 => Ok(None),
        status => Err(format!("status {status}")),
    }
}

/// The URL with the ClientHello data as query parameters.
fn asked_address(url: &str, subject: &Subject, hello: &Hello) -> String {
    let numbers = |list: &[u16]| {
        let words = list.iter().take(HELLO_NUMBERS_MAX);
        let words: Vec<String> = words.map(|number| format!("{number:x}")).collect();
        words.join("%2C")
    };
    let joint = if url.contains('?') { '&' } else { '?' };
    // Names contain nothing that needs escaping.
    let mut address = format!(
        "{url}{joint}server_name={subject}&signature_schemes={}&cipher_suites={}",
        numbers(&hello.signature_schemes),
        numbers(&hello.cipher_suites),
    );
    if let Some(local) = hello.local {
        let local = local.to_string().replace(':', "%3A");
        address.push_str(&format!("&local_ip={local}"));
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_gets_the_parameters_that_caddy_sends() {
        let subject = Subject::parse("A.test").unwrap();
        let hello = Hello {
            signature_schemes: vec![0x0403, 0x0804],
            cipher_suites: vec![0x1301; HELLO_NUMBERS_MAX + 1],
            local: Some("::1".parse().unwrap()),
        };
        let address = asked_address("http://h/c?key=x", &subject, &hello);
        let rest = address
            .strip_prefix("http://h/c?key=x&server_name=a.test&signature_schemes=403%2C804&")
            .unwrap();
        let suites = rest
            .strip_prefix("cipher_suites=")
            .and_then(|rest| rest.strip_suffix("&local_ip=%3A%3A1"))
            .unwrap();
        assert_eq!(suites.split("%2C").count(), HELLO_NUMBERS_MAX);
        let bare = asked_address("http://h/", &subject, &Hello::default());
        assert_eq!(
            bare,
            "http://h/?server_name=a.test&signature_schemes=&cipher_suites="
        );
    }

    #[test]
    fn only_whole_addresses_are_taken_and_secrets_in_them_not_shown() {
        for good in ["http://localhost:9000/cert", "https://h", "http://[::1]/?a"] {
            assert!(SourceOptions::http(good).is_ok(), "{good}");
        }
        for bad in ["", "localhost:9000", "/cert", "ftp://h/", "http://", "a b"] {
            assert!(SourceOptions::http(bad).is_err(), "{bad}");
        }
        assert_eq!(shown("http://u:p@h:9/c?key=x"), "http://h:9/c");
    }
}
