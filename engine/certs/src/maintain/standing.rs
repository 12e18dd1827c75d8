//! The state of the certificates in use, for the status page.

use std::sync::{Arc, Weak};
use std::time::SystemTime;

use super::Maintainer;
use crate::pair::Pair;
use crate::renewal::Lifetime;
use crate::store::CertStore;
use crate::subject::Subject;

/// The state of a certificate.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The names and addresses it is for.
    pub subjects: Vec<Subject>,
    /// Its issuer, or its file.
    pub origin: String,
    /// Its validity period; `None` if it was not obtained yet.
    pub lifetime: Option<Lifetime>,
    /// Whether it is renewed here.
    pub is_managed: bool,
    /// Failed attempts to obtain or renew it since the last success.
    pub failures: u32,
    /// The error of the last attempt, if it failed.
    pub error: Option<String>,
    /// When the next attempt starts after a failure.
    pub next_attempt: Option<SystemTime>,
}

impl Maintainer {
    /// The managed certificates that `store` serves or expects, then its others.
    pub fn standings(&self, store: &Arc<CertStore>) -> Vec<Standing> {
        let (mut all, mut known) = (Vec::new(), Vec::new());
        let state = self.state();
        let is_served = |stores: &[Weak<CertStore>]| {
            let mut stores = stores.iter();
            stores.any(|one| Weak::ptr_eq(one, &Arc::downgrade(store)))
        };
        for ((_, subject), managed) in &state.managed {
            if !is_served(&managed.stores) {
                continue;
            }
            let attempts = &managed.attempts;
            let issuers = managed.plan.issuers.iter().map(|issuer| issuer.id());
            all.push(Standing {
                subjects: vec![subject.clone()],
                origin: issuers.collect::<Vec<_>>().join(", "),
                lifetime: managed.pair.as_ref().map(|pair| pair.lifetime),
                is_managed: true,
                failures: attempts.failures,
                error: attempts.error.as_deref().map(str::to_owned),
                next_attempt: attempts.next,
            });
            known.extend(managed.pair.iter().map(Arc::as_ptr));
        }
        drop(state);
        known.sort_unstable();
        let others = store.pairs();
        let others = others
            .iter()
            .filter(|pair| known.binary_search(&Arc::as_ptr(pair)).is_err());
        all.extend(others.map(|pair| of_pair(pair)));
        all
    }
}

fn of_pair(pair: &Pair) -> Standing {
    Standing {
        subjects: pair.subjects.clone(),
        origin: pair.origin.clone(),
        lifetime: Some(pair.lifetime),
        is_managed: false,
        failures: 0,
        error: None,
        next_attempt: None,
    }
}
