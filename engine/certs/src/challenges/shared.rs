//! Challenges in the storage, in Caddy's form, so that any node responds to the CA: whichever it asks.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use sluice_store::Key;

use super::{Challenges, alpn_config};
use crate::failure::CertsError;
use crate::limits::CHALLENGES_MAX;
use crate::storage::{Storage, TRIAL};
use crate::subject::Subject;

/// The folder of the challenges of one CA, below that of the CA.
pub(crate) const FOLDER: &str = "challenge_tokens";

/// A challenge as it is stored: the object of RFC 8555, section 7.1.5, with what the response is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StoredChallenge {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) url: String,
    pub(crate) status: String,
    pub(crate) token: String,
    #[serde(rename = "keyAuthorization")]
    pub(crate) key_authorization: String,
    pub(crate) identifier: Identifier,
}

/// What a challenge is to prove control of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Identifier {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) value: String,
}

/// Where the challenge of another node lies.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct OtherName {
    /// The storage. Policies may have their own.
    place: String,
    name: String,
}

impl OtherName {
    fn of(storage: &Storage, name: &str) -> OtherName {
        OtherName {
            place: storage.store().place().to_owned(),
            name: name.to_owned(),
        }
    }
}

/// The challenge of another node.
pub(super) enum Other {
    Http {
        token: String,
        text: String,
    },
    Alpn {
        name: String,
        config: Arc<ServerConfig>,
    },
}

impl Other {
    fn of(text: &[u8]) -> Option<Other> {
        let stored: StoredChallenge = serde_json::from_slice(text).ok()?;
        match stored.kind.as_str() {
            "http-01" => Some(Other::Http {
                token: stored.token,
                text: stored.key_authorization,
            }),
            "tls-alpn-01" => {
                let subject = Subject::parse(&stored.identifier.value).ok()?;
                let digest = digest(&SHA256, stored.key_authorization.as_bytes());
                Some(Other::Alpn {
                    name: subject.handshake_name(),
                    config: alpn_config(&subject, digest.as_ref()).ok()?,
                })
            }
            _ => None,
        }
    }

    pub(super) fn http(&self, wanted: &str) -> Option<String> {
        match self {
            Other::Http { token, text } => (token == wanted).then(|| text.clone()),
            Other::Alpn { .. } => None,
        }
    }

    pub(super) fn alpn(&self, wanted: &str) -> Option<Arc<ServerConfig>> {
        match self {
            Other::Alpn { name, config } => (name == wanted).then(|| config.clone()),
            Other::Http { .. } => None,
        }
    }
}

impl Challenges {
    /// Responds to the challenge of another node that lies in `storage` as `name`; `None` ends that. One that is not
    /// usable is ignored.
    pub(crate) fn show_other(&self, storage: &Storage, name: &str, text: Option<&[u8]>) {
        // It takes a signature, so not under the lock.
        let other = text.and_then(Other::of);
        let name = OtherName::of(storage, name);
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.others.remove(&name);
        if let Some(other) = other
            && table.len() < CHALLENGES_MAX
        {
            table.others.insert(name, other);
        }
        self.count.store(table.len(), Ordering::Relaxed);
        drop(table);
        self.others_changed.notify_waiters();
    }

    /// Ends the challenges of other nodes that were in `storage`, except those called `present`.
    pub(crate) fn keep_others(&self, storage: &Storage, present: &BTreeSet<String>) {
        let place = storage.store().place();
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let others = &mut table.others;
        others.retain(|other, _| other.place != place || present.contains(&other.name));
        self.count.store(table.len(), Ordering::Relaxed);
    }

    /// Waits until `storage` has announced the challenge `name` to this node, at most for `timeout`.
    pub(crate) async fn announced(&self, storage: &Storage, name: &str, timeout: Duration) {
        let name = OtherName::of(storage, name);
        let has_it = async {
            loop {
                let changed = self.others_changed.notified();
                if self.has_other(&name) {
                    return;
                }
                changed.await;
            }
        };
        // If the storage cannot be followed, other nodes may be able to.
        let _ = tokio::time::timeout(timeout, has_it).await;
    }

    fn has_other(&self, name: &OtherName) -> bool {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.others.contains_key(name)
    }
}

/// Whether the value of `key` is of no use to a node that starts: challenges of orders, and tests of the storage. They
/// are left out of the copies of nodes.
pub fn is_passing(key: &Key) -> bool {
    key.as_str().starts_with(TRIAL) || is_token(key.as_str())
}

/// Whether a key of the storage is that of a challenge.
pub(crate) fn is_token(key: &str) -> bool {
    let mut parts = key.split('/');
    parts.next() == Some("acme") && parts.nth(1) == Some(FOLDER)
}

/// A challenge in the storage, until this is dropped.
pub(crate) struct Published {
    storage: Storage,
    name: String,
    text: Vec<u8>,
}

impl Published {
    /// Publishes a challenge for `subject` at the CA called `ca`.
    ///
    /// # Errors
    /// The storage does not take it: only this node would respond.
    pub(crate) fn new(
        storage: &Storage,
        ca: &str,
        subject: &Subject,
        challenge: &StoredChallenge,
    ) -> Result<Published, CertsError> {
        // As in Caddy: handshakes ask for an address by its reverse name.
        let name = match (challenge.kind.as_str(), subject.ip()) {
            ("tls-alpn-01", Some(_)) => subject.handshake_name(),
            _ => subject.file_name(),
        };
        let name = format!("acme/{ca}/{FOLDER}/{name}.json");
        let text = serde_json::to_vec(challenge).expect("texts are JSON");
        storage.write(&name, &text)?;
        Ok(Published {
            storage: storage.clone(),
            name,
            text,
        })
    }

    /// Removes the challenge for `subject` that a node has left which died in its order. The caller holds the lock of
    /// orders for that name, and has no challenge to publish because the CA has validated that one.
    pub(crate) fn remove_left(storage: &Storage, ca: &str, subject: &Subject) {
        let name = format!("acme/{ca}/{FOLDER}/{}.json", subject.file_name());
        // If that fails, it is as harmless as before.
        if let Ok(Some(left)) = storage.find_latest(&name) {
            let _ = storage.remove_if(&name, &left.bytes);
        }
    }

    /// Its name in the storage.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // If it stays, it is harmless: the CA accepts it once. It is not removed if it has become that of another node.
        let _ = self.storage.remove_if(&self.name, &self.text);
    }
}

#[cfg(test)]
mod tests {
    use sluice_store::memory::MemoryStore;

    use super::*;
    use crate::challenges::HTTP_PREFIX;

    fn stored(kind: &str, name: &str) -> StoredChallenge {
        StoredChallenge {
            kind: kind.to_owned(),
            url: "https://ca.test/1".to_owned(),
            status: "pending".to_owned(),
            token: "tok".to_owned(),
            key_authorization: "tok.thumb".to_owned(),
            identifier: Identifier {
                kind: "dns".to_owned(),
                value: name.to_owned(),
            },
        }
    }

    fn memory() -> Storage {
        Storage::shared(Arc::new(MemoryStore::new()))
    }

    #[test]
    fn a_challenge_of_another_node_gets_its_response() {
        let challenges = Challenges::default();
        let storage = memory();
        let name = "acme/ca.test-dir/challenge_tokens/a.test.json";
        assert!(is_token(name));
        assert!(!is_token("acme/ca.test-dir/users/x/x.json"));
        let text = serde_json::to_vec(&stored("http-01", "a.test")).unwrap();
        challenges.show_other(&storage, name, Some(&text));
        let path = format!("{HTTP_PREFIX}tok");
        let response = || challenges.http_response(path.as_bytes());
        assert_eq!(response().as_deref(), Some("tok.thumb"));
        assert!(!challenges.is_idle());
        let text = serde_json::to_vec(&stored("tls-alpn-01", "a.test")).unwrap();
        challenges.show_other(&storage, name, Some(&text));
        assert_eq!(response(), None, "it was replaced");
        assert!(challenges.alpn_config("A.test").is_some());
        assert!(challenges.alpn_config("b.test").is_none());
        challenges.show_other(&storage, name, None);
        assert!(challenges.is_idle() && challenges.alpn_config("a.test").is_none());
        for garbage in [&b""[..], b"{}", br#"{"type":"dns-01"}"#, b"\xff"] {
            challenges.show_other(&storage, name, Some(garbage));
            assert!(challenges.is_idle());
        }
    }

    #[test]
    fn tests_and_challenges_pass_and_certificates_last() {
        let is = |name: &str| is_passing(&Key::new(name).unwrap());
        assert!(is("rw_test_12_00ff"));
        assert!(is("acme/ca.test-dir/challenge_tokens/a.test.json"));
        assert!(!is("acme/ca.test-dir/users/me/me.json"));
        assert!(!is("certificates/ca.test-dir/a.test/a.test.crt"));
    }

    #[test]
    fn an_order_waits_until_its_challenge_is_announced() {
        let challenges = Arc::new(Challenges::default());
        let storage = memory();
        let name = "acme/ca.test-dir/challenge_tokens/a.test.json";
        let text = serde_json::to_vec(&stored("http-01", "a.test")).unwrap();
        let (waiting, followed) = (challenges.clone(), storage.clone());
        let waits = std::thread::spawn(move || {
            crate::acme::run(waiting.announced(&followed, name, Duration::MAX)).unwrap();
        });
        challenges.show_other(
            &storage,
            "acme/ca/challenge_tokens/b.test.json",
            Some(&text),
        );
        challenges.show_other(&storage, name, Some(&text));
        waits.join().unwrap();
        // It ends also if that never happens.
        challenges.show_other(&storage, name, None);
        let short = Duration::from_millis(1);
        crate::acme::run(challenges.announced(&storage, name, short)).unwrap();
    }

    #[test]
    fn challenges_that_are_gone_from_a_storage_end_and_those_of_others_do_not() {
        let challenges = Challenges::default();
        let folder = crate::tests::TempFolder::new();
        let (storage, other) = (memory(), Storage::new(folder.path()));
        let name = |name: &str| format!("acme/ca/challenge_tokens/{name}.json");
        let show = |storage: &Storage, subject: &str| {
            let text = serde_json::to_vec(&stored("tls-alpn-01", subject)).unwrap();
            challenges.show_other(storage, &name(subject), Some(&text));
        };
        show(&storage, "gone.test");
        show(&storage, "present.test");
        show(&other, "other.test");
        challenges.keep_others(&storage, &BTreeSet::from([name("present.test")]));
        let responds = |subject: &str| challenges.alpn_config(subject).is_some();
        assert!(!responds("gone.test"));
        assert!(responds("present.test") && responds("other.test"));
        challenges.keep_others(&storage, &BTreeSet::new());
        challenges.keep_others(&other, &BTreeSet::new());
        assert!(challenges.is_idle());
    }

    /// The form is that of certmagic's distributed solver.
    #[test]
    fn a_published_challenge_is_in_caddys_form_and_goes_at_the_end() {
        let storage = Storage::shared(Arc::new(MemoryStore::new()));
        let subject = Subject::parse("a.test").unwrap();
        let challenge = stored("http-01", "a.test");
        let published = Published::new(&storage, "ca", &subject, &challenge).unwrap();
        let name = "acme/ca/challenge_tokens/a.test.json";
        let read = storage.read(name).unwrap().unwrap();
        let read: serde_json::Value = serde_json::from_slice(&read).unwrap();
        assert_eq!(read["type"], "http-01");
        assert_eq!(read["keyAuthorization"], "tok.thumb");
        assert_eq!(read["identifier"]["value"], "a.test");
        drop(published);
        assert_eq!(storage.read(name).unwrap(), None);
        // That of another node stays.
        let published = Published::new(&storage, "ca", &subject, &challenge).unwrap();
        storage.write(name, b"other").unwrap();
        drop(published);
        assert_eq!(storage.read(name).unwrap().unwrap(), b"other");
        // That of a node that is dead goes when its name is ordered anew.
        Published::remove_left(&storage, "ca", &subject);
        assert_eq!(storage.read(name).unwrap(), None);
        Published::remove_left(&storage, "ca", &subject);
        let address = Subject::parse("192.0.2.1").unwrap();
        let challenge = stored("tls-alpn-01", "192.0.2.1");
        let _published = Published::new(&storage, "ca", &address, &challenge).unwrap();
        let name = "acme/ca/challenge_tokens/1.2.0.192.in-addr.arpa.json";
        assert!(storage.read(name).unwrap().is_some());
    }
}
