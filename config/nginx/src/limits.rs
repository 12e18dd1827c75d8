//! All limits of the front end, each with the reason for its value.

/// Blocks inside blocks. Real files stay below ten; the parser recurses, so the stack sets the bound, and this stays far
/// below it.
pub const BLOCK_DEPTH_MAX: usize = 64;

/// Includes inside includes, for the same reasons.
pub const INCLUDE_DEPTH_MAX: usize = 32;

/// Files that includes may bring: ten thousand sites with a file each, and what they share. A file that includes itself
/// twice would otherwise double without end.
pub const INCLUDES_MAX: usize = 40_000;

/// Words that all files may have together; ten thousand sites of a hundred words each.
pub const WORDS_MAX: usize = 2_000_000;

/// Groups of upstreams that an address with variables may mean. Each is lowered for each such address, so files grow with the
/// product of both; real ones have a few dozen.
pub const GROUPS_BY_VARIABLE_MAX: usize = 1000;

/// Bytes of one word. nginx reads its files through a buffer of 4 KiB, and no word is longer.
pub const WORD_BYTES_MAX: usize = 4096;

/// Variables in one text. More of them are a mistake in a generated file.
pub const VARIABLES_MAX: usize = 100;

/// Ports of one `listen` with a range: each is a socket for each worker, and a mistyped range would take all there are.
pub const LISTEN_PORTS_MAX: usize = 1024;

/// Bytes of a health check response that `match` examines, as nginx documents.
pub const HEALTH_RESPONSE_BYTES_MAX: i64 = 256 * 1024;
