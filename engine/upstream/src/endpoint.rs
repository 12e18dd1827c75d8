//! The address of an upstream and how to connect to it. The layer above selects one.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluice_message::Moment;

use crate::dialling::Dialling;
use crate::limits::{
    CONTINUE_TIMEOUT, DIAL_TIMEOUT, IDLE_MAX, IDLE_TIMEOUT, QUEUE_MAX, QUEUE_TIMEOUT,
};
use sluice_net::gate::Gate;
use sluice_net::probes::Probes;
use sluice_net::tls::Connector;

/// The address of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IP address and port; no name is ever looked up.
    Ip(SocketAddr),
    /// A host name and port.
    Name {
        /// The name, as the resolver expects it.
        host: Box<str>,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// The address of `host`, a name or an IP address without brackets, and `port`.
    pub fn tcp(host: &str, port: u16) -> Address {
        match host.parse::<IpAddr>() {
            Ok(ip) => Address::Ip(SocketAddr::new(ip, port)),
            Err(_) => Address::Name {
                host: host.into(),
                port,
            },
        }
    }

    /// The host name or IP address, as it appears in a certificate; empty for a Unix socket.
    pub fn host(&self) -> String {
        match self {
            Address::Ip(addr) => addr.ip().to_string(),
            Address::Name { host, .. } => host.to_string(),
            Address::Unix(_) => String::new(),
        }
    }

    /// The Unix socket at `path`.
    pub fn unix(path: impl AsRef<Path>) -> Address {
        Address::Unix(path.as_ref().to_owned())
    }
}

/// Whether and how idle connections to an upstream are pooled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// Each request gets its own connection.
    Off,
    /// Pool idle connections.
    Keep {
        /// How long a connection may be idle.
        idle_timeout: Duration,
        /// Maximum number of idle connections per worker.
        idle_max: usize,
    },
    /// Pool connections up to this age, idle or not, as long as new ones get prompt responses: the application may
    /// serve one connection at a time.
    Briefly(Duration),
}

impl KeepAlive {
    /// How long a shared connection without streams is kept.
    pub(crate) fn idle_timeout(self) -> Duration {
        match self {
            KeepAlive::Off => Duration::ZERO,
            KeepAlive::Keep { idle_timeout, .. } => idle_timeout,
            KeepAlive::Briefly(time) => time,
        }
    }
}

/// Limits on the total use of a pooled connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Maximum number of requests; `None` for no limit.
    pub requests_max: Option<u32>,
    /// Maximum age, counted from its first response; `None` for no limit.
    pub age_max: Option<Duration>,
}

impl Default for KeepAlive {
    fn default() -> Self {
        KeepAlive::Keep {
            idle_timeout: IDLE_TIMEOUT,
            idle_max: IDLE_MAX,
        }
    }
}

/// Timeouts of the steps of a call; `None` for no limit.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Establishing a connection, including TLS.
    pub dial: Duration,
    /// From the end of the request to the head of the response.
    pub response: Option<Duration>,
    /// Between two reads.
    pub read: Option<Duration>,
    /// Between two writes.
    pub write: Option<Duration>,
    /// How long a body waits for `100 Continue`.
    pub expect_continue: Duration,
    /// How long a request waits in the queue of a concurrency limit.
    pub queue: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            dial: DIAL_TIMEOUT,
            response: None,
            read: None,
            write: None,
            expect_continue: CONTINUE_TIMEOUT,
            queue: QUEUE_TIMEOUT,
        }
    }
}

/// The protocol of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 or HTTP/1.1, negotiated by ALPN (RFC 7301); HTTP/1.1 without TLS.
    Negotiated,
    /// HTTP/2 with prior knowledge (RFC 9113, section 3.3).
    Http2,
    /// HTTP/3 (RFC 9114) over QUIC; needs TLS settings.
    Http3,
    /// FastCGI.
    FastCgi,
    /// The common part of SCGI and uwsgi: the variables of a request and its raw body, a CGI response, and one request
    /// per connection.
    Cgi,
    /// memcached's text protocol: retrieves one value.
    Memcached {
        /// Values stored with one of these flag bits are compressed by gzip.
        gzip_flag: u32,
    },
}

impl Protocol {
    /// Whether calls may share a connection.
    pub fn may_share(self) -> bool {
        match self {
            Protocol::Http1 | Protocol::FastCgi | Protocol::Cgi | Protocol::Memcached { .. } => {
                false
            }
            Protocol::Negotiated | Protocol::Http2 | Protocol::Http3 => true,
        }
    }
}

/// How to connect to an upstream.
#[derive(Clone, Default)]
pub struct Options {
    /// The protocol.
    pub protocol: Protocol,
    /// TLS settings; `None` for plaintext.
    pub tls: Option<Arc<Connector>>,
    /// Dial options, if any.
    pub dialling: Option<Arc<Dialling>>,
    /// Pooling of idle connections.
    pub keep_alive: KeepAlive,
    /// Limits on the use of an HTTP/1 or FastCGI connection.
    pub wear: Wear,
    /// TCP keep-alive probes.
    pub probes: Option<Probes>,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Maximum number of concurrent requests, across all workers; further ones wait.
    pub busy_max: Option<usize>,
    /// Limits of the HTTP/1 codec.
    pub h1: sluice_wire::h1::Limits,
    /// Limits of each HTTP/2 connection. Those of heads and windows hold for HTTP/3 as well.
    pub h2: sluice_wire::h2::Limits,
    /// Buffer size for response bodies; [`sluice_net::limits::BODY_BUFFER_BYTES`] if `None`.
    pub read_bytes: Option<usize>,
}

/// An upstream: an address and how to connect to it. Shared by all workers.
pub struct Endpoint {
    address: Address,
    options: Options,
    hash: u64,
    gate: Option<Arc<Gate>>,
    /// No connection is pooled until this time, in milliseconds on the process's time line.
    at_capacity_until: AtomicU64,
}

impl Endpoint {
    /// The upstream at `address`.
    pub fn new(address: Address, options: Options) -> Endpoint {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&address);
        let gate = options
            .busy_max
            .map(|max| Arc::new(Gate::new(max, QUEUE_MAX)));
        Endpoint {
            address,
            options,
            hash,
            gate,
            at_capacity_until: AtomicU64::new(0),
        }
    }

    /// The same upstream with HTTP/1.1 only, for requests that want to switch protocols. Both share the concurrency
    /// limit.
    pub fn in_http1(&self) -> Endpoint {
        let options = Options {
            protocol: Protocol::Http1,
            tls: self
                .options
                .tls
                .as_ref()
                .map(|tls| Arc::new(tls.for_http1())),
            ..self.options.clone()
        };
        self.with(options)
    }

    /// The same upstream with other options. Both share the concurrency limit.
    pub fn with(&self, options: Options) -> Endpoint {
        Endpoint {
            gate: self.gate.clone(),
            ..Endpoint::new(self.address.clone(), options)
        }
    }

    /// Its address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// How to connect to it.
    pub fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn gate(&self) -> Option<&Gate> {
        self.gate.as_deref()
    }

    /// Disables pooling until `until`.
    pub(crate) fn keep_none_until(&self, until: Moment) {
        let millis = until.since(Moment::START).as_millis();
        self.at_capacity_until
            .store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether pooling is disabled at the moment.
    pub(crate) fn is_at_capacity(&self, now: Moment) -> bool {
        let until = self.at_capacity_until.load(Ordering::Relaxed);
        until > 0 && u128::from(until) > now.since(Moment::START).as_millis()
    }

    /// Whether the two can share connections, so that these survive a reload.
    fn is_same(&self, other: &Endpoint) -> bool {
        let same_tls = match (&self.options.tls, &other.options.tls) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, Some(_)) | (Some(_), None) => false,
        };
        let same_protocol = self.options.protocol == other.options.protocol;
        let same_dialling = self.options.dialling == other.options.dialling;
        same_tls && same_protocol && same_dialling && self.address == other.address
    }
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Endpoint) -> bool {
        std::ptr::eq(self, other) || self.is_same(other)
    }
}

impl Eq for Endpoint {}

impl Hash for Endpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hasher that returns the hash stored in an [`Endpoint`].
#[derive(Default)]
pub(crate) struct Given(u64);

impl Hasher for Given {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
