//! How to obtain the certificates of a set of names: issuers and options. The rest of `maintain` executes the plans.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use crate::failure::{CertsError, Fault};
use crate::issuer::Issuer;
use crate::keys::KeyType;
use crate::limits::ERROR_BYTES_MAX;
use crate::pair::{Pair, PairStanding};
use crate::renewal::{Advice, Setback, believed, retry_pause, seed_of};
use crate::storage::Storage;
use crate::store::CertStore;
use crate::subject::Subject;

/// How to obtain the certificates of a set of names.
pub struct Plan {
    /// Equal for equal plans: by this ID, certificates in memory are carried over to a new configuration.
    pub id: String,
    /// The issuers, tried in order.
    pub issuers: Vec<Arc<dyn Issuer>>,
    /// The type of new keys.
    pub key_type: KeyType,
    /// Whether renewed certificates keep their key.
    pub keeps_keys: bool,
    /// The fraction of the lifetime that remains when renewal starts; the issuer's default if `None`.
    pub renewal_share: Option<f64>,
    /// Whether to request the must-staple extension (RFC 7633).
    pub must_staple: bool,
    /// Where the certificates are kept, if not in the storage of the maintainer.
    pub storage: Option<Arc<Storage>>,
}

impl Plan {
    /// A plan for one issuer, with defaults for the rest.
    pub fn of(issuer: Arc<dyn Issuer>) -> Plan {
        Plan {
            id: issuer.id().to_owned(),
            issuers: vec![issuer],
            key_type: KeyType::default(),
            keeps_keys: false,
            renewal_share: None,
            must_staple: false,
            storage: None,
        }
    }

    /// The IDs of its issuers, in order.
    pub fn issuer_ids(&self) -> Vec<String> {
        let issuers = self.issuers.iter();
        issuers.map(|issuer| issuer.id().to_owned()).collect()
    }

    /// Whether any issuer is reached over the network.
    pub(super) fn is_remote(&self) -> bool {
        self.issuers.iter().any(|issuer| issuer.is_remote())
    }

    /// When to renew `pair`.
    pub(crate) fn renewal_at(&self, pair: &Pair, seed: u64) -> SystemTime {
        let of_issuer = || self.issuers.first().map(|issuer| issuer.renewal_share());
        let share = self.renewal_share.or_else(of_issuer).unwrap_or_default();
        pair.lifetime.renewal_at(share, seed)
    }
}

/// The key of a managed certificate: its plan and its subject.
pub(super) type Key = (String, Subject);

/// A certificate and the stores that serve it.
pub(super) struct Managed {
    pub(super) plan: Arc<Plan>,
    /// `None` until it was obtained.
    pub(super) pair: Option<Arc<Pair>>,
    pub(super) stores: Vec<Weak<CertStore>>,
    pub(super) attempts: Attempts,
    /// The CA's renewal information.
    pub(super) advice: Option<Advice>,
    /// When to query it next; `None` if the CA provides none.
    pub(super) ask_at: Option<SystemTime>,
}

impl Managed {
    /// When it has to be issued or renewed.
    pub(super) fn due_at(&self, seed: u64) -> SystemTime {
        let at = match (&self.pair, self.advice) {
            (None, _) => SystemTime::UNIX_EPOCH,
            (Some(pair), _) if pair.standing == PairStanding::Refused => SystemTime::UNIX_EPOCH,
            (Some(pair), Some(advice)) => advice.renewal_at(pair.lifetime, seed),
            (Some(pair), None) => self.plan.renewal_at(pair, seed),
        };
        self.attempts.next.map_or(at, |next| next.max(at))
    }

    pub(super) fn show(&self) {
        let Some(pair) = &self.pair else { return };
        for store in self.stores.iter().filter_map(Weak::upgrade) {
            store.put(pair.clone());
        }
    }
}

/// All managed certificates.
pub(super) type ManagedTable = BTreeMap<Key, Managed>;

/// Consecutive failed attempts.
#[derive(Clone, Default)]
pub(super) struct Attempts {
    pub(super) failures: u32,
    /// The earliest time of the next attempt.
    pub(super) next: Option<SystemTime>,
    /// Whether the last one failed because the storage was away.
    pub(super) awaits_storage: bool,
    /// The error of the last attempt.
    pub(super) error: Option<Box<str>>,
}

impl Attempts {
    pub(super) fn allow(&self, now: SystemTime) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    pub(super) fn fail(&mut self, error: &CertsError, now: SystemTime, seed: u64) -> SystemTime {
        self.failures = self.failures.saturating_add(1);
        self.awaits_storage = matches!(error, CertsError::Store(_));
        let (setback, wish) = match error {
            CertsError::Authority {
                fault: Fault::Unreachable,
                retry_at,
                ..
            } => (Setback::Unreachable, *retry_at),
            CertsError::Authority { retry_at, .. } => (Setback::Refused, *retry_at),
            // No CA has counted this attempt.
            CertsError::Store(_) | CertsError::Locked(_) => (Setback::Unreachable, None),
            _ => (Setback::Own, None),
        };
        let pause = retry_pause(self.failures, setback, seed);
        let next = believed(wish, now).map_or(now + pause, |wish| wish.max(now + pause));
        self.next = Some(next);
        let error = error.to_string();
        self.error = Some(error[..error.floor_char_boundary(ERROR_BYTES_MAX)].into());
        next
    }

    /// No attempt before this time, and no failure so far.
    pub(super) fn after(next: SystemTime) -> Attempts {
        Attempts {
            next: Some(next),
            ..Attempts::default()
        }
    }

    pub(super) fn fail_upkeep(&mut self, error: &CertsError, now: SystemTime, id: &str) {
        self.fail(error, now, seed_of(id));
    }
}
