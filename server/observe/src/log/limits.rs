//! Limits of logging, each with its rationale.

use std::time::Duration;

/// Bytes that may be queued for one output: some 8,000 access log lines, a tenth of a second at full load, which a
/// working disk can catch up with.
pub const LOG_QUEUE_BYTES_MAX: usize = 4 << 20;

/// Bytes that may be queued for all outputs of one thread: bounds the total for ten thousand sites with a file each.
pub const LOG_QUEUES_BYTES_MAX: usize = 64 << 20;

/// Bytes that all outputs of one thread may hold back. Beyond that all are written, which leaves half of the memory for
/// lines that arrive meanwhile.
pub const LOG_HELD_BYTES_MAX: usize = LOG_QUEUES_BYTES_MAX / 2;

/// Bytes that one output may hold back, whatever the configuration: half of its queue, for the same reason.
pub const LOG_HOLD_BYTES_MAX: usize = LOG_QUEUE_BYTES_MAX / 2;

/// Lines that may be queued for files with variable paths: as many bytes as for one output, at a few hundred bytes
/// each.
pub const LOG_NAMED_LINES_MAX: usize = 16 << 10;

/// Files that may stay open for one directive, whatever the configuration: clients can choose host names, and
/// descriptors are needed for connections.
pub const LOG_NAMED_OPEN_MAX: usize = 1024;

/// Capacity that an output's buffer retains.
pub const LOG_SPARE_BYTES_MAX: usize = 256 << 10;

/// Bytes in the queue of a file that a worker writes at once, although it does not wait yet: some hundred lines.
pub const LOG_DIRECT_BYTES_MAX: usize = 64 << 10;

/// How long a writer waits for more lines before writing: reduces the number of writes under load, unnoticeably to
/// people who watch a log.
pub const LOG_GATHER: Duration = Duration::from_millis(10);

/// Timeout for a blocked standard stream before its lines are dropped.
pub const LOG_STALL_MAX: Duration = Duration::from_secs(2);

/// Interval between messages about an output that cannot be written: a full disk affects every line.
pub const LOG_NOTICE_PAUSE: Duration = Duration::from_secs(60);

/// How often to check whether a log file was moved or removed.
pub const LOG_FILE_CHECK: Duration = Duration::from_secs(1);

/// Default size at which a file is rotated; Caddy's default.
pub const LOG_FILE_BYTES_DEFAULT: u64 = 100 << 20;

/// Default number of rotated files to keep; Caddy's default.
pub const LOG_FILES_KEPT_DEFAULT: usize = 10;

/// Default time to keep rotated files; Caddy's default.
pub const LOG_KEPT_DEFAULT: Duration = Duration::from_secs(90 * 24 * 3600);

/// Names to try for a rotated file if the time in its name includes only the day: the maximum number of rotations per
/// day.
pub const LOG_NAMES_TRIED_MAX: u32 = 10_000;

/// Maximum number of network outputs and pipes together: each has a thread, a descriptor and a queue.
pub const LOG_PEERS_MAX: usize = 64;

/// Maximum number of symbolic links to follow from a log file to a standard stream; Linux follows as many.
pub const LOG_LINKS_MAX: usize = 40;

/// Default timeout for connecting to a network output; Caddy's default.
pub const LOG_DIAL_DEFAULT: Duration = Duration::from_secs(10);

/// How long a peer may accept no data before its connection is considered dead.
pub const LOG_SEND_MAX: Duration = Duration::from_secs(5);

/// The delay after the first failure to connect; doubled after each further failure.
pub const LOG_REDIAL_FIRST: Duration = Duration::from_millis(100);

/// The maximum delay: a log server that recovers is used within half a minute.
pub const LOG_REDIAL_MAX: Duration = Duration::from_secs(30);

/// How often the thread of a network output checks whether any log still uses it.
pub const LOG_UNUSED_CHECK: Duration = Duration::from_secs(5);

/// Maximum size of a stack trace in an entry, in bytes: about a hundred frames, of which the innermost matter.
pub const LOG_STACK_BYTES_MAX: usize = 16 << 10;

/// Interval between messages about lost lines: an overloaded output loses thousands per second.
pub const LOG_LOSS_PAUSE: Duration = Duration::from_secs(1);

/// Message counters of sampling for each level: about as many as a server has messages, so that collisions are rare,
/// and little memory.
pub const SAMPLING_KINDS: usize = 256;
