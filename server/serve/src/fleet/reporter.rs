//! Writes the reports of a node, and holds the lease that shows that it is alive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_observe::log::Log;
use sluice_store::{Fault, Guard, Key, Lease, Store, StoreError, Write};

use super::report::NodeReport;
use super::source::Source;
use super::wakes::Leaving;
use crate::limits::{NAME_TAKEN_AFTER, REPORT_PERIOD, REPORT_PERIOD_AFTER_CHANGE};

/// The reports of a node. Without a store it does nothing.
pub(super) struct Reporter {
    place: Option<Place>,
    log: Log,
    last: Option<Instant>,
    is_hurried: bool,
    lease: Option<Lease>,
    /// Since when another process has held our name, and whether that was logged.
    taken: Option<(Instant, bool)>,
    /// The last report was not accepted, and that was logged.
    is_refused: bool,
}

struct Place {
    store: Arc<dyn Store>,
    report: Key,
    lease: String,
}

impl Reporter {
    pub fn new(source: &Source, node: &str, log: Log) -> Reporter {
        let place = match source {
            Source::Store(store, layout) => layout.node(node).ok().map(|report| Place {
                store: store.clone(),
                report,
                lease: layout.node_lease(node),
            }),
            Source::Http(_) => None,
        };
        Reporter {
            place,
            log,
            last: None,
            is_hurried: false,
            lease: None,
            taken: None,
            is_refused: false,
        }
    }

    /// The next report is due now.
    pub fn hurry(&mut self) {
        self.is_hurried = true;
    }

    /// Whether a report is due; `is_fresh` if the configuration has changed in the last minute.
    pub fn is_due(&self, now: Instant, is_fresh: bool) -> bool {
        let has_name = self.lease.as_ref().is_some_and(|lease| !lease.is_lost());
        let period = match is_fresh || !has_name {
            true => REPORT_PERIOD_AFTER_CHANGE,
            false => REPORT_PERIOD,
        };
        let is_due = |last: Instant| now.duration_since(last) >= period;
        self.place.is_some() && (self.is_hurried || self.last.is_none_or(is_due))
    }

    /// Writes a report.
    ///
    /// # Errors
    /// The store is away, or refuses the credentials. Other failures are logged here: the text can be read.
    pub fn send(&mut self, report: &NodeReport, now: Instant) -> Result<(), StoreError> {
        let Some(place) = &self.place else {
            return Ok(());
        };
        self.last = Some(now);
        self.is_hurried = false;
        let json = report.to_json();
        let written = place
            .store
            .save(&[Write::Put(&place.report, &json)], Guard::Always);
        match written.and_then(|()| self.hold_name(now)) {
            Ok(()) => self.is_refused = false,
            Err(error) if matches!(error.fault, Fault::Away | Fault::Credentials) => {
                return Err(error);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_refused, true) {
                    let message = "the report of this node cannot be written";
                    self.log
                        .warn("config", message)
                        .shown("error", error)
                        .send();
                }
            }
        }
        Ok(())
    }

    fn hold_name(&mut self, now: Instant) -> Result<(), StoreError> {
        let Some(place) = &self.place else {
            return Ok(());
        };
        if self.lease.as_ref().is_some_and(|lease| !lease.is_lost()) {
            return Ok(());
        }
        self.lease = None;
        match place.store.lease(&place.lease, Duration::ZERO) {
            Ok(lease) => {
                self.lease = Some(lease);
                self.taken = None;
                Ok(())
            }
            // The process before this one, or another node.
            Err(error) if error.fault == Fault::Held => {
                let (since, is_logged) = self.taken.get_or_insert((now, false));
                if now.duration_since(*since) > NAME_TAKEN_AFTER && !*is_logged {
                    *is_logged = true;
                    let message =
                        "another node has the name of this one; give each its own with --node";
                    let entry = self.log.error("config", message);
                    entry.text("name", place.report.as_str()).send();
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The node leaves.
    pub fn leave(&mut self, how: Leaving) {
        let had_name = self.lease.take().is_some();
        if let Some(place) = self
            .place
            .take()
            .filter(|_| had_name && how == Leaving::Stopped)
        {
            // If that fails, the node is shown as gone.
            let _ = place
                .store
                .save(&[Write::Delete(&place.report)], Guard::Always);
        }
    }
}
