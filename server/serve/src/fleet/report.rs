//! What a node reports about itself.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sluice_observe::sources::CertificateStanding;

use super::revision::Revision;
use super::traffic::Window;
use crate::limits::REPORTED_LOCKS_MAX;

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
    /// Its certificates.
    pub certificates: CertificateSummary,
    /// The locks that it holds in the storages of certificates.
    pub locks: Vec<String>,
    /// How many seconds the store took to respond when the node last read its configuration.
    pub store_seconds: Option<f64>,
}

/// The certificates of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateSummary {
    /// How many it has, or is to have.
    pub total: u64,
    /// Those that could not be obtained or renewed at the last attempt.
    pub failing: u64,
    /// When the first of them expires.
    pub expires: Option<f64>,
    /// The first name of that certificate.
    pub expires_name: String,
}

/// What a report says of certificates and locks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The certificates.
    pub certificates: CertificateSummary,
    /// The locks that the node holds.
    pub locks: Vec<String>,
}

impl Facts {
    /// The facts about these certificates and locks.
    pub fn of(certificates: &[CertificateStanding], mut locks: Vec<String>) -> Facts {
        let first = certificates
            .iter()
            .filter_map(|one| Some((one.expires?, one)));
        let first = first.min_by_key(|(expires, _)| *expires);
        let name = first.and_then(|(_, one)| one.names.first());
        locks.truncate(REPORTED_LOCKS_MAX);
        Facts {
            certificates: CertificateSummary {
                total: certificates.len() as u64,
                failing: certificates
                    .iter()
                    .filter(|one| one.last_failure.is_some())
                    .count() as u64,
                expires: first.map(|(expires, _)| seconds(expires)),
                expires_name: name.cloned().unwrap_or_default(),
            },
            locks,
        }
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_certificate_that_expires_first_is_named() {
        let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
        let one = |name: &str, expires, failure: Option<&str>| CertificateStanding {
            names: vec![name.to_owned()],
            expires,
            last_failure: failure.map(str::to_owned),
            ..CertificateStanding::default()
        };
        let all = [
            one("late.test", at(200), None),
            one("soon.test", at(100), None),
            one("none.test", None, Some("refused")),
        ];
        let locks = (0..100).map(|number| number.to_string()).collect();
        let facts = Facts::of(&all, locks);
        let expected = CertificateSummary {
            total: 3,
            failing: 1,
            expires: Some(100.0),
            expires_name: "soon.test".to_owned(),
        };
        assert_eq!(facts.certificates, expected);
        assert_eq!(facts.locks.len(), REPORTED_LOCKS_MAX);
        assert_eq!(Facts::of(&[], Vec::new()), Facts::default());
    }
}
