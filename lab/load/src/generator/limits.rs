//! How much the generator holds and waits for, each number with its reason.

use std::time::Duration;

/// The head of an answer. Servers at hand send less than 1 KiB; 64 KiB is what the most generous clients take.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A line of chunked framing: size, extensions, trailers.
pub const CHUNK_LINE_BYTES_MAX: usize = 8 * 1024;

/// One read. A body of study 000 (290 KB) takes two; more would only push the expected body out of the cache.
pub const READ_BYTES: usize = 256 * 1024;

/// Reads of one connection in a row before others have their turn, so that one fast body does not starve the rest.
pub const READS_IN_A_ROW: usize = 4;

/// Events taken at a time. More at once only delays those behind.
pub const EVENTS_MAX: usize = 256;

/// Connects that a thread has under way at a time while it opens its connections. Below the queue of every listener
/// (128 is the smallest default in use), so that no SYN is dropped and tried again a second later.
pub const DIALS_MAX: usize = 64;

/// Open loop: requests of one thread that wait for a connection. Beyond it they count as dropped at once; at 20,000
/// requests a second it is more than ten seconds, the usual time limit.
pub const WAITING_MAX: usize = 262_144;

/// Open loop: how long before a request is due the thread stops sleeping and spins. Waking up takes 5 to 50 us, more
/// in virtual machines.
pub const SPIN: Duration = Duration::from_micros(60);

/// Open loop: the longest sleep that ends by a timer of its own. Timeouts of epoll are whole milliseconds where the kernel or
/// the library knows no finer ones; beyond this a look too many costs less than setting the timer.
pub const ALARM_MAX: Duration = Duration::from_millis(100);

/// Open loop: 99 % of requests have to leave at most this much later than due for latencies to be the target's.
pub const LATE_MAX: Duration = Duration::from_micros(100);

/// How often time limits are looked at. A request counts as timed out at most this much late.
pub const TICK: Duration = Duration::from_millis(20);

/// Slices of the window in a series.
pub const SLICE: Duration = Duration::from_millis(100);

/// Slices of one series: ten hours of slices of 100 ms. Longer windows end in the last one.
pub const SLICES_MAX: usize = 360_000;

/// Opening all connections takes at most this long, and at most [`RAMP_SHARE_MAX`] times as long as warm-up and window: where
/// a server drops what comes, each tries for seconds. What is not open then is opened under load.
pub const RAMP_MAX: Duration = Duration::from_secs(30);

/// How many times the warm-up and the window opening all connections may take, and how long in any case.
pub const RAMP_SHARE_MAX: u32 = 3;

/// Opening all connections may take this long however short the load is.
pub const RAMP_MIN: Duration = Duration::from_secs(2);

/// Pieces of requests handed to the kernel by one call. Linux takes 1,024; pipelines are shorter.
pub const PIECES_MAX: usize = 32;

/// Streams of HTTP/2 under way on one connection: what servers at hand allow (nginx 128, Caddy 250).
pub const STREAMS_MAX: usize = 250;

/// A body that is kept for comparing byte by byte. Larger ones are compared by length only.
pub const BODY_KEPT_MAX: usize = 64 * 1024 * 1024;

/// How long a probe may take before the target counts as not there.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
