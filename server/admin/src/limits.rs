//! Limits of the admin API, each with its rationale.

use std::time::Duration;

/// Largest accepted configuration, in bytes: a hundred thousand sites fit, and several copies fit in memory.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// Largest body of a request for an action of the dashboard, in bytes. The key of a cached response is its longest part: it
/// contains a request target, which has at most 8 KiB, and escapes of JSON.
pub const ACTION_BYTES_MAX: usize = 16 << 10;

/// How long an action of the dashboard ejects an upstream if it does not say so, in seconds: long enough to look at it.
pub const EJECT_SECONDS: u32 = 30;

/// The longest ejection, in seconds. What lasts longer is drained, or removed from the configuration.
pub const EJECT_SECONDS_MAX: u32 = 3600;

/// Orders that may be queued for the process; further requests get an error and can be retried.
pub const ORDERS_MAX: usize = 16;

/// Maximum number of connections: only a few tools on this machine use the API.
pub const CONNECTIONS_MAX: usize = 64;

/// Timeout for reading a request head, and for a pause while reading a body or writing a response.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Drain timeout for responses in progress when the admin API closes.
pub const GRACE: Duration = Duration::from_secs(2);

/// Clients that may read the event stream at the same time: a few people look at the dashboard. The rest of
/// [`CONNECTIONS_MAX`] stays free for the API.
pub const SUBSCRIBERS_MAX: usize = 16;

/// How long a client of the event stream may take nothing before it is dropped: it has missed several snapshots.
pub const EVENTS_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause between two samples of the counters.
pub const SAMPLE_PAUSE: Duration = Duration::from_secs(1);
