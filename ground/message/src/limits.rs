//! The limits of this package, each with the reason for its value.

/// Maximum number of ranges in one `Range` header; a request for more gets the whole representation. PDF readers ask
/// for a few dozen at once. Each part costs about 200 bytes of head, so this bounds how much a request for single bytes
/// can make the server send.
pub const RANGES_MAX: usize = 64;

/// Fields that the Connection fields of one message can name. Real ones name one or two; each costs a look at
/// every field, and a head has room for thousands.
pub const CONNECTION_NAMES_MAX: usize = 32;

/// Maximum number of headers that a cached response may vary by. Real responses name three or four; each costs a lookup
/// in every request for the resource.
pub const VARY_NAMES_MAX: usize = 16;

/// Seconds that two clocks of one machine may be apart: those of workers tick every tenth of a second, later where the
/// machine is busy, and the time of the system is corrected by small steps.
pub const CLOCKS_APART_MAX: u64 = 10;
