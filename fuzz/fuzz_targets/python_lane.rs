//! Frames of Python workers: lanes and control channels are read alike, however the bytes are split.
#![no_main]

#[path = "../../ground/wire/tests/feed_python/mod.rs"]
mod feed_python;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed_python::check_lane(bytes));
