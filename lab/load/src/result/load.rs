//! What the clients observed: responses, failures, durations, and whether the load generator kept up.

use serde::{Deserialize, Serialize};

use super::{Distribution, FailureClass, Failures};
use crate::quantity::thousands;

/// One load of one target by one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The load generator.
    pub engine: Engine,
    /// The requested load.
    pub asked: Asked,
    /// Exact length of the measured window.
    pub window_s: f64,
    /// Successful requests. Closed loop: those that ended inside the window. Open loop: those that were due inside it,
    /// however late they ended.
    pub ok: u64,
    /// Successful requests that ended inside the window, whenever they were due: throughput is this over `window_s`.
    pub ended_ok: u64,
    /// Successful requests that ended before the window; `None` if the engine does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_ok: Option<u64>,
    /// Open loop: requests that were due inside the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u64>,
    /// Failures, counted like `ok`; classes without any are omitted.
    pub failures: Vec<Failures>,
    /// Durations of successful requests only.
    pub latency: Latencies,
    /// Bytes transferred inside the window.
    pub transfer: Transfer,
    /// Connections of the whole run.
    pub connections: Connections,
    /// The response that all others were compared with.
    #[serde(default, rename = "answer", skip_serializing_if = "Option::is_none")]
    pub response: Option<FirstResponse>,
    /// Requests still in flight at the end.
    #[serde(default)]
    pub censored: Censored,
    /// Performance of the load generator itself; `None` for an external tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// The window as a time series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Connections held open beside the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldConnections>,
    /// Figures of each request of a mix; empty for a load of a single one. Requests that failed before one was chosen (a
    /// connect that failed, a request that was never sent) are in none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<LoadPart>,
    /// Figures of each phase of a scenario, in chronological order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<LoadPhase>,
    /// Figures of each session of a scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<LoadSession>,
    /// The machines that generated it, if there were several (`--agent`); the other figures are their sums.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<LoadMachine>,
    /// Whether it was ended early, by Ctrl-C: `window_s` is shorter than requested then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// One request of a mix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPart {
    /// Its method and path.
    pub name: String,
    /// How often it was sent in relation to the others.
    pub weight: u32,
    /// Successful requests, counted as those of the load.
    pub ok: u64,
    /// Failed requests.
    pub failed: u64,
    /// Total durations of successful requests.
    pub latency: Distribution,
}

/// One phase of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPhase {
    /// Its name.
    pub name: String,
    /// When it began, in seconds since the beginning of the window.
    pub begin_s: f64,
    /// Its length.
    pub duration_s: f64,
    /// Clients (closed loop) or sessions per second (open loop) at its beginning.
    pub from: f64,
    /// The same at its end.
    pub to: f64,
    /// Successful requests, counted as those of the load: by their end (closed loop) or when they were due (open loop).
    pub ok: u64,
    /// Failed requests.
    pub failed: u64,
    /// Total durations of successful requests.
    pub latency: Distribution,
}

/// One session of a scenario: what it requests is in the parts of the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadSession {
    /// Its name.
    pub name: String,
    /// How often it was begun in relation to the others.
    pub weight: u32,
    /// Sessions of which all steps succeeded, inside the window.
    pub completed: u64,
    /// Sessions that ended with a failed step.
    pub failed: u64,
    /// Sessions that the end of the window, or of their client, cut off.
    pub unfinished: u64,
    /// Durations of completed sessions, think times included.
    pub duration: Distribution,
}

/// One of several machines that generated a load together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadMachine {
    /// How it was named on the command line.
    pub name: String,
    /// Its CPU model.
    pub cpu_model: String,
    /// CPUs that its load generator could use.
    pub cpus: usize,
    /// Its share of the connections.
    pub connections: usize,
    /// Its share of the rate of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Its successful requests.
    pub ok: u64,
    /// Its failed requests.
    pub failed: u64,
    /// Length of its window.
    pub window_s: f64,
    /// How busy its busiest thread was, from 0 to 1.
    pub busiest: f64,
    /// How much its clock is ahead of the coordinator's, estimated from the shortest of several round trips. Clocks of
    /// machines that were not started together differ by any amount.
    pub clock_offset_s: f64,
    /// Largest possible error of that: half of the round trip. Its window began within this of the others.
    pub clock_bound_s: f64,
}

/// Share of the requested clients that may be missing before the load counts as one of fewer clients.
const MISSING_MAX: f64 = 0.02;

impl Load {
    /// How many clients took part, if more than 2 % of those requested are missing.
    pub fn clients_short(&self) -> Option<u64> {
        if self.asked.scenario.is_some() {
            // Its phases decide how many clients there are.
            return None;
        }
        let wanted = self.asked.connections as f64;
        // Fewer requests than clients need only as many clients.
        let clients = self
            .connections
            .clients
            .filter(|_| self.asked.requests_max.is_none())?;
        ((clients as f64) < wanted * (1.0 - MISSING_MAX)).then_some(clients)
    }

    /// The warm-up that took place, in words.
    pub fn warmup_words(&self) -> String {
        let requests = |count: u64| format!("{} requests", thousands(count as f64));
        let wanted = self.asked.warmup_requests.map(requests);
        let served = match (self.warmup_ok.map(requests), wanted) {
            (Some(served), Some(wanted)) => format!(" ({served}; {wanted} were to end it)"),
            (Some(served), None) => format!(" ({served})"),
            (None, _) => String::new(),
        };
        match self.asked.warmup_s {
            0.0 => "without warm-up".to_string(),
            seconds => format!("after {seconds:.1} s of warm-up{served}"),
        }
    }

    /// Failed requests of all classes.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|failures| failures.count).sum()
    }

    /// Failed requests of one class.
    pub fn failed_in(&self, class: FailureClass) -> u64 {
        let mut found = self.failures.iter();
        found
            .find(|failures| failures.class == class)
            .map_or(0, |failures| failures.count)
    }

    /// Share of requests that failed, from 0 to 1; 0 if there were none.
    pub fn failed_share(&self) -> f64 {
        let all = self.ok + self.failed();
        if all == 0 {
            return 0.0;
        }
        self.failed() as f64 / all as f64
    }

    /// Successful requests per second of the window.
    pub fn ok_per_s(&self) -> f64 {
        if self.window_s > 0.0 {
            self.ended_ok as f64 / self.window_s
        } else {
            0.0
        }
    }
}

/// The program that generated a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// `native`, or the name of an external tool.
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Names of fields here that it cannot measure: shown as "not measured", never as zero.
    #[serde(default)]
    pub not_measured: Vec<String>,
    /// Its output, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

/// How the clients send requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "loop")]
pub enum Mode {
    /// Closed loop: each client sends its next request when the response is complete.
    #[default]
    Closed,
    /// Open loop: requests are due at predetermined times, whatever the server does.
    Open {
        /// Requests per second, of all clients together.
        rate: f64,
        /// Whether the intervals are random (exponential) rather than equal.
        poisson: bool,
    },
}

/// The load that an engine was asked to generate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The target URL.
    pub url: String,
    /// The HTTP method; `websocket` and `sse` for those.
    pub method: String,
    /// Closed or open loop.
    pub mode: Mode,
    /// `http/1.1`, `https/1.1`, `h2c` or `h2`.
    pub protocol: String,
    /// Concurrent connections.
    pub connections: usize,
    /// Concurrent requests on each connection: HTTP/2 streams, or pipelined requests.
    pub depth: usize,
    /// Requests after which a connection is closed; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection_max: Option<u64>,
    /// Requests after which the load ended, if it was limited by number rather than by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_max: Option<u64>,
    /// Threads.
    pub threads: usize,
    /// Bytes of the body of each request.
    pub request_body_bytes: u64,
    /// Length of the window.
    pub duration_s: f64,
    /// Load before the window, which counts nowhere; 0 if there was none.
    pub warmup_s: f64,
    /// Successful requests with which the warm-up was to end; `None` if it was limited by time alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_requests: Option<u64>,
    /// Timeout of a request from when it was sent, and of the wait for a connection before that.
    pub timeout_s: f64,
    /// What is verified in every response, in words.
    pub verify: String,
    /// Name of the scenario; `None` for the same load all the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
}

/// Durations of successful requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// From the moment the request was wanted to its last byte: in the open loop from when it was due; in the closed
    /// loop from the first byte sent, or from the start of the connect if one was needed.
    pub total: Distribution,
    /// From the first byte sent to the last byte received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Distribution>,
    /// Open loop: from when the request was due to its first byte sent, of all requests that were sent: the wait in the
    /// generator for a free connection, and for a connect if one was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Distribution>,
    /// From the first byte sent to the first byte received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Distribution>,
    /// Connects that succeeded inside the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<Distribution>,
    /// TLS handshakes that succeeded inside the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Distribution>,
    /// From an open connection to the response to a WebSocket upgrade, or to the first event of a stream; of the whole
    /// run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<Distribution>,
}

/// Bytes transferred inside the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Received, including heads and framing, without TLS records.
    pub received_bytes: u64,
    /// Bodies of successful responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// Sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
}

/// Connections of the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Opened.
    pub opened: u64,
    /// Clients that had a connection before the window ended, each counted once; `None` if the engine does not report
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u64>,
    /// Attempts that failed.
    pub failed: u64,
    /// Closed by the server, cleanly or not.
    pub closed_by_server: u64,
    /// Requests with a response on all of them, warm-up included.
    #[serde(rename = "answered")]
    pub responses: u64,
    /// TLS version of the first connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<String>,
    /// Cipher suite of the first connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cipher: Option<String>,
    /// Protocol negotiated by ALPN on the first connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpn: Option<String>,
    /// Algorithm of the server's key on the first connection: `RSA`, `ECDSA` or `Ed25519`. Not over QUIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Connections that resumed a TLS session; absent if none did, and over QUIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<u64>,
}

/// The first valid response, with which all others were compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FirstResponse {
    /// The status code.
    pub status: u16,
    /// The head as received.
    pub head: String,
    /// Length of the head.
    pub head_bytes: u64,
    /// Length of the body.
    pub body_bytes: u64,
    /// SHA-256 of the body, in hexadecimal.
    pub body_sha256: String,
    /// `Content-Encoding`, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

/// Connections held open beside a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeldConnections {
    /// Idle connections requested: each gets one response and then stays open.
    pub idle: u64,
    /// Of those, still open when the load ended.
    pub idle_open: u64,
    /// Slow readers requested.
    pub slow: u64,
    /// Of those, still open when the load ended.
    pub slow_open: u64,
    /// Bytes that each slow reader reads per second.
    pub slow_bytes_per_s: u64,
    /// Bytes that all of them read.
    pub slow_received_bytes: u64,
    /// Responses they received in full.
    #[serde(rename = "slow_answers")]
    pub slow_responses: u64,
    /// How many were lost, or never opened, and why: pairs of class and count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<(FailureClass, u64)>,
    /// Resident memory of the server before they were opened; `None` if the server's processes are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_without_bytes: Option<u64>,
    /// Connections that were open when `rss_with_bytes` was read; `None` in older results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_before_load: Option<u64>,
    /// Resident memory of the server with them, before the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_with_bytes: Option<u64>,
}

impl HeldConnections {
    /// Counts one more lost connection.
    pub fn count(&mut self, class: FailureClass) {
        match self.lost.iter_mut().find(|(known, _)| *known == class) {
            Some((_, count)) => *count += 1,
            None => {
                self.lost.push((class, 1));
                self.lost.sort_by_key(|(class, _)| class.index());
            }
        }
    }

    /// Resident memory for each connection that was open when it was read; `None` if the server's processes are not known
    /// or memory has not grown.
    pub fn rss_each_bytes(&self) -> Option<f64> {
        let at_end = self.idle_open + self.slow_open;
        let open = self.open_before_load.unwrap_or(at_end);
        let more = self.rss_with_bytes?.checked_sub(self.rss_without_bytes?)?;
        (open > 0).then(|| more as f64 / open as f64)
    }
}

/// Requests not finished when the window ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Censored {
    /// Requests in flight at the end of the window.
    pub in_flight: u64,
    /// Age of the oldest of them.
    pub oldest_ns: u64,
    /// Those still without a response after the drain.
    #[serde(rename = "unanswered")]
    pub without_response: u64,
}

/// Performance of the load generator itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU seconds of its threads inside the window.
    pub cpu_s: f64,
    /// Share of the window in which its busiest thread was working (busy-waiting does not count), from 0 to 1.
    pub busiest: f64,
    /// Open loop: delay between the due time of a request and its sending although a connection was free. The
    /// generator's own fault.
    pub send_lag: Distribution,
    /// Duration of each round of its event loop: how long a response may have waited to be read.
    pub loop_lag: Distribution,
}

/// The window as a time series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Length of an interval in milliseconds.
    pub interval_ms: u64,
    /// The intervals in order; the first begins with the window.
    pub points: Vec<Point>,
}

/// Requests that ended in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Successful requests.
    pub ok: u64,
    /// Failed requests.
    pub failed: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Longest total duration of a successful request.
    pub max_ns: u64,
    /// Total durations of successful requests, coarsely: pairs of [`heat_step`] and count, without empty ones.
    #[serde(default)]
    pub heat: Vec<(u8, u64)>,
}

/// Steps of the coarse scale, from below 1 us to above 2 minutes.
pub const HEAT_STEPS: usize = 56;

/// Step of a duration on the coarse scale: two steps per doubling, from 1 us on.
pub fn heat_step(ns: u64) -> u8 {
    let us = ns / 1_000;
    if us == 0 {
        return 0;
    }
    let doublings = us.ilog2();
    // The second half of a doubling begins at the square root of two; 1.5 is close enough for colours.
    let upper = doublings > 0 && us & (1 << (doublings - 1)) != 0;
    let step = 1 + 2 * doublings as usize + usize::from(upper);
    step.min(HEAT_STEPS - 1) as u8
}

/// The shortest duration of a step of the coarse scale, in nanoseconds.
pub fn heat_step_ns(step: u8) -> u64 {
    if step == 0 {
        return 0;
    }
    let at = u64::from(step) - 1;
    let base = 1_000_u64 << (at / 2);
    if at % 2 == 1 { base + base / 2 } else { base }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_scale_rises() {
        for step in 1..HEAT_STEPS as u8 {
            let from = heat_step_ns(step);
            if step != 2 {
                assert_eq!(heat_step(from), step, "{from} ns");
            }
            assert!(heat_step_ns(step - 1) < from);
        }
        assert_eq!(heat_step(999), 0);
        assert_eq!(heat_step(u64::MAX), HEAT_STEPS as u8 - 1);
    }

    #[test]
    fn memory_is_divided_by_the_connections_that_were_open() {
        let held = HeldConnections {
            idle: 1_000,
            idle_open: 10,
            open_before_load: Some(500),
            rss_without_bytes: Some(1_000_000),
            rss_with_bytes: Some(6_000_000),
            ..HeldConnections::default()
        };
        // Not by those requested, nor by those that the load left open.
        assert_eq!(held.rss_each_bytes(), Some(10_000.0));
    }

    #[test]
    fn shares_of_nothing_are_zero() {
        assert_eq!(Load::default().failed_share(), 0.0);
        assert_eq!(Load::default().ok_per_s(), 0.0);
    }
}
