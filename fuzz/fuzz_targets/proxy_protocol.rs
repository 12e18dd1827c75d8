//! PROXY protocol headers: further bytes do not change a result, and the parser never waits for bytes beyond the limit.
#![no_main]

#[path = "../../ground/wire/tests/feed_proxy/mod.rs"]
mod feed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed::check_beginning(bytes));
