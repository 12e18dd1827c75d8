//! The limits of upstream connections, each with the reason for its number.

use std::time::Duration;

/// How long dialling may take where nobody sets another time; Caddy's number.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(3);

/// How long an unused connection is kept where nobody sets another time; Caddy's number. Servers that close
/// earlier are noticed without it.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Unused connections that a worker keeps, all upstreams together. Ten thousand busy clients may wait at once and
/// then all be answered; keeping fewer connections than that means dialling anew for the next wave. Those that are
/// not needed age out, and the limit on open files bounds them as well.
pub const IDLE_MAX: usize = 16_384;

/// How long a connection to a FastCGI application is kept in all, from its first answer on. Such applications are
/// often processes that serve one connection at a time (PHP is): whoever else waits for one must not wait longer.
/// Dialling once a second instead of thousands of times costs nothing.
pub const KEPT_BRIEFLY: Duration = Duration::from_secs(1);

/// How long a FastCGI application may be silent on a new connection before connections that are kept are given up
/// for it. Slow scripts are as slow then as they were; those that need less profit from kept connections.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// How long no connections are kept then. Long beside [`PATIENCE`], so that an application whose processes are all
/// busy is held up once a minute at most.
pub const CROWDED_TIME: Duration = Duration::from_secs(60);

/// Time between two looks for unused connections that the other end has closed.
pub const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long the addresses of a name are used before it is looked up again. Container platforms change them within
/// seconds.
pub const NAME_LIFETIME: Duration = Duration::from_secs(10);

/// How long a name without addresses stays so before it is looked up again.
pub const NAME_FAILURE_LIFETIME: Duration = Duration::from_secs(1);

/// Addresses of one name that are tried; more would only make a dead name slower.
pub const NAME_ADDRESSES_MAX: usize = 8;

/// Interim answers (1xx) taken before the final one. Origins send one or two; beyond this somebody keeps us busy.
pub const INTERIM_MAX: u32 = 16;

/// How long a request body waits for `100 Continue` before it is sent anyway (RFC 9110, section 10.1.1 lets
/// clients do so). Servers that know the expectation answer within a round trip.
pub const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// Heads kept for reuse by a worker. Each is held for the moment between reading and passing on only.
pub const HEADS_KEPT_MAX: usize = 8;

/// The memory a kept head may have; one grown by a giant answer is freed.
pub const HEAD_KEPT_BYTES_MAX: usize = 16 * 1024;

/// How long a tunnel lives on without a byte after one side has ended its direction. The other side usually ends
/// at once; one that is gone for good would otherwise hold the connection for ever.
pub const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(60);

/// Records taken from one DNS answer. Each is an upstream or an address to dial; a hundred serve any service, and
/// an answer of 64 KiB could hold four thousand.
pub const NAME_RECORDS_MAX: usize = 256;

/// The shortest time for which answers of DNS servers are used: records of lifetime zero would mean a question for each
/// request.
pub const ANSWER_LIFETIME_MIN: Duration = Duration::from_secs(1);

/// The longest time for which they are used as their owners say; RFC 8767, section 4 recommends a cap of a week;
/// servers move sooner, and one question a day costs nothing.
pub const ANSWER_LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long one DNS server may take where nobody sets another time; that of resolv.conf(5).
pub const DNS_TIMEOUT: Duration = Duration::from_secs(5);

/// Times a question is asked again where no answer came: datagrams are lost.
pub const DNS_ATTEMPTS: usize = 2;

/// Names that a worker remembers. Configurations name far fewer; but placeholders may name as many as clients like.
pub const NAMES_MAX: usize = 4096;

/// How long addresses of the first version of IP are tried before those of the other join (RFC 8305, section 5,
/// says 250 ms, Go and Caddy wait for 300 ms).
pub const FALLBACK_DELAY: Duration = Duration::from_millis(300);

/// The longest answer of a proxy in between: a head of HTTP, or a few bytes of SOCKS.
pub const PROXY_ANSWER_BYTES_MAX: usize = 8 * 1024;

/// Upstreams that close unused connections sooner than this are looked at more often, to learn the time exactly.
pub const SHORT_IDLE_TIME: Duration = Duration::from_secs(5);

/// Upstreams without unused connections of which a worker still remembers how long they keep them; at a hundred bytes
/// each it costs little, and placeholders may name as many as clients like.
pub const SHELVES_KEPT_MAX: usize = 1024;

/// Requests that wait for one upstream whose requests in progress are limited. At ten thousand requests a second they
/// are through within a tenth of a second; a longer queue is better told at once, so that others can be asked.
pub const QUEUE_MAX: usize = 1024;

/// How long a request waits there. People have gone by then, and programs ask again.
pub const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Streams that a connection of HTTP/2 is expected to take at a time before the upstream has said how many; further calls
/// make another connection meanwhile. RFC 9113, section 6.5.2 asks servers for at least so many.
pub const STREAMS_FORESEEN: usize = 100;

/// Unused connections that are passed over because the end of their last answer is still to come, before another is
/// made. Ends follow the content within microseconds, so more than a few are waiting only where applications work on
/// after their answers, and then it is likely for all.
pub const UNDONE_LOOKS_MAX: usize = 8;

/// How much of the end of an answer is read at a time. An end is two records of 8 bytes, more only where an application
/// complains after its content.
pub const REST_READ_BYTES: usize = 256;

/// How often it is read before another connection is tried: 4 KiB of complaints.
pub const REST_READS_MAX: usize = 16;
