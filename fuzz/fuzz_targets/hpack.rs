//! Header blocks: decoded headers are within the limits and survive an encode/decode round trip.
#![no_main]

#[path = "../../ground/wire/tests/feed_h2/mod.rs"]
mod feed_h2;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| feed_h2::check_hpack(bytes));
