//! Schedules OCSP requests. `ocsp` sends them and handles the responses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use super::Maintainer;
use crate::ocsp::{Stapler, Stapling};
use crate::renewal::Advice;
use crate::storage::Storage;
use crate::store::CertStore;

/// The certificates to staple to, and the time of the next check.
pub(super) struct Staples {
    stapler: Stapler,
    state: Mutex<State>,
}

struct State {
    /// The options and the served certificates; `None` if stapling is disabled.
    what: Option<(Stapling, Weak<CertStore>)>,
    next: SystemTime,
    under_way: bool,
}

impl Staples {
    pub(super) fn new(storage: Storage) -> Staples {
        Staples {
            stapler: Stapler::new(storage),
            state: Mutex::new(State {
                what: None,
                next: SystemTime::UNIX_EPOCH,
                under_way: false,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks soon, because there is a new certificate.
    pub(super) fn look_soon(&self) {
        self.state().next = SystemTime::UNIX_EPOCH;
    }
}

impl Maintainer {
    /// Serves the certificates of `store` from now on, instead of previous ones, and staples to them; `None` disables
    /// stapling.
    pub fn set_stapling(&self, how: Option<Stapling>, store: &Arc<CertStore>) {
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(store);
        let mut state = self.staples.state();
        state.what = how.map(|how| (how, Arc::downgrade(store)));
        state.next = SystemTime::UNIX_EPOCH;
    }

    /// Checks all certificates on a separate thread, if due.
    pub fn staple(self: &Arc<Self>, now: SystemTime) {
        let (how, store) = {
            let mut state = self.staples.state();
            if state.under_way || now < state.next {
                return;
            }
            let Some((how, store)) = &state.what else {
                return;
            };
            let (how, Some(store)) = (how.clone(), store.upgrade()) else {
                return;
            };
            state.next = now + how.interval;
            state.under_way = true;
            (how, store)
        };
        let maintainer = self.clone();
        let started = std::thread::Builder::new()
            .name("ocsp".to_owned())
            .spawn(move || {
                let under_way = UnderWay(&maintainer.staples);
                let round = maintainer.staples.stapler.round(&store, &how, now);
                for pair in &round.revoked {
                    maintainer.replace(pair, now);
                }
                for notice in round.notices {
                    maintainer.notify(notice);
                }
                drop(under_way);
            });
        if started.is_err() {
            self.staples.state().under_way = false;
        }
    }

    /// Renews a managed certificate immediately because it was revoked.
    fn replace(&self, pair: &Arc<crate::Pair>, now: SystemTime) {
        for managed in self.state().managed.values_mut() {
            if managed
                .pair
                .as_ref()
                .is_some_and(|own| Arc::ptr_eq(own, pair))
            {
                managed.advice = Some(Advice {
                    start: now,
                    end: now,
                    ask_again: now,
                });
            }
        }
        self.bell.ring();
    }
}

/// A check in progress, until this is dropped, even by a panic.
struct UnderWay<'a>(&'a Staples);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state().under_way = false;
    }
}
