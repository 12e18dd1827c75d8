//! What the caller of a watch knows already, for engines that announce keys rather than values.

use std::collections::{BTreeMap, BTreeSet};

use crate::Key;
use crate::values::{Change, Value, Version};

/// The versions below a prefix that were reported.
pub(crate) struct Known {
    prefix: Key,
    versions: BTreeMap<Key, Version>,
}

impl Known {
    pub(crate) fn new(prefix: &Key, versions: BTreeMap<Key, Version>) -> Known {
        Known {
            prefix: prefix.clone(),
            versions,
        }
    }

    pub(crate) fn prefix(&self) -> &Key {
        &self.prefix
    }

    /// The keys among these that are watched, in the order in which each was announced last.
    pub(crate) fn watched(&self, keys: impl DoubleEndedIterator<Item = Key>) -> Vec<Key> {
        let mut seen = BTreeSet::new();
        let mut last: Vec<Key> = keys
            .rev()
            .filter(|key| self.prefix.covers(key) && seen.insert(key.clone()))
            .collect();
        last.reverse();
        last
    }

    /// The keys whose versions are not those that were reported, deleted ones first.
    pub(crate) fn differing(&self, present: BTreeMap<Key, Version>) -> Vec<Key> {
        let gone = self.versions.keys();
        let gone = gone.filter(|key| !present.contains_key(*key)).cloned();
        let mut keys: Vec<Key> = gone.collect();
        let new = present.into_iter();
        let new = new.filter(|(key, version)| self.versions.get(key) != Some(version));
        keys.extend(new.map(|(key, _)| key));
        keys
    }

    /// What has changed in these values since it was reported.
    pub(crate) fn compare<'a>(
        &mut self,
        values: impl Iterator<Item = (&'a Key, Option<Value>)>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for (key, value) in values {
            let version = value.as_ref().map(|value| value.version.clone());
            let before = match &version {
                Some(version) => self.versions.insert(key.clone(), version.clone()),
                None => self.versions.remove(key),
            };
            if before != version {
                let key = key.clone();
                changes.push(Change { key, value });
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn each_version_is_reported_once() {
        let key = |text: &str| Key::new(text).unwrap();
        let value = |version: &str| Value {
            bytes: Vec::new(),
            modified: SystemTime::UNIX_EPOCH,
            version: Version(version.to_owned()),
        };
        let one = |version: &str| Version(version.to_owned());
        let (a, b) = (key("p/a"), key("p/b"));
        let mut known = Known::new(&key("p"), BTreeMap::from([(a.clone(), one("1"))]));
        let announced = [&a, &b, &key("q"), &a].map(Clone::clone);
        assert_eq!(known.watched(announced.into_iter()), [b.clone(), a.clone()]);
        let read = [(&a, Some(value("1"))), (&b, Some(value("2")))];
        let changes = known.compare(read.into_iter());
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].key, b);
        assert_eq!(known.compare([(&b, Some(value("2")))].into_iter()), []);
        let present = BTreeMap::from([(b.clone(), one("3"))]);
        assert_eq!(known.differing(present), [a.clone(), b]);
        assert_eq!(known.compare([(&a, None)].into_iter())[0].value, None);
    }
}
