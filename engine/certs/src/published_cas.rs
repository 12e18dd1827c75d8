//! CA certificates published at a URL: downloaded when a configuration is loaded, and not again until the next load.
//! The callers decide what to trust them for.

use std::time::Duration;

use pki_types::CertificateDer;
use sluice_dns::fetch::{Alias, FetchOptions, Fetcher, Verification};
use sluice_net::tls::certificates_from_pem;
use ureq::http::uri::Authority;
use ureq::http::{Request, Uri, header};

use crate::limits::PUBLISHED_TIMEOUT;

/// How to download published certificates.
#[derive(Clone, Debug, Default)]
pub struct Publisher {
    /// The root certificates (DER) trusted for the download; the system's if `None`.
    pub roots: Option<Vec<Vec<u8>>>,
    /// Whether to verify the certificate of the publisher.
    pub verification: Verification,
    /// The host name to verify, if it differs from the host of the URL.
    pub server_name: Option<String>,
    /// Timeout of connecting, including the TLS handshake.
    pub connect_timeout: Option<Duration>,
}

impl Publisher {
    /// Downloads the certificates (DER) in the PEM text at `url`, at least one; errors are human-readable messages.
    /// Blocks for at most [`PUBLISHED_TIMEOUT`].
    pub fn fetch(&self, url: &str) -> Result<Vec<Vec<u8>>, String> {
        let address: Uri = url.parse().map_err(|error| format!("{error}"))?;
        let (asked, alias) = match (&self.server_name, address.authority()) {
            (_, None) => return Err("the address has no host".to_owned()),
            (None, Some(_)) => (address.clone(), None),
            (Some(name), Some(authority)) => {
                let asked = renamed(&address, authority, name)?;
                let alias = Alias {
                    name: name.clone(),
                    address: address.clone(),
                };
                (asked, Some(alias))
            }
        };
        let roots = self.roots.as_ref().map(|roots| {
            let owned = roots.iter().cloned().map(CertificateDer::from);
            owned.collect()
        });
        let fetcher = Fetcher::new(&FetchOptions {
            roots,
            timeout: PUBLISHED_TIMEOUT,
            verification: self.verification,
            alias,
            connect_timeout: self.connect_timeout,
            ..FetchOptions::default()
        });
        let host = address.authority().map_or("", Authority::as_str);
        let request = Request::get(asked)
            .header(header::HOST, host)
            .body(Vec::new())
            .map_err(|error| error.to_string())?;
        let response = fetcher.send(request)?;
        if !response.status().is_success() {
            return Err(format!("the response is {}", response.status()));
        }
        certificates_from_pem(response.body()).map_err(|error| error.to_string())
    }
}

/// `address` with another host.
fn renamed(address: &Uri, authority: &Authority, name: &str) -> Result<Uri, String> {
    let host = match authority.port_u16() {
        Some(port) => format!("{name}:{port}"),
        None => name.to_owned(),
    };
    let mut parts = address.clone().into_parts();
    let host = host.parse();
    parts.authority = Some(host.map_err(|_| format!("`{name}` is not a valid server name"))?);
    Uri::from_parts(parts).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    /// The address of a server that sends this response to one request, and the request it received.
    fn server(response: String) -> (String, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut piece = [0; 1024];
            while !asked.ends_with(b"\r\n\r\n") {
                let count = stream.read(&mut piece).unwrap();
                asked.extend_from_slice(&piece[..count]);
            }
            stream.write_all(response.as_bytes()).unwrap();
            String::from_utf8(asked).unwrap()
        });
        (format!("http://{address}/ca.pem?x=1"), served)
    }

    #[test]
    fn certificates_come_from_the_response() {
        let length = PEM.len();
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{PEM}");
        let (url, served) = server(response);
        assert_eq!(Publisher::default().fetch(&url), Ok(vec![vec![0, 0, 0]]));
        let asked = served.join().unwrap();
        assert!(asked.starts_with("GET /ca.pem?x=1 HTTP/1.1\r\n"), "{asked}");
    }

    /// The server name affects only the verification, not where the request goes nor what it contains.
    #[test]
    fn another_name_leads_to_the_same_server() {
        let (url, served) = server("HTTP/1.1 404 Gone\r\nContent-Length: 0\r\n\r\n".to_owned());
        let publisher = Publisher {
            server_name: Some("ca.example".to_owned()),
            ..Publisher::default()
        };
        let refused = publisher.fetch(&url).unwrap_err();
        assert!(refused.contains("404"), "{refused}");
        let asked = served.join().unwrap().to_ascii_lowercase();
        assert!(asked.contains("\r\nhost: 127.0.0.1:"), "{asked}");
    }

    #[test]
    fn an_invalid_certificate_is_an_error() {
        let (url, served) = server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno".to_owned());
        assert!(Publisher::default().fetch(&url).is_err());
        served.join().unwrap();
        for bad in ["nonsense", "/path", "http://127.0.0.1:1/"] {
            assert!(Publisher::default().fetch(bad).is_err(), "{bad}");
        }
    }
}
