//! The limits of this package, each with the reason for its number.

use std::time::Duration;

/// A request that waits for its response, with its connection: most of what it takes, and one for each in flight.
pub const CALL_BYTES_MAX: usize = 336;

/// A connection to an upstream, in use or idle: a worker may have [`IDLE_MAX`] of them in its pool.
pub const LINK_BYTES_MAX: usize = 112;

/// Default dial timeout; as in Caddy.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(3);

/// Default idle timeout of a connection; as in Caddy. Servers that close earlier are detected regardless.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of idle connections per worker, for all upstreams together. Ten thousand busy clients may wait at the
/// same time and then all get their responses; with a smaller pool, the next wave would have to dial again. Surplus
/// connections time out, and the limit on open files bounds them as well.
pub const IDLE_MAX: usize = 16_384;

/// Maximum age of a pooled connection to a FastCGI application, from its first response. The processes of such an
/// application often serve one connection at a time (as in PHP): other clients must not wait longer than this for one.
/// Dialling once a second instead of thousands of times costs next to nothing.
pub const KEPT_BRIEFLY: Duration = Duration::from_secs(1);

/// How long a FastCGI application may be silent on a new connection before idle connections are closed for its sake.
/// Slow scripts do not get slower by that; fast ones profit from pooled connections.
pub const END_RECORD_TIMEOUT: Duration = Duration::from_millis(100);

/// How long pooling is then disabled. Long compared with [`END_RECORD_TIMEOUT`], so that an application whose processes are all
/// busy is delayed at most once a minute.
pub const AT_CAPACITY_TIME: Duration = Duration::from_secs(60);

/// Interval of the check for idle connections that the upstream has closed.
pub const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long resolved addresses are used before the name is looked up again. Container platforms change addresses within
/// seconds.
pub const NAME_LIFETIME: Duration = Duration::from_secs(10);

/// How long a request waits for a new DNS answer whose predecessor is too old, before it uses the old addresses: long
/// enough for a DNS server nearby, and a slow one delays no request by more.
pub const NAME_REFRESH_WAIT: Duration = Duration::from_secs(1);

/// How long a failed lookup is cached.
pub const NAME_FAILURE_LIFETIME: Duration = Duration::from_secs(1);

/// Maximum number of addresses tried per name; more would only make an unreachable name slower.
pub const NAME_ADDRESSES_MAX: usize = 8;

/// Interim responses (1xx) accepted before the final one. Origins send one or two; more than this is abuse.
pub const INTERIM_MAX: u32 = 16;

/// How long a request body waits for `100 Continue` before it is sent anyway, as RFC 9110, section 10.1.1 permits.
/// Servers that support the expectation respond within a round trip.
pub const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// Response heads pooled by a worker. Each is in use only between reading and forwarding.
pub const HEADS_KEPT_MAX: usize = 8;

/// The maximum size of a pooled head; a larger one is freed.
pub const HEAD_KEPT_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of records taken from one DNS answer. Each is an upstream or an address to dial; a hundred are enough
/// for any service, and a response of 64 KiB could hold four thousand.
pub const NAME_RECORDS_MAX: usize = 256;

/// Minimum time for which DNS answers are cached: records with a TTL of zero would cause a query per request.
pub const DNS_LIFETIME_MIN: Duration = Duration::from_secs(1);

/// Maximum time for which DNS answers are cached. RFC 8767, section 4 recommends a cap of a week; servers move sooner,
/// and one query a day costs nothing.
pub const DNS_LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Default timeout for one DNS server; that of resolv.conf(5).
pub const DNS_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a query without a response is repeated: datagrams are lost.
pub const DNS_ATTEMPTS: usize = 2;

/// Names that a worker caches. Configurations contain far fewer, but placeholders may yield as many as clients like.
pub const NAMES_MAX: usize = 4096;

/// How long addresses of the first IP version are tried before those of the other join (RFC 8305, section 5 says 250
/// ms; Go and Caddy wait 300 ms).
pub const FALLBACK_DELAY: Duration = Duration::from_millis(300);

/// Maximum length of a proxy's reply: an HTTP response head, or a few bytes of SOCKS.
pub const PROXY_RESPONSE_BYTES_MAX: usize = 8 * 1024;

/// Upstreams that close idle connections sooner than this are checked more often, to learn the time precisely.
pub const SHORT_IDLE_TIME: Duration = Duration::from_secs(5);

/// Upstreams without idle connections for which a worker remembers when they close connections; at a hundred bytes each
/// this is cheap, and placeholders may yield as many upstreams as clients like.
pub const SHELVES_KEPT_MAX: usize = 1024;

/// Requests queued for one upstream with a concurrency limit. At ten thousand requests a second the queue takes a tenth
/// of a second; beyond it, an immediate failure is better, so that another upstream can be tried.
pub const QUEUE_MAX: usize = 1024;

/// How long a request waits in this queue. By then people have left, and programs retry.
pub const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of concurrent streams assumed for an HTTP/2 connection until the upstream's SETTINGS arrive; further
/// calls open another connection meanwhile. RFC 9113, section 6.5.2 asks servers to allow at least this many.
pub const STREAMS_FORESEEN: usize = 100;

/// How many idle connections are skipped because the end of their last response is still to come, before a new one is
/// dialled. The end follows the content within microseconds, so more than a few wait only if the application continues
/// to work after its responses, and then probably all do.
pub const UNDONE_LOOKS_MAX: usize = 8;

/// How much of the end of a response is read at a time. It consists of two records of 8 bytes, unless the application
/// writes to standard error after its content.
pub const REST_READ_BYTES: usize = 256;

/// How often this is read before another connection is tried: 4 KiB of standard error.
pub const REST_READS_MAX: usize = 16;

/// Requests at a time on one HTTP/3 connection; further ones get another connection. As many as over HTTP/2.
pub const HTTP3_STREAMS_MAX: usize = 128;

/// Streams in one direction that an upstream may open over HTTP/3: its control stream, two of QPACK, and some that mean nothing
/// (RFC 9114, section 6.2.3).
pub const HTTP3_UNIDIRECTIONAL_MAX: u32 = 8;

/// The payload of a frame on an upstream's control stream that is read as a whole: SETTINGS of today have 30 bytes.
pub const HTTP3_CONTROL_FRAME_BYTES_MAX: usize = 1024;

/// Points of the budget for frames of an upstream that bring no response forward (see `sluice_wire::glitch`), per connection.
pub const HTTP3_GLITCH_POINTS_MAX: u32 = 16 * 1024;

/// The most data of a request that is handed to QUIC at once, and of a response that is taken from it.
pub const HTTP3_PIECE_BYTES_MAX: usize = 32 * 1024;

/// Data of requests that one QUIC connection holds until it is acknowledged: 160 Mbit/s over 50 ms.
pub const QUIC_UNACKNOWLEDGED_BYTES_MAX: u64 = 1024 * 1024;

/// How long an upstream may leave a QUIC connection without a packet before it is given up. Packets that keep a connection
/// alive are sent three times within it, so that a slow response does not end it.
pub const QUIC_SILENCE_MAX: Duration = Duration::from_secs(30);

/// How often a QUIC connection without other packets is kept alive. Servers close idle ones after 30 s or more.
pub const QUIC_PING_INTERVAL: Duration = Duration::from_secs(10);

/// Datagrams in one call of the kernel that joins or splits them: what it joins at most.
pub const QUIC_SEGMENTS_MAX: usize = 64;

/// Datagrams in one call that sends them: what fits the largest IP packet.
pub const QUIC_SENT_SEGMENTS_MAX: usize = 44;

/// The largest datagram that is received: more than an Ethernet frame holds.
pub const QUIC_DATAGRAM_BYTES_MAX: usize = 1_500;

/// Calls of the kernel that receive datagrams of one connection before it responds to them.
pub const QUIC_RECEIVE_TURNS: usize = 8;

/// Bytes that one connection sends before other connections get their turn.
pub const QUIC_SENT_PER_TURN_MAX: usize = 256 * 1024;

/// Quiet times of a busy connection between two additions of its lost packets to the counter of the worker: copying the statistics
/// is not worth it for each request.
pub const QUIC_RESTS_PER_COUNT: u32 = 64;

/// The kernel's buffers of the UDP socket of one connection, as far as the system allows: the window of a connection.
pub const QUIC_SOCKET_BYTES: usize = 1024 * 1024;

/// How long a connection to Redis may take to be established, with TLS and the greeting. Servers of limits are near; while
/// one cannot be reached, requests do not wait for it.
pub const REDIS_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The wait before the first attempt to reconnect to Redis: a server that restarts is back after about as long.
pub const REDIS_BACKOFF_FIRST: Duration = Duration::from_millis(50);

/// The longest wait before an attempt to reconnect to Redis: so late a server that is back is noticed, and a hundred nodes with
/// eight workers each make a few hundred attempts a second at most.
pub const REDIS_BACKOFF_MAX: Duration = Duration::from_secs(2);

/// How long Redis may leave a call without a reply before its connection is given up. Callers have left long before; a
/// new connection finds a server that has moved.
pub const REDIS_SILENCE_MAX: Duration = Duration::from_secs(1);

/// How often an idle connection to Redis looks whether a configuration still uses it.
pub const REDIS_UNUSED_CHECK: Duration = Duration::from_secs(1);

/// Calls of one worker that wait for one Redis server. A server replies to a hundred thousand a second, so these take 10
/// ms, more than the usual deadline; further ones would only time out.
pub const REDIS_PIPELINE_MAX: usize = 1024;

/// How long all replies of Redis must have been late until the server is reported as away: shorter is a pause of a busy machine,
/// and the log would repeat it.
pub const REDIS_LATE_TIME: Duration = Duration::from_secs(1);

/// Client connections of a worker from which on calls look early for their responses: the memory of fewer connections stays in
/// the second-level cache of a CPU anyway.
pub const EARLY_LOOK_CONNECTIONS_MIN: usize = 256;

/// Calls of a worker of which one looks early for its response, while such looks fail.
pub const EARLY_LOOK_INTERVAL: u8 = 64;

/// Looks that have succeeded, of which a worker still knows when others fail.
pub const EARLY_LOOK_CREDIT_MAX: u8 = 64;

/// Looks that have to succeed for one that fails: it costs two system calls.
pub const EARLY_LOOK_MISS_COST: u8 = 8;
