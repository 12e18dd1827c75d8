//! Caddyfiles: no input causes a panic, the model survives a JSON round trip, and formatting preserves the meaning.
#![no_main]

#[path = "../../config/caddyfile/tests/invariants/mod.rs"]
mod invariants;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| invariants::check(text));
