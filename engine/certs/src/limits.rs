//! The limits of this package, each with the reason for its number.

use std::time::Duration;

/// The largest certificate or key file that is read: a chain of a hundred certificates is far below it.
pub const PEM_BYTES_MAX: u64 = 1024 * 1024;

/// Certificates in one chain; real ones have three or four, and each costs every handshake bytes.
pub const CHAIN_CERTIFICATES_MAX: usize = 32;

/// How long to wait for another process that writes to the same storage; writing takes milliseconds.
pub const STORAGE_LOCK_WAIT: Duration = Duration::from_secs(10);

/// The pause between two looks at a storage lock that is taken.
pub const STORAGE_LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The lifetime of a root, as Caddy's: browsers and systems have to be told about each new one by hand.
pub const ROOT_LIFETIME: Duration = Duration::from_secs(3600 * 24 * 30 * 12 * 10);

/// The lifetime of an intermediate, as Caddy's.
pub const INTERMEDIATE_LIFETIME: Duration = Duration::from_secs(3600 * 24 * 7);

/// The lifetime of a certificate of the internal issuer, as Caddy's.
pub const LEAF_LIFETIME: Duration = Duration::from_secs(3600 * 12);

/// The share of a lifetime that is left when a renewal starts.
pub const RENEWAL_SHARE: f64 = 1.0 / 3.0;

/// New certificates are valid from this much before they were made, for clients whose clock is late.
pub const BACKDATE: Duration = Duration::from_secs(60);

/// The pause after the first failed renewal; each further failure doubles it.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_secs(60);

/// The longest pause between two attempts: a third of a leaf's remaining time still holds four of them.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The share of a lifetime over which renewals are spread, so that certificates made together are not renewed
/// together.
pub const JITTER_SHARE: f64 = 0.05;

/// The longest the maintenance sleeps: the clock of the machine may be set meanwhile.
pub const MAINTENANCE_PAUSE_MAX: Duration = Duration::from_secs(600);

/// Notices kept until somebody takes them; beyond it the oldest is dropped.
pub const NOTICES_MAX: usize = 100;
