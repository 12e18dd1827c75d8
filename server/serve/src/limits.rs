//! The limits of this package, each with the reason for its number.

use std::time::Duration;

/// Bytes of a request's body that `{http.request.body}` shows. It is meant for small forms and messages; of a larger
/// body it is the beginning, and the whole body still goes on to whoever reads it.
pub const BODY_TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Rounds of `invoke` and nested lists in one request: a named route may call itself.
pub const FRAMES_MAX: usize = 64;

/// What is collected of a request's body whose length is not told, where it has to be told to a FastCGI application
/// and `request_buffers` says no more. As much as a buffer for bodies under way has; Caddy takes 4 KiB.
pub const CGI_BODY_BYTES_MAX: usize = 64 * 1024;

/// Bytes of the answer to a health check that are looked at where nobody says how many; a page that says "ok" has a
/// few.
pub const HEALTH_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Sources of upstreams in one `dynamic multi`: each may be waited for.
pub const SOURCES_MAX: usize = 16;

/// How long the upstreams that DNS names are used where neither the configuration nor the records say a shorter
/// time; Caddy's number.
pub const SOURCE_LIFETIME: Duration = Duration::from_secs(60);

/// The shortest such time: records of lifetime zero would mean a question for each request.
pub const SOURCE_LIFETIME_MIN: Duration = Duration::from_secs(1);

/// How long upstreams are used after DNS servers fell silent. A name that is known to be gone is dropped at once.
pub const SOURCE_STALE_MAX: Duration = Duration::from_secs(3600);

/// The pause after a question that was not answered.
pub const SOURCE_PAUSE: Duration = Duration::from_secs(1);

/// Servers that one name of a group stands for; a service of more is shared out by others before.
pub const PEERS_OF_NAME_MAX: usize = 256;

/// How long the first request of a group waits for the addresses of all its names where some servers are known. A DNS
/// server answers within milliseconds; one that does not should hold up nobody.
pub const FIRST_ADDRESSES_WAIT: Duration = Duration::from_secs(1);

/// Sessions of servers that one group remembers; each takes about a hundred bytes.
pub const SESSIONS_MAX: usize = 1_000_000;

/// How long a session is remembered that nobody goes on with, where nobody sets another time; nginx's number.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(600);

/// Names that a source remembers, where placeholders make several of one.
pub const SOURCE_NAMES_MAX: usize = 256;

/// The longest name that is asked for (RFC 1035, section 2.3.4, written with dots).
pub const NAME_BYTES_MAX: usize = 253;

/// Upstreams that one directive remembers for addresses with placeholders; that unused longest makes room. Each takes
/// about a kilobyte, and clients may name as many as they like.
pub const NAMED_UPSTREAMS_MAX: usize = 1024;

/// Redirects that a health check follows; Go's and Caddy's number.
pub const HEALTH_REDIRECTS_MAX: usize = 10;

/// Bytes of a request's body that are kept for another try, where there may be one. Forms and calls of programs fit;
/// ten thousand requests under way hold no more than 640 MB, and those are all being retried.
pub const REPLAY_BYTES_MAX: usize = 64 * 1024;

/// What may be taken of an answer's body at a time where the configuration says (`read_buffer`). Less than a page costs
/// more calls of the system than it carries; more would let a thousand slow clients hold gigabytes.
pub const READ_BUFFER_BYTES: std::ops::RangeInclusive<usize> = 4 * 1024..=1024 * 1024;

/// What a tunnel may take at a time in each direction where the configuration says: smaller pieces cost more calls of the
/// system than they carry, and a thousand tunnels with larger ones would hold gigabytes.
pub const STREAM_BUFFER_BYTES: std::ops::RangeInclusive<usize> = 512..=1024 * 1024;

/// The share in a thousand of its turns that an upstream gets at the beginning of its slow start: enough to show
/// whether it is well.
pub const SLOW_START_SHARE_MIN: f64 = 100.0;

/// Memory of one zone of `rate_limit`: some 400,000 clients with a few requests each. Beyond it those that were not heard
/// of for longest are forgotten.
pub const RATE_ZONE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Parts of a zone, each with a lock of its own: a few for each worker of a large machine.
pub const RATE_SHARDS: usize = 16;

/// Bytes of a key that are kept as they are: an address and a path fit, and a client cannot fill a zone with a few
/// giant fields.
pub const RATE_KEY_BYTES_MAX: usize = 256;

/// How long a request waits for a place behind `in_flight` where the configuration does not say. People have gone by
/// then, and programs ask again.
pub const FLIGHT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a key of `in_flight` that count; an address or a name fits.
pub const FLIGHT_KEY_BYTES_MAX: usize = 256;

/// How long results count for a circuit breaker where the configuration does not say; that of well-known libraries.
pub const BREAKER_WINDOW: Duration = Duration::from_secs(10);

/// Results below which a circuit breaker concludes nothing: one of two requests gone wrong is chance.
pub const BREAKER_REQUESTS_MIN: u32 = 20;

/// How long a circuit breaker stays open; the number of Caddy's old module.
pub const BREAKER_TRIP: Duration = Duration::from_secs(5);

/// Bytes of an answer that several requests share (`coalesce`): it is collected first, so it should be short. Pages and
/// answers of programs fit.
pub const COALESCE_BYTES_MAX: usize = 256 * 1024;

/// Kinds of requests under way that others may join; clients may invent as many as they like.
pub const COALESCE_KEYS_MAX: usize = 4096;

/// Requests that wait for one answer; further ones ask for themselves.
pub const COALESCE_FOLLOWERS_MAX: usize = 1024;

/// Routes of one list that an explanation tells one by one as passed by; the rest is counted. A dozen fits on a screen,
/// and a file may have ten thousand sites.
pub const PASSED_TOLD_MAX: usize = 12;

/// Bytes of a text body that an explanation shows.
pub const BODY_SHOWN_BYTES_MAX: usize = 200;

/// How long a proxy in front may take for its header where nobody sets another time: it is the first thing it sends.
/// Caddy's number.
pub const PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses in a `trust_pool http`: each is waited for when the configuration is read.
pub const TRUST_ENDPOINTS_MAX: usize = 16;

/// How often an answer goes on that is sent at a rate (`limit_rate`): four times a second it moves visibly, and ten thousand
/// slow ones wake a worker as often as ten thousand requests in a quarter of a second would.
pub const RATE_STEP: Duration = Duration::from_millis(250);

/// Bytes of a file that is sent at a rate which are read at a time.
pub const RATED_READ_BYTES: u64 = 64 * 1024;

/// Entries of a folder in the list that `autoindex` makes of it. The page has a few hundred bytes for each, and a folder
/// with more is not looked through by people.
pub const AUTOINDEX_ENTRIES_MAX: usize = 20_000;

/// How deep trust pools, and folders of certificates, are nested.
pub const TRUST_POOLS_NESTED_MAX: usize = 8;

/// How often one request waits for others that fill the same place, each of which may fail: its time to wait ends long
/// before that.
pub const CACHE_TURNS_MAX: usize = 1000;

/// How long a request that waits for others waits at least until it looks again: the coarse clock lags by more than that.
pub const CACHE_LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Answers that one worker reads on for its cache without a client. More would let clients that leave at once keep many
/// connections to upstreams busy.
pub const CACHE_LEFT_MAX: usize = 256;

/// What waits in memory of an answer that is stored while its client takes it slowly, twice at most: what nginx's usual
/// buffers of an upstream hold. More waits in the file that it is stored in.
pub const CACHE_AHEAD_BYTES_MAX: usize = 64 * 1024;

/// How much of one answer is stored in one go before others of its worker have their turn: a few milliseconds' worth.
pub const CACHE_PUMP_BYTES: usize = 1024 * 1024;

/// After what time stored answers are removed that nobody asked for: nginx's own.
pub const CACHE_INACTIVE: Duration = Duration::from_secs(600);

/// The least memory of the index of a cache: nginx's own, eight pages of usual size.
pub const CACHE_INDEX_BYTES_MIN: usize = 32 * 1024;

/// How many files are looked at in one go when the index of a cache is loaded, and the pause after that: nginx's own.
pub const CACHE_LOADER: (usize, Duration) = (100, Duration::from_millis(50));

/// Bytes of an answer that `gunzip` unpacks at a time, whatever they were packed in: a few kilobytes may hold a gigabyte.
pub const GUNZIP_PIECE_BYTES: usize = 16 * 1024;

/// Bytes of a request's body that `mirror` sends along. They are collected first; nginx's usual `client_max_body_size`. A
/// request with a longer body has no copy: half of one would be another request.
pub const MIRROR_BODY_BYTES_MAX: usize = 1024 * 1024;

/// Copies of requests that one worker has under way. Where their upstream is slower than what is answered to clients, the
/// others are left out, so that it cannot fill the memory.
pub const MIRRORS_MAX: usize = 1024;

/// Bytes of bodies that one worker holds for copies of requests.
pub const MIRROR_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of the answer to a copy that are read and thrown away, so that the connection it came by is of further use. The
/// rest of a longer one is not worth reading: its connection is closed.
pub const MIRROR_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How often a worker tells of copies that it left out.
pub const MIRROR_TOLD_EVERY: Duration = Duration::from_secs(10);

/// Answers that are included one in the other: real pages stay below five, and each takes a piece of the stack. nginx's number
/// is 50.
pub const SSI_DEPTH_MAX: u8 = 20;

/// Answers that are included in one answer, all in all: a page that includes itself twice would have a million at that depth.
pub const SSI_INCLUDES_MAX: u32 = 1000;

/// Parts of a page that wait to be sent, and so includes that are asked for at a time.
pub const SSI_AHEAD_MAX: usize = 16;

/// Bytes of a page that wait to be sent while an include in front of them is asked for.
pub const SSI_AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes of an answer that becomes the value of a variable: nginx's usual `subrequest_output_buffer_size` is a page of memory;
/// this is as long as any text with variables may become.
pub const SSI_SET_BYTES_MAX: usize = 64 * 1024;

/// Bytes of variables and blocks that the pages of one answer keep.
pub const SSI_KEPT_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a page that are read in one go where nothing of them is sent: a few milliseconds of work.
pub const SSI_TURN_BYTES: usize = 256 * 1024;

/// Bytes of a request that wait in memory before a temporary file is used, where `client_body_buffer_size` does not say
/// otherwise: one buffer for bodies. nginx takes 16 KiB; a body of a few pages is not worth a file.
pub const BUFFER_REQUEST_BYTES: u64 = 64 * 1024;

/// Bytes of a response that wait in memory before a temporary file is used where no `*_buffers` say otherwise: nginx's
/// `4k` for the head and `8 4k`.
pub const BUFFER_RESPONSE_BYTES: u64 = 36 * 1024;

/// Responses that say they are no longer than this need not wait: they come with their head, or fit into one piece.
pub const BUFFER_RESPONSE_BYTES_MIN: u64 = 8 * 1024;

/// Bytes that are collected for one write to a temporary file where `*_temp_file_write_size` does not say otherwise: one
/// buffer for bodies. nginx takes 16 KiB; here each write goes through another thread.
pub const BUFFER_WRITE_BYTES: u64 = 64 * 1024;

/// What may be collected for one write: less costs more calls of the system than it carries, more is memory of each body
/// that waits.
pub const BUFFER_WRITE_BYTES_RANGE: std::ops::RangeInclusive<u64> = 4 * 1024..=1024 * 1024;

/// Bytes of a response in its temporary file where `*_max_temp_file_size` does not say otherwise; nginx's number. Beyond
/// it the upstream waits.
pub const BUFFER_FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Bytes that are read from a temporary file at a time.
pub const BUFFER_PIECE_BYTES: usize = 64 * 1024;

/// The smallest buffer of bytes that wait: a page.
pub const BUFFER_PIECE_BYTES_MIN: usize = 4 * 1024;

/// Bytes that are read ahead of one body before others of its worker have their turn.
pub const BUFFER_TURN_BYTES: usize = 256 * 1024;

/// The pause between two log lines about bodies that cannot wait: a full disk fails for each of them.
pub const BUFFER_TOLD_EVERY: Duration = Duration::from_secs(10);
