//! Certificates that are made and renewed by ourselves: what has to be done when, and doing it. The thread that
//! sleeps in between is left to the process, and so is writing the notices into a log.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::SystemTime;

use crate::failure::{CertsError, Notice};
use crate::issuer::Issuer;
use crate::limits::{MAINTENANCE_PAUSE_MAX, NOTICES_MAX};
use crate::pair::{Origin, Pair};
use crate::renewal::{retry_pause, seed_of};
use crate::storage::{Storage, StoredPair};
use crate::store::CertStore;
use crate::subject::Subject;

/// Keeps certificates alive over reloads. One for a process.
pub struct Maintainer {
    storage: Storage,
    issuers: RwLock<BTreeMap<String, Arc<dyn Issuer>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    managed: BTreeMap<Job, Managed>,
    /// Failed attempts at upkeep, by issuer.
    upkeep: BTreeMap<String, Attempts>,
    notices: VecDeque<Notice>,
}

/// A certificate and the stores that show it.
struct Managed {
    pair: Arc<Pair>,
    stores: Vec<Weak<CertStore>>,
    attempts: Attempts,
}

/// Failed attempts in a row.
#[derive(Clone, Copy, Default)]
struct Attempts {
    failures: u32,
    /// Not before then.
    next: Option<SystemTime>,
}

impl Attempts {
    fn allow(&self, now: SystemTime) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    fn fail(&mut self, now: SystemTime, seed: u64) {
        self.failures = self.failures.saturating_add(1);
        self.next = Some(now + retry_pause(self.failures, seed));
    }
}

/// Something that has to be done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// The issuer has to renew something of its own, such as an intermediate. Sorted first: leafs are signed by it.
    Upkeep {
        /// Its id.
        issuer: String,
    },
    /// A certificate has to be renewed.
    Renew {
        /// The id of its issuer.
        issuer: String,
        /// Whom it is for.
        subject: Subject,
    },
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Job::Upkeep { issuer } => write!(f, "upkeep of issuer `{issuer}`"),
            Job::Renew { issuer, subject } => {
                write!(
                    f,
                    "renewal of the certificate for `{subject}` by issuer `{issuer}`"
                )
            }
        }
    }
}

/// How a job ended.
#[derive(Debug)]
pub struct Outcome {
    /// The job.
    pub job: Job,
    /// Nothing, or why it will be tried again later. Until then the old certificate is shown.
    pub result: Result<(), CertsError>,
}

impl Maintainer {
    /// Maintains certificates in `storage`.
    pub fn new(storage: Storage) -> Self {
        Maintainer {
            storage,
            issuers: RwLock::default(),
            state: Mutex::default(),
        }
    }

    /// Adds an issuer, in place of one with the same id.
    pub fn add_issuer(&self, issuer: Arc<dyn Issuer>) {
        let mut issuers = self.issuers.write().unwrap_or_else(PoisonError::into_inner);
        issuers.insert(issuer.id().to_owned(), issuer);
    }

    /// The issuer with this id.
    pub fn issuer(&self, id: &str) -> Option<Arc<dyn Issuer>> {
        self.issuers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned()
    }

    /// Puts certificates of `issuer` for all `subjects` into `store`, and renews them for as long as the store
    /// lives. They come from memory, from storage, or are made. On an error the store is unchanged.
    pub fn provide(
        &self,
        store: &Arc<CertStore>,
        issuer: &str,
        subjects: &[Subject],
        now: SystemTime,
    ) -> Result<(), CertsError> {
        let found = subjects.iter().map(|subject| {
            let job = Job::Renew {
                issuer: issuer.to_owned(),
                subject: subject.clone(),
            };
            self.obtain(&job, issuer, subject, now)
                .map(|pair| (job, pair))
        });
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let mut state = self.state();
        for (job, pair) in found {
            store.put(pair.clone());
            let managed = state.managed.entry(job).or_insert_with(|| Managed {
                pair: pair.clone(),
                stores: Vec::new(),
                attempts: Attempts::default(),
            });
            if !Arc::ptr_eq(&managed.pair, &pair) {
                managed.pair = pair;
                managed.attempts = Attempts::default();
            }
            managed.stores.retain(|store| store.strong_count() > 0);
            managed.stores.push(Arc::downgrade(store));
        }
        Ok(())
    }

    /// What has to be done at `now`, in order. Certificates that no store shows any more are forgotten.
    pub fn due(&self, now: SystemTime) -> Vec<Job> {
        let mut due: Vec<Job> = self
            .moments()
            .into_iter()
            .filter(|(_, at)| *at <= now)
            .map(|(job, _)| job)
            .collect();
        due.sort();
        due
    }

    /// When to look again, at the latest.
    pub fn wake_at(&self, now: SystemTime) -> SystemTime {
        let latest = now + MAINTENANCE_PAUSE_MAX;
        self.moments()
            .into_iter()
            .map(|(_, at)| at)
            .min()
            .map_or(latest, |at| at.clamp(now, latest))
    }

    /// Does one job.
    pub fn run(&self, job: &Job, now: SystemTime) -> Result<(), CertsError> {
        let id = match job {
            Job::Upkeep { issuer } | Job::Renew { issuer, .. } => issuer,
        };
        let issuer = self
            .issuer(id)
            .ok_or_else(|| CertsError::UnknownIssuer(id.clone()))?;
        match job {
            Job::Upkeep { issuer: id } => {
                let done = issuer.keep_up(now);
                let mut state = self.state();
                let attempts = state.upkeep.entry(id.clone()).or_default();
                match &done {
                    Ok(()) => *attempts = Attempts::default(),
                    Err(_) => attempts.fail(now, seed_of(id)),
                }
                done
            }
            Job::Renew { subject, .. } => {
                let made = self.make(&*issuer, subject, now);
                let mut state = self.state();
                let Some(managed) = state.managed.get_mut(job) else {
                    return Ok(());
                };
                match made {
                    Ok(pair) => {
                        managed.pair = pair;
                        managed.attempts = Attempts::default();
                        for store in managed.stores.iter().filter_map(Weak::upgrade) {
                            store.put(managed.pair.clone());
                        }
                        Ok(())
                    }
                    Err(error) => {
                        managed.attempts.fail(now, seed_of(&subject.to_string()));
                        Err(error)
                    }
                }
            }
        }
    }

    /// Does everything that is due.
    pub fn tick(&self, now: SystemTime) -> Vec<Outcome> {
        let run = |job| Outcome {
            result: self.run(&job, now),
            job,
        };
        self.due(now).into_iter().map(run).collect()
    }

    /// What happened since it was asked last.
    pub fn take_notices(&self) -> Vec<Notice> {
        self.state().notices.drain(..).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was held leaves at worst a certificate that is renewed once more.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notice(&self, notice: Notice) {
        let mut state = self.state();
        if state.notices.len() >= NOTICES_MAX {
            state.notices.pop_front();
        }
        state.notices.push_back(notice);
    }

    /// All jobs with the moment each is due.
    fn moments(&self) -> Vec<(Job, SystemTime)> {
        let issuers = self
            .issuers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut state = self.state();
        state
            .managed
            .retain(|_, managed| managed.stores.iter().any(|store| store.strong_count() > 0));
        let mut moments = Vec::with_capacity(state.managed.len() + issuers.len());
        for (id, issuer) in &issuers {
            if let Some(at) = issuer.upkeep_at() {
                let next = state.upkeep.get(id).and_then(|attempts| attempts.next);
                moments.push((
                    Job::Upkeep { issuer: id.clone() },
                    next.map_or(at, |next| next.max(at)),
                ));
            }
        }
        for (job, managed) in &state.managed {
            let Job::Renew { issuer, subject } = job else {
                continue;
            };
            let Some(issuer) = issuers.get(issuer) else {
                continue;
            };
            let seed = seed_of(&subject.to_string());
            let at = managed
                .pair
                .lifetime
                .renewal_at(issuer.renewal_share(), seed);
            moments.push((
                job.clone(),
                managed.attempts.next.map_or(at, |next| next.max(at)),
            ));
        }
        moments
    }

    fn obtain(
        &self,
        job: &Job,
        issuer_id: &str,
        subject: &Subject,
        now: SystemTime,
    ) -> Result<Arc<Pair>, CertsError> {
        let issuer = self
            .issuer(issuer_id)
            .ok_or_else(|| CertsError::UnknownIssuer(issuer_id.to_owned()))?;
        let known = self
            .state()
            .managed
            .get(job)
            .map(|managed| (managed.pair.clone(), managed.attempts));
        if let Some((pair, attempts)) = known {
            // Not to be asked again so soon after a failure, however often the configuration is loaded.
            let is_good = !pair.lifetime.has_ended(now) && issuer.accepts(&pair.certified.cert);
            if is_good || !attempts.allow(now) {
                return Ok(pair);
            }
        }
        match self.load(&*issuer, subject) {
            Ok(Some(pair)) if !pair.lifetime.has_ended(now) => return Ok(Arc::new(pair)),
            Ok(_) => {}
            Err(error) => self.notice(Notice::Replaced {
                subject: subject.clone(),
                why: error.to_string(),
            }),
        }
        self.make(&*issuer, subject, now)
    }

    /// The stored certificate, if there is one that the issuer accepts.
    fn load(&self, issuer: &dyn Issuer, subject: &Subject) -> Result<Option<Pair>, CertsError> {
        let name = stored_name(issuer, subject);
        let path = self.storage.path(&format!("{name}.crt"));
        let key = self.storage.path(&format!("{name}.key"));
        let parse = |stored: &StoredPair| {
            Pair::from_pem(
                stored,
                Origin {
                    certificate: &path,
                    key: &key,
                },
            )
        };
        let Some(stored) = self
            .storage
            .read_pair(&name, |stored| parse(stored).is_ok())?
        else {
            return Ok(None);
        };
        let pair = parse(&stored)?;
        let fits = issuer.accepts(&pair.certified.cert) && pair.subjects.contains(subject);
        Ok(fits.then_some(pair))
    }

    /// Has a certificate made and stores it. One that cannot be stored is still shown.
    fn make(
        &self,
        issuer: &dyn Issuer,
        subject: &Subject,
        now: SystemTime,
    ) -> Result<Arc<Pair>, CertsError> {
        let issued = issuer.issue(subject, now)?;
        let name = stored_name(issuer, subject);
        let path = self.storage.path(&format!("{name}.crt"));
        let origin = Origin {
            certificate: &path,
            key: &path.with_extension("key"),
        };
        let pair = Pair::from_pem(&issued.pair, origin)?;
        // Caddy's companion file, for tools that read its storage.
        let about =
            format!("{{\n\t\"sans\": [\n\t\t\"{subject}\"\n\t],\n\t\"issuer_data\": null\n}}");
        let stored = self.storage.write_pair(&name, &issued.pair).and_then(|()| {
            self.storage
                .write(&format!("{name}.json"), about.as_bytes())
        });
        if let Err(error) = stored {
            self.notice(Notice::NotStored {
                subject: subject.clone(),
                why: error.to_string(),
            });
        }
        self.notice(Notice::Issued {
            subject: subject.clone(),
            issuer: issuer.id().to_owned(),
        });
        Ok(Arc::new(pair))
    }
}

fn stored_name(issuer: &dyn Issuer, subject: &Subject) -> String {
    let name = subject.file_name();
    format!("certificates/{}/{name}/{name}", issuer.id())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;

    use pki_types::CertificateDer;

    use super::*;
    use crate::issuer::Issued;
    use crate::limits::{LEAF_LIFETIME, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN};
    use crate::local_ca::{LocalCa, LocalCaOptions};
    use crate::tests::TempFolder;

    /// A local CA that can be made to fail, and counts.
    struct Flaky {
        ca: LocalCa,
        fails: AtomicBool,
        issued: AtomicU32,
    }

    impl Issuer for Flaky {
        fn id(&self) -> &str {
            self.ca.id()
        }
        fn issue(&self, subject: &Subject, now: SystemTime) -> Result<Issued, CertsError> {
            self.issued.fetch_add(1, Ordering::Relaxed);
            if self.fails.load(Ordering::Relaxed) {
                return Err(CertsError::Signing("no luck".to_owned()));
            }
            self.ca.issue(subject, now)
        }
        fn accepts(&self, chain: &[CertificateDer<'_>]) -> bool {
            self.ca.accepts(chain)
        }
        fn renewal_share(&self) -> f64 {
            self.ca.renewal_share()
        }
        fn upkeep_at(&self) -> Option<SystemTime> {
            self.ca.upkeep_at()
        }
        fn keep_up(&self, now: SystemTime) -> Result<(), CertsError> {
            self.ca.keep_up(now)
        }
    }

    struct Setup {
        folder: TempFolder,
        maintainer: Maintainer,
        issuer: Arc<Flaky>,
        store: Arc<CertStore>,
        start: SystemTime,
    }

    fn setup(subjects: &[&str]) -> Setup {
        let folder = TempFolder::new();
        let start = SystemTime::now();
        let storage = Storage::new(folder.path());
        let ca = LocalCa::open(storage.clone(), LocalCaOptions::default(), start).unwrap();
        let issuer = Arc::new(Flaky {
            ca,
            fails: AtomicBool::new(false),
            issued: AtomicU32::new(0),
        });
        let maintainer = Maintainer::new(storage);
        maintainer.add_issuer(issuer.clone());
        let store = CertStore::new([]);
        maintainer
            .provide(&store, "local", &parsed(subjects), start)
            .unwrap();
        Setup {
            folder,
            maintainer,
            issuer,
            store,
            start,
        }
    }

    fn parsed(subjects: &[&str]) -> Vec<Subject> {
        subjects
            .iter()
            .map(|subject| Subject::parse(subject).unwrap())
            .collect()
    }

    fn shown(store: &CertStore, name: &str) -> Vec<u8> {
        let fallback = crate::store::Fallback::default();
        store
            .choose(Some(name), None, &fallback, |_| true)
            .unwrap()
            .cert[0]
            .to_vec()
    }

    #[test]
    fn renewals_are_due_in_time_and_the_store_shows_the_new_ones() {
        let s = setup(&["a.test", "b.test"]);
        assert_eq!(s.maintainer.due(s.start), []);
        let old = shown(&s.store, "a.test");
        let wake = s.maintainer.wake_at(s.start);
        assert!(wake > s.start && wake <= s.start + Duration::from_secs(600));
        let later = s.start + LEAF_LIFETIME.mul_f64(0.7);
        let renew = |subject: &str| Job::Renew {
            issuer: "local".to_owned(),
            subject: Subject::parse(subject).unwrap(),
        };
        assert_eq!(s.maintainer.due(later), [renew("a.test"), renew("b.test")]);
        assert_eq!(s.maintainer.wake_at(later), later);
        assert!(
            s.maintainer
                .tick(later)
                .iter()
                .all(|outcome| outcome.result.is_ok())
        );
        assert_ne!(shown(&s.store, "a.test"), old);
        assert_eq!(s.maintainer.due(later), []);
        // The intermediate comes first: it signs the rest.
        let days = s.start + Duration::from_secs(5 * 86_400);
        assert!(matches!(
            s.maintainer.due(days)[..],
            [Job::Upkeep { .. }, Job::Renew { .. }, _]
        ));
        assert!(
            s.maintainer
                .tick(days)
                .iter()
                .all(|outcome| outcome.result.is_ok())
        );
        assert_eq!(s.maintainer.due(days), []);
    }

    #[test]
    fn a_failing_issuer_is_asked_less_and_less_and_the_old_certificate_stays() {
        let s = setup(&["a.test"]);
        let old = shown(&s.store, "a.test");
        s.issuer.fails.store(true, Ordering::Relaxed);
        let before = s.issuer.issued.load(Ordering::Relaxed);
        let mut now = s.start + LEAF_LIFETIME.mul_f64(0.7);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let outcomes = s.maintainer.tick(now);
            assert!(outcomes[0].result.is_err(), "{}", outcomes[0].job);
            assert_eq!(s.maintainer.due(now + RETRY_PAUSE_MIN.mul_f64(0.7)), []);
            let mut next = now;
            while s.maintainer.due(next).is_empty() {
                next += Duration::from_secs(1);
            }
            pauses.push(next.duration_since(now).unwrap());
            now = next;
        }
        assert!(
            pauses[3] > pauses[0] && pauses[8] <= RETRY_PAUSE_MAX,
            "{pauses:?}"
        );
        assert_eq!(s.issuer.issued.load(Ordering::Relaxed) - before, 9);
        assert_eq!(shown(&s.store, "a.test"), old);
        s.issuer.fails.store(false, Ordering::Relaxed);
        assert!(s.maintainer.tick(now)[0].result.is_ok());
        assert_ne!(shown(&s.store, "a.test"), old);
    }

    #[test]
    fn a_reload_takes_certificates_over_and_dropped_ones_are_forgotten() {
        let s = setup(&["a.test", "b.test"]);
        let issued = s.issuer.issued.load(Ordering::Relaxed);
        let second = CertStore::new([]);
        s.maintainer
            .provide(&second, "local", &parsed(&["a.test"]), s.start)
            .unwrap();
        assert_eq!(s.issuer.issued.load(Ordering::Relaxed), issued);
        assert_eq!(shown(&second, "a.test"), shown(&s.store, "a.test"));
        drop(s.store);
        let later = s.start + LEAF_LIFETIME.mul_f64(0.7);
        assert_eq!(s.maintainer.due(later).len(), 1);
        drop(second);
        assert_eq!(s.maintainer.due(later), []);
    }

    #[test]
    fn damaged_and_foreign_stored_certificates_are_replaced() {
        for (ending, content) in [("crt", "junk"), ("key", "junk")] {
            let s = setup(&["a.test"]);
            let old = shown(&s.store, "a.test");
            let base = s.folder.path().join("certificates/local/a.test/a.test");
            fs::write(base.with_extension(format!("test.{ending}")), content).unwrap();
            let restarted = Maintainer::new(Storage::new(s.folder.path()));
            restarted.add_issuer(s.issuer.clone());
            let store = CertStore::new([]);
            restarted
                .provide(&store, "local", &parsed(&["a.test"]), s.start)
                .unwrap();
            assert_ne!(shown(&store, "a.test"), old);
            let notices = restarted.take_notices();
            assert!(matches!(notices[0], Notice::Replaced { .. }), "{notices:?}");
        }
        // Of another root, after somebody deleted ours.
        let s = setup(&["a.test"]);
        fs::remove_dir_all(s.folder.path().join("pki")).unwrap();
        let storage = Storage::new(s.folder.path());
        let ca = LocalCa::open(storage, LocalCaOptions::default(), s.start).unwrap();
        s.maintainer.add_issuer(Arc::new(ca));
        let store = CertStore::new([]);
        s.maintainer
            .provide(&store, "local", &parsed(&["a.test"]), s.start)
            .unwrap();
        assert_ne!(shown(&store, "a.test"), shown(&s.store, "a.test"));
    }

    #[test]
    fn a_certificate_that_cannot_be_stored_is_still_shown() {
        let s = setup(&[]);
        // A file where a folder is needed stands for a full or read-only disk, also for root.
        fs::write(s.folder.path().join("certificates"), b"in the way").unwrap();
        s.maintainer
            .provide(&s.store, "local", &parsed(&["a.test"]), s.start)
            .unwrap();
        assert!(!shown(&s.store, "a.test").is_empty());
        let notices = s.maintainer.take_notices();
        assert!(
            notices
                .iter()
                .any(|n| matches!(n, Notice::NotStored { .. })),
            "{notices:?}"
        );
    }

    #[test]
    fn a_failure_leaves_the_store_unchanged() {
        let s = setup(&[]);
        s.issuer.fails.store(true, Ordering::Relaxed);
        let failed = s
            .maintainer
            .provide(&s.store, "local", &parsed(&["a.test"]), s.start);
        assert!(failed.is_err() && s.store.is_empty());
        let unknown = s
            .maintainer
            .provide(&s.store, "acme", &parsed(&["a.test"]), s.start);
        assert!(matches!(unknown, Err(CertsError::UnknownIssuer(_))));
    }
}
