//! The keys of a fleet in a store, beside the key of its configuration.
//!
//! | key | value |
//! |---|---|
//! | `KEY` | the text of the configuration, as in a file |
//! | `KEY.canary` | the nodes that take another text first, as JSON; only during a push |
//! | `KEY.history/TIME-REVISION` | a text that was pushed at `TIME`, in milliseconds since the Unix epoch |
//! | `KEY.nodes/NAME` | the report of a node, as JSON |
//!
//! A node holds the lease `KEY.nodes/NAME`, and a push holds `KEY.push`.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sluice_store::{Fault, Key, KeyError, Store, StoreError};

use super::revision::Revision;
use crate::limits::{NODE_NAME_BYTES_MAX, NODES_MAX};

/// Names the keys of one fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The text in effect.
    pub text: Key,
    /// The canary.
    pub canary: Key,
    nodes: Key,
    history: Key,
}

/// Some nodes take another text than the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Its revision.
    pub revision: Revision,
    /// The key of the text in the history.
    pub text: String,
    /// The names of the nodes.
    pub nodes: Vec<String>,
}

/// A text of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Its key.
    pub key: Key,
    /// Its revision.
    pub revision: Revision,
    /// When it was pushed.
    pub at: SystemTime,
}

impl Layout {
    /// The keys beside `text`.
    ///
    /// # Errors
    /// The key is too long.
    pub fn of(text: &str) -> Result<Layout, KeyError> {
        // A report and a lease are named after a node, and both must fit.
        Key::new(format!(
            "{text}.history/{}",
            "x".repeat(NODE_NAME_BYTES_MAX)
        ))?;
        Ok(Layout {
            text: Key::new(text)?,
            canary: Key::new(format!("{text}.canary"))?,
            nodes: Key::new(format!("{text}.nodes"))?,
            history: Key::new(format!("{text}.history"))?,
        })
    }

    /// The key that all reports are below.
    pub fn nodes(&self) -> &Key {
        &self.nodes
    }

    /// The key of a node's report.
    ///
    /// # Errors
    /// The name has a slash, a control character or more than 255 bytes.
    pub fn node(&self, name: &str) -> Result<Key, KeyError> {
        if name.len() > NODE_NAME_BYTES_MAX {
            return Err(KeyError::Length);
        }
        match name.contains('/') {
            true => Err(KeyError::Character),
            false => self.nodes.below(name),
        }
    }

    /// The name of the lease of a node.
    pub fn node_lease(&self, name: &str) -> String {
        format!("{}/{name}", self.nodes)
    }

    /// The name of the lease of a push.
    pub fn push_lease(&self) -> String {
        format!("{}.push", self.text)
    }

    /// The names of the nodes that hold one of these leases.
    ///
    /// # Errors
    /// There are too many.
    pub fn living(
        &self,
        leases: &[String],
        store: &dyn Store,
    ) -> Result<BTreeSet<String>, StoreError> {
        let prefix = format!("{}/", self.nodes);
        let names = leases
            .iter()
            .filter_map(|lease| lease.strip_prefix(&prefix));
        let names: Vec<String> = names.map(str::to_owned).collect();
        Ok(bounded(names, store)?.into_iter().collect())
    }

    /// The keys of all reports.
    ///
    /// # Errors
    /// The store fails, or there are too many.
    pub fn reports(&self, store: &dyn Store) -> Result<Vec<Key>, StoreError> {
        let entries = store.list(&self.nodes, sluice_store::Reach::Children)?;
        bounded(
            entries.iter().map(|entry| entry.key().clone()).collect(),
            store,
        )
    }

    /// The name of the node with this report.
    pub fn node_of<'a>(&self, report: &'a Key) -> &'a str {
        let name = report.as_str().strip_prefix(self.nodes.as_str());
        name.and_then(|name| name.strip_prefix('/'))
            .unwrap_or_default()
    }

    /// The key of a text in the history that is pushed now.
    ///
    /// # Errors
    /// The key is too long.
    pub fn past(&self, revision: &Revision, at: SystemTime) -> Result<Key, KeyError> {
        let millis = at
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis();
        self.history.below(&format!("{millis:013}-{revision}"))
    }

    /// The history, the oldest first. Values of others are skipped.
    ///
    /// # Errors
    /// The store fails.
    pub fn history(&self, store: &dyn Store) -> Result<Vec<Past>, StoreError> {
        let entries = store.list(&self.history, sluice_store::Reach::Children)?;
        Ok(entries
            .iter()
            .filter_map(|entry| self.read_past(entry.key()))
            .collect())
    }

    fn read_past(&self, key: &Key) -> Option<Past> {
        let name = key.as_str().strip_prefix(self.history.as_str())?;
        let (millis, revision) = name.strip_prefix('/')?.split_once('-')?;
        Some(Past {
            key: key.clone(),
            revision: Revision::named(revision),
            at: UNIX_EPOCH.checked_add(Duration::from_millis(millis.parse().ok()?))?,
        })
    }
}

/// A key that the rules allow because its parts were checked before.
pub(super) fn checked_key(
    key: Result<Key, KeyError>,
    store: &dyn Store,
) -> Result<Key, StoreError> {
    key.map_err(|error| StoreError::new(Fault::Setting, store.place(), error.to_string()))
}

fn bounded<T>(list: Vec<T>, store: &dyn Store) -> Result<Vec<T>, StoreError> {
    if list.len() > NODES_MAX {
        let what = format!("more than {NODES_MAX} nodes");
        return Err(StoreError::new(Fault::Limit, store.place(), what));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_store::memory::MemoryStore;
    use sluice_store::{Guard, Write};

    #[test]
    fn the_keys_are_beside_the_text() {
        let layout = Layout::of("sluice/prod").unwrap();
        assert_eq!(layout.node("a").unwrap().as_str(), "sluice/prod.nodes/a");
        assert_eq!(layout.node_of(&layout.node("a").unwrap()), "a");
        assert_eq!(layout.node_lease("a"), "sluice/prod.nodes/a");
        assert!(layout.node("a/b").is_err());
        assert!(layout.node("").is_err());
        assert!(layout.node(&"n".repeat(256)).is_err());
        assert!(
            !layout.text.covers(&layout.canary),
            "a watch of one is not woken by the other"
        );
        assert!(Layout::of(&"k".repeat(1000)).is_err());
    }

    #[test]
    fn the_history_is_sorted_by_time_and_skips_what_is_not_ours() {
        let store = MemoryStore::new();
        let layout = Layout::of("k").unwrap();
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        for (text, seconds) in [("b", 2_000_000_000), ("a", 1_000_000_000)] {
            let key = layout.past(&Revision::of(text), at(seconds)).unwrap();
            store
                .save(&[Write::Put(&key, text.as_bytes())], Guard::Always)
                .unwrap();
        }
        let foreign = Key::new("k.history/notes").unwrap();
        store
            .save(&[Write::Put(&foreign, b"x")], Guard::Always)
            .unwrap();
        let found = layout.history(&store).unwrap();
        let found: Vec<_> = found.iter().map(|past| (&past.revision, past.at)).collect();
        let (a, b) = (Revision::of("a"), Revision::of("b"));
        assert_eq!(found, [(&a, at(1_000_000_000)), (&b, at(2_000_000_000))]);
    }
}
