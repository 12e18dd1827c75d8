//! The certificates that can be served, and their selection during a handshake. `policy` has the TLS versions and
//! client requirements.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::named::{Spoken, Wishes};
use crate::pair::Pair;
use crate::selection::{Selection, Unmatched};
use crate::subject::Subject;

/// The certificates of a configuration. Renewed ones replace the old ones in place, so later handshakes use them
/// without a restart.
#[derive(Default)]
pub struct CertStore {
    index: RwLock<Index>,
}

#[derive(Default)]
struct Index {
    /// By name, wildcard or IP address; in each list manually loaded ones come first.
    by_subject: HashMap<Subject, Vec<Entry>>,
    first: Vec<Entry>,
    /// By tag, in the order of the configuration; manually loaded ones only.
    by_tag: HashMap<String, Vec<Entry>>,
    /// Names whose certificate is on order.
    expected: HashSet<Subject>,
}

#[derive(Clone)]
struct Entry {
    pair: Arc<Pair>,
    /// The certificate with its OCSP staple, served instead.
    stapled: Option<Arc<CertifiedKey>>,
    is_managed: bool,
}

/// Which certificate to serve if none matches the client's request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fallback {
    /// The name assumed for clients without SNI.
    pub default_sni: Option<Subject>,
    /// The name assumed if no certificate matches.
    pub fallback_sni: Option<Subject>,
}

impl CertStore {
    /// A store of manually loaded certificates, in order of preference.
    pub fn new(manual: impl IntoIterator<Item = Arc<Pair>>) -> Arc<CertStore> {
        let mut index = Index::default();
        for pair in manual {
            index.add(Entry {
                pair,
                stapled: None,
                is_managed: false,
            });
        }
        Arc::new(CertStore {
            index: RwLock::new(index),
        })
    }

    /// Adds a managed certificate. It replaces an earlier one for the same subjects.
    pub fn put(&self, pair: Arc<Pair>) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.add(Entry {
            pair,
            stapled: None,
            is_managed: true,
        });
    }

    /// Records that a certificate for `subject` is on order: until it arrives, clients requesting the name get none
    /// rather than one for another name.
    pub fn expect(&self, subject: Subject) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.expected.insert(subject);
    }

    /// Whether there is a certificate for exactly `subject`, or a wildcard that covers it.
    pub fn covers(&self, subject: &Subject) -> bool {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.by_subject.contains_key(subject)
            || wildcard_of(subject).is_some_and(|subject| index.by_subject.contains_key(&subject))
    }

    /// The certificate for exactly `subject`, or a wildcard that covers it.
    pub fn pair_for(&self, subject: &Subject) -> Option<Arc<Pair>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let of = |subject: &Subject| Some(index.by_subject.get(subject)?.first()?.pair.clone());
        of(subject).or_else(|| of(&wildcard_of(subject)?))
    }

    /// Replaces `old`, a manually loaded certificate, by `new`.
    pub fn replace(&self, old: &Arc<Pair>, new: &Arc<Pair>) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let entries = std::mem::take(&mut index.first);
        index.by_subject.clear();
        index.by_tag.clear();
        for mut entry in entries {
            if Arc::ptr_eq(&entry.pair, old) {
                entry.pair = new.clone();
                entry.stapled = None;
            }
            index.add(entry);
        }
    }

    /// Removes the managed certificate for `subject`.
    pub fn remove(&self, subject: &Subject) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let is_other = |entry: &Entry| {
            !entry.is_managed || entry.pair.subjects != std::slice::from_ref(subject)
        };
        if let Some(entries) = index.by_subject.get_mut(subject) {
            entries.retain(is_other);
            if entries.is_empty() {
                index.by_subject.remove(subject);
            }
        }
        index.first.retain(is_other);
    }

    /// All certificates.
    pub(crate) fn pairs(&self) -> Vec<Arc<Pair>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.first.iter().map(|entry| entry.pair.clone()).collect()
    }

    /// Staples the OCSP response `response` to a certificate, or none.
    pub(crate) fn staple(&self, pair: &Arc<Pair>, response: Option<&[u8]>) {
        let is_it = |entry: &&Entry| Arc::ptr_eq(&entry.pair, pair);
        let shown = |entry: &Entry| entry.stapled.as_ref().and_then(|one| one.ocsp.clone());
        {
            let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
            let found = index.first.iter().find(is_it);
            if found.is_none_or(|entry| shown(entry).as_deref() == response) {
                return;
            }
        }
        let stapled = response.map(|response| {
            let CertifiedKey { cert, key, .. } = &*pair.certified;
            Arc::new(CertifiedKey {
                cert: cert.clone(),
                key: key.clone(),
                ocsp: Some(response.to_vec()),
            })
        });
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let Index {
            by_subject,
            first,
            by_tag,
            ..
        } = &mut *index;
        let of_subjects = pair.subjects.iter();
        for subject in of_subjects {
            for entry in by_subject.get_mut(subject).into_iter().flatten() {
                if Arc::ptr_eq(&entry.pair, pair) {
                    entry.stapled = stapled.clone();
                }
            }
        }
        for tag in &pair.tags {
            for entry in by_tag.get_mut(tag).into_iter().flatten() {
                if Arc::ptr_eq(&entry.pair, pair) {
                    entry.stapled = stapled.clone();
                }
            }
        }
        for entry in first.iter_mut() {
            if Arc::ptr_eq(&entry.pair, pair) {
                entry.stapled = stapled.clone();
            }
        }
    }

    /// The number of certificates.
    pub fn len(&self) -> usize {
        self.index
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .first
            .len()
    }

    /// Whether there are no certificates.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The certificate with this tag that the client prefers, regardless of the server name.
    pub(crate) fn choose_by_client(
        &self,
        tag: &str,
        wishes: &Wishes<'_>,
    ) -> Option<Arc<CertifiedKey>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let entries = index.by_tag.get(tag)?;
        let chosen = wishes.choose(entries.iter().map(|entry| &entry.pair))?;
        let entry = entries
            .iter()
            .find(|entry| Arc::ptr_eq(&entry.pair, chosen))?;
        Some(entry.shown().clone())
    }

    /// The certificate for a client that requests `server_name` at our address `local`: an exact match, then a
    /// wildcard, then the fallback, then what `unmatched` says.
    pub fn choose(
        &self,
        server_name: Option<&str>,
        local: Option<IpAddr>,
        fallback: &Fallback,
        unmatched: Unmatched,
        usable: impl Fn(&Pair) -> bool,
    ) -> Option<Arc<CertifiedKey>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now();
        let wanted = match server_name {
            Some(name) => Subject::parse(name).ok(),
            None => local.and_then(|ip| Subject::parse(&ip.to_string()).ok()),
        };
        let assumed = match server_name {
            Some(_) => None,
            None => fallback.default_sni.as_ref(),
        };
        [wanted.as_ref(), assumed, fallback.fallback_sni.as_ref()]
            .into_iter()
            .flatten()
            .find_map(|subject| index.find(subject, now, &usable))
            .or_else(|| {
                if unmatched == Unmatched::Refuse {
                    return None;
                }
                let is_expected = wanted.as_ref().is_some_and(|w| index.expected.contains(w));
                best(&index.first, now, &usable).filter(|_| !is_expected)
            })
    }
}

impl Entry {
    fn shown(&self) -> &Arc<CertifiedKey> {
        self.stapled.as_ref().unwrap_or(&self.pair.certified)
    }
}

impl Index {
    fn add(&mut self, entry: Entry) {
        if !entry.is_managed {
            for tag in &entry.pair.tags {
                let tagged = self.by_tag.entry(tag.clone()).or_default();
                tagged.push(entry.clone());
            }
        }
        let mut replaced = entry.pair.subjects.is_empty();
        for subject in &entry.pair.subjects {
            self.expected.remove(subject);
            let entries = self.by_subject.entry(subject.clone()).or_default();
            replaced |= insert(entries, entry.clone());
        }
        // Search all certificates only if there is one to replace.
        if !replaced {
            self.first.push(entry);
        } else {
            insert(&mut self.first, entry);
        }
    }

    fn find(
        &self,
        subject: &Subject,
        now: SystemTime,
        usable: &impl Fn(&Pair) -> bool,
    ) -> Option<Arc<CertifiedKey>> {
        let of = |subject: &Subject| best(self.by_subject.get(subject)?, now, usable);
        of(subject).or_else(|| of(&wildcard_of(subject)?))
    }
}

/// Replaces an earlier version of a managed certificate and returns true; otherwise appends the entry.
fn insert(entries: &mut Vec<Entry>, entry: Entry) -> bool {
    let earlier = entries.iter_mut().find(|other| {
        entry.is_managed && other.is_managed && other.pair.subjects == entry.pair.subjects
    });
    match earlier {
        Some(earlier) => {
            *earlier = entry;
            true
        }
        None => {
            entries.push(entry);
            false
        }
    }
}

/// The first usable one that is valid, or else the first usable one: clients then report the actual problem.
fn best(
    entries: &[Entry],
    now: SystemTime,
    usable: &impl Fn(&Pair) -> bool,
) -> Option<Arc<CertifiedKey>> {
    let usable = || entries.iter().filter(|entry| usable(&entry.pair));
    let is_valid =
        |entry: &&Entry| !entry.pair.lifetime.has_ended(now) && !entry.pair.lifetime.is_ahead(now);
    usable()
        .find(is_valid)
        .or_else(|| usable().next())
        .map(|entry| entry.shown().clone())
}

/// `*.example.com` for `www.example.com`: a wildcard matches exactly one label (RFC 9525, section 6.3).
pub(crate) fn wildcard_of(subject: &Subject) -> Option<Subject> {
    let (first, rest) = subject.name()?.split_once('.')?;
    if first == "*" {
        None
    } else {
        Subject::parse(&format!("*.{rest}")).ok()
    }
}

/// A certificate of the store used as a client certificate for upstreams. It is looked up each time, so renewals take
/// effect.
pub(crate) struct Shown {
    store: Arc<CertStore>,
    subject: Subject,
}

impl CertStore {
    /// Presents the certificate for `subject` to servers that request one; none if there is none.
    pub fn shown(self: &Arc<Self>, subject: Subject) -> Arc<dyn ResolvesClientCert> {
        Arc::new(Shown {
            store: self.clone(),
            subject,
        })
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(
        &self,
        _authorities: &[&[u8]],
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let pair = self.store.pair_for(&self.subject)?;
        let is_usable = pair.certified.key.choose_scheme(schemes).is_some();
        is_usable.then(|| pair.certified.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown")
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}

/// The store as a rustls certificate resolver.
pub(crate) struct Resolver {
    pub(crate) store: Arc<CertStore>,
    pub(crate) fallback: Fallback,
    /// Which certificates may be served.
    pub(crate) selection: Selection,
    /// The address the client connected to, if it matters.
    pub(crate) local: Option<IpAddr>,
    /// The protocol settings, if the client's preference decides.
    pub(crate) spoken: Spoken,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes: &[SignatureScheme] = hello.signature_schemes();
        if let Some(tag) = self
            .selection
            .any_tag
            .first()
            .filter(|_| self.selection.by_client)
        {
            let wishes = Wishes {
                schemes,
                suites: hello.cipher_suites(),
                spoken: &self.spoken,
            };
            return self.store.choose_by_client(tag, &wishes);
        }
        let usable = |pair: &Pair| {
            self.selection.takes(pair) && pair.certified.key.choose_scheme(schemes).is_some()
        };
        self.store.choose(
            hello.server_name(),
            self.local,
            &self.fallback,
            self.selection.unmatched(),
            usable,
        )
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("fallback", &self.fallback)
            .finish_non_exhaustive()
    }
}
