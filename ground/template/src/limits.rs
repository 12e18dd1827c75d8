//! The limits of this package, each with the reason for its value. Templates are written by the site's operator, but
//! their data may come from a client: `repeat` with a number from the query must not block a worker.

/// Bytes of one template source. Pages that people write stay below a tenth of it.
pub const SOURCE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Steps of one compiled source. One takes 32 bytes, so this bounds a source to 8 MB.
pub const OPS_MAX: usize = 256 * 1024;

/// Blocks and parentheses within each other in a source; the parser recurses per level.
pub const NESTING_MAX: usize = 100;

/// Variables that are visible at one place of a source.
pub const VARIABLES_MAX: usize = 1_000;

/// Steps that one page may take, the templates it includes among them: about a tenth of a second.
pub const STEPS_MAX: usize = 2_000_000;

/// Bytes that one page may make, output and values in between together.
pub const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Templates that call and include each other at one time.
pub const CALLS_MAX: usize = 100;

/// Lists and maps within each other, where a function has to walk through all of them.
pub const DEPTH_MAX: usize = 100;

/// Columns and digits that `printf` fills up to.
pub const PRINTF_WIDTH_MAX: usize = 10_000;
