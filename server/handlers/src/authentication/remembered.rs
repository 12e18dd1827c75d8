//! Successful password verifications, cached as keyed digests. The cache contains neither passwords nor anything that
//! helps to guess one.

use std::cell::RefCell;
use std::collections::HashSet;

use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use aws_lc_rs::rand::SystemRandom;

use super::Credentials;
use super::password::Hash;
use crate::limits::PASSWORDS_REMEMBERED_MAX;

/// A keyed digest of a hash, a user name and a password.
pub type Digest = [u8; 32];

/// The cache of one worker.
pub struct Remembered {
    /// Random per process and worker, so that digests are useless elsewhere.
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
    /// The digest for verifying `credentials` against `hash`. It depends on the hash, so a changed password is verified
    /// again.
    pub fn key(&self, hash: &Hash, credentials: &Credentials) -> Digest {
        let mut context = Context::with_key(&self.key);
        for part in [
            hash.as_bytes(),
            credentials.name.as_bytes(),
            &credentials.password,
        ] {
            // Length prefixes make the concatenation unambiguous.
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut digest = Digest::default();
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }

    /// Whether this verification succeeded before. The lookup time does not reveal anything without the key.
    pub fn has(&self, digest: &Digest) -> bool {
        self.digests.borrow().contains(digest)
    }

    /// Caches a successful verification. A full cache is cleared, which costs one more verification per user.
    pub fn insert(&self, digest: Digest) {
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
