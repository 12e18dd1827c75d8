//! Decisions over time: balance, health, retry, limits.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
