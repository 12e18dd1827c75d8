//! A hash table from byte strings to numbers that is built once and then only read. It cannot grow or remove entries,
//! which a table built from a configuration never needs.

use alloc::vec::Vec;

/// Byte strings with a number each, looked up in a time that does not grow with their count.
///
/// Clients choose what is looked up but never what is in the table, so they cannot make chains of
/// collisions. All keys lie in one buffer: among many, a lookup costs what it waits for memory.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Twice as many places as keys or more, a power of two.
    places: Vec<Place>,
    keys: Vec<u8>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    key_at: u32,
    key_len: u32,
    number: u32,
}

/// No key has this number.
const NOBODY: Place = Place {
    hash: 0,
    key_at: 0,
    key_len: 0,
    number: u32::MAX,
};

impl Table {
    /// The table of `keys`, each with its index as its number. Of equal keys the first counts.
    pub fn new<K: AsRef<[u8]>>(keys: &[K]) -> Table {
        if keys.is_empty() {
            return Table::default();
        }
        let mask = (keys.len() * 2).next_power_of_two() - 1;
        let places = Vec::from_iter((0..=mask).map(|_| NOBODY));
        let mut table = Table {
            places,
            keys: Vec::new(),
            len: keys.len(),
        };
        for (number, key) in keys.iter().map(AsRef::as_ref).enumerate() {
            if table.find(key).is_some() {
                continue;
            }
            let hash = hash(key);
            let mut at = hash as usize & mask;
            while table.places[at].number != NOBODY.number {
                at = (at + 1) & mask;
            }
            table.places[at] = Place {
                hash: hash as u32,
                key_at: table.keys.len() as u32,
                key_len: key.len() as u32,
                number: number as u32,
            };
            table.keys.extend_from_slice(key);
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
        loop {
            // At most half of the places are taken, so the walk ends.
            let place = self.places[at];
            if place.number == NOBODY.number {
                return None;
            }
            let found = place.hash == hash as u32 && place.key_len as usize == key.len();
            if found && &self.keys[place.key_at as usize..][..key.len()] == key {
                return Some(place.number as usize);
            }
            at = (at + 1) & mask;
        }
    }

    /// The number of keys, equal ones counted each.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Multiplies and folds eight bytes at a time; 128-bit products mix all bits into the low ones,
/// which choose the place.
#[inline]
fn hash(key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    // A multiple of the length, so that no byte of the first word makes up for another length.
    let mut state = FACTOR.wrapping_mul(key.len() as u64 | 1 << 32);
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks of 8 have 8 bytes"));
        state = fold(state ^ word, FACTOR);
    }
    fold(state ^ tail(key), FACTOR.rotate_left(32))
}

/// What is left of `key` after all whole eights, with a few bytes before it: reading one or two words that overlap costs
/// less than a copy of so many bytes.
#[inline]
fn tail(key: &[u8]) -> u64 {
    let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
    match (key.len() % 8, key.last_chunk::<8>()) {
        (0, _) => 0,
        (_, Some(last)) => u64::from_le_bytes(*last),
        (left, None) => match (key.first_chunk::<4>(), key.last_chunk::<4>()) {
            (Some(first), Some(last)) => half(first) | half(last) << 32,
            // One to three bytes.
            _ => u64::from(key[0]) | u64::from(key[left / 2]) << 8 | u64::from(key[left - 1]) << 16,
        },
    }
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
    use alloc::string::String;

    #[test]
    fn every_key_is_found_and_nothing_else() {
        let keys: Vec<String> = (0..5_000)
            .map(|n| format!("site-{n}.example.com"))
            .collect();
        let table = Table::new(&keys);
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(table.find(key.as_bytes()), Some(index));
        }
        for n in 5_000..10_000 {
            assert_eq!(table.find(format!("site-{n}.example.com").as_bytes()), None);
        }
        assert_eq!(table.find(b""), None);
    }

    #[test]
    fn each_byte_and_the_length_of_a_key_count() {
        for length in 0..40 {
            let key = alloc::vec![b'a'; length];
            let mut hashes = alloc::collections::BTreeSet::from([hash(&key)]);
            for at in 0..length {
                let mut other = key.clone();
                other[at] = b'b';
                hashes.insert(hash(&other));
            }
            hashes.insert(hash(&alloc::vec![b'a'; length + 1]));
            assert_eq!(hashes.len(), length + 2);
        }
    }

    #[test]
    fn of_equal_keys_the_first_counts() {
        let table = Table::new(&["a", "a", ""]);
        assert_eq!(
            (table.find(b"a"), table.find(b""), table.find(b"b")),
            (Some(0), Some(2), None)
        );
        assert_eq!(Table::new::<&str>(&[]).find(b""), None);
    }
}
