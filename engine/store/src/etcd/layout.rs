//! The names of keys in etcd, the metadata of values, and the messages of the JSON gateway.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value as Json, json};

use crate::Key;

/// The longest prefix, in bytes: room for a path, beside the longest key.
const PREFIX_BYTES_MAX: usize = 256;

/// The names of keys below a prefix.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Without a slash at its end.
    prefix: String,
}

impl Layout {
    /// The layout below `prefix`, or why it cannot be used.
    pub(super) fn new(prefix: &str) -> Result<Layout, String> {
        let prefix = prefix.trim_end_matches('/');
        if prefix.len() > PREFIX_BYTES_MAX {
            return Err(format!(
                "the key prefix is longer than {PREFIX_BYTES_MAX} bytes"
            ));
        }
        if prefix.chars().any(char::is_control) {
            return Err("the key prefix contains a control character".to_owned());
        }
        Ok(Layout {
            prefix: prefix.to_owned(),
        })
    }

    pub(super) fn value(&self, key: &Key) -> Vec<u8> {
        format!("{}/{key}", self.prefix).into_bytes()
    }

    pub(super) fn metadata(&self, key: &Key) -> Vec<u8> {
        format!("{}.meta/{key}", self.prefix).into_bytes()
    }

    pub(super) fn lock(&self, name: &str) -> Vec<u8> {
        format!("{}.lock/{name}", self.prefix).into_bytes()
    }

    /// The key of the value under this name; `None` if something else has written it, under a name of its own.
    pub(super) fn key_of_value(&self, name: &[u8]) -> Option<Key> {
        let name = std::str::from_utf8(name).ok()?;
        let key = name.strip_prefix(&*self.prefix)?.strip_prefix('/')?;
        Key::new(key).ok().filter(|key| !key.as_str().is_empty())
    }

    pub(super) fn lease_name(&self, name: &[u8]) -> Option<String> {
        let name = std::str::from_utf8(name).ok()?;
        let name = name.strip_prefix(&*self.prefix)?.strip_prefix(".lock/")?;
        Some(name.to_owned())
    }

    /// The first name, and the one after the last, of the values below `prefix`.
    pub(super) fn values_below(&self, prefix: &Key) -> (Vec<u8>, Vec<u8>) {
        below(self.value(prefix))
    }

    pub(super) fn metadata_below(&self, prefix: &Key) -> (Vec<u8>, Vec<u8>) {
        below(self.metadata(prefix))
    }

    pub(super) fn locks(&self) -> (Vec<u8>, Vec<u8>) {
        below(self.lock(""))
    }
}

fn below(mut first: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    if first.last() != Some(&b'/') {
        first.push(b'/');
    }
    let mut end = first.clone();
    end.pop();
    // The byte after the slash.
    end.push(b'0');
    (first, end)
}

/// What is written with a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Metadata {
    /// The time of the write by the clock of the writer, in milliseconds since 1970.
    modified_ms: u64,
    /// The size of the value in bytes.
    pub(super) size: u64,
    /// A random text of the call that wrote it.
    pub(super) writer: String,
}

impl Metadata {
    /// The metadata of a value that is written now.
    pub(super) fn now(size: usize, writer: &str) -> Metadata {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let since = since.unwrap_or_default().as_millis();
        Metadata {
            modified_ms: u64::try_from(since).unwrap_or(u64::MAX),
            size: size as u64,
            writer: writer.to_owned(),
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and text are JSON")
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Metadata> {
        serde_json::from_slice(bytes).ok()
    }

    /// The metadata of `value`; `None` if they were not written together.
    pub(super) fn of(value: &Kv, metadata: &Kv) -> Option<Metadata> {
        let is_own = value.mod_revision == metadata.mod_revision;
        is_own.then(|| Metadata::parse(&metadata.value)).flatten()
    }

    pub(super) fn modified(&self) -> SystemTime {
        let since = Duration::from_millis(self.modified_ms);
        let modified = SystemTime::UNIX_EPOCH.checked_add(since);
        modified.unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// `bytes` as JSON messages have them.
pub(super) fn encoded(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A comparison: the transaction is made if this revision of `key` is `revision`.
pub(super) fn compare(key: &[u8], target: &str, revision: &str) -> Json {
    let member = match target {
        "MOD" => "mod_revision",
        _ => "create_revision",
    };
    json!({"key": encoded(key), "target": target, "result": "EQUAL", member: revision})
}

/// Members that are zero, empty or false are absent from messages; 64-bit numbers are texts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Header {
    #[serde(deserialize_with = "number")]
    pub(super) revision: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Kv {
    #[serde(deserialize_with = "bytes")]
    pub(super) key: Vec<u8>,
    #[serde(deserialize_with = "bytes")]
    pub(super) value: Vec<u8>,
    #[serde(deserialize_with = "number")]
    pub(super) create_revision: i64,
    #[serde(deserialize_with = "number")]
    pub(super) mod_revision: i64,
    /// The etcd lease to which the key is bound.
    #[serde(deserialize_with = "number")]
    pub(super) lease: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RangeReply {
    pub(super) header: Header,
    pub(super) kvs: Vec<Kv>,
    pub(super) more: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeleteReply {
    #[serde(deserialize_with = "number")]
    pub(super) deleted: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TxnReply {
    pub(super) header: Header,
    pub(super) succeeded: bool,
    responses: Vec<TxnPart>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TxnPart {
    response_range: Option<RangeReply>,
}

impl TxnReply {
    /// The responses to the ranges of a transaction, in its order.
    pub(super) fn ranges(self) -> impl Iterator<Item = RangeReply> {
        let parts = self.responses.into_iter();
        parts.map(|part| part.response_range.unwrap_or_default())
    }

    /// The first key that a range found.
    pub(super) fn first_kv(self) -> Option<Kv> {
        self.ranges().flat_map(|range| range.kvs).next()
    }
}

/// The response to a lease that was granted or kept alive.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LeaseReply {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub(super) id: i64,
    /// The seconds that are left; zero if there is no such lease.
    #[serde(rename = "TTL", deserialize_with = "number")]
    pub(super) ttl: i64,
}

/// A message of a stream: the result, or an error.
#[derive(Debug, Deserialize)]
pub(super) struct Streamed<T> {
    pub(super) result: Option<T>,
    pub(super) error: Option<Json>,
}

/// A message of a watch.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WatchReply {
    pub(super) header: Header,
    pub(super) created: bool,
    pub(super) canceled: bool,
    pub(super) cancel_reason: String,
    #[serde(deserialize_with = "number")]
    pub(super) compact_revision: i64,
    /// More events of the same revision follow.
    pub(super) fragment: bool,
    pub(super) events: Vec<Event>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    /// `DELETE`, or absent.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) kv: Kv,
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(i64),
        Text(String),
    }
    match Either::deserialize(from)? {
        Either::Number(number) => Ok(number),
        Either::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_metadata_and_leases_lie_apart() {
        let layout = Layout::new("/sluice/").unwrap();
        let key = Key::new("a/b").unwrap();
        assert_eq!(layout.value(&key), b"/sluice/a/b");
        assert_eq!(layout.metadata(&key), b"/sluice.meta/a/b");
        assert_eq!(layout.lock("order x"), b"/sluice.lock/order x");
        assert_eq!(layout.key_of_value(b"/sluice/a/b"), Some(key.clone()));
        assert_eq!(layout.lease_name(b"/sluice.lock/x").as_deref(), Some("x"));
        for foreign in [&b"/sluice//a"[..], b"/sluice/", b"/slu/a", b"/sluice/\xff"] {
            assert_eq!(layout.key_of_value(foreign), None);
        }
        let (first, end) = layout.values_below(&Key::default());
        for (name, is_inside) in [
            (layout.value(&key), true),
            (layout.metadata(&key), false),
            (layout.lock("x"), false),
        ] {
            assert_eq!((first.clone()..end.clone()).contains(&name), is_inside);
        }
        // The empty prefix keeps them apart as well.
        let (first, end) = Layout::new("").unwrap().values_below(&key);
        assert_eq!((&*first, &*end), (&b"/a/b/"[..], &b"/a/b0"[..]));
        assert!(Layout::new("/a\nb").is_err());
    }

    #[test]
    fn metadata_counts_only_with_the_value_it_was_written_with() {
        let metadata = Metadata::now(3, "w");
        let mut kv = Kv {
            mod_revision: 7,
            ..Kv::default()
        };
        let own = Kv {
            mod_revision: 7,
            value: metadata.to_json(),
            ..Kv::default()
        };
        assert_eq!(Metadata::of(&kv, &own), Some(metadata));
        kv.mod_revision = 8;
        assert_eq!(Metadata::of(&kv, &own), None);
        assert_eq!(Metadata::parse(b"garbage"), None);
    }
}
