//! Tests of their neighbours at full length, which `cargo xtask soak` runs by the name of this module.

use super::lifecycle::outlive_reloads;
use super::limits::wait_in_little_memory;
use super::upgrades::outlive_upgrades;

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn a_hundred_reloads_lose_nothing() {
    outlive_reloads(100);
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn twenty_binary_upgrades_lose_nothing() {
    outlive_upgrades(20);
}

#[test]
#[ignore = "a thousand connections: cargo xtask soak"]
fn a_thousand_idle_connections_hold_little_memory() {
    wait_in_little_memory(1_000);
}
