//! Chunked bodies: data, trailers and end do not depend on how the bytes are split, and survive an encode/decode round
//! trip.
#![no_main]

#[path = "../../ground/wire/tests/feed/mod.rs"]
mod feed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed::check_chunked(bytes));
