//! The certificates of the running configuration, for the status page.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use sluice_certs::{CertStore, Maintainer, Standing, Subject};
use sluice_observe::sources::{CertificateStanding, Certificates};

/// The certificates that are served now.
pub(super) struct Served {
    maintainer: Weak<Maintainer>,
    store: Mutex<Weak<CertStore>>,
}

impl Served {
    /// Those that `maintainer` renews, and others of the store that is set.
    pub(super) fn new(maintainer: &Arc<Maintainer>) -> Arc<Served> {
        Arc::new(Served {
            maintainer: Arc::downgrade(maintainer),
            store: Mutex::default(),
        })
    }

    /// Sets the store of the running configuration.
    pub(super) fn set(&self, store: &Arc<CertStore>) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(store);
    }
}

impl Certificates for Served {
    fn list(&self) -> Vec<CertificateStanding> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let both = self.maintainer.upgrade().zip(store.upgrade());
        drop(store);
        let Some((maintainer, store)) = both else {
            return Vec::new();
        };
        let standings = maintainer.standings(&store);
        standings.into_iter().map(shown).collect()
    }

    fn locks(&self) -> Vec<String> {
        let maintainer = self.maintainer.upgrade();
        maintainer.map_or_else(Vec::new, |maintainer| maintainer.held_locks())
    }
}

fn shown(standing: Standing) -> CertificateStanding {
    CertificateStanding {
        names: standing.subjects.iter().map(Subject::to_string).collect(),
        origin: standing.origin,
        valid_from: standing.lifetime.map(|lifetime| lifetime.from),
        expires: standing.lifetime.map(|lifetime| lifetime.until),
        is_managed: standing.is_managed,
        failures: standing.failures,
        last_failure: standing.error,
        next_attempt: standing.next_attempt,
    }
}
