//! Watches in etcd: a stream of events that a thread reads, and begins again after the last revision that it has seen.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::gateway::stream_error;
use super::layout::{Event, Metadata, RangeReply, Streamed, WatchReply, encoded};
use super::{Reading, Shared};
use crate::failure::{Fault, StoreError};
use crate::limits::{WATCH_ATTEMPTS, WATCH_BATCHES_MAX, WATCH_LINE_BYTES_MAX, WRITES_MAX};
use crate::values::{Change, Value, Version};
use crate::{Key, Watch};

type Batch = Result<Vec<Change>, StoreError>;

/// A subscription to the changes below a prefix.
pub(super) struct EtcdWatch {
    batches: Receiver<Batch>,
    /// Why the watch has ended, once all changes before that were reported.
    failed: Option<StoreError>,
    place: String,
    is_dropped: Arc<AtomicBool>,
}

/// Begins a watch at the present revision.
pub(super) fn begin(shared: &Arc<Shared>, prefix: &Key) -> Result<EtcdWatch, StoreError> {
    let key = encoded(&shared.layout.value(prefix));
    let request = json!({"key": key, "count_only": true});
    let now: RangeReply = shared.gateway.call("kv/range", &request)?;
    let (sender, batches) = sync_channel(WATCH_BATCHES_MAX);
    let is_dropped = Arc::new(AtomicBool::new(false));
    let follower = Follower {
        shared: Arc::clone(shared),
        prefix: prefix.clone(),
        next_revision: now.header.revision + 1,
        sender,
        unconfirmed: 0,
        is_dropped: Arc::clone(&is_dropped),
    };
    std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || follower.run())
        .map_err(|error| shared.error(Fault::Limit, error.to_string()))?;
    Ok(EtcdWatch {
        batches,
        failed: None,
        is_dropped,
        place: shared.gateway.place().to_owned(),
    })
}

impl Watch for EtcdWatch {
    fn next(&mut self, timeout: Duration) -> Result<Vec<Change>, StoreError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let first = match self.batches.recv_timeout(timeout) {
            Ok(batch) => batch,
            Err(RecvTimeoutError::Timeout) => return Ok(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => {
                let what = "the watch has ended";
                Err(StoreError::new(Fault::Away, &self.place, what))
            }
        };
        let mut changes = Vec::new();
        for batch in std::iter::once(first).chain(self.batches.try_iter()) {
            match batch {
                Ok(more) => changes.extend(more),
                // What arrived before it is reported first.
                Err(error) if changes.is_empty() => return Err(self.failed.insert(error).clone()),
                Err(error) => self.failed = Some(error),
            }
        }
        Ok(changes)
    }
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Release);
    }
}

/// The thread that reads a watch.
struct Follower {
    shared: Arc<Shared>,
    prefix: Key,
    /// The first revision that was not reported yet.
    next_revision: i64,
    sender: SyncSender<Batch>,
    /// How many streams in a row have ended before etcd confirmed them.
    unconfirmed: u32,
    is_dropped: Arc<AtomicBool>,
}

/// How a stream has ended.
enum End {
    /// By its time limit or by the member: another is begun.
    Again,
    /// Nobody reads the changes any more.
    Unread,
    Failed(StoreError),
}

impl Follower {
    fn run(mut self) {
        loop {
            match self.stream() {
                End::Again => {}
                End::Unread => return,
                End::Failed(error) => {
                    // Nobody may be left to read it.
                    let _ = self.sender.send(Err(error));
                    return;
                }
            }
        }
    }

    /// Reads one stream to its end.
    fn stream(&mut self) -> End {
        // The key itself is watched too, and lies before those below it; what lies between is filtered.
        let first = self.shared.layout.value(&self.prefix);
        let (_, end) = self.shared.layout.values_below(&self.prefix);
        let request = json!({"create_request": {
            "key": encoded(&first),
            "range_end": encoded(&end),
            "start_revision": self.next_revision.to_string(),
            "fragment": true,
        }});
        let shared = &self.shared;
        let stream = || shared.gateway.stream("watch", &request, shared.watch_time);
        let body = match shared.calls.run(stream) {
            Ok(body) => body,
            Err(error) if error.fault == Fault::Away && self.unconfirmed < WATCH_ATTEMPTS => {
                self.unconfirmed += 1;
                return End::Again;
            }
            Err(error) => return End::Failed(error),
        };
        let mut body = BufReader::new(body);
        let mut is_created = false;
        loop {
            if self.is_dropped.load(Ordering::Acquire) {
                return End::Unread;
            }
            let mut line = Vec::new();
            let read = (&mut body)
                .take(WATCH_LINE_BYTES_MAX)
                .read_until(b'\n', &mut line);
            match read {
                Ok(1..) if line.last() == Some(&b'\n') => {}
                // A member that takes watches and ends each at once is not asked without end.
                _ if !is_created && self.unconfirmed < WATCH_ATTEMPTS => {
                    self.unconfirmed += 1;
                    return End::Again;
                }
                _ if !is_created => {
                    let what = "the watch ended before it began";
                    return End::Failed(self.shared.error(Fault::Away, what));
                }
                Ok(1..) if line.len() as u64 >= WATCH_LINE_BYTES_MAX => {
                    let what = "the message of a watch is too large";
                    return End::Failed(self.shared.error(Fault::Limit, what));
                }
                _ => return End::Again,
            }
            match self.receive(&line) {
                Ok(created) => {
                    is_created |= created;
                    self.unconfirmed = 0;
                }
                Err(end) => return end,
            }
        }
    }

    /// Reports the events of one message. Returns whether it confirms the watch.
    fn receive(&mut self, line: &[u8]) -> Result<bool, End> {
        let message: Streamed<WatchReply> = serde_json::from_slice(line).map_err(|error| {
            let what = format!("the message of a watch is not one of etcd: {error}");
            End::Failed(self.shared.error(Fault::Setting, what))
        })?;
        let Some(reply) = message.result else {
            let error = message.error.unwrap_or_default();
            // From etcd 3.6 on the gateway calls it `code`.
            let code = error["grpc_code"].as_i64().or(error["code"].as_i64());
            let code = code.unwrap_or_default();
            let text = error["message"].as_str().unwrap_or("an error without text");
            return Err(self.failed(code, text));
        };
        if reply.compact_revision > 0 {
            let what = "changes were compacted before they were read";
            return Err(End::Failed(self.shared.error(Fault::Away, what)));
        }
        if reply.canceled {
            let code = match reply.cancel_reason.contains("permission denied") {
                true => 7,
                false => 14,
            };
            return Err(self.failed(code, &reply.cancel_reason));
        }
        let is_complete = !reply.fragment;
        let revisions = reply.events.iter().map(|event| event.kv.mod_revision);
        let last = revisions.max();
        let changes = self.changes(reply.events);
        if !changes.is_empty() && self.sender.send(Ok(changes)).is_err() {
            return Err(End::Unread);
        }
        // A stream that is replaced between two fragments reports a revision twice rather than in part.
        if let Some(last) = last.filter(|_| is_complete) {
            self.next_revision = last + 1;
        }
        Ok(reply.created)
    }

    fn failed(&self, code: i64, text: &str) -> End {
        let (error, is_token) = stream_error(self.shared.gateway.place(), code, text);
        self.shared.gateway.stream_failed(is_token);
        match is_token {
            true => End::Again,
            false => End::Failed(error),
        }
    }

    fn changes(&self, events: Vec<Event>) -> Vec<Change> {
        let keyed = events.into_iter().filter_map(|event| {
            let key = self.shared.layout.key_of_value(&event.kv.key)?;
            self.prefix.covers(&key).then_some((key, event))
        });
        let keyed: Vec<(Key, Event)> = keyed.collect();
        let mut changes = Vec::with_capacity(keyed.len());
        for part in keyed.chunks(WRITES_MAX) {
            let times = self.times(part);
            for ((key, event), modified) in part.iter().zip(times) {
                let value = (event.kind != "DELETE").then(|| Value {
                    bytes: event.kv.value.clone(),
                    modified,
                    version: Version(event.kv.mod_revision.to_string()),
                });
                let key = key.clone();
                changes.push(Change { key, value });
            }
        }
        changes
    }

    /// When these values were written: by their metadata, or now if a later write has replaced that already.
    fn times(&self, events: &[(Key, Event)]) -> Vec<SystemTime> {
        let keys: Vec<&Key> = events.iter().map(|(key, _)| key).collect();
        let reply = self.shared.load_at(&keys, Reading::Local, None);
        let mut ranges = reply.map(|reply| reply.ranges()).into_iter().flatten();
        let times = events.iter().map(|(_, event)| {
            let metadata = ranges.by_ref().nth(1);
            let metadata = metadata.and_then(|range| range.kvs.into_iter().next());
            let own = metadata.and_then(|own| Metadata::of(&event.kv, &own));
            own.map_or_else(SystemTime::now, |own| own.modified())
        });
        times.collect()
    }
}
