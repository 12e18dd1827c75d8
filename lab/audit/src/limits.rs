//! Limits of audits and statistics, each with its reason.

/// Blocks that an interval needs at least. With five the median's interval is smallest to largest and covers 93.75 %; with
/// fewer nothing near 95 % exists.
pub const BLOCKS_MIN: usize = 5;

/// Confidence of every interval that is printed.
pub const CONFIDENCE: f64 = 0.95;

/// Blocks up to which all resamples are counted: 6,435 kinds for eight, 92,378 for ten.
pub const BLOCKS_EXACT_MAX: usize = 8;

/// Resamples that are drawn for more blocks: the ends of an interval then move by less than a hundredth of its width.
pub const RESAMPLES: usize = 10_000;

/// Blocks up to which all choices of signs are counted: 65,536.
pub const FLIPS_EXACT_BLOCKS_MAX: usize = 16;

/// Choices of signs that are drawn for more blocks.
pub const FLIPS: u64 = 50_000;

/// Answers that must lie beyond a percentile for it to be printed: what rests on fewer is the luck of single requests.
pub const TAIL_ANSWERS_MIN: u64 = 10;

/// Differences up to this share do not matter unless the command line says otherwise: most measured ones move by more from
/// day to day.
pub const MARGIN: f64 = 0.03;

/// Lines of arithmetic below one finding. A table of 72 rows would otherwise hide the next finding.
pub const FINDING_LINES_MAX: usize = 12;

/// Bytes of a report that is read. The largest results of a long run have some 40 MB.
pub const REPORT_BYTES_MAX: u64 = 256 << 20;

/// Single requests of a list, two million: 100 MB of memory, and ten minutes of hey at its best.
pub const REQUEST_LINES_MAX: usize = 2_000_000;

/// Brackets within each other in a statement: nobody writes three, and each costs stack.
pub const CLAIM_DEPTH_MAX: usize = 32;

/// Columns of plain text: what a terminal of common width shows beside an indent.
pub const TEXT_COLUMNS: usize = 100;
