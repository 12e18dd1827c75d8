//! Limits of experiments, each with its reason.

use std::time::Duration;

/// Captured output of an external load generator: a report has about 2 KB, with a list of errors 100 KB.
pub const TOOL_OUTPUT_BYTES_MAX: u64 = 4 << 20;

/// How long an external load generator may take beyond warm-up, window and timeout: k6 needs 5 s to start and to
/// summarize.
pub const TOOL_OVERTIME: Duration = Duration::from_secs(30);

/// Mistakes of a scenario that are reported at once; the rest is seen after these are mended.
pub const MISTAKES_MAX: usize = 20;

/// Size of a scenario, HAR or OpenAPI file. A HAR with the bodies of responses has tens of megabytes.
pub const INPUT_BYTES_MAX: u64 = 256 << 20;

/// Clients of a scenario in an open loop, unless the file says how many.
pub const OPEN_CLIENTS: usize = 1_000;

/// Longest scenario.
pub const SCENARIO_MAX: Duration = Duration::from_secs(24 * 3600);
