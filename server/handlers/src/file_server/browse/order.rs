//! The order of a listing.

/// What a listing is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortBy {
    Name,
    NameFoldersFirst,
    Size,
    Time,
}

/// The direction of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}
