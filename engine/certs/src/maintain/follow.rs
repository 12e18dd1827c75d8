//! Follows what other nodes write to a storage: their certificates are served, their challenges get a response, their
//! session ticket keys are used.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use sluice_store::Change;

use super::make::{Reading, is_away, load_named, stored_name};
use super::plan::{Attempts, Key};
use super::{Bell, Maintainer};
use crate::challenges::shared::is_token;
use crate::failure::{CertsError, Notice};
use crate::issuer::Issuer;
use crate::limits::{CATCH_UP_MARGIN, CHALLENGE_AGE_MAX, FOLLOW_LOOK, FOLLOW_PAUSE};
use crate::pair::{Pair, PairStanding};
use crate::renewal::seed_of;
use crate::storage::Storage;
use crate::subject::Subject;

/// Whether a storage can be followed.
#[derive(Debug)]
pub enum Following<'a> {
    /// It cannot; what is known stays in use. Reported once.
    Lost(&'a CertsError),
    /// It can again.
    Back,
}

impl Maintainer {
    /// Follows a storage for as long as `maintainer` exists and `in_use` returns it, and reports when that fails and when
    /// it works again.
    pub fn follow(
        maintainer: &Weak<Maintainer>,
        in_use: impl Fn() -> Option<Storage>,
        report: impl Fn(Following<'_>),
    ) {
        let mut is_lost = false;
        let mut current = SystemTime::now();
        let arrivals = Arc::<Arrivals>::default();
        let (taken, owner) = (Arc::downgrade(&arrivals), maintainer.clone());
        let thread = std::thread::Builder::new().name("storage".to_owned());
        let taking = thread.spawn(move || Arrivals::take(&taken, &owner)).is_ok();
        while let (Some(strong), Some(storage)) = (maintainer.upgrade(), in_use()) {
            let watch = storage.watch().and_then(|watch| {
                // What was written before the watch began.
                strong.catch_up(&storage, current)?;
                Ok(watch)
            });
            drop(strong);
            let mut watch = match watch {
                Ok(watch) => watch,
                Err(error) => {
                    if !std::mem::replace(&mut is_lost, true) {
                        report(Following::Lost(&error));
                    }
                    std::thread::sleep(FOLLOW_PAUSE);
                    continue;
                }
            };
            if std::mem::take(&mut is_lost) {
                report(Following::Back);
            }
            loop {
                current = SystemTime::now();
                let changes = watch.next(FOLLOW_LOOK);
                let (Some(strong), Some(_)) = (maintainer.upgrade(), in_use()) else {
                    return;
                };
                match changes {
                    Ok(changes) if taking => {
                        arrivals.add(&storage, strong.take_tokens(&storage, &changes));
                    }
                    Ok(changes) => strong.take_changes(&storage, &changes),
                    Err(error) => {
                        let error = CertsError::from(error);
                        if !std::mem::replace(&mut is_lost, true) {
                            report(Following::Lost(&error));
                        }
                        break;
                    }
                }
            }
            std::thread::sleep(FOLLOW_PAUSE);
        }
    }

    /// Takes what was written since `since`, and forgets the challenges that are gone. A copy on this node has missed the
    /// same as the watch, so it does not count.
    pub(super) fn catch_up(&self, storage: &Storage, since: SystemTime) -> Result<(), CertsError> {
        let since = since.checked_sub(CATCH_UP_MARGIN).unwrap_or(since);
        let mut names = BTreeSet::new();
        for (name, modified) in storage.all_latest("certificates")? {
            // Another program's writes may have no time.
            if modified >= since || modified == SystemTime::UNIX_EPOCH {
                names.extend(certificate_name(&name).map(str::to_owned));
            }
        }
        self.take_certificates(storage, &names, Reading::Latest)?;
        self.take_present_tokens(storage)?;
        self.refresh_ticket_keys(SystemTime::now());
        // What has failed for want of the storage need not wait.
        for managed in self.state().managed.values_mut() {
            if managed.attempts.awaits_storage {
                managed.attempts = Attempts::default();
            }
        }
        self.bell.ring();
        Ok(())
    }

    /// Responds to the challenges that are in the storage now, and to no others that were there.
    fn take_present_tokens(&self, storage: &Storage) -> Result<(), CertsError> {
        let mut present = BTreeSet::new();
        for (name, modified) in storage.all_latest("acme")? {
            let age = SystemTime::now().duration_since(modified);
            if is_token(&name) && !age.is_ok_and(|age| age > CHALLENGE_AGE_MAX) {
                let found = storage.find_latest(&name)?;
                let text = found.as_ref().map(|found| found.bytes.as_slice());
                self.challenges.show_other(storage, &name, text);
                present.insert(name);
            }
        }
        self.challenges.keep_others(storage, &present);
        Ok(())
    }

    /// Takes these changes of a storage; those of this node have no effect.
    pub(crate) fn take_changes(&self, storage: &Storage, changes: &[Change]) {
        let names = self.take_tokens(storage, changes);
        // The next change, or the renewal, tries again.
        let _ = self.take_certificates(storage, &names, Reading::Any);
    }

    /// Takes challenges and session ticket keys; returns the names of the certificates that have changed.
    fn take_tokens(&self, storage: &Storage, changes: &[Change]) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let mut has_ticket_keys = false;
        for change in changes {
            let key = change.key.as_str();
            if is_token(key) {
                let text = change.value.as_ref().map(|value| value.bytes.as_slice());
                self.challenges.show_other(storage, key, text);
            } else if change.value.is_some() {
                names.extend(certificate_name(key).map(str::to_owned));
                has_ticket_keys |= key.starts_with("session_tickets/");
            }
        }
        if has_ticket_keys {
            self.refresh_ticket_keys(SystemTime::now());
        }
        names
    }

    /// Serves the stored certificates with these names, if they are newer than the served ones.
    ///
    /// # Errors
    /// The engine is away, and the copy on this node does not have one of them, or does not count. The others were taken.
    fn take_certificates(
        &self,
        storage: &Storage,
        names: &BTreeSet<String>,
        reading: Reading,
    ) -> Result<(), CertsError> {
        if names.is_empty() {
            return Ok(());
        }
        let managed: Vec<Key> = {
            let state = self.state();
            let is_named = |(key, managed): &(&Key, &super::plan::Managed)| {
                let mut issuers = managed.plan.issuers.iter();
                let name_of = |issuer: &Arc<dyn Issuer>| stored_name(&**issuer, &key.1);
                self.storage_of(&managed.plan) == storage
                    && issuers.any(|issuer| names.contains(&name_of(issuer)))
            };
            let named = state.managed.iter().filter(is_named);
            named.map(|(key, _)| key.clone()).collect()
        };
        let mut taken = Ok(());
        for key in managed {
            taken = taken.and(self.take_managed(key, reading));
        }
        taken.and(self.take_on_demand(storage, names, reading))
    }

    /// Serves the stored certificates with these names that clients have asked for: they have no plan here.
    fn take_on_demand(
        &self,
        storage: &Storage,
        names: &BTreeSet<String>,
        reading: Reading,
    ) -> Result<(), CertsError> {
        let serving = self.serving.lock();
        let serving = serving.unwrap_or_else(PoisonError::into_inner).upgrade();
        let Some(store) = serving else {
            return Ok(());
        };
        let mut taken = Ok(());
        for name in names {
            let origin = storage.place_of(&format!("{name}.crt"));
            let origin = origin.display().to_string();
            let mut pairs = store.pairs().into_iter();
            let Some(old) = pairs.find(|pair| pair.origin == origin) else {
                continue;
            };
            match load_named(storage, name, reading) {
                Ok(Some(found)) => {
                    let is_over = found.lifetime.has_ended(SystemTime::now());
                    if replaces(&found, &old, is_over) {
                        store.put(Arc::new(found));
                        self.staples.look_soon();
                    }
                }
                Err(error) if is_away(&error) => taken = Err(error),
                Ok(None) | Err(_) => {}
            }
        }
        taken
    }

    fn take_managed(&self, key: Key, reading: Reading) -> Result<(), CertsError> {
        let plan = self.state().managed.get(&key).map(|m| m.plan.clone());
        let Some(plan) = plan else {
            return Ok(());
        };
        let found = match self.newest_of(&plan, &key.1, reading) {
            Ok(Some(found)) => found,
            Err(error) if is_away(&error) => return Err(error),
            // A certificate that is being written by Caddy is unusable until its second file is there, which comes next.
            Ok(None) | Err(_) => return Ok(()),
        };
        let seed = seed_of(&key.1.to_string());
        let is_due = plan.renewal_at(&found, seed) <= SystemTime::now();
        let mut state = self.state();
        let Some(managed) = state.managed.get_mut(&key) else {
            return Ok(());
        };
        let old = managed.pair.as_ref();
        if old.is_some_and(|old| !replaces(&found, old, is_due)) {
            return Ok(());
        }
        let names: Vec<Subject> = found.subjects.clone();
        managed.pair = Some(found);
        managed.attempts = Attempts::default();
        managed.advice = None;
        managed.ask_at = managed.plan.is_remote().then(SystemTime::now);
        managed.show();
        self.staples.look_soon();
        drop(state);
        self.notice(Notice::Served { names });
        self.bell.ring();
        Ok(())
    }
}

/// The names of certificates that have changed, until they are taken: reading them takes requests to the storage, and
/// the CA waits for no challenge meanwhile. At most as many as the storage has.
#[derive(Default)]
struct Arrivals {
    waiting: Mutex<(Option<Storage>, BTreeSet<String>)>,
    bell: Bell,
}

impl Arrivals {
    fn add(&self, storage: &Storage, names: BTreeSet<String>) {
        if names.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        waiting.0 = Some(storage.clone());
        waiting.1.extend(names);
        drop(waiting);
        self.bell.ring();
    }

    /// Takes what arrives for as long as `maintainer` and the one who adds it exist.
    fn take(arrivals: &Weak<Arrivals>, maintainer: &Weak<Maintainer>) {
        while let (Some(arrivals), Some(strong)) = (arrivals.upgrade(), maintainer.upgrade()) {
            let (storage, names) = std::mem::take(&mut *arrivals.waiting());
            let taken = match &storage {
                Some(storage) => strong.take_certificates(storage, &names, Reading::Any),
                None => Ok(()),
            };
            drop(strong);
            if let (Some(storage), Err(_)) = (storage, taken) {
                arrivals.add(&storage, names);
                std::thread::sleep(FOLLOW_PAUSE);
            }
            arrivals.bell.wait(FOLLOW_LOOK);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, (Option<Storage>, BTreeSet<String>)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a stored certificate replaces a served one. `is_over` says whether it has to be replaced itself.
fn replaces(found: &Pair, old: &Pair, is_over: bool) -> bool {
    let is_other = found.certified.cert != old.certified.cert;
    is_other
        && match old.standing {
            PairStanding::Settled => found.lifetime.from >= old.lifetime.from,
            // It is the one that another node has ordered at the same time, or the one before both.
            PairStanding::Refused => !is_over,
        }
}

/// The certificate that a key belongs to: the key without `.crt` or `.key`.
fn certificate_name(key: &str) -> Option<&str> {
    if !key.starts_with("certificates/") {
        return None;
    }
    key.strip_suffix(".crt")
        .or_else(|| key.strip_suffix(".key"))
}
