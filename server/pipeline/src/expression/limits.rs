//! Limits of expressions, each with its rationale.

/// Maximum size of one `expression`, in bytes. Handwritten expressions have a few hundred bytes; the parser needs
/// memory and stack in proportion.
pub const EXPRESSION_BYTES_MAX: usize = 8 * 1024;

/// Maximum nesting of an expression: the compiler and the evaluator recurse for each level.
pub const EXPRESSION_DEPTH_MAX: usize = 96;

/// Maximum nesting of loops (`all`, `exists`, `map` …) and bindings.
pub const EXPRESSION_LOOPS_MAX: usize = 4;

/// Maximum number of elements that all loops of one evaluation may iterate over: a few milliseconds of work, whatever
/// lists a client sends.
pub const EXPRESSION_STEPS_MAX: usize = 10_000;

/// Maximum size of the result of `replace`, in bytes: larger than any request head, and prevents a result as large as
/// the product of two header values.
pub const EXPRESSION_TEXT_BYTES_MAX: usize = 128 * 1024;
