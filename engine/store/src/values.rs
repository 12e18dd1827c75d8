//! Values, their versions, and changes of them.

use std::collections::BTreeSet;
use std::time::SystemTime;

use crate::failure::{Fault, StoreError};
use crate::key::Key;
use crate::lease::Fence;
use crate::limits::ENTRIES_MAX;

/// The version of a value: equal for two reads if nothing was written between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub String);

/// A value as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The content.
    pub bytes: Vec<u8>,
    /// When it was written, by the clock of the engine.
    pub modified: SystemTime,
    /// Its version.
    pub version: Version,
}

/// One of the writes that are made together.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// Sets a value.
    Put(&'a Key, &'a [u8]),
    /// Deletes a value, if there is one.
    Delete(&'a Key),
}

impl Write<'_> {
    /// The key that is written.
    pub fn key(&self) -> &Key {
        match self {
            Write::Put(key, _) | Write::Delete(key) => key,
        }
    }
}

/// What must hold at the moment of a write.
#[derive(Clone, Copy, Debug)]
pub enum Guard<'a> {
    /// Nothing.
    Always,
    /// The lease has not passed to another holder.
    Held(&'a Fence),
    /// The key still has the value of this version; `None` if it had none.
    Unchanged(&'a Key, Option<&'a Version>),
}

impl Guard<'_> {
    /// The message for a write whose guard does not hold.
    pub(crate) fn refusal(&self) -> String {
        match self {
            Guard::Always => "the engine made no use of the write".to_owned(),
            Guard::Held(fence) => format!("the lock `{}` has passed to another holder", fence.name),
            Guard::Unchanged(key, _) => format!("`{key}` has changed"),
        }
    }
}

/// How deep a list goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The values and folders directly below the prefix.
    Children,
    /// All values below the prefix.
    All,
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A value.
    Value {
        /// Its key.
        key: Key,
        /// Its size in bytes.
        size: u64,
        /// When it was written.
        modified: SystemTime,
    },
    /// A key with values below it.
    Folder(Key),
}

impl Entry {
    /// The key.
    pub fn key(&self) -> &Key {
        match self {
            Entry::Value { key, .. } | Entry::Folder(key) => key,
        }
    }
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// Its new value; `None` if it was deleted.
    pub value: Option<Value>,
}

/// A value in a list: its key, its size in bytes, and when it was written.
pub(crate) type Listed = (Key, u64, SystemTime);

/// The entries below `prefix` among these values, sorted by key.
///
/// # Errors
/// [`Fault::Limit`] if there are more than `ENTRIES_MAX`.
pub(crate) fn entries(
    prefix: &Key,
    reach: Reach,
    values: impl Iterator<Item = Listed>,
    place: &str,
) -> Result<Vec<Entry>, StoreError> {
    let mut folders = BTreeSet::new();
    let mut entries = Vec::new();
    for (key, size, modified) in values {
        if !prefix.covers(&key) || key == *prefix {
            continue;
        }
        let rest = key.as_str()[prefix.as_str().len()..].trim_start_matches('/');
        match rest.split_once('/') {
            Some((first, _)) if reach == Reach::Children => {
                folders.insert(prefix.below(first).expect("a part of a key is a key"));
            }
            _ => entries.push(Entry::Value {
                key,
                size,
                modified,
            }),
        }
        if entries.len() + folders.len() > ENTRIES_MAX {
            let what = format!("more than {ENTRIES_MAX} entries below `{prefix}`");
            return Err(StoreError::new(Fault::Limit, place, what));
        }
    }
    entries.extend(folders.into_iter().map(Entry::Folder));
    entries.sort_by(|a, b| a.key().cmp(b.key()));
    Ok(entries)
}
