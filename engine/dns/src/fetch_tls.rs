//! TLS for a `Fetcher`: its servers are verified like upstreams, so that a server may show a certificate that is trusted
//! itself.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use pki_types::pem::PemObject;
use pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::crypto::aws_lc_rs;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use sluice_net::tls::{
    ConnectorError, NameRule, ServerTrust, certificates_from_pem, server_verifier,
};
use ureq::Error;
use ureq::unversioned::transport::time::{Duration, Instant};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

/// Wraps connections in TLS if their URL is of `https`.
pub(crate) struct VerifyingConnector {
    /// The settings, or why they cannot be made, which each connection reports.
    config: Result<Arc<ClientConfig>, String>,
}

impl VerifyingConnector {
    /// Verifies servers by `trust` and presents `identity` to those that request a certificate.
    pub(crate) fn new(trust: ServerTrust, identity: Option<&FetchIdentity>) -> VerifyingConnector {
        let config = config(trust, identity).map_err(|error| error.to_string());
        VerifyingConnector { config }
    }
}

/// The client certificate of a `Fetcher`.
#[derive(Clone)]
pub struct FetchIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

impl FetchIdentity {
    /// Parses a certificate chain, leaf first, and its private key, both PEM.
    ///
    /// # Errors
    /// One of them is not valid PEM, or they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<FetchIdentity, ConnectorError> {
        let chain = certificates_from_pem(chain)?;
        let chain: Vec<_> = chain.into_iter().map(CertificateDer::from).collect();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(ConnectorError::Pem)?;
        let provider = aws_lc_rs::default_provider();
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider)
            .map_err(ConnectorError::Unusable)?;
        Ok(FetchIdentity {
            chain,
            key: Arc::new(key),
        })
    }
}

impl fmt::Debug for FetchIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchIdentity").finish_non_exhaustive()
    }
}

fn config(
    trust: ServerTrust,
    identity: Option<&FetchIdentity>,
) -> Result<Arc<ClientConfig>, ConnectorError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = server_verifier(trust, NameRule::Alternative, Vec::new(), provider.clone())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .map_err(ConnectorError::Unusable)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(FetchIdentity { chain, key }) => config
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(ConnectorError::Unusable)?,
    };
    Ok(Arc::new(config))
}

impl fmt::Debug for VerifyingConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyingConnector").finish_non_exhaustive()
    }
}

impl<In: Transport> Connector<In> for VerifyingConnector {
    type Out = Either<In, SecureTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let config = self.config.clone();
        let config = config.map_err(|what| Error::Io(std::io::Error::other(what)))?;
        let host = details.uri.host().unwrap_or_default();
        // A URL has an IPv6 address in brackets (RFC 3986, section 3.2.2).
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let name = ServerName::try_from(bare.unwrap_or(host).to_owned())
            .map_err(|_| Error::Tls("the host is neither a name nor an address"))?;
        let mut conn = ClientConnection::new(config, name)?;
        let mut sock = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        sock.set_timeout(left(details));
        conn.complete_io(&mut sock)?;
        let sizes = details.config;
        Ok(Some(Either::B(SecureTransport {
            buffers: LazyBuffers::new(sizes.input_buffer_size(), sizes.output_buffer_size()),
            stream: StreamOwned { conn, sock },
        })))
    }
}

/// What is left of the time for connecting.
fn left(details: &ConnectionDetails<'_>) -> NextTimeout {
    let mut left = details.timeout;
    let now = (details.current_time)();
    if let (Duration::Exact(total), Instant::Exact(from), Instant::Exact(now)) =
        (left.after, details.now, now)
    {
        let spent = now.saturating_duration_since(from);
        left.after = total.saturating_sub(spent).into();
    }
    left
}

/// A connection with TLS.
pub(crate) struct SecureTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for SecureTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecureTransport").finish_non_exhaustive()
    }
}

impl Transport for SecureTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use rustls::{ServerConfig, ServerConnection};

    use super::*;
    use crate::fetch::{FetchOptions, Fetcher};

    /// A server that shows its own CA, for `requests` requests, each on its own connection.
    fn serve(name: &str, requests: usize) -> (u16, CertificateDer<'static>) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.clone()], key);
        let config = Arc::new(config.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for _ in 0..requests {
                let (socket, _) = listener.accept().unwrap();
                let conn = ServerConnection::new(config.clone()).unwrap();
                let mut stream = StreamOwned::new(conn, socket);
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                }
                let _ = stream.write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
                );
            }
        });
        (port, made)
    }

    fn fetch(port: u16, roots: Vec<CertificateDer<'static>>) -> Result<u16, String> {
        let fetcher = Fetcher::new(&FetchOptions {
            roots: Some(roots),
            kind: crate::fetch::FetchKind::Direct,
            ..FetchOptions::default()
        });
        let request = ureq::http::Request::get(format!("https://localhost:{port}/"));
        let response = fetcher.send(request.body(Vec::new()).unwrap())?;
        Ok(response.status().as_u16())
    }

    #[test]
    fn a_server_may_show_the_ca_that_is_trusted_for_its_own_name_only() {
        let (port, made) = serve("localhost", 2);
        assert_eq!(fetch(port, vec![made.clone()]), Ok(200));
        let (other, stranger) = serve("other.test", 1);
        let refused = fetch(port, vec![stranger.clone()]).unwrap_err();
        assert!(refused.contains("UnknownIssuer"), "{refused}");
        let refused = fetch(other, vec![stranger]).unwrap_err();
        assert!(refused.contains("not valid for name"), "{refused}");
    }
}
