//! The form of the snapshot: one JSON document. Times are seconds since the Unix epoch, durations are seconds, sizes are
//! bytes, shares are from 0 to 1. A value that is not known is `null`. Members may be added; their meaning stays.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::fleet::FleetView;

/// The status of the server at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// When it was taken.
    pub at: f64,
    /// What the buttons of the dashboard may do.
    pub actions: Vec<String>,
    /// The program.
    pub server: ServerInfo,
    /// The process.
    pub process: Process,
    /// Reloads since the process started.
    pub reloads: Reloads,
    /// The source of the configuration, if this is a node of a fleet.
    pub config_source: Option<ConfigSourceView>,
    /// The fleet of this node, which it reads while somebody looks at it.
    pub fleet: Option<FleetView>,
    /// Client connections.
    pub connections: Connections,
    /// All requests.
    pub requests: Traffic,
    /// The latest point of the history, with the columns of that; empty before the first.
    pub latest: Vec<Option<f64>>,
    /// What was refused, shed or cut short to stay within limits.
    pub overload: Overload,
    /// The workers, by index.
    pub workers: Vec<WorkerRow>,
    /// The sites.
    pub sites: Sites,
    /// The upstreams; unhealthy ones first.
    pub upstreams: Table<UpstreamRow>,
    /// The caches.
    pub caches: Table<Cache>,
    /// The zones of rate limits.
    pub rate_limits: Table<RateLimit>,
    /// The limits of requests in flight.
    pub concurrency_limits: Table<Concurrency>,
    /// The certificates; those that expire first come first.
    pub certificates: Table<Certificate>,
    /// The Python applications.
    pub python: Table<PythonApplication>,
    /// The latest requests that failed on the side of the server, the latest first.
    pub failures: Vec<FailedRequest>,
    /// Failed requests that were not recorded, because there were too many at a time.
    pub failures_omitted: u64,
}

/// Some rows of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table<T> {
    /// The number of all rows.
    pub total: usize,
    /// Those that are shown.
    pub rows: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table {
            total: 0,
            rows: Vec::new(),
        }
    }
}

impl<T> Table<T> {
    /// A table that shows at most the first `max` rows.
    pub(super) fn of(mut rows: Vec<T>, max: usize) -> Table<T> {
        let total = rows.len();
        rows.truncate(max);
        Table { total, rows }
    }
}

/// The program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerInfo {
    /// Its version.
    pub version: String,
    /// Its PID.
    pub pid: u32,
    /// When it started.
    pub started: f64,
    /// For how long it has been running.
    pub uptime: f64,
}

/// The process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// Processor time used.
    pub cpu_seconds: Option<f64>,
    /// Processors in use over the last ten seconds: 1 stands for one whole processor.
    pub cpu: Option<f64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// How many files may be open.
    pub files_max: Option<u64>,
}

/// Reloads since the process started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reloads {
    /// Reloads that took effect.
    pub succeeded: u64,
    /// Reloads that were rejected.
    pub failed: u64,
    /// When the running configuration was loaded.
    pub loaded_at: Option<f64>,
    /// The last reload.
    pub last: Option<ReloadOutcome>,
}

/// The source that a node of a fleet follows for its configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigSourceView {
    /// Its URL, without secrets.
    pub place: String,
    /// The name of this node.
    pub node: String,
    /// The revision in use.
    pub running: Option<String>,
    /// The revision at the source.
    pub offered: Option<String>,
    /// For how long that has been another one.
    pub lag: Option<f64>,
    /// Why this node has refused the one at the source.
    pub refusal: Option<String>,
    /// Whether the source has responded to the last request.
    pub reachable: bool,
    /// Why it could not be read, if the last attempt failed.
    pub error: Option<String>,
    /// When it has responded last.
    pub last_contact: Option<f64>,
    /// Configurations that took effect.
    pub applied: u64,
    /// Configurations that were refused.
    pub refused: u64,
    /// Failed attempts to read the source or to report to it.
    pub failures: u64,
}

/// How a reload ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReloadOutcome {
    /// When.
    pub at: f64,
    /// What caused it: a signal, `admin` or `watch`.
    pub trigger: String,
    /// Whether it took effect.
    pub ok: bool,
    /// Why it was rejected.
    pub error: Option<String>,
}

/// Client connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Open now.
    pub open: u64,
    /// How many may be open.
    pub max: Option<u64>,
    /// Accepted so far.
    pub accepted: u64,
    /// Closed at once because a worker may have no more.
    pub refused: u64,
}

/// What was refused, shed or cut short to stay within limits, since the process started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overload {
    /// Times that accepting paused because connections or open files had run out.
    pub accept_pauses: u64,
    /// TLS handshakes that were given up because there were too many.
    pub handshakes_shed: u64,
    /// TLS handshakes that failed.
    pub handshakes_failed: u64,
    /// HTTP/2 and HTTP/3 connections closed because the client caused more work than its requests need.
    pub connections_calmed: u64,
    /// Requests ended because their bodies arrived too slowly.
    pub slow_requests: u64,
    /// Responses ended because clients read them too slowly.
    pub slow_responses: u64,
    /// Bodies that got no temporary file because there were too many.
    pub buffers_refused: u64,
    /// Log lines dropped because an output was too slow.
    pub log_lines_dropped: u64,
    /// Panics in the process.
    pub panics: u64,
}

/// Requests, since the process started unless the name has a period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Requests that ended.
    pub requests: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Requests per second over the last ten seconds.
    pub rate_10s: f64,
    /// Requests per second over the last minute.
    pub rate_1m: f64,
    /// Requests without a response and responses with a status from 500 up.
    pub errors: u64,
    /// Their share of the requests of the last minute; `null` if there were none.
    pub error_share_1m: Option<f64>,
    /// Requests by the class of their status.
    pub responses: Classes,
    /// Responses that did not reach the client completely.
    pub incomplete: u64,
    /// The median of the durations of about the last minute, from the first byte of the request to the last byte of the
    /// response; `null` if there were none.
    pub p50_1m: Option<f64>,
    /// The 99th percentile.
    pub p99_1m: Option<f64>,
    /// Bytes of response bodies.
    pub bytes_sent: u64,
    /// Bytes of request bodies.
    pub bytes_received: u64,
}

/// Requests by the class of their status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Classes {
    /// No response was sent.
    pub none: u64,
    /// 100 to 199, which means a tunnel.
    #[serde(rename = "1xx")]
    pub informational: u64,
    /// 200 to 299.
    #[serde(rename = "2xx")]
    pub successful: u64,
    /// 300 to 399.
    #[serde(rename = "3xx")]
    pub redirects: u64,
    /// 400 to 499.
    #[serde(rename = "4xx")]
    pub client_errors: u64,
    /// 500 and above.
    #[serde(rename = "5xx")]
    pub server_errors: u64,
}

impl Classes {
    /// The counters in the order of the recorder's.
    pub(super) fn of([none, one, two, three, four, five]: [u64; 6]) -> Classes {
        Classes {
            none,
            informational: one,
            successful: two,
            redirects: three,
            client_errors: four,
            server_errors: five,
        }
    }
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerRow {
    /// Its index.
    pub worker: usize,
    /// Its open client connections.
    pub connections: u64,
    /// Client connections it has accepted.
    pub accepted: u64,
    /// Requests it has begun to handle.
    pub requests: u64,
    /// Its requests in flight.
    pub in_flight: u64,
}

/// The sites.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sites {
    /// The number of all sites.
    pub total: usize,
    /// Those with most requests in the last minute, then in total.
    pub rows: Vec<Site>,
    /// The sum of the others, if there are any.
    pub rest: Option<Traffic>,
}

/// A site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Site {
    /// Its hosts, or the addresses of its server.
    pub name: String,
    /// Its requests.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// An upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpstreamRow {
    /// Its address.
    pub address: String,
    /// Whether no health check, failures or circuit breaker keep requests away from it.
    pub healthy: bool,
    /// Whether an operator drains it: it gets no new requests.
    pub draining: bool,
    /// For how many more seconds it gets no requests because an operator ejected it; `null` if that is not so.
    pub ejected: Option<f64>,
    /// Why it gets none.
    pub reasons: Vec<String>,
    /// Requests in flight, if a policy or a limit counts them.
    pub in_flight: Option<u64>,
    /// Failures that are remembered.
    pub failures: u32,
    /// Times that its circuit breaker has opened.
    pub circuit_trips: u64,
}

/// A cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// Its folder.
    pub name: String,
    /// Cached responses.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Requests served from it: `hit`, `stale`, `updating` and `revalidated`.
    pub hits: u64,
    /// Requests forwarded: `miss` and `expired`.
    pub misses: u64,
    /// Requests that bypassed it.
    pub bypassed: u64,
    /// The share of hits among hits and misses; `null` without any.
    pub hit_share: Option<f64>,
    /// Body bytes sent from it.
    pub bytes_sent: u64,
    /// Cached responses removed because of a limit or inactivity.
    pub evicted: u64,
    /// Files that could not be written or read.
    pub failures: u64,
    /// Whether its index is still being loaded.
    pub loading: bool,
}

/// A zone of a rate limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateLimit {
    /// Its name.
    pub name: String,
    /// Requests that were checked.
    pub requests: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Keys that it counts now.
    pub keys: u64,
    /// Keys that were dropped for lack of room.
    pub forgotten: u64,
}

/// A limit of requests in flight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Concurrency {
    /// The name of its zone, or its key.
    pub name: String,
    /// Requests in flight, all keys together.
    pub in_flight: u64,
    /// Requests that wait.
    pub waiting: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Keys with requests in flight.
    pub keys: u64,
    /// Requests in flight that are allowed per key; `null` if it depends on the location.
    pub max: Option<u64>,
}

/// A certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Certificate {
    /// The names and addresses it is for.
    pub names: Vec<String>,
    /// Its issuer or its file.
    pub origin: String,
    /// The start of its validity; `null` if it was not obtained yet.
    pub valid_from: Option<f64>,
    /// When it expires; `null` if it was not obtained yet.
    pub expires: Option<f64>,
    /// Whether sluice renews it.
    pub managed: bool,
    /// Failed attempts to obtain or renew it since the last success.
    pub failures: u32,
    /// The last failure, if the last attempt failed.
    pub last_failure: Option<String>,
    /// When the next attempt starts after a failure.
    pub next_attempt: Option<f64>,
}

impl Certificate {
    /// How soon it expires, relative to when that is a problem. sluice renews its own certificates when a third of their
    /// lifetime is left, so less than a fifth means that renewal fails or does not run.
    pub fn urgency(&self, now: f64) -> Urgency {
        let Some(expires) = self.expires else {
            return Urgency::Critical;
        };
        let length = expires - self.valid_from.unwrap_or(now);
        let (soon, critical) = match self.managed {
            true => (length / 5.0, length / 10.0),
            false => (10.0 * 86_400.0, 3.0 * 86_400.0),
        };
        match expires - now {
            left if left < critical => Urgency::Critical,
            left if left < soon => Urgency::Soon,
            _ => Urgency::None,
        }
    }
}

/// How soon something needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// It does not.
    None,
    /// In the next days.
    Soon,
    /// Now.
    Critical,
}

/// A Python application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PythonApplication {
    /// Its name.
    pub name: String,
    /// `package.module:variable`.
    pub module: String,
    /// `starting`, `ready`, `failed` or `draining`.
    pub state: String,
    /// Processes that are ready.
    pub processes_ready: usize,
    /// Processes that are starting or ready.
    pub processes: usize,
    /// Requests sent to processes.
    pub requests: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Requests that wait for a process.
    pub queued: u64,
    /// Requests refused because the queue was full, or no process became free in time.
    pub refused: u64,
    /// Processes started in place of ones that crashed, hung or did not start.
    pub restarts: u64,
    /// Resident memory of all processes.
    pub resident_bytes: u64,
    /// Why a process failed last.
    pub last_failure: Option<String>,
}

/// A request that failed on the side of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailedRequest {
    /// When it ended.
    pub at: f64,
    /// The status of the response; 0 if there was none.
    pub status: u16,
    /// The method.
    pub method: String,
    /// The host that the client named.
    pub host: String,
    /// The path, without the query.
    pub path: String,
    /// What failed.
    pub error: String,
    /// The ID that joins it with its line in the log and its error page.
    pub id: String,
    /// The upstream concerned; empty if there is none.
    pub upstream: String,
}

/// Seconds since the Unix epoch.
pub(super) fn unix(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    // Milliseconds: the rest is noise.
    since.as_millis() as f64 / 1000.0
}
