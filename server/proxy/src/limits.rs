//! Limits of the reverse proxy, its cache and the Python host, each with its rationale.

use std::time::Duration;

use sluice_cache::store::Pace;

/// The future that forwards a request and awaits the response of its upstream: an allocation for each request in flight. The
/// allocator has sizes of 640, 768 and 896 bytes.
pub const FORWARDING_BYTES_MAX: usize = 768;

/// Maximum size of a request body without `Content-Length` that is buffered for a FastCGI application, which needs the
/// length, unless `request_buffers` sets another limit. The size of one body buffer; Caddy uses 4 KiB.
pub const CGI_BODY_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a health check response that are examined by default; a page that says "ok" has only a few.
pub const HEALTH_RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of sources in `dynamic multi`; each may have to be awaited.
pub const SOURCES_MAX: usize = 16;

/// How long upstreams from DNS are used unless the configuration or the TTL of the records is shorter; Caddy's default.
pub const SOURCE_LIFETIME: Duration = Duration::from_secs(60);

/// Minimum of that time: records with TTL 0 would require a DNS query for each request.
pub const SOURCE_LIFETIME_MIN: Duration = Duration::from_secs(1);

/// How long upstreams stay in use while DNS servers do not respond. A name that is known not to exist is dropped at
/// once.
pub const SOURCE_STALE_MAX: Duration = Duration::from_secs(3600);

/// The delay before retrying a failed DNS query.
pub const SOURCE_PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of servers for one name in an upstream group; larger services use a load balancer of their own.
pub const PEERS_OF_NAME_MAX: usize = 256;

/// How long the first request of a group waits for the addresses of all its names if some servers are known. DNS
/// servers normally respond within milliseconds; a slow one should not delay requests.
pub const FIRST_ADDRESSES_WAIT: Duration = Duration::from_secs(1);

/// Minimum pause between two lookups that a group makes without a request: a tick of the workers' clock.
pub const REFRESH_PAUSE_MIN: Duration = Duration::from_millis(100);

/// Sticky sessions remembered per upstream group; each takes about a hundred bytes.
pub const SESSIONS_MAX: usize = 1_000_000;

/// Default lifetime of an unused session; nginx's default.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of names cached by a source whose name contains placeholders.
pub const SOURCE_NAMES_MAX: usize = 256;

/// The longest domain name to resolve (RFC 1035, section 2.3.4, in dotted notation).
pub const NAME_BYTES_MAX: usize = 253;

/// How long a request waits in the queue of a group unless the configuration says so; nginx's default.
pub const QUEUE_TIMEOUT: Duration = Duration::from_secs(60);

/// Endpoints of an upstream whose connection settings depend on the request: local address, TLS name, certificate. Each
/// may have a pool of connections; the least recently used one is evicted.
pub const ENDPOINTS_BY_REQUEST_MAX: usize = 256;

/// Upstreams remembered per directive for addresses with placeholders; the least recently used one is evicted. Each
/// takes about a kilobyte, and clients may be able to choose the names.
pub const NAMED_UPSTREAMS_MAX: usize = 1024;

/// Redirects that a health check follows; the default of Go and Caddy.
pub const HEALTH_REDIRECTS_MAX: usize = 10;

/// Bytes of a request body that are buffered for a retry. Forms and API calls fit; ten thousand requests in flight hold
/// at most 640 MB, and only if all of them may be retried.
pub const REPLAY_BYTES_MAX: usize = 64 * 1024;

/// Allowed range of `read_buffer`, the size of one read from a response body. Below a page, system calls cost more than
/// the data; larger buffers would let a thousand slow clients hold gigabytes.
pub const READ_BUFFER_BYTES: std::ops::RangeInclusive<usize> = 4 * 1024..=1024 * 1024;

/// Allowed range of the buffer of a tunnel in each direction. Smaller buffers cost more in system calls than the data
/// is worth; with larger ones a thousand tunnels would hold gigabytes.
pub const STREAM_BUFFER_BYTES: std::ops::RangeInclusive<usize> = 512..=1024 * 1024;

/// Share of its weight, in thousandths, that an upstream gets at the start of its slow start: enough to show whether it
/// is healthy.
pub const SLOW_START_SHARE_MIN: f64 = 100.0;

/// Default window of results for a circuit breaker; common in circuit breaker libraries.
pub const BREAKER_WINDOW: Duration = Duration::from_secs(10);

/// Minimum number of results before a circuit breaker may open: one failure of two requests is not significant.
pub const BREAKER_REQUESTS_MIN: u32 = 20;

/// Default time that a circuit breaker stays open; the default of Caddy's former module.
pub const BREAKER_TRIP: Duration = Duration::from_secs(5);

/// Maximum size of a response shared by several requests (`coalesce`), in bytes. It is buffered first, so it should be
/// short; typical pages and API responses fit.
pub const COALESCE_BYTES_MAX: usize = 256 * 1024;

/// Maximum number of distinct in-flight requests that others may join; clients can create any number of keys.
pub const COALESCE_KEYS_MAX: usize = 4096;

/// Maximum number of requests that wait for one response; further requests are sent to the upstream.
pub const COALESCE_FOLLOWERS_MAX: usize = 1024;

/// How often one request may wait for others that fill the same cache entry, each of which may fail. Its wait timeout
/// ends well before that.
pub const CACHE_TURNS_MAX: usize = 1000;

/// Minimum time before a waiting request looks at the cache again: the lag of the coarse clock is larger.
pub const CACHE_LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Responses that one worker continues to read into its cache after the client has left. A higher limit would let
/// clients that disconnect at once keep many upstream connections busy.
pub const CACHE_LEFT_MAX: usize = 256;

/// Bytes of a response buffered in memory (twice at most) while it is written to the cache and its client reads slowly:
/// the default size of nginx's upstream buffers. Beyond that, the client reads from the cache file.
pub const CACHE_AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes of one response to write to the cache before other tasks of the worker run: a few milliseconds of work.
pub const CACHE_PUMP_BYTES: usize = 1024 * 1024;

/// Default time after which unused cached responses are removed (`inactive`); nginx's default.
pub const CACHE_INACTIVE: Duration = Duration::from_secs(600);

/// Default lifetime of responses that do not say how long they are fresh (`ttl` of `cache`); that of the plugin.
pub const CACHE_TTL: Duration = Duration::from_secs(120);

/// Default maximum size of the files of a cache (`max_size` of `cache`): the pages of a large site, and little of any disk
/// that servers have.
pub const CACHE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Default memory of the index of a cache (`index_size` of `cache`): about 128,000 responses.
pub const CACHE_INDEX_BYTES: usize = 16 * 1024 * 1024;

/// Default time after which unused responses are removed from the cache of a Caddyfile (`inactive`). Responses that are used
/// once a day may stay; `max_size` removes them earlier if there is no room.
pub const CACHE_UNUSED: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a request waits in the cache of a Caddyfile for another one that fetches the response, and how long that one may
/// take until one more tries: nginx's defaults for both.
pub const CACHE_COALESCE_TIMEOUT: Duration = Duration::from_secs(5);

/// Requests to other keys by path (`cache_keys` of `cache`): each is a pattern that requests are matched with.
pub const CACHE_KEY_RULES_MAX: usize = 64;

/// Minimum memory of the index of a cache: nginx's minimum, eight pages of the usual size.
pub const CACHE_INDEX_BYTES_MIN: usize = 32 * 1024;

/// Default pace of the cache loader (`loader_files`, `loader_threshold`, `loader_sleep`) and, where one of its settings is
/// given, of the manager; nginx's defaults.
pub const CACHE_PACE: Pace = Pace {
    files: 100,
    threshold: Duration::from_millis(200),
    sleep: Duration::from_millis(50),
};

/// Default size of a request body buffered in memory before a temporary file is used (`client_body_buffer_size`): one
/// body buffer. nginx uses 16 KiB; a body of a few pages is not worth a file.
pub const BUFFER_REQUEST_BYTES: u64 = 64 * 1024;

/// Responses whose `Content-Length` is at most this are not buffered: they arrive with their head or fit into one read.
pub const BUFFER_RESPONSE_BYTES_MIN: u64 = 8 * 1024;

/// Default size of one write to a temporary file (`*_temp_file_write_size`): one body buffer. nginx uses 16 KiB; here
/// each write goes through another thread.
pub const BUFFER_WRITE_BYTES: u64 = 64 * 1024;

/// Allowed range of the size of one write. Smaller writes cost more in system calls than the data is worth; larger ones
/// take memory for each buffered body.
pub const BUFFER_WRITE_BYTES_RANGE: std::ops::RangeInclusive<u64> = 4 * 1024..=1024 * 1024;

/// Default maximum size of a response's temporary file (`*_max_temp_file_size`), in bytes; nginx's default. Beyond it,
/// sluice stops reading from the upstream.
pub const BUFFER_FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Bytes to read from a temporary file at a time.
pub const BUFFER_PIECE_BYTES: usize = 64 * 1024;

/// The smallest buffer of bytes that wait: a page.
pub const BUFFER_PIECE_BYTES_MIN: usize = 4 * 1024;

/// Bytes of one body to read ahead before other tasks of the worker run.
pub const BUFFER_TURN_BYTES: usize = 256 * 1024;

/// Interval between log messages about bodies that cannot be buffered: a full disk affects all of them.
pub const BUFFER_LOG_PAUSE: Duration = Duration::from_secs(10);

/// Worker processes of one Python application; Caddy Snake's maximum. More than a few per CPU only cost memory.
pub const PYTHON_WORKERS_MAX: usize = 256;

/// Python applications of one directive that placeholders make; Caddy Snake's default for `max_dynamic_apps`.
pub const PYTHON_DYNAMIC_APPS: usize = 128;

/// How long such an application may be idle before its processes end; Caddy Snake's default.
pub const PYTHON_DYNAMIC_IDLE: Duration = Duration::from_secs(30 * 60);

/// How often idle applications are looked for: after each `dynamic_idle_timeout`, within this range. Their processes may
/// live so much longer.
pub const PYTHON_SWEEP_EVERY: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(60);

/// How long requests for such an application fail at once after it failed to start, so that clients cannot keep a broken
/// one starting.
pub const PYTHON_FAILED_PAUSE: Duration = Duration::from_secs(5);

/// How often a request is sent when worker processes die under it. One that kills each process takes three with it and no
/// more.
pub const PYTHON_ATTEMPTS_MAX: usize = 3;

/// A file with environment variables for Python. Such files have a few hundred bytes; one of megabytes is another file.
pub const PYTHON_ENV_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// How often a client of a WebSocket is sent a Ping, and how long it may then send nothing: uvicorn's defaults, below the
/// minute after which nginx closes idle connections.
pub const WEBSOCKET_PING_EVERY: Duration = Duration::from_secs(20);

/// The share of upstreams in percent that outlier ejection ejects at most, unless `max_ejected` is set: if more than half
/// differ from the others, the others are the outliers.
pub const OUTLIERS_EJECTED_PERCENT: u32 = 50;

/// Maximum length of the reason why a health check failed, in bytes; it is shown in the status.
pub const CHECK_FAILURE_BYTES_MAX: usize = 200;

/// How long upstreams from Redis are used before they are read again: a hash is read in less than a millisecond, and a new
/// upstream is to be used soon.
pub const SOURCE_REDIS_LIFETIME: Duration = Duration::from_secs(1);

/// How long Redis may take to list upstreams. Requests use the earlier ones meanwhile.
pub const SOURCE_REDIS_TIMEOUT: Duration = Duration::from_secs(1);

/// Upstreams taken from one hash or prefix; as many as from a DNS answer.
pub const SOURCE_RECORDS_MAX: usize = 256;

/// Nodes of one cache. A node may know each other one by a connection pool, and looks at all of them for each key.
pub const CACHE_PEERS_MAX: usize = 64;

/// The length of the name of a node, which is sent with each request between nodes; that of a label of a host name.
pub const CACHE_PEER_NAME_BYTES_MAX: usize = 63;

/// The shortest secret of the nodes of a cache, in bytes: 128 bits, if they are random.
pub const CACHE_PEER_SECRET_BYTES_MIN: usize = 16;

/// Requests of this node that one other node works on at a time; further ones go to the next owner of their keys. Each
/// takes a connection; with 64 nodes, these are less than the 20,000 that a process may usually open.
pub const CACHE_PEER_REQUESTS_MAX: usize = 256;

/// How much of an even share of the requests in flight a node gets, in percent, before keys go to their next owner: the
/// value that HAProxy's documentation suggests (`hash-balance-factor`).
pub const CACHE_PEER_LOAD_PERCENT: u32 = 125;

/// Requests in flight at a node that do not count for that: with a handful of requests every share is uneven, and a key
/// that moves is fetched twice.
pub const CACHE_PEER_LOAD_FREE: usize = 32;

/// How long a purge waits for its storage; a call of the storage itself takes five seconds at most.
pub const CACHE_PURGE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one call of an etcd that lists upstreams may take: at the start of a server so long, and as long again without a
/// quorum, requests wait for the first list before the copy of this node stands in.
pub const SOURCE_ETCD_TIMEOUT: Duration = Duration::from_secs(1);

/// How often the thread that follows a prefix of etcd looks whether a configuration still uses it.
pub const SOURCE_ETCD_LOOK: Duration = Duration::from_secs(1);

/// The pauses between attempts to reach an etcd that is away; each is twice as long as the one before.
pub const SOURCE_ETCD_PAUSE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(2);

/// Keys below the prefix of one source: four times the upstreams that are used, for values that are not upstreams. More are a
/// mistake in the prefix.
pub const SOURCE_ETCD_KEYS_MAX: usize = 1024;

/// Values that are read together; each may be as large as a store allows.
pub const SOURCE_ETCD_KEYS_AT_ONCE: usize = 16;
