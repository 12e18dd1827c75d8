//! The limits of handlers and filters around files, each with the reason for its number.

/// Names that one wildcard of a `file` matcher looks at. Folders with more are served, but not searched at each
/// request.
pub const GLOB_ENTRIES_MAX: usize = 10_000;

/// Entries of a folder that are read for its listing, where the configuration gives no number; Caddy's default.
pub const LISTING_ENTRIES_MAX: usize = 10_000;

/// Bytes of one folder listing as text. Ten thousand long names stay below it; whatever is larger is cut.
pub const LISTING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Streams that one worker compresses at the same time; further ones are sent as they are. Each encoder holds up
/// to a megabyte, so this bounds them to about 256 MB however many clients there are.
pub const ENCODERS_MAX: usize = 256;

/// A body up to this size is compressed in one go, so that its length is known.
pub const ENCODE_AT_ONCE_BYTES_MAX: u64 = 64 * 1024;

/// Passwords being checked at the same time in the whole process: each takes a core for a tenth of a second.
pub const PASSWORD_THREADS_MAX: usize = 4;

/// Checks that wait for a thread; beyond it a client is asked to come back. At a tenth of a second each the last
/// one waits a few seconds.
pub const PASSWORD_QUEUE_MAX: usize = 64;

/// The highest cost of a bcrypt hash in a user file: `htpasswd` makes none beyond, and one check takes seconds there.
pub const BCRYPT_COST_MAX: u32 = 17;

/// Rounds of a SHA-crypt hash in a user file: two hundred times the usual number, which takes a core for a second.
pub const SHA_CRYPT_ROUNDS_MAX: usize = 1_000_000;

/// Bytes of a user file: fifty thousand accounts. Whoever has more asks a program (`auth_request`).
pub const USER_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// User files that one worker keeps read. Their names may hold variables, so clients could have them be many.
pub const USER_FILES_MAX: usize = 64;

/// Successful checks that one worker remembers for each `basic_auth`.
pub const PASSWORDS_REMEMBERED_MAX: usize = 1_000;

/// The longest user name with password that is looked at; bcrypt itself ignores what follows 72 bytes.
pub const CREDENTIALS_BYTES_MAX: usize = 4 * 1024;

/// Bytes of a page that is run as a template. The whole page is in memory; more is what the language takes.
pub const TEMPLATE_BYTES_MAX: usize = sluice_template::limits::SOURCE_BYTES_MAX;

/// Pages within each other that templates ask the server for. Each takes a request of its own, and a part of the
/// stack while it waits.
pub const INCLUDE_DEPTH_MAX: usize = 10;

/// Pages that templates ask the server for to answer one request, those within each other together.
pub const INCLUDES_MAX: u16 = 100;
