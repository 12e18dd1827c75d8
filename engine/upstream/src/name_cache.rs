//! The name cache of a worker. `names` fills it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use sluice_message::Moment;
use tokio::sync::Notify;

use crate::limits::{NAME_LIFETIME, NAMES_MAX};

/// The name cache of a worker, with at most [`NAMES_MAX`] entries.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) entries: RefCell<HashMap<Name, Entry>>,
}

/// A host name, together with its resolver.
pub(crate) type Name = Box<str>;

#[derive(Default)]
pub(crate) struct Entry {
    /// The addresses of the last successful lookup.
    pub(crate) known: Option<Rc<[IpAddr]>>,
    /// Why the last lookup failed, if it did.
    pub(crate) error: Option<Rc<io::Error>>,
    /// When the last lookup ended.
    pub(crate) at: Moment,
    /// How long the result is used.
    pub(crate) lifetime: Duration,
    /// Notified when the lookup in progress ends.
    pub(crate) asking: Option<Rc<Notify>>,
}

/// Removes old names if there are too many, and any without waiting requests if all are recent.
pub(crate) fn make_room(entries: &mut HashMap<Name, Entry>, now: Moment) {
    if entries.len() < NAMES_MAX {
        return;
    }
    entries.retain(|_, entry| entry.asking.is_some() || now.since(entry.at) < NAME_LIFETIME);
    if entries.len() >= NAMES_MAX {
        entries.retain(|_, entry| entry.asking.is_some());
    }
}
