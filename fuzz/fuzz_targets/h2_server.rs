//! HTTP/2 frames from a client: the outcome does not depend on how the bytes are split, memory stays within the limits,
//! and only permitted frames are sent.
#![no_main]

#[path = "../../ground/wire/tests/feed_h2/mod.rs"]
mod feed_h2;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| feed_h2::check_server(bytes));
