//! `[overload]` of an experiment: the capacity of its upstream, which is known by construction, and how `lab break` exceeds it.

use std::time::Duration;

use serde::Deserialize;

use super::load_part::duration;
use crate::limits::HERD_MAX;

/// Overloads of a known capacity.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverloadPart {
    /// Requests per second that the upstream can serve.
    pub capacity: f64,
    /// Offered loads, as multiples of the capacity.
    pub multiples: Vec<f64>,
    /// What admitted requests may take beyond twice the latency without load.
    #[serde(deserialize_with = "duration")]
    pub target_latency: Duration,
    /// Clients that come at once at the end, each with a connection and a request; 0 for none.
    #[serde(default)]
    pub herd: usize,
}

impl OverloadPart {
    /// Checks the values.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(self.capacity.is_finite() && self.capacity > 0.0) {
            return Err("`capacity` must be above 0".into());
        }
        if self
            .multiples
            .iter()
            .any(|one| !one.is_finite() || *one <= 1.0)
        {
            return Err("`multiples` must be above 1".into());
        }
        if self.herd > HERD_MAX {
            return Err(format!("`herd` must be at most {HERD_MAX}"));
        }
        Ok(())
    }
}
