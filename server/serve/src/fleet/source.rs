//! Where a node reads the text from.

use std::sync::Arc;

use sluice_store::{Fault, Key, Store, StoreError};

use super::http_source::HttpSource;
use super::layout::{Canary, Layout};
use super::location::Location;
use super::open::open;
use super::revision::Revision;
use super::seen::{Seen, text_of};
use crate::limits::REPORT_PERIOD;

/// A place that has the configuration of a fleet.
#[derive(Clone, Debug)]
pub enum Source {
    /// A store, in which nodes report.
    Store(Arc<dyn Store>, Layout),
    /// An HTTP server, which is only read.
    Http(HttpSource),
}

impl Source {
    /// The source at `location`. Nothing is sent yet.
    ///
    /// # Errors
    /// A setting cannot be used.
    pub fn open(location: &Location) -> Result<Source, StoreError> {
        if location.scheme.is_http() {
            return HttpSource::open(location).map(Source::Http);
        }
        let (store, key) = open(location)?;
        Source::of(store, &key)
    }

    /// The source at a key of a store.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn of(store: Arc<dyn Store>, key: &str) -> Result<Source, StoreError> {
        let layout = Layout::of(key);
        let layout = layout
            .map_err(|error| StoreError::new(Fault::Setting, store.place(), error.to_string()))?;
        Ok(Source::Store(store, layout))
    }

    /// Reads the text for the node called `node`; that for all nodes if `None`. `Ok(None)` if there is none.
    ///
    /// # Errors
    /// The place cannot be read, or what it has is not a text.
    pub fn read(&self, node: Option<&str>) -> Result<Option<Seen>, StoreError> {
        match self {
            Source::Store(store, layout) => read_store(&**store, layout, node),
            Source::Http(http) => http.read().map(Some),
        }
    }
}

fn read_store(
    store: &dyn Store,
    layout: &Layout,
    node: Option<&str>,
) -> Result<Option<Seen>, StoreError> {
    let stale_before = store.statistics().stale_reads;
    let mut found = store.load(&[&layout.text, &layout.canary])?.into_iter();
    let (mut value, canary) = (found.next().flatten(), found.next().flatten());
    // A canary that cannot be read has no nodes.
    let canary = canary.and_then(|canary| serde_json::from_slice::<Canary>(&canary.bytes).ok());
    let canary = canary
        .filter(|canary| node.is_some_and(|node| canary.nodes.iter().any(|chosen| chosen == node)));
    if let Some(key) = canary.and_then(|canary| Key::new(canary.text).ok()) {
        let text = store.load(&[&key])?.pop().flatten();
        // If it is gone, the push has ended since.
        value = text.or(value);
    }
    let Some(value) = value else { return Ok(None) };
    let text = text_of(value.bytes, store.place())?;
    Ok(Some(Seen {
        revision: Revision::of(&text),
        text,
        modified: value.modified,
        is_stale: store.statistics().stale_reads > stale_before,
        again: REPORT_PERIOD,
    }))
}
