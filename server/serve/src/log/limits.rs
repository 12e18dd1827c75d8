//! The limits of logs, each with the reason for its number.

use std::time::Duration;

/// Bytes that may wait for one output: some 8,000 lines of access log, a tenth of a second at full load, which a
/// working disk catches up with.
pub const LOG_QUEUE_BYTES_MAX: usize = 4 << 20;

/// Bytes that may wait for all outputs of one thread: ten thousand sites with a file each must not add up.
pub const LOG_QUEUES_BYTES_MAX: usize = 64 << 20;

/// Memory that an output keeps for its next lines.
pub const LOG_SPARE_BYTES_MAX: usize = 256 << 10;

/// How long a writer waits for more lines before it writes: fewer writes under load, and nobody who watches a log
/// notices.
pub const LOG_GATHER: Duration = Duration::from_millis(10);

/// The longest a standard stream that takes nothing is waited for before its lines are given up.
pub const LOG_STALL_MAX: Duration = Duration::from_secs(2);

/// The pause between two notices about an output that cannot be written: a full disk fails for every line.
pub const LOG_NOTICE_PAUSE: Duration = Duration::from_secs(60);

/// How often a log file is checked for having been moved or removed by others.
pub const LOG_FILE_CHECK: Duration = Duration::from_secs(1);

/// A file grows to this size before it is put aside, unless the configuration says otherwise; Caddy's number.
pub const LOG_FILE_BYTES_DEFAULT: u64 = 100 << 20;

/// Files put aside that are kept, unless the configuration says otherwise; Caddy's number.
pub const LOG_FILES_KEPT_DEFAULT: usize = 10;

/// How long they are kept, unless the configuration says otherwise; Caddy's number.
pub const LOG_KEPT_DEFAULT: Duration = Duration::from_secs(90 * 24 * 3600);
