//! Tests of their neighbours at full length, which `cargo xtask soak` runs by the name of this module.

use super::memory::upload;
use super::supervision::{kill_under_load, reload_under_load};

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn fifty_killed_processes_fail_no_idempotent_request() {
    kill_under_load(50);
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn a_hundred_autoreloads_fail_no_request() {
    reload_under_load(100);
}

#[test]
#[ignore = "2 GB: cargo xtask soak"]
fn uploads_of_a_gigabyte_take_a_window() {
    upload("module_wsgi wsgi:app", 1 << 30);
    upload("module_asgi asgi:app", 1 << 30);
}
