//! Limits of handlers and filters, each with its rationale.

use std::time::Duration;

/// Bytes of the request body that `{http.request.body}` shows. It is meant for small forms and messages; a larger body
/// is truncated in the placeholder but still passes through unchanged.
pub const BODY_TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Memory of one `rate_limit` zone: some 400,000 clients with a few requests each. When it is full, the least recently
/// seen clients are evicted.
pub const RATE_ZONE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Shards of a zone, each with its own lock: a few for each worker of a large machine.
pub const RATE_SHARDS: usize = 16;

/// Bytes of a key that are stored verbatim: an address and a path fit, and a client cannot fill a zone with a few huge
/// header values.
pub const RATE_KEY_BYTES_MAX: usize = 256;

/// Default time that a request waits for the store of a shared limit: a server nearby replies within a millisecond, and
/// without it a request is hardly later than usual.
pub const STORE_DEADLINE: Duration = Duration::from_millis(5);

/// The longest time that a request may wait for the store of a shared limit; later than that, a limit has become an
/// outage.
pub const STORE_DEADLINE_MAX: Duration = Duration::from_secs(1);

/// The `Retry-After` of requests that are refused because the store of their limit is away.
pub const STORE_CLOSED_RETRY: Duration = Duration::from_secs(1);

/// Slices of a window in which leases are counted in the store: events stop counting at most a hundred-and-twenty-eighth
/// of the window late, and giving a lease back looks at no more.
pub const STORE_LEASE_SLICES: u64 = 128;

/// Default time that a request waits for a slot of `in_flight`. After that, users have left and programs have retried.
pub const FLIGHT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of an `in_flight` key that are significant; an address or a name fits.
pub const FLIGHT_KEY_BYTES_MAX: usize = 256;

/// How long the store keeps the slots of a node that does not renew them (`in_flight { distributed … }`, and
/// `limit_conn_zone … sync=` of an nginx.conf): so long the slots of a dead node are missing, and so long a node may be cut off
/// from the store without losing those of its requests.
pub const SLOT_LEASE: Duration = Duration::from_secs(10);

/// How often a node renews its slots: two attempts may fail before the lease ends.
pub const SLOT_RENEWAL: Duration = Duration::from_secs(3);

/// How long a slot may be unused before it goes back to the store: the next request of a busy client takes it without asking,
/// and other nodes do not miss it for long.
pub const SLOT_SWEEP: Duration = Duration::from_millis(100);

/// How long the store counts on it that a node wants slots after a request of the node asked in vain: so long others leave it
/// their part, and so long that part may be unused.
pub const SLOT_WANTED: Duration = Duration::from_secs(1);

/// How often a request that waits for a slot asks the store again: about as long as a slot that another node no longer uses
/// takes to come back. One that its own node frees wakes it at once.
pub const SLOT_RETRY: Duration = Duration::from_millis(100);

/// The longest name of slots that nodes share, in bytes: it is a part of keys in the store.
pub const SLOT_NAME_BYTES_MAX: usize = 128;

/// Default latency of requests under load that `overload adaptive` accepts: what users hardly notice.
pub const OVERLOAD_TARGET: Duration = Duration::from_millis(100);

/// Default time that a request waits with `overload queue`. A request that has waited for as long takes a slot that a
/// newer one could have used better.
pub const OVERLOAD_TIMEOUT: Duration = Duration::from_secs(1);

/// One in this many parts of its timeout is how long a request waits with `overload queue` once the queue no longer
/// empties.
pub const OVERLOAD_TIMEOUT_PART: u32 = 10;

/// Default number of requests that wait with `overload`: a few hundred bytes each, and more than are served in time.
pub const OVERLOAD_QUEUE: usize = 1_000;

/// The most requests that may wait with `overload`.
pub const OVERLOAD_QUEUE_MAX: usize = 100_000;

/// Default lowest limit of `overload adaptive`: one request more than an application serves at a time at least, so that
/// the next one is there when it ends.
pub const OVERLOAD_MIN: u32 = 2;

/// Default highest limit of `overload adaptive`.
pub const OVERLOAD_MAX: u32 = 10_000;

/// The shortest and longest `Retry-After` of requests that `overload` sheds, in seconds. It is random, so that clients do
/// not come back all at once.
pub const OVERLOAD_RETRY_SECONDS: std::ops::RangeInclusive<u64> = 1..=3;

/// A request body up to this size has arrived with its head. With a longer one, or one of unknown length, the client
/// decides how long the response takes, so its latency says nothing about the upstream.
pub const OVERLOAD_BODY_BYTES_MAX: u64 = 16 * 1024;

/// Default number of folder entries to read for a listing; Caddy's default.
pub const LISTING_ENTRIES_MAX: usize = 10_000;

/// Maximum size of a folder listing, in bytes. Ten thousand long names fit; anything larger is truncated.
pub const LISTING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Streams that one worker compresses simultaneously; further responses are not compressed. Each encoder takes up to a
/// megabyte, so this limits them to about 256 MB per worker regardless of the number of clients.
pub const ENCODERS_MAX: usize = 256;

/// Compressors for gzip that a worker keeps for later responses, each of about 270 KB. Responses of files and of fast
/// upstreams are compressed one after another, so one is enough for most of them.
pub const GZIP_KEPT_MAX: usize = 2;

/// Bodies up to this size are compressed in one go, so that `Content-Length` is known.
pub const ENCODE_AT_ONCE_BYTES_MAX: u64 = 64 * 1024;

/// Threads that verify passwords, for the whole process: each verification takes a core for a tenth of a second.
pub const PASSWORD_THREADS_MAX: usize = 4;

/// Verifications that may wait for a thread; beyond that the client has to retry. At a tenth of a second each, the last
/// one waits a few seconds.
pub const PASSWORD_QUEUE_MAX: usize = 64;

/// The highest accepted cost of a bcrypt hash in a user file: `htpasswd` does not create higher ones, and one
/// verification takes seconds.
pub const BCRYPT_COST_MAX: u32 = 17;

/// The highest accepted number of rounds of a SHA-crypt hash in a user file: two hundred times the default, which takes
/// a core for a second.
pub const SHA_CRYPT_ROUNDS_MAX: usize = 1_000_000;

/// Successful verifications that one worker caches for each `basic_auth`.
pub const PASSWORDS_REMEMBERED_MAX: usize = 1_000;

/// Maximum length of user name and password together; bcrypt itself ignores everything after 72 bytes.
pub const CREDENTIALS_BYTES_MAX: usize = 4 * 1024;

/// Maximum size of a page that is executed as a template, in bytes. The page is held in memory; the limit is that of
/// the template language.
pub const TEMPLATE_BYTES_MAX: usize = sluice_template::limits::SOURCE_BYTES_MAX;

/// Maximum nesting of pages included by templates. Each is a subrequest and uses stack while it waits.
pub const INCLUDE_DEPTH_MAX: usize = 10;

/// Maximum number of pages that templates include in one response, at all levels together.
pub const INCLUDES_MAX: u16 = 100;

/// ACME accounts at one local CA: each is a small file, and any client that can reach the server can create one.
pub const ACME_ACCOUNTS_MAX: usize = 10_000;

/// How long an account may be without orders when the table is full: a client that renews in time always has one.
pub const ACME_ACCOUNT_IDLE: Duration = Duration::from_secs(24 * 3600);

/// Orders stored for one CA. Each is a file of a few KiB, kept until its certificate has expired.
pub const ACME_ORDERS_MAX: usize = 20_000;

/// How often expired orders are searched for, which reads all of them.
pub const ACME_SWEEP_PAUSE: Duration = Duration::from_secs(600);

/// How long a client has to complete its challenges: long enough to wait for DNS.
pub const ACME_ORDER_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Orders included in the list of an account; the oldest are omitted.
pub const ACME_ORDERS_LISTED_MAX: usize = 100;

/// Identifiers in one order, as at public CAs.
pub const ACME_IDENTIFIERS_MAX: usize = 100;

/// Minimum certificate lifetime that a client may request, as in Caddy.
pub const ACME_LIFETIME_MIN: Duration = Duration::from_secs(5 * 60);

/// Maximum lifetime, as in Caddy; in most cases the issuer expires earlier.
pub const ACME_LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Nonces issued and not used yet; beyond it the oldest are dropped, and their holders retry.
pub const ACME_NONCES_MAX: usize = 10_000;

/// Maximum size of an ACME client's request: one with a hundred names is below 16 KiB.
pub const ACME_BODY_BYTES_MAX: usize = 64 * 1024;

/// Concurrent requests of ACME clients, each on a thread. Further ones are rejected with `Retry-After`.
pub const ACME_RESPONSES_MAX: usize = 16;

/// Concurrent validations, each on a thread that mostly waits.
pub const ACME_LOOKS_MAX: usize = 32;

/// Attempts at a validation before it fails.
pub const ACME_LOOKS: u32 = 3;

/// The pause between two attempts.
pub const ACME_LOOK_PAUSE: Duration = Duration::from_secs(2);

/// Timeout of one attempt.
pub const ACME_LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of an http-01 response; it has a few hundred bytes.
pub const ACME_PROOF_BYTES_MAX: usize = 4096;

/// Contact URLs of an account.
pub const ACME_CONTACTS_MAX: usize = 10;

/// Maximum length of a contact URL; an email address has at most 254 bytes.
pub const ACME_CONTACT_BYTES_MAX: usize = 264;
