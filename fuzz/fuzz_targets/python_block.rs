//! Header blocks of Python applications: what is accepted cannot inject anything.
#![no_main]

#[path = "../../ground/wire/tests/feed_python/mod.rs"]
mod feed_python;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed_python::check_block(bytes));
