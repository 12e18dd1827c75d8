//! The named limits of this package, each with the reason for its value.

/// Memory one compiled regular expression may take. The default of the regex crate is 10 MiB; a
/// configuration may hold thousands of expressions, and none that a person writes comes near 1 MiB.
pub const REGEX_BYTES_MAX: usize = 1 << 20;

/// Memory the lazily built automaton of one expression may take per thread that uses it.
pub const REGEX_CACHE_BYTES_MAX: usize = 1 << 20;

/// Nesting of one regular expression. Go refuses more than 1,000; the compiler here recurses per
/// level.
pub const REGEX_DEPTH_MAX: u32 = 250;

/// Bytes of one pattern of nginx. PCRE takes 64 KiB once compiled; lists of robots come near 10 KiB.
pub const PATTERN_BYTES_MAX: usize = 32 << 10;

/// Nesting of groups in one pattern of nginx: reading and matching recurse per level. PCRE takes 250.
pub const PATTERN_DEPTH_MAX: usize = 100;

/// Groups of one pattern of nginx. nginx itself can name nine; what has names goes beyond.
pub const PATTERN_GROUPS_MAX: u32 = 250;

/// Steps that one pattern becomes: repetitions of groups are written out. 1 MiB at most, as for
/// [`REGEX_BYTES_MAX`].
pub const PATTERN_STEPS_MAX: usize = 16_000;

/// Ways that are tried for one match of a pattern that looks around or refers back, and bytes that are only passed over
/// as a part of one each. PCRE's own limit is ten million; a worker serves others as well, and a tenth of that takes it
/// some 5 ms. Honest patterns need a few for each byte at most, as what was tried in vain is remembered.
pub const PATTERN_TRIES_MAX: u32 = 1_000_000;

/// Ways of one match that are yet to be tried: 3 MiB, where PCRE stops at 20 MB. A target of 8 KiB that repeats a group
/// for each byte needs a tenth of it.
pub const PATTERN_BACKTRACKS_MAX: usize = 200_000;

/// Ways that are tried before a match remembers what was tried in vain: most end before, and then take no memory.
pub const PATTERN_TRIES_BEFORE_MEMO: u32 = 512;

/// Memory for what one match tried in vain, a bit for each byte and each place of the pattern where there are several ways:
/// 32 KiB of text and 256 such places. What there is no room for is tried again.
pub const PATTERN_MEMO_BYTES_MAX: usize = 1 << 20;

/// Texts of one pattern that are looked for before it is tried. Each costs a pass over the subject; the first few turn away
/// nearly all that does not match.
pub const PATTERN_LITERALS_MAX: usize = 4;

/// Bytes of such a text that are looked for. Where case does not count they are compared one by one at each position.
pub const PATTERN_LITERAL_BYTES_MAX: usize = 32;

/// Placeholders in one template. The longest bodies in configurations hold a few dozen; the limit
/// keeps the expansion of one template bounded.
pub const PLACEHOLDERS_MAX: usize = 10_000;

/// Pairs read of one query. Browsers send a few dozen; more pairs than that are not looked at and
/// make the query malformed, as Go's limit of 10,000 does.
pub const QUERY_PAIRS_MAX: usize = 10_000;

/// Bytes of path and query after a rewrite. Clients may send 8 KiB; eight times that leaves room
/// for every honest rewrite and none for replacements that multiply.
pub const REWRITTEN_URI_BYTES_MAX: usize = 64 << 10;

/// Nesting of `not` matchers, which recurse.
pub const NOT_DEPTH_MAX: usize = 32;

/// Routes that an index copies into the lists of nested path prefixes, per route of the list.
/// Deeper nests are not indexed and cost a comparison each.
pub const PREFIX_COPIES_MAX: usize = 16;

/// Fewest routes with a host or path of their own that make an index worth its lookups: a lookup
/// takes some 50 ns, a comparison some 15 to 20 (`examples/router_speed.rs`).
pub const INDEX_ROUTES_MIN: usize = 4;

/// Bytes of a buffer that a connection keeps for its next request: paths and field values are
/// shorter, and an idle connection shall cost a few KiB in all.
pub const SCRATCH_BUF_BYTES_MAX: usize = 512;

/// Buffers that a connection keeps. Matching nests them two deep, three where a pattern has
/// placeholders.
pub const SCRATCH_BUFS_MAX: usize = 3;

/// Places for groups of expressions that a connection keeps; each also keeps its expression in
/// memory.
pub const SCRATCH_CAPTURES_MAX: usize = 4;
