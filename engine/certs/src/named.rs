//! Certificates with variable paths, which depend on the handshake: they are read when a handshake needs them, off the
//! workers, and cached if the configuration says so. The layer above evaluates the paths.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, SignatureAlgorithm, SignatureScheme};
use sluice_net::tls::Ends;
use tokio::sync::oneshot;

use crate::encrypted_keys::Passwords;
use crate::failure::CertsError;
use crate::limits::{NAMED_KEPT_MAX, NAMED_THREADS_MAX, NAMED_WAITING_MAX};
use crate::pair::{Origin, Pair};
use crate::pem_file::read_file;
use crate::storage::StoredPair;

/// The name of a pair: two paths, or PEM texts with the prefix `data:`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PairName {
    /// The certificate chain.
    pub certificate: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
}

/// The prefix of PEM texts in place of a path.
pub const DATA: &[u8] = b"data:";

/// Computes the names of pairs for handshakes, and logs failures.
pub trait NamesPairs: Send + Sync {
    /// The pairs for a client between `ends` that requests `server_name`.
    fn names(&self, server_name: Option<&str>, ends: Ends) -> Vec<PairName>;

    /// Called when a handshake fails because a pair is unavailable.
    fn log_failure(&self, failed: &Unusable, ends: Ends);
}

/// Why a handshake has no certificate.
#[derive(Clone, Debug)]
pub enum Unusable {
    /// A pair cannot be used.
    Pair {
        /// Its name.
        name: PairName,
        /// The reason.
        error: Arc<CertsError>,
    },
    /// Too many handshakes are waiting.
    Overloaded,
}

/// Cache settings; no cache if `max` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Maximum number of pairs.
    pub max: usize,
    /// A pair that was not used for this long is dropped.
    pub inactive: Duration,
    /// A pair is read again after this time.
    pub valid: Duration,
}

/// Pairs whose names depend on the handshake.
pub struct NamedPairs {
    names: Arc<dyn NamesPairs>,
    passwords: Arc<Passwords>,
    keep: Keep,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: HashMap<PairName, Kept>,
    /// Handshakes waiting for pairs that are being read or queued.
    waiting: HashMap<Vec<PairName>, Vec<oneshot::Sender<Found>>>,
    /// Total number of waiting handshakes.
    waiting_count: usize,
    queue: VecDeque<Vec<PairName>>,
    /// Number of running threads.
    threads: usize,
}

struct Kept {
    pair: Arc<Pair>,
    read: Instant,
    used: Instant,
}

/// The pairs of a handshake, or why there are none.
type Found = Result<Arc<[Arc<Pair>]>, Unusable>;

/// The pending result for a handshake.
pub(crate) struct Finding {
    named: Arc<NamedPairs>,
    ends: Ends,
    state: Finds,
}

enum Finds {
    Now(Found),
    Later(oneshot::Receiver<Found>),
}

impl Finding {
    /// The pairs; a failure was logged.
    pub(crate) async fn end(self) -> Option<Arc<[Arc<Pair>]>> {
        let found = match self.state {
            Finds::Now(found) => found,
            // The sender is dropped without a result only if its thread panicked or could not be started.
            Finds::Later(found) => found.await.unwrap_or(Err(Unusable::Overloaded)),
        };
        match found {
            Ok(pairs) => Some(pairs),
            Err(failed) => {
                self.named.names.log_failure(&failed, self.ends);
                None
            }
        }
    }
}

impl NamedPairs {
    /// Pairs with names computed by `names`, and `passwords` for their keys.
    pub fn new(names: Arc<dyn NamesPairs>, passwords: Arc<Passwords>, keep: Keep) -> NamedPairs {
        NamedPairs {
            names,
            passwords,
            keep: Keep {
                max: keep.max.min(NAMED_KEPT_MAX),
                ..keep
            },
            state: Mutex::default(),
        }
    }

    /// Starts finding the pairs for a client between `ends` that requests `server_name`.
    pub(crate) fn find(self: &Arc<Self>, server_name: Option<&str>, ends: Ends) -> Finding {
        let names = self.names.names(server_name, ends);
        Finding {
            state: self.begin(names),
            named: self.clone(),
            ends,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every single change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>, names: Vec<PairName>) -> Finds {
        let mut state = self.state();
        if let Some(pairs) = state.all_kept(&names, self.keep, Instant::now()) {
            return Finds::Now(Ok(pairs));
        }
        if state.waiting_count >= NAMED_WAITING_MAX {
            return Finds::Now(Err(Unusable::Overloaded));
        }
        state.waiting_count += 1;
        let (sender, receiver) = oneshot::channel();
        if let Some(waiters) = state.waiting.get_mut(&names) {
            waiters.push(sender);
            return Finds::Later(receiver);
        }
        state.waiting.insert(names.clone(), vec![sender]);
        state.queue.push_back(names);
        if state.threads < NAMED_THREADS_MAX {
            state.threads += 1;
            drop(state);
            self.start();
        }
        Finds::Later(receiver)
    }

    fn start(self: &Arc<Self>) {
        let ours = self.clone();
        let started = std::thread::Builder::new()
            .name("certificates by name".to_owned())
            .spawn(move || ours.work());
        if started.is_err() {
            // Waiting handshakes notice because their channels are closed.
            let mut state = self.state();
            state.threads -= 1;
            if state.threads == 0 {
                state.queue.clear();
                state.waiting.clear();
                state.waiting_count = 0;
            }
        }
    }

    /// Reads pairs until the queue is empty.
    fn work(&self) {
        loop {
            let mut state = self.state();
            let Some(names) = state.queue.pop_front() else {
                state.threads -= 1;
                return;
            };
            drop(state);
            let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.read(&names)));
            let found = read.unwrap_or(Err(Unusable::Overloaded));
            let mut state = self.state();
            let waiters = state.waiting.remove(&names).unwrap_or_default();
            state.waiting_count -= waiters.len();
            drop(state);
            for waiter in waiters {
                // A handshake that has ended needs no certificate.
                let _ = waiter.send(found.clone());
            }
        }
    }

    fn read(&self, names: &[PairName]) -> Found {
        let mut pairs = Vec::with_capacity(names.len());
        for name in names {
            let now = Instant::now();
            let kept = self.state().kept(name, self.keep, now);
            let pair = match kept {
                Some(pair) => pair,
                None => {
                    let pair = Arc::new(self.read_one(name).map_err(|error| Unusable::Pair {
                        name: name.clone(),
                        error: Arc::new(error),
                    })?);
                    self.state().keep(name, &pair, self.keep, now);
                    pair
                }
            };
            pairs.push(pair);
        }
        Ok(pairs.into())
    }

    fn read_one(&self, name: &PairName) -> Result<Pair, CertsError> {
        let certificate = text_of(&name.certificate)?;
        let key = text_of(&name.key)?;
        let stored = StoredPair {
            certificate: certificate.1,
            key: key.1,
        };
        let origin = Origin {
            certificate: &certificate.0,
            key: &key.0,
        };
        Pair::from_sealed(&stored, origin, &self.passwords)
    }
}

/// The text for a path or `data:` name, and its name in messages.
///
/// # Errors
/// The file cannot be read, or is larger than [`PEM_BYTES_MAX`](crate::limits::PEM_BYTES_MAX).
pub fn text_of(name: &[u8]) -> Result<(PathBuf, Vec<u8>), CertsError> {
    if let Some(text) = name.strip_prefix(DATA) {
        return Ok((PathBuf::from("data:"), text.to_vec()));
    }
    let path = Path::new(OsStr::from_bytes(name));
    match read_file(path)? {
        Some(text) => Ok((path.to_owned(), text)),
        None => Err(CertsError::io(
            "read",
            path,
            std::io::ErrorKind::NotFound.into(),
        )),
    }
}

impl State {
    /// All of these pairs, if they are cached and current.
    fn all_kept(
        &mut self,
        names: &[PairName],
        keep: Keep,
        now: Instant,
    ) -> Option<Arc<[Arc<Pair>]>> {
        names
            .iter()
            .map(|name| self.kept(name, keep, now))
            .collect()
    }

    fn kept(&mut self, name: &PairName, keep: Keep, now: Instant) -> Option<Arc<Pair>> {
        let kept = self.kept.get_mut(name)?;
        let since = |then: Instant| now.saturating_duration_since(then);
        if since(kept.read) >= keep.valid || since(kept.used) >= keep.inactive {
            return None;
        }
        kept.used = now;
        Some(kept.pair.clone())
    }

    /// Caches a pair; if the cache is full, the least recently used one is dropped. Texts are not cached: a lookup
    /// costs as much as parsing.
    fn keep(&mut self, name: &PairName, pair: &Arc<Pair>, keep: Keep, now: Instant) {
        let is_text = name.certificate.starts_with(DATA) || name.key.starts_with(DATA);
        if keep.max == 0 || is_text {
            return;
        }
        if self.kept.len() >= keep.max && !self.kept.contains_key(name) {
            let is_needed = |kept: &Kept| now.saturating_duration_since(kept.used) < keep.inactive;
            self.kept.retain(|_, kept| is_needed(kept));
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used);
            let oldest = oldest.map(|(name, _)| name.clone());
            if let Some(oldest) = oldest.filter(|_| self.kept.len() >= keep.max) {
                self.kept.remove(&oldest);
            }
        }
        let kept = Kept {
            pair: pair.clone(),
            read: now,
            used: now,
        };
        self.kept.insert(name.clone(), kept);
    }
}

/// What the client supports, as far as it affects the selection of a pair.
pub(crate) struct Wishes<'a> {
    /// Signature schemes, in order of preference.
    pub(crate) schemes: &'a [SignatureScheme],
    /// Cipher suites, in order of preference.
    pub(crate) suites: &'a [CipherSuite],
    /// The protocol settings of the policy.
    pub(crate) spoken: &'a Spoken,
}

/// The protocol settings of a policy, as far as they affect the selection of a pair.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spoken {
    /// Whether TLS 1.3 is enabled.
    pub(crate) has_13: bool,
    /// The enabled TLS 1.2 cipher suites, by their IANA names; all supported ones if empty.
    pub(crate) older: Vec<String>,
}

impl Wishes<'_> {
    /// Selects the pair that the client prefers, as OpenSSL does: in TLS 1.3 by the order of its signature schemes, in
    /// TLS 1.2 by the order of its cipher suites, each of which requires a key type. Of two pairs with the same key
    /// type, the later one is used.
    pub(crate) fn choose<'p>(
        &self,
        pairs: impl DoubleEndedIterator<Item = &'p Arc<Pair>> + Clone,
    ) -> Option<&'p Arc<Pair>> {
        let is_modern = |suite: &CipherSuite| {
            let name = suite.as_str().unwrap_or_default();
            name.starts_with("TLS13_")
        };
        if self.spoken.has_13 && self.suites.iter().any(is_modern) {
            return self.schemes.iter().find_map(|scheme| {
                let fits =
                    |pair: &&Arc<Pair>| pair.certified.key.choose_scheme(&[*scheme]).is_some();
                pairs.clone().rev().find(fits)
            });
        }
        self.suites.iter().find_map(|suite| {
            let name = suite.as_str()?;
            let older = &self.spoken.older;
            let is_spoken = older.is_empty() || older.iter().any(|known| known == name);
            let is_spoken = is_spoken && (name.contains("_GCM_") || name.contains("_CHACHA20_"));
            let is_rsa = name.starts_with("TLS_ECDHE_RSA_");
            let is_ec = name.starts_with("TLS_ECDHE_ECDSA_");
            let fits = |pair: &&Arc<Pair>| {
                let key = &pair.certified.key;
                (key.algorithm() == SignatureAlgorithm::RSA) == is_rsa
                    && key.choose_scheme(self.schemes).is_some()
            };
            let mut pairs = pairs.clone().rev();
            (is_spoken && (is_rsa || is_ec)).then(|| pairs.find(fits))?
        })
    }
}

/// Serves the pair that the client prefers, regardless of the server name.
pub(crate) struct ByClient {
    pub(crate) pairs: Arc<[Arc<Pair>]>,
    pub(crate) spoken: Spoken,
}

impl ResolvesServerCert for ByClient {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let wishes = Wishes {
            schemes: hello.signature_schemes(),
            suites: hello.cipher_suites(),
            spoken: &self.spoken,
        };
        Some(wishes.choose(self.pairs.iter())?.certified.clone())
    }
}

impl fmt::Debug for ByClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pairs", self.pairs.len())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tests::{TempFolder, TestCa};

    struct Fixed(Vec<PairName>);

    impl NamesPairs for Fixed {
        fn names(&self, _: Option<&str>, _: Ends) -> Vec<PairName> {
            self.0.clone()
        }

        fn log_failure(&self, _: &Unusable, _: Ends) {}
    }

    /// A pair on disk that can be replaced.
    struct OnDisk {
        folder: TempFolder,
        ca: TestCa,
    }

    impl OnDisk {
        fn write(&self, subject: &str) -> PairName {
            let made = self.ca.issue(subject);
            let path = |name: &str| self.folder.path().join(name);
            fs::write(path("a.crt"), made.certificate).unwrap();
            fs::write(path("a.key"), made.key).unwrap();
            let bytes = |name: &str| path(name).as_os_str().as_bytes().to_vec();
            PairName {
                certificate: bytes("a.crt"),
                key: bytes("a.key"),
            }
        }
    }

    fn found(named: &Arc<NamedPairs>) -> Found {
        match named.find(None, Ends::default()).state {
            Finds::Now(found) => found,
            Finds::Later(found) => found.blocking_recv().unwrap(),
        }
    }

    fn subject(named: &Arc<NamedPairs>) -> String {
        found(named).unwrap()[0].subjects[0].to_string()
    }

    fn pairs(name: PairName, keep: Keep) -> Arc<NamedPairs> {
        let names = Arc::new(Fixed(vec![name]));
        Arc::new(NamedPairs::new(names, Arc::default(), keep))
    }

    #[test]
    fn pairs_are_read_each_time_or_kept_for_as_long_as_is_said() {
        let disk = OnDisk {
            folder: TempFolder::new(),
            ca: TestCa::new(),
        };
        let long = Duration::from_secs(3600);
        let keep = Keep {
            max: 1,
            inactive: long,
            valid: long,
        };
        let stale = Keep {
            valid: Duration::ZERO,
            ..keep
        };
        let name = disk.write("a.test");
        let [fresh, kept, stale] =
            [Keep::default(), keep, stale].map(|keep| pairs(name.clone(), keep));
        for named in [&fresh, &kept, &stale] {
            assert_eq!(subject(named), "a.test");
        }
        disk.write("b.test");
        assert_eq!(subject(&fresh), "b.test");
        assert_eq!(subject(&kept), "a.test");
        assert_eq!(subject(&stale), "b.test");
        fs::remove_file(disk.folder.path().join("a.key")).unwrap();
        assert!(found(&fresh).is_err() && found(&kept).is_ok());
    }

    #[test]
    fn texts_are_read_as_key_pairs_and_others_refused() {
        let made = TestCa::new().issue("a.test");
        let data = |text: &[u8]| [DATA, text].concat();
        let name = PairName {
            certificate: data(&made.certificate),
            key: data(&made.key),
        };
        assert_eq!(subject(&pairs(name.clone(), Keep::default())), "a.test");
        let empty = PairName {
            key: data(b""),
            ..name
        };
        let failed = found(&pairs(empty, Keep::default())).unwrap_err();
        let Unusable::Pair { error, .. } = failed else {
            panic!("{failed:?}");
        };
        assert_eq!(error.to_string(), "no private key in `data:`");
    }

    #[test]
    fn cached_pairs_and_waiting_handshakes_are_bounded() {
        let disk = OnDisk {
            folder: TempFolder::new(),
            ca: TestCa::new(),
        };
        let name = disk.write("a.test");
        let pair = Arc::new(
            pairs(name.clone(), Keep::default())
                .read_one(&name)
                .unwrap(),
        );
        let long = Duration::from_secs(3600);
        let keep = Keep {
            max: 2,
            inactive: long,
            valid: long,
        };
        let mut state = State::default();
        let now = Instant::now();
        let named = |letter: u8| PairName {
            certificate: vec![letter],
            key: vec![letter],
        };
        for (at, letter) in [b'a', b'b', b'c'].into_iter().enumerate() {
            let now = now + Duration::from_secs(at as u64);
            state.keep(&named(letter), &pair, keep, now);
            let after = now + Duration::from_millis(500);
            assert!(
                state.kept(&named(b'a'), keep, after).is_some(),
                "it is used"
            );
        }
        assert_eq!(state.kept.len(), 2);
        assert!(state.kept(&named(b'b'), keep, now).is_none());
        let later = now + Duration::from_secs(3700);
        assert!(state.kept(&named(b'a'), keep, later).is_none());
        let limited = NamedPairs::new(
            Arc::new(Fixed(Vec::new())),
            Arc::default(),
            Keep {
                max: usize::MAX,
                ..keep
            },
        );
        assert_eq!(limited.keep.max, NAMED_KEPT_MAX);
        let overloaded = pairs(name, Keep::default());
        overloaded.state().waiting_count = NAMED_WAITING_MAX;
        assert!(matches!(found(&overloaded), Err(Unusable::Overloaded)));
    }
}
