//! Requests of our own to authorities and to those who give permission: rare, small, and off the workers. What is
//! asked is left to the callers; requests of clients to upstreams are `sluice-net`'s.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use pki_types::CertificateDer;
use rustls::crypto::aws_lc_rs;
use sluice_message::hex::push_escaped;
use ureq::config::Config;
use ureq::http::{Request, Response, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error};

use crate::limits::{ANSWER_BYTES_MAX, REQUEST_TIMEOUT};

/// Makes requests. Clones share connections.
#[derive(Clone)]
pub struct Fetcher {
    agent: Agent,
}

/// How a [`Fetcher`] works.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Whose certificates are trusted; the system's where `None`.
    pub roots: Option<Vec<CertificateDer<'static>>>,
    /// How long one request may take.
    pub timeout: Duration,
    /// Redirects that are followed.
    pub redirects: u32,
    /// Whom it asks.
    pub kind: FetchKind,
    /// Whether servers have to prove who they are.
    pub verification: Verification,
    /// A name that leads to another server.
    pub alias: Option<Alias>,
    /// How long connecting may take, the handshake included; as long as the request where `None`.
    pub connect_timeout: Option<Duration>,
}

/// Whom a [`Fetcher`] asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchKind {
    /// Somebody whose certificate has to be right; through the proxy that the environment names, if it names one.
    #[default]
    Service,
    /// Somebody who has to prove something and may have no certificate yet: any is taken, and nobody stands between.
    Probe,
}

/// Whether servers have to prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// They do.
    #[default]
    Full,
    /// They need not: what they say may be anybody's.
    None,
}

/// A name under which a server is asked and has to prove itself, whose address is that of another.
#[derive(Clone, Debug)]
pub struct Alias {
    /// The name.
    pub name: String,
    /// Where the server is.
    pub address: Uri,
}

/// Finds addresses as usual, those of an alias elsewhere.
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
    /// A fetcher without connections.
    pub fn new(options: &FetchOptions) -> Fetcher {
        let roots = match &options.roots {
            Some(roots) => roots.clone(),
            None if options.kind == FetchKind::Probe => Vec::new(),
            // One that cannot be read is as good as absent: the connection tells what is not trusted.
            None => rustls_native_certs::load_native_certs().certs,
        };
        let roots: Vec<Certificate<'static>> = roots
            .iter()
            .map(|root| Certificate::from_der(root).to_owned())
            .collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::from(roots))
            .disable_verification(
                options.kind == FetchKind::Probe || options.verification == Verification::None,
            )
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
            .build();
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .tls_config(tls)
            .timeout_global(Some(options.timeout))
            .timeout_connect(options.connect_timeout)
            .max_redirects(options.redirects)
            .max_redirects_will_error(false)
            .user_agent(concat!("sluice/", env!("CARGO_PKG_VERSION")));
        if options.kind == FetchKind::Probe {
            config = config.proxy(None);
        }
        let resolver = Aliased {
            alias: options.alias.clone(),
            usual: DefaultResolver::default(),
        };
        Fetcher {
            agent: Agent::with_parts(config.build(), DefaultConnector::new(), resolver),
        }
    }

    /// Sends a request and reads the whole answer; what went wrong is for people.
    pub fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, String> {
        let (parts, body) = request.into_parts();
        // GET and HEAD have none, and an empty one would be announced.
        let answered = if body.is_empty() && parts.method != ureq::http::Method::POST {
            self.agent.run(Request::from_parts(parts, ()))
        } else {
            self.agent.run(Request::from_parts(parts, body))
        };
        let (parts, body) = answered.map_err(|error| error.to_string())?.into_parts();
        let mut bytes = Vec::new();
        body.into_reader()
            .take(ANSWER_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| error.to_string())?;
        if bytes.len() as u64 > ANSWER_BYTES_MAX {
            return Err("the response is too large".to_owned());
        }
        Ok(Response::from_parts(parts, bytes))
    }
}

/// Text as forms and the targets of requests have it: all but the unreserved letters of RFC 3986, section 2.3, by number.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    push_escaped(&mut out, text.as_bytes(), b"-._~");
    String::from_utf8(out).expect("letters, digits and escapes are ASCII")
}
