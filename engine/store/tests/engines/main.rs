//! What every store has to do, run on each engine.

mod conformance;

use sluice_store::FileStore;
use sluice_store::memory::MemoryStore;

#[test]
fn memory_keeps_the_contract() {
    let store = MemoryStore::new();
    conformance::run(&store, &store.clone());
}

#[test]
fn files_keep_the_contract() {
    let name = format!("sluice-store-contract-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let node = || FileStore::new(&folder);
    conformance::run(&node(), &node());
    std::fs::remove_dir_all(&folder).unwrap();
}
