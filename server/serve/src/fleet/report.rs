//! What a node reports about itself.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::revision::Revision;
use super::traffic::Window;

/// The report of a node. Times are seconds since the Unix epoch, by the node's clock. Members may be added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeReport {
    /// The name of the node.
    pub node: String,
    /// Identifies the process: another one with the same name has another.
    pub instance: String,
    /// The version of sluice.
    pub version: String,
    /// When it was written.
    pub at: f64,
    /// What the node runs; `null` before it has taken a configuration from this place.
    pub running: Option<Ran>,
    /// The text that it refused, until it has taken another or the same.
    pub refused: Option<Refusal>,
    /// How many texts it has tried since it started.
    pub attempts: u64,
    /// Requests in the minute before the last change.
    pub before: Window,
    /// Requests since the last change, of the last minute.
    pub recent: Window,
}

/// The configuration that a node runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Its revision.
    pub revision: Revision,
    /// When it took effect.
    pub at: f64,
}

/// A configuration that a node refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// Its revision.
    pub revision: Revision,
    /// When.
    pub at: f64,
    /// The diagnostics.
    pub error: String,
}

impl NodeReport {
    /// Reads a report; `None` if it is not one.
    pub fn read(bytes: &[u8]) -> Option<NodeReport> {
        serde_json::from_slice(bytes).ok()
    }

    /// As it is stored.
    pub fn to_json(&self) -> Vec<u8> {
        // Neither maps nor failing serializers occur in it.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Whether it runs this revision.
    pub fn runs(&self, revision: &Revision) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| running.revision == *revision)
    }
}

/// A time as a report has it.
pub(super) fn seconds(at: SystemTime) -> f64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as f64 / 1000.0
}
