//! The HTTP client for requests of our own, to CAs, permission endpoints and collectors: rare, small, and off the
//! workers. Requests of clients to upstreams are handled by `sluice-upstream`.

use std::io::{ErrorKind, Read};
use std::time::Duration;

use pki_types::CertificateDer;
use sluice_message::hex::push_escaped;
use sluice_net::tls::ServerTrust;
use ureq::config::Config;
use ureq::http::{Request, Response, Uri};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, NextTimeout, TcpConnector};
use ureq::{Agent, AsSendBody, Error, Timeout};

pub use crate::fetch_tls::FetchIdentity;
use crate::fetch_tls::VerifyingConnector;
use crate::limits::{REQUEST_TIMEOUT, RESPONSE_BYTES_MAX};

/// An HTTP client. Clones share connections.
#[derive(Clone)]
pub struct Fetcher {
    agent: Agent,
    response_bytes_max: u64,
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
    /// The certificate that is presented to servers that request one.
    pub identity: Option<FetchIdentity>,
    /// Maximum size of a response body in bytes, except those that are read as they arrive.
    pub response_bytes_max: u64,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchError {
    /// A message for people.
    pub what: String,
    /// Whether the server may have received the request.
    pub sent: Sent,
}

/// The timeouts of one request; those of the client where they are `None`.
#[derive(Clone, Copy)]
struct Limits {
    whole: Option<Duration>,
    /// Of connecting, and of the response head after the request.
    head: Option<Duration>,
}

/// Whether a server may have received a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It has not: there was no connection.
    No,
    /// It may have.
    Maybe,
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
            identity: None,
            response_bytes_max: RESPONSE_BYTES_MAX,
        }
    }
}

impl From<Error> for FetchError {
    fn from(error: Error) -> FetchError {
        let is_unsent = match &error {
            Error::HostNotFound | Error::ConnectionFailed | Error::Tls(_) | Error::BadUri(_) => {
                true
            }
            Error::Timeout(stage) => matches!(stage, Timeout::Resolve | Timeout::Connect),
            Error::Io(error) => error.kind() == ErrorKind::ConnectionRefused,
            _ => false,
        };
        FetchError {
            what: error.to_string(),
            sent: if is_unsent { Sent::No } else { Sent::Maybe },
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
        let connector = ()
            .chain(ConnectProxyConnector::default())
            .chain(TcpConnector::default())
            .chain(VerifyingConnector::new(trust, options.identity.as_ref()));
        let resolver = Aliased {
            alias: options.alias.clone(),
            usual: DefaultResolver::default(),
        };
        Fetcher {
            agent: Agent::with_parts(config.build(), connector, resolver),
            response_bytes_max: options.response_bytes_max,
        }
    }

    /// Sends a request and reads the whole response; errors are human-readable messages.
    pub fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, String> {
        self.send_within(request, None).map_err(|error| error.what)
    }

    /// Like [`send`](Self::send), with a timeout of its own and an error that a caller can decide by.
    ///
    /// # Errors
    /// The server cannot be reached, does not respond in time, or sends more than the configured maximum.
    pub fn send_within(
        &self,
        request: Request<Vec<u8>>,
        timeout: Option<Duration>,
    ) -> Result<Response<Vec<u8>>, FetchError> {
        let limits = Limits {
            whole: timeout,
            head: None,
        };
        let (parts, body) = self.begin(request, limits)?.into_parts();
        let too_late = |error: std::io::Error| FetchError {
            what: error.to_string(),
            sent: Sent::Maybe,
        };
        let mut bytes = Vec::new();
        body.take(self.response_bytes_max + 1)
            .read_to_end(&mut bytes)
            .map_err(too_late)?;
        if bytes.len() as u64 > self.response_bytes_max {
            return Err(FetchError {
                what: "the response is too large".to_owned(),
                sent: Sent::Maybe,
            });
        }
        Ok(Response::from_parts(parts, bytes))
    }

    /// Sends a request and returns the response with its body unread. `timeout` includes reading the body: a read
    /// after it fails. Connecting has to take less than `head`, and so has the response head after that.
    ///
    /// # Errors
    /// The server cannot be reached or does not respond in time.
    pub fn stream(
        &self,
        request: Request<Vec<u8>>,
        timeout: Duration,
        head: Duration,
    ) -> Result<Response<impl Read + Send + use<>>, FetchError> {
        let limits = Limits {
            whole: Some(timeout),
            head: Some(head),
        };
        self.begin(request, limits)
    }

    fn begin(
        &self,
        request: Request<Vec<u8>>,
        limits: Limits,
    ) -> Result<Response<impl Read + Send + use<>>, FetchError> {
        let (parts, body) = request.into_parts();
        // GET and HEAD have no body, and an empty one would be declared.
        let sent = if body.is_empty() && parts.method != ureq::http::Method::POST {
            self.run(Request::from_parts(parts, ()), limits)
        } else {
            self.run(Request::from_parts(parts, body), limits)
        };
        Ok(sent?.map(ureq::Body::into_reader))
    }

    fn run(
        &self,
        request: Request<impl AsSendBody>,
        limits: Limits,
    ) -> Result<Response<ureq::Body>, Error> {
        let mut configured = self.agent.configure_request(request);
        if let Some(whole) = limits.whole {
            configured = configured.timeout_global(Some(whole));
        }
        if let Some(head) = limits.head {
            configured = configured
                .timeout_connect(Some(head))
                .timeout_recv_response(Some(head));
        }
        self.agent.run(configured.build())
    }
}

/// Percent-encodes everything but the unreserved characters of RFC 3986, section 2.3.
pub fn escaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    push_escaped(&mut out, text.as_bytes(), b"-._~");
    String::from_utf8(out).expect("letters, digits and escapes are ASCII")
}
