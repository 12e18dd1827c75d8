//! The limits of this package, each with the reason for its number.

use std::time::Duration;

/// Timeout of one request to a CA or a provider.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a response; certificate chains are a few KiB.
pub const RESPONSE_BYTES_MAX: u64 = 1024 * 1024;

/// The pause between two checks for a DNS record.
pub const DNS_LOOK_PAUSE: Duration = Duration::from_secs(2);

/// Default timeout for a DNS record to become visible, as in Caddy.
pub const DNS_LOOK_TIMEOUT: Duration = Duration::from_secs(120);

/// Timeout of a command that sets a DNS record: most wait for their provider.
pub const EXEC_TIMEOUT: Duration = Duration::from_secs(120);

/// Interval of checking whether such a command has ended: it takes seconds, and nobody else waits for it.
pub const EXEC_PAUSE: Duration = Duration::from_millis(50);

/// Maximum size of such a command's error output in messages; the rest is discarded.
pub const EXEC_OUTPUT_BYTES_MAX: u64 = 16 * 1024;

/// Maximum size of a service account file; they have a few KiB.
pub const ACCOUNT_BYTES_MAX: u64 = 1024 * 1024;

/// Timeout of a name server for one step of a dynamic update; it writes to disk before it replies.
pub const DNS_UPDATE_TIMEOUT: Duration = Duration::from_secs(10);

/// Permitted difference between the clocks of a name server and ours, in seconds, as RFC 8945, section 10 recommends.
pub const TSIG_FUDGE_SECONDS: u16 = 300;
