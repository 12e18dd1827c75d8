//! Options of `lab hit`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use sluice_experiment::adapter::Tool;
use sluice_experiment::agent::AgentSpec;
use sluice_experiment::thresholds::FailIf;
use sluice_load::generator::target::{HttpVersion, Reach};
use sluice_load::generator::trust::TlsOptions;
use sluice_load::generator::warmup::Warmup;
use sluice_load::quantity::{parse_bytes, parse_count, parse_duration};

/// Blocks of each of two targets: as many as an interval needs.
const BLOCKS_OF_TWO: usize = 5;

/// Options of `lab hit`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Target URL: http:// or https://, on this machine
    pub url: String,
    /// Send the requests of this file instead of the URL's path: a line for each, `[WEIGHT] [METHOD] PATH`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["websocket", "sse", "idle", "slow", "method", "engine", "verify"])]
    pub urls: Option<PathBuf>,
    /// Run the scenario of this file: sessions, phases and variables, in TOML
    #[arg(long, value_name = "FILE", conflicts_with_all = ["urls", "websocket", "sse", "idle", "slow", "method", "header", "body", "body_bytes", "engine", "verify", "verify_every", "expect_status", "connections", "requests", "rate", "poisson", "duration", "depth", "close", "requests_per_connection"])]
    pub scenario: Option<PathBuf>,
    /// A second target: both are loaded in turn, block by block, and compared
    pub against: Option<String>,
    /// Measure this many times, and report medians with intervals (default: 1, or 5 with two targets)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub repeats: Option<u16>,
    /// Exit with 1 if this holds, such as 'p99>200ms', 'errors>0.1%' or 'rate<5000' (repeatable)
    #[arg(long, value_name = "CONDITION")]
    pub fail: Vec<FailIf>,
    /// Concurrent connections
    #[arg(long, short = 'c', default_value_t = 50)]
    pub connections: usize,
    /// Stop after this many requests, all of which count, instead of after a time
    #[arg(long, short = 'n', conflicts_with_all = ["rate", "duration"])]
    pub requests: Option<u64>,
    /// Open loop: requests per second over all connections; latency counts from when each was due
    #[arg(long, short = 'r', value_parser = parse_count)]
    pub rate: Option<f64>,
    /// Open loop: random intervals between requests, as from many independent clients
    #[arg(long, requires = "rate")]
    pub poisson: bool,
    /// Length of the measured window
    #[arg(long, short = 'd', value_parser = parse_duration, default_value = "10s")]
    pub duration: Duration,
    /// Warm-up before the window, which does not count: a time, or '1000 requests' (at most 60 s, or '… within 30s')
    #[arg(long, value_name = "TIME|N requests", default_value = "1s")]
    pub warmup: Warmup,
    /// How long requests in flight at the end may still take (default: the timeout)
    #[arg(long, value_parser = parse_duration)]
    pub drain: Option<Duration>,
    /// Timeout of a request, a connect and a handshake
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    pub timeout: Duration,
    /// How long a client waits before it reconnects after a failed connection
    #[arg(long, value_parser = parse_duration, default_value = "10ms")]
    pub failure_pause: Duration,
    /// Number of threads (default: half of the CPUs)
    #[arg(long, short = 't')]
    pub threads: Option<usize>,
    /// CPUs for the threads, such as 0,2
    #[arg(long, value_delimiter = ',')]
    pub cpus: Option<Vec<usize>>,
    /// HTTP method (default: GET, or POST with a body)
    #[arg(long, short = 'm')]
    pub method: Option<String>,
    /// Request header, as 'Name: value' (repeatable)
    #[arg(long, short = 'H')]
    pub header: Vec<String>,
    /// Request body, or @FILE
    #[arg(long)]
    pub body: Option<String>,
    /// Generate a request body of this many bytes
    #[arg(long, value_parser = parse_bytes)]
    pub body_bytes: Option<u64>,
    /// Concurrent requests on each connection: HTTP/2 or HTTP/3 streams, or HTTP/1 pipelining
    #[arg(long, default_value_t = 1)]
    pub depth: usize,
    /// Use a new connection for each request, with `Connection: close`
    #[arg(long)]
    pub close: bool,
    /// Close each connection after this many requests
    #[arg(long)]
    pub requests_per_connection: Option<u64>,
    /// Use HTTP/2: over TLS if the server agrees to it, otherwise with prior knowledge
    #[arg(long)]
    pub h2: bool,
    /// Use HTTP/3 over QUIC, to the UDP port of the same number
    #[arg(long, conflicts_with = "h2")]
    pub h3: bool,
    /// Connect to this unix socket instead of the host of the URL
    #[arg(long)]
    pub unix: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long)]
    pub insecure: bool,
    /// Trust the certificates in this file instead of the system's
    #[arg(long)]
    pub ca: Option<PathBuf>,
    /// Use only this TLS version: 1.2 or 1.3
    #[arg(long)]
    pub tls_version: Option<String>,
    /// Resume TLS sessions; by default every connection makes a full handshake
    #[arg(long)]
    pub tls_resume: bool,
    /// What to verify in each response: auto, status, length, len:N, body or sha256:HEX
    #[arg(long, default_value = "auto")]
    pub verify: Verify,
    /// Compare the body of every n-th response on a connection, and only the length of the others
    #[arg(long, default_value_t = 1)]
    pub verify_every: u64,
    /// Send WebSocket messages to be echoed instead of requests; --body or --body-bytes is the message. Implied by
    /// ws://
    #[arg(long, conflicts_with_all = ["sse", "h2", "h3", "method", "verify", "expect_status", "close"])]
    pub websocket: bool,
    /// Receive server-sent events: measure the time to the first one and the intervals between them
    #[arg(long, conflicts_with_all = ["h2", "h3", "method", "body", "body_bytes", "rate", "requests", "depth", "verify", "expect_status", "close"])]
    pub sse: bool,
    /// Hold this many idle connections open beside the load
    #[arg(long, default_value_t = 0)]
    pub idle: usize,
    /// Hold this many slow readers open beside the load
    #[arg(long, default_value_t = 0, conflicts_with_all = ["websocket", "sse"])]
    pub slow: usize,
    /// Bytes that each slow reader reads per second
    #[arg(long, value_parser = parse_bytes, default_value = "1KiB")]
    pub slow_rate: u64,
    /// Expected status (default: that of the first response)
    #[arg(long)]
    pub expect_status: Option<u16>,
    /// Random seed
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Write the result to a file, for `report`, `compare` and `audit`
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Use an external load generator: ab, h2load, hey, k6, oha, vegeta or wrk, if it is installed
    #[arg(long, value_name = "PROGRAM", value_parser = Tool::of_name)]
    pub engine: Option<Tool>,
    /// Divide the load between agents: HOST:PORT, ssh:HOST, command:WORDS or local (repeatable)
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["engine", "unix", "requests", "cpus", "websocket", "sse", "idle", "slow"])]
    pub agent: Vec<AgentSpec>,
    /// File with the token of the agents (default: the variable SLUICE_LAB_TOKEN)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Allow hosts other than this one
    #[arg(long)]
    pub i_own_this_host: bool,
}

impl Options {
    /// The version of HTTP.
    pub fn version(&self) -> HttpVersion {
        match (self.h2, self.h3) {
            (_, true) => HttpVersion::Http3,
            (true, false) => HttpVersion::Http2,
            (false, false) => HttpVersion::Http1,
        }
    }

    /// The hosts that may be loaded.
    pub fn reach(&self) -> Reach {
        match self.i_own_this_host {
            true => Reach::Anywhere,
            false => Reach::Loopback,
        }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        let default = match self.against {
            Some(_) => BLOCKS_OF_TWO,
            None => 1,
        };
        self.repeats.map_or(default, usize::from)
    }

    /// Whether to send WebSocket messages: by the option, or by the URL.
    pub fn is_websocket(&self) -> bool {
        self.websocket || self.url.starts_with("ws://") || self.url.starts_with("wss://")
    }

    /// The TLS options.
    pub fn tls(&self) -> TlsOptions {
        TlsOptions {
            insecure: self.insecure,
            ca: self.ca.clone(),
            version: self.tls_version.clone(),
            resume: self.tls_resume,
        }
    }
}

/// What to verify in each response, in addition to the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Every byte if two responses are identical, else the length if that is, else the status.
    Auto,
    /// The status.
    Status,
    /// The length of the first response.
    Length,
    /// This length.
    LengthIs(u64),
    /// Every byte of the first response.
    Body,
    /// The first response has this digest, and all others are identical to it.
    Sha256(String),
}

impl FromStr for Verify {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text.split_once(':') {
            None => match text {
                "auto" => Verify::Auto,
                "status" => Verify::Status,
                "length" => Verify::Length,
                "body" => Verify::Body,
                other => {
                    return Err(format!(
                        "cannot verify `{other}`: use auto, status, length, len:N, body or sha256:HEX"
                    ));
                }
            },
            Some(("len", number)) => Verify::LengthIs(parse_bytes(number)?),
            Some(("sha256", hex))
                if hex.len() == 64 && hex.chars().all(|c| c.is_ascii_hexdigit()) =>
            {
                Verify::Sha256(hex.to_string())
            }
            Some(("sha256", _)) => return Err("a SHA-256 has 64 hexadecimal digits".into()),
            Some((other, _)) => {
                return Err(format!("unknown prefix `{other}:`: use len: or sha256:"));
            }
        })
    }
}
