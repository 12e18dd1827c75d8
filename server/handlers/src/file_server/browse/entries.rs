//! Reads and sorts the entries of a folder.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs::{DirEntry, FileType};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use sluice_cache::Time;

use super::Links;
use super::order::{Order, SortBy};
use crate::file_server::hide::Hidden;
use sluice_pipeline::context::Exchange;

/// One entry of a listing.
#[derive(Clone, Debug)]
pub(in crate::file_server) struct Entry {
    /// The name, without a trailing slash.
    pub name: Vec<u8>,
    /// Whether it is a folder or a link to one.
    pub is_dir: bool,
    /// Whether it is a link.
    pub is_link: bool,
    /// The target of the link, if it is to be shown.
    pub target: Option<Vec<u8>>,
    /// Size in bytes, of the target for a link that is not broken.
    pub size: u64,
    /// Size in bytes, of the link itself for a link.
    pub own_size: u64,
    /// Modification time, of the link itself for a link.
    pub modified: Time,
    /// Type and permissions as Go's `FileMode`, which is part of Caddy's JSON.
    pub mode: u32,
    /// The sort key.
    key: String,
}

/// The entries of the folder at `path` without hidden ones, and whether there were more than `max`.
pub(super) fn read(
    exchange: &Exchange,
    path: &[u8],
    max: usize,
    links: Links,
    hidden: &Hidden,
) -> io::Result<(Vec<Entry>, bool)> {
    let folder = if path.is_empty() { b"/" } else { path };
    let mut entries = Vec::new();
    for (number, entry) in std::fs::read_dir(Path::new(OsStr::from_bytes(folder)))?.enumerate() {
        if number >= max {
            return Ok((entries, true));
        }
        let entry = entry?;
        let full = [path, b"/", entry.file_name().as_bytes()].concat();
        if !hidden.hides(exchange, &full) {
            // Skip entries that vanished since the folder was read.
            entries.extend(describe(&entry, links).ok());
        }
    }
    Ok((entries, false))
}

fn describe(entry: &DirEntry, links: Links) -> io::Result<Entry> {
    let name = entry.file_name().into_vec();
    let metadata = entry.metadata()?;
    let is_link = metadata.is_symlink();
    let pointed_at = if is_link {
        std::fs::metadata(entry.path()).ok()
    } else {
        None
    };
    let target = match (is_link, links) {
        (true, Links::Revealed) => std::fs::read_link(entry.path()).ok(),
        (true, Links::Followed) | (false, _) => None,
    };
    let shown = pointed_at.as_ref().unwrap_or(&metadata);
    Ok(Entry {
        key: sort_key(&name, shown.is_dir()),
        name,
        is_dir: shown.is_dir(),
        is_link,
        target: target.map(|target| target.into_os_string().into_vec()),
        size: shown.len(),
        own_size: metadata.len(),
        modified: Time {
            seconds: metadata.mtime(),
            nanos: metadata.mtime_nsec() as u32,
        },
        mode: go_mode(metadata.mode(), metadata.file_type()),
    })
}

/// As in Caddy, names are sorted without regard to case, and folders with their trailing slash.
fn sort_key(name: &[u8], is_dir: bool) -> String {
    let mut key = String::from_utf8_lossy(name).to_lowercase();
    if is_dir {
        key.push('/');
    }
    key
}

/// The bits of Go's `fs.FileMode`, as documented there.
fn go_mode(mode: u32, kind: FileType) -> u32 {
    let flags = [
        (kind.is_dir(), 31),
        (kind.is_symlink(), 27),
        (kind.is_block_device() || kind.is_char_device(), 26),
        (kind.is_fifo(), 25),
        (kind.is_socket(), 24),
        (mode & 0o4000 != 0, 23),
        (mode & 0o2000 != 0, 22),
        (kind.is_char_device(), 21),
        (mode & 0o1000 != 0, 20),
    ];
    flags
        .into_iter()
        .filter(|(set, _)| *set)
        .fold(mode & 0o777, |bits, (_, at)| bits | 1 << at)
}

/// Sorts the entries; ties are sorted by name.
pub(super) fn sort(entries: &mut [Entry], by: SortBy, order: Order) {
    let by_name = |a: &Entry, b: &Entry| a.key.cmp(&b.key).then_with(|| a.name.cmp(&b.name));
    let folders_first = |a: &Entry, b: &Entry| b.is_dir.cmp(&a.is_dir);
    let compare = |a: &Entry, b: &Entry| match by {
        SortBy::Name => by_name(a, b),
        SortBy::NameFoldersFirst => folders_first(a, b).then_with(|| by_name(a, b)),
        SortBy::Size => folders_first(a, b)
            .then_with(|| {
                if a.is_dir {
                    Ordering::Equal
                } else {
                    a.size.cmp(&b.size)
                }
            })
            .then_with(|| by_name(a, b)),
        SortBy::Time => a.modified.cmp(&b.modified).then_with(|| by_name(a, b)),
    };
    match order {
        Order::Ascending => entries.sort_by(compare),
        Order::Descending => entries.sort_by(|a, b| compare(b, a)),
    }
}

#[cfg(test)]
pub(super) fn example(name: &str, size: u64, seconds: i64, is_dir: bool) -> Entry {
    Entry {
        name: name.into(),
        is_dir,
        is_link: false,
        target: None,
        size,
        own_size: size,
        modified: Time { seconds, nanos: 0 },
        mode: 0o644,
        key: sort_key(name.as_bytes(), is_dir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(by: SortBy, order: Order) -> Vec<String> {
        let mut entries = [
            example("b", 5, 3, false),
            example("A", 1, 4, false),
            example("z", 4096, 9, true),
            example("C", 5, 1, false),
            example("a2", 4096, 2, true),
        ];
        sort(&mut entries, by, order);
        entries
            .iter()
            .map(|entry| String::from_utf8(entry.name.clone()).unwrap())
            .collect()
    }

    #[test]
    fn entries_are_sorted_as_asked() {
        use Order::*;
        assert_eq!(sorted(SortBy::Name, Ascending), ["A", "a2", "b", "C", "z"]);
        assert_eq!(
            sorted(SortBy::NameFoldersFirst, Ascending),
            ["a2", "z", "A", "b", "C"]
        );
        assert_eq!(
            sorted(SortBy::NameFoldersFirst, Descending),
            ["C", "b", "A", "z", "a2"]
        );
        assert_eq!(sorted(SortBy::Size, Ascending), ["a2", "z", "A", "b", "C"]);
        assert_eq!(sorted(SortBy::Size, Descending), ["C", "b", "A", "z", "a2"]);
        assert_eq!(sorted(SortBy::Time, Ascending), ["C", "a2", "b", "A", "z"]);
    }

    #[test]
    fn modes_have_the_numbers_of_go() {
        let dir = std::env::temp_dir().metadata().unwrap();
        let bits = go_mode(0o40755, dir.file_type());
        assert_eq!(bits, 2_147_484_141);
        assert_eq!(go_mode(0o41777, dir.file_type()), 2_148_532_735);
    }
}
