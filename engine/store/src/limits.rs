//! The limits of stores, each with its reason.

use std::time::Duration;

/// The longest key, in bytes: a path that every file system takes, with room for a prefix.
pub const KEY_BYTES_MAX: usize = 1024;

/// The largest value, in bytes: below the 1.5 MiB that etcd takes in one request, encoded in base64.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;

/// How many entries one list returns: ten times the certificates that one server has been tested with.
pub const ENTRIES_MAX: usize = 100_000;

/// How long a lease lasts without its holder: long enough for a pause of the process, short enough that another node
/// takes over before a client of the CA gives up.
pub const LEASE_TTL: Duration = Duration::from_secs(15);

/// How often a holder renews its lease: three attempts before it ends.
pub const LEASE_RENEWAL: Duration = Duration::from_secs(5);

/// The pause between two attempts to take a lease that somebody holds.
pub const LEASE_PAUSE: Duration = Duration::from_millis(250);
