//! The limits of this package, each with the reason for its number.

use std::time::Duration;

/// The largest certificate or key file that is read: a chain of a hundred certificates is far below it.
pub const PEM_BYTES_MAX: u64 = 1024 * 1024;

/// Pairs with names by variables that are kept, whatever the configuration says: some ten kilobytes each.
pub const NAMED_KEPT_MAX: usize = 100_000;

/// Handshakes that wait for such pairs to be read: a file is read within a millisecond, a slow disk makes a crowd.
pub const NAMED_WAITING_MAX: usize = 4096;

/// Threads that read such pairs for one policy.
pub const NAMED_THREADS_MAX: usize = 4;

/// Passwords in one file of them: each is tried on every key, and stretching one takes milliseconds on purpose.
pub const PASSWORDS_MAX: usize = 64;

/// The longest password of a key, as in nginx.
pub const PASSWORD_BYTES_MAX: usize = 4095;

/// Rounds of PBKDF2 for one password; OpenSSL makes 2048, careful people a million, and this many take ten seconds.
pub const PBKDF2_ROUNDS_MAX: u32 = 10_000_000;

/// Certificates in one chain; real ones have three or four, and each costs every handshake bytes.
pub const CHAIN_CERTIFICATES_MAX: usize = 32;

/// How long to wait for another process that writes to the same storage; writing takes milliseconds.
pub const STORAGE_LOCK_WAIT: Duration = Duration::from_secs(10);

/// The pause between two looks at a storage lock that is taken.
pub const STORAGE_LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The lifetime of a root, as Caddy's: browsers and systems have to be told about each new one by hand.
pub const ROOT_LIFETIME: Duration = Duration::from_secs(3600 * 24 * 30 * 12 * 10);

/// The lifetime of an intermediate, as Caddy's.
pub const INTERMEDIATE_LIFETIME: Duration = Duration::from_secs(3600 * 24 * 7);

/// The lifetime of a certificate of the internal issuer, as Caddy's.
pub const LEAF_LIFETIME: Duration = Duration::from_secs(3600 * 12);

/// The share of a lifetime that is left when a renewal starts.
pub const RENEWAL_SHARE: f64 = 1.0 / 3.0;

/// New certificates are valid from this much before they were made, for clients whose clock is late.
pub const BACKDATE: Duration = Duration::from_secs(60);

/// The pause after the first failed renewal; each further failure doubles it.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_secs(60);

/// The longest pause between two attempts: a third of a leaf's remaining time still holds four of them.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The share of a lifetime over which renewals are spread, so that certificates made together are not renewed
/// together.
pub const JITTER_SHARE: f64 = 0.05;

/// The longest the maintenance sleeps: the clock of the machine may be set meanwhile.
pub const MAINTENANCE_PAUSE_MAX: Duration = Duration::from_secs(600);

/// Notices kept until somebody takes them; beyond it the oldest is dropped.
pub const NOTICES_MAX: usize = 100;

/// Orders under way at once. Each is a thread that mostly waits; more would only meet the limits of the authority.
pub const ORDERS_MAX: usize = 8;

/// How long one order may take where the configuration does not say: authorities validate within seconds, DNS
/// within a minute or two.
pub const ORDER_TIMEOUT: Duration = Duration::from_secs(180);

/// How long one order by ZeroSSL's own interface may take: it issues within a minute or two, and at times is slower.
pub const ZEROSSL_TIMEOUT: Duration = Duration::from_secs(300);

/// The first pause between two looks at an order by ZeroSSL's own interface; each further one is longer by half.
pub const ZEROSSL_PAUSE_MIN: Duration = Duration::from_millis(500);

/// The longest, as Caddy's only one: more often is a burden to them without a use for anybody.
pub const ZEROSSL_PAUSE_MAX: Duration = Duration::from_secs(5);

/// The characters of a refusal's details by ZeroSSL that are told: a line or two of a log.
pub const ZEROSSL_DETAILS_MAX: usize = 400;

/// How long one request to an authority may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the certificates of a `trust_pool http` may take in all: a configuration waits for them.
pub const PUBLISHED_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest file of TLS secrets: those of some hundred thousand connections. It is for finding a mistake, and must
/// not fill the disk of a server where it was forgotten.
pub const SECRETS_LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The largest answer of an authority that is read; certificate chains are a few KiB.
pub const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// The longest pause between two orders for one name that an authority has refused: at most about ten a day, as
/// the limits of public authorities ask for.
pub const ORDER_PAUSE_MAX: Duration = Duration::from_secs(6 * 3600);

/// The first pause where an authority cannot be reached: often it is our own network that is late at start.
pub const UNREACHABLE_PAUSE_MIN: Duration = Duration::from_secs(5);

/// Orders begun again at once because the authority's nonce had gone stale (RFC 8555, section 6.5), beyond the
/// retries within one.
pub const STALE_NONCES_MAX: usize = 5;

/// The longest pause while an authority cannot be reached at all: looking costs it next to nothing, and a name
/// without certificate waits.
pub const UNREACHABLE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// The longest that an authority's Retry-After is believed; the largest in use is a week for some rate limits.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600 * 24 * 7);

/// How often an authority is asked when to renew (RFC 9773) where it does not say, and at most and at least.
pub const ADVICE_PAUSE: Duration = Duration::from_secs(6 * 3600);

/// The shortest pause between two questions when to renew (RFC 9773, section 4.3.2, asks for a lower limit).
pub const ADVICE_PAUSE_MIN: Duration = Duration::from_secs(60);

/// The longest (RFC 9773, section 4.3.2: a day).
pub const ADVICE_PAUSE_MAX: Duration = Duration::from_secs(3600 * 24);

/// The share of a lifetime at whose end a certificate is renewed whatever the authority advises.
pub const EMERGENCY_SHARE: f64 = 0.05;

/// A lock of another process that was not touched for this long is stale, as in Caddy.
pub const LOCK_STALE: Duration = Duration::from_secs(10);

/// How often the holder of a lock touches it, as in Caddy.
pub const LOCK_TOUCH: Duration = Duration::from_secs(5);

/// The pause between two looks at a lock that another process holds, as in Caddy.
pub const LOCK_PAUSE: Duration = Duration::from_secs(1);

/// The largest file of a lock or a challenge that is read; both are some hundred bytes.
pub const SMALL_FILE_BYTES_MAX: u64 = 16 * 1024;

/// Challenges that can be answered at once, over all orders.
pub const CHALLENGES_MAX: usize = 256;

/// How long a listener that only answers challenges waits for one client.
pub const CHALLENGE_CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long whoever gives permission for a certificate may take to answer, as in Caddy.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// Certificates made during handshakes that are kept in memory, as in Caddy; the oldest goes, and is loaded from storage
/// when it is asked for again.
pub const ON_DEMAND_MAX: usize = 10_000;

/// Names that are being made during handshakes or wait for it. Clients for further names get no certificate.
pub const ON_DEMAND_NAMES_MAX: usize = 256;

/// Clients that wait for one name.
pub const ON_DEMAND_WAITERS_MAX: usize = 256;

/// Certificates made during handshakes at once.
pub const ON_DEMAND_THREADS_MAX: usize = 8;

/// How long a name that was refused or failed is not tried again: anybody can ask for it as often as they like.
pub const ON_DEMAND_PAUSE: Duration = Duration::from_secs(10);

/// How long an endpoint that hands out certificates may take: as long as a handshake may.
pub const SOURCE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the Tailscale daemon may take, as in Caddy: it may have to order the certificate first.
pub const TAILSCALE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a certificate that was handed out is shown before it is asked for again, in the background: soon enough to
/// notice one that was replaced or withdrawn, seldom enough that handshakes cost the endpoint nothing.
pub const SOURCE_PAUSE: Duration = Duration::from_secs(300);

/// Signature schemes and cipher suites of a client that an endpoint is told: real clients offer some dozens, and a hello
/// has room for thousands.
pub const HELLO_NUMBERS_MAX: usize = 128;

/// How deep folders of certificates are looked through; a link that leads back up ends there, too.
pub const FOLDER_DEPTH_MAX: usize = 8;

/// How often files of certificates are looked at for changes.
pub const FILES_PAUSE: Duration = Duration::from_secs(5);

/// The pause between two looks for a record in DNS.
pub const DNS_LOOK_PAUSE: Duration = Duration::from_secs(2);

/// How long a record in DNS is looked for where the configuration does not say, as in Caddy.
pub const DNS_LOOK_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a command that sets a record may take: most wait for their provider.
pub const EXEC_TIMEOUT: Duration = Duration::from_secs(120);

/// Accounts of ACME clients at one authority of ours: each is a small file, and anybody who can reach the server can
/// make one.
pub const ACME_ACCOUNTS_MAX: usize = 10_000;

/// How long an account stays without any order where there are too many: a client that renews in time has always one.
pub const ACME_ACCOUNT_IDLE: Duration = Duration::from_secs(24 * 3600);

/// Orders that one authority remembers. Each is a file of a few KiB, kept until its certificate has ended.
pub const ACME_ORDERS_MAX: usize = 20_000;

/// How often orders that have ended are looked for: it reads them all.
pub const ACME_SWEEP_PAUSE: Duration = Duration::from_secs(600);

/// How long a client has to prove that its names are its own: as much as it needs to wait for DNS.
pub const ACME_ORDER_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Orders of an account that are listed; the oldest are left out.
pub const ACME_ORDERS_LISTED_MAX: usize = 100;

/// Names in one order, as at public authorities.
pub const ACME_IDENTIFIERS_MAX: usize = 100;

/// The shortest life of a certificate that a client may ask for, as in Caddy.
pub const ACME_LIFETIME_MIN: Duration = Duration::from_secs(5 * 60);

/// The longest, as in Caddy; the signer ends earlier in most cases.
pub const ACME_LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Nonces given out and not used yet; beyond it the oldest are forgotten, and their holders ask again.
pub const ACME_NONCES_MAX: usize = 10_000;

/// The largest request of an ACME client: one with a hundred names is below 16 KiB.
pub const ACME_BODY_BYTES_MAX: usize = 64 * 1024;

/// Requests of ACME clients that are answered at once, each on a thread. Further ones are told to come again.
pub const ACME_ANSWERS_MAX: usize = 16;

/// Proofs that are looked for at once, each on a thread that mostly waits.
pub const ACME_LOOKS_MAX: usize = 32;

/// How often a proof is looked for before it counts as missing.
pub const ACME_LOOKS: u32 = 3;

/// The pause between two looks for a proof.
pub const ACME_LOOK_PAUSE: Duration = Duration::from_secs(2);

/// How long one look for a proof may take.
pub const ACME_LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest proof that is read over HTTP; it is some hundred bytes.
pub const ACME_PROOF_BYTES_MAX: usize = 4096;

/// Addresses that a client names for itself.
pub const ACME_CONTACTS_MAX: usize = 10;

/// The longest of them; an address for mail has at most 254 bytes.
pub const ACME_CONTACT_BYTES_MAX: usize = 264;

/// How long a certificate that has ended is kept, as in Caddy: its name may come back.
pub const CLEAN_GRACE: Duration = Duration::from_secs(14 * 24 * 3600);

/// How often the storage is cleaned where the configuration does not say, as in Caddy.
pub const CLEAN_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// How long a name server may take for one step of a dynamic update; it writes to its disk before it answers.
pub const DNS_UPDATE_TIMEOUT: Duration = Duration::from_secs(10);

/// How far the clocks of a name server and of ours may differ, in seconds, as RFC 8945, section 10, recommends.
pub const TSIG_FUDGE_SECONDS: u16 = 300;

/// How often answers of OCSP responders are looked at where the configuration does not say, as in Caddy.
pub const OCSP_PAUSE: Duration = Duration::from_secs(3600);

/// The shortest pause between two questions about one certificate, whatever a responder says.
pub const OCSP_PAUSE_MIN: Duration = Duration::from_secs(60);

/// How long a responder may take: nobody waits for it.
pub const OCSP_TIMEOUT: Duration = Duration::from_secs(10);

/// How far the clock of a responder may be ahead of ours.
pub const OCSP_CLOCK_SKEW: Duration = Duration::from_secs(300);

/// The shortest pause between two changes of the keys of session tickets: more often nothing would be resumed.
pub const TICKET_ROTATION_MIN: Duration = Duration::from_secs(60);

/// How often the keys of session tickets change where the configuration does not say. Whoever gets hold of a key can read
/// the sessions of TLS 1.2 that it sealed, so no key lives for a day; with Caddy's numbers, twelve hours and four keys, it
/// lives for two.
pub const TICKET_ROTATION: Duration = Duration::from_secs(6 * 3600);

/// The keys of session tickets that are kept where the configuration does not say: who comes again within twelve hours
/// resumes.
pub const TICKET_KEYS: usize = 3;

/// The most of them: each ticket is looked for among all.
pub const TICKET_KEYS_MAX: usize = 64;

/// How long a ticket is good for at most (RFC 8446, section 4.6.1).
pub const TICKET_LIFETIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a key that instances share is known before it is used. They look every [`FILES_PAUSE`], and some clocks are
/// late.
pub const TICKET_KEY_LEAD: Duration = Duration::from_secs(30);

/// How long to wait for another instance that makes a key; it takes milliseconds.
pub const TICKET_LOCK_WAIT: Duration = Duration::from_secs(5);

/// What a client may say before the end of its handshake: the longest head that is taken by default is twice as long, and
/// most have a twentieth of it. It is held in memory until then.
pub const EARLY_DATA_BYTES_MAX: u32 = 16 * 1024;

/// Sessions that a policy keeps where clients may speak before the end of the handshake; a client has two of about half a
/// kilobyte. Whoever is forgotten shakes hands in full.
pub const EARLY_SESSIONS_MAX: usize = 10_000;

/// Certificates of what a client shows that are looked at. OpenSSL takes chains of a hundred; real ones have three.
pub const CLIENT_CHAIN_MAX: usize = 16;

/// Authorities of one name that are tried for the signature of a certificate: one name has a few keys, each try costs a
/// verification, and clients choose the name.
pub const ISSUERS_TRIED_MAX: usize = 8;

/// The deepest that chains of clients are followed, whatever the configuration says.
pub const CLIENT_DEPTH_MAX: usize = CLIENT_CHAIN_MAX;
