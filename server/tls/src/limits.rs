//! Limits of TLS, each with its rationale.

/// Maximum number of endpoints in `trust_pool http`; each is fetched when the configuration is loaded.
pub const TRUST_ENDPOINTS_MAX: usize = 16;

/// Maximum nesting of trust pools, and of certificate folders.
pub const TRUST_POOLS_NESTED_MAX: usize = 8;
