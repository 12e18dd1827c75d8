//! Limits and timeouts of the load generator, each with its reason.

use std::time::Duration;

/// Size of a response head. Common servers send less than 1 KiB; 64 KiB is what the most generous clients accept.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A line of chunked framing: size, extensions, trailers.
pub const CHUNK_LINE_BYTES_MAX: usize = 8 * 1024;

/// Buffer size of one read. A body of study 000 (290 KB) takes two; more would only evict the expected body from the
/// CPU cache.
pub const READ_BYTES: usize = 256 * 1024;

/// Consecutive reads of one connection, so that one fast body does not starve the others.
pub const READS_IN_A_ROW: usize = 4;

/// Events fetched per `epoll_wait`. More would only delay the last ones.
pub const EVENTS_MAX: usize = 256;

/// Concurrent connects of a thread while it opens its connections. Below the queue of every listener (128 is the
/// smallest common default), so that no SYN is dropped and retransmitted a second later.
pub const DIALS_MAX: usize = 64;

/// Open loop: requests of one thread that wait for a connection. Beyond this they count as dropped at once; at 20,000
/// requests a second it is more than ten seconds, the usual timeout.
pub const WAITING_MAX: usize = 262_144;

/// Open loop: how long before a request is due the thread stops sleeping and spins. Waking up takes 5 to 50 us, more in
/// virtual machines.
pub const SPIN: Duration = Duration::from_micros(60);

/// Open loop: the longest sleep that is ended by a timer. epoll timeouts are whole milliseconds on older kernels;
/// beyond this limit an extra wake-up costs less than setting the timer.
pub const ALARM_MAX: Duration = Duration::from_millis(100);

/// Open loop: 99 % of requests must be sent at most this much later than due for latencies to be the target's.
pub const LATE_MAX: Duration = Duration::from_micros(100);

/// Longest warm-up by a number of requests, unless another time is given: a server that has not served them by then does not
/// become warm.
pub const WARMUP_MAX: Duration = Duration::from_secs(60);

/// How long requests in flight may still take after Ctrl-C: the user waits.
pub const INTERRUPTED_DRAIN: Duration = Duration::from_millis(500);

/// Shortest interval of timeout checks; `Plan::tick_ns` adapts it to the timeout.
pub const TICK: Duration = Duration::from_millis(20);

/// Interval of the time series.
pub const SLICE: Duration = Duration::from_millis(100);

/// Intervals of one series: ten hours of 100 ms. In longer windows everything after that counts in the last one.
pub const SLICES_MAX: usize = 360_000;

/// Opening all connections takes at most this long, and at most [`RAMP_SHARE_MAX`] times as long as warm-up and window:
/// if a server drops connections, each attempt takes seconds. The rest is opened under load.
pub const RAMP_MAX: Duration = Duration::from_secs(30);

/// Maximum time for opening all connections, as a multiple of warm-up and window.
pub const RAMP_SHARE_MAX: u32 = 3;

/// Opening all connections may always take this long, however short the load is.
pub const RAMP_MIN: Duration = Duration::from_secs(2);

/// Different requests in one load. Each has a histogram of 200 KB in every thread.
pub const MIX_MAX: usize = 100;

/// Requests until the order of a mix repeats.
pub const MIX_SEQUENCE_MAX: u64 = 10_000;

/// Buffers passed to the kernel in one call. Linux accepts 1,024; pipelines are shorter.
pub const PIECES_MAX: usize = 32;

/// Concurrent HTTP/2 streams on one connection: what common servers allow (nginx 128, Caddy 250).
pub const STREAMS_MAX: usize = 250;

/// HTTP/3: bytes that a server may send ahead, per stream and per connection: large, so that flow control is not what is
/// measured.
pub const QUIC_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// HTTP/3: streams that a server may open in one direction: its control stream, two of QPACK, and some that mean nothing
/// (RFC 9114, section 6.2.3).
pub const UNIDIRECTIONAL_MAX: u32 = 16;

/// HTTP/3: silence after which a connection counts as lost, as in browsers.
pub const QUIC_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// HTTP/3: datagrams, or trains of them that the kernel joined, taken by one system call. With [`READ_BYTES`] each has 64
/// KiB, the most that the kernel joins.
pub const RECEIVE_BATCH: usize = 4;

/// HTTP/3: receive buffer of a socket. A server sends bursts of a whole congestion window; what does not fit is lost. The
/// kernel grants at most `net.core.rmem_max`.
pub const UDP_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// HTTP/3: packets in one call of the kernel that splits them: what fits the largest IP packet.
pub const SEGMENTS_MAX: usize = 44;

/// HTTP/3: a response head before it is decoded; see [`HEAD_BYTES_MAX`].
pub const SECTION_BYTES_MAX: usize = HEAD_BYTES_MAX;

/// Largest body that is stored for byte-by-byte comparison. Larger ones are compared by length only.
pub const BODY_KEPT_MAX: usize = 64 * 1024 * 1024;

/// How long a probe may take before the target counts as unreachable.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Phases of a scenario, and sessions. Each has a histogram of 200 KB in every thread.
pub const PHASES_MAX: usize = 50;

/// Variables of a scenario.
pub const VARIABLES_MAX: usize = 100;

/// Values of a variable, and their total size: a list of user names, not a database.
pub const VALUES_MAX: usize = 100_000;

/// Length of a path, header or body of a scenario before its variables are filled in.
pub const TEMPLATE_BYTES_MAX: usize = 1024 * 1024;

/// Cookies of one session. Browsers keep at least 50 per domain (RFC 6265, section 6.1).
pub const COOKIES_MAX: usize = 50;

/// Length of a cookie, with its name and attributes (RFC 6265, section 6.1).
pub const COOKIE_BYTES_MAX: usize = 4096;

/// Clients of a scenario: each has a connection.
pub const CLIENTS_MAX: usize = 100_000;

/// Interval at which a closed loop adapts the number of clients to the phase: a ramp from 0 to 100 in a second then has
/// one client per step.
pub const LEVEL_INTERVAL: Duration = Duration::from_millis(10);

/// TLS sessions that are kept to be resumed: one for each of as many clients as connect at once.
pub const TICKETS_MAX: usize = 10_000;
