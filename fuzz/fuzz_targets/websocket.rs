//! WebSocket frames of a client: parsed alike, however the bytes are split, with a bounded reply.
#![no_main]

#[path = "../../ground/wire/tests/feed_websocket/mod.rs"]
mod feed_websocket;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed_websocket::check(bytes));
