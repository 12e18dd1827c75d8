//! Python applications with real processes: the tests of the package in one program.

mod calls;
mod failures;
mod supervision;
mod support;
