//! Templates: the tests of the package in one program.

mod golden;
mod invariants;
mod limits;
mod seeds;
mod support;
