//! Panics in the log: a process of their own, because the panic hook is global.

mod panics;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../tests/support/wait.rs"]
mod wait;
