//! Bytes to messages and back.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
