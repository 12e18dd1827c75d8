//! Limits of audits and statistics, each with its reason.

/// Minimum number of blocks for an interval. With five the median's interval is smallest to largest and covers 93.75 %;
/// with fewer nothing near 95 % exists.
pub const BLOCKS_MIN: usize = 5;

/// Confidence of every printed interval.
pub const CONFIDENCE: f64 = 0.95;

/// Up to this many blocks all resamples are enumerated: 6,435 kinds for eight, 92,378 for ten.
pub const BLOCKS_EXACT_MAX: usize = 8;

/// Number of random resamples for more blocks: the ends of an interval then move by less than a hundredth of its width.
pub const RESAMPLES: usize = 10_000;

/// Up to this many blocks all choices of signs are enumerated: 65,536.
pub const FLIPS_EXACT_BLOCKS_MAX: usize = 16;

/// Number of random choices of signs for more blocks.
pub const FLIPS: u64 = 50_000;

/// Responses that must lie beyond a percentile for it to be printed: with fewer it depends on single requests.
pub const TAIL_RESPONSES_MIN: u64 = 10;

/// Differences up to this share do not matter unless the command line says otherwise: most metrics vary by more from
/// day to day.
pub const MARGIN: f64 = 0.03;

/// Lines of arithmetic per finding. A table of 72 rows would otherwise hide the next finding.
pub const FINDING_LINES_MAX: usize = 12;

/// Maximum size of a report. The largest results of a long run have about 40 MB.
pub const REPORT_BYTES_MAX: u64 = 256 << 20;

/// Maximum number of single requests in a list: 100 MB of memory, and ten minutes of hey at its fastest.
pub const REQUEST_LINES_MAX: usize = 2_000_000;

/// Maximum nesting of parentheses in a statement: nobody writes three, and each uses stack.
pub const CLAIM_DEPTH_MAX: usize = 32;

/// Width of plain text: a common terminal with an indent.
pub const TEXT_COLUMNS: usize = 100;
