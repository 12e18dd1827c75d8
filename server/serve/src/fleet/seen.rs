//! A text that was read from a place.

use std::time::{Duration, SystemTime};

use sluice_store::{Fault, StoreError};

use super::revision::Revision;
use crate::limits::CONFIG_BYTES_MAX;

/// A text that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The text for this node.
    pub text: String,
    /// Its revision.
    pub revision: Revision,
    /// When it was written, by the clock of the place.
    pub modified: SystemTime,
    /// Whether it may be older than the last write, because no quorum has confirmed it.
    pub is_stale: bool,
    /// After what time it is to be read again, even if no change is announced.
    pub again: Duration,
}

/// The text in these bytes.
pub(super) fn text_of(bytes: Vec<u8>, place: &str) -> Result<String, StoreError> {
    if bytes.len() > CONFIG_BYTES_MAX {
        let what = format!("the configuration is larger than {CONFIG_BYTES_MAX} bytes");
        return Err(StoreError::new(Fault::Limit, place, what));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let what = format!("the configuration is not valid UTF-8 (at byte {at})");
        StoreError::new(Fault::Foreign, place, what)
    })
}
