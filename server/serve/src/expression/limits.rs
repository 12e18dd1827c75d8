//! The limits of expressions, each with the reason for its number.

/// Bytes of one expression of the `expression` matcher. Those that people write have a few hundred; the parser needs
/// memory and stack in proportion.
pub const EXPRESSION_BYTES_MAX: usize = 8 * 1024;

/// Levels of one expression: the compiler and the evaluator call themselves for each.
pub const EXPRESSION_DEPTH_MAX: usize = 96;

/// Loops (`all`, `exists`, `map` …) and bindings in one another.
pub const EXPRESSION_LOOPS_MAX: usize = 4;

/// Elements that the loops of one evaluation go through, all together: some milliseconds of work, and no client can
/// send a list that makes it more.
pub const EXPRESSION_STEPS_MAX: usize = 10_000;

/// Bytes of a text that `replace` makes: more than any head holds, and not a product of two fields that a client chose.
pub const EXPRESSION_TEXT_BYTES_MAX: usize = 128 * 1024;
