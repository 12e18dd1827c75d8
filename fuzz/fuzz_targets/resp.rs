//! Replies of Redis: how their bytes arrive does not change them, and the decoder never waits for bytes beyond its limit.
#![no_main]

#[path = "../../ground/wire/tests/feed_resp/mod.rs"]
mod feed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed::check(bytes));
