//! Caddyfiles from text to model: the tests of the package in one program.

mod coverage;
mod golden;
mod invariants;
mod limits;
mod lower;
mod origins;
mod pages;
#[path = "../../../xtask/src/proofs.rs"]
mod proofs;
mod random;
mod registry_table;
mod seeds;
#[path = "../../tests/support.rs"]
mod support;
