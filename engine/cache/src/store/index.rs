//! The in-memory index of a cache: its responses, when each was last used, and how much space they take. Its memory is
//! bounded; it does not touch files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::digest::Digest;
use super::tags::Tags;
use crate::limits::{NODE_BYTES, VARIANT_BYTES};

/// The index.
pub(crate) struct Index {
    nodes: HashMap<Digest, Node>,
    /// The digests, ordered by last use.
    order: BTreeMap<(u64, u64), Digest>,
    /// The digests of keys with those of their variants, so that the variants of one key are found without a look at all
    /// responses: each client may have them removed by a POST.
    variants: BTreeSet<(Digest, Digest)>,
    next: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Number of nodes that are responses.
    pub entries: usize,
    /// Memory accounted for the nodes, in bytes.
    pub held: usize,
    /// Limit of `held`.
    pub held_max: usize,
}

struct Node {
    kind: Kind,
    at: (u64, u64),
    uses: u32,
    updating: bool,
}

enum Kind {
    /// Requested before, but not cached.
    Known,
    /// Responses vary by these headers and are indexed under digests that include their values.
    Fork(Arc<[u8]>),
    /// Cached in a file.
    Stored(Entry),
    /// The upstream failed with this status, which is returned until the given time.
    Failed(u16, u64),
}

/// A cached response.
pub(crate) struct Entry {
    pub key: Box<[u8]>,
    /// Changes with each change of the file.
    pub id: u64,
    /// Disk space of the file.
    pub bytes: u64,
    /// Its surrogate keys.
    pub tags: Tags,
    /// The digest of its key, if it is one of several variants.
    pub variant_of: Option<Digest>,
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Nothing,
    Fork(Arc<[u8]>),
    Stored(u64),
    Failed(u16),
}

impl Index {
    pub fn new(held_max: usize) -> Index {
        Index {
            nodes: HashMap::new(),
            order: BTreeMap::new(),
            variants: BTreeSet::new(),
            next: 0,
            bytes: 0,
            entries: 0,
            held: 0,
            held_max,
        }
    }

    /// Looks up `digest` and records the use at `now`.
    pub fn look(&mut self, digest: Digest, key: &[u8], now: u64) -> Look {
        self.touch(digest, now);
        let Some(node) = self.nodes.get(&digest) else {
            return Look::Nothing;
        };
        match &node.kind {
            Kind::Fork(names) => Look::Fork(names.clone()),
            // Two keys can have the same digest: MD5 collisions can be constructed.
            Kind::Stored(entry) if *entry.key == *key => Look::Stored(entry.id),
            Kind::Failed(status, until) if now < *until => Look::Failed(*status),
            Kind::Stored(_) | Kind::Failed(..) | Kind::Known => Look::Nothing,
        }
    }

    fn touch(&mut self, digest: Digest, now: u64) {
        let Some(node) = self.nodes.get_mut(&digest) else {
            return;
        };
        // Reordering at most once a second is accurate enough and spares the tree.
        if node.at.0 < now {
            self.order.remove(&node.at);
            node.at = (now, self.next);
            self.order.insert(node.at, digest);
            self.next += 1;
        }
    }

    /// Counts a use; returns the number of uses so far, including this one.
    pub fn count(&mut self, digest: Digest, now: u64) -> u32 {
        self.touch(digest, now);
        if !self.nodes.contains_key(&digest) {
            self.set(digest, Kind::Known, now);
        }
        match self.nodes.get_mut(&digest) {
            Some(node) => {
                node.uses = node.uses.saturating_add(1);
                node.uses
            }
            None => 1,
        }
    }

    /// Records a new file for `digest`, replacing the previous entry.
    pub fn store(&mut self, digest: Digest, entry: Entry, now: u64) {
        self.set(digest, Kind::Stored(entry), now);
    }

    /// Records that responses vary by `names` from now on.
    pub fn fork(&mut self, digest: Digest, names: &[u8], now: u64) {
        let is_known = matches!(
            self.nodes.get(&digest).map(|node| &node.kind),
            Some(Kind::Fork(known)) if **known == *names
        );
        if !is_known {
            self.set(digest, Kind::Fork(names.into()), now);
        }
    }

    /// Records a failure of the upstream, valid until `until`. A cached response stays.
    pub fn fail(&mut self, digest: Digest, status: u16, until: u64, now: u64) {
        let is_stored = matches!(
            self.nodes.get(&digest).map(|node| &node.kind),
            Some(Kind::Stored(_) | Kind::Fork(_))
        );
        if !is_stored {
            self.set(digest, Kind::Failed(status, until), now);
        }
    }

    /// Changes the id and the surrogate keys of an entry after its file was updated; returns false if its id is no longer
    /// `before`.
    pub fn renew(&mut self, digest: Digest, before: u64, (id, tags): (u64, Tags)) -> bool {
        match self.nodes.get_mut(&digest).map(|node| &mut node.kind) {
            Some(Kind::Stored(entry)) if entry.id == before => {
                entry.id = id;
                self.held = self.held - entry.tags.bytes() + tags.bytes();
                entry.tags = tags;
                true
            }
            _ => false,
        }
    }

    /// Marks the entry as being refreshed; returns false if another request is already doing so.
    pub fn begin_update(&mut self, digest: Digest) -> bool {
        let node = self.nodes.get_mut(&digest);
        node.is_some_and(|node| !std::mem::replace(&mut node.updating, true))
    }

    pub fn end_update(&mut self, digest: Digest) {
        if let Some(node) = self.nodes.get_mut(&digest) {
            node.updating = false;
        }
    }

    /// Removes the entry; returns whether it had a file.
    pub fn remove(&mut self, digest: Digest) -> bool {
        let Some(node) = self.nodes.remove(&digest) else {
            return false;
        };
        self.order.remove(&node.at);
        self.forget(digest, &node.kind)
    }

    /// Like [`Index::remove`], but only if its file still has this id.
    pub fn remove_id(&mut self, digest: Digest, id: u64) -> bool {
        let found = self.nodes.get(&digest).map(|node| &node.kind);
        matches!(found, Some(Kind::Stored(entry)) if entry.id == id) && self.remove(digest)
    }

    /// Removes the least recently used entry if its last use was before `time`; the flag says whether it has a file.
    pub fn take_idle(&mut self, time: u64) -> Option<(Digest, bool)> {
        let (at, digest) = self.order.first_key_value()?;
        let digest = *digest;
        (at.0 < time).then(|| (digest, self.remove(digest)))
    }

    /// Removes the least recently used entry.
    pub fn take_oldest(&mut self) -> Option<(Digest, bool)> {
        let digest = *self.order.first_key_value()?.1;
        Some((digest, self.remove(digest)))
    }

    /// Whether the index exceeds its memory limit; the latest entry is always allowed.
    pub fn is_over(&self) -> bool {
        self.held > self.held_max && self.nodes.len() > 1
    }

    /// The digests of all responses whose key starts with `prefix`.
    pub fn with_prefix(&self, prefix: &[u8]) -> Vec<Digest> {
        let is_one = |node: &Node| matches!(&node.kind, Kind::Stored(entry) if entry.key.starts_with(prefix));
        let found = self.nodes.iter().filter(|(_, node)| is_one(node));
        found.map(|(digest, _)| *digest).collect()
    }

    /// The digests of all variants of the response with this key, whose digest is `of`.
    pub fn variants(&self, of: Digest, key: &[u8]) -> Vec<Digest> {
        let found = self.variants.range((of, Digest::FIRST)..);
        let found = found.take_while(|(own, _)| *own == of);
        // Two keys can have the same digest.
        let is_one = |digest: &Digest| {
            let node = self.nodes.get(digest).map(|node| &node.kind);
            matches!(node, Some(Kind::Stored(entry)) if *entry.key == *key)
        };
        let found = found.map(|(_, digest)| *digest);
        found.filter(is_one).collect()
    }

    /// The digests of all responses with one of these surrogate keys.
    pub fn tagged(&self, wanted: &[u64]) -> Vec<Digest> {
        let is_one =
            |node: &Node| matches!(&node.kind, Kind::Stored(entry) if entry.tags.has_any(wanted));
        let found = self.nodes.iter().filter(|(_, node)| is_one(node));
        found.map(|(digest, _)| *digest).collect()
    }

    /// The keys of all responses, once for each variant.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.nodes.values().filter_map(|node| match &node.kind {
            Kind::Stored(entry) => Some(&*entry.key),
            Kind::Known | Kind::Fork(_) | Kind::Failed(..) => None,
        })
    }

    fn set(&mut self, digest: Digest, kind: Kind, now: u64) {
        self.held += cost(&kind);
        if let Kind::Stored(entry) = &kind {
            self.bytes += entry.bytes;
            self.entries += 1;
        }
        let variant_of = variant_of(&kind);
        let at = (now, self.next);
        self.next += 1;
        self.order.insert(at, digest);
        let (uses, updating) = self
            .nodes
            .get(&digest)
            .map_or((0, false), |node| (node.uses, node.updating));
        let node = Node {
            kind,
            at,
            uses,
            updating,
        };
        if let Some(before) = self.nodes.insert(digest, node) {
            self.order.remove(&before.at);
            self.forget(digest, &before.kind);
        }
        // After the node before it is forgotten, which may be a variant of the same key.
        self.variants.extend(variant_of.map(|of| (of, digest)));
    }

    fn forget(&mut self, digest: Digest, kind: &Kind) -> bool {
        self.held -= cost(kind);
        if let Some(of) = variant_of(kind) {
            self.variants.remove(&(of, digest));
        }
        match kind {
            Kind::Stored(entry) => {
                self.bytes -= entry.bytes;
                self.entries -= 1;
                true
            }
            Kind::Known | Kind::Fork(_) | Kind::Failed(..) => false,
        }
    }
}

fn variant_of(kind: &Kind) -> Option<Digest> {
    match kind {
        Kind::Stored(entry) => entry.variant_of,
        Kind::Known | Kind::Fork(_) | Kind::Failed(..) => None,
    }
}

fn cost(kind: &Kind) -> usize {
    NODE_BYTES
        + match kind {
            Kind::Stored(entry) => {
                let variant = entry.variant_of.map_or(0, |_| VARIANT_BYTES);
                entry.key.len() + entry.tags.bytes() + variant
            }
            Kind::Fork(names) => names.len(),
            Kind::Known | Kind::Failed(..) => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u8) -> Digest {
        Digest([number; 16])
    }

    fn entry(key: &str, id: u64, bytes: u64) -> Entry {
        Entry {
            key: key.as_bytes().into(),
            id,
            bytes,
            tags: Tags::default(),
            variant_of: None,
        }
    }

    fn variant(key: &str, id: u64) -> Entry {
        Entry {
            variant_of: Some(Digest::of(&[key.as_bytes()])),
            ..entry(key, id, 1)
        }
    }

    #[test]
    fn variants_are_found_by_their_key() {
        let mut index = Index::new(usize::MAX);
        let of = |key: &str| Digest::of(&[key.as_bytes()]);
        for (number, key) in [(1, "/a"), (2, "/a"), (3, "/b"), (4, "/a")] {
            index.store(digest(number), variant(key, u64::from(number)), 1);
        }
        // A newer one in its place.
        index.store(digest(2), variant("/a", 9), 2);
        index.remove(digest(4));
        assert_eq!(index.variants(of("/a"), b"/a"), [digest(1), digest(2)]);
        assert_eq!(
            index.variants(of("/a"), b"/other"),
            [],
            "another key with its digest"
        );
        assert_eq!(index.variants(of("/b"), b"/b"), [digest(3)]);
        index.fork(digest(3), b"a,", 3);
        assert_eq!(index.variants(of("/b"), b"/b"), []);
        for number in 1..=3 {
            index.remove(digest(number));
        }
        assert!(index.variants.is_empty() && index.held == 0);
    }

    #[test]
    fn the_least_recently_used_entry_goes_first() {
        let mut index = Index::new(usize::MAX);
        for number in 1..=3 {
            index.store(digest(number), entry("k", u64::from(number), 10), 100);
        }
        assert_eq!((index.bytes, index.entries), (30, 3));
        assert_eq!(index.look(digest(1), b"k", 105), Look::Stored(1));
        assert_eq!(index.take_idle(100), None);
        assert_eq!(index.take_idle(101), Some((digest(2), true)));
        assert_eq!(index.take_oldest(), Some((digest(3), true)));
        assert_eq!(index.take_oldest(), Some((digest(1), true)));
        assert_eq!(index.take_oldest(), None);
        assert_eq!((index.bytes, index.entries, index.held), (0, 0, 0));
    }

    #[test]
    fn memory_is_counted_and_keys_are_compared() {
        let mut index = Index::new(2 * NODE_BYTES + 3);
        index.store(digest(1), entry("key", 1, 5), 1);
        assert_eq!(index.held, NODE_BYTES + 3);
        assert_eq!(index.look(digest(1), b"other", 1), Look::Nothing);
        index.count(digest(2), 2);
        assert!(!index.is_over());
        index.fork(digest(3), b"a,", 3);
        assert!(index.is_over());
        assert_eq!(index.take_oldest(), Some((digest(1), true)));
        assert!(!index.is_over());
        assert_eq!(
            index.look(digest(3), b"any", 3),
            Look::Fork(b"a,"[..].into())
        );
    }

    #[test]
    fn a_node_keeps_its_uses_and_knows_who_updates_it() {
        let mut index = Index::new(usize::MAX);
        assert_eq!(
            (index.count(digest(1), 1), index.count(digest(1), 2)),
            (1, 2)
        );
        index.store(digest(1), entry("k", 7, 4), 3);
        index.store(digest(1), entry("k", 8, 6), 3);
        assert_eq!((index.bytes, index.entries), (6, 1));
        assert!(index.begin_update(digest(1)) && !index.begin_update(digest(1)));
        index.end_update(digest(1));
        assert!(index.begin_update(digest(1)));
        assert!(!index.begin_update(digest(2)));
        let newer = || (9, Tags::default());
        assert!(!index.renew(digest(1), 7, newer()) && index.renew(digest(1), 8, newer()));
        assert!(!index.remove_id(digest(1), 8) && index.remove_id(digest(1), 9));
    }

    #[test]
    fn cached_failures_expire_and_never_replace_a_response() {
        let mut index = Index::new(usize::MAX);
        index.fail(digest(1), 502, 10, 5);
        assert_eq!(index.look(digest(1), b"k", 9), Look::Failed(502));
        assert_eq!(index.look(digest(1), b"k", 10), Look::Nothing);
        index.store(digest(1), entry("k", 1, 1), 11);
        index.fail(digest(1), 502, 20, 12);
        assert_eq!(index.look(digest(1), b"k", 12), Look::Stored(1));
    }

    #[test]
    fn cached_responses_are_found_by_their_keys() {
        let mut index = Index::new(usize::MAX);
        for (number, key) in [(1, "/a/1"), (2, "/a/2"), (3, "/b"), (4, "/a/1")] {
            index.store(digest(number), entry(key, 1, 1), 1);
        }
        let sorted = |mut found: Vec<Digest>| {
            found.sort_by_key(|digest| digest.0);
            found
        };
        assert_eq!(
            sorted(index.with_prefix(b"/a/")),
            [digest(1), digest(2), digest(4)]
        );
        let keys = index.keys().filter(|key| *key == b"/a/1");
        assert_eq!(keys.count(), 2, "each variant has the key");
    }
}
