//! Limits of the walk of a request, and their rationale.

/// A request with its response and all that handlers note about it. Each request in flight has one, and so does each pooled
/// one: an allocation of 768 bytes, beside the texts of its heads.
pub const EXCHANGE_BYTES_MAX: usize = 768;

/// Maximum depth of nested lists and `invoke` calls in one request: a named route may invoke itself.
pub const FRAMES_MAX: usize = 64;

/// Maximum number of names that a wildcard of a `file` matcher examines. Larger folders are served, but not searched on
/// each request.
pub const GLOB_ENTRIES_MAX: usize = 10_000;

/// Maximum length of a request ID from a trusted proxy: longer than those of load balancers in use (those of AWS have 80
/// characters), short enough for each log line and error page.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
