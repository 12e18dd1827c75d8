//! Calls of a store with texts, for tests of one engine.

use sluice_store::{Guard, Key, Store, StoreError, Write};

pub fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Writes a text without a guard.
pub fn put(store: &dyn Store, name: &str, text: &str) -> Result<(), StoreError> {
    store.save(&[Write::Put(&key(name), text.as_bytes())], Guard::Always)
}

/// The text of a value.
pub fn text(store: &dyn Store, name: &str) -> Result<Option<String>, StoreError> {
    let value = store.load(&[&key(name)])?.remove(0);
    Ok(value.map(|value| String::from_utf8(value.bytes).unwrap()))
}
