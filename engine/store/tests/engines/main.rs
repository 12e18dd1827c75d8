//! What every store has to do, run on each engine. The engines are started by the tests, on free ports and in temporary
//! folders.

#![allow(clippy::unwrap_used)]

#[path = "../../../../tests/support/abilities.rs"]
#[allow(dead_code, reason = "these tests use a part")]
mod abilities;
mod conformance;
#[cfg(feature = "etcd")]
mod etcd;
mod faults;
mod plain_calls;
#[path = "../../../../tests/support/ports.rs"]
mod ports;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[allow(dead_code, reason = "the end-to-end tests use the rest")]
mod servers;
mod takeover;
#[path = "../../../../tests/support/temp_folder.rs"]
#[allow(dead_code, reason = "these tests use a part")]
mod temp_folder;
#[path = "../../../../tests/support/wait.rs"]
#[allow(dead_code, reason = "these tests use a part")]
mod wait;

use sluice_store::FileStore;
use sluice_store::memory::MemoryStore;
use sluice_store::sealed::{SealKey, SealScope, SealedStore};

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

#[test]
fn sealed_stores_keep_the_contract() {
    let store = MemoryStore::new();
    let sealed = || {
        let keys = vec![SealKey::new(&[1; 32])];
        SealedStore::new(Box::new(store.clone()), keys, SealScope::Secrets).unwrap()
    };
    conformance::run(&sealed(), &sealed());
}
