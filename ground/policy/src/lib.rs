//! Decisions over time: which upstream to use, whether it is healthy, whether to retry and when. `sluice-net` and
//! `sluice-serve` carry the decisions out: they dial, run timers and send requests.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod backoff;
pub mod balance;
pub mod breaker;
pub mod buffering;
mod crc32;
pub mod data_rate;
pub mod group;
pub mod health;
pub mod limit;
pub mod limits;
pub mod memory;
pub mod overload;
pub mod presence;
pub mod random;
pub mod retry;
pub mod typical;
pub mod xxh64;

pub use backoff::Backoff;
pub use balance::{Choice, HashBy, Policy, Turn, Upstreams};
pub use data_rate::{MinDataRate, Pace};
pub use health::{ActiveCheck, ActivePolicy, PassiveHealth, PassivePolicy};
pub use retry::{RetryBudget, RetryPolicy};
