//! nginx.confs: nothing panics, the model survives its JSON, and words survive being written.
#![no_main]

#[path = "../../config/nginx/tests/invariants/mod.rs"]
mod invariants;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| invariants::check(text));
