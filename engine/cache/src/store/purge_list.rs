//! The list of purges that nodes share, as it is stored: numbered from 1 without gaps, of which the latest are kept. From the
//! number that a node has applied last follows what it has missed, and whether that is still listed.

use std::collections::VecDeque;

use sluice_message::hex::{hex_pair, hex_text};

use super::purged::Target;
use crate::limits::{PURGE_LIST_BYTES_MAX, PURGE_LIST_MAX};

/// The first line of the text.
const TITLE: &str = "sluice purges 1";

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PurgeList {
    /// The number of the last purge; 0 before the first one.
    last: u64,
    /// The last purges, the earliest first.
    kept: VecDeque<Target>,
    /// The length of the text without its title, in bytes.
    bytes: usize,
}

/// What a node has missed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missed<'a> {
    /// These purges.
    These(Vec<&'a Target>),
    /// Nobody knows: everything counts as purged.
    Unknown,
}

impl PurgeList {
    /// Parses the text; `None` if it is not such a list.
    pub fn parse(text: &[u8]) -> Option<PurgeList> {
        let mut lines = std::str::from_utf8(text).ok()?.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let mut list = PurgeList::default();
        for line in lines {
            let mut words = line.split(' ');
            let (number, kind, key) = (words.next()?, words.next()?, words.next()?);
            let number: u64 = number.parse().ok()?;
            if number == 0 || !list.kept.is_empty() && number != list.last + 1 {
                return None;
            }
            let key = decode(key)?;
            list.last = number - 1;
            list.add(match kind {
                "=" => Target::Key(key),
                "*" => Target::Beginning(key),
                _ => return None,
            });
        }
        Some(list)
    }

    /// The text.
    pub fn encode(&self) -> String {
        let mut text = format!("{TITLE}\n");
        let first = self.first();
        for (number, target) in (first..).zip(&self.kept) {
            text.push_str(&line(number, target));
        }
        text
    }

    /// The number of the last purge.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Adds a purge, and drops the earliest if there are too many.
    pub fn add(&mut self, target: Target) {
        self.last += 1;
        self.bytes += line(self.last, &target).len();
        self.kept.push_back(target);
        while self.kept.len() > PURGE_LIST_MAX
            || self.bytes > PURGE_LIST_BYTES_MAX && self.kept.len() > 1
        {
            let number = self.first();
            let Some(dropped) = self.kept.pop_front() else {
                return;
            };
            self.bytes -= line(number, &dropped).len();
        }
    }

    /// What a node has missed that has applied the purges up to `applied`; `None` if it does not know.
    pub fn since(&self, applied: Option<u64>) -> Missed<'_> {
        let applied = applied.unwrap_or(0);
        let first = self.first();
        // The list is shorter than it was: it was lost, and with it nobody knows what.
        if applied > self.last || applied + 1 < first {
            return Missed::Unknown;
        }
        let skipped = usize::try_from(applied + 1 - first).unwrap_or(usize::MAX);
        Missed::These(self.kept.iter().skip(skipped).collect())
    }

    /// The number of the earliest purge that is kept.
    fn first(&self) -> u64 {
        self.last + 1 - self.kept.len() as u64
    }
}

fn line(number: u64, target: &Target) -> String {
    match target {
        Target::Key(key) => format!("{number} = {}\n", hex_text(key)),
        Target::Beginning(beginning) => format!("{number} * {}\n", hex_text(beginning)),
    }
}

fn decode(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| hex_pair(pair).filter(|_| pair.len() == 2))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Target {
        Target::Key(text.as_bytes().to_vec())
    }

    fn list(count: usize) -> PurgeList {
        let mut list = PurgeList::default();
        (1..=count).for_each(|number| list.add(key(&number.to_string())));
        list
    }

    #[test]
    fn a_list_is_what_its_text_says() {
        let mut list = PurgeList::default();
        assert_eq!(
            PurgeList::parse(list.encode().as_bytes()),
            Some(list.clone())
        );
        list.add(key("/a b\n\u{ff}"));
        list.add(Target::Beginning(Vec::new()));
        let text = list.encode();
        assert_eq!(
            text, "sluice purges 1\n1 = 2f6120620ac3bf\n2 * \n",
            "keys are bytes"
        );
        assert_eq!(PurgeList::parse(text.as_bytes()), Some(list));
        for bad in [
            "",
            "sluice purges 2\n",
            "sluice purges 1\n1 = zz\n",
            "sluice purges 1\n1 = abc\n",
            "sluice purges 1\n0 = ab\n",
            "sluice purges 1\n1 ~ ab\n",
            "sluice purges 1\n1 = ab\n3 = ab\n",
            "sluice purges 1\n1\n",
        ] {
            assert_eq!(PurgeList::parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn a_node_learns_what_it_has_missed() {
        let three = list(3);
        let missed = |applied| match three.since(applied) {
            Missed::These(these) => Some(these.len()),
            Missed::Unknown => None,
        };
        assert_eq!(missed(None), Some(3), "the list is complete");
        assert_eq!(missed(Some(1)), Some(2));
        assert_eq!(missed(Some(3)), Some(0));
        assert_eq!(missed(Some(4)), None, "the list was lost");
        assert_eq!(PurgeList::default().since(None), Missed::These(Vec::new()));
    }

    #[test]
    fn of_a_list_that_is_too_long_the_last_purges_are_kept() {
        let long = list(PURGE_LIST_MAX + 10);
        let text = long.encode();
        assert_eq!(text.lines().count(), PURGE_LIST_MAX + 1);
        let read = PurgeList::parse(text.as_bytes()).unwrap();
        assert_eq!(read, long);
        assert_eq!(read.last(), PURGE_LIST_MAX as u64 + 10);
        assert_eq!(read.since(None), Missed::Unknown);
        assert_eq!(read.since(Some(9)), Missed::Unknown);
        assert!(
            matches!(read.since(Some(10)), Missed::These(these) if these.len() == PURGE_LIST_MAX)
        );
        let mut wide = list(3);
        let half = "x".repeat(PURGE_LIST_BYTES_MAX / 4);
        wide.add(key(&half));
        wide.add(key(&half));
        assert!(wide.encode().len() <= PURGE_LIST_BYTES_MAX + 100);
        assert_eq!(wide.since(Some(3)), Missed::Unknown);
        assert!(matches!(wide.since(Some(4)), Missed::These(these) if these.len() == 1));
        wide.add(key(&"y".repeat(PURGE_LIST_BYTES_MAX)));
        assert_eq!(wide.last(), 6);
        assert!(matches!(wide.since(Some(5)), Missed::These(these) if these.len() == 1));
    }
}
