//! The load of an experiment file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use sluice_load::quantity::parse_duration;

/// The load.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadPart {
    /// Requests per second of an open loop; if absent, the loop is closed.
    pub rate: Option<f64>,
    /// Random intervals in an open loop.
    pub poisson: bool,
    /// The window.
    #[serde(deserialize_with = "duration")]
    pub duration: Duration,
    /// Warm-up before the window.
    #[serde(deserialize_with = "duration")]
    pub warmup: Duration,
    /// Timeout of a request.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    /// How long to wait for responses in flight at the end of the window; by default `timeout`.
    #[serde(deserialize_with = "some_duration")]
    pub drain: Option<Duration>,
    /// How long a client waits before it reconnects after a failed connection.
    #[serde(deserialize_with = "duration")]
    pub failure_pause: Duration,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// Concurrent requests on each connection.
    pub depth: usize,
    /// Requests after which a connection is closed.
    pub requests_per_connection: Option<u64>,
    /// Pause between the end of the load and the last memory reading; by default there is none.
    #[serde(deserialize_with = "duration")]
    pub rest: Duration,
    /// Idle connections held open beside the load.
    pub idle: usize,
    /// Slow readers held open beside the load.
    pub slow_readers: usize,
    /// Bytes that each slow reader reads per second.
    pub slow_rate: u64,
}

impl Default for LoadPart {
    fn default() -> Self {
        LoadPart {
            rate: None,
            poisson: false,
            duration: Duration::from_secs(10),
            warmup: Duration::from_secs(2),
            timeout: Duration::from_secs(10),
            drain: None,
            failure_pause: Duration::from_millis(10),
            headers: BTreeMap::new(),
            depth: 1,
            requests_per_connection: None,
            rest: Duration::ZERO,
            idle: 0,
            slow_readers: 0,
            slow_rate: 1024,
        }
    }
}

pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
}

pub(super) fn some_duration<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}
