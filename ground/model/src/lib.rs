//! The one typed configuration, for every configuration language; its JSON is Caddy's JSON.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
