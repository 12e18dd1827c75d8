//! Certificates of authorities that others publish: fetched when a configuration is read, and not again until the next
//! one. What is believed because of them is left to the callers.

use std::time::Duration;

use pki_types::CertificateDer;
use sluice_net::tls::certificates_from_pem;
use ureq::http::uri::Authority;
use ureq::http::{Request, Uri, header};

use crate::fetch::{Alias, FetchOptions, Fetcher, Verification};
use crate::limits::PUBLISHED_TIMEOUT;

/// How published certificates are fetched.
#[derive(Clone, Debug, Default)]
pub struct Publisher {
    /// Whose certificates (DER) are trusted for it; the system's where `None`.
    pub roots: Option<Vec<Vec<u8>>>,
    /// Whether the publisher has to prove who it is.
    pub verification: Verification,
    /// The name it has to prove, where that is not the host of the address.
    pub server_name: Option<String>,
    /// How long connecting may take, the handshake included.
    pub connect_timeout: Option<Duration>,
}

impl Publisher {
    /// The certificates (DER) in the PEM text at `url`, at least one; what went wrong is for people. Waits for at most
    /// [`PUBLISHED_TIMEOUT`].
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
        let answer = fetcher.send(request)?;
        if !answer.status().is_success() {
            return Err(format!("the response is {}", answer.status()));
        }
        certificates_from_pem(answer.body()).map_err(|error| error.to_string())
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

    /// The address of a server that answers one request so, and what it was asked.
    fn server(answer: String) -> (String, thread::JoinHandle<String>) {
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
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(asked).unwrap()
        });
        (format!("http://{address}/ca.pem?x=1"), served)
    }

    #[test]
    fn certificates_are_those_of_the_answer() {
        let length = PEM.len();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{PEM}");
        let (url, served) = server(answer);
        assert_eq!(Publisher::default().fetch(&url), Ok(vec![vec![0, 0, 0]]));
        let asked = served.join().unwrap();
        assert!(asked.starts_with("GET /ca.pem?x=1 HTTP/1.1\r\n"), "{asked}");
    }

    /// The name decides what has to be proved, not where the request goes nor what it asks for.
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
    fn what_is_no_certificate_is_an_error() {
        let (url, served) = server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno".to_owned());
        assert!(Publisher::default().fetch(&url).is_err());
        served.join().unwrap();
        for bad in ["nonsense", "/path", "http://127.0.0.1:1/"] {
            assert!(Publisher::default().fetch(bad).is_err(), "{bad}");
        }
    }
}
