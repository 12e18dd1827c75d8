//! On-demand certificates, obtained or issued when a client first requests a name: permissions, concurrency and waiting
//! handshakes. `maintain` issues certificates, `sources` obtains them elsewhere, and `sluice-net` suspends the
//! handshake.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use sluice_dns::fetch::{FetchOptions, Fetcher};
use tokio::sync::oneshot;
use ureq::http::Request;

use crate::failure::{CertsError, Notice};
use crate::limits::{
    ASK_TIMEOUT, ON_DEMAND_MAX, ON_DEMAND_NAMES_MAX, ON_DEMAND_PAUSE, ON_DEMAND_THREADS_MAX,
    ON_DEMAND_WAITERS_MAX, SOURCE_PAUSE,
};
use crate::maintain::{Maintainer, Plan};
use crate::pair::Pair;
use crate::permission::Permission;
use crate::renewal::seed_of;
use crate::sources::{Hello, Source};
use crate::store::CertStore;
use crate::subject::Subject;

/// A rule for a set of names; the first rule that covers a name applies.
pub struct OnDemandRule {
    /// Names, in which `*` stands for a label; all names if empty.
    pub subjects: Vec<String>,
    /// Certificate sources to try before issuing, in order.
    pub sources: Vec<Source>,
    /// How to issue certificates during handshakes; `None` to issue none.
    pub plans: Option<OnDemandPlans>,
}

/// How certificates of a rule are issued.
pub struct OnDemandPlans {
    /// For names eligible for a public CA.
    pub public: Arc<Plan>,
    /// For all other names.
    pub local: Arc<Plan>,
}

/// Obtains certificates during handshakes, for one configuration.
pub struct OnDemand {
    rules: Vec<OnDemandRule>,
    /// What permits names; if nothing does, only the local CA issues certificates.
    permission: Option<Permission>,
    fetcher: Fetcher,
    /// Whether a name is not eligible for a public CA.
    is_local: fn(&str) -> bool,
    store: Weak<CertStore>,
    maintainer: Weak<Maintainer>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Handshakes waiting for each name that is being processed or queued.
    waiting: HashMap<Subject, Vec<oneshot::Sender<()>>>,
    /// Names waiting for a thread, with the ClientHello data of the first client.
    queue: VecDeque<(Subject, Hello)>,
    /// Number of running threads.
    threads: usize,
    /// Names that were refused or failed, and when they may be tried again.
    refused: VecDeque<(Subject, SystemTime)>,
    /// Served certificates, the oldest first.
    shown: VecDeque<Subject>,
    known: HashSet<Subject>,
    /// Names whose certificate is from a source, and when it was fetched.
    fetched: HashMap<Subject, SystemTime>,
}

/// What a handshake has to wait for.
pub(crate) enum Demand {
    /// Nothing.
    Nothing,
    /// A certificate that is being obtained.
    Wait(oneshot::Receiver<()>),
}

impl OnDemand {
    /// Obtains certificates by `rules` for `store`, for names that have the permission.
    pub fn new(
        rules: Vec<OnDemandRule>,
        permission: Option<Permission>,
        is_local: fn(&str) -> bool,
        store: &Arc<CertStore>,
        maintainer: &Arc<Maintainer>,
    ) -> Arc<OnDemand> {
        Arc::new(OnDemand {
            rules,
            permission,
            fetcher: Fetcher::new(&FetchOptions {
                timeout: ASK_TIMEOUT,
                // As in Caddy, the endpoint must respond itself.
                redirects: 0,
                ..FetchOptions::default()
            }),
            is_local,
            store: Arc::downgrade(store),
            maintainer: Arc::downgrade(maintainer),
            state: Mutex::default(),
        })
    }

    /// What a handshake for `name` has to wait for. If the certificate is due for renewal, the handshake does not wait,
    /// but the renewal starts.
    pub(crate) fn demand(self: &Arc<Self>, name: &str, hello: impl FnOnce() -> Hello) -> Demand {
        let Ok(subject) = Subject::parse(name) else {
            return Demand::Nothing;
        };
        let Some(store) = self.store.upgrade() else {
            return Demand::Nothing;
        };
        let Some(rule) = self.rule(&subject) else {
            return Demand::Nothing;
        };
        let now = SystemTime::now();
        let shown = store.pair_for(&subject);
        let is_served = shown
            .as_ref()
            .is_some_and(|pair| !pair.lifetime.has_ended(now));
        if let Some(pair) = &shown
            && is_served
        {
            if self.is_due(rule, &subject, pair, now) {
                self.begin(subject, hello, None, now);
            }
            return Demand::Nothing;
        }
        let (sender, receiver) = oneshot::channel();
        if self.begin(subject, hello, Some(sender), now) {
            Demand::Wait(receiver)
        } else {
            Demand::Nothing
        }
    }

    /// Whether `name` is an on-demand name without a certificate, so that no other certificate may be served for it.
    pub(crate) fn is_missing(&self, name: &str) -> bool {
        let Ok(subject) = Subject::parse(name) else {
            return false;
        };
        let is_shown = self.store.upgrade().is_some_and(|s| s.covers(&subject));
        !is_shown && self.rule(&subject).is_some()
    }

    /// The rule for `subject`, if it provides certificates.
    fn rule(&self, subject: &Subject) -> Option<&OnDemandRule> {
        let name = subject.to_string();
        let covers = |rule: &&OnDemandRule| {
            rule.subjects.is_empty() || rule.subjects.iter().any(|s| covers(s, &name))
        };
        let rule = self.rules.iter().find(covers)?;
        Some(rule).filter(|rule| rule.plans.is_some() || !rule.sources.is_empty())
    }

    /// How a certificate for `subject` is issued if no source has one.
    fn plan(&self, rule: &OnDemandRule, subject: &Subject) -> Option<Arc<Plan>> {
        let plans = rule.plans.as_ref()?;
        let is_local = (self.is_local)(&subject.to_string());
        Some(
            if is_local {
                &plans.local
            } else {
                &plans.public
            }
            .clone(),
        )
    }

    /// Whether a served certificate has to be renewed, or fetched again.
    fn is_due(&self, rule: &OnDemandRule, subject: &Subject, pair: &Pair, now: SystemTime) -> bool {
        if !rule.sources.is_empty()
            && let Some(got) = self.state().fetched.get(subject)
        {
            return *got + SOURCE_PAUSE <= now;
        }
        let seed = seed_of(&subject.to_string());
        let plan = self.plan(rule, subject);
        let is_late = plan.is_some_and(|plan| plan.renewal_at(pair, seed) <= now);
        is_late && self.state().known.contains(subject)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every single change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a name, unless it was just refused or the queue is full; returns whether `waiter` will be notified.
    fn begin(
        self: &Arc<Self>,
        subject: Subject,
        hello: impl FnOnce() -> Hello,
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
        state.queue.push_back((subject, hello()));
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
            // Waiting handshakes notice because their channels are closed.
            let mut state = self.state();
            state.threads -= 1;
            if state.threads == 0 {
                state.queue.clear();
                state.waiting.clear();
            }
        }
        true
    }

    /// Obtains certificates until the queue is empty.
    fn work(&self) {
        loop {
            let mut state = self.state();
            let Some((subject, hello)) = state.queue.pop_front() else {
                state.threads -= 1;
                return;
            };
            drop(state);
            let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.make(&subject, &hello, SystemTime::now())
            }));
            let mut state = self.state();
            if !matches!(made, Ok(Ok(()))) {
                if state.refused.len() >= ON_DEMAND_NAMES_MAX {
                    state.refused.pop_front();
                }
                let until = SystemTime::now() + ON_DEMAND_PAUSE;
                state.refused.push_back((subject.clone(), until));
            }
            // Dropping the senders notifies the handshakes; the certificate is either there or not.
            state.waiting.remove(&subject);
        }
    }

    fn make(&self, subject: &Subject, hello: &Hello, now: SystemTime) -> Result<(), CertsError> {
        let parts = (self.store.upgrade(), self.maintainer.upgrade());
        let ((Some(store), Some(maintainer)), Some(rule)) = (parts, self.rule(subject)) else {
            return Ok(());
        };
        let made = match fetch(rule, subject, hello, now) {
            Ok(Some(pair)) => Ok((Arc::new(pair), true)),
            Ok(None) => {
                if self.state().fetched.remove(subject).is_some() {
                    store.remove(subject);
                }
                self.issue(rule, subject, &maintainer, now)
                    .map(|pair| (pair, false))
            }
            Err(error) => Err(error),
        };
        match made {
            Ok((pair, is_fetched)) => {
                if is_fetched {
                    self.state().fetched.insert(subject.clone(), now);
                }
                let names = pair.subjects.clone();
                store.put(pair);
                maintainer.notify(Notice::Served { names });
                self.remember(&store, subject);
                Ok(())
            }
            Err(error) => {
                let plan = self.plan(rule, subject);
                maintainer.notify(Notice::NotIssued {
                    subject: subject.clone(),
                    renewal: store.pair_for(subject).is_some(),
                    issuers: plan.map_or_else(Vec::new, |plan| plan.issuer_ids()),
                    why: error.to_string(),
                    next: now + ON_DEMAND_PAUSE,
                });
                Err(error)
            }
        }
    }

    /// Obtains a certificate from an issuer of the rule.
    fn issue(
        &self,
        rule: &OnDemandRule,
        subject: &Subject,
        maintainer: &Arc<Maintainer>,
        now: SystemTime,
    ) -> Result<Arc<Pair>, CertsError> {
        let Some(plan) = self.plan(rule, subject) else {
            return Err(CertsError::Setting {
                name: "get_certificate",
                what: format!("no certificate manager has a certificate for `{subject}`"),
            });
        };
        self.ask(subject)?;
        maintainer.make_on_demand(&plan, subject, now)
    }

    /// Bounds the number of certificates in memory: clients can request any name.
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
            state.fetched.remove(&oldest);
            drop(state);
            store.remove(&oldest);
        }
    }

    /// Whether `subject` has the permission.
    fn ask(&self, subject: &Subject) -> Result<(), CertsError> {
        let ask = match &self.permission {
            None => return Ok(()),
            Some(Permission::Endpoint(ask)) => ask,
            Some(Permission::Folders(folders)) => {
                return match folders.permits(&subject.to_string()) {
                    true => Ok(()),
                    false => Err(CertsError::Setting {
                        name: "permission",
                        what: format!("`{subject}` has no folder"),
                    }),
                };
            }
        };
        let refuse = |what: String| CertsError::Setting { name: "ask", what };
        let joint = if ask.contains('?') { '&' } else { '?' };
        // Names contain nothing that needs escaping; IP addresses at most `:`, which is allowed there.
        let request = Request::get(format!("{ask}{joint}domain={subject}"))
            .body(Vec::new())
            .map_err(|error| refuse(error.to_string()))?;
        let response = self.fetcher.send(request).map_err(refuse)?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(refuse(format!(
                "permission for `{subject}` was denied: status {status}"
            ))),
        }
    }
}

/// The certificate of the first source that has one. If none has one and one failed, that is an error: as in Caddy, the
/// failed source may have a certificate, and meanwhile none must be issued.
fn fetch(
    rule: &OnDemandRule,
    subject: &Subject,
    hello: &Hello,
    now: SystemTime,
) -> Result<Option<Pair>, CertsError> {
    let mut failed = None;
    for source in &rule.sources {
        match source.ask(subject, hello, now) {
            Ok(Some(pair)) => return Ok(Some(pair)),
            Ok(None) => {}
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(None), Err)
}

/// Whether a subject with `*` for whole labels covers `name`.
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
    use crate::sources::SourceOptions;
    use crate::storage::Storage;
    use crate::storage::StoredPair;
    use crate::tests::{TempFolder, TestCa};

    /// Responds to each request with the status that `status` returns for its first line, and counts them.
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
        let permission = ask.map(Permission::Endpoint);
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
                sources: Vec::new(),
                plans: None,
            },
            OnDemandRule {
                subjects: Vec::new(),
                sources: Vec::new(),
                plans: Some(plans),
            },
        ];
        Setup {
            on_demand: OnDemand::new(rules, permission, |_| false, &store, &maintainer),
            store,
            _maintainer: maintainer,
            _folder: folder,
        }
    }

    /// Requests a name and waits; returns whether there was anything to wait for.
    fn demand(s: &Setup, name: &str) -> bool {
        match s.on_demand.demand(name, Hello::default) {
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
    fn no_certificate_is_ordered_if_the_permission_check_fails() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", free.local_addr().unwrap());
        drop(free);
        let s = setup(Some(url));
        assert!(demand(&s, "a.test") && !has(&s, "a.test"));
    }

    #[test]
    fn many_at_once_wait_for_one_and_too_many_names_are_turned_away() {
        let (url, count) = asked(|_| {
            // All ask before the first gets a response.
            std::thread::sleep(Duration::from_millis(300));
            404
        });
        let s = setup(Some(url));
        let waiting: Vec<_> = (0..50)
            .map(|_| s.on_demand.demand("a.test", Hello::default))
            .collect();
        assert!(waiting.iter().all(|d| matches!(d, Demand::Wait(_))));
        let names = 0..2 * ON_DEMAND_NAMES_MAX;
        let taken = names.filter(|n| {
            matches!(
                s.on_demand.demand(&format!("n{n}.test"), Hello::default),
                Demand::Wait(_)
            )
        });
        assert!(taken.count() <= ON_DEMAND_NAMES_MAX);
        let threads = s.on_demand.state().threads;
        assert_eq!(threads, ON_DEMAND_THREADS_MAX);
        assert!(count.load(Ordering::Relaxed) <= 2 * ON_DEMAND_THREADS_MAX);
        s.on_demand.state().queue.clear();
    }

    /// Issues certificates of a CA. The thread of an endpoint outlives the test, the CA and its directory do not.
    fn issuing(ca: &Arc<TestCa>) -> impl Fn(&str) -> StoredPair + Send + use<> {
        let ca = Arc::downgrade(ca);
        move |subject| ca.upgrade().expect("the test runs").issue(subject)
    }

    /// An endpoint that responds with status and body by the requested name, and counts the requests.
    fn endpoint(
        response: impl Fn(&str) -> (u16, Vec<u8>) + Send + 'static,
    ) -> (Source, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/cert", listener.local_addr().unwrap());
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let mut buf = [0; 4096];
                let length = client.read(&mut buf).unwrap();
                let text = String::from_utf8_lossy(&buf[..length]).into_owned();
                counted.fetch_add(1, Ordering::Relaxed);
                let name = text.split(['=', '&']).nth(1).unwrap_or_default();
                let (status, body) = response(name);
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                let _ = client.write_all(&[head.as_bytes(), &body].concat());
            }
        });
        (Source::new(&SourceOptions::http(&url).unwrap()), count)
    }

    /// A setup with sources instead of issuers.
    fn with_sources(sources: Vec<Source>) -> Setup {
        let s = setup(None);
        let rules = vec![OnDemandRule {
            subjects: Vec::new(),
            sources,
            plans: None,
        }];
        let maintainer = &s._maintainer;
        Setup {
            on_demand: OnDemand::new(rules, None, |_| false, &s.store, maintainer),
            ..s
        }
    }

    fn bundle(pair: &StoredPair) -> Vec<u8> {
        [pair.certificate.as_slice(), &pair.key].concat()
    }

    #[test]
    fn a_fetched_certificate_is_used_for_the_requested_name() {
        let ca = Arc::new(TestCa::new());
        let issue = issuing(&ca);
        let (source, count) = endpoint(move |name| match name {
            "a.test" | "b.test" => (200, bundle(&issue("*.test"))),
            "other.test" => (200, bundle(&issue("a.test"))),
            "half.test" => (200, issue("half.test").certificate),
            "garbage.test" => (200, b"no certificate".to_vec()),
            "fails.test" => (500, bundle(&issue("fails.test"))),
            "moved.test" => (201, bundle(&issue("moved.test"))),
            _ => (204, Vec::new()),
        });
        let s = with_sources(vec![source]);
        assert!(demand(&s, "a.test") && has(&s, "a.test"));
        assert!(!demand(&s, "a.test"), "it is kept");
        assert!(!has(&s, "b.test"), "there may be a better one for it");
        assert!(demand(&s, "b.test") && has(&s, "b.test"));
        for name in ["other", "half", "garbage", "fails", "moved", "none"] {
            let name = format!("{name}.test");
            assert!(demand(&s, &name) && !has(&s, &name), "{name}");
            assert!(s.on_demand.is_missing(&name), "{name}");
            assert!(!demand(&s, &name), "{name} is not asked for again at once");
        }
        assert_eq!(count.load(Ordering::Relaxed), 8);
    }

    #[test]
    fn a_source_that_has_nothing_is_passed_and_one_that_fails_lets_nobody_make_one() {
        let ca = Arc::new(TestCa::new());
        let issue = issuing(&ca);
        let (none, _) = endpoint(|_| (204, Vec::new()));
        let (some, _) = endpoint(move |_| (200, bundle(&issue("a.test"))));
        let s = with_sources(vec![none, some]);
        assert!(demand(&s, "a.test") && has(&s, "a.test"));

        let (source, _) = endpoint(|name| match name {
            "fails.test" => (500, Vec::new()),
            _ => (204, Vec::new()),
        });
        let Ok(mut on_demand) = Arc::try_unwrap(setup(None).on_demand) else {
            panic!("nobody else holds it");
        };
        let s = setup(None);
        on_demand.rules.remove(0);
        on_demand.rules[0].sources.push(source);
        let rules = on_demand.rules;
        let maintainer = &s._maintainer;
        let s = Setup {
            on_demand: OnDemand::new(rules, None, |_| false, &s.store, maintainer),
            ..s
        };
        assert!(demand(&s, "none.test") && has(&s, "none.test"));
        assert!(demand(&s, "fails.test") && !has(&s, "fails.test"));
    }

    #[test]
    fn what_was_handed_out_is_asked_for_again_in_the_background_and_may_be_withdrawn() {
        let ca = Arc::new(TestCa::new());
        let issue = issuing(&ca);
        let step = Arc::new(AtomicUsize::new(0));
        let now = step.clone();
        let (source, count) = endpoint(move |_| match now.load(Ordering::Relaxed) {
            0 => (200, bundle(&issue("a.test"))),
            1 => (500, Vec::new()),
            _ => (204, Vec::new()),
        });
        let s = with_sources(vec![source]);
        assert!(demand(&s, "a.test") && has(&s, "a.test"));
        let subject = Subject::parse("a.test").unwrap();
        for (at, stays) in [(1, true), (2, false)] {
            step.store(at, Ordering::Relaxed);
            let long_ago = SystemTime::now() - SOURCE_PAUSE;
            {
                let mut state = s.on_demand.state();
                state.fetched.insert(subject.clone(), long_ago);
                state.refused.clear();
            }
            assert!(!demand(&s, "a.test"), "nobody waits for it");
            let is_done = || s.on_demand.state().waiting.is_empty();
            crate::tests::wait::eventually("the request", is_done, String::new);
            assert_eq!(has(&s, "a.test"), stays);
        }
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }
}
