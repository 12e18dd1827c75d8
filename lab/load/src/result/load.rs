//! What the clients saw: answers, failures, durations, and how well the generator itself kept up.

use serde::{Deserialize, Serialize};

use super::{Distribution, FailureClass, Failures};

/// One load of one target by one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// What made the load.
    pub engine: Engine,
    /// What it was told to do.
    pub asked: Asked,
    /// Length of the measured window, exactly.
    pub window_s: f64,
    /// Good answers. Closed loop: those that ended inside the window. Open loop: those that were due inside it, however
    /// late they came.
    pub ok: u64,
    /// Good answers that ended inside the window, whenever they were due: throughput is this over `window_s`.
    pub ended_ok: u64,
    /// Open loop: requests that were due inside the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u64>,
    /// What failed, counted like `ok`; classes without any are left out.
    pub failures: Vec<Failures>,
    /// Durations of good answers only.
    pub latency: Latencies,
    /// Bytes inside the window.
    pub transfer: Transfer,
    /// Connections, over the whole run.
    pub connections: Connections,
    /// The answer that all others were compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answered>,
    /// What had not ended.
    #[serde(default)]
    pub censored: Censored,
    /// How the generator itself did; `None` for a foreign tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// The window in slices of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Connections that were held beside the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldConnections>,
}

/// Share of the clients asked for that may be missing before a load is one of fewer clients.
const MISSING_MAX: f64 = 0.02;

impl Load {
    /// How many clients took part, where they are fewer than were asked for by more than a fiftieth.
    pub fn clients_short(&self) -> Option<u64> {
        let wanted = self.asked.connections as f64;
        // Whoever asks for fewer requests than clients needs fewer.
        let clients = self
            .connections
            .clients
            .filter(|_| self.asked.requests_max.is_none())?;
        ((clients as f64) < wanted * (1.0 - MISSING_MAX)).then_some(clients)
    }

    /// Requests that failed, in all classes.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|failures| failures.count).sum()
    }

    /// Requests that failed in one class.
    pub fn failed_in(&self, class: FailureClass) -> u64 {
        let mut found = self.failures.iter();
        found
            .find(|failures| failures.class == class)
            .map_or(0, |failures| failures.count)
    }

    /// Share of requests that failed, from 0 to 1; 0 if there were none at all.
    pub fn failed_share(&self) -> f64 {
        let all = self.ok + self.failed();
        if all == 0 {
            return 0.0;
        }
        self.failed() as f64 / all as f64
    }

    /// Good answers per second of the window.
    pub fn ok_per_s(&self) -> f64 {
        if self.window_s > 0.0 {
            self.ended_ok as f64 / self.window_s
        } else {
            0.0
        }
    }
}

/// The program that made a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// `native`, or the name of a foreign tool.
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it cannot measure, by the names of fields here: shown as "not measured", never as zero.
    #[serde(default)]
    pub not_measured: Vec<String>,
    /// What it printed, word by word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

/// How the clients behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "loop")]
pub enum Mode {
    /// Each client asks again when it has its answer.
    #[default]
    Closed,
    /// Requests are due at times fixed beforehand, whatever the server does.
    Open {
        /// Requests per second, of all clients together.
        rate: f64,
        /// Whether the gaps between them are random (exponential) rather than equal.
        poisson: bool,
    },
}

/// What an engine was told to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The target.
    pub url: String,
    /// `GET`, `POST` …; `websocket` and `sse` for those.
    pub method: String,
    /// Closed or open loop.
    pub mode: Mode,
    /// `http/1.1`, `https/1.1`, `h2c` or `h2`.
    pub protocol: String,
    /// Connections at a time.
    pub connections: usize,
    /// Requests under way at a time on each connection: streams of HTTP/2, or pipelined ones.
    pub depth: usize,
    /// Requests after which a connection is closed; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection_max: Option<u64>,
    /// Requests after which the load ended, where a number rather than a time ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_max: Option<u64>,
    /// Threads.
    pub threads: usize,
    /// Bytes of the body of each request.
    pub request_body_bytes: u64,
    /// Length of the window.
    pub duration_s: f64,
    /// Load before the window, which counts nowhere.
    pub warmup_s: f64,
    /// Time limit of a request.
    pub timeout_s: f64,
    /// What is checked of every answer, in words.
    pub verify: String,
}

/// Durations of good answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// From the moment the request was wanted to its last byte: in the open loop from when it was due; in the closed
    /// loop from the first byte sent, or from the beginning of the connect where one had to be made for it.
    pub total: Distribution,
    /// From the first byte sent to the last byte received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Distribution>,
    /// From the first byte sent to the first byte received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Distribution>,
    /// Connects that succeeded inside the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<Distribution>,
    /// TLS handshakes that succeeded inside the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Distribution>,
    /// From an open connection to the answer to a WebSocket upgrade, or to the first event of a stream; of the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<Distribution>,
}

/// Bytes inside the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Received, heads and framing included, TLS records not.
    pub received_bytes: u64,
    /// Bodies of good answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// Sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
}

/// Connections, from the first to the last moment of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Opened.
    pub opened: u64,
    /// Clients that had a connection before the window ended, each counted once; `None` where the engine does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u64>,
    /// Attempts that failed.
    pub failed: u64,
    /// Closed by the server, in order or not.
    pub closed_by_server: u64,
    /// Requests answered on all of them, warm-up included.
    pub answered: u64,
    /// Version of TLS, of the first connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<String>,
    /// Cipher suite, of the first connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cipher: Option<String>,
    /// What ALPN agreed on, of the first connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpn: Option<String>,
}

/// The first right answer, with which all others were compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// Status.
    pub status: u16,
    /// The head as it came.
    pub head: String,
    /// Bytes of the head.
    pub head_bytes: u64,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// SHA-256 of the body, in hexadecimal.
    pub body_sha256: String,
    /// Content-Encoding, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

/// Connections that were held beside a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeldConnections {
    /// Idle connections that were wanted: one answer each, then nothing.
    pub idle: u64,
    /// Of those, still open when the load ended.
    pub idle_open: u64,
    /// Slow readers that were wanted.
    pub slow: u64,
    /// Of those, still open when the load ended.
    pub slow_open: u64,
    /// Bytes that each slow reader takes in a second.
    pub slow_bytes_per_s: u64,
    /// Bytes that all of them took.
    pub slow_received_bytes: u64,
    /// Answers that they had in full.
    pub slow_answers: u64,
    /// How many were lost, or never opened, in which way: pairs of class and count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<(FailureClass, u64)>,
    /// Resident memory of the server before they were opened; `None` if the server is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_without_bytes: Option<u64>,
    /// Resident memory of the server with them, before the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_with_bytes: Option<u64>,
}

impl HeldConnections {
    /// One more is lost.
    pub fn count(&mut self, class: FailureClass) {
        match self.lost.iter_mut().find(|(known, _)| *known == class) {
            Some((_, count)) => *count += 1,
            None => {
                self.lost.push((class, 1));
                self.lost.sort_by_key(|(class, _)| class.index());
            }
        }
    }

    /// Resident memory for each connection; `None` if the server is not known or has no more than before.
    pub fn rss_each_bytes(&self) -> Option<f64> {
        let open = self.idle_open + self.slow_open;
        let more = self.rss_with_bytes?.checked_sub(self.rss_without_bytes?)?;
        (open > 0).then(|| more as f64 / open as f64)
    }
}

/// What had not ended when the window did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Censored {
    /// Requests under way at the end of the window.
    pub in_flight: u64,
    /// Age of the oldest of them.
    pub oldest_ns: u64,
    /// Of those, without an answer even after the drain.
    pub unanswered: u64,
}

/// How the generator itself did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU seconds of its threads inside the window.
    pub cpu_s: f64,
    /// Share of the window that its busiest thread was at work (waiting by spinning is no work), from 0 to 1.
    pub busiest: f64,
    /// Open loop: how much later than due a request left although a connection was free. The generator's own fault.
    pub send_lag: Distribution,
    /// How long each round of its event loop took: what an answer may have waited to be seen.
    pub loop_lag: Distribution,
}

/// The window in slices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Length of a slice in milliseconds.
    pub interval_ms: u64,
    /// The slices in order; the first begins with the window.
    pub points: Vec<Point>,
}

/// What ended in one slice of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Good answers.
    pub ok: u64,
    /// Failures.
    pub failed: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Longest total of a good answer.
    pub max_ns: u64,
    /// Totals of good answers, coarsely: pairs of [`heat_step`] and count, empty ones left out.
    #[serde(default)]
    pub heat: Vec<(u8, u64)>,
}

/// Steps of the coarse scale, from below 1 us to beyond 2 minutes.
pub const HEAT_STEPS: usize = 56;

/// Where a duration lies on the coarse scale: two steps for each doubling, from 1 us on.
pub fn heat_step(ns: u64) -> u8 {
    let us = ns / 1_000;
    if us == 0 {
        return 0;
    }
    let doublings = us.ilog2();
    // The second half of a doubling begins at its square root of two; 1.5 is near enough for colours.
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
    fn shares_of_nothing_are_zero() {
        assert_eq!(Load::default().failed_share(), 0.0);
        assert_eq!(Load::default().ok_per_s(), 0.0);
    }
}
