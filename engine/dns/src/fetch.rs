//! The HTTP client for requests of our own, to CAs, permission endpoints and collectors: rare, small, and off the
//! workers. Requests of clients to upstreams are handled by `sluice-upstream`.

use std::io::Read;
use std::time::Duration;

use pki_types::CertificateDer;
use sluice_message::hex::push_escaped;
use sluice_net::tls::ServerTrust;
use ureq::config::Config;
use ureq::http::{Request, Response, Uri};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, NextTimeout, TcpConnector};
use ureq::{Agent, Error};

use crate::fetch_tls::VerifyingConnector;
use crate::limits::{REQUEST_TIMEOUT, RESPONSE_BYTES_MAX};

/// An HTTP client. Clones share connections.
#[derive(Clone)]
pub struct Fetcher {
    agent: Agent,
}

/// Options of a [`Fetcher`].
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// The trusted root certificates; the system's if `None`.
    pub roots: Option<Vec<CertificateDer<'static>>>,
    /// Timeout of one request.
    pub timeout: Duration,
    /// Maximum number of redirects to follow.
    pub redirects: u32,
    /// The kind of server.
    pub kind: FetchKind,
    /// Whether to verify the certificates of servers.
    pub verification: Verification,
    /// A host name with the address of another server.
    pub alias: Option<Alias>,
    /// Timeout of connecting, including the TLS handshake; that of the request if `None`.
    pub connect_timeout: Option<Duration>,
}

/// The kind of server that a [`Fetcher`] sends requests to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchKind {
    /// A service with a valid certificate, reached through the proxy in the environment, if any.
    #[default]
    Service,
    /// A service with a valid certificate, reached without a proxy.
    Direct,
    /// A client under validation, which may not have a certificate yet: any certificate is accepted, and no proxy is
    /// used.
    Probe,
}

/// Whether to verify the certificates of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// Verify them.
    #[default]
    Full,
    /// Accept any certificate: responses may be forged.
    None,
}

/// A host name used in requests and for certificate verification, with the address of another server.
#[derive(Clone, Debug)]
pub struct Alias {
    /// The host name.
    pub name: String,
    /// The address of the server.
    pub address: Uri,
}

/// A resolver that handles the alias.
#[derive(Debug)]
struct Aliased {
    alias: Option<Alias>,
    usual: DefaultResolver,
}

impl Resolver for Aliased {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let alias = self.alias.as_ref();
        let alias = alias.filter(|alias| uri.host() == Some(&alias.name));
        let uri = alias.map_or(uri, |alias| &alias.address);
        self.usual.resolve(uri, config, timeout)
    }
}

impl Default for FetchOptions {
    fn default() -> Self {
        FetchOptions {
            roots: None,
            timeout: REQUEST_TIMEOUT,
            redirects: 3,
            kind: FetchKind::Service,
            verification: Verification::Full,
            alias: None,
            connect_timeout: None,
        }
    }
}

impl Fetcher {
    /// Creates a fetcher without open connections.
    pub fn new(options: &FetchOptions) -> Fetcher {
        let is_verified =
            options.kind != FetchKind::Probe && options.verification == Verification::Full;
        let trust = match &options.roots {
            _ if !is_verified => ServerTrust::Anyone,
            Some(roots) => ServerTrust::Pool(roots.iter().map(|root| root.to_vec()).collect()),
            None => ServerTrust::System,
        };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(options.timeout))
            .timeout_connect(options.connect_timeout)
            .max_redirects(options.redirects)
            .max_redirects_will_error(false)
            .user_agent(concat!("sluice/", env!("CARGO_PKG_VERSION")));
        match options.kind {
            FetchKind::Service => {}
            FetchKind::Direct | FetchKind::Probe => config = config.proxy(None),
        }
        let connector =
            ().chain(ConnectProxyConnector::default())
                .chain(TcpConnector::default())
                .chain(VerifyingConnector::new(trust));
        let resolver = Aliased {
            alias: options.alias.clone(),
            usual: DefaultResolver::default(),
        };
        Fetcher {
            agent: Agent::with_parts(config.build(), connector, resolver),
        }
    }

    /// Sends a request and reads the whole response; errors are human-readable messages.
    pub fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, String> {
        let (parts, body) = request.into_parts();
        // GET and HEAD have no body, and an empty one would be declared.
        let sent = if body.is_empty() && parts.method != ureq::http::Method::POST {
            self.agent.run(Request::from_parts(parts, ()))
        } else {
            self.agent.run(Request::from_parts(parts, body))
        };
        let (parts, body) = sent.map_err(|error| error.to_string())?.into_parts();
        let mut bytes = Vec::new();
        body.into_reader()
            .take(RESPONSE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| error.to_string())?;
        if bytes.len() as u64 > RESPONSE_BYTES_MAX {
            return Err("the response is too large".to_owned());
        }
        Ok(Response::from_parts(parts, bytes))
    }
}

/// Percent-encodes everything but the unreserved characters of RFC 3986, section 2.3.
pub fn escaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    push_escaped(&mut out, text.as_bytes(), b"-._~");
    String::from_utf8(out).expect("letters, digits and escapes are ASCII")
}
