//! Source files, spans, and diagnostics that point at them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
