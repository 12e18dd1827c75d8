//! The name cache of a worker. `names` fills it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use sluice_message::Moment;
use tokio::sync::Notify;

use crate::upstream::limits::{NAME_LIFETIME, NAMES_MAX};

/// The name cache of a worker, with at most [`NAMES_MAX`] entries.
#[derive(Default)]
pub(super) struct Names {
    pub(super) entries: RefCell<HashMap<Name, Entry>>,
}

/// A host name, together with its resolver.
pub(super) type Name = Box<str>;

#[derive(Default)]
pub(super) struct Entry {
    /// The addresses of the last successful lookup.
    pub(super) known: Option<Rc<[IpAddr]>>,
    /// Why the last lookup failed, if it did.
    pub(super) error: Option<Rc<io::Error>>,
    /// When the last lookup ended.
    pub(super) at: Moment,
    /// How long the result is used.
    pub(super) lifetime: Duration,
    /// Notified when the lookup in progress ends.
    pub(super) asking: Option<Rc<Notify>>,
}

/// Removes old names if there are too many, and any without waiting requests if all are recent.
pub(super) fn make_room(entries: &mut HashMap<Name, Entry>, now: Moment) {
    if entries.len() < NAMES_MAX {
        return;
    }
    entries.retain(|_, entry| entry.asking.is_some() || now.since(entry.at) < NAME_LIFETIME);
    if entries.len() >= NAMES_MAX {
        entries.retain(|_, entry| entry.asking.is_some());
    }
}
