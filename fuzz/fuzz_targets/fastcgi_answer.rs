//! FastCGI answers: records and the CGI head in them have the same outcome however their bytes are cut.
#![no_main]

#[path = "../../ground/wire/tests/feed_fastcgi/mod.rs"]
mod feed_fastcgi;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed_fastcgi::check(bytes));
