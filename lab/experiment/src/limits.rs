//! Limits of experiments, each with its reason.

use std::time::Duration;

/// Bytes of another load program's output that are kept: their reports have some 2 KB, with a list of errors 100 KB.
pub const TOOL_OUTPUT_BYTES_MAX: u64 = 4 << 20;

/// How long another load program may take beyond warm-up, window and time limit: k6 needs 5 s to start and to sum up.
pub const TOOL_OVERTIME: Duration = Duration::from_secs(30);
