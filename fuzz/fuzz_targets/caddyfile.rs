//! Caddyfiles: nothing panics, the model survives its JSON, and formatting keeps what a text says.
#![no_main]

#[path = "../../config/caddyfile/tests/invariants/mod.rs"]
mod invariants;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| invariants::check(text));
