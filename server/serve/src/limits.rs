//! The limits of this package, each with the reason for its number.

/// The largest file that `{file.*}` inserts; it is meant for secrets and banners, and is read when used.
pub const FILE_TEXT_BYTES_MAX: u64 = 1024 * 1024;

/// Rounds of `invoke` and nested lists in one request: a named route may call itself.
pub const FRAMES_MAX: usize = 64;

/// Bytes of the answer to a health check that are looked at where nobody says how many; a page that says "ok" has a
/// few.
pub const HEALTH_ANSWER_BYTES_MAX: usize = 64 * 1024;
