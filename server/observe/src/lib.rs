//! What the server reports of itself: access and error logs, metrics, traces, panics. What a request is and which of its
//! values are reported is left to `sluice-serve`.

pub mod events;
pub mod fleet;
pub mod limits;
pub mod log;
pub mod metrics;
pub mod panics;
pub mod process_values;
mod quantiles;
pub mod random;
pub mod recent_failures;
mod recorder;
pub mod site_counts;
pub mod sources;
pub mod status;
pub mod tracing;

pub use recorder::{Recorder, Totals};

#[cfg(test)]
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../tests/support/wait.rs"]
mod wait;
