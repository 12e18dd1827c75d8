//! Limits of reports, comparisons and gates, each with its reason.

/// Target size of an HTML report in bytes, unless the full one is requested: drawings fill what tables and texts leave.
/// A page of study 000 with all of its charts needs 400 KB, which mail, code review and repositories accept.
pub const PAGE_BYTES_AIM: usize = 395_000;

/// Bytes that drawings may always have, even on a page with large tables.
pub const DRAWING_BYTES_MIN: usize = 50_000;

/// Distinct lines in one list of a cell: what a server prints 500 times is just as clear once.
pub const REPORT_LIST_LINES_MAX: usize = 8;

/// Probability of a false alarm of a gate over all of its cells together.
pub const GATE_LEVEL: f64 = 0.05;

/// Cells that a message lists if a name matches none or several.
pub const CHOICES_MAX: usize = 20;
