//! An encoder stream and a field section of HTTP/3: decoded alike, however the bytes are split, within the limits.
#![no_main]

#[path = "../../ground/wire/tests/feed_h3/mod.rs"]
mod feed_h3;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed_h3::check_qpack(bytes));
