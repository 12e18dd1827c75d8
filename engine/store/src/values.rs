//! Values, their versions, and changes of them.

use std::time::SystemTime;

use crate::key::Key;
use crate::lease::Fence;

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
