//! Where an upstream listens and how it is spoken to. Choosing one is left to the floor above.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluice_message::Moment;

use crate::gate::Gate;
use crate::probes::Probes;
use crate::tls::Connector;
use crate::upstream::dialling::Dialling;
use crate::upstream::limits::{
    CONTINUE_TIMEOUT, DIAL_TIMEOUT, IDLE_MAX, IDLE_TIMEOUT, QUEUE_MAX, QUEUE_TIMEOUT,
};

/// Where an upstream listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IP address and port; no name is ever looked up.
    Ip(SocketAddr),
    /// A name and port.
    Name {
        /// The name, as the resolver understands it.
        host: Box<str>,
        /// The port.
        port: u16,
    },
    /// A unix socket.
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

    /// The name or IP address, as a certificate names it; empty for a unix socket.
    pub fn host(&self) -> String {
        match self {
            Address::Ip(addr) => addr.ip().to_string(),
            Address::Name { host, .. } => host.to_string(),
            Address::Unix(_) => String::new(),
        }
    }

    /// The unix socket at `path`.
    pub fn unix(path: impl AsRef<Path>) -> Address {
        Address::Unix(path.as_ref().to_owned())
    }
}

/// How unused connections to an upstream are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// Each request gets a connection of its own.
    Off,
    /// For the next request.
    Keep {
        /// How long one is kept.
        idle_timeout: Duration,
        /// How many a worker keeps.
        idle_max: usize,
    },
    /// For as long altogether, idle or not, and as long as new ones are answered promptly: the application may
    /// serve one connection at a time.
    Briefly(Duration),
}

/// How long a kept connection serves altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Requests that one carries; without limit where `None`.
    pub requests_max: Option<u32>,
    /// From its first answer on; without limit where `None`.
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

/// How long the steps of a call may take; `None` is for ever.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Until a connection stands, TLS included.
    pub dial: Duration,
    /// From the whole request to the head of its answer.
    pub answer: Option<Duration>,
    /// Between two reads.
    pub read: Option<Duration>,
    /// Between two writes.
    pub write: Option<Duration>,
    /// How long a body waits for `100 Continue`.
    pub expect_continue: Duration,
    /// How long a request waits for its turn where those in progress are limited.
    pub queue: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            dial: DIAL_TIMEOUT,
            answer: None,
            read: None,
            write: None,
            expect_continue: CONTINUE_TIMEOUT,
            queue: QUEUE_TIMEOUT,
        }
    }
}

/// What an upstream speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 or HTTP/1.1, as the TLS handshake chooses (RFC 7301); HTTP/1.1 without TLS.
    Negotiated,
    /// HTTP/2 from the first byte on: the upstream is known to speak it (RFC 9113, section 3.3).
    Http2,
    /// FastCGI.
    FastCgi,
    /// What SCGI and uwsgi have in common: the variables of a request and its content as they are, a CGI head and content
    /// back, and one request on a connection.
    Cgi,
    /// memcached's text protocol: one value is asked for.
    Memcached {
        /// Values that were stored with one of these bits are compressed by gzip.
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
            Protocol::Negotiated | Protocol::Http2 => true,
        }
    }
}

/// How an upstream is spoken to.
#[derive(Clone, Default)]
pub struct Options {
    /// What it speaks.
    pub protocol: Protocol,
    /// TLS, if it is spoken.
    pub tls: Option<Arc<Connector>>,
    /// How connections are made, where not plainly.
    pub dialling: Option<Arc<Dialling>>,
    /// What happens to unused connections.
    pub keep_alive: KeepAlive,
    /// After how much use a connection of HTTP/1 or FastCGI is kept no longer.
    pub wear: Wear,
    /// How quiet TCP connections are probed.
    pub probes: Option<Probes>,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Requests in progress at a time, all workers together; further ones wait.
    pub busy_max: Option<usize>,
    /// Limits of the codec.
    pub h1: sluice_wire::h1::Limits,
    /// Limits of each connection of HTTP/2.
    pub h2: sluice_wire::h2::Limits,
    /// Bytes of an answer's body that are taken at a time; [`crate::limits::BODY_BUFFER_BYTES`] where `None`.
    pub read_bytes: Option<usize>,
}

/// An upstream: an address and how to speak to it. Shared by all workers.
pub struct Endpoint {
    address: Address,
    options: Options,
    hash: u64,
    gate: Option<Arc<Gate>>,
    /// Milliseconds on the time line of the process until which no connection is kept.
    crowded_until: AtomicU64,
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
            crowded_until: AtomicU64::new(0),
        }
    }

    /// The same upstream spoken to in HTTP/1.1 only, for requests that want to switch protocols. Both share the limit on
    /// requests in progress.
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
        Endpoint {
            gate: self.gate.clone(),
            ..Endpoint::new(self.address.clone(), options)
        }
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// How it is spoken to.
    pub fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn gate(&self) -> Option<&Gate> {
        self.gate.as_deref()
    }

    /// Keeps no connection before `until`.
    pub(super) fn keep_none_until(&self, until: Moment) {
        let millis = until.since(Moment::START).as_millis();
        self.crowded_until
            .store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether no connection is to be kept now.
    pub(super) fn is_crowded(&self, now: Moment) -> bool {
        let until = self.crowded_until.load(Ordering::Relaxed);
        until > 0 && u128::from(until) > now.since(Moment::START).as_millis()
    }

    /// Whether a connection made for the one serves the other: so connections outlive a configuration.
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

/// Takes the hash that an [`Endpoint`] already has.
#[derive(Default)]
pub(super) struct Given(u64);

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
