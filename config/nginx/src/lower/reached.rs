//! How requests get to a place.

/// How requests get to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Their path leads there.
    ByPath,
    /// Another place sends them there by its name.
    ByName,
}
