//! All limits of the front end, each with the reason for its value.

/// Bytes of one configuration file. A hundred times the largest real ones; a device or a log given
/// by mistake is refused instead of read to its end.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// Bytes of one file after environment variables are put in, so that a large value used often
/// cannot fill memory.
pub const SUBSTITUTED_BYTES_MAX: usize = 2 * FILE_BYTES_MAX;

/// Blocks inside blocks. Real files stay below ten; the parser recurses, so the stack sets the
/// bound, and this stays far below it.
pub const BLOCK_DEPTH_MAX: usize = 64;

/// Imports inside imports, for the same reasons.
pub const IMPORT_DEPTH_MAX: usize = 32;

/// Words that imports may bring. Ten thousand sites of a hundred words each; a few snippets that
/// import each other twice would otherwise double without end.
pub const WORDS_MAX: usize = 1_000_000;

/// Bytes of a word that count as one of these words: a longer one counts for several, since
/// arguments can double in length as snippets do in number.
pub const WORD_BYTES: usize = 64;
