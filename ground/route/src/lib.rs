//! Matchers, placeholders, rewrites: a request head in, the chosen route out.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
