//! A listing of a folder.

use super::Page;
use super::entries::Entry;
use super::order::{Order, SortBy};
use crate::limits::LISTING_BYTES_MAX;

/// A listing ready to be formatted.
pub(super) struct Listing {
    pub entries: Vec<Entry>,
    pub sort: SortBy,
    pub order: Order,
    pub is_root: bool,
    /// Whether there are more entries than were read or requested.
    pub cut: bool,
    /// The decoded path to show.
    pub path: Vec<u8>,
    /// Totals of all entries, including those on other pages.
    pub totals: Totals,
    /// The requested page.
    pub page: Page,
}

/// Totals of the entries of a folder.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub folders: usize,
    pub files: usize,
    /// Bytes of all files; links count with the size of their target.
    pub bytes: u64,
    /// Bytes of all files; links count with their own size.
    pub own_bytes: u64,
}

impl Totals {
    /// The totals of these entries.
    pub fn of(entries: &[Entry]) -> Totals {
        let mut totals = Totals::default();
        for entry in entries {
            if entry.is_dir {
                totals.folders += 1;
            } else {
                totals.files += 1;
                totals.bytes += entry.size;
                totals.own_bytes += entry.own_size;
            }
        }
        totals
    }
}

/// Whether another entry may be written.
pub fn has_room(out: &[u8]) -> bool {
    out.len() < LISTING_BYTES_MAX
}
