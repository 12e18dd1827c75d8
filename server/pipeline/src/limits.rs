//! Limits of the walk of a request, and their rationale.

/// Maximum depth of nested lists and `invoke` calls in one request: a named route may invoke itself.
pub const FRAMES_MAX: usize = 64;

/// Maximum number of names that a wildcard of a `file` matcher examines. Larger folders are served, but not searched on
/// each request.
pub const GLOB_ENTRIES_MAX: usize = 10_000;
