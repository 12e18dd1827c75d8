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

/// How long a WSGI request runs while others wait before its process gets a further thread (FrankenPHP's number).
pub const SEAT_DELAY: Duration = Duration::from_millis(5);
