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

/// How long a writer of a file store waits for another process; writing takes milliseconds.
pub const WRITE_LOCK_WAIT: Duration = Duration::from_secs(10);

/// The pause between two attempts to take the lock for writes.
pub const WRITE_LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A lock file that was not renewed for this long is stale, as in Caddy.
pub const FILE_LEASE_STALE: Duration = Duration::from_secs(10);

/// The pause between two attempts to create a lock file that exists, as in Caddy.
pub const FILE_LEASE_PAUSE: Duration = Duration::from_secs(1);

/// How much of a lock file is read: two times take a hundred bytes.
pub const LOCK_FILE_BYTES_MAX: u64 = 4096;

/// The pause between two looks for changed files: a change is seen within a second, and an idle process hardly wakes.
pub const FILE_WATCH_PAUSE: Duration = Duration::from_millis(500);

/// The pause is at least this many times as long as a look takes, so that a huge store costs a hundredth of a core.
pub const FILE_WATCH_SHARE: u32 = 100;

/// A file that was written within this time may be written again without another time of change: some file systems
/// keep seconds.
pub const FILE_TIME_GRAIN: Duration = Duration::from_secs(2);

/// Folders within one another below a file store: keys have six parts, and links may lead in a circle.
pub const FOLDER_DEPTH_MAX: usize = 32;

/// How long a read waits for an engine before the copy of this node stands in: a node starts within a second, and slow
/// engines respond within half of that.
pub const READ_TIMEOUT: Duration = Duration::from_millis(700);

/// How long an engine that was away is not asked again by reads that the copy can satisfy.
pub const AWAY_PAUSE: Duration = Duration::from_secs(5);

/// How many values are written together: etcd takes 128 operations in a transaction, and each value has two there.
pub const WRITES_MAX: usize = 64;

/// The default time limit of a call, and of each of its two attempts where a read falls back to a replica.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a store that refused the credentials is not asked again: engines lock accounts, and log each attempt.
pub const CREDENTIALS_PAUSE: Duration = Duration::from_secs(10);

/// The largest response of an engine, in bytes: a list page, or as many of the largest values as one call loads.
pub const RESPONSE_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// How many entries of a list are requested at once.
pub const LIST_PAGE: usize = 1000;

/// How many batches of changes wait for a caller of a watch; the next one waits at the engine.
pub const WATCH_BATCHES_MAX: usize = 16;

/// How long one request of a watch on etcd lasts before it is replaced: a connection that died without a sign is noticed
/// then, and a watch that was dropped ends. The gateway takes no second message on the request, such as one that asks
/// for a sign of life.
pub const WATCH_REQUEST_TIME: Duration = Duration::from_secs(10);

/// How many streams of a watch may end in a row before etcd has confirmed them, until the watch reports its end.
pub const WATCH_ATTEMPTS: u32 = 3;

/// The longest line of a watch, in bytes: etcd splits what exceeds its own limit of 1.5 MiB, and base64 adds a third.
pub const WATCH_LINE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// How often a watch on Redis or PostgreSQL probes its connection. One that died without a sign, as when a link or a
/// proxy on the way is lost, is noticed within this time and the time limit of a call.
pub const WATCH_PROBE: Duration = Duration::from_secs(5);

/// How often a watch on Redis looks for writes that nobody published: those of Caddy beside us.
pub const WATCH_POLL: Duration = Duration::from_secs(2);

/// How many keys one script of Redis reads: other clients wait meanwhile.
pub const SCRIPT_KEYS: usize = 200;

/// How many idle connections a store keeps: calls come from the few threads that maintain things.
pub const IDLE_CONNECTIONS_MAX: usize = 4;

/// The largest value that a compressed one may become, in bytes: that of caddy-storage-redis.
pub const INFLATED_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// How long a connection to PostgreSQL is idle before the system probes it, and the time between two probes: it reports
/// the loss of a connection that nothing else uses.
pub const KEEPALIVE: Duration = Duration::from_secs(5);

/// How many announced keys wait for a caller of a watch; further ones wait at the database.
pub const NOTIFICATIONS_MAX: usize = 1024;

/// How often a transaction is repeated that another one has undone.
pub const CONFLICT_RETRIES: u32 = 5;

/// How often a value is encrypted anew that others write at the same time: what they write has the newest key already, if
/// they have it.
pub const RESEAL_ATTEMPTS: u32 = 3;
