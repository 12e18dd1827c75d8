//! Header blocks: what can be decoded is within its bounds, and comes back when it is encoded and decoded again.
#![no_main]

#[path = "../../ground/wire/tests/feed_h2/mod.rs"]
mod feed_h2;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| feed_h2::check_hpack(bytes));
