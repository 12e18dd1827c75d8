//! Random bits for identifiers and load balancing; not suitable for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(std::thread::current().id()) | 1);
}

/// Returns 64 random bits.
pub fn word() -> u64 {
    STATE.with(|state| {
        // SplitMix64: one addition and a few mixing steps, good enough for load balancing.
        let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(next);
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// Returns 128 random bits.
pub fn bits() -> u128 {
    u128::from(word()) << 64 | u128::from(word())
}
