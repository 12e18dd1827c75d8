//! The named limits of this package, each with the reason for its value.

use core::time::Duration;

/// The pause before a server is tried again when failures have ejected all servers of a group, after its first failure;
/// it doubles with each further one. Short, because one connection reset must not cost seconds of errors.
pub const RECOVERY_PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest such pause. At one request a second, a server that accepts connections and never responds holds no more
/// requests than `proxy_connect_timeout` has seconds.
pub const RECOVERY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// How many other upstreams a request may be sent to because the connection to the first failed, in addition to the
/// attempts that `lb_retries` allows. So many failures in a row mean that all upstreams are down.
pub const FAILOVERS_MAX: u32 = 16;

/// How long after its first attempt a request may still be sent to another upstream for that reason. Three upstreams
/// that do not respond to a dial of 3 s (the default) leave time for a fourth.
pub const FAILOVER_TIME: Duration = Duration::from_secs(10);

/// Failures that passive health checks remember per upstream, and so the largest meaningful `max_fails`. Each takes
/// eight bytes. A configuration that tolerates more failures has no use for passive checks.
pub const FAILS_MAX: u32 = 1_000;

/// Upstreams that `random_choose` compares. Beyond a handful the gain over two is nil (the power of
/// two choices); the bound lets the sample live on the stack.
pub const CHOICES_MAX: usize = 32;

/// Fallback policies within one another: `cookie` on `header` on `query` on `random` is already
/// odd.
pub const FALLBACKS_MAX: usize = 8;

/// Retries for a hundred requests, unless the configuration says otherwise: they stay at a tenth of the requests.
pub const RETRY_BUDGET_PERCENT: u32 = 10;

/// Retries that may be saved up, so that a burst of failures after a calm hour cannot become a
/// storm.
pub const RETRIES_SAVED_MAX: u32 = 100;

/// Retries allowed before the first request has earned any, for servers with few requests.
pub const RETRIES_AT_START: u32 = 10;

/// Pieces into which a window is cut at most. Up to so many events each is remembered by itself; more would let one
/// key take megabytes. Each piece takes sixteen bytes, so a key takes 64 KiB at most, or twice that while it grows.
pub const SLICES_MAX: usize = 4_096;

/// Idle keys that go with each event: more than the one that may come with it, so that a zone shrinks.
pub const IDLE_DROPPED_AT_ONCE: usize = 3;

/// Parts of the window of a circuit breaker: results are forgotten a tenth of it too early or too late.
pub const BREAKER_CELLS: usize = 10;

/// Points on the ring of a group that hashes consistently: 160 for each unit of weight, eight bytes each. So weights of
/// 6,553 together, which tell servers apart as finely as anybody needs.
pub const RING_POINTS_MAX: usize = 1 << 20;

/// Places that a group looks at for one request where keys or chance lead it, before it goes round; nginx's number.
pub const LOOKS_MAX: usize = 21;

/// What of a transfer that is faster than the lowest rate counts later: as much as we take from a client, or hold for it,
/// at a time (a body buffer, the output of TLS), twice. At 240 bytes a second that is nine minutes.
pub const DATA_RATE_BURST_BYTES: u64 = 128 * 1024;

/// The shortest window in which an adaptive concurrency limit judges latencies: long enough for some requests to end,
/// and short enough to react before clients notice.
pub const LATENCY_WINDOW: Duration = Duration::from_millis(100);

/// Requests that have to end in such a window: the median of fewer says little.
pub const LATENCY_SAMPLES_MIN: usize = 10;

/// Latencies that such a window holds, sixteen bytes each: the median of more is hardly more exact.
pub const LATENCY_SAMPLES_MAX: usize = 256;

/// The concurrency limit before anything was measured, which doubles with each window: most applications serve as many,
/// and one that serves fewer has worked on these before its clients give up.
pub const LIMIT_AT_START: u32 = 50;

/// How long a measured latency without load counts, once more as part of the previous epoch: after a deployment the
/// latency is another one.
pub const UNLOADED_EPOCH: Duration = Duration::from_secs(30);

/// The shares of the memory limit, in percent, at which the measures of memory pressure begin. The last one leaves room
/// for what requests in flight still allocate before the next sample.
pub const MEMORY_PRESSURE_PERCENT: [u64; 4] = [70, 80, 85, 90];

/// How far below its share, in percent of the limit, a measure of memory pressure ends: more than memory use changes from
/// one sample to the next while nothing happens.
pub const MEMORY_HYSTERESIS_PERCENT: u64 = 5;

/// A latency moves the running median of a group by one in this many parts: some hundred requests after a change it is
/// the new median, and a single one hardly counts.
pub const TYPICAL_STEP_PARTS: u64 = 64;

/// Latencies of a group before any of them is called an outlier.
pub const TYPICAL_LATENCIES_MIN: u64 = 20;

/// One in this many parts of a shared limit is the largest batch that a node leases: so much it may hold unused while another
/// refuses requests, and so much it may allow later than it was counted. Three nodes stay within 3 %.
pub const LEASE_BATCH_PART: u32 = 100;

/// One in this many parts of a window is how long a lease lasts; what is left of it then goes back. The window of the nodes
/// together is at most so much longer than that of the store.
pub const LEASE_LIFE_PART: u32 = 16;

/// The longest lease: with long windows, a client that has left must not keep what others could use.
pub const LEASE_LIFE_MAX: core::time::Duration = core::time::Duration::from_secs(1);

/// How long a node that did not respond is left out before one request finds out whether it is back. A node that restarts
/// needs about so long, and its share of the requests is served by others meanwhile.
pub const NODE_PAUSE: Duration = Duration::from_secs(2);

/// Requests in a row without a response in time after which a node counts as away: one or two may be slow because of
/// what they ask for.
pub const NODE_SILENCES_MAX: u32 = 3;
