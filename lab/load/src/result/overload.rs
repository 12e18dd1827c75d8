//! Behaviour of a server in front of an upstream whose capacity is known: `lab break` of an experiment with `[overload]`.

use serde::{Deserialize, Serialize};

/// One server beyond the capacity of its upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overload {
    /// The cell: its axes without names.
    pub cell: String,
    /// Requests per second that the upstream can serve, by construction.
    pub capacity_per_s: f64,
    /// 99th percentile of the latency without overload.
    pub unloaded_p99_ns: f64,
    /// The latency that the 99th percentile of admitted requests may have in overload.
    pub p99_max_ns: f64,
    /// The overloads, in chronological order.
    pub steps: Vec<OverloadStep>,
}

/// One overload and the time after it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverloadStep {
    /// The offered load, such as `3 x`.
    pub load: String,
    /// Successful responses during the overload, as a share of what the upstream can serve in that time; `None` for clients
    /// that come at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<f64>,
    /// 99th percentile of the latency of admitted requests; those without a response in time count with their timeout. `None`
    /// if none was admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<f64>,
    /// Successful requests.
    pub ok: u64,
    /// Requests refused with a status, such as 503.
    pub refused: u64,
    /// Requests without a response in time.
    pub late: u64,
    /// Requests whose connection failed, or whose response was wrong.
    pub broken: u64,
    /// From the end of the overload until all requests succeed as fast as before; `None` if that was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// What falls short, in words; empty if the server kept all bounds.
    pub faults: Vec<String>,
    /// Whether other programs used the CPUs meanwhile: an upstream that does not get its CPU serves less than its capacity.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
}

impl OverloadStep {
    /// The faults in words, or `ok`.
    pub fn verdict(&self) -> String {
        let words = match self.faults.is_empty() {
            true => "ok".to_string(),
            false => self.faults.join(", "),
        };
        match self.disturbed {
            true => format!("{words} (other programs interfered)"),
            false => words,
        }
    }
}
