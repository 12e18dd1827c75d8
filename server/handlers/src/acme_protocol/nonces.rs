//! Nonces (RFC 8555, section 6.5): each is accepted once. They are kept in memory: after a restart, clients get a fresh
//! one and retry, as with any stale nonce.

use std::collections::{HashSet, VecDeque};

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::limits::ACME_NONCES_MAX;

/// Nonces issued and not used yet; beyond [`ACME_NONCES_MAX`] the oldest are dropped.
#[derive(Default)]
pub(super) struct Nonces {
    open: HashSet<[u8; 16]>,
    /// In order of creation; used ones are removed when they come up.
    order: VecDeque<[u8; 16]>,
}

impl Nonces {
    /// Creates a nonce; `None` if the system provides no randomness.
    pub(super) fn make(&mut self) -> Option<String> {
        let nonce = random()?;
        self.open.insert(nonce);
        self.order.push_back(nonce);
        if self.order.len() > ACME_NONCES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.open.remove(&oldest);
        }
        Some(URL_SAFE_NO_PAD.encode(nonce))
    }

    /// Consumes a nonce; returns whether it was valid.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let decoded = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
        <[u8; 16]>::try_from(decoded).is_ok_and(|nonce| self.open.remove(&nonce))
    }
}

/// 128 random bits.
pub(super) fn random() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).ok().map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_taken_once_and_the_oldest_are_forgotten() {
        let mut nonces = Nonces::default();
        let first = nonces.make().unwrap();
        let second = nonces.make().unwrap();
        assert_ne!(first, second);
        assert!(nonces.take(&second) && !nonces.take(&second));
        assert!(!nonces.take("") && !nonces.take("AAAA") && !nonces.take("%"));
        for _ in 0..ACME_NONCES_MAX {
            nonces.make().unwrap();
        }
        assert!(!nonces.take(&first));
        assert!(nonces.order.len() <= ACME_NONCES_MAX);
        assert!(nonces.open.len() <= ACME_NONCES_MAX);
    }
}
