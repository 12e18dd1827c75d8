//! Values in etcd, through its JSON gateway: plain HTTP, without a gRPC client.
//!
//! A value is the bytes under `PREFIX/KEY`, so `etcdctl get` and `etcdctl put` read and write it as it is. Its size,
//! the time of the write and a random text of the writer are written with it, under `PREFIX.meta/KEY`; both have the
//! same revision, by which a value that something else has written is recognized. Leases are `PREFIX.lock/NAME`.

mod gateway;
mod layout;
mod lease;
mod options;
mod watch;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};

use crate::calls::{Attempt, Calls, Statistics, checked, random_text};
use crate::failure::{Fault, StoreError};
use crate::lease::Lease;
use crate::limits::{ENTRIES_MAX, LIST_PAGE, WRITES_MAX};
use crate::values::{Entry, Guard, Listed, Reach, Value, Version, Write, entries};
use crate::{Key, Store, Watch};
use gateway::Gateway;
use layout::{Kv, Layout, Metadata, RangeReply, TxnReply, encoded};

pub use options::EtcdOptions;

/// A store in etcd 3.4 or newer.
#[derive(Debug)]
pub struct EtcdStore {
    shared: Arc<Shared>,
    lease_ttl: Duration,
}

/// What leases and watches need of a store.
#[derive(Debug)]
struct Shared {
    gateway: Gateway,
    layout: Layout,
    calls: Calls,
    watch_time: Duration,
}

/// Whether a quorum has to confirm a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Confirmed,
    /// What one member has.
    Local,
}

impl EtcdStore {
    /// A store with these options. No connection is made before the first call.
    ///
    /// # Errors
    /// [`Fault::Setting`] if an endpoint, a certificate or the prefix cannot be used.
    pub fn open(options: &EtcdOptions) -> Result<EtcdStore, StoreError> {
        let gateway = Gateway::new(options)?;
        let layout = Layout::new(&options.prefix)
            .map_err(|what| StoreError::new(Fault::Setting, gateway.place(), what))?;
        Ok(EtcdStore {
            shared: Arc::new(Shared {
                gateway,
                layout,
                calls: Calls::default(),
                watch_time: options.watch_time,
            }),
            lease_ttl: options.lease_ttl,
        })
    }
}

impl Store for EtcdStore {
    fn place(&self) -> &str {
        self.shared.gateway.place()
    }

    fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        let shared = &self.shared;
        shared
            .calls
            .run(|| shared.reading(|reading| shared.load(keys, reading)))
    }

    fn load_latest(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        let shared = &self.shared;
        shared.calls.run(|| shared.load(keys, Reading::Confirmed))
    }

    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError> {
        let writes = checked(writes, self.place())?;
        self.shared.calls.run(|| self.shared.save(&writes, guard))
    }

    fn list(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        let shared = &self.shared;
        let listed = shared
            .calls
            .run(|| shared.reading(|reading| shared.list(prefix, reading)))?;
        entries(prefix, reach, listed.into_iter(), self.place())
    }

    fn list_latest(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        let shared = &self.shared;
        let listed = shared
            .calls
            .run(|| shared.list(prefix, Reading::Confirmed))?;
        entries(prefix, reach, listed.into_iter(), self.place())
    }

    fn lease(&self, name: &str, timeout: Duration) -> Result<Lease, StoreError> {
        lease::take(&self.shared, name, timeout, self.lease_ttl)
    }

    fn break_lease(&self, name: &str) -> Result<bool, StoreError> {
        self.shared.calls.run(|| lease::end(&self.shared, name))
    }

    fn leases(&self) -> Result<Vec<String>, StoreError> {
        let shared = &self.shared;
        shared
            .calls
            .run(|| shared.reading(|reading| lease::names(shared, reading)))
    }

    fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, StoreError> {
        let shared = &self.shared;
        let watch = shared.calls.run(|| watch::begin(shared, prefix))?;
        Ok(Box::new(watch))
    }

    fn statistics(&self) -> Statistics {
        self.shared.calls.statistics()
    }
}

impl Shared {
    fn error(&self, fault: Fault, what: impl Into<String>) -> StoreError {
        StoreError::new(fault, self.gateway.place(), what)
    }

    /// Reads what a quorum confirms, or else what one member has. A write that depends on an outdated read is refused
    /// by its guard, and needs a quorum itself.
    fn reading<T>(&self, read: impl Fn(Reading) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match read(Reading::Confirmed) {
            Err(error) if error.fault == Fault::Away => {
                // The first error names the reason.
                let local = read(Reading::Local).map_err(|_| error)?;
                self.calls.stale_read();
                Ok(local)
            }
            other => other,
        }
    }

    fn load(&self, keys: &[&Key], reading: Reading) -> Result<Vec<Option<Value>>, StoreError> {
        let mut values = Vec::with_capacity(keys.len());
        let mut revision = None;
        for keys in keys.chunks(WRITES_MAX) {
            let reply = self.load_at(keys, reading, revision)?;
            revision.get_or_insert(reply.header.revision);
            let mut ranges = reply.ranges();
            for _ in keys {
                let (value, metadata) = (ranges.next(), ranges.next());
                let kv = value.and_then(|range| range.kvs.into_iter().next());
                let metadata = metadata.and_then(|range| range.kvs.into_iter().next());
                values.push(kv.map(|kv| value_of(kv, metadata)));
            }
        }
        Ok(values)
    }

    /// The values of `keys` and their metadata, alternating.
    fn load_at(
        &self,
        keys: &[&Key],
        reading: Reading,
        revision: Option<i64>,
    ) -> Result<TxnReply, StoreError> {
        let range = |key: Vec<u8>| {
            let mut range =
                json!({"key": encoded(&key), "serializable": reading == Reading::Local});
            if let Some(revision) = revision {
                range["revision"] = json!(revision.to_string());
            }
            json!({"request_range": range})
        };
        let ranges = keys.iter().flat_map(|key| {
            [
                range(self.layout.value(key)),
                range(self.layout.metadata(key)),
            ]
        });
        let ranges: Vec<Json> = ranges.collect();
        self.gateway.call("kv/txn", &json!({"success": ranges}))
    }

    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError> {
        let writer = random_text();
        let mut operations = Vec::with_capacity(2 * writes.len());
        for write in writes {
            let (value, metadata) = (
                encoded(&self.layout.value(write.key())),
                encoded(&self.layout.metadata(write.key())),
            );
            operations.extend(match write {
                Write::Put(_, bytes) => {
                    let written = Metadata::now(bytes.len(), &writer).to_json();
                    [
                        json!({"request_put": {"key": value, "value": encoded(bytes)}}),
                        json!({"request_put": {"key": metadata, "value": encoded(&written)}}),
                    ]
                }
                Write::Delete(_) => [
                    json!({"request_delete_range": {"key": value}}),
                    json!({"request_delete_range": {"key": metadata}}),
                ],
            });
        }
        let put = writes.iter().find(|write| matches!(write, Write::Put(..)));
        let seen = put.map(|write| {
            let key = encoded(&self.layout.metadata(write.key()));
            json!({"request_range": {"key": key}})
        });
        let request = json!({
            "compare": self.compares(guard)?,
            "success": operations,
            "failure": Vec::from_iter(seen),
        });
        let (reply, attempt): (TxnReply, _) = self.gateway.call_tracked("kv/txn", &request)?;
        if reply.succeeded {
            return Ok(());
        }
        // An earlier attempt, whose response did not arrive, may have made the writes.
        let metadata = reply.first_kv().and_then(|kv| Metadata::parse(&kv.value));
        if attempt == Attempt::Repeated && metadata.is_some_and(|found| found.writer == writer) {
            return Ok(());
        }
        Err(self.error(Fault::Refused, guard.refusal()))
    }

    /// The guard as comparisons of a transaction.
    fn compares(&self, guard: Guard<'_>) -> Result<Vec<Json>, StoreError> {
        let (key, target, revision) = match guard {
            Guard::Always => return Ok(Vec::new()),
            Guard::Held(fence) => (self.layout.lock(&fence.name), "CREATE", &*fence.token),
            Guard::Unchanged(key, None) => (self.layout.value(key), "CREATE", "0"),
            Guard::Unchanged(key, Some(version)) => (self.layout.value(key), "MOD", &*version.0),
        };
        // The text of another engine is not a revision of this one.
        if revision.parse::<i64>().is_err() {
            return Err(self.error(Fault::Refused, guard.refusal()));
        }
        Ok(vec![layout::compare(&key, target, revision)])
    }

    fn list(&self, prefix: &Key, reading: Reading) -> Result<Vec<Listed>, StoreError> {
        let (first, end) = self.layout.values_below(prefix);
        let (values, revision) = self.range(&first, &end, true, reading, None)?;
        let (first, end) = self.layout.metadata_below(prefix);
        let (metadata, _) = self.range(&first, &end, false, reading, Some(revision))?;
        let mut metadata = metadata.into_iter().peekable();
        let mut listed = Vec::with_capacity(values.len());
        let mut unknown = Vec::new();
        for kv in values {
            let Some(key) = self.layout.key_of_value(&kv.key) else {
                continue;
            };
            let name = self.layout.metadata(&key);
            while metadata.next_if(|other| other.key < name).is_some() {}
            let own = metadata.next_if(|other| other.key == name);
            match own.and_then(|own| Metadata::of(&kv, &own)) {
                Some(own) => listed.push((key, own.size, own.modified())),
                // Written by something else: only the value itself shows its size.
                None => unknown.push(key),
            }
        }
        for keys in unknown.chunks(WRITES_MAX) {
            let keys: Vec<&Key> = keys.iter().collect();
            let found = self.load(&keys, reading)?;
            for (key, value) in keys.into_iter().zip(found) {
                if let Some(value) = value {
                    listed.push((key.clone(), value.bytes.len() as u64, value.modified));
                }
            }
        }
        Ok(listed)
    }

    /// All keys in `first..end`, as they are at `revision` or now, with the revision.
    fn range(
        &self,
        first: &[u8],
        end: &[u8],
        is_keys_only: bool,
        reading: Reading,
        mut revision: Option<i64>,
    ) -> Result<(Vec<Kv>, i64), StoreError> {
        let mut found: Vec<Kv> = Vec::new();
        let mut from = first.to_vec();
        loop {
            let request = json!({
                "key": encoded(&from),
                "range_end": encoded(end),
                "limit": LIST_PAGE.to_string(),
                "revision": revision.unwrap_or(0).to_string(),
                "serializable": reading == Reading::Local,
                "keys_only": is_keys_only,
            });
            let reply: RangeReply = self.gateway.call("kv/range", &request)?;
            let at = *revision.get_or_insert(reply.header.revision);
            found.extend(reply.kvs);
            match found.last() {
                Some(last) if reply.more => {
                    from.clone_from(&last.key);
                    from.push(0);
                }
                _ => return Ok((found, at)),
            }
            if found.len() > ENTRIES_MAX {
                let what = format!("more than {ENTRIES_MAX} keys in one list");
                return Err(self.error(Fault::Limit, what));
            }
        }
    }
}

fn value_of(kv: Kv, metadata: Option<Kv>) -> Value {
    let metadata = metadata.and_then(|own| Metadata::of(&kv, &own));
    Value {
        // etcd does not record when something else wrote a value.
        modified: metadata.map_or(SystemTime::UNIX_EPOCH, |own| own.modified()),
        version: Version(kv.mod_revision.to_string()),
        bytes: kv.value,
    }
}
