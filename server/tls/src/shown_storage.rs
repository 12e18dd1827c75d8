//! A storage as the metrics show it.

use sluice_certs::Storage;
use sluice_observe::metrics::{CopyTotals, CountedStorage, StorageTotals};

/// A storage on an engine.
#[derive(Debug)]
pub(super) struct ShownStorage(pub(super) Storage);

impl CountedStorage for ShownStorage {
    fn place(&self) -> String {
        self.0.store().place().to_owned()
    }

    fn totals(&self) -> StorageTotals {
        let store = self.0.store();
        let counted = store.statistics();
        StorageTotals {
            requests: counted.requests,
            failures: counted.failures,
            time: counted.time,
            stale_reads: counted.stale_reads,
            copy: store.copy().map(|copy| CopyTotals {
                entries: copy.entries,
                age: copy.age,
                is_in_use: copy.is_in_use,
                reads: copy.reads,
            }),
        }
    }
}
