//! Limits of the admin API, each with its rationale.

use std::time::Duration;

/// Largest accepted configuration, in bytes: a hundred thousand sites fit, and several copies fit in memory.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// Orders that may be queued for the process; further requests get an error and can be retried.
pub const ORDERS_MAX: usize = 16;

/// Maximum number of connections: only a few tools on this machine use the API.
pub const CONNECTIONS_MAX: usize = 64;

/// Timeout for reading a request head, and for a pause while reading a body or writing a response.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Drain timeout for responses in progress when the admin API closes.
pub const GRACE: Duration = Duration::from_secs(2);
