//! Watches in Redis: messages that each write of ours publishes, notifications of the server where its setting
//! `notify-keyspace-events` enables them, and a regular look for writes of others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Connection, PushKind, Value as Reply, cmd, from_redis_value};

use super::lease::escaped;
use super::{Shared, script, scripts};
use crate::failure::{Fault, StoreError};
use crate::known::Known;
use crate::limits::{SCRIPT_KEYS, WRITES_MAX};
use crate::values::{Change, Reach, Version};
use crate::{Key, Watch};

/// A subscription to the changes below a prefix.
pub(super) struct RedisWatch {
    shared: Arc<Shared>,
    /// The connection with the subscriptions; `None` if the user may not subscribe, and only looks.
    connection: Option<Connection>,
    known: Known,
    /// When to look for writes of others.
    next_look: Instant,
}

pub(super) fn begin(shared: &Arc<Shared>, prefix: &Key) -> Result<RedisWatch, StoreError> {
    let connection = subscribe(shared)?;
    let next_look = Instant::now() + shared.poll;
    Ok(RedisWatch {
        shared: Arc::clone(shared),
        connection,
        known: Known::new(prefix, shared.versions(prefix)?),
        next_look,
    })
}

/// A connection that is subscribed to our channel and to the notifications of the server; `None` if the user may not.
fn subscribe(shared: &Shared) -> Result<Option<Connection>, StoreError> {
    let mut connection = shared.link.connect_for_pushes()?;
    let pattern = format!("__keyspace@{}__:{}/*", shared.db, escaped(&shared.prefix));
    for (name, channel) in [("SUBSCRIBE", &shared.channel), ("PSUBSCRIBE", &pattern)] {
        let command = cmd(name).arg(channel).get_packed_command();
        let sent = connection.send_packed_command(&command);
        let confirmed = sent.and_then(|()| connection.recv_response());
        match confirmed.map_err(|error| shared.link.failed(&error)) {
            Ok(_) => {}
            Err(error) if error.fault == Fault::Credentials => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(connection))
}

impl Watch for RedisWatch {
    fn next(&mut self, timeout: Duration) -> Result<Vec<Change>, StoreError> {
        let end = Instant::now() + timeout;
        loop {
            let now = Instant::now();
            let candidates = if now >= self.next_look {
                self.next_look = now + self.shared.poll;
                self.differing()?
            } else {
                self.published(self.next_look.min(end).saturating_duration_since(now))?
            };
            let changes = self.changes(candidates)?;
            if !changes.is_empty() || Instant::now() >= end {
                return Ok(changes);
            }
        }
    }
}

impl RedisWatch {
    /// The keys in messages that arrive within `time`, in their order.
    fn published(&mut self, time: Duration) -> Result<Vec<Key>, StoreError> {
        // A zero would wait without end.
        let time = time.max(Duration::from_millis(1));
        let Some(connection) = &mut self.connection else {
            std::thread::sleep(time);
            return Ok(Vec::new());
        };
        let mut keys = Vec::new();
        let mut wait = time;
        loop {
            let link = &self.shared.link;
            connection
                .set_read_timeout(Some(wait))
                .map_err(|error| link.failed(&error))?;
            match connection.recv_response() {
                Ok(message) => keys.extend(self.shared.keys_in(message)),
                Err(error) if error.is_timeout() => return Ok(keys),
                Err(error) => return Err(link.failed(&error)),
            }
            if keys.len() >= WRITES_MAX {
                return Ok(keys);
            }
            // What has arrived by now is read with it.
            wait = Duration::from_millis(1);
        }
    }

    /// The keys whose versions differ from what the caller knows.
    fn differing(&self) -> Result<Vec<Key>, StoreError> {
        let shared = &self.shared;
        let present = shared.calls.run(|| shared.versions(self.known.prefix()))?;
        Ok(self.known.differing(present))
    }

    /// What has changed of `keys`, compared with what the caller knows.
    fn changes(&mut self, keys: Vec<Key>) -> Result<Vec<Change>, StoreError> {
        let keys = self.known.watched(keys.into_iter());
        let mut changes = Vec::new();
        for part in keys.chunks(WRITES_MAX) {
            let names: Vec<&Key> = part.iter().collect();
            let values = self.shared.calls.run(|| self.shared.load_usable(&names))?;
            changes.extend(self.known.compare(part.iter().zip(values)));
        }
        Ok(changes)
    }
}

impl Shared {
    /// The versions of all values below `prefix`, and of its own.
    fn versions(&self, prefix: &Key) -> Result<BTreeMap<Key, Version>, StoreError> {
        let (mut names, _) = self.names(prefix, Reach::All)?;
        if !prefix.as_str().is_empty() {
            names.push(self.value_name(prefix));
        }
        let mut versions = BTreeMap::new();
        for part in names.chunks(SCRIPT_KEYS) {
            let found: Vec<String> = self
                .link
                .call(&script(scripts::VERSIONS, part.iter().cloned()))?;
            let found = part.iter().zip(found);
            let found = found.filter(|(_, version)| !version.is_empty());
            versions.extend(found.filter_map(|(name, version)| {
                let key = self.key_of(name)?;
                Some((key, Version(version)))
            }));
        }
        Ok(versions)
    }

    /// The keys in a message: those that a write of ours lists, or the one that a notification is about.
    fn keys_in(&self, message: Reply) -> Vec<Key> {
        let Reply::Push { kind, data } = message else {
            return Vec::new();
        };
        let texts = data.into_iter().map(from_redis_value::<String>);
        let texts: Vec<String> = texts.map(Result::unwrap_or_default).collect();
        match (kind, &*texts) {
            (PushKind::Message, [_, keys]) => {
                let keys = keys.split('\n').map(Key::new);
                keys.filter_map(Result::ok).collect()
            }
            (PushKind::PMessage, [_, channel, _]) => {
                let name = channel.split_once("__:").map_or("", |(_, name)| name);
                self.key_of(name).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}
