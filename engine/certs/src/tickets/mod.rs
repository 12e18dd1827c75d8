//! Session tickets: their keys and key rotation. Each policy has its own keys, so that a session can only be resumed
//! under the policy it began under. Keys shared between instances are in `shared`.

mod book;
mod shared;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;
use sluice_net::tls::NoTickets;

pub use book::{TicketBook, TicketSecret};
pub use shared::SharedKeys;

use crate::limits::{
    TICKET_KEYS, TICKET_KEYS_MAX, TICKET_LIFETIME_MAX, TICKET_ROTATION, TICKET_ROTATION_MIN,
};

/// How sessions are resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tickets {
    /// By tickets with keys of this process, and of the one it has replaced.
    Own(Rotation, TicketBook),
    /// By tickets with keys shared by all instances with the same storage.
    Shared(Arc<SharedKeys>),
    /// By tickets with configured keys, shared by all instances that have them.
    Given(GivenKeys),
    /// From the session cache of this process, without tickets.
    Kept,
    /// Not at all.
    Off,
}

impl Default for Tickets {
    fn default() -> Self {
        Tickets::Own(Rotation::default(), TicketBook::default())
    }
}

/// The rotation of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    interval: Duration,
    keys_max: usize,
    /// Whether keys are rotated at all.
    changes: bool,
}

impl Default for Rotation {
    fn default() -> Self {
        Rotation::new(TICKET_ROTATION, TICKET_KEYS)
    }
}

impl Rotation {
    /// A new key each `interval`, at least [`TICKET_ROTATION_MIN`]. Tickets are accepted while their key is one of the
    /// last `keys_max`, from one to [`TICKET_KEYS_MAX`].
    pub fn new(interval: Duration, keys_max: usize) -> Rotation {
        Rotation {
            interval: interval.max(TICKET_ROTATION_MIN),
            keys_max: keys_max.clamp(1, TICKET_KEYS_MAX),
            changes: true,
        }
    }

    /// A rotation with which tickets are accepted for `lifetime`, and at most for one and a half times as long; the
    /// interval is at least [`TICKET_ROTATION_MIN`].
    pub fn lasting(lifetime: Duration) -> Rotation {
        Rotation::new(lifetime / 2, 3)
    }

    /// A single key without rotation.
    pub fn never() -> Rotation {
        Rotation {
            changes: false,
            ..Rotation::default()
        }
    }

    /// Until when tickets are accepted if their key became active at `from`.
    fn until(&self, from: u64) -> u64 {
        if !self.changes {
            return u64::MAX;
        }
        let keys = u64::try_from(self.keys_max).unwrap_or(u64::MAX);
        from.saturating_add(self.interval.as_secs().saturating_mul(keys))
    }

    /// Whether a key that became active at `from` is still the current one. A key from the future was created before
    /// the clock was set back.
    fn is_current(&self, from: u64, now: u64) -> bool {
        !self.changes || (from <= now && now - from < self.interval.as_secs())
    }

    /// The ticket lifetime hint sent to clients, in seconds.
    fn lifetime(&self) -> u32 {
        let most = u32::try_from(TICKET_LIFETIME_MAX.as_secs()).unwrap_or(u32::MAX);
        u32::try_from(self.until(0)).unwrap_or(u32::MAX).min(most)
    }
}

/// Configured keys: the first encrypts tickets, all of them decrypt. All instances with the same keys and policy accept
/// each other's tickets.
#[derive(Clone, PartialEq, Eq)]
pub struct GivenKeys {
    secrets: Arc<[Secret]>,
}

/// The lengths of configured keys: those of OpenSSL, with AES-128 and with AES-256.
const GIVEN_BYTES: [usize; 2] = [48, 80];

impl GivenKeys {
    /// Creates keys from the contents of files.
    ///
    /// # Errors
    /// The index of a file with neither 48 nor 80 bytes.
    pub fn new(files: &[Vec<u8>]) -> Result<GivenKeys, usize> {
        if let Some(at) = files
            .iter()
            .position(|file| !GIVEN_BYTES.contains(&file.len()))
        {
            return Err(at);
        }
        let secret = |file: &Vec<u8>| {
            let mut bytes = [0; SECRET_BYTES];
            bytes.copy_from_slice(digest(&SHA256, file).as_ref());
            Secret { from: 0, bytes }
        };
        Ok(GivenKeys {
            secrets: files.iter().map(secret).collect(),
        })
    }
}

impl fmt::Debug for GivenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenKeys")
    }
}

/// Creates the ticketer of the policy that `scope` identifies.
pub(crate) fn ticketer(
    tickets: &Tickets,
    scope: &str,
) -> Result<Arc<dyn ProducesTickets>, NoRandom> {
    let source = match tickets {
        Tickets::Off | Tickets::Kept => return Ok(Arc::new(NoTickets)),
        Tickets::Given(keys) => Source::Given(keys.clone()),
        Tickets::Own(rotation, book) => Source::Own(*rotation, book.clone()),
        Tickets::Shared(keys) => Source::Shared(keys.clone()),
    };
    let sealer = Sealer {
        source,
        scope: scope.to_owned(),
        ring: RwLock::default(),
    };
    sealer.inherit(now())?;
    // Detect missing randomness now, not in a handshake.
    sealer.refresh(now())?;
    Ok(Arc::new(sealer))
}

/// The system provides no randomness.
#[derive(Debug)]
pub(crate) struct NoRandom;

impl fmt::Display for NoRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system's random number generator failed")
    }
}

/// The secret that keys are derived from.
#[derive(Clone, PartialEq, Eq)]
struct Secret {
    /// When it becomes active, in seconds since the Unix epoch.
    from: u64,
    bytes: [u8; SECRET_BYTES],
}

const SECRET_BYTES: usize = 32;

impl Secret {
    fn new(from: u64) -> Result<Secret, NoRandom> {
        let mut bytes = [0; SECRET_BYTES];
        rand::fill(&mut bytes).map_err(|_| NoRandom)?;
        Ok(Secret { from, bytes })
    }
}

/// The ticketer of one policy, with its keys.
struct Sealer {
    source: Source,
    scope: String,
    ring: RwLock<Ring>,
}

enum Source {
    Own(Rotation, TicketBook),
    Shared(Arc<SharedKeys>),
    Given(GivenKeys),
}

#[derive(Default)]
struct Ring {
    /// The generation of the shared secrets they are derived from.
    generation: u64,
    /// The newest first.
    keys: Vec<Key>,
}

/// A key derived for one policy.
struct Key {
    name: [u8; NAME_BYTES],
    from: u64,
    until: u64,
    seal: RandomizedNonceKey,
}

/// Length of the key name that tickets begin with: long enough that names never collide by chance.
const NAME_BYTES: usize = 16;

impl Key {
    /// Derives the key of a policy from a secret: the key of one policy reveals nothing about that of another (RFC
    /// 5869).
    fn new(secret: &Secret, scope: &str, rotation: Rotation) -> Result<Key, NoRandom> {
        let bound = Salt::new(HKDF_SHA256, LABEL).extract(&secret.bytes);
        let mut material = [0; NAME_BYTES + SECRET_BYTES];
        let info = [scope.as_bytes()];
        let made = bound
            .expand(&info, Length(material.len()))
            .and_then(|made| made.fill(&mut material));
        made.map_err(|_| NoRandom)?;
        let (name, key) = material.split_at(NAME_BYTES);
        Ok(Key {
            name: name.try_into().map_err(|_| NoRandom)?,
            from: secret.from,
            until: rotation.until(secret.from),
            // Nonces are random, and the cipher tolerates a repeated one (RFC 8452).
            seal: RandomizedNonceKey::new(&AES_256_GCM_SIV, key).map_err(|_| NoRandom)?,
        })
    }

    fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = plain.to_vec();
        let nonce = self
            .seal
            .seal_in_place_append_tag(Aad::from(self.name), &mut sealed)
            .ok()?;
        Some([&self.name[..], nonce.as_ref(), &sealed].concat())
    }

    fn open(&self, rest: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut opened = sealed.to_vec();
        let length = self
            .seal
            .open_in_place(nonce, Aad::from(self.name), &mut opened)
            .ok()?
            .len();
        opened.truncate(length);
        Some(opened)
    }
}

/// Separates these keys from others derived from the same secret.
const LABEL: &[u8] = b"sluice session tickets 1";

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Sealer {
    fn rotation(&self) -> Rotation {
        match &self.source {
            Source::Own(rotation, _) => *rotation,
            Source::Shared(keys) => keys.rotation(),
            Source::Given(_) => Rotation::never(),
        }
    }

    /// Rotates or reloads the keys if due.
    fn refresh(&self, now: u64) -> Result<(), NoRandom> {
        match &self.source {
            Source::Own(rotation, book) => self.rotate(*rotation, book, now),
            Source::Shared(keys) => self.follow(keys),
            Source::Given(keys) => self.take(keys),
        }
    }

    /// Takes the keys that another process had for this policy, if there are any.
    fn inherit(&self, now: u64) -> Result<(), NoRandom> {
        let Source::Own(rotation, book) = &self.source else {
            return Ok(());
        };
        let secrets = book.of(&self.scope);
        let keys = secrets
            .iter()
            .map(|secret| Key::new(secret, &self.scope, *rotation))
            .collect::<Result<Vec<_>, _>>()?;
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        ring.keys = keys;
        ring.keys.retain(|key| key.until > now);
        Ok(())
    }

    fn rotate(&self, rotation: Rotation, book: &TicketBook, now: u64) -> Result<(), NoRandom> {
        let is_current = |ring: &Ring| {
            let newest = ring.keys.first();
            newest.is_some_and(|key| rotation.is_current(key.from, now))
        };
        if is_current(&self.ring.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        if is_current(&ring) {
            return Ok(());
        }
        let secret = Secret::new(now)?;
        let key = Key::new(&secret, &self.scope, rotation)?;
        ring.keys.insert(0, key);
        ring.keys.truncate(rotation.keys_max);
        ring.keys.retain(|key| key.until > now);
        book.note(&self.scope, secret, |from| rotation.until(from) > now);
        Ok(())
    }

    fn take(&self, given: &GivenKeys) -> Result<(), NoRandom> {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        if !ring.keys.is_empty() {
            return Ok(());
        }
        drop(ring);
        let keys = given.secrets.iter();
        let keys = keys
            .map(|secret| Key::new(secret, &self.scope, Rotation::never()))
            .collect::<Result<_, _>>()?;
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        ring.keys = keys;
        Ok(())
    }

    fn follow(&self, shared: &SharedKeys) -> Result<(), NoRandom> {
        let generation = shared.generation();
        let known = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        if known.generation == generation {
            return Ok(());
        }
        drop(known);
        let secrets = shared.secrets();
        let keys = secrets
            .iter()
            .map(|secret| Key::new(secret, &self.scope, shared.rotation()))
            .collect::<Result<_, _>>()?;
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        *ring = Ring { generation, keys };
        Ok(())
    }

    fn seal(&self, plain: &[u8], now: u64) -> Option<Vec<u8>> {
        self.refresh(now).ok()?;
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        // A key that is not active yet is there for tickets of instances whose clocks are ahead.
        let usable = |key: &&Key| key.from <= now && now < key.until;
        ring.keys.iter().find(usable)?.seal(plain)
    }

    fn open(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        // After a failure, old keys still decrypt the tickets they encrypted.
        let _ = self.refresh(now);
        let (name, rest) = ticket.split_at_checked(NAME_BYTES)?;
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        let key = ring.keys.iter().find(|key| key.name == name)?;
        (now < key.until).then(|| key.open(rest))?
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

impl ProducesTickets for Sealer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.rotation().lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, now())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.open(cipher, now())
    }
}

fn now() -> u64 {
    seconds(SystemTime::now())
}

/// Seconds since the Unix epoch; 0 for an earlier clock.
fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    fn sealer(source: Source, scope: &str) -> Sealer {
        Sealer {
            source,
            scope: scope.to_owned(),
            ring: RwLock::default(),
        }
    }

    fn own(rotation: Rotation) -> Sealer {
        sealer(Source::Own(rotation, TicketBook::default()), "")
    }

    fn hourly(keys_max: usize) -> Sealer {
        own(Rotation::new(Duration::from_secs(HOUR), keys_max))
    }

    #[test]
    fn instances_with_the_same_given_keys_open_the_tickets_of_one_another() {
        let keys = |files: &[u8]| {
            let files: Vec<Vec<u8>> = files.iter().map(|byte| vec![*byte; 80]).collect();
            Tickets::Given(GivenKeys::new(&files).unwrap())
        };
        let old = ticketer(&keys(&[1]), "a").unwrap();
        let sealed = old.encrypt(b"session").unwrap();
        let opened =
            |tickets: Tickets, scope: &str| ticketer(&tickets, scope).unwrap().decrypt(&sealed);
        assert_eq!(opened(keys(&[1]), "a").as_deref(), Some(&b"session"[..]));
        assert_eq!(opened(keys(&[2, 1]), "a").as_deref(), Some(&b"session"[..]));
        assert_eq!(opened(keys(&[2]), "a"), None);
        assert_eq!(opened(keys(&[1]), "b"), None, "another policy");
        assert_eq!(opened(Tickets::Kept, "a"), None);
        assert_eq!(GivenKeys::new(&[vec![0; 80], vec![0; 79]]).err(), Some(1));
    }

    #[test]
    fn tickets_last_as_long_as_is_asked_for() {
        let rotation = Rotation::lasting(Duration::from_secs(600));
        assert_eq!(rotation.until(0), 900);
        assert!(rotation.is_current(0, 299) && !rotation.is_current(0, 300));
        assert_eq!(Rotation::lasting(Duration::ZERO).until(0), 180);
    }

    #[test]
    fn tickets_are_taken_as_long_as_their_key_is_one_of_the_last() {
        let sealer = hourly(3);
        let begin = 1_000_000;
        let ticket = sealer.seal(b"session", begin).unwrap();
        let opened = |now| sealer.open(&ticket, now);
        for later in [0, HOUR - 1, HOUR, 2 * HOUR, 3 * HOUR - 1] {
            assert_eq!(opened(begin + later).as_deref(), Some(&b"session"[..]));
        }
        assert_eq!(opened(begin + 3 * HOUR), None);
        assert_eq!(opened(begin), None, "the key is gone for good");
    }

    #[test]
    fn unused_old_keys_are_not_used() {
        let sealer = hourly(3);
        let ticket = sealer.seal(b"session", 0).unwrap();
        assert!(sealer.open(&ticket, 100 * HOUR).is_none());
        let again = sealer.seal(b"session", 100 * HOUR).unwrap();
        assert_ne!(ticket[..NAME_BYTES], again[..NAME_BYTES]);
        assert_eq!(sealer.ring.read().unwrap().keys.len(), 1);
    }

    /// Attack row 37: without the current key, even with an old one or a guess that there is none, no ticket can be
    /// decrypted or forged.
    #[test]
    fn nobody_opens_the_tickets_of_another_key_however_often_they_change() {
        let sealer = hourly(1);
        let mut before: Option<Vec<u8>> = None;
        for turn in 0..1000 {
            let now = turn * HOUR;
            let ticket = sealer.seal(b"session", now).unwrap();
            assert_eq!(sealer.open(&ticket, now).as_deref(), Some(&b"session"[..]));
            assert_eq!(sealer.ring.read().unwrap().keys.len(), 1);
            // Tickets of old keys, empty ones, and those for an all-zero key or name.
            let old = before.replace(ticket.clone());
            assert!(old.is_none_or(|old| sealer.open(&old, now).is_none()));
            let mut forged = ticket.clone();
            forged[..NAME_BYTES].fill(0);
            assert_eq!(sealer.open(&forged, now), None);
            assert_eq!(sealer.open(&vec![0; ticket.len()], now), None);
        }
    }

    #[test]
    fn no_byte_of_a_ticket_can_be_changed_or_left_out() {
        let sealer = hourly(2);
        let ticket = sealer.seal(b"session", 0).unwrap();
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(sealer.open(&changed, 0), None, "byte {at}");
            assert_eq!(sealer.open(&ticket[..at], 0), None, "the first {at}");
        }
        assert_ne!(sealer.seal(b"session", 0).unwrap(), ticket);
    }

    #[test]
    fn a_clock_that_is_set_back_loses_no_sessions_and_keeps_no_key_longer() {
        let sealer = hourly(2);
        let ticket = sealer.seal(b"session", 10 * HOUR).unwrap();
        let back = sealer.seal(b"session", 5 * HOUR).unwrap();
        assert_ne!(ticket[..NAME_BYTES], back[..NAME_BYTES]);
        assert!(sealer.open(&ticket, 5 * HOUR).is_some());
        assert!(sealer.open(&back, 7 * HOUR).is_none());
    }

    #[test]
    fn a_fixed_ticket_key_announces_a_lifetime_of_a_week() {
        let sealer = own(Rotation::never());
        let ticket = sealer.seal(b"session", 0).unwrap();
        assert!(sealer.open(&ticket, 1_000_000_000).is_some());
        assert_eq!(ProducesTickets::lifetime(&sealer), 7 * 24 * 3600);
    }

    #[test]
    fn tickets_announce_their_lifetime_to_clients() {
        let lifetime_of = |tickets| ticketer(&tickets, "").unwrap().lifetime();
        assert_eq!(lifetime_of(Tickets::default()), 3 * 6 * 3600);
        let rotation = |seconds, keys| Rotation::new(Duration::from_secs(seconds), keys);
        let own = |rotation| Tickets::Own(rotation, TicketBook::default());
        assert_eq!(lifetime_of(own(rotation(3600, 2))), 2 * 3600);
        let shortest = u32::try_from(TICKET_ROTATION_MIN.as_secs()).unwrap();
        assert_eq!(lifetime_of(own(rotation(0, 0))), shortest);
        assert_eq!(lifetime_of(own(rotation(1 << 40, 9))), 7 * 24 * 3600);
        assert!(!ticketer(&Tickets::Off, "").unwrap().enabled());
    }

    #[test]
    fn more_keys_than_there_may_be_are_not_kept() {
        let sealer = hourly(usize::MAX);
        for turn in 0..TICKET_KEYS_MAX as u64 + 9 {
            sealer.seal(b"session", turn * HOUR).unwrap();
        }
        let keys = sealer.ring.read().unwrap().keys.len();
        assert_eq!(keys, TICKET_KEYS_MAX);
    }
}
