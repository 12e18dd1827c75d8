//! What a server may send: the machine tells the same however the bytes are cut.
#![no_main]

#[path = "../../ground/wire/tests/feed_h2/mod.rs"]
mod feed_h2;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| feed_h2::check_client(bytes));
