//! The streams that the peer of an HTTP/3 connection opens in one direction: read alike, however the bytes are split.
#![no_main]

#[path = "../../ground/wire/tests/feed_h3/mod.rs"]
mod feed_h3;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed_h3::check_peer_streams(bytes));
