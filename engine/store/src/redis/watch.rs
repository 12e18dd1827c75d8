//! Watches in Redis: messages that each write of ours publishes, notifications of the server where its setting
//! `notify-keyspace-events` enables them, and a regular look for writes of others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Connection, PushKind, RedisError, Value as Reply, cmd, from_redis_value};

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
    /// `None` if the user may not subscribe, and only looks.
    subscription: Option<Subscription>,
    known: Known,
    /// When to look for writes of others.
    next_look: Instant,
}

/// The connection with the subscriptions.
struct Subscription {
    connection: Connection,
    /// When to probe it.
    next_probe: Instant,
    /// When it was probed, until something arrives.
    probed: Option<Instant>,
}

pub(super) fn begin(shared: &Arc<Shared>, prefix: &Key) -> Result<RedisWatch, StoreError> {
    let subscription = subscribe(shared)?;
    let next_look = Instant::now() + shared.poll;
    Ok(RedisWatch {
        shared: Arc::clone(shared),
        subscription,
        known: Known::new(prefix, shared.versions(prefix)?),
        next_look,
    })
}

/// A connection that is subscribed to our channel and to the notifications of the server; `None` if the user may not.
fn subscribe(shared: &Shared) -> Result<Option<Subscription>, StoreError> {
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
    Ok(Some(Subscription {
        connection,
        next_probe: Instant::now() + shared.probe,
        probed: None,
    }))
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
                self.published(self.next_look.min(end))?
            };
            let changes = self.changes(candidates)?;
            if !changes.is_empty() || Instant::now() >= end {
                return Ok(changes);
            }
        }
    }
}

impl RedisWatch {
    /// The keys in messages that arrive until `end`, in their order, or until the connection has to be probed.
    fn published(&mut self, end: Instant) -> Result<Vec<Key>, StoreError> {
        // A zero would wait without end.
        let least = Duration::from_millis(1);
        let left = |end: Instant| end.saturating_duration_since(Instant::now()).max(least);
        let Some(subscription) = &mut self.subscription else {
            std::thread::sleep(left(end));
            return Ok(Vec::new());
        };
        let link = &self.shared.link;
        let failed = |error: RedisError| link.failed(&error);
        let limit = link.timeout();
        let wake = subscription.probe_if_due(&self.shared).map_err(failed)?;
        let mut keys = Vec::new();
        let mut wait = left(end.min(wake));
        loop {
            let connection = &mut subscription.connection;
            connection.set_read_timeout(Some(wait)).map_err(failed)?;
            match connection.recv_response() {
                Ok(message) => keys.extend(self.shared.keys_in(message)),
                Err(error) if error.is_timeout() => break,
                Err(error) => return Err(failed(error)),
            }
            subscription.probed = None;
            if keys.len() >= WRITES_MAX {
                break;
            }
            // What has arrived by now is read with it.
            wait = least;
        }
        // Only after reading: the caller may have been busy for longer than the limit.
        match subscription.probed {
            Some(at) if at.elapsed() >= limit => {
                let what = format!("no response within {limit:?} on the connection of a watch");
                let dead = || Err(link.error(Fault::Away, what));
                self.shared.calls.run(dead)
            }
            Some(_) | None => Ok(keys),
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

impl Subscription {
    /// Probes the connection if that is due. Returns when to look at it again.
    fn probe_if_due(&mut self, shared: &Shared) -> Result<Instant, RedisError> {
        let now = Instant::now();
        if self.probed.is_none() && now >= self.next_probe {
            // It is subscribed already, which the server confirms once more, as a message like others. The library
            // does not return the response to a `PING` after reads that have timed out.
            let command = cmd("SUBSCRIBE").arg(&shared.channel).get_packed_command();
            self.connection.send_packed_command(&command)?;
            self.probed = Some(now);
            self.next_probe = now + shared.probe;
        }
        let until = |at: Instant| at + shared.link.timeout();
        Ok(self.probed.map_or(self.next_probe, until))
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
