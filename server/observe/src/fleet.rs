//! A fleet as the status of one of its nodes shows it. `sluice-serve` reads it.

use serde::{Deserialize, Serialize};

use crate::limits::NODES_SHOWN_MAX;

/// A fleet, as a node of it has read it. Times are seconds since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetView {
    /// When it was read.
    pub at: f64,
    /// The revision of the configuration, if there is one.
    pub revision: Option<String>,
    /// When that was written.
    pub changed: Option<f64>,
    /// The revision of the canary, if there is one.
    pub canary: Option<String>,
    /// Whether somebody pushes.
    pub pushing: bool,
    /// The number of its nodes.
    pub nodes_total: usize,
    /// Those that are shown; the ones that are not in sync come first.
    pub nodes: Vec<FleetNode>,
}

/// A node of a fleet, by its last report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetNode {
    /// Its name.
    pub node: String,
    /// Its state: `in_sync`, `behind`, `refuses`, `starting` or `gone`.
    pub state: String,
    /// The version of sluice.
    pub version: String,
    /// The revision that it runs.
    pub running: Option<String>,
    /// For how many seconds it has not run what it is to run.
    pub lag: Option<f64>,
    /// When it reported.
    pub reported: Option<f64>,
    /// How many seconds the store took to respond to it.
    pub store_seconds: Option<f64>,
    /// The share of its requests since the last change, of the last minute, that failed.
    pub error_share: Option<f64>,
    /// Its certificates.
    pub certificates: u64,
    /// Those that could not be obtained or renewed at the last attempt.
    pub certificates_failing: u64,
    /// When the first of them expires.
    pub expires: Option<f64>,
    /// The name of that certificate.
    pub expires_name: String,
    /// The locks that it holds.
    pub locks: Vec<String>,
    /// Why it refuses the configuration, if it does.
    pub refusal: Option<String>,
}

impl FleetView {
    /// Sets the nodes, of which those in sync come last and only some may be shown.
    pub fn with_nodes(mut self, mut nodes: Vec<FleetNode>) -> FleetView {
        nodes.sort_by(|a, b| {
            let is_in_sync = |node: &FleetNode| node.state == "in_sync";
            (is_in_sync(a), &a.node).cmp(&(is_in_sync(b), &b.node))
        });
        self.nodes_total = nodes.len();
        nodes.truncate(NODES_SHOWN_MAX);
        self.nodes = nodes;
        self
    }
}
