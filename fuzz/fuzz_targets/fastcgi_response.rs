//! FastCGI responses: records and the CGI response head in them are parsed alike, however the bytes are split.
#![no_main]

#[path = "../../ground/wire/tests/feed_fastcgi/mod.rs"]
mod feed_fastcgi;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feed_fastcgi::check(bytes));
