//! Templates: a source is refused or runs to an end within its limits; nothing panics.
#![no_main]

#[path = "../../ground/template/tests/invariants/mod.rs"]
mod invariants;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &[u8]| invariants::check(source));
