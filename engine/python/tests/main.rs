//! Python applications in real processes: the tests of the package in one program.

#[allow(dead_code, reason = "the end-to-end tests use the rest of it")]
#[path = "../../../tests/support/abilities.rs"]
mod abilities;
mod calls;
mod failures;
#[allow(dead_code, reason = "the end-to-end tests use the rest of it")]
#[path = "../../../tests/support/python.rs"]
mod python;
mod supervision;
mod support;
#[allow(dead_code, reason = "the end-to-end tests use the rest of it")]
#[path = "../../../tests/support/temp_folder.rs"]
mod temp_folder;
mod worker;
