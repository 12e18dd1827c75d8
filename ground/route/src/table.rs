//! A hash table from byte strings to numbers that is built once and then only read. Growing, removing and
//! everything else that a table built from a configuration never does is left out.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Byte strings with a number each, looked up in a time that does not grow with their count.
///
/// Clients choose what is looked up but never what is in the table, so they cannot make chains of collisions.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Twice as many places as keys or more, a power of two; empty places have no key.
    places: Vec<Place>,
    keys: Vec<Box<[u8]>>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    /// The index of the key plus one; 0 marks an empty place.
    key: u32,
}

impl Table {
    /// The table of `keys`, each with its index as its number. Of equal keys the first counts.
    pub fn new(keys: Vec<Box<[u8]>>) -> Table {
        if keys.is_empty() {
            return Table::default();
        }
        let size = (keys.len() * 2).next_power_of_two();
        let mut table = Table {
            places: Vec::from_iter((0..size).map(|_| Place { hash: 0, key: 0 })),
            keys,
        };
        for index in 0..table.keys.len() {
            let key = &table.keys[index];
            if table.find(key).is_some() {
                continue;
            }
            let hash = hash(key);
            let mut at = hash as usize & (size - 1);
            while table.places[at].key != 0 {
                at = (at + 1) & (size - 1);
            }
            table.places[at] = Place {
                hash: hash as u32,
                key: index as u32 + 1,
            };
        }
        table
    }

    /// The number of `key`.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mask = self.places.len() - 1;
        let hash = hash(key);
        let mut at = hash as usize & mask;
        // At most half of the places are taken, so the walk ends.
        while self.places[at].key != 0 {
            let place = self.places[at];
            let index = place.key as usize - 1;
            if place.hash == hash as u32 && self.keys[index].as_ref() == key {
                return Some(index);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// The number of keys, equal ones counted each.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Multiplies and folds eight bytes at a time; 128-bit products mix all bits into the low ones, which choose the
/// place.
#[inline]
fn hash(key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = FACTOR ^ key.len() as u64;
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks of 8 have 8 bytes"));
        state = fold(state ^ word, FACTOR);
    }
    let mut tail = [0; 8];
    tail[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    fold(state ^ u64::from_le_bytes(tail), FACTOR.rotate_left(32))
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn every_key_is_found_and_nothing_else() {
        let keys: Vec<Box<[u8]>> = (0..5_000)
            .map(|n| format!("site-{n}.example.com").into_bytes().into())
            .collect();
        let table = Table::new(keys.clone());
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(table.find(key), Some(index));
        }
        for n in 5_000..10_000 {
            assert_eq!(table.find(format!("site-{n}.example.com").as_bytes()), None);
        }
        assert_eq!(table.find(b""), None);
    }

    #[test]
    fn of_equal_keys_the_first_counts() {
        let table = Table::new(Vec::from([
            b"a"[..].into(),
            b"a"[..].into(),
            b""[..].into(),
        ]));
        assert_eq!(
            (table.find(b"a"), table.find(b""), table.find(b"b")),
            (Some(0), Some(2), None)
        );
        assert_eq!(Table::new(Vec::new()).find(b""), None);
    }
}
