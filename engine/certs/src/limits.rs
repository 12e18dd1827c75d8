//! The limits of this package, each with the reason for its number.

use std::time::Duration;

/// Maximum size of a certificate or key file: a chain of a hundred certificates is far below it.
pub const PEM_BYTES_MAX: u64 = 1024 * 1024;

/// Upper limit for the cache of certificates with variable paths: some ten kilobytes each.
pub const NAMED_KEPT_MAX: usize = 100_000;

/// Handshakes that wait for such certificates to be read: a file is read within a millisecond, but a slow disk causes a
/// queue.
pub const NAMED_WAITING_MAX: usize = 4096;

/// Threads that read such certificates for one policy.
pub const NAMED_THREADS_MAX: usize = 4;

/// Passwords in one password file: each is tried for every key, and key derivation is slow by design.
pub const PASSWORDS_MAX: usize = 64;

/// Maximum length of a key password, as in nginx.
pub const PASSWORD_BYTES_MAX: usize = 4095;

/// Maximum number of PBKDF2 iterations for one password: OpenSSL uses 2048, careful users a million, and this many take
/// ten seconds.
pub const PBKDF2_ROUNDS_MAX: u32 = 10_000_000;

/// Certificates in one chain; real chains have three or four, and each costs bytes in every handshake.
pub const CHAIN_CERTIFICATES_MAX: usize = 32;

/// Lifetime of a root certificate, as in Caddy: each new one has to be installed in trust stores by hand.
pub const ROOT_LIFETIME: Duration = Duration::from_secs(3600 * 24 * 30 * 12 * 10);

/// Lifetime of an intermediate certificate, as in Caddy.
pub const INTERMEDIATE_LIFETIME: Duration = Duration::from_secs(3600 * 24 * 7);

/// Lifetime of a certificate issued by the local CA, as in Caddy.
pub const LEAF_LIFETIME: Duration = Duration::from_secs(3600 * 12);

/// The fraction of the lifetime that remains when renewal starts.
pub const RENEWAL_SHARE: f64 = 1.0 / 3.0;

/// New certificates are valid from this much before their creation, for clients whose clock is slow.
pub const BACKDATE: Duration = Duration::from_secs(60);

/// The pause after the first failed renewal; each further failure doubles it.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_secs(60);

/// Maximum pause between two attempts: the last third of a leaf's lifetime still has room for four of them.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The fraction of the lifetime over which renewals are spread, so that certificates issued together are not renewed
/// together.
pub const JITTER_SHARE: f64 = 0.05;

/// Maximum sleep of the maintenance thread: the machine's clock may be set meanwhile.
pub const MAINTENANCE_PAUSE_MAX: Duration = Duration::from_secs(600);

/// Notices queued until they are logged; beyond it the oldest is dropped.
pub const NOTICES_MAX: usize = 100;

/// Concurrent orders. Each is a thread that mostly waits; more would only run into the rate limits of the CA.
pub const ORDERS_MAX: usize = 8;

/// Default timeout of one order: CAs validate within seconds, or with DNS within a minute or two.
pub const ORDER_TIMEOUT: Duration = Duration::from_secs(180);

/// Timeout of one order with ZeroSSL's own API: it usually issues within a minute or two.
pub const ZEROSSL_TIMEOUT: Duration = Duration::from_secs(300);

/// The first pause between two polls of an order with ZeroSSL's own API; each further one is 1.5 times as long.
pub const ZEROSSL_PAUSE_MIN: Duration = Duration::from_millis(500);

/// The maximum of this pause, which in Caddy is the only one: shorter pauses burden the service without benefit.
pub const ZEROSSL_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Maximum length, in characters, of ZeroSSL's error details in messages: a line or two of a log.
pub const ZEROSSL_DETAILS_MAX: usize = 400;

/// Total time for downloading the certificates of a `trust_pool http`: loading the configuration waits for them.
pub const PUBLISHED_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a TLS secrets log: the secrets of some hundred thousand connections. It is for debugging, and must
/// not fill the disk of a server where it was forgotten.
pub const SECRETS_LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Maximum pause between two orders for a name that a CA has refused: about ten a day at most, in line with the rate
/// limits of public CAs.
pub const ORDER_PAUSE_MAX: Duration = Duration::from_secs(6 * 3600);

/// The first pause if a CA cannot be reached: often our own network is not up yet at startup.
pub const UNREACHABLE_PAUSE_MIN: Duration = Duration::from_secs(5);

/// Retries of an order whose nonce has become stale (RFC 8555, section 6.5), in addition to the retries within one
/// order.
pub const STALE_NONCES_MAX: usize = 5;

/// Maximum pause while a CA cannot be reached at all: the attempt costs it next to nothing, and a name waits for its
/// certificate.
pub const UNREACHABLE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Maximum `Retry-After` that is respected; the longest in use is a week, for some rate limits.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600 * 24 * 7);

/// How often a CA is queried for renewal information (RFC 9773), unless it specifies an interval.
pub const ADVICE_PAUSE: Duration = Duration::from_secs(6 * 3600);

/// Minimum interval of these queries (RFC 9773, section 4.3.2 requires a lower limit).
pub const ADVICE_PAUSE_MIN: Duration = Duration::from_secs(60);

/// Maximum interval of these queries (RFC 9773, section 4.3.2: a day).
pub const ADVICE_PAUSE_MAX: Duration = Duration::from_secs(3600 * 24);

/// When this fraction of the lifetime remains, a certificate is renewed whatever the CA suggests.
pub const EMERGENCY_SHARE: f64 = 0.05;

/// Maximum size of a lock or challenge file; both have a few hundred bytes.
pub const SMALL_FILE_BYTES_MAX: u64 = 16 * 1024;

/// Active challenges at a time, for all orders.
pub const CHALLENGES_MAX: usize = 256;

/// Timeout for one client of a listener that only responds to challenges.
pub const CHALLENGE_CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of the `ask` endpoint, as in Caddy.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// On-demand certificates held in memory, as in Caddy; beyond it the oldest is dropped, and loaded from storage when it
/// is needed again.
pub const ON_DEMAND_MAX: usize = 10_000;

/// Names for which an on-demand certificate is being obtained or queued. Clients requesting further names get no
/// certificate.
pub const ON_DEMAND_NAMES_MAX: usize = 256;

/// Handshakes that wait for one name.
pub const ON_DEMAND_WAITERS_MAX: usize = 256;

/// Threads that obtain on-demand certificates.
pub const ON_DEMAND_THREADS_MAX: usize = 8;

/// How long a refused or failed name is not tried again: clients can request it as often as they like.
pub const ON_DEMAND_PAUSE: Duration = Duration::from_secs(10);

/// Timeout of an endpoint that provides certificates: as long as a handshake may take.
pub const SOURCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of the Tailscale daemon, as in Caddy: it may have to order the certificate first.
pub const TAILSCALE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a certificate from an endpoint is served before it is requested again, in the background: soon enough to
/// notice a replacement or withdrawal, seldom enough to cost the endpoint nothing.
pub const SOURCE_PAUSE: Duration = Duration::from_secs(300);

/// Signature schemes and cipher suites of a client sent to an endpoint: real clients offer some dozens, and a
/// ClientHello has room for thousands.
pub const HELLO_NUMBERS_MAX: usize = 128;

/// Maximum depth of certificate directories; this also ends loops of symbolic links.
pub const FOLDER_DEPTH_MAX: usize = 8;

/// How often certificate files are checked for changes.
pub const FILES_PAUSE: Duration = Duration::from_secs(5);

/// How long an expired certificate is kept, as in Caddy: its name may be used again.
pub const CLEAN_GRACE: Duration = Duration::from_secs(14 * 24 * 3600);

/// Default interval of cleaning the storage, as in Caddy.
pub const CLEAN_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// Default interval of checking OCSP responses, as in Caddy.
pub const OCSP_PAUSE: Duration = Duration::from_secs(3600);

/// Minimum pause between two OCSP requests for one certificate, whatever the responder says.
pub const OCSP_PAUSE_MIN: Duration = Duration::from_secs(60);

/// Timeout of an OCSP responder: nothing waits for it.
pub const OCSP_TIMEOUT: Duration = Duration::from_secs(10);

/// How far the clock of a responder may be ahead of ours.
pub const OCSP_CLOCK_SKEW: Duration = Duration::from_secs(300);

/// Minimum interval of session ticket key rotation: with a shorter one, hardly any session would be resumed.
pub const TICKET_ROTATION_MIN: Duration = Duration::from_secs(60);

/// Default interval of session ticket key rotation. An attacker who obtains a key can decrypt the TLS 1.2 sessions
/// whose tickets it encrypted, so no key lives for a day; with Caddy's defaults, twelve hours and four keys, it lives
/// for two.
pub const TICKET_ROTATION: Duration = Duration::from_secs(6 * 3600);

/// Default number of session ticket keys: sessions can be resumed for twelve hours.
pub const TICKET_KEYS: usize = 3;

/// Maximum number of keys: each ticket is tried with all of them.
pub const TICKET_KEYS_MAX: usize = 64;

/// Maximum lifetime of a ticket (RFC 8446, section 4.6.1).
pub const TICKET_LIFETIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a key shared between instances is published before it is used. They check every [`FILES_PAUSE`], and some
/// clocks are slow.
pub const TICKET_KEY_LEAD: Duration = Duration::from_secs(30);

/// How long to wait for another instance that creates a key; it takes milliseconds.
pub const TICKET_LOCK_WAIT: Duration = Duration::from_secs(5);

/// Maximum early data (0-RTT) of a client: half of the default maximum for a request head, while most heads have a
/// twentieth of that. It is held in memory until the handshake ends.
pub const EARLY_DATA_BYTES_MAX: u32 = 16 * 1024;

/// Sessions cached by a policy with early data enabled; a client has two of about half a kilobyte. Clients whose
/// session was dropped perform a full handshake.
pub const EARLY_SESSIONS_MAX: usize = 10_000;

/// Policies whose session ticket secrets outlive a binary upgrade. Each server has one or a few; a secret takes about a
/// hundred bytes.
pub const TICKET_POLICIES_MAX: usize = 10_000;

/// Maximum length of the error of the last attempt that is kept for each managed certificate, in bytes.
pub const ERROR_BYTES_MAX: usize = 500;

/// How long an order waits between the announcement of its challenge by a shared store and telling the CA: watches of the
/// other nodes deliver within milliseconds of that of this one, and an order takes seconds anyway.
pub const CHALLENGE_SPREAD: Duration = Duration::from_millis(500);

/// How long an order waits for that announcement, which takes milliseconds unless nodes or the store are overloaded.
pub const CHALLENGE_SPREAD_MAX: Duration = Duration::from_secs(10);

/// How long the write of a new certificate is tried again while the storage is away: as long as a lock lasts that is not
/// renewed.
pub const STORING_MAX: Duration = Duration::from_secs(15);

/// The pause between two of these attempts.
pub const STORING_PAUSE: Duration = Duration::from_millis(250);

/// Pause before a storage that could not be followed is tried again.
pub const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

/// How long after a refused write the certificate of the node that has taken the lock over is looked for, unless it is
/// announced before: as soon as a storage that was away for a moment responds again.
pub const REFUSED_PAUSE: Duration = Duration::from_secs(5);

/// How long one wait for changes of the storage lasts; then it is checked whether anybody still needs them.
pub const FOLLOW_LOOK: Duration = Duration::from_secs(5);

/// How much older than the last look a certificate may be and still be read again after an interruption: the clocks of
/// nodes may differ by minutes.
pub const CATCH_UP_MARGIN: Duration = Duration::from_secs(15 * 60);

/// Challenges of other nodes that are older than this were left by a crash.
pub const CHALLENGE_AGE_MAX: Duration = Duration::from_secs(3600);
