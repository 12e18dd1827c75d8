//! Follows what other nodes write to a storage: their certificates are served, their challenges get a response, their
//! session ticket keys are used.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use sluice_store::Change;

use super::make::{Reading, load_named, stored_name};
use super::plan::{Attempts, Key};
use super::{Bell, Maintainer};
use crate::challenges::shared::{FOLDER as TOKENS, is_token};
use crate::failure::{CertsError, Notice};
use crate::issuer::Issuer;
use crate::limits::{CATCH_UP_MARGIN, CHALLENGE_AGE_MAX, FOLLOW_LOOK, FOLLOW_PAUSE};
use crate::pair::Pair;
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
                    Ok(changes) if taking => arrivals.add(&storage, strong.take_tokens(&changes)),
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

    /// Takes what was written since `since`.
    fn catch_up(&self, storage: &Storage, since: SystemTime) -> Result<(), CertsError> {
        let since = since.checked_sub(CATCH_UP_MARGIN).unwrap_or(since);
        let mut names = BTreeSet::new();
        for (name, modified) in storage.all("certificates")? {
            // Another program's writes may have no time.
            if modified >= since || modified == SystemTime::UNIX_EPOCH {
                names.extend(certificate_name(&name).map(str::to_owned));
            }
        }
        self.take_certificates(storage, &names);
        for ca in storage.names("acme")? {
            for (name, modified) in storage.all(&format!("acme/{ca}/{TOKENS}"))? {
                let age = SystemTime::now().duration_since(modified);
                if age.is_ok_and(|age| age > CHALLENGE_AGE_MAX) {
                    continue;
                }
                let text = storage.read(&name)?;
                self.challenges.show_other(&name, text.as_deref());
            }
        }
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

    /// Takes these changes of a storage; those of this node have no effect.
    pub(crate) fn take_changes(&self, storage: &Storage, changes: &[Change]) {
        let names = self.take_tokens(changes);
        self.take_certificates(storage, &names);
    }

    /// Takes challenges and session ticket keys; returns the names of the certificates that have changed.
    fn take_tokens(&self, changes: &[Change]) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let mut has_ticket_keys = false;
        for change in changes {
            let key = change.key.as_str();
            if is_token(key) {
                let text = change.value.as_ref().map(|value| value.bytes.as_slice());
                self.challenges.show_other(key, text);
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
    fn take_certificates(&self, storage: &Storage, names: &BTreeSet<String>) {
        if names.is_empty() {
            return;
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
        for key in managed {
            self.take_managed(key);
        }
        let serving = self.serving.lock();
        let serving = serving.unwrap_or_else(PoisonError::into_inner).upgrade();
        let Some(store) = serving else { return };
        // Those that clients have asked for have no plan here.
        for name in names {
            let origin = storage.place_of(&format!("{name}.crt"));
            let origin = origin.display().to_string();
            let mut pairs = store.pairs().into_iter();
            let Some(old) = pairs.find(|pair| pair.origin == origin) else {
                continue;
            };
            if let Ok(Some(found)) = load_named(storage, name, Reading::Any)
                && is_newer(&found, &old)
            {
                store.put(Arc::new(found));
                self.staples.look_soon();
            }
        }
    }

    fn take_managed(&self, key: Key) {
        let plan = self.state().managed.get(&key).map(|m| m.plan.clone());
        let Some(plan) = plan else { return };
        // A certificate that is being written by Caddy is unusable until its second file is there, which comes next.
        let Ok(Some(found)) = self.newest_of(&plan, &key.1, Reading::Any) else {
            return;
        };
        let mut state = self.state();
        let Some(managed) = state.managed.get_mut(&key) else {
            return;
        };
        if managed
            .pair
            .as_ref()
            .is_some_and(|old| !is_newer(&found, old))
        {
            return;
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
            if let Some(storage) = storage {
                strong.take_certificates(&storage, &names);
            }
            drop(strong);
            arrivals.bell.wait(FOLLOW_LOOK);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, (Option<Storage>, BTreeSet<String>)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a stored certificate replaces a served one.
fn is_newer(found: &Pair, old: &Pair) -> bool {
    found.certified.cert != old.certified.cert && found.lifetime.from >= old.lifetime.from
}

/// The certificate that a key belongs to: the key without `.crt` or `.key`.
fn certificate_name(key: &str) -> Option<&str> {
    if !key.starts_with("certificates/") {
        return None;
    }
    key.strip_suffix(".crt")
        .or_else(|| key.strip_suffix(".key"))
}
