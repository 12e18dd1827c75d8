//! Limits of handlers and filters that deal with files, each with its rationale.

/// Maximum number of names that a wildcard of a `file` matcher examines. Larger folders are served, but not searched on
/// each request.
pub const GLOB_ENTRIES_MAX: usize = 10_000;

/// Default number of folder entries to read for a listing; Caddy's default.
pub const LISTING_ENTRIES_MAX: usize = 10_000;

/// Maximum size of a folder listing, in bytes. Ten thousand long names fit; anything larger is truncated.
pub const LISTING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Streams that one worker compresses simultaneously; further responses are not compressed. Each encoder takes up to a
/// megabyte, so this limits them to about 256 MB per worker regardless of the number of clients.
pub const ENCODERS_MAX: usize = 256;

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

/// Maximum size of a user file, in bytes: fifty thousand accounts. For more, use `auth_request`.
pub const USER_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// User files cached by one worker. Their names may contain variables, so clients may be able to choose many of them.
pub const USER_FILES_MAX: usize = 64;

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
