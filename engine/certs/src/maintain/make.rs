//! Obtains a single certificate: from memory, storage or an issuer. The rest of `maintain` decides when.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rcgen::KeyPair;
use serde_json::json;
use sluice_store::{Fault, Guard};

use super::Maintainer;
use super::plan::{Attempts, Key, Plan};
use crate::failure::{CertsError, Notice};
use crate::issuer::{Issued, Issuer, Request};
use crate::limits::{ORDER_TIMEOUT, REFUSED_PAUSE, STORING_MAX, STORING_PAUSE};
use crate::pair::{Origin, Pair, PairStanding};
use crate::renewal::seed_of;
use crate::storage::{SharedLock, Storage, StoredPair};
use crate::subject::{Subject, SubjectError};

/// Which state of a shared storage counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The copy of this node will do if the engine is away.
    Any,
    /// The present one.
    Latest,
}

/// Whether a certificate was stored.
enum Kept {
    Yes,
    /// The lock has passed to another node.
    Refused,
    No,
}

impl Maintainer {
    /// The certificate to start with; `None` if it has to be ordered.
    pub(super) fn obtain(
        &self,
        plan: &Plan,
        subject: &Subject,
        now: SystemTime,
    ) -> Result<Option<Arc<Pair>>, CertsError> {
        let known = self
            .state()
            .managed
            .get(&(plan.id.clone(), subject.clone()))
            .and_then(|managed| Some((managed.pair.clone()?, managed.attempts.clone())));
        if let Some((pair, attempts)) = known {
            // After a failure, reloading the configuration does not cause an earlier retry.
            let is_good = !pair.lifetime.has_ended(now) && accepts(plan, &pair);
            if is_good || !attempts.allow(now) {
                return Ok(Some(pair));
            }
        }
        let loaded = self.load_newest(plan, subject);
        if plan.is_remote() {
            // An expired certificate is served until it is replaced: clients then report the actual problem.
            return Ok(loaded);
        }
        match loaded {
            Some(pair) if !pair.lifetime.has_ended(now) => Ok(Some(pair)),
            Some(_) | None => self.make(plan, subject, None, 0, now).map(Some),
        }
    }

    /// The certificate for a name requested by a client: the stored one, or a new one.
    pub(crate) fn make_on_demand(
        &self,
        plan: &Plan,
        subject: &Subject,
        now: SystemTime,
    ) -> Result<Arc<Pair>, CertsError> {
        let stored = self.load_newest(plan, subject);
        let seed = seed_of(&subject.to_string());
        let is_fresh = |pair: &Arc<Pair>| plan.renewal_at(pair, seed) > now;
        match stored {
            Some(pair) if is_fresh(&pair) => Ok(pair),
            old if plan.is_remote() => self.order(plan, subject, old.as_ref(), 0, now),
            old => self.make(plan, subject, old.as_deref(), 0, now),
        }
    }

    /// Issues or renews a managed certificate, and serves it.
    pub(super) fn renew(&self, key: Key, now: SystemTime) -> Result<(), CertsError> {
        let known = self.state().managed.get(&key).map(|managed| {
            let failures = managed.attempts.failures;
            (managed.plan.clone(), managed.pair.clone(), failures)
        });
        let Some((plan, old, failures)) = known else {
            return Ok(());
        };
        let subject = &key.1;
        let made = if plan.is_remote() {
            self.order(&plan, subject, old.as_ref(), failures, now)
        } else {
            self.make(&plan, subject, old.as_deref(), failures, now)
        };
        let mut state = self.state();
        let Some(managed) = state.managed.get_mut(&key) else {
            return made.map(drop);
        };
        match made {
            Ok(pair) => {
                let names = pair.subjects.clone();
                managed.attempts = match pair.standing {
                    PairStanding::Settled => Attempts::default(),
                    // The node that has taken over may have been announced before this order ended, or fail.
                    PairStanding::Refused => Attempts::after(later(now) + REFUSED_PAUSE),
                };
                managed.pair = Some(pair);
                managed.advice = None;
                managed.ask_at = plan.is_remote().then_some(now);
                managed.show();
                self.staples.look_soon();
                drop(state);
                self.notice(Notice::Served { names });
                Ok(())
            }
            Err(error) => {
                let seed = seed_of(&subject.to_string());
                // An order may have taken minutes.
                let next = managed.attempts.fail(&error, now.max(later(now)), seed);
                drop(state);
                if plan.is_remote() {
                    self.notice(Notice::NotIssued {
                        subject: subject.clone(),
                        renewal: old.is_some(),
                        issuers: plan.issuer_ids(),
                        why: error.to_string(),
                        next,
                    });
                }
                Err(error)
            }
        }
    }

    /// Orders a certificate, unless another process with this storage has just done so.
    fn order(
        &self,
        plan: &Plan,
        subject: &Subject,
        old: Option<&Arc<Pair>>,
        failures: u32,
        now: SystemTime,
    ) -> Result<Arc<Pair>, CertsError> {
        let storage = self.storage_of(plan);
        if self.rhythm().tries_storage {
            // A certificate that cannot be stored would be ordered again at each start, until the CA's rate limit is
            // reached.
            storage.try_out()?;
        }
        let name = format!("issue_cert_{}", subject.file_name());
        let lock = match storage.shared_lock(&name, ORDER_TIMEOUT) {
            Ok(lock) => Some(lock),
            Err(error @ CertsError::Locked(_)) => return Err(error),
            // Without the engine every node would order a certificate, and none could give it to the others.
            Err(error) if storage.is_shared() => return Err(error),
            // If the folder is not writable, a certificate in memory is better than none.
            Err(_) => None,
        };
        let seed = seed_of(&subject.to_string());
        let is_better = |found: &Arc<Pair>| {
            let is_other = old.is_none_or(|old| old.certified.cert != found.certified.cert);
            is_other && plan.renewal_at(found, seed) > now
        };
        // Another node may have done it while this one waited for the lock.
        let found = self.newest_of(plan, subject, Reading::Latest)?;
        if let Some(found) = found.filter(is_better) {
            return Ok(found);
        }
        let (old, lock) = (old.map(|old| &**old), lock.as_ref());
        self.make_under(plan, subject, (old, lock), failures, now)
    }

    /// The newest stored certificate among those of the plan's issuers, or of its copy on this node.
    fn load_newest(&self, plan: &Plan, subject: &Subject) -> Option<Arc<Pair>> {
        // That the engine is away is reported once, not for each certificate.
        self.newest_of(plan, subject, Reading::Any).ok().flatten()
    }

    /// The newest stored certificate among those of the plan's issuers. One that is unusable is reported and passed.
    ///
    /// # Errors
    /// An engine cannot be read.
    pub(super) fn newest_of(
        &self,
        plan: &Plan,
        subject: &Subject,
        reading: Reading,
    ) -> Result<Option<Arc<Pair>>, CertsError> {
        let storage = self.storage_of(plan);
        let mut newest: Option<Pair> = None;
        for issuer in &plan.issuers {
            match load(storage, (&**issuer, subject), reading) {
                Ok(found) => {
                    let is_newer = |found: &Pair| {
                        let newest = newest.as_ref();
                        newest.is_none_or(|newest| found.lifetime.from >= newest.lifetime.from)
                    };
                    newest = found.filter(is_newer).or(newest);
                }
                Err(error @ CertsError::Store(_)) if storage.is_shared() => return Err(error),
                Err(error) => self.notice(Notice::Replaced {
                    subject: subject.clone(),
                    why: error.to_string(),
                }),
            }
        }
        Ok(newest.map(Arc::new))
    }

    /// Tries the issuers of a plan in order, without a lock: they are local.
    fn make(
        &self,
        plan: &Plan,
        subject: &Subject,
        old: Option<&Pair>,
        failures: u32,
        now: SystemTime,
    ) -> Result<Arc<Pair>, CertsError> {
        self.make_under(plan, subject, (old, None), failures, now)
    }

    /// Tries the issuers of a plan in order. What they issue is stored if `lock` is still held.
    fn make_under(
        &self,
        plan: &Plan,
        subject: &Subject,
        (old, lock): (Option<&Pair>, Option<&SharedLock>),
        failures: u32,
        now: SystemTime,
    ) -> Result<Arc<Pair>, CertsError> {
        let key = match self.kept_key(plan, subject) {
            Some(key) => key,
            None => plan.key_type.generate()?,
        };
        self.notice(Notice::Obtaining {
            subject: subject.clone(),
            renewal: old.is_some(),
        });
        let seed = seed_of(&subject.to_string());
        let mut failed = None;
        for issuer in &plan.issuers {
            if let Some(why) = failed.as_ref().map(ToString::to_string) {
                let subject = subject.clone();
                self.notice(Notice::Passed { subject, why });
            }
            let request = Request {
                subject,
                key: &key,
                replaces: old.filter(|old| self.is_of(plan, (&**issuer, subject), old)),
                failures,
                must_staple: plan.must_staple,
            };
            let now = if issuer.is_remote() { later(now) } else { now };
            match issuer.issue(&request, now) {
                Ok(issued) => {
                    let storage = self.storage_of(plan);
                    let place = (storage, &**issuer);
                    let made = self.finish(place, (subject, old.is_some()), &key, issued, lock);
                    return match made {
                        // Another node has taken the lock over; the certificate that counts is the one it stores.
                        Ok((made, Kept::Refused)) => {
                            let found = self.newest_of(plan, subject, Reading::Latest);
                            let other = found.ok().flatten();
                            let other = other.filter(|found| plan.renewal_at(found, seed) > now);
                            Ok(other.unwrap_or_else(|| Arc::new(made.refused())))
                        }
                        Ok((made, Kept::Yes | Kept::No)) => Ok(Arc::new(made)),
                        Err(error) => Err(error),
                    };
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| SubjectError(subject.to_string()).into()))
    }

    /// Stores a certificate. If that fails, it is served anyway.
    fn finish(
        &self,
        (storage, issuer): (&Storage, &dyn Issuer),
        (subject, renewal): (&Subject, bool),
        key: &KeyPair,
        issued: Issued,
        lock: Option<&SharedLock>,
    ) -> Result<(Pair, Kept), CertsError> {
        let name = stored_name(issuer, subject);
        let path = storage.place_of(&format!("{name}.crt"));
        let origin = Origin {
            certificate: &path,
            key: &storage.place_of(&format!("{name}.key")),
        };
        let stored = StoredPair {
            certificate: issued.chain,
            key: key.serialize_pem().into_bytes(),
        };
        let pair = Pair::from_pem(&stored, origin)?;
        // Caddy's metadata file, for Caddy itself and for tools that read its storage.
        let about = json!({"sans": [subject.to_string()], "issuer_data": issued.about});
        let about = format!("{about:#}");
        let [crt, key, json] = ["crt", "key", "json"].map(|ending| format!("{name}.{ending}"));
        let [key, crt] = Storage::pair_values(&crt, &key, &stored);
        let values = [key, crt, (&json, about.as_bytes())];
        let kept = match store_made(storage, &values, lock) {
            Ok(()) => Kept::Yes,
            Err(error) => {
                self.notice(Notice::NotStored {
                    subject: subject.clone(),
                    why: error.to_string(),
                });
                match error {
                    CertsError::Store(error) if error.fault == Fault::Refused => Kept::Refused,
                    _ => Kept::No,
                }
            }
        };
        self.notice(Notice::Issued {
            subject: subject.clone(),
            issuer: issuer.id().to_owned(),
            renewal,
            path: name,
        });
        Ok((pair, kept))
    }

    /// The key of the current certificate, if the plan reuses keys; an unreadable key is not reused.
    fn kept_key(&self, plan: &Plan, subject: &Subject) -> Option<KeyPair> {
        if !plan.keeps_keys {
            return None;
        }
        plan.issuers.iter().find_map(|issuer| {
            let name = format!("{}.key", stored_name(&**issuer, subject));
            let text = self.storage_of(plan).read(&name).ok()??;
            KeyPair::from_pem(std::str::from_utf8(&text).ok()?).ok()
        })
    }

    /// Where the certificates of a plan are kept.
    pub(super) fn storage_of<'a>(&'a self, plan: &'a Plan) -> &'a Storage {
        plan.storage.as_deref().unwrap_or(&self.storage)
    }

    /// Whether `issuer` has issued `pair`.
    pub(super) fn is_of(
        &self,
        plan: &Plan,
        (issuer, subject): (&dyn Issuer, &Subject),
        pair: &Pair,
    ) -> bool {
        let path = self
            .storage_of(plan)
            .place_of(&format!("{}.crt", stored_name(issuer, subject)));
        pair.origin == path.display().to_string()
    }
}

/// Stores a new certificate if `lock` is still held. While the engine is away, that is tried again for as long as the
/// lock may be held: a restart or an election takes seconds, and another order would follow.
fn store_made(
    storage: &Storage,
    values: &[(&str, &[u8])],
    lock: Option<&SharedLock>,
) -> Result<(), CertsError> {
    let Some(lock) = lock else {
        return storage.write_all(values, Guard::Always);
    };
    let began = Instant::now();
    loop {
        match storage.write_all(values, lock.guard()) {
            Err(CertsError::Store(error))
                if error.fault == Fault::Away && began.elapsed() < STORING_MAX =>
            {
                std::thread::sleep(STORING_PAUSE);
            }
            done => return done,
        }
    }
}

/// The stored certificate, if there is one that the issuer accepts.
fn load(
    storage: &Storage,
    (issuer, subject): (&dyn Issuer, &Subject),
    reading: Reading,
) -> Result<Option<Pair>, CertsError> {
    let name = stored_name(issuer, subject);
    let found = load_named(storage, &name, reading)?;
    Ok(
        found
            .filter(|pair| issuer.accepts(&pair.certified.cert) && pair.subjects.contains(subject)),
    )
}

/// The certificate `<name>.crt` with its key.
pub(super) fn load_named(
    storage: &Storage,
    name: &str,
    reading: Reading,
) -> Result<Option<Pair>, CertsError> {
    let path = storage.place_of(&format!("{name}.crt"));
    let key = storage.place_of(&format!("{name}.key"));
    let parse = |stored: &StoredPair| {
        Pair::from_pem(
            stored,
            Origin {
                certificate: &path,
                key: &key,
            },
        )
    };
    let fits = |stored: &StoredPair| parse(stored).is_ok();
    let stored = match reading {
        Reading::Any => storage.read_pair(name, fits)?,
        Reading::Latest => storage.read_latest_pair(name, fits)?,
    };
    stored.map(|stored| parse(&stored)).transpose()
}

fn accepts(plan: &Plan, pair: &Pair) -> bool {
    plan.issuers
        .iter()
        .any(|issuer| issuer.accepts(&pair.certified.cert))
}

/// Whether a storage cannot be read now, rather than what it has.
pub(super) fn is_away(error: &CertsError) -> bool {
    matches!(error, CertsError::Store(error) if error.fault == Fault::Away)
}

/// The current time, or `now` if that is later, as in tests.
fn later(now: SystemTime) -> SystemTime {
    SystemTime::now().max(now)
}

pub(super) fn stored_name(issuer: &dyn Issuer, subject: &Subject) -> String {
    let name = subject.file_name();
    format!("certificates/{}/{name}/{name}", issuer.id())
}
