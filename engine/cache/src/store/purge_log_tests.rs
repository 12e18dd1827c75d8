use sluice_store::memory::MemoryStore;

use super::super::tests::{Folder, eventually, find, put};
use super::*;
use crate::limits::PURGE_LIST_MAX;

fn key() -> Key {
    Key::new("cache_purges/one").unwrap()
}

fn source(memory: &MemoryStore) -> PurgeSource {
    PurgeSource {
        store: Arc::new(memory.clone()),
        key: key(),
        report: Box::new(|_| {}),
    }
}

/// A node that has caught up.
fn node(folder: &Folder, memory: &MemoryStore) -> Arc<Store> {
    let store = folder.open();
    store.follow_purges(Some(source(memory))).unwrap();
    eventually(|| store.is_following() == Some(true));
    store
}

fn purge(store: &Store, target: Target) -> Result<usize, PurgeError> {
    let receipt = store.purge_everywhere(target).unwrap();
    let poll = || receipt.poll(&mut Context::from_waker(Waker::noop()));
    eventually(|| poll().is_ready());
    match poll() {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => unreachable!("it was ready"),
    }
}

fn of_key(key: &str) -> Target {
    Target::Key(key.as_bytes().to_vec())
}

#[test]
fn a_purge_reaches_all_nodes_and_later_those_that_were_away() {
    let memory = MemoryStore::new();
    let folders = ["purge-a", "purge-b", "purge-c"].map(Folder::new);
    let [a, b, c] = [0, 1, 2].map(|number| node(&folders[number], &memory));
    for store in [&a, &b, &c] {
        put(store, "/x", b"old");
        put(store, "/y", b"old");
    }
    drop(c);
    assert_eq!(purge(&a, of_key("/x")), Ok(1));
    assert_eq!(find(&a, "/x"), None);
    eventually(|| find(&b, "/x").is_none());
    assert!(find(&a, "/y").is_some() && find(&b, "/y").is_some());
    memory.fail_with(Some(Fault::Away));
    let c = folders[2].open();
    c.follow_purges(Some(source(&memory))).unwrap();
    for key in ["/x", "/y"] {
        assert_eq!(find(&c, key), None, "nobody knows whether it was purged");
    }
    put(&c, "/z", b"new");
    assert!(find(&c, "/z").is_some());
    memory.fail_with(None);
    eventually(|| find(&c, "/y").is_some());
    assert_eq!(find(&c, "/x"), None);
    assert_eq!(purge(&c, Target::Beginning(b"/".to_vec())), Ok(2));
    eventually(|| find(&a, "/y").is_none() && find(&b, "/y").is_none());
}

#[test]
fn without_its_store_a_purge_applies_here_and_fails() {
    let memory = MemoryStore::new();
    let folder = Folder::new("purge-away");
    let store = node(&folder, &memory);
    assert_eq!(purge(&store, of_key("/x")), Ok(0));
    put(&store, "/x", b"old");
    memory.fail_with(Some(Fault::Away));
    assert_eq!(purge(&store, of_key("/x")), Err(PurgeError::Away));
    assert_eq!(find(&store, "/x"), None);
    eventually(|| store.is_following() == Some(false));
    store.follow_purges(None).unwrap();
    assert_eq!(store.is_following(), None);
    assert!(store.purge_everywhere(of_key("/x")).is_none());
}

#[test]
fn a_node_that_has_missed_more_than_is_listed_drops_its_cache() {
    let memory = MemoryStore::new();
    let folder = Folder::new("purge-missed");
    let store = node(&folder, &memory);
    put(&store, "/x", b"old");
    drop(store);
    let mut list = PurgeList::default();
    for _ in 0..=PURGE_LIST_MAX {
        list.add(of_key("/other"));
    }
    let text = list.encode();
    let write = [Write::Put(&key(), text.as_bytes())];
    sluice_store::Store::save(&memory, &write, Guard::Always).unwrap();
    let store = node(&folder, &memory);
    assert_eq!(find(&store, "/x"), None);
    assert_eq!(store.fullness().entries, 0);
    put(&store, "/x", b"new");
    drop(store);
    let store = node(&folder, &memory);
    assert!(find(&store, "/x").is_some(), "it missed nothing this time");
    store.follow_purges(None).unwrap();
    let emptied = MemoryStore::new();
    store.follow_purges(Some(source(&emptied))).unwrap();
    eventually(|| store.is_following() == Some(true));
    assert_eq!(find(&store, "/x"), None, "the list is shorter than it was");
}

#[test]
fn something_else_under_the_key_is_left_alone() {
    let memory = MemoryStore::new();
    let write = [Write::Put(&key(), b"a value of another program")];
    sluice_store::Store::save(&memory, &write, Guard::Always).unwrap();
    let folder = Folder::new("purge-foreign");
    let store = folder.open();
    store.follow_purges(Some(source(&memory))).unwrap();
    assert_eq!(purge(&store, of_key("/x")), Err(PurgeError::Away));
    let found = sluice_store::Store::load(&memory, &[&key()]).unwrap();
    let found = found[0].as_ref().unwrap();
    assert_eq!(found.bytes, b"a value of another program");
}
