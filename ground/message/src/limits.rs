//! The limits of this package, each with the reason for its number.

/// Ranges answered of one Range field; a field with more gets the whole representation. Readers of PDF files ask
/// for a few dozen at once, and each part costs about 200 bytes of head, so this bounds what a request for single
/// bytes can make us send.
pub const RANGES_MAX: usize = 64;

/// Fields that the Connection fields of one message can name. Real ones name one or two; each costs a look at
/// every field, and a head has room for thousands.
pub const CONNECTION_NAMES_MAX: usize = 32;

/// Fields that a stored answer may vary by. Real ones name three or four; each costs a look at every field of each
/// request for it.
pub const VARY_NAMES_MAX: usize = 16;

/// Seconds that two clocks of one machine may be apart: those of workers tick every tenth of a second, later where the
/// machine is busy, and the time of the system is corrected by small steps.
pub const CLOCKS_APART_MAX: u64 = 10;
