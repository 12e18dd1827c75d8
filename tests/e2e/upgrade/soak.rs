//! The upgrades of the neighbours at full length, which `cargo xtask soak` runs by the name of this module.

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn twenty_upgrades_lose_nothing() {
    super::outlive_upgrades(20, 201);
}
