//! The secrets of this process's session tickets, by policy: they outlive a binary upgrade, so that clients resume
//! their sessions with the new process. Each is forgotten with the tickets it encrypted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{SECRET_BYTES, Secret};
use crate::limits::{TICKET_KEYS_MAX, TICKET_POLICIES_MAX};

/// The secrets in use; clones share them. Two books count as equal, because they do not change what a policy does.
#[derive(Clone, Default)]
pub struct TicketBook(Arc<Mutex<Secrets>>);

/// By what identifies a policy, the newest first.
type Secrets = BTreeMap<String, Vec<Secret>>;

/// A secret on its way to another process.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketSecret {
    /// What identifies the policy.
    pub scope: String,
    /// When it became active, in seconds since the Unix epoch.
    pub from: u64,
    /// The secret itself.
    pub bytes: [u8; SECRET_BYTES],
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketSecret")
    }
}

impl TicketBook {
    /// A book with the secrets of another process.
    pub fn inherited(secrets: Vec<TicketSecret>) -> TicketBook {
        let book = TicketBook::default();
        let mut known = book.secrets();
        for TicketSecret { scope, from, bytes } in secrets.into_iter().take(TICKET_POLICIES_MAX) {
            let of_scope = known.entry(scope).or_default();
            of_scope.push(Secret { from, bytes });
            of_scope.sort_by_key(|secret| std::cmp::Reverse(secret.from));
            of_scope.truncate(TICKET_KEYS_MAX);
        }
        drop(known);
        book
    }

    /// All secrets, for another process.
    pub fn all(&self) -> Vec<TicketSecret> {
        let known = self.secrets();
        let all = known.iter().flat_map(|(scope, secrets)| {
            secrets.iter().map(|secret| TicketSecret {
                scope: scope.clone(),
                from: secret.from,
                bytes: secret.bytes,
            })
        });
        all.collect()
    }

    /// Those of a policy, the newest first.
    pub(super) fn of(&self, scope: &str) -> Vec<Secret> {
        self.secrets().get(scope).cloned().unwrap_or_default()
    }

    /// A policy has a new secret, and those that are not `of_use` any more go, by when they became active. Beyond
    /// [`TICKET_POLICIES_MAX`] policies, which only many reloads with other policies can make, the others are forgotten:
    /// their clients begin new sessions after an upgrade.
    pub(super) fn note(&self, scope: &str, secret: Secret, of_use: impl Fn(u64) -> bool) {
        let mut known = self.secrets();
        if known.len() >= TICKET_POLICIES_MAX && !known.contains_key(scope) {
            known.clear();
        }
        let of_scope = known.entry(scope.to_owned()).or_default();
        of_scope.insert(0, secret);
        of_scope.truncate(TICKET_KEYS_MAX);
        of_scope.retain(|secret| of_use(secret.from));
    }

    fn secrets(&self) -> MutexGuard<'_, Secrets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for TicketBook {
    fn eq(&self, _other: &TicketBook) -> bool {
        true
    }
}

impl Eq for TicketBook {}

impl fmt::Debug for TicketBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketBook")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rotation, Tickets, ticketer};
    use super::*;

    #[test]
    fn tickets_of_the_old_process_are_accepted_by_the_new_one() {
        let old = TicketBook::default();
        let tickets = |book: &TicketBook| Tickets::Own(Rotation::default(), book.clone());
        let first = ticketer(&tickets(&old), "one").unwrap();
        let other = ticketer(&tickets(&old), "two").unwrap();
        let ticket = first.encrypt(b"session").unwrap();
        let new = TicketBook::inherited(old.all());
        let successor = ticketer(&tickets(&new), "one").unwrap();
        assert_eq!(successor.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        // A policy keeps its own keys.
        assert_eq!(other.decrypt(&ticket), None);
        let other = ticketer(&tickets(&new), "two").unwrap();
        assert_eq!(other.decrypt(&ticket), None);
        // And they outlive the next upgrade.
        assert_eq!(new.all(), old.all());
        let stranger = ticketer(&Tickets::default(), "one").unwrap();
        assert_eq!(stranger.decrypt(&ticket), None);
    }

    #[test]
    fn the_number_of_secrets_is_bounded() {
        let book = TicketBook::default();
        for at in 0..100 {
            book.note("one", Secret::new(at).unwrap(), |_| true);
        }
        assert_eq!(book.of("one").len(), TICKET_KEYS_MAX);
        book.note("one", Secret::new(100).unwrap(), |from| from >= 100);
        assert_eq!(book.of("one").len(), 1);
        for scope in 0..=TICKET_POLICIES_MAX {
            book.note(&scope.to_string(), Secret::new(0).unwrap(), |_| true);
        }
        assert!(book.all().len() <= TICKET_POLICIES_MAX);
    }
}
