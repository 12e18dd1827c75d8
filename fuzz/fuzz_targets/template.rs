//! Templates: a source is rejected or runs to completion within its limits; no input causes a panic.
#![no_main]

#[path = "../../ground/template/tests/invariants/mod.rs"]
mod invariants;
#[path = "../../ground/template/tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &[u8]| invariants::check(source));
