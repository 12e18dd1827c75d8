//! Headers of proxies in front: what was said does not change with more bytes, and nothing is waited for beyond the
//! limit.
#![no_main]

#[path = "../../ground/wire/tests/feed_proxy/mod.rs"]
mod feed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed::check_beginning(bytes));
