//! Options of `lab hit`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use sluice_experiment::adapter::Tool;
use sluice_load::generator::trust::TlsOptions;
use sluice_load::quantity::{parse_bytes, parse_count, parse_duration};

/// Options of `lab hit`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What to load: http:// or https://, on this machine
    pub url: String,
    /// Connections at a time
    #[arg(long, short = 'c', default_value_t = 50)]
    pub connections: usize,
    /// Ends after so many requests, all of which count, instead of after a time
    #[arg(long, short = 'n', conflicts_with_all = ["rate", "duration"])]
    pub requests: Option<u64>,
    /// Open loop: requests per second of all connections together, measured from when they are due
    #[arg(long, short = 'r', value_parser = parse_count)]
    pub rate: Option<f64>,
    /// Open loop: random gaps between requests, as of many independent clients
    #[arg(long, requires = "rate")]
    pub poisson: bool,
    /// Length of the measured window
    #[arg(long, short = 'd', value_parser = parse_duration, default_value = "10s")]
    pub duration: Duration,
    /// Load before the window, which does not count
    #[arg(long, value_parser = parse_duration, default_value = "1s")]
    pub warmup: Duration,
    /// How long requests under way at the end may still take; by default the time limit
    #[arg(long, value_parser = parse_duration)]
    pub drain: Option<Duration>,
    /// Time limit of a request, a connect and a handshake
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    pub timeout: Duration,
    /// How long a client whose connection failed waits before it dials again
    #[arg(long, value_parser = parse_duration, default_value = "10ms")]
    pub failure_pause: Duration,
    /// Threads; by default half of the processors
    #[arg(long, short = 't')]
    pub threads: Option<usize>,
    /// Processors for the threads, such as 0,2
    #[arg(long, value_delimiter = ',')]
    pub cpus: Option<Vec<usize>>,
    /// Method; GET, or POST with a body
    #[arg(long, short = 'm')]
    pub method: Option<String>,
    /// A field of the request, as 'Name: value'; may be repeated
    #[arg(long, short = 'H')]
    pub header: Vec<String>,
    /// Body of the request, or @FILE
    #[arg(long)]
    pub body: Option<String>,
    /// A body of that many bytes
    #[arg(long, value_parser = parse_bytes)]
    pub body_bytes: Option<u64>,
    /// Requests under way at a time on each connection: streams of HTTP/2, pipelined requests of HTTP/1
    #[arg(long, default_value_t = 1)]
    pub depth: usize,
    /// A connection for each request, with `Connection: close`
    #[arg(long)]
    pub close: bool,
    /// Closes each connection after so many requests
    #[arg(long)]
    pub requests_per_connection: Option<u64>,
    /// HTTP/2: over TLS if the server agrees to it, in clear text without asking
    #[arg(long)]
    pub h2: bool,
    /// HTTP/3, which is not spoken yet
    #[arg(long, hide = true)]
    pub h3: bool,
    /// Connects to this unix socket instead of the host of the URL
    #[arg(long)]
    pub unix: Option<PathBuf>,
    /// Takes any certificate
    #[arg(long)]
    pub insecure: bool,
    /// Trusts the certificates of this file instead of the system's
    #[arg(long)]
    pub ca: Option<PathBuf>,
    /// Only this version of TLS: 1.2 or 1.3
    #[arg(long)]
    pub tls_version: Option<String>,
    /// Resumes TLS sessions; without, every connection makes a whole handshake
    #[arg(long)]
    pub tls_resume: bool,
    /// What is checked of each answer: auto, status, length, len:N, body or sha256:HEX
    #[arg(long, default_value = "auto")]
    pub verify: Verify,
    /// Compares the body of every n-th answer of a connection only; of the others the length
    #[arg(long, default_value_t = 1)]
    pub verify_every: u64,
    /// Messages of WebSocket that come back, instead of requests; --body or --body-bytes is the message. So does ws://
    #[arg(long, conflicts_with_all = ["sse", "h2", "method", "verify", "expect_status", "close"])]
    pub websocket: bool,
    /// Server-sent events: the gaps between them, and the time to the first
    #[arg(long, conflicts_with_all = ["h2", "method", "body", "body_bytes", "rate", "requests", "depth", "verify", "expect_status", "close"])]
    pub sse: bool,
    /// Holds so many idle connections beside the load
    #[arg(long, default_value_t = 0)]
    pub idle: usize,
    /// Holds so many slow readers beside the load
    #[arg(long, default_value_t = 0, conflicts_with_all = ["websocket", "sse"])]
    pub slow: usize,
    /// Bytes that each slow reader takes in a second
    #[arg(long, value_parser = parse_bytes, default_value = "1KiB")]
    pub slow_rate: u64,
    /// The status of a right answer; by default that of the first one
    #[arg(long)]
    pub expect_status: Option<u16>,
    /// Start value of everything random
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Writes the result to a file, for `report`, `compare` and `audit`
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Another load program instead of the lab's own: ab, h2load, hey, k6, oha, vegeta or wrk, where it is installed
    #[arg(long, value_name = "PROGRAM", value_parser = tool)]
    pub engine: Option<Tool>,
    /// Allows hosts other than this one
    #[arg(long)]
    pub i_own_this_host: bool,
}

impl Options {
    /// Whether messages of WebSocket are sent: by the option, or by the URL.
    pub fn is_websocket(&self) -> bool {
        self.websocket || self.url.starts_with("ws://") || self.url.starts_with("wss://")
    }

    /// How TLS is to be spoken.
    pub fn tls(&self) -> TlsOptions {
        TlsOptions {
            insecure: self.insecure,
            ca: self.ca.clone(),
            version: self.tls_version.clone(),
            resume: self.tls_resume,
        }
    }
}

fn tool(name: &str) -> Result<Tool, String> {
    let names: Vec<&str> = Tool::ALL.iter().map(|tool| tool.name()).collect();
    let found = Tool::ALL.into_iter().find(|tool| tool.name() == name);
    found.ok_or_else(|| format!("known are {}", names.join(", ")))
}

/// What is checked of each answer. The status always is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Every byte if two answers are alike, else the length if that is, else the status.
    Auto,
    /// The status.
    Status,
    /// The length of the first answer.
    Length,
    /// This length.
    LengthIs(u64),
    /// Every byte of the first answer.
    Body,
    /// The first answer has this digest, and all others are like it.
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
                        "`{other}`: auto, status, length, len:N, body or sha256:HEX can be checked"
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
            Some((other, _)) => return Err(format!("`{other}:` is unknown: len: and sha256: are")),
        })
    }
}
