//! A prefix of etcd as a source of upstreams: each value below it is `HOST:PORT`; the names of the keys do not matter.
//!
//! A thread follows the prefix, so that a change is in use with the next request. What it has read outlives configurations. A
//! copy on this node stands in if etcd is away when the server starts; later the last list stays in use.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use aws_lc_rs::digest;
use sluice_message::Moment;
use sluice_model::EtcdStorage;
use sluice_model::proxy::EtcdUpstreams;
use sluice_net::clock;
use sluice_net::signal::Signal;
use sluice_observe::log::Log;
use sluice_observe::metrics::{UpstreamList, UpstreamListTotals};
use sluice_pipeline::refusal::Refusal;
use sluice_store::etcd::{EtcdOptions, EtcdStore};
use sluice_store::{Fault, FileStore, Guard, Key, Reach, Store, StoreError, Write};
use sluice_tls::storages;

use super::Around;
use super::record::registered;
use crate::limits::{
    SOURCE_ETCD_KEYS_AT_ONCE, SOURCE_ETCD_KEYS_MAX, SOURCE_ETCD_LOOK, SOURCE_ETCD_PAUSE,
    SOURCE_ETCD_TIMEOUT, SOURCE_RECORDS_MAX,
};

const LOGGER: &str = "http.reverse_proxy.upstreams.etcd";

/// The prefixes in use. Configurations that name the same one share it, so that a reload needs no etcd.
#[derive(Debug, Default)]
struct Prefixes(Mutex<HashMap<Identity, Weak<Prefix>>>);

/// A digest of the settings, which may contain a password.
type Identity = [u8; digest::SHA256_OUTPUT_LEN];

/// A prefix of etcd, and what is known of it.
#[derive(Debug)]
pub struct Prefix {
    place: Box<str>,
    standing: Mutex<Standing>,
    /// Raised when the first attempt to read it has ended.
    tried: Signal,
}

#[derive(Debug, Default)]
struct Standing {
    list: Option<Arc<Listed>>,
    /// Whether an attempt to read it has ended.
    is_tried: bool,
    is_away: bool,
    changes: u64,
    failures: u64,
}

/// The upstreams below a prefix.
#[derive(Debug)]
pub struct Listed {
    /// Grows with each change.
    pub version: u64,
    /// When it became so.
    pub since: Moment,
    /// Hosts and ports.
    pub records: Vec<Record>,
}

type Record = (String, u16);

impl Prefix {
    /// Reads the settings, and finds the prefix or begins to follow it.
    ///
    /// # Errors
    /// A setting is invalid or missing, or a thread cannot be started.
    pub fn build(config: &EtcdUpstreams, around: &Around<'_>) -> Result<Arc<Prefix>, Refusal> {
        let options = options(config)?;
        let store = EtcdStore::open(&options).map_err(|error| Refusal::new(error.to_string()))?;
        let Some(recorder) = around.recorder else {
            // Only validated: nothing follows it.
            let prefix = Prefix::at(store.place());
            prefix.standing().is_tried = true;
            return Ok(Arc::new(prefix));
        };
        let prefixes = recorder.shared::<Prefixes>();
        let mut known = prefixes.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, prefix| prefix.strong_count() > 0);
        let found = known.entry(identity(&options)).or_default();
        if let Some(prefix) = found.upgrade() {
            return Ok(prefix);
        }
        let prefix = Arc::new(Prefix::at(store.place()));
        let follower = Follower {
            prefix: Arc::downgrade(&prefix),
            copy: around.data_dir.map(|folder| copy(folder, &prefix.place)),
            store: Box::new(store),
            log: around.log.cloned(),
        };
        let started = follower.start();
        started.map_err(|error| Refusal::new(format!("a thread cannot be started: {error}")))?;
        *found = Arc::downgrade(&prefix);
        let shown: Arc<dyn UpstreamList> = prefix.clone();
        recorder.hub().add_upstream_list(Arc::downgrade(&shown));
        Ok(prefix)
    }

    fn at(place: &str) -> Prefix {
        Prefix {
            place: place.into(),
            standing: Mutex::default(),
            tried: Signal::default(),
        }
    }

    /// What is below the prefix, as far as it is known; waits for the first attempt to read it.
    pub async fn list(&self) -> Option<Arc<Listed>> {
        loop {
            let tried = {
                let standing = self.standing();
                if standing.is_tried {
                    return standing.list.clone();
                }
                self.tried.wait()
            };
            tried.await;
        }
    }

    /// Makes `records` the list, if it is another one. Returns whether it is.
    fn publish(&self, records: Vec<Record>) -> bool {
        let mut standing = self.standing();
        standing.is_tried = true;
        let before = standing.list.as_ref();
        let is_new = before.is_none_or(|before| before.records != records);
        if is_new {
            standing.changes += 1;
            let list = Listed {
                version: standing.changes,
                since: clock::now(),
                records,
            };
            standing.list = Some(Arc::new(list));
        }
        drop(standing);
        self.tried.raise();
        is_new
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UpstreamList for Prefix {
    fn place(&self) -> &str {
        &self.place
    }

    fn totals(&self) -> UpstreamListTotals {
        let standing = self.standing();
        UpstreamListTotals {
            upstreams: standing
                .list
                .as_ref()
                .map_or(0, |list| list.records.len() as u64),
            changes: standing.changes,
            failures: standing.failures,
            is_away: standing.is_away,
        }
    }
}

/// The options of a source, in the words of a storage.
fn options(config: &EtcdUpstreams) -> Result<EtcdOptions, Refusal> {
    let EtcdUpstreams {
        endpoints,
        prefix,
        username,
        password,
        tls_ca,
        tls_cert,
        tls_key,
        grace_period: _,
    } = config;
    if endpoints.is_empty() || prefix.is_empty() {
        return Err(
            Refusal::new("`dynamic etcd` without `endpoints` or `prefix`").with_help(
                "write `endpoints HOST:PORT` and `prefix /PATH`; the values below the prefix are `HOST:PORT`",
            ),
        );
    }
    let storage = EtcdStorage {
        endpoints: endpoints.clone(),
        prefix: prefix.clone(),
        username: username.clone(),
        password: password.clone(),
        tls_ca: tls_ca.clone(),
        tls_cert: tls_cert.clone(),
        tls_key: tls_key.clone(),
        ..EtcdStorage::default()
    };
    Ok(EtcdOptions {
        timeout: SOURCE_ETCD_TIMEOUT,
        ..storages::etcd_options(&storage)?
    })
}

fn identity(options: &EtcdOptions) -> Identity {
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut add = |part: &[u8]| {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    options.endpoints.iter().for_each(|url| add(url.as_bytes()));
    add(options.prefix.as_bytes());
    if let Some((user, password)) = &options.login {
        add(user.as_bytes());
        add(password.as_bytes());
    }
    add(options.ca.as_deref().unwrap_or_default());
    if let Some((chain, key)) = &options.identity {
        add(chain);
        add(key);
    }
    let digest = hash.finish();
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Where this node keeps the last list.
fn copy(data_dir: &Path, place: &str) -> FileStore {
    FileStore::new(storages::copy_folder(
        data_dir,
        &format!("upstreams of {place}"),
    ))
}

/// What a read may return.
#[derive(Clone, Copy, Debug)]
enum Reading {
    /// What a quorum confirms: a watch reports only what changes after it.
    Latest,
    /// Also what one member has, which may be old.
    Any,
}

/// The thread that follows a prefix, as long as a configuration uses it.
struct Follower {
    prefix: Weak<Prefix>,
    store: Box<dyn Store>,
    copy: Option<FileStore>,
    log: Option<Log>,
}

impl Follower {
    fn start(self) -> io::Result<()> {
        let named = thread::Builder::new().name("etcd-upstreams".into());
        named.spawn(move || self.run()).map(drop)
    }

    fn run(self) {
        let mut pause = *SOURCE_ETCD_PAUSE.start();
        while let Err(error) = self.follow(&mut pause) {
            if !self.away(&error) {
                return;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(*SOURCE_ETCD_PAUSE.end());
        }
    }

    /// Publishes what is below the prefix and each change, until no configuration uses it.
    ///
    /// # Errors
    /// The store fails.
    fn follow(&self, pause: &mut Duration) -> Result<(), StoreError> {
        // What changes from now on is reported, so nothing is missed between the list and the watch.
        let watch = self.store.watch(&Key::default());
        let begun = watch.and_then(|watch| Ok((watch, self.read(Reading::Latest)?)));
        if begun.is_err() && !self.has_list() {
            // Without a quorum one member still lists what it has.
            self.publish(&self.read(Reading::Any)?);
        }
        let (mut watch, mut records) = begun?;
        self.back();
        self.publish(&records);
        while self.prefix.strong_count() > 0 {
            *pause = *SOURCE_ETCD_PAUSE.start();
            let changes = watch.next(SOURCE_ETCD_LOOK)?;
            if changes.is_empty() {
                continue;
            }
            for change in changes {
                match &change.value {
                    Some(value) => self.take(&mut records, change.key, &value.bytes),
                    None => drop(records.remove(&change.key)),
                }
            }
            self.bounded(records.len())?;
            self.publish(&records);
        }
        Ok(())
    }

    /// All that is below the prefix.
    fn read(&self, reading: Reading) -> Result<BTreeMap<Key, Record>, StoreError> {
        let (store, all) = (&*self.store, Key::default());
        let listed = match reading {
            Reading::Latest => store.list_latest(&all, Reach::All)?,
            Reading::Any => store.list(&all, Reach::All)?,
        };
        self.bounded(listed.len())?;
        let keys: Vec<&Key> = listed.iter().map(|entry| entry.key()).collect();
        let mut records = BTreeMap::new();
        for keys in keys.chunks(SOURCE_ETCD_KEYS_AT_ONCE) {
            let values = match reading {
                Reading::Latest => store.load_latest(keys)?,
                Reading::Any => store.load(keys)?,
            };
            for (key, value) in keys.iter().zip(values) {
                if let Some(value) = value {
                    self.take(&mut records, (*key).clone(), &value.bytes);
                }
            }
        }
        Ok(records)
    }

    fn take(&self, records: &mut BTreeMap<Key, Record>, key: Key, value: &[u8]) {
        match registered(value) {
            Some(record) => drop(records.insert(key, record)),
            None => {
                if let Some(log) = &self.log {
                    log.debug(LOGGER, "a value below the prefix is not HOST:PORT")
                        .text("key", key.as_str())
                        .text("value", value)
                        .send();
                }
                records.remove(&key);
            }
        }
    }

    fn bounded(&self, keys: usize) -> Result<(), StoreError> {
        if keys > SOURCE_ETCD_KEYS_MAX {
            let what = format!("more than {SOURCE_ETCD_KEYS_MAX} keys below the prefix");
            return Err(StoreError::new(Fault::Limit, self.store.place(), what));
        }
        Ok(())
    }

    fn publish(&self, records: &BTreeMap<Key, Record>) {
        let Some(prefix) = self.prefix.upgrade() else {
            return;
        };
        let records = records.values().take(SOURCE_RECORDS_MAX).cloned();
        let records: Vec<Record> = records.collect();
        let json = serde_json::to_vec(&records).expect("texts and numbers are JSON");
        if prefix.publish(records)
            && let Some(copy) = &self.copy
        {
            let name = copy_key();
            // If that fails, the copy is older than it could be.
            let _ = copy.save(&[Write::Put(&name, &json)], Guard::Always);
        }
    }

    fn has_list(&self) -> bool {
        let prefix = self.prefix.upgrade();
        prefix.is_some_and(|prefix| prefix.standing().list.is_some())
    }

    /// Notes that etcd is away; without a list, the copy of this node stands in. Returns whether a configuration uses the
    /// prefix.
    fn away(&self, error: &StoreError) -> bool {
        let Some(prefix) = self.prefix.upgrade() else {
            return false;
        };
        let was_away = {
            let mut standing = prefix.standing();
            standing.failures += 1;
            std::mem::replace(&mut standing.is_away, true)
        };
        if !was_away && let Some(log) = &self.log {
            log.error(
                LOGGER,
                "cannot read upstreams from etcd; the last ones stay in use",
            )
            .text("store", &*prefix.place)
            .shown("error", error)
            .send();
        }
        if !self.has_list()
            && let Some(records) = self.copied()
        {
            prefix.publish(records);
        }
        prefix.standing().is_tried = true;
        prefix.tried.raise();
        true
    }

    fn back(&self) {
        let Some(prefix) = self.prefix.upgrade() else {
            return;
        };
        let was_away = std::mem::replace(&mut prefix.standing().is_away, false);
        if was_away && let Some(log) = &self.log {
            log.info(LOGGER, "upstreams are read from etcd again")
                .text("store", &*prefix.place)
                .send();
        }
    }

    /// The list that this node had last.
    fn copied(&self) -> Option<Vec<Record>> {
        let copy = self.copy.as_ref()?;
        let found = copy.load(&[&copy_key()]).ok()?.pop().flatten()?;
        let mut records: Vec<Record> = serde_json::from_slice(&found.bytes).ok()?;
        records.truncate(SOURCE_RECORDS_MAX);
        Some(records)
    }
}

/// The key of the list in the copy.
fn copy_key() -> Key {
    Key::new("upstreams").expect("the name has no slash and no control character")
}

#[cfg(test)]
#[path = "etcd_tests.rs"]
mod tests;
