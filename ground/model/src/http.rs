//! The `http` app: servers, and settings of a server as a whole. Routes are part of `handler`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use sluice_message::{FieldId, FieldName};

pub use crate::data_rate::MinDataRate;
pub use crate::handler::{ErrorRoutes, Route};
use crate::object::{RawModule, objects};
pub use crate::route_origin::RouteOrigin;
use crate::tls::ConnectionPolicy;
use crate::value::Duration;
use crate::walk::{Visitor, Walk};

/// The port for plain HTTP where nothing else is configured.
pub const HTTP_PORT: u16 = 80;
/// The port for HTTPS where nothing else is configured.
pub const HTTPS_PORT: u16 = 443;

/// The lowest memory limit in bytes: an idle process uses about half as much, and nothing could be served below.
pub const MEMORY_LIMIT_MIN: u64 = 16 * 1024 * 1024;

objects! {
    /// All HTTP servers.
    pub struct HttpApp {
        /// The port for plain HTTP, 80 when zero.
        pub http_port: u16,
        /// The port for HTTPS, 443 when zero.
        pub https_port: u16,
        /// How long requests may go on after a stop; zero waits for them without end.
        pub grace_period: Duration,
        /// How long to keep serving as before after a stop was asked for.
        pub shutdown_delay: Duration,
        /// The servers by name.
        pub servers: BTreeMap<String, Server>,
        /// Metrics of all servers, off when absent.
        pub metrics: Option<Metrics>,
        /// The memory in bytes that the process stays below, unlimited when zero. Our own word.
        pub memory_limit: u64,
    }

    /// What is counted.
    pub struct Metrics {
        /// A label for the host.
        pub per_host: bool,
        /// Counts hosts that no site names as well.
        pub observe_catchall_hosts: bool,
        /// Sends metrics over OTLP.
        pub otlp: bool,
    }

    /// One server: its sockets and its routes.
    pub struct Server {
        /// Addresses to listen on; see [`crate::Address`].
        pub listen: Vec<String>,
        /// What wraps the listeners, from the outside in.
        pub listener_wrappers: Vec<RawModule>,
        /// What wraps the packet sockets.
        pub packet_conn_wrappers: Vec<RawModule>,
        /// How long reading a whole request may take.
        pub read_timeout: Duration,
        /// How long reading a head may take.
        pub read_header_timeout: Duration,
        /// How long writing a response may take.
        pub write_timeout: Duration,
        /// How long reading a request body may make no progress.
        pub read_idle_timeout: Duration,
        /// The lowest rate at which clients may send bodies, in bytes per second, after `read_idle_timeout`.
        pub read_min_rate: i64,
        /// How long writing a response may make no progress.
        pub write_idle_timeout: Duration,
        /// The lowest rate at which clients may take responses, in bytes per second, after `write_idle_timeout`.
        pub write_min_rate: i64,
        /// The most bytes of one write. Without effect: timeouts are for bytes, not for writes.
        pub max_write_chunk: i64,
        /// How long a connection may wait for the next request.
        pub idle_timeout: Duration,
        /// The lowest rate at which clients may send bodies and take responses (ours); 240 bytes a second after 30 s when
        /// absent.
        pub min_data_rate: Option<MinDataRate>,
        /// The pause between TCP keep-alive probes.
        pub keepalive_interval: Duration,
        /// The quiet time before the first TCP keep-alive probe.
        pub keepalive_idle: Duration,
        /// How many probes may stay unanswered.
        pub keepalive_count: i64,
        /// The most bytes a request head may have.
        pub max_header_bytes: u64,
        /// Names of request headers with underscores that are kept; others are dropped. A name may end in `*`.
        pub expected_underscore_headers: Vec<String>,
        /// Names of request headers with dots that are kept; others are dropped. A name may end in `*`.
        pub expected_dot_headers: Vec<String>,
        /// Reads the request while the response is being written, over HTTP/1 as well.
        pub enable_full_duplex: bool,
        /// The routes, tried in order.
        pub routes: Vec<Route>,
        /// Routes for requests that failed.
        pub errors: Option<ErrorRoutes>,
        /// Routes that `invoke` calls by name.
        pub named_routes: BTreeMap<String, Route>,
        /// The settings of TLS handshakes; a server with at least one policy uses TLS.
        pub tls_connection_policies: Vec<ConnectionPolicy>,
        /// Changes to automatic HTTPS.
        pub automatic_https: Option<AutoHttps>,
        /// Whether the Host field must agree with the name of the handshake.
        pub strict_sni_host: Option<bool>,
        /// Where trusted proxies come from.
        pub trusted_proxies: Option<IpSource>,
        /// Fields that name the client, when a trusted proxy sent them.
        pub client_ip_headers: Vec<String>,
        /// 1 reads the chain of proxies from the right and stops at the first untrusted.
        pub trusted_proxies_strict: i64,
        /// Trusts peers on unix sockets.
        pub trusted_proxies_unix: bool,
        /// Access logs; none are written when absent.
        pub logs: Option<ServerLogs>,
        /// Gives each request an ID, in a header and on error pages (ours).
        pub request_id: Option<RequestIdHeader>,
        /// The versions of HTTP spoken: `h1 h2 h2c h3`.
        pub protocols: Vec<String>,
        /// The versions spoken on each listen address, where they differ.
        pub listen_protocols: Vec<Option<Vec<String>>>,
        /// Whether TLS early data is taken: over QUIC if it is not said, over TCP where it is.
        pub allow_0rtt: Option<bool>,
        /// Limits of HTTP/3 (ours).
        pub http3: Option<Http3>,
        /// Metrics of this server (an old place).
        pub metrics: Option<Metrics>,
    }

    /// The header for the ID of a request.
    pub struct RequestIdHeader {
        /// Its name; `X-Request-Id` when empty.
        pub header: String,
    }

    /// Limits of HTTP/3 and of QUIC under it.
    pub struct Http3 {
        /// Concurrent requests on a connection, at most 128; 100 where it is 0.
        pub max_streams: i64,
        /// How many bytes a stream may send before they are read; 256 KiB where it is 0.
        pub stream_window: i64,
        /// The algorithm of congestion control: `cubic` (default) or `bbr`.
        pub congestion: String,
        /// Clients have to prove their address before each handshake, not only when many begin at once.
        pub always_retry: bool,
        /// Packets are not split by the kernel or the network card (GSO).
        pub no_segmentation_offload: bool,
        /// A file with the secret of stateless resets and address tokens, so that they outlive the process.
        pub host_key_file: String,
    }

    /// Changes to automatic HTTPS.
    pub struct AutoHttps {
        /// Switches all of it off.
        pub disable: bool,
        /// No redirects from HTTP to HTTPS.
        pub disable_redirects: bool,
        /// No certificates, redirects only.
        pub disable_certificates: bool,
        /// Names left out altogether.
        pub skip: Vec<String>,
        /// Names for which no certificate is made.
        pub skip_certificates: Vec<String>,
        /// Makes certificates for names that a loaded certificate covers.
        pub ignore_loaded_certificates: bool,
    }

    /// Access logs of a server.
    pub struct ServerLogs {
        /// The logger for hosts without one of their own.
        pub default_logger_name: String,
        /// Loggers by host.
        pub logger_names: BTreeMap<String, Names>,
        /// Hosts whose requests are not logged.
        pub skip_hosts: Vec<String>,
        /// Logs only hosts that are listed.
        pub skip_unmapped_hosts: bool,
        /// Logs Cookie, Authorization and their like.
        pub should_log_credentials: bool,
        /// Logs each handler that runs.
        pub trace: bool,
        /// Logs how long each stage of a request took (ours).
        pub timings: bool,
    }
}

impl RequestIdHeader {
    /// The header; `None` if its name is not valid, or that of a header with a meaning of its own, such as `Host`.
    pub fn name(&self) -> Option<FieldName> {
        let name = match self.header.as_str() {
            "" => "X-Request-Id",
            name => name,
        };
        FieldName::new(name).filter(|header| header.id() == FieldId::Other)
    }
}

/// One name or several; written as a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Names(pub Vec<String>);

impl Walk for Names {
    fn walk(&self, visitor: &mut dyn Visitor) {
        visitor.object(self);
        self.0.walk(visitor);
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            One(String),
            Many(Vec<String>),
        }
        match Either::deserialize(deserializer) {
            Ok(Either::One(name)) => Ok(Self(alloc::vec![name])),
            Ok(Either::Many(names)) => Ok(Self(names)),
            Err(_) => Err(D::Error::custom("expected a name or a list of names")),
        }
    }
}

crate::object::tagged! {
    /// Where a list of addresses comes from.
    pub enum IpSource by "source" {
        /// A fixed list.
        Static(crate::matcher::IpRanges) = "static",
    }
}
