//! nginx.conf from text to model: the tests of the package in one program.

mod golden;
mod inheritance;
mod invariants;
mod limits;
mod lint;
mod pages;
#[path = "../../../xtask/src/proofs.rs"]
mod proofs;
mod registry_table;
mod seeds;
#[path = "../../tests/support.rs"]
mod support;
mod translate;
mod variables_table;
