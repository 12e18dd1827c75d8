//! When responders are asked what to staple. Asking, and what becomes of the answers, is left to `ocsp`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use super::Maintainer;
use crate::ocsp::{Stapler, Stapling};
use crate::renewal::Advice;
use crate::storage::Storage;
use crate::store::CertStore;

/// What is stapled, and when that is looked at next.
pub(super) struct Staples {
    stapler: Stapler,
    state: Mutex<State>,
}

struct State {
    /// The certificates that are served; nothing where nothing is stapled.
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

    /// There is a certificate that was not looked at.
    pub(super) fn look_soon(&self) {
        self.state().next = SystemTime::UNIX_EPOCH;
    }
}

impl Maintainer {
    /// Staples to the certificates of `store` from now on, and to no others; nothing where `how` is `None`.
    pub fn set_stapling(&self, how: Option<Stapling>, store: &Arc<CertStore>) {
        let mut state = self.staples.state();
        state.what = how.map(|how| (how, Arc::downgrade(store)));
        state.next = SystemTime::UNIX_EPOCH;
    }

    /// Has all certificates looked at on a thread of its own, where that is due.
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
                    maintainer.tell(notice);
                }
                drop(under_way);
            });
        if started.is_err() {
            self.staples.state().under_way = false;
        }
    }

    /// Has a certificate of ours renewed at once: it was revoked.
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

/// A round that goes on until this is dropped, even by a panic.
struct UnderWay<'a>(&'a Staples);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state().under_way = false;
    }
}
