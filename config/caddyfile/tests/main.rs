//! Caddyfiles from text to model: the tests of the package in one program.

mod coverage;
mod evidence;
mod golden;
mod invariants;
mod limits;
mod lower;
mod origins;
mod pages;
mod random;
mod registry_table;
mod seeds;
#[path = "../../tests/support.rs"]
mod support;
