//! Maintenance of managed certificates: determines which jobs are due when, and runs them. Local issuers are called
//! directly; orders at CAs run on separate threads, a few at a time. The process provides the maintenance thread and
//! logs the notices.

mod follow;
mod make;
mod plan;
mod standing;
mod staple;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime};

pub use follow::Following;
pub use plan::Plan;
pub use standing::Standing;

use crate::challenges::Challenges;
use crate::failure::{CertsError, Notice};
use crate::files::WatchedFiles;
use crate::issuer::Issuer;
use crate::limits::{ADVICE_PAUSE, CLEAN_PAUSE, MAINTENANCE_PAUSE_MAX, NOTICES_MAX, ORDERS_MAX};
use crate::pair::Pair;
use crate::renewal::seed_of;
use crate::storage::Storage;
use crate::store::CertStore;
use crate::subject::Subject;
use crate::tickets::SharedKeys;
use plan::{Attempts, Key, Managed, ManagedTable};
use staple::Staples;

/// Keeps certificates valid, across reloads. One instance per process.
pub struct Maintainer {
    storage: Storage,
    challenges: Arc<Challenges>,
    /// Issuers that need upkeep, by ID. Several plans may each have an instance for the same CA.
    issuers: RwLock<BTreeMap<String, Vec<Weak<dyn Issuer>>>>,
    state: Mutex<State>,
    /// Certificate files of the current configuration.
    files: Mutex<Option<Arc<WatchedFiles>>>,
    rhythm: Mutex<Rhythm>,
    ticket_keys: Mutex<TicketKeys>,
    staples: Staples,
    /// The certificates of the running configuration.
    serving: Mutex<Weak<CertStore>>,
    bell: Arc<Bell>,
    /// Hears of each notice at once.
    observer: OnceLock<Observer>,
}

/// A function that hears of notices. It must not wait.
pub type Observer = Box<dyn Fn(&Notice) + Send + Sync>;

/// Session ticket keys shared with other instances.
#[derive(Default)]
struct TicketKeys {
    keys: Option<Arc<SharedKeys>>,
    /// The problem found by the last check.
    trouble: Option<String>,
}

#[derive(Default)]
struct State {
    managed: ManagedTable,
    /// Failed attempts at upkeep, by issuer.
    upkeep: BTreeMap<String, Attempts>,
    /// Jobs running on separate threads.
    under_way: BTreeSet<Job>,
    notices: VecDeque<Notice>,
}

/// Intervals of polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// Maximum pause between two checks for due jobs. Jobs with a known time run at that time.
    pub look: Duration,
    /// The pause between two cleanups of the storage; `None` disables them.
    pub clean: Option<Duration>,
    /// Whether to test the storage before each order.
    pub tries_storage: bool,
}

impl Default for Rhythm {
    fn default() -> Self {
        Rhythm {
            look: MAINTENANCE_PAUSE_MAX,
            clean: Some(CLEAN_PAUSE),
            tries_storage: true,
        }
    }
}

/// Wakes the maintenance thread.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Wakes the waiting thread, or the next one that waits.
    pub fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until it is rung, at most for `pause`.
    pub fn wait(&self, pause: Duration) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rung, _) = self
            .changed
            .wait_timeout_while(rung, pause, |rung| !*rung)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *rung)
    }
}

/// A job of the maintenance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// The issuer has to renew something of its own, such as an intermediate. Sorted first: it signs the leaf
    /// certificates.
    Upkeep {
        /// The ID of the issuer.
        issuer: String,
    },
    /// A certificate has to be issued or renewed.
    Renew {
        /// The ID of its plan.
        plan: String,
        /// Its subject.
        subject: Subject,
    },
    /// The CA has to be queried for renewal information.
    Ask {
        /// The ID of the certificate's plan.
        plan: String,
        /// Its subject.
        subject: Subject,
    },
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Job::Upkeep { issuer } => write!(f, "maintenance of issuer `{issuer}`"),
            Job::Renew { subject, .. } => write!(f, "renewal of the certificate for `{subject}`"),
            Job::Ask { subject, .. } => {
                write!(f, "renewal information of the certificate for `{subject}`")
            }
        }
    }
}

/// How a job ended.
#[derive(Debug)]
pub struct Outcome {
    /// The job.
    pub job: Job,
    /// Success, or the error; the job will be retried later. Until then the old certificate is served.
    pub result: Result<(), CertsError>,
}

/// Certificates found for a store, and those still to be ordered. Renewals and orders start only when it is passed to
/// [`Maintainer::keep`].
pub struct Provision {
    store: Weak<CertStore>,
    found: Vec<(Arc<Plan>, Subject, Option<Arc<Pair>>)>,
}

impl Maintainer {
    /// Maintains certificates in `storage`.
    pub fn new(storage: Storage) -> Self {
        Maintainer {
            staples: Staples::new(storage.clone()),
            storage,
            challenges: Arc::default(),
            issuers: RwLock::default(),
            state: Mutex::default(),
            files: Mutex::default(),
            rhythm: Mutex::default(),
            ticket_keys: Mutex::default(),
            serving: Mutex::default(),
            bell: Arc::default(),
            observer: OnceLock::new(),
        }
    }

    /// Calls `observer` with each notice; later calls have no effect.
    pub fn observe(&self, observer: Observer) {
        let _ = self.observer.set(observer);
    }

    /// Watches these files from now on, instead of previous ones.
    pub fn watch(&self, files: WatchedFiles) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(files));
    }

    /// Sets the polling intervals.
    pub fn set_rhythm(&self, rhythm: Rhythm) {
        *self.rhythm.lock().unwrap_or_else(PoisonError::into_inner) = rhythm;
    }

    fn rhythm(&self) -> Rhythm {
        *self.rhythm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes certificates that expired long ago from the storages in use, if a cleanup is due.
    ///
    /// # Errors
    /// A storage cannot be read or written.
    pub fn clean(&self, now: SystemTime) -> Result<(), CertsError> {
        let Some(pause) = self.rhythm().clean else {
            return Ok(());
        };
        for storage in self.storages() {
            for path in storage.clean(now, pause)? {
                self.notice(Notice::Removed { path });
            }
        }
        Ok(())
    }

    /// The storages in use.
    fn storages(&self) -> Vec<Storage> {
        let mut storages = vec![self.storage.clone()];
        for managed in self.state().managed.values() {
            let own = managed.plan.storage.as_deref();
            let new = own.filter(|own| !storages.contains(own)).cloned();
            storages.extend(new);
        }
        storages
    }

    /// The names of the locks that this process holds in them.
    pub fn held_locks(&self) -> Vec<String> {
        let storages = self.storages();
        storages.iter().flat_map(Storage::held_locks).collect()
    }

    /// Serves changed certificate files.
    pub fn refresh_files(&self) {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let files = files.clone();
        for notice in files.iter().flat_map(|files| files.refresh()) {
            self.notice(notice);
        }
    }

    /// Maintains these shared session ticket keys from now on, instead of previous ones.
    pub fn share_tickets(&self, keys: Option<Arc<SharedKeys>>) {
        let trouble = None;
        let mut own = self
            .ticket_keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *own = TicketKeys { keys, trouble };
    }

    /// Loads changes that other instances made to the session ticket keys, and rotates them if due.
    pub fn refresh_ticket_keys(&self, now: SystemTime) {
        let mut own = self
            .ticket_keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(keys) = own.keys.clone() else {
            return;
        };
        let trouble = keys.refresh(now).err().map(|error| error.to_string());
        if own.trouble == trouble {
            return;
        }
        own.trouble.clone_from(&trouble);
        drop(own);
        if let Some(why) = trouble {
            self.notice(Notice::TicketsNotShared { why });
        }
    }

    /// The challenges of orders in progress, for servers to respond to.
    pub fn challenges(&self) -> Arc<Challenges> {
        self.challenges.clone()
    }

    /// The bell to ring when there is a new job.
    pub fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    /// Adds an issuer that needs upkeep as long as a plan uses it.
    pub fn add_issuer(&self, issuer: &Arc<dyn Issuer>) {
        let mut issuers = self.issuers.write().unwrap_or_else(PoisonError::into_inner);
        issuers.retain(|_, same| {
            same.retain(|issuer| issuer.strong_count() > 0);
            !same.is_empty()
        });
        let same = issuers.entry(issuer.id().to_owned()).or_default();
        same.push(Arc::downgrade(issuer));
    }

    /// The issuers with this ID that are still in use.
    fn issuers(&self, id: &str) -> Vec<Arc<dyn Issuer>> {
        let issuers = self.issuers.read().unwrap_or_else(PoisonError::into_inner);
        let same = issuers.get(id).into_iter().flatten();
        same.filter_map(Weak::upgrade).collect()
    }

    /// Adds certificates by `plan` for all `subjects` to `store`: from memory, from storage, or newly issued if that
    /// takes no time. The store records those that have to be ordered. On an error the store is unchanged.
    pub fn provide(
        &self,
        store: &Arc<CertStore>,
        plan: &Arc<Plan>,
        subjects: &[Subject],
        now: SystemTime,
    ) -> Result<Provision, CertsError> {
        let found = subjects.iter().map(|subject| {
            let pair = self.obtain(plan, subject, now)?;
            Ok((plan.clone(), subject.clone(), pair))
        });
        let found = found.collect::<Result<Vec<_>, CertsError>>()?;
        for (_, subject, pair) in &found {
            match pair {
                Some(pair) => store.put(pair.clone()),
                None => store.expect(subject.clone()),
            }
        }
        Ok(Provision {
            store: Arc::downgrade(store),
            found,
        })
    }

    /// Orders the missing certificates, and renews all of them as long as the store lives.
    pub fn keep(&self, provision: Provision) {
        let mut served = Vec::new();
        let mut state = self.state();
        for (plan, subject, pair) in provision.found {
            let key = (plan.id.clone(), subject);
            let managed = state.managed.entry(key).or_insert_with(|| Managed {
                plan: plan.clone(),
                pair: None,
                stores: Vec::new(),
                attempts: Attempts::default(),
                advice: None,
                ask_at: plan.is_remote().then_some(SystemTime::UNIX_EPOCH),
            });
            managed.plan = plan;
            let is_new = match (&managed.pair, &pair) {
                (Some(known), Some(found)) => !Arc::ptr_eq(known, found),
                (None, Some(_)) => true,
                (_, None) => false,
            };
            managed.stores.retain(|store| store.strong_count() > 0);
            managed.stores.push(provision.store.clone());
            if is_new {
                served.extend(pair.as_ref().map(|pair| pair.subjects.clone()));
                managed.pair = pair;
                managed.attempts = Attempts::default();
                managed.advice = None;
            } else {
                // It was obtained while the configuration was being built.
                managed.show();
            }
        }
        drop(state);
        for names in served {
            self.notice(Notice::Served { names });
        }
        self.bell.ring();
    }

    /// The jobs that are due at `now`, in order. Drops certificates that no store serves any more.
    pub fn due(&self, now: SystemTime) -> Vec<Job> {
        let moments = self.moments().into_iter();
        let mut due: Vec<(Job, SystemTime)> = moments.filter(|(_, at)| *at <= now).collect();
        // The order that has waited longest goes first, so that failing ones do not starve others.
        due.sort_by(|(a, a_at), (b, b_at)| {
            let rank = |job: &Job| !matches!(job, Job::Upkeep { .. });
            (rank(a), a_at, a).cmp(&(rank(b), b_at, b))
        });
        due.into_iter().map(|(job, _)| job).collect()
    }

    /// When to check again, at the latest.
    pub fn wake_at(&self, now: SystemTime) -> SystemTime {
        let latest = now + self.rhythm().look;
        self.moments()
            .into_iter()
            .map(|(_, at)| at)
            .min()
            .map_or(latest, |at| at.clamp(now, latest))
    }

    /// Runs one job, however long it takes.
    pub fn run(&self, job: &Job, now: SystemTime) -> Result<(), CertsError> {
        match job {
            Job::Upkeep { issuer } => self.keep_up(issuer, now),
            Job::Renew { plan, subject } => self.renew((plan.clone(), subject.clone()), now),
            Job::Ask { plan, subject } => {
                self.ask((plan.clone(), subject.clone()), now);
                Ok(())
            }
        }
    }

    /// Runs all due jobs that take no time, and starts as many orders as are allowed concurrently: these report their
    /// outcome by a notice.
    pub fn tick(self: &Arc<Self>, now: SystemTime) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for job in self.due(now) {
            if self.is_remote(&job) {
                self.start(job);
            } else {
                let result = self.run(&job, now);
                outcomes.push(Outcome { job, result });
            }
        }
        outcomes
    }

    /// Starts a job on a separate thread, unless too many are running.
    fn start(self: &Arc<Self>, job: Job) {
        {
            let mut state = self.state();
            if state.under_way.len() >= ORDERS_MAX || !state.under_way.insert(job.clone()) {
                return;
            }
        }
        let (maintainer, ours) = (self.clone(), job.clone());
        let started = std::thread::Builder::new()
            .name("order".to_owned())
            .spawn(move || {
                let under_way = UnderWay(&maintainer, &ours);
                // The outcome is reported by a notice.
                let _ = maintainer.run(&ours, SystemTime::now());
                drop(under_way);
                maintainer.bell.ring();
            });
        if started.is_err() {
            self.state().under_way.remove(&job);
        }
    }

    fn is_remote(&self, job: &Job) -> bool {
        match job {
            Job::Upkeep { .. } => false,
            Job::Ask { .. } => true,
            Job::Renew { plan, subject } => self
                .state()
                .managed
                .get(&(plan.clone(), subject.clone()))
                .is_some_and(|managed| managed.plan.is_remote()),
        }
    }

    /// Takes the notices since the last call.
    pub fn take_notices(&self) -> Vec<Notice> {
        self.state().notices.drain(..).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held causes at worst one extra renewal.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a notice and wakes the thread that logs it.
    pub(crate) fn notify(&self, notice: Notice) {
        self.notice(notice);
        self.bell.ring();
    }

    fn notice(&self, notice: Notice) {
        if let Some(observer) = self.observer.get() {
            observer(&notice);
        }
        if notice.is_routine() {
            return;
        }
        let mut state = self.state();
        if state.notices.len() >= NOTICES_MAX {
            state.notices.pop_front();
        }
        state.notices.push_back(notice);
    }

    /// All jobs that are not running, with their due times.
    fn moments(&self) -> Vec<(Job, SystemTime)> {
        let ids: Vec<String> = {
            let issuers = self.issuers.read().unwrap_or_else(PoisonError::into_inner);
            issuers.keys().cloned().collect()
        };
        let upkeep = |id: String| {
            let moments = self.issuers(&id).into_iter();
            let first = moments.filter_map(|issuer| issuer.upkeep_at()).min()?;
            Some((id, first))
        };
        let upkeeps: Vec<(String, SystemTime)> = ids.into_iter().filter_map(upkeep).collect();
        let mut state = self.state();
        state
            .managed
            .retain(|_, managed| managed.stores.iter().any(|store| store.strong_count() > 0));
        let mut moments = Vec::with_capacity(state.managed.len() + upkeeps.len());
        for (id, at) in upkeeps {
            let next = state.upkeep.get(&id).and_then(|attempts| attempts.next);
            let at = next.map_or(at, |next| next.max(at));
            moments.push((Job::Upkeep { issuer: id }, at));
        }
        // Each finished order rings the bell; checking earlier would find the same.
        let is_full = state.under_way.len() >= ORDERS_MAX;
        for ((plan, subject), managed) in &state.managed {
            if is_full && managed.plan.is_remote() {
                continue;
            }
            let (plan, subject) = (plan.clone(), subject.clone());
            let at = managed.due_at(seed_of(&subject.to_string()));
            if managed.pair.is_some()
                && let Some(ask_at) = managed.ask_at.filter(|ask_at| *ask_at < at)
            {
                let (plan, subject) = (plan.clone(), subject.clone());
                moments.push((Job::Ask { plan, subject }, ask_at));
            }
            moments.push((Job::Renew { plan, subject }, at));
        }
        moments.retain(|(job, _)| !state.under_way.contains(job));
        moments
    }

    fn keep_up(&self, id: &str, now: SystemTime) -> Result<(), CertsError> {
        // A failure does not prevent the upkeep of the others.
        let each: Vec<_> = self
            .issuers(id)
            .iter()
            .map(|issuer| issuer.keep_up(now))
            .collect();
        let done = each.into_iter().collect::<Result<(), _>>();
        let mut state = self.state();
        let attempts = state.upkeep.entry(id.to_owned()).or_default();
        match &done {
            Ok(()) => *attempts = Attempts::default(),
            Err(error) => attempts.fail_upkeep(error, now, id),
        }
        done
    }

    /// Queries the CA for renewal information. After a failure there will be a retry; until then the previous
    /// information remains in effect.
    fn ask(&self, key: Key, now: SystemTime) {
        let known = self.state().managed.get(&key).and_then(|managed| {
            let pair = managed.pair.clone()?;
            Some((managed.plan.clone(), pair))
        });
        let Some((plan, pair)) = known else { return };
        let issuer = plan
            .issuers
            .iter()
            .find(|issuer| self.is_of(&plan, (&***issuer, &key.1), &pair));
        let asked = issuer.and_then(|issuer| issuer.advice(&pair, now));
        let mut state = self.state();
        let Some(managed) = state.managed.get_mut(&key) else {
            return;
        };
        let is_same = managed
            .pair
            .as_ref()
            .is_some_and(|shown| Arc::ptr_eq(shown, &pair));
        match asked {
            Some(Ok(advice)) if is_same => {
                managed.advice = Some(advice);
                managed.ask_at = Some(advice.ask_again);
            }
            Some(Ok(_) | Err(_)) => managed.ask_at = Some(now + ADVICE_PAUSE),
            None => managed.ask_at = None,
        }
    }
}

/// Unregisters a job when its thread ends, even by a panic.
struct UnderWay<'a>(&'a Maintainer, &'a Job);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state().under_way.remove(self.1);
    }
}

#[cfg(test)]
mod tests;
