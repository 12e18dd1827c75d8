//! Values that few requests need, which use no memory in the others.

use std::ops::{Deref, DerefMut};

use sluice_message::Fields;

/// A value that few requests need. It is allocated on first write, so that thousands of requests waiting for upstreams
/// do not use memory for it.
#[derive(Clone, Debug, Default)]
pub struct Seldom<T>(Option<Box<T>>);

/// A type with an empty value that can be shared.
pub trait Empty: Default + 'static {
    /// The empty value.
    fn empty() -> &'static Self;
    /// Clears the value and keeps its allocation.
    fn clear(&mut self);
}

impl<T: Empty> Seldom<T> {
    /// Empties it.
    pub fn clear(&mut self) {
        if let Some(value) = &mut self.0 {
            value.clear();
        }
    }
}

impl<T: Empty> Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::empty())
    }
}

impl<T: Empty> DerefMut for Seldom<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl Empty for Fields {
    fn empty() -> &'static Self {
        static EMPTY: Fields = Fields::new();
        &EMPTY
    }

    fn clear(&mut self) {
        Fields::clear(self);
    }
}
