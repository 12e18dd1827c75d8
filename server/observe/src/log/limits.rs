//! The limits of logs, each with the reason for its number.

use std::time::Duration;

/// Bytes that may wait for one output: some 8,000 lines of access log, a tenth of a second at full load, which a
/// working disk catches up with.
pub const LOG_QUEUE_BYTES_MAX: usize = 4 << 20;

/// Bytes that may wait for all outputs of one thread: ten thousand sites with a file each must not add up.
pub const LOG_QUEUES_BYTES_MAX: usize = 64 << 20;

/// Bytes that all outputs of one thread may hold back, in the hope of more. Beyond it all are written: half of the memory
/// is left for what comes meanwhile.
pub const LOG_HELD_BYTES_MAX: usize = LOG_QUEUES_BYTES_MAX / 2;

/// Bytes that one output may hold back, whatever the configuration says: half of its queue, for the same reason.
pub const LOG_HOLD_BYTES_MAX: usize = LOG_QUEUE_BYTES_MAX / 2;

/// Lines that may wait for files which each line names: as many bytes as for one output, in pieces of a few hundred.
pub const LOG_NAMED_LINES_MAX: usize = 16 << 10;

/// Such files that stay open for one setting, whatever the configuration says: a client names as many hosts as it likes, and
/// descriptors are for connections.
pub const LOG_NAMED_OPEN_MAX: usize = 1024;

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

/// Names of old files that are tried at one moment, where the times in them tell only days apart: so many times a
/// file can be put aside within one.
pub const LOG_NAMES_TRIED_MAX: u32 = 10_000;

/// Programs that logs are sent to over sockets: each has a thread, a connection and a queue.
pub const LOG_PEERS_MAX: usize = 64;

/// How long a connection to such a program may take, unless the configuration says otherwise; Caddy's number.
pub const LOG_DIAL_DEFAULT: Duration = Duration::from_secs(10);

/// How long such a program may take nothing of what is sent before its connection counts as dead.
pub const LOG_SEND_MAX: Duration = Duration::from_secs(5);

/// The pause after the first failure to reach it; each further one doubles it.
pub const LOG_REDIAL_FIRST: Duration = Duration::from_millis(100);

/// The longest pause: a log server that is back is found within half a minute.
pub const LOG_REDIAL_MAX: Duration = Duration::from_secs(30);

/// How often the thread of such a program looks whether any log still writes to it.
pub const LOG_UNUSED_CHECK: Duration = Duration::from_secs(5);

/// Bytes of a stack trace in an entry: a hundred functions or so, of which the innermost matter.
pub const LOG_STACK_BYTES_MAX: usize = 16 << 10;

/// The pause between two notices about lines that an output lost: it loses thousands a second while it does.
pub const LOG_LOSS_PAUSE: Duration = Duration::from_secs(1);

/// Kinds of messages that sampling tells apart for each level: as many as a server has, so that two seldom share a
/// count, and little memory.
pub const SAMPLING_KINDS: usize = 256;
