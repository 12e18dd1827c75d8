//! The limits of this package, each with the reason for its number.

use std::time::Duration;

/// Default number of threads of a WSGI process. Further threads start only when a request has been running for
/// [`SEAT_DELAY`] and others wait, so the number costs nothing where it is not needed.
pub const THREADS: usize = 16;

/// Default number of requests in flight per ASGI process: connections to databases are the usual bottleneck long before.
pub const CONCURRENCY: usize = 1_000;

/// Default number of waiting requests per application: at 1,000 requests a second the queue takes a second.
pub const QUEUE_SIZE: usize = 1_000;

/// Default time that a request waits for a worker. By then people have left, and programs retry.
pub const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Default time that a process may take to start: importing large applications takes tens of seconds on small machines.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Default time that an old process may take to finish its requests: WebSockets should end on the process they began on,
/// but not keep memory for ever.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(3600);

/// Default number of consecutive failed starts after which a worker is given up: with the back-off, about a minute.
pub const FAILURES_MAX: u32 = 8;

/// Default flow-control window of each direction of a request: four reads of 64 KiB, so that neither side waits for the
/// other while data flows.
pub const WINDOW_BYTES: u32 = 256 * 1024;

/// Default limit on the bytes of WebSocket messages that the processes of an application hold for it: 16 of the largest
/// messages, as much as a process of a large application takes anyhow.
pub const MESSAGES_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// How long a WSGI request runs while others wait before its process gets a further thread (FrankenPHP's number).
pub const SEAT_DELAY: Duration = Duration::from_millis(5);

/// Between two looks at the CPU time of a WSGI process whose requests wait.
pub const ALLOWANCE_INTERVAL: Duration = Duration::from_millis(10);

/// How often the number of threads that get requests falls by one while the process is busy: far less often than it
/// grows, so that an application that needs them loses little by the attempt.
pub const ALLOWANCE_DECAY: Duration = Duration::from_millis(250);

/// Percent of a CPU below which a process whose requests wait gets more threads.
pub const ALLOWANCE_MORE_PERCENT: u64 = 70;

/// Percent of a CPU above which it has as many as it can use.
pub const ALLOWANCE_MANY_PERCENT: u64 = 95;

/// A thread is sent as many requests as it will finish in this time: the time between two wake-ups of a busy thread
/// of sluice, so that the worker never waits for the next request, and none waits long behind others.
pub const AHEAD_TIME: Duration = Duration::from_millis(1);

/// But not more than this: each costs a few hundred bytes of the socket's buffer, and is sent again if the process dies.
pub const AHEAD_MAX: usize = 64;

/// Early hints that wait for the task of the client's connection; further ones are dropped.
pub const HINTS_MAX: usize = 16;

/// Descriptors of files that arrived before their frames.
pub const DESCRIPTORS_MAX: usize = 64;

/// Output of a lane beyond which request bodies wait for the worker to read. Heads of requests are not bounded by it: the
/// number of requests is.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// Rounds of reading and writing on one lane before other tasks get their turn.
pub const TURNS_MAX: u32 = 16;

/// Reloads that wait for the supervisor of a group; one more changes nothing.
pub const ORDERS_MAX: usize = 2;

/// Memory that a slot keeps for header blocks: most are shorter, and a lane has as many slots as it once had requests.
pub const BLOCK_KEPT_BYTES_MAX: usize = 4 * 1024;

/// Slots that a lane keeps while it is idle. Each takes half a kilobyte.
pub const SLOTS_KEPT_MAX: usize = 64;

/// How often a request is placed anew because the process that it was given to ended at that moment.
pub const PLACES_TRIED_MAX: usize = 8;

/// How much of a file is read at a time where it cannot be sent by the kernel.
pub const FILE_READ_BYTES: usize = 64 * 1024;

/// Groups that wait to be started; further callers of `obtain` wait for a moment.
pub const STARTS_MAX: usize = 64;

/// Bytes of one line of an application's output; the rest of a longer line is cut off.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of one log entry of several lines: a traceback of a thousand frames.
pub const ENTRY_BYTES_MAX: usize = 64 * 1024;

/// Log entries per second that one process may cause on average; an application that logs every request of a fast
/// server stays below. Further ones are dropped and counted.
pub const ENTRIES_PER_SECOND: u32 = 2_000;

/// Log entries that a process may cause at once.
pub const ENTRIES_BURST: u32 = 4_000;

/// How long an unfinished entry waits for more lines: tracebacks are written in one or a few pieces.
pub const ENTRY_DELAY: Duration = Duration::from_millis(50);

/// How much of an application's output is read at a time.
pub const OUTPUT_READ_BYTES: usize = 16 * 1024;

/// Python files that autoreload watches; the largest projects have some thousands.
pub const WATCHED_FILES_MAX: usize = 20_000;

/// How deep they are looked for.
pub const WATCHED_DEPTH_MAX: usize = 16;

/// Between two looks at these files: a change is acted upon when there was none in the next interval.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// How long a process that has finished its requests may take to exit: the worker gives the application 30 s to shut
/// down (`lifespan`).
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(35);

/// How long a process with a hanging request may take to finish its other requests.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a request that was cancelled because it took too long may go on in an event loop before the process counts
/// as hanging.
pub const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a process has to write the stacks of its threads before it is killed.
pub const DUMP_TIMEOUT: Duration = Duration::from_secs(1);

/// The first wait before a process is started again, and the longest.
pub const RESTART_DELAY: Duration = Duration::from_millis(100);

/// The longest wait before a process is started again.
pub const RESTART_DELAY_MAX: Duration = Duration::from_secs(10);

/// The longest wait before a crashed process is started again while no other process of its application serves or starts.
/// Requests wait in the queue meanwhile, and fail after [`QUEUE_TIMEOUT`]; a start a second is what an application that
/// crashes all the time may cost.
pub const OUTAGE_MAX: Duration = Duration::from_secs(1);

/// A process that lived for this long is started again at once.
pub const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Old processes of a group that may drain at a time; a developer who saves a file each second with WebSockets open
/// would otherwise fill the memory.
pub const DRAINING_MAX: usize = 16;

/// Between two looks at the memory of the processes.
pub const RSS_INTERVAL: Duration = Duration::from_secs(2);

/// Between two looks at threads that hold others up.
pub const STALL_INTERVAL: Duration = Duration::from_millis(5);

/// How long after the end of a process its output is still read: descendants that hold the pipe are dead by then.
pub const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// How much of a control channel is read at a time.
pub const CONTROL_READ_BYTES: usize = 8 * 1024;

/// Between two looks at processes that hang or have lost a lane.
pub const CARE_INTERVAL: Duration = Duration::from_millis(100);

/// How long a process that has lost a lane may take to end by itself: lanes of a process that exits are closed some
/// milliseconds before it has ended.
pub const LOST_TIMEOUT: Duration = Duration::from_secs(2);

/// Ends of preloaded processes that are remembered until somebody asks for them.
pub const ENDS_KEPT_MAX: usize = 64;

/// How long the kernel may take to end processes that were killed, and their output to be read: a process that waits for
/// a dead network file system cannot be ended at all.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(10);
