//! HTTP/2 frames from a server: the client's events do not depend on how the bytes are split.
#![no_main]

#[path = "../../ground/wire/tests/feed_h2/mod.rs"]
mod feed_h2;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| feed_h2::check_client(bytes));
