//! Limits of experiments, each with its reason.

use std::time::Duration;

/// Captured output of an external load generator: a report has about 2 KB, with a list of errors 100 KB.
pub const TOOL_OUTPUT_BYTES_MAX: u64 = 4 << 20;

/// How long an external load generator may take beyond warm-up, window and timeout: k6 needs 5 s to start and to
/// summarize.
pub const TOOL_OVERTIME: Duration = Duration::from_secs(30);
