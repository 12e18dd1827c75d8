//! Tests of fleets at full length, which `cargo xtask soak` runs by the name of this module.

use crate::acme::fleet::survive_kills;

#[test]
#[ignore = "minutes, and needs pebble: cargo xtask soak"]
fn fifty_holders_of_a_lock_are_killed() {
    survive_kills(50);
}
