//! Limits of what only an nginx.conf has, each with its rationale.

use std::time::Duration;

/// Interval between writes of a rate-limited response (`limit_rate`). Progress is smooth at four writes a second, and
/// ten thousand such responses wake a worker as often as forty thousand requests a second would.
pub const RATE_STEP: Duration = Duration::from_millis(250);

/// Bytes of a rate-limited file to read at a time.
pub const RATED_READ_BYTES: u64 = 64 * 1024;

/// Maximum number of entries in an `autoindex` page. Each takes a few hundred bytes, and people do not read longer
/// lists.
pub const AUTOINDEX_ENTRIES_MAX: usize = 20_000;

/// Bytes of output that `gunzip` produces at a time: a few kilobytes of input may expand to a gigabyte.
pub const GUNZIP_PIECE_BYTES: usize = 16 * 1024;

/// Maximum size of a request body that `mirror` copies, in bytes; nginx's default `client_max_body_size`. The body is
/// buffered first. A request with a longer body is not mirrored, because a truncated copy would be another request.
pub const MIRROR_BODY_BYTES_MAX: usize = 1024 * 1024;

/// Mirrored requests in flight per worker. If the mirror's upstream is slower than the real one, further copies are
/// dropped to bound memory.
pub const MIRRORS_MAX: usize = 1024;

/// Requests in flight per worker that follow others (`post_action`). Further ones are dropped to bound memory.
pub const POST_ACTIONS_MAX: usize = 1024;

/// Bytes of a request body written to a file or read from it at a time (`client_body_in_file_only`).
pub const BODY_FILE_PIECE_BYTES: usize = 64 * 1024;

/// Bytes of request bodies that one worker holds for mirrored requests.
pub const MIRROR_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of the response to a mirrored request that are read and discarded in order to reuse the connection. For a
/// longer response the connection is closed.
pub const MIRROR_RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// Interval between log messages of a worker about dropped copies.
pub const MIRROR_LOG_PAUSE: Duration = Duration::from_secs(10);

/// Maximum nesting of SSI includes. Real pages stay below five, and each level uses stack; nginx allows 50.
pub const SSI_DEPTH_MAX: u8 = 20;

/// Maximum number of includes in one response: a page that includes itself twice would reach a million at the maximum
/// depth.
pub const SSI_INCLUDES_MAX: u32 = 1000;

/// Parts of a page that may wait to be sent, and thereby the number of parallel includes.
pub const SSI_AHEAD_MAX: usize = 16;

/// Bytes of a page that may wait to be sent behind an unfinished include.
pub const SSI_AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Maximum size of a response that is stored in a variable (`include set`), in bytes. nginx's default
/// `subrequest_output_buffer_size` is one page; this equals the maximum length of an expanded text.
pub const SSI_SET_BYTES_MAX: usize = 64 * 1024;

/// Maximum size of the variables and blocks of the pages in one response, in bytes.
pub const SSI_KEPT_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a page to parse in one go if they produce no output: a few milliseconds of work.
pub const SSI_TURN_BYTES: usize = 256 * 1024;

/// Default size of a response buffered in memory before a temporary file is used (`*_buffers`): nginx's `4k` for the
/// head and `8 4k`.
pub const BUFFER_RESPONSE_BYTES: u64 = 36 * 1024;

/// Maximum size of a user file, in bytes: fifty thousand accounts. For more, use `auth_request`.
pub const USER_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// User files cached by one worker. Their names may contain variables, so clients may be able to choose many of them.
pub const USER_FILES_MAX: usize = 64;
