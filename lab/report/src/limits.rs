//! Limits of reports, comparisons and gates, each with its reason.

/// Bytes of an HTML report, unless everything is asked for: drawings fill what tables and texts leave. Mails, code reviews and
/// repositories take a page of 200 KB without complaint.
pub const PAGE_BYTES_AIM: usize = 197_000;

/// Bytes that drawings may have in any case, also on a page whose tables alone are large.
pub const DRAWING_BYTES_MIN: usize = 50_000;

/// Different lines that one list of a cell in a report shows: what a server says 500 times it says as well once.
pub const REPORT_LIST_LINES_MAX: usize = 8;

/// Chance of a false alarm of a gate over all of its cells together.
pub const GATE_LEVEL: f64 = 0.05;

/// Cells that a message lists when a name fits none or several.
pub const CHOICES_MAX: usize = 20;
