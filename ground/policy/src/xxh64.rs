//! The hash function XXH64 (xxHash specification, version 0.1.1), as used by Caddy's hashing policies: a client is
//! assigned to the same upstream behind either server.

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// Hashes several texts as if they were one.
pub fn hash(texts: &[&[u8]]) -> u64 {
    let mut state = State {
        lanes: [
            PRIMES[0].wrapping_add(PRIMES[1]),
            PRIMES[1],
            0,
            0_u64.wrapping_sub(PRIMES[0]),
        ],
        pending: [0; 32],
        pending_len: 0,
        len: 0,
    };
    for text in texts {
        state.add(text);
    }
    state.finish()
}

struct State {
    lanes: [u64; 4],
    pending: [u8; 32],
    pending_len: usize,
    len: u64,
}

impl State {
    fn add(&mut self, mut text: &[u8]) {
        self.len += text.len() as u64;
        while !text.is_empty() {
            let (now, later) = text.split_at(text.len().min(32 - self.pending_len));
            self.pending[self.pending_len..][..now.len()].copy_from_slice(now);
            self.pending_len += now.len();
            text = later;
            if self.pending_len == 32 {
                for (lane, word) in self.lanes.iter_mut().zip(self.pending.chunks_exact(8)) {
                    *lane = round(*lane, read_u64(word));
                }
                self.pending_len = 0;
            }
        }
    }

    fn finish(self) -> u64 {
        let [a, b, c, d] = self.lanes;
        let mut hash = if self.len >= 32 {
            let joined = a.rotate_left(1).wrapping_add(b.rotate_left(7));
            let joined = joined
                .wrapping_add(c.rotate_left(12))
                .wrapping_add(d.rotate_left(18));
            self.lanes.iter().fold(joined, |hash, &lane| {
                (hash ^ round(0, lane))
                    .wrapping_mul(PRIMES[0])
                    .wrapping_add(PRIMES[3])
            })
        } else {
            PRIMES[4]
        };
        hash = hash.wrapping_add(self.len);
        let mut rest = &self.pending[..self.pending_len];
        while let Some((word, tail)) = rest.split_first_chunk::<8>() {
            hash ^= round(0, u64::from_le_bytes(*word));
            hash = hash
                .rotate_left(27)
                .wrapping_mul(PRIMES[0])
                .wrapping_add(PRIMES[3]);
            rest = tail;
        }
        if let Some((word, tail)) = rest.split_first_chunk::<4>() {
            hash ^= u64::from(u32::from_le_bytes(*word)).wrapping_mul(PRIMES[0]);
            hash = hash
                .rotate_left(23)
                .wrapping_mul(PRIMES[1])
                .wrapping_add(PRIMES[2]);
            rest = tail;
        }
        for &byte in rest {
            hash ^= u64::from(byte).wrapping_mul(PRIMES[4]);
            hash = hash.rotate_left(11).wrapping_mul(PRIMES[0]);
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(PRIMES[1]);
        hash = (hash ^ (hash >> 29)).wrapping_mul(PRIMES[2]);
        hash ^ (hash >> 32)
    }
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIMES[1]))
        .rotate_left(31)
        .wrapping_mul(PRIMES[0])
}

fn read_u64(word: &[u8]) -> u64 {
    u64::from_le_bytes(word.try_into().expect("chunks of 8 have 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_values_come_out() {
        assert_eq!(hash(&[b""]), 0xef46_db37_51d8_e999);
        assert_eq!(hash(&[b"a"]), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(hash(&[b"abc"]), 0x44bc_2cf5_ad77_0999);
        assert_eq!(
            hash(&[b"Nobody inspects the spammish repetition"]),
            0xfbce_a83c_8a37_8bf1
        );
    }

    #[test]
    fn texts_are_hashed_as_one() {
        let text = b"0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz";
        for split in 0..text.len() {
            let (head, tail) = text.split_at(split);
            assert_eq!(hash(&[head, tail]), hash(&[text]), "split at {split}");
        }
    }
}
