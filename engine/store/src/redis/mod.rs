//! Values in Redis or Valkey, in the layout of caddy-storage-redis 1.x, so that a fleet of Caddy servers can use the
//! same store, before or beside this one.
//!
//! A value is JSON under `PREFIX/KEY`; each directory is a sorted set; a lock is `PREFIX/locks/NAME`. What is written
//! together, guards and leases are Lua, which Redis runs as one step. A replica that becomes the master may lack the
//! last writes and leases: Redis replicates after it has responded.
//!
//! The version of a value is a digest of its text. A Redis Cluster is not supported: a script cannot reach several of
//! its nodes.

mod envelope;
mod lease;
mod link;
mod options;
mod scripts;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redis::{Cmd, cmd};

use crate::calls::{Attempt, Calls, Statistics, checked};
use crate::failure::{Fault, StoreError};
use crate::lease::Lease;
use crate::limits::{ENTRIES_MAX, SCRIPT_KEYS};
use crate::reseal::{self, ResealOutcome, ResealReport};
use crate::values::{Entry, Guard, Reach, Value, Write};
use crate::{Key, Store, Watch};
use envelope::Envelopes;
use link::Link;

pub use options::{Compression, RedisOptions, RedisServers};

/// A store in Redis 6 or newer, or in Valkey.
#[derive(Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

/// What leases and watches need of a store.
struct Shared {
    link: Link,
    prefix: String,
    /// The channel on which writes are published. Channels are the same in all databases.
    channel: String,
    db: i64,
    envelopes: Envelopes,
    calls: Calls,
    lease_ttl: Duration,
    poll: Duration,
    probe: Duration,
}

impl RedisStore {
    /// A store with these options. No connection is made before the first call.
    ///
    /// # Errors
    /// [`Fault::Setting`] if a certificate or the prefix cannot be used.
    pub fn open(options: &RedisOptions) -> Result<RedisStore, StoreError> {
        let link = Link::new(options)?;
        let prefix = options.prefix.trim_matches('/');
        // The index of a directory needs a name, also that of the first.
        if prefix.is_empty() || Key::new(prefix).is_err() {
            let what = format!("the key prefix `{prefix}` is empty or not a path");
            return Err(link.error(Fault::Setting, what));
        }
        Ok(RedisStore {
            shared: Arc::new(Shared {
                link,
                prefix: prefix.to_owned(),
                channel: format!("sluice:{}:{prefix}", options.db),
                db: options.db,
                envelopes: Envelopes::new(
                    options.compression,
                    options.encryption_key.iter().chain(&options.former_keys),
                ),
                calls: Calls::default(),
                lease_ttl: options.lease_ttl,
                poll: options.poll,
                probe: options.probe,
            }),
        })
    }
}

impl Store for RedisStore {
    fn place(&self) -> &str {
        self.shared.link.place()
    }

    fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        let shared = &self.shared;
        shared.calls.run(|| shared.load(keys))
    }

    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError> {
        let shared = &self.shared;
        let writes = checked(writes, self.place())?;
        shared.calls.run(|| shared.save(&writes, guard))
    }

    fn list(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        let shared = &self.shared;
        shared.calls.run(|| shared.list(prefix, reach))
    }

    fn lease(&self, name: &str, timeout: Duration) -> Result<Lease, StoreError> {
        lease::take(&self.shared, name, timeout)
    }

    fn break_lease(&self, name: &str) -> Result<bool, StoreError> {
        let shared = &self.shared;
        let delete = command("DEL", [shared.lock_name(name)]);
        shared.calls.run(|| shared.link.call(&delete))
    }

    fn leases(&self) -> Result<Vec<String>, StoreError> {
        let shared = &self.shared;
        shared.calls.run(|| lease::names(shared))
    }

    fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, StoreError> {
        let shared = &self.shared;
        let watch = shared.calls.run(|| watch::begin(shared, prefix))?;
        Ok(Box::new(watch))
    }

    fn statistics(&self) -> Statistics {
        self.shared.calls.statistics()
    }

    fn reseal(&self, report: &mut ResealReport<'_>) -> Result<(), StoreError> {
        let shared = &self.shared;
        if !shared.envelopes.has_key() {
            let what = "no encryption key is configured";
            return Err(shared.link.error(Fault::Setting, what));
        }
        let listed = self.list(&Key::default(), Reach::All)?;
        let keys: Vec<Key> = listed.iter().map(|entry| entry.key().clone()).collect();
        let attempt = |key: &Key| shared.calls.run(|| shared.reseal_one(key));
        reseal::each(&keys, attempt, report)
    }
}

fn command(name: &str, arguments: impl IntoIterator<Item = String>) -> Cmd {
    let mut command = cmd(name);
    for argument in arguments {
        command.arg(argument);
    }
    command
}

/// A script with these arguments. They are few and rare: the text is sent each time, so that a server that was
/// restarted knows it.
fn script(text: &str, arguments: impl IntoIterator<Item = String>) -> Cmd {
    let mut command = cmd("EVAL");
    command.arg(text).arg(0);
    for argument in arguments {
        command.arg(argument);
    }
    command
}

impl Shared {
    fn value_name(&self, key: &Key) -> String {
        match key.as_str() {
            "" => self.prefix.clone(),
            key => format!("{}/{key}", self.prefix),
        }
    }

    fn lock_name(&self, name: &str) -> String {
        format!("{}/locks/{name}", self.prefix)
    }

    fn key_of(&self, name: &str) -> Option<Key> {
        let key = name.strip_prefix(&*self.prefix)?.strip_prefix('/')?;
        Key::new(key).ok()
    }

    fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let names = keys.iter().map(|key| self.value_name(key));
        let texts: Vec<Option<Vec<u8>>> = self.link.call(&command("MGET", names))?;
        let values = keys.iter().zip(texts).map(|(key, text)| {
            let value = text.map(|text| self.envelopes.decode(&text)).transpose();
            value.map_err(|why| self.link.error(Fault::Foreign, format!("`{key}`: {why}")))
        });
        values.collect()
    }

    fn reseal_one(&self, key: &Key) -> Result<ResealOutcome, StoreError> {
        let names = [self.value_name(key)];
        let mut texts: Vec<Option<Vec<u8>>> = self.link.call(&command("MGET", names))?;
        let text = texts.pop().flatten();
        let Some(text) = text.filter(|text| !self.envelopes.is_current(text)) else {
            return Ok(ResealOutcome::Current);
        };
        let value = self.envelopes.decode(&text);
        let value =
            value.map_err(|why| self.link.error(Fault::Foreign, format!("`{key}`: {why}")))?;
        let unchanged = Guard::Unchanged(key, Some(&value.version));
        self.save(&[Write::Put(key, &value.bytes)], unchanged)?;
        Ok(ResealOutcome::Sealed)
    }

    /// Like `load`, with nothing for what is not a value: a watch does not end by it.
    fn load_usable(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        let names = keys.iter().map(|key| self.value_name(key));
        let texts: Vec<Option<Vec<u8>>> = self.link.call(&command("MGET", names))?;
        let values = texts.into_iter();
        let values = values.map(|text| self.envelopes.decode(&text?).ok());
        Ok(values.collect())
    }

    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError> {
        self.check_nesting(writes)?;
        let now = SystemTime::now();
        let (kind, name, wanted) = match guard {
            Guard::Always => ("always", String::new(), ""),
            Guard::Held(fence) => ("held", self.lock_name(&fence.name), &*fence.token),
            Guard::Unchanged(key, None) => ("absent", self.value_name(key), ""),
            Guard::Unchanged(key, Some(version)) => ("same", self.value_name(key), &*version.0),
        };
        let score = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let changed: Vec<&str> = writes.iter().map(|write| write.key().as_str()).collect();
        let mut arguments = vec![
            kind.to_owned(),
            name,
            wanted.to_owned(),
            self.channel.clone(),
            changed.join("\n"),
            score.as_secs().to_string(),
        ];
        let mut first = None;
        for write in writes {
            let (operation, text) = match write {
                Write::Put(_, bytes) => ("put", self.envelopes.encode(bytes, now)),
                Write::Delete(_) => ("delete", String::new()),
            };
            if operation == "put" && first.is_none() {
                first = Some(text.clone());
            }
            arguments.extend([operation.to_owned(), self.value_name(write.key()), text]);
        }
        let call = script(scripts::SAVE, arguments);
        let (reply, attempt): ((String, Vec<u8>), _) = self.link.call_tracked(&call)?;
        match &*reply.0 {
            "ok" => Ok(()),
            // An earlier attempt, whose response did not arrive, has made the writes.
            "refused"
                if attempt == Attempt::Repeated
                    && first.is_some_and(|text| text.as_bytes() == reply.1) =>
            {
                Ok(())
            }
            "refused" => Err(self.link.error(Fault::Refused, guard.refusal())),
            _ => {
                let key = String::from_utf8_lossy(&reply.1).into_owned();
                let what = format!("`{key}` is neither a value nor a directory as it has to be");
                Err(self.link.error(Fault::Foreign, what))
            }
        }
    }

    /// A key cannot be a value and a directory; the script looks only at what is there before.
    fn check_nesting(&self, writes: &[Write<'_>]) -> Result<(), StoreError> {
        let puts = || {
            let puts = writes
                .iter()
                .filter(|write| matches!(write, Write::Put(..)));
            puts.map(Write::key)
        };
        for key in puts() {
            if let Some(inner) = puts().find(|other| *other != key && key.covers(other)) {
                let what = format!("`{key}` cannot be a value and hold `{inner}`");
                return Err(self.link.error(Fault::Limit, what));
            }
        }
        Ok(())
    }

    fn list(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        let (names, mut entries) = self.names(prefix, reach)?;
        for part in names.chunks(SCRIPT_KEYS) {
            let found: Vec<String> = self
                .link
                .call(&script(scripts::SIZES, part.iter().cloned()))?;
            for (name, found) in part.iter().zip(found.chunks(2)) {
                if let (Some(key), [size, modified]) = (self.key_of(name), found)
                    && let Ok(size) = size.parse()
                {
                    let modified = envelope::modified(modified);
                    entries.push(Entry::Value {
                        key,
                        size,
                        modified,
                    });
                }
            }
        }
        entries.sort_by(|a, b| a.key().cmp(b.key()));
        Ok(entries)
    }

    /// The names of values below `prefix` by the index, and its folders unless those are followed.
    fn names(&self, prefix: &Key, reach: Reach) -> Result<(Vec<String>, Vec<Entry>), StoreError> {
        let mut names = Vec::new();
        let mut folders = Vec::new();
        let mut pending = VecDeque::from([self.value_name(prefix)]);
        while let Some(folder) = pending.pop_front() {
            for member in self.members(&folder)? {
                let name = format!("{folder}/{member}");
                match (name.strip_suffix('/'), reach) {
                    (Some(inner), Reach::All) => pending.push_back(inner.to_owned()),
                    (Some(inner), Reach::Children) => {
                        folders.extend(self.key_of(inner).map(Entry::Folder));
                    }
                    (None, _) => names.push(name),
                }
            }
            if names.len() + folders.len() + pending.len() > ENTRIES_MAX {
                let what = format!("more than {ENTRIES_MAX} entries below `{prefix}`");
                return Err(self.link.error(Fault::Limit, what));
            }
        }
        Ok((names, folders))
    }

    /// The names in a directory; none if it is something else.
    fn members(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let kind: String = self.link.call(&command("TYPE", [folder.to_owned()]))?;
        if kind != "zset" {
            return Ok(Vec::new());
        }
        let range = [folder.to_owned(), "0".to_owned(), ENTRIES_MAX.to_string()];
        let members: Vec<Vec<u8>> = self.link.call(&command("ZRANGE", range))?;
        let members = members.into_iter();
        // What is not UTF-8 was not written by a server of this layout.
        Ok(members
            .filter_map(|name| String::from_utf8(name).ok())
            .collect())
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {}", self.link, self.prefix)
    }
}
