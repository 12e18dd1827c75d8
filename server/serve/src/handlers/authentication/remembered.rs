//! Passwords that were right, remembered as keyed digests: neither a password nor anything that helps to guess
//! one is kept.

use std::cell::RefCell;
use std::collections::HashSet;

use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use aws_lc_rs::rand::SystemRandom;

use super::Credentials;
use super::password::Hash;
use crate::files::limits::PASSWORDS_REMEMBERED_MAX;

/// A digest of a hash, a name and a password.
pub(in crate::handlers) type Digest = [u8; 32];

/// What one worker remembers.
pub(in crate::handlers) struct Remembered {
    /// Made anew in each process and worker, so that digests say nothing outside of it.
    key: Key,
    digests: RefCell<HashSet<Digest>>,
}

impl Default for Remembered {
    fn default() -> Self {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new());
        Remembered {
            key: key.expect("the system gives random bytes"),
            digests: RefCell::default(),
        }
    }
}

impl Remembered {
    /// The digest for a check of `credentials` against `hash`: another hash of the same name is another check.
    pub(in crate::handlers) fn key(&self, hash: &Hash, credentials: &Credentials) -> Digest {
        let mut context = Context::with_key(&self.key);
        for part in [
            hash.as_bytes(),
            credentials.name.as_bytes(),
            &credentials.password,
        ] {
            // Lengths keep parts from being read as others.
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut digest = Digest::default();
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }

    /// Whether the check was right before. Whoever does not know the key learns nothing from the time it takes.
    pub(in crate::handlers) fn has(&self, digest: &Digest) -> bool {
        self.digests.borrow().contains(digest)
    }

    /// Remembers a check that was right. When there are too many, all are forgotten: each costs one more check.
    pub(in crate::handlers) fn insert(&self, digest: Digest) {
        let mut digests = self.digests.borrow_mut();
        if digests.len() >= PASSWORDS_REMEMBERED_MAX {
            digests.clear();
        }
        digests.insert(digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_bounded_and_differ_in_every_part() {
        let remembered = Remembered::default();
        let hash = Hash::parse(super::super::tests::BCRYPT_PW).unwrap();
        let digest = |name: &str, password: &str| {
            remembered.key(
                &hash,
                &Credentials {
                    name: name.into(),
                    password: password.into(),
                },
            )
        };
        assert_ne!(digest("a", "bc"), digest("ab", "c"));
        assert_eq!(digest("a", "b"), digest("a", "b"));
        for number in 0..3 * PASSWORDS_REMEMBERED_MAX {
            remembered.insert(digest("a", &number.to_string()));
            assert!(remembered.digests.borrow().len() <= PASSWORDS_REMEMBERED_MAX);
        }
        assert!(remembered.has(&digest(
            "a",
            &(3 * PASSWORDS_REMEMBERED_MAX - 1).to_string()
        )));
        assert!(!remembered.has(&digest("b", "0")));
    }
}
