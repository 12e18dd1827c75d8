//! Limits of the server, each with its rationale.

use std::time::Duration;

/// Non-matching routes of one list that an explanation shows individually; the rest is only counted. A dozen fits on a
/// screen, and a file may have ten thousand sites.
pub const PASSED_RECORDED_MAX: usize = 12;

/// Bytes of a text body that an explanation shows.
pub const BODY_SHOWN_BYTES_MAX: usize = 200;

/// Default timeout for the PROXY protocol header, which is the first thing a proxy sends; Caddy's default.
pub const PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(5);
