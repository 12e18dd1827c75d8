//! What a client may send: the machine does the same however the bytes are cut, holds no more than its limits allow,
//! and sends only frames that may be sent.
#![no_main]

#[path = "../../ground/wire/tests/feed_h2/mod.rs"]
mod feed_h2;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| feed_h2::check_server(bytes));
