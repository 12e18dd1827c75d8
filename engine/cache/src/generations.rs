//! A bounded map that drops entries not used recently. New and recently used entries are in the young generation; when
//! it is full, it becomes the old one and the previous old one is dropped. Eviction thus costs nothing per request, and
//! a flood of new keys cannot evict entries in use.

use std::collections::HashMap;
use std::mem;

use crate::limits::{CONTENTS_BYTES_MAX, HANDLES_MAX, PATHS_MAX};

/// The resources an entry holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub bytes: usize,
    pub handles: usize,
}

pub(crate) trait Weighed {
    fn weight(&self) -> Weight;
}

pub(crate) struct Generations<T> {
    young: Generation<T>,
    old: Generation<T>,
}

struct Generation<T> {
    entries: HashMap<Box<[u8]>, T>,
    weight: Weight,
}

impl<T> Default for Generation<T> {
    fn default() -> Self {
        Generation {
            entries: HashMap::new(),
            weight: Weight::default(),
        }
    }
}

impl<T> Default for Generations<T> {
    fn default() -> Self {
        Generations {
            young: Generation::default(),
            old: Generation::default(),
        }
    }
}

impl<T: Weighed> Generations<T> {
    /// Looks up `key` and marks the entry as recently used.
    pub fn find(&mut self, key: &[u8]) -> Option<&mut T> {
        if !self.young.entries.contains_key(key) {
            let (key, entry) = self.old.remove(key)?;
            self.insert_owned(key, entry);
        }
        self.young.entries.get_mut(key)
    }

    /// Inserts `entry`, replacing the previous entry of `key`.
    pub fn insert(&mut self, key: &[u8], entry: T) {
        let owned = self.remove(key).map_or_else(|| key.into(), |(key, _)| key);
        self.insert_owned(owned, entry);
    }

    /// Closes all cached file handles.
    pub fn drop_handles(&mut self) {
        for generation in [&mut self.young, &mut self.old] {
            generation
                .entries
                .retain(|_, entry| entry.weight().handles == 0);
            generation.weight.handles = 0;
        }
    }

    fn remove(&mut self, key: &[u8]) -> Option<(Box<[u8]>, T)> {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    fn insert_owned(&mut self, key: Box<[u8]>, entry: T) {
        // Each generation gets half of every limit, so that the two together stay within it.
        let weight = entry.weight();
        let full = self.young.entries.len() >= PATHS_MAX / 2
            || self.young.weight.bytes + weight.bytes > CONTENTS_BYTES_MAX / 2
            || self.young.weight.handles + weight.handles > HANDLES_MAX / 2;
        if full {
            self.old = mem::take(&mut self.young);
        }
        self.young.weight.bytes += weight.bytes;
        self.young.weight.handles += weight.handles;
        self.young.entries.insert(key, entry);
    }

    #[cfg(test)]
    pub fn held(&self) -> (usize, Weight) {
        let (young, old) = (&self.young, &self.old);
        let weight = Weight {
            bytes: young.weight.bytes + old.weight.bytes,
            handles: young.weight.handles + old.weight.handles,
        };
        (young.entries.len() + old.entries.len(), weight)
    }
}

impl<T: Weighed> Generation<T> {
    fn remove(&mut self, key: &[u8]) -> Option<(Box<[u8]>, T)> {
        let (key, entry) = self.entries.remove_entry(key)?;
        let weight = entry.weight();
        self.weight.bytes -= weight.bytes;
        self.weight.handles -= weight.handles;
        Some((key, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Entry(usize, Weight);

    impl Weighed for Entry {
        fn weight(&self) -> Weight {
            self.1
        }
    }

    fn key(number: usize) -> Vec<u8> {
        number.to_string().into_bytes()
    }

    #[test]
    fn no_limit_is_ever_exceeded() {
        let mut map = Generations::default();
        for number in 0..3 * PATHS_MAX {
            let weight = Weight {
                bytes: 3000 * (number % 20),
                handles: usize::from(number % 3 == 0),
            };
            map.insert(&key(number), Entry(number, weight));
            let (len, held) = map.held();
            assert!(
                len <= PATHS_MAX && held.bytes <= CONTENTS_BYTES_MAX && held.handles <= HANDLES_MAX
            );
        }
    }

    #[test]
    fn used_entries_survive_a_flood() {
        let mut map = Generations::default();
        map.insert(
            b"hot",
            Entry(
                7,
                Weight {
                    bytes: 10,
                    handles: 1,
                },
            ),
        );
        for number in 0..4 * PATHS_MAX {
            map.insert(&key(number), Entry(number, Weight::default()));
            if number % 1000 == 0 {
                assert_eq!(map.find(b"hot").unwrap().0, 7);
            }
        }
        assert!(map.find(&key(0)).is_none());
    }

    #[test]
    fn weights_follow_replacing_and_removing() {
        let mut map = Generations::default();
        map.insert(
            b"a",
            Entry(
                1,
                Weight {
                    bytes: 10,
                    handles: 1,
                },
            ),
        );
        map.insert(
            b"a",
            Entry(
                2,
                Weight {
                    bytes: 4,
                    handles: 0,
                },
            ),
        );
        map.insert(
            b"b",
            Entry(
                3,
                Weight {
                    bytes: 5,
                    handles: 1,
                },
            ),
        );
        assert_eq!(
            map.held(),
            (
                2,
                Weight {
                    bytes: 9,
                    handles: 1
                }
            )
        );
        map.drop_handles();
        assert_eq!(map.held().1.handles, 0);
        assert!(map.find(b"b").is_none() && map.find(b"a").is_some());
    }
}
