//! Purges of one node: by key, by the beginning of keys, and by surrogate keys. `purge_log` has those of several nodes.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use super::digest::Digest;
use super::index::{Index, Look};
use super::purged::Target;
use super::tags::digests;
use super::{Store, lock, unix_now};

impl Store {
    /// Removes all responses with this key, in all variants. Returns how many there were.
    pub fn purge(&self, key: &[u8]) -> usize {
        let mut index = lock(&self.index);
        self.note_purge(Target::Key(key.to_vec()));
        let digest = Digest::of(&[key]);
        // They may be there without a fork: one that varies no longer has replaced it, or it was evicted. The next fork would
        // bring them back.
        let mut found = index.variants(digest, key);
        match index.look(digest, key, unix_now()) {
            Look::Fork(_) => {}
            Look::Stored(_) => found.push(digest),
            Look::Failed(_) | Look::Nothing => {
                index.remove(digest);
                // While the index is being loaded, the file may exist without being indexed.
                if self.is_loading() && self.file(digest).exists() {
                    found.push(digest);
                }
            }
        }
        self.remove_all(index, found)
    }

    /// Removes all responses whose key starts with `prefix`. Returns how many there were.
    pub fn purge_beginning(&self, prefix: &[u8]) -> usize {
        let index = lock(&self.index);
        self.note_purge(Target::Beginning(prefix.to_vec()));
        let found = index.with_prefix(prefix);
        self.remove_all(index, found)
    }

    /// Removes all responses with one of these surrogate keys, which are a list as in the header `Surrogate-Key`. Returns
    /// how many there were.
    pub fn purge_tagged(&self, list: &[u8]) -> usize {
        self.counts.purges.fetch_add(1, Ordering::Relaxed);
        let wanted: Vec<u64> = digests(list).collect();
        let index = lock(&self.index);
        lock(&self.filling).retain(|_, filling| !filling.tags.has_any(&wanted));
        if self.is_loading() {
            // Which files have these keys is not known yet.
            lock(&self.purged).add_all();
        }
        let found = index.tagged(&wanted);
        self.remove_all(index, found)
    }

    /// Removes all responses.
    pub(super) fn purge_all(&self) {
        let index = lock(&self.index);
        lock(&self.filling).clear();
        if self.is_loading() {
            lock(&self.purged).add_all();
        }
        let found = index.with_prefix(b"");
        self.remove_all(index, found);
    }

    /// Applies a purge of this node or another one to this node; returns how many responses it removed.
    pub fn purge_here(&self, target: &Target) -> usize {
        self.counts.purges.fetch_add(1, Ordering::Relaxed);
        match target {
            Target::Key(key) => self.purge(key),
            Target::Beginning(beginning) => self.purge_beginning(beginning),
        }
    }

    /// Keeps what is being written or was not loaded yet out of the cache. The index is locked.
    fn note_purge(&self, target: Target) {
        lock(&self.filling).retain(|_, filling| !target.covers(&filling.key));
        if self.is_loading() {
            lock(&self.purged).add(target);
        }
    }

    fn remove_all(&self, mut index: MutexGuard<'_, Index>, found: Vec<Digest>) -> usize {
        found.iter().for_each(|digest| _ = index.remove(*digest));
        drop(index);
        // Files are removed before the purge is acknowledged, so that not even a restart brings them back.
        found.iter().for_each(|digest| self.unlink(*digest));
        found.len()
    }
}
