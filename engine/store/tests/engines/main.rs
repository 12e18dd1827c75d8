//! What every store has to do, run on each engine.

mod conformance;

use sluice_store::memory::MemoryStore;

#[test]
fn memory_keeps_the_contract() {
    let store = MemoryStore::new();
    conformance::run(&store, &store.clone());
}
