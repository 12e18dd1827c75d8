//! Certificates made when a client first asks for a name: who may have one, how many are made at once, and what waits
//! meanwhile. Making one is left to `maintain`, holding the handshake to `sluice-net`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use tokio::sync::oneshot;
use ureq::http::Request;

use crate::failure::{CertsError, Notice};
use crate::fetch::{FetchOptions, Fetcher};
use crate::limits::{
    ASK_TIMEOUT, ON_DEMAND_MAX, ON_DEMAND_NAMES_MAX, ON_DEMAND_PAUSE, ON_DEMAND_THREADS_MAX,
    ON_DEMAND_WAITERS_MAX,
};
use crate::maintain::{Maintainer, Plan};
use crate::renewal::seed_of;
use crate::store::CertStore;
use crate::subject::Subject;

/// What holds for some names; the first rule that covers a name decides.
pub struct OnDemandRule {
    /// Names, in which `*` stands for a label; all names when empty.
    pub subjects: Vec<String>,
    /// How certificates are made during handshakes; `None` where they are not.
    pub plans: Option<OnDemandPlans>,
}

/// How certificates of a rule are made.
pub struct OnDemandPlans {
    /// For names that a public authority may vouch for.
    pub public: Arc<Plan>,
    /// For all others.
    pub local: Arc<Plan>,
}

/// Makes certificates during handshakes, for one configuration.
pub struct OnDemand {
    rules: Vec<OnDemandRule>,
    /// Where permission is asked for; where it is not, only our own authority makes any.
    ask: Option<String>,
    fetcher: Fetcher,
    /// Whether a name is one that no public authority vouches for.
    is_local: fn(&str) -> bool,
    store: Weak<CertStore>,
    maintainer: Weak<Maintainer>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Who waits for each name that is being made or waits for its turn.
    waiting: HashMap<Subject, Vec<oneshot::Sender<()>>>,
    /// Names that wait for a thread.
    queue: VecDeque<Subject>,
    /// Threads at work.
    threads: usize,
    /// Names that were refused or failed, and until when they are not tried again.
    refused: VecDeque<(Subject, SystemTime)>,
    /// Certificates shown, the oldest first.
    shown: VecDeque<Subject>,
    known: HashSet<Subject>,
}

/// What has to come before a handshake can go on.
pub(crate) enum Demand {
    /// Nothing.
    Nothing,
    /// A certificate that is being made.
    Wait(oneshot::Receiver<()>),
}

impl OnDemand {
    /// Makes certificates by `rules` for `store`, asking at `ask` first.
    pub fn new(
        rules: Vec<OnDemandRule>,
        ask: Option<String>,
        is_local: fn(&str) -> bool,
        store: &Arc<CertStore>,
        maintainer: &Arc<Maintainer>,
    ) -> Arc<OnDemand> {
        Arc::new(OnDemand {
            rules,
            ask,
            fetcher: Fetcher::new(&FetchOptions {
                timeout: ASK_TIMEOUT,
                // Who is asked says so itself, as with Caddy.
                redirects: 0,
                ..FetchOptions::default()
            }),
            is_local,
            store: Arc::downgrade(store),
            maintainer: Arc::downgrade(maintainer),
            state: Mutex::default(),
        })
    }

    /// What a handshake for `name` has to wait for. One whose certificate is due for renewal does not wait, but has it
    /// begun.
    pub(crate) fn demand(self: &Arc<Self>, name: &str) -> Demand {
        let Ok(subject) = Subject::parse(name) else {
            return Demand::Nothing;
        };
        let Some(store) = self.store.upgrade() else {
            return Demand::Nothing;
        };
        let Some(plan) = self.plan(&subject) else {
            return Demand::Nothing;
        };
        let now = SystemTime::now();
        let shown = store.pair_for(&subject);
        let is_served = shown
            .as_ref()
            .is_some_and(|pair| !pair.lifetime.has_ended(now));
        let is_ours = || self.state().known.contains(&subject);
        if let Some(pair) = &shown
            && is_served
        {
            let due = plan.renewal_at(pair, seed_of(&subject.to_string())) <= now;
            if due && is_ours() {
                self.begin(subject, None, now);
            }
            return Demand::Nothing;
        }
        let (sender, receiver) = oneshot::channel();
        if self.begin(subject, Some(sender), now) {
            Demand::Wait(receiver)
        } else {
            Demand::Nothing
        }
    }

    /// Whether `name` has no certificate and is one that is made on demand: it gets none of another name.
    pub(crate) fn is_missing(&self, name: &str) -> bool {
        let Ok(subject) = Subject::parse(name) else {
            return false;
        };
        let is_shown = self.store.upgrade().is_some_and(|s| s.covers(&subject));
        !is_shown && self.plan(&subject).is_some()
    }

    /// The plan of the rule that decides for `subject`.
    fn plan(&self, subject: &Subject) -> Option<Arc<Plan>> {
        let name = subject.to_string();
        let covers = |rule: &&OnDemandRule| {
            rule.subjects.is_empty() || rule.subjects.iter().any(|s| covers(s, &name))
        };
        let plans = self.rules.iter().find(covers)?.plans.as_ref()?;
        let is_local = (self.is_local)(&name);
        Some(
            if is_local {
                &plans.local
            } else {
                &plans.public
            }
            .clone(),
        )
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a name on the list, unless it was refused just now or the list is full; tells whether `waiter` will hear.
    fn begin(
        self: &Arc<Self>,
        subject: Subject,
        waiter: Option<oneshot::Sender<()>>,
        now: SystemTime,
    ) -> bool {
        let mut state = self.state();
        while state
            .refused
            .front()
            .is_some_and(|(_, until)| *until <= now)
        {
            state.refused.pop_front();
        }
        if state.refused.iter().any(|(refused, _)| *refused == subject) {
            return false;
        }
        if let Some(waiters) = state.waiting.get_mut(&subject) {
            let has_room = waiters.len() < ON_DEMAND_WAITERS_MAX;
            waiters.extend(waiter.filter(|_| has_room));
            return has_room;
        }
        if state.waiting.len() >= ON_DEMAND_NAMES_MAX {
            return false;
        }
        let waiters = waiter.into_iter().collect();
        state.waiting.insert(subject.clone(), waiters);
        state.queue.push_back(subject);
        if state.threads >= ON_DEMAND_THREADS_MAX {
            return true;
        }
        state.threads += 1;
        drop(state);
        let ours = self.clone();
        let started = std::thread::Builder::new()
            .name("on demand".to_owned())
            .spawn(move || ours.work());
        if started.is_err() {
            // Those who wait are told by the end of their channels.
            let mut state = self.state();
            state.threads -= 1;
            if state.threads == 0 {
                state.queue.clear();
                state.waiting.clear();
            }
        }
        true
    }

    /// Makes certificates until nobody waits for one.
    fn work(&self) {
        loop {
            let mut state = self.state();
            let Some(subject) = state.queue.pop_front() else {
                state.threads -= 1;
                return;
            };
            drop(state);
            let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.make(&subject, SystemTime::now())
            }));
            let mut state = self.state();
            if !matches!(made, Ok(Ok(()))) {
                if state.refused.len() >= ON_DEMAND_NAMES_MAX {
                    state.refused.pop_front();
                }
                let until = SystemTime::now() + ON_DEMAND_PAUSE;
                state.refused.push_back((subject.clone(), until));
            }
            // Dropping the senders tells them; the certificate is there or it is not.
            state.waiting.remove(&subject);
        }
    }

    fn make(&self, subject: &Subject, now: SystemTime) -> Result<(), CertsError> {
        let parts = (self.store.upgrade(), self.maintainer.upgrade());
        let ((Some(store), Some(maintainer)), Some(plan)) = (parts, self.plan(subject)) else {
            return Ok(());
        };
        let made = self
            .ask(subject)
            .and_then(|()| maintainer.make_on_demand(&plan, subject, now));
        match made {
            Ok(pair) => {
                store.put(pair);
                self.remember(&store, subject);
                Ok(())
            }
            Err(error) => {
                maintainer.tell(Notice::NotIssued {
                    subject: subject.clone(),
                    why: error.to_string(),
                    next: now + ON_DEMAND_PAUSE,
                });
                Err(error)
            }
        }
    }

    /// Keeps the number of certificates in memory bounded: anybody can ask for names.
    fn remember(&self, store: &CertStore, subject: &Subject) {
        let mut state = self.state();
        if !state.known.insert(subject.clone()) {
            return;
        }
        state.shown.push_back(subject.clone());
        if state.shown.len() > ON_DEMAND_MAX
            && let Some(oldest) = state.shown.pop_front()
        {
            state.known.remove(&oldest);
            drop(state);
            store.remove(&oldest);
        }
    }

    /// Asks whether there may be a certificate for `subject`.
    fn ask(&self, subject: &Subject) -> Result<(), CertsError> {
        let Some(ask) = &self.ask else { return Ok(()) };
        let refuse = |what: String| CertsError::Setting { name: "ask", what };
        let joint = if ask.contains('?') { '&' } else { '?' };
        // Names hold no character that would have to be escaped; addresses hold `:` at most, which may stand there.
        let request = Request::get(format!("{ask}{joint}domain={subject}"))
            .body(Vec::new())
            .map_err(|error| refuse(error.to_string()))?;
        let answer = self.fetcher.send(request).map_err(refuse)?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(refuse(format!(
                "permission for `{subject}` is refused: status {status}"
            ))),
        }
    }
}

/// Whether a subject with `*` for whole labels stands for `name`.
pub fn covers(subject: &str, name: &str) -> bool {
    let (mut wanted, mut found) = (subject.split('.'), name.split('.'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(a), Some(b)) if a.eq_ignore_ascii_case(b) => {}
            (_, _) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::local_ca::{LocalCa, LocalCaOptions};
    use crate::storage::Storage;
    use crate::tests::TempFolder;

    /// Answers each request with the status that `status` gives for its first line; counts them.
    fn asked(status: fn(&str) -> u16) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/ask", listener.local_addr().unwrap());
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let mut buf = [0; 2048];
                let length = client.read(&mut buf).unwrap();
                let line = String::from_utf8_lossy(&buf[..length]).into_owned();
                counted.fetch_add(1, Ordering::Relaxed);
                let status = status(line.lines().next().unwrap_or_default());
                let _ = write!(
                    client,
                    "HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
        });
        (url, count)
    }

    struct Setup {
        on_demand: Arc<OnDemand>,
        store: Arc<CertStore>,
        _maintainer: Arc<Maintainer>,
        _folder: TempFolder,
    }

    fn setup(ask: Option<String>) -> Setup {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        let now = SystemTime::now();
        let ca = LocalCa::open(storage.clone(), LocalCaOptions::default(), now).unwrap();
        let plan = Arc::new(Plan::of(Arc::new(ca)));
        let maintainer = Arc::new(Maintainer::new(storage));
        let store = CertStore::new([]);
        let plans = OnDemandPlans {
            public: plan.clone(),
            local: plan,
        };
        let rules = vec![
            OnDemandRule {
                subjects: vec!["*.never.test".to_owned()],
                plans: None,
            },
            OnDemandRule {
                subjects: Vec::new(),
                plans: Some(plans),
            },
        ];
        Setup {
            on_demand: OnDemand::new(rules, ask, |_| false, &store, &maintainer),
            store,
            _maintainer: maintainer,
            _folder: folder,
        }
    }

    /// Asks for a name and waits; tells whether there was anything to wait for.
    fn demand(s: &Setup, name: &str) -> bool {
        match s.on_demand.demand(name) {
            Demand::Nothing => false,
            Demand::Wait(receiver) => {
                assert!(receiver.blocking_recv().is_err(), "the end of it tells");
                true
            }
        }
    }

    fn has(s: &Setup, name: &str) -> bool {
        s.store.covers(&Subject::parse(name).unwrap())
    }

    #[test]
    fn a_name_is_made_once_and_only_where_a_rule_says_so() {
        let s = setup(None);
        assert!(demand(&s, "a.test") && has(&s, "a.test"));
        assert!(!demand(&s, "a.test"), "it is there");
        assert!(!demand(&s, "a.never.test") && !has(&s, "a.never.test"));
        assert!(!demand(&s, "not a name"));
    }

    #[test]
    fn who_is_asked_decides_and_is_not_asked_again_at_once() {
        let (url, count) = asked(|line| {
            if line.contains("domain=yes.test ") {
                200
            } else if line.contains("away") {
                302
            } else {
                404
            }
        });
        let s = setup(Some(url));
        assert!(demand(&s, "yes.test") && has(&s, "yes.test"));
        assert!(demand(&s, "no.test") && !has(&s, "no.test"));
        assert!(demand(&s, "away.test") && !has(&s, "away.test"));
        assert!(!demand(&s, "no.test"), "it has just been refused");
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn nobody_gets_one_where_nobody_can_be_asked() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", free.local_addr().unwrap());
        drop(free);
        let s = setup(Some(url));
        assert!(demand(&s, "a.test") && !has(&s, "a.test"));
    }

    #[test]
    fn many_at_once_wait_for_one_and_too_many_names_are_turned_away() {
        let (url, count) = asked(|_| {
            std::thread::sleep(Duration::from_millis(300));
            404
        });
        let s = setup(Some(url));
        let waiting: Vec<_> = (0..50).map(|_| s.on_demand.demand("a.test")).collect();
        assert!(waiting.iter().all(|d| matches!(d, Demand::Wait(_))));
        let names = 0..2 * ON_DEMAND_NAMES_MAX;
        let taken =
            names.filter(|n| matches!(s.on_demand.demand(&format!("n{n}.test")), Demand::Wait(_)));
        assert!(taken.count() <= ON_DEMAND_NAMES_MAX);
        let threads = s.on_demand.state().threads;
        assert_eq!(threads, ON_DEMAND_THREADS_MAX);
        assert!(count.load(Ordering::Relaxed) <= 2 * ON_DEMAND_THREADS_MAX);
        s.on_demand.state().queue.clear();
    }
}
