//! Purges while the index is being loaded: the loader must not add the files that it finds later.

use crate::limits::{PURGED_BYTES_MAX, PURGED_MAX};

/// What a purge removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The responses of one key, in all variants.
    Key(Vec<u8>),
    /// Those of all keys with this beginning.
    Beginning(Vec<u8>),
}

impl Target {
    /// Whether it includes a key.
    pub fn covers(&self, key: &[u8]) -> bool {
        match self {
            Target::Key(own) => own == key,
            Target::Beginning(beginning) => key.starts_with(beginning),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Target::Key(text) | Target::Beginning(text) => text.len(),
        }
    }
}

/// The purges since the start.
#[derive(Debug, Default)]
pub(super) struct Purged {
    targets: Vec<Target>,
    /// Bytes of their keys.
    bytes: usize,
    /// Whether everything was purged, or so much that it counts as everything.
    is_all: bool,
}

impl Purged {
    /// Notes a purge.
    pub fn add(&mut self, target: Target) {
        self.bytes += target.bytes();
        self.targets.push(target);
        if self.targets.len() > PURGED_MAX || self.bytes > PURGED_BYTES_MAX {
            self.add_all();
        }
    }

    /// Notes that everything is purged.
    pub fn add_all(&mut self) {
        *self = Purged {
            is_all: true,
            ..Purged::default()
        };
    }

    /// Forgets all purges.
    pub fn clear(&mut self) {
        *self = Purged::default();
    }

    /// Whether a key was purged.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.is_all || self.targets.iter().any(|target| target.covers(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_purged_alone_or_by_their_beginnings() {
        let mut purged = Purged::default();
        assert!(!purged.covers(b"/a"));
        purged.add(Target::Key(b"/a".to_vec()));
        purged.add(Target::Beginning(b"/b/".to_vec()));
        assert!(purged.covers(b"/a") && purged.covers(b"/b/c"));
        assert!(!purged.covers(b"/a/b") && !purged.covers(b"/b"));
        purged.clear();
        assert!(!purged.covers(b"/a"));
        purged.add_all();
        assert!(purged.covers(b"/a"));
    }

    #[test]
    fn too_many_purges_count_as_everything() {
        let mut purged = Purged::default();
        for _ in 0..PURGED_MAX {
            purged.add(Target::Key(b"/a".to_vec()));
        }
        assert!(!purged.covers(b"/other"));
        purged.add(Target::Key(b"/a".to_vec()));
        assert!(purged.covers(b"/other") && purged.targets.is_empty());
        let mut purged = Purged::default();
        purged.add(Target::Key(vec![b'x'; PURGED_BYTES_MAX]));
        assert!(!purged.covers(b"/other"));
        purged.add(Target::Key(b"/".to_vec()));
        assert!(purged.covers(b"/other"));
    }
}
