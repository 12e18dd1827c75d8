//! Chunked bodies: content, trailers and end do not depend on how the bytes are cut, and survive being encoded
//! and decoded again.
#![no_main]

#[path = "../../ground/wire/tests/feed/mod.rs"]
mod feed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed::check_chunked(bytes));
