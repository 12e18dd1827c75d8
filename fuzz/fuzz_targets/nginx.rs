//! nginx.conf: no input causes a panic, the model survives a JSON round trip, and words survive being written and
//! parsed.
#![no_main]

#[path = "../../config/nginx/tests/invariants/mod.rs"]
mod invariants;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| invariants::check(text));
