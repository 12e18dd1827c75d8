//! Issuance and renewal in virtual time.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use pki_types::CertificateDer;
use sluice_store::memory::MemoryStore;
use sluice_store::{FileStore, LocalCopy, Store};

use super::*;
use crate::issuer::{Issued, Request};
use crate::limits::{LEAF_LIFETIME, REFUSED_PAUSE, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN};
use crate::local_ca::{LocalCa, LocalCaOptions};
use crate::renewal::Advice;
use crate::tests::TempFolder;

/// A local CA that counts its calls and can be made to fail.
struct Flaky {
    ca: LocalCa,
    fails: AtomicBool,
    issued: AtomicU32,
}

impl Issuer for Flaky {
    fn id(&self) -> &str {
        self.ca.id()
    }
    fn issue(&self, request: &Request<'_>, now: SystemTime) -> Result<Issued, CertsError> {
        self.issued.fetch_add(1, Ordering::Relaxed);
        if self.fails.load(Ordering::Relaxed) {
            return Err(CertsError::Signing("no luck".to_owned()));
        }
        self.ca.issue(request, now)
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
    maintainer: Arc<Maintainer>,
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
    let maintainer = Arc::new(Maintainer::new(storage));
    maintainer.add_issuer(&(issuer.clone() as Arc<dyn Issuer>));
    let store = CertStore::new([]);
    provide(&maintainer, &store, &issuer, subjects, start).unwrap();
    Setup {
        folder,
        maintainer,
        issuer,
        store,
        start,
    }
}

/// Provides and keeps certificates of one issuer.
fn provide(
    maintainer: &Maintainer,
    store: &Arc<CertStore>,
    issuer: &Arc<impl Issuer + 'static>,
    subjects: &[&str],
    now: SystemTime,
) -> Result<(), CertsError> {
    let plan = Arc::new(Plan::of(issuer.clone()));
    maintainer.keep(maintainer.provide(store, &plan, &parsed(subjects), now)?);
    Ok(())
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
        .choose(
            Some(name),
            None,
            &fallback,
            crate::selection::Unmatched::Refuse,
            |_| true,
        )
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
        plan: "local".to_owned(),
        subject: Subject::parse(subject).unwrap(),
    };
    let mut due = s.maintainer.due(later);
    due.sort();
    assert_eq!(due, [renew("a.test"), renew("b.test")]);
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
    provide(&s.maintainer, &second, &s.issuer, &["a.test"], s.start).unwrap();
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
        restarted.add_issuer(&(s.issuer.clone() as Arc<dyn Issuer>));
        let store = CertStore::new([]);
        provide(&restarted, &store, &s.issuer, &["a.test"], s.start).unwrap();
        assert_ne!(shown(&store, "a.test"), old);
        let notices = restarted.take_notices();
        assert!(matches!(notices[0], Notice::Replaced { .. }), "{notices:?}");
    }
    // The root has changed because the stored CA was deleted.
    let s = setup(&["a.test"]);
    fs::remove_dir_all(s.folder.path().join("pki")).unwrap();
    let storage = Storage::new(s.folder.path());
    let ca = LocalCa::open(storage, LocalCaOptions::default(), s.start).unwrap();
    let store = CertStore::new([]);
    provide(&s.maintainer, &store, &Arc::new(ca), &["a.test"], s.start).unwrap();
    assert_ne!(shown(&store, "a.test"), shown(&s.store, "a.test"));
}

#[test]
fn a_certificate_that_cannot_be_stored_is_still_shown() {
    let s = setup(&[]);
    // A file in place of a directory simulates a full or read-only disk, even for root.
    fs::write(s.folder.path().join("certificates"), b"in the way").unwrap();
    provide(&s.maintainer, &s.store, &s.issuer, &["a.test"], s.start).unwrap();
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
    let failed = provide(&s.maintainer, &s.store, &s.issuer, &["a.test"], s.start);
    assert!(failed.is_err() && s.store.is_empty());
}

/// A remote CA: each order blocks until it is released.
struct Remote {
    ca: LocalCa,
    response: Mutex<Box<dyn FnMut() -> Result<(), CertsError> + Send>>,
    advice: Mutex<Option<Advice>>,
}

impl Issuer for Remote {
    fn id(&self) -> &str {
        "remote"
    }
    fn issue(&self, request: &Request<'_>, now: SystemTime) -> Result<Issued, CertsError> {
        (*self.response.lock().unwrap())()?;
        self.ca.issue(request, now)
    }
    fn accepts(&self, _chain: &[CertificateDer<'_>]) -> bool {
        true
    }
    fn renewal_share(&self) -> f64 {
        1.0 / 3.0
    }
    fn is_remote(&self) -> bool {
        true
    }
    fn advice(&self, _pair: &Pair, _now: SystemTime) -> Option<Result<Advice, CertsError>> {
        self.advice.lock().unwrap().map(Ok)
    }
}

fn remote(
    s: &Setup,
    response: impl FnMut() -> Result<(), CertsError> + Send + 'static,
) -> Arc<Remote> {
    let storage = Storage::new(s.folder.path());
    Arc::new(Remote {
        ca: LocalCa::open(storage, LocalCaOptions::default(), s.start).unwrap(),
        response: Mutex::new(Box::new(response)),
        advice: Mutex::new(None),
    })
}

/// Starts the due jobs and waits for them.
fn finish(maintainer: &Arc<Maintainer>, now: SystemTime) {
    maintainer.tick(now);
    while !maintainer.state().under_way.is_empty() {
        maintainer.bell().wait(Duration::from_millis(20));
    }
}

#[test]
fn an_order_holds_nobody_up_and_its_name_gets_no_other_certificate_meanwhile() {
    let s = setup(&["a.test"]);
    let (let_through, wait) = std::sync::mpsc::sync_channel::<()>(1);
    let authority = remote(&s, move || {
        wait.recv().unwrap();
        Ok(())
    });
    provide(&s.maintainer, &s.store, &authority, &["r.test"], s.start).unwrap();
    assert_eq!(s.maintainer.tick(s.start).len(), 0);
    assert_eq!(s.maintainer.due(s.start), [], "it is under way");
    let choose = |name| {
        let fallback = crate::store::Fallback::default();
        s.store.choose(
            Some(name),
            None,
            &fallback,
            crate::selection::Unmatched::Refuse,
            |_| true,
        )
    };
    assert!(choose("r.test").is_none() && choose("a.test").is_some());
    let_through.send(()).unwrap();
    finish(&s.maintainer, s.start);
    assert!(choose("r.test").is_some());
    let stored = s.folder.path().join("certificates/remote/r.test");
    assert!(stored.join("r.test.json").exists());
    let locks: Vec<_> = fs::read_dir(s.folder.path().join("locks"))
        .unwrap()
        .collect();
    assert_eq!(
        locks.len(),
        1,
        "the lock of the order is given back: {locks:?}"
    );
}

#[test]
fn no_certificate_is_ordered_that_could_not_be_stored_unless_allowed() {
    let s = setup(&[]);
    let orders = Arc::new(AtomicU32::new(0));
    let counted = orders.clone();
    let authority = remote(&s, move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let place = s.folder.path().join("a file");
    fs::write(&place, "").unwrap();
    let maintainer = Arc::new(Maintainer::new(Storage::new(place)));
    provide(&maintainer, &s.store, &authority, &["r.test"], s.start).unwrap();
    finish(&maintainer, s.start);
    assert_eq!(orders.load(Ordering::Relaxed), 0);
    let notices = maintainer.take_notices();
    let said = notices.iter().map(ToString::to_string).collect::<String>();
    assert!(said.contains("a file"), "{said}");
    maintainer.set_rhythm(Rhythm {
        tries_storage: false,
        ..Rhythm::default()
    });
    finish(&maintainer, s.start + RETRY_PAUSE_MAX * 24);
    assert_eq!(orders.load(Ordering::Relaxed), 1);
    assert!(!s.store.is_empty(), "it is shown from memory");
}

#[test]
fn a_configuration_that_is_not_kept_orders_nothing() {
    let s = setup(&[]);
    let authority = remote(&s, || panic!("an order"));
    let plan = Arc::new(Plan::of(authority));
    let found = s
        .maintainer
        .provide(&s.store, &plan, &parsed(&["r.test"]), s.start)
        .unwrap();
    assert_eq!(s.maintainer.due(s.start), []);
    drop(found);
}

#[test]
fn the_next_issuer_is_asked_where_one_fails() {
    let s = setup(&[]);
    let dead = remote(&s, || {
        Err(CertsError::Authority {
            issuer: "dead".to_owned(),
            fault: crate::Fault::Unreachable,
            what: "nobody is there".to_owned(),
            retry_at: None,
        })
    });
    let plan = Plan {
        issuers: vec![dead, s.issuer.clone()],
        ..Plan::of(s.issuer.clone())
    };
    let found = s
        .maintainer
        .provide(&s.store, &Arc::new(plan), &parsed(&["r.test"]), s.start)
        .unwrap();
    s.maintainer.keep(found);
    finish(&s.maintainer, s.start);
    assert!(!shown(&s.store, "r.test").is_empty());
    let notices = s.maintainer.take_notices();
    assert!(
        notices.iter().any(|n| matches!(n, Notice::Passed { .. })),
        "{notices:?}"
    );
}

#[test]
fn an_authority_that_asks_to_wait_is_left_alone_until_then() {
    let s = setup(&[]);
    let until = s.start + Duration::from_secs(7200);
    let authority = remote(&s, move || {
        Err(CertsError::Authority {
            issuer: "busy".to_owned(),
            fault: crate::Fault::Busy,
            what: "too many".to_owned(),
            retry_at: Some(until),
        })
    });
    provide(&s.maintainer, &s.store, &authority, &["r.test"], s.start).unwrap();
    finish(&s.maintainer, s.start);
    assert_eq!(s.maintainer.due(until - Duration::from_secs(1)), []);
    assert_eq!(s.maintainer.due(until).len(), 1);
}

#[test]
fn advice_moves_a_renewal_and_is_asked_for_again() {
    let s = setup(&[]);
    let authority = remote(&s, || Ok(()));
    provide(&s.maintainer, &s.store, &authority, &["r.test"], s.start).unwrap();
    finish(&s.maintainer, s.start);
    let hours = |n: u64| s.start + Duration::from_secs(3600 * n);
    *authority.advice.lock().unwrap() = Some(Advice {
        start: hours(1),
        end: hours(1),
        ask_again: hours(3),
    });
    // The thread uses the real clock, which is close to the start.
    let soon = s.start + Duration::from_secs(30);
    assert!(matches!(s.maintainer.due(soon)[..], [Job::Ask { .. }]));
    finish(&s.maintainer, soon);
    assert_eq!(s.maintainer.due(soon), []);
    let old = shown(&s.store, "r.test");
    assert!(matches!(
        s.maintainer.due(hours(1))[..],
        [Job::Renew { .. }]
    ));
    let job = s.maintainer.due(hours(1)).remove(0);
    s.maintainer.run(&job, hours(1)).unwrap();
    assert_ne!(shown(&s.store, "r.test"), old);
}

#[test]
fn a_certificate_that_another_process_has_renewed_is_taken_from_storage() {
    let s = setup(&[]);
    let count = Arc::new(AtomicU32::new(0));
    let counted = count.clone();
    let authority = remote(&s, move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let process = || {
        let maintainer = Arc::new(Maintainer::new(Storage::new(s.folder.path())));
        let store = CertStore::new([]);
        provide(&maintainer, &store, &authority, &["r.test"], s.start).unwrap();
        (maintainer, store)
    };
    let ((one, first), (two, second)) = (process(), process());
    finish(&one, s.start);
    finish(&two, s.start);
    assert_eq!(shown(&first, "r.test"), shown(&second, "r.test"));
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn kept_keys_stay_over_a_renewal() {
    let s = setup(&[]);
    let key_after_renewal = |keeps_keys, name: &str| {
        let plan = Plan {
            id: name.to_owned(),
            keeps_keys,
            ..Plan::of(s.issuer.clone())
        };
        let found = s
            .maintainer
            .provide(&s.store, &Arc::new(plan), &parsed(&[name]), s.start)
            .unwrap();
        s.maintainer.keep(found);
        let path = format!("certificates/local/{name}/{name}.key");
        let key = || fs::read(s.folder.path().join(&path)).unwrap();
        let before = key();
        let job = Job::Renew {
            plan: name.to_owned(),
            subject: Subject::parse(name).unwrap(),
        };
        s.maintainer.run(&job, s.start).unwrap();
        (before, key())
    };
    let (before, after) = key_after_renewal(true, "kept.test");
    assert_eq!(before, after);
    let (before, after) = key_after_renewal(false, "new.test");
    assert_ne!(before, after);
}

#[test]
fn every_plan_of_an_authority_is_kept_up() {
    let s = setup(&["a.test"]);
    let storage = Storage::new(s.folder.path());
    let options = LocalCaOptions {
        leaf_lifetime: LEAF_LIFETIME / 2,
        ..Default::default()
    };
    let other = Arc::new(LocalCa::open(storage, options, s.start).unwrap());
    s.maintainer.add_issuer(&(other.clone() as Arc<dyn Issuer>));
    let before = s.issuer.ca.intermediate_pem();
    let days = s.start + Duration::from_secs(5 * 86_400);
    assert!(s.maintainer.tick(days).iter().all(|o| o.result.is_ok()));
    assert_ne!(s.issuer.ca.intermediate_pem(), before);
    assert_eq!(s.issuer.ca.intermediate_pem(), other.intermediate_pem());
}

/// A node of a fleet: its maintainer, and what it serves.
struct Node {
    maintainer: Arc<Maintainer>,
    store: Arc<CertStore>,
}

/// A node with this storage, whose orders `response` counts.
fn node(
    s: &Setup,
    storage: &Storage,
    response: impl FnMut() -> Result<(), CertsError> + Send + 'static,
) -> Node {
    let maintainer = Arc::new(Maintainer::new(storage.clone()));
    let store = CertStore::new([]);
    provide(
        &maintainer,
        &store,
        &remote(s, response),
        &["r.test"],
        s.start,
    )
    .unwrap();
    Node { maintainer, store }
}

#[test]
fn of_several_nodes_one_orders_and_the_others_serve_its_certificate() {
    let s = setup(&[]);
    let storage = Storage::shared(Arc::new(MemoryStore::new()));
    let orders = Arc::new(AtomicU32::new(0));
    let nodes: Vec<Node> = (0..3)
        .map(|_| {
            let orders = orders.clone();
            node(&s, &storage, move || {
                orders.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        })
        .collect();
    std::thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(|| finish(&node.maintainer, s.start));
        }
    });
    assert_eq!(orders.load(Ordering::Relaxed), 1);
    let first = shown(&nodes[0].store, "r.test");
    assert!(nodes.iter().all(|n| shown(&n.store, "r.test") == first));
}

#[test]
fn a_certificate_of_another_node_is_served_as_soon_as_it_is_stored() {
    let s = setup(&[]);
    let storage = Storage::shared(Arc::new(MemoryStore::new()));
    let waiting = node(&s, &storage, || panic!("an order"));
    let mut watch = storage.watch().unwrap();
    let ordering = node(&s, &storage, || Ok(()));
    finish(&ordering.maintainer, s.start);
    assert!(waiting.store.is_empty());
    while waiting.store.is_empty() {
        let changes = watch.next(Duration::from_secs(30)).unwrap();
        assert!(!changes.is_empty(), "the certificate did not arrive");
        waiting.maintainer.take_changes(&storage, &changes);
    }
    let served = shown(&ordering.store, "r.test");
    assert_eq!(shown(&waiting.store, "r.test"), served);
    assert_eq!(waiting.maintainer.due(s.start), []);
    // An older one does not replace it.
    storage.write_pair(STORED, &issued_before(&s)).unwrap();
    let changes = watch.next(Duration::from_secs(30)).unwrap();
    waiting.maintainer.take_changes(&storage, &changes);
    assert_eq!(shown(&waiting.store, "r.test"), served);
}

/// What the certificate of the nodes is called in their storage.
const STORED: &str = "certificates/remote/r.test/r.test";

/// A certificate for the nodes, issued an hour before the test began.
fn issued_before(s: &Setup) -> crate::storage::StoredPair {
    let storage = Storage::new(s.folder.path());
    let ca = LocalCa::open(storage, LocalCaOptions::default(), s.start).unwrap();
    let key = crate::KeyType::default().generate().unwrap();
    let leaf = crate::Leaf {
        subjects: &parsed(&["r.test"]),
        serial: None,
        from: None,
        length: LEAF_LIFETIME,
        by_root: false,
    };
    let old = s.start - Duration::from_secs(3600);
    let signed = ca.sign(&key, &leaf, old).unwrap();
    crate::storage::StoredPair {
        certificate: signed.chain.into_bytes(),
        key: key.serialize_pem().into_bytes(),
    }
}

/// The copy of a node has missed what the watch has missed.
#[test]
fn what_was_missed_is_taken_from_the_engine_although_its_copy_stands_in() {
    let s = setup(&[]);
    let engine = MemoryStore::new();
    let folder = TempFolder::new();
    let copy = LocalCopy::new(Arc::new(engine.clone()), FileStore::new(folder.path()));
    let storage = Storage::shared(Arc::new(copy));
    let waiting = node(&s, &storage, || panic!("an order"));
    let direct = Storage::shared(Arc::new(engine.clone()));
    let ordering = node(&s, &direct, || Ok(()));
    finish(&ordering.maintainer, s.start);
    let token = "acme/ca/challenge_tokens/a.test.json";
    let challenge = r#"{"type":"http-01","token":"tok","keyAuthorization":"tok.thumb"}"#;
    direct.write(token, challenge.as_bytes()).unwrap();
    // From now on the engine counts as away for a while.
    engine.fail_next(1, sluice_store::Fault::Away);
    assert!(storage.read("x").is_err());
    assert!(storage.store().copy().unwrap().is_in_use);
    waiting.maintainer.catch_up(&storage, s.start).unwrap();
    let served = shown(&ordering.store, "r.test");
    assert_eq!(shown(&waiting.store, "r.test"), served);
    let responds = || {
        let path = format!("{}tok", crate::challenges::HTTP_PREFIX);
        let challenges = waiting.maintainer.challenges();
        challenges.http_response(path.as_bytes()).is_some()
    };
    assert!(responds());
    // Its end was missed as well.
    direct.remove(token).unwrap();
    waiting.maintainer.catch_up(&storage, s.start).unwrap();
    assert!(!responds());
    // Nothing is known to be there while the engine is away.
    engine.fail_with(Some(sluice_store::Fault::Away));
    assert!(waiting.maintainer.catch_up(&storage, s.start).is_err());
}

/// A node whose lock another one has taken while it ordered, and who has stored nothing yet. Orders are counted.
fn refused(s: &Setup, engine: &MemoryStore) -> (Node, Arc<AtomicU32>) {
    let storage = Storage::shared(Arc::new(engine.clone()));
    let (engine, orders) = (engine.clone(), Arc::<AtomicU32>::default());
    let counted = orders.clone();
    let slow = node(s, &storage, move || {
        engine.break_lease("issue_cert_r.test").unwrap();
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    finish(&slow.maintainer, s.start);
    assert_eq!(storage.read(&format!("{STORED}.crt")).unwrap(), None);
    (slow, orders)
}

/// The renewals that are due.
fn renewals(node: &Node, at: SystemTime) -> Vec<Job> {
    let mut due = node.maintainer.due(at);
    due.retain(|job| matches!(job, Job::Renew { .. }));
    due
}

#[test]
fn the_certificate_of_the_node_that_took_over_counts_although_it_was_issued_before() {
    let s = setup(&[]);
    let engine = MemoryStore::new();
    let storage = Storage::shared(Arc::new(engine.clone()));
    let (slow, _) = refused(&s, &engine);
    // Its own certificate is better than none.
    let own = shown(&slow.store, "r.test");
    let mut watch = storage.watch().unwrap();
    storage.write_pair(STORED, &issued_before(&s)).unwrap();
    let changes = watch.next(Duration::from_secs(30)).unwrap();
    slow.maintainer.take_changes(&storage, &changes);
    assert_ne!(shown(&slow.store, "r.test"), own);
    assert_eq!(renewals(&slow, s.start + REFUSED_PAUSE * 10), []);
}

#[test]
fn the_certificate_of_the_node_that_took_over_is_looked_for_if_nothing_announces_it() {
    let s = setup(&[]);
    let engine = MemoryStore::new();
    let storage = Storage::shared(Arc::new(engine.clone()));
    let (slow, orders) = refused(&s, &engine);
    let own = shown(&slow.store, "r.test");
    assert_eq!(renewals(&slow, s.start), [], "there is a pause");
    storage.write_pair(STORED, &issued_before(&s)).unwrap();
    let later = SystemTime::now() + REFUSED_PAUSE;
    let due = renewals(&slow, later);
    assert_eq!(due.len(), 1, "{due:?}");
    slow.maintainer.run(&due[0], later).unwrap();
    assert_ne!(shown(&slow.store, "r.test"), own);
    assert_eq!(orders.load(Ordering::Relaxed), 1);
}

#[test]
fn without_the_engine_nothing_is_ordered_and_what_is_known_is_served() {
    let s = setup(&[]);
    let engine = MemoryStore::new();
    let copy = TempFolder::new();
    let on_node = || {
        let copy = FileStore::new(copy.path());
        Storage::shared(Arc::new(LocalCopy::new(Arc::new(engine.clone()), copy)))
    };
    let before = node(&s, &on_node(), || Ok(()));
    finish(&before.maintainer, s.start);
    let served = shown(&before.store, "r.test");
    engine.fail_with(Some(sluice_store::Fault::Away));
    // The node starts again, with another name that it has no certificate for.
    let storage = on_node();
    let restarted = node(&s, &storage, || panic!("an order"));
    assert_eq!(shown(&restarted.store, "r.test"), served);
    let authority = remote(&s, || panic!("an order"));
    let maintainer = &restarted.maintainer;
    provide(
        maintainer,
        &restarted.store,
        &authority,
        &["new.test"],
        s.start,
    )
    .unwrap();
    finish(maintainer, s.start);
    let notices = maintainer.take_notices();
    let is_about = |notice: &Notice| {
        matches!(notice, Notice::NotIssued { .. })
            && notice.to_string().contains("does not respond")
    };
    assert!(notices.iter().any(is_about), "{notices:?}");
    // It is tried again a minute later, not after hours.
    let due = maintainer.due(s.start + RETRY_PAUSE_MIN * 2);
    let is_new = |job: &Job| matches!(job, Job::Renew { subject, .. } if *subject == parsed(&["new.test"])[0]);
    assert!(due.iter().any(is_new), "{due:?}");
}

#[test]
fn a_new_certificate_is_stored_although_the_engine_was_away_for_a_moment() {
    let s = setup(&[]);
    let engine = MemoryStore::new();
    let storage = Storage::shared(Arc::new(engine.clone()));
    let orders = Arc::new(AtomicU32::new(0));
    let counted = orders.clone();
    let ordering = node(&s, &storage, move || {
        counted.fetch_add(1, Ordering::Relaxed);
        engine.fail_next(2, sluice_store::Fault::Away);
        Ok(())
    });
    finish(&ordering.maintainer, s.start);
    let stored = storage.read("certificates/remote/r.test/r.test.crt");
    assert!(stored.unwrap().is_some());
    assert!(!ordering.store.is_empty());
    assert_eq!(orders.load(Ordering::Relaxed), 1);
}

#[test]
fn an_order_whose_lock_was_lost_serves_what_the_other_node_has_stored() {
    let s = setup(&[]);
    let engine = MemoryStore::new();
    let storage = Storage::shared(Arc::new(engine.clone()));
    let other = node(&s, &storage, || Ok(()));
    let (store, others) = (engine.clone(), other.maintainer.clone());
    let start = s.start;
    // While this node orders, its lock ends and another node does the work.
    let slow = node(&s, &storage, move || {
        store.break_lease("issue_cert_r.test").unwrap();
        finish(&others, start);
        Ok(())
    });
    finish(&slow.maintainer, s.start);
    let stored = storage
        .read("certificates/remote/r.test/r.test.crt")
        .unwrap();
    assert!(stored.is_some());
    assert_eq!(shown(&slow.store, "r.test"), shown(&other.store, "r.test"));
}

#[test]
fn a_plan_with_a_storage_of_its_own_keeps_and_finds_its_certificates_there() {
    let s = setup(&[]);
    let engine = MemoryStore::new();
    let own = || Arc::new(Storage::shared(Arc::new(engine.clone())));
    let plan = |id: &str| Plan {
        id: id.to_owned(),
        storage: Some(own()),
        ..Plan::of(s.issuer.clone())
    };
    let provide = |plan: Plan, store: &Arc<CertStore>| {
        let names = parsed(&["own.test"]);
        let found = s
            .maintainer
            .provide(store, &Arc::new(plan), &names, s.start);
        s.maintainer.keep(found.unwrap());
    };
    provide(plan("own"), &s.store);
    let name = "certificates/local/own.test/own.test.crt";
    assert!(own().read(name).unwrap().is_some());
    assert!(!s.folder.path().join(name).exists());
    // A certificate that another node writes there is served; one of that name in another storage is not its.
    let mut watch = own().watch().unwrap();
    let folder = TempFolder::new();
    let other = Maintainer::new(Storage::new(folder.path()));
    let renewed = s.start + Duration::from_secs(3600);
    let second = CertStore::new([]);
    let found = other.provide(
        &second,
        &Arc::new(plan("own")),
        &parsed(&["own.test"]),
        s.start,
    );
    other.keep(found.unwrap());
    assert_eq!(shown(&second, "own.test"), shown(&s.store, "own.test"));
    let job = Job::Renew {
        plan: "own".to_owned(),
        subject: parsed(&["own.test"]).remove(0),
    };
    other.run(&job, renewed).unwrap();
    let new = shown(&second, "own.test");
    assert_ne!(new, shown(&s.store, "own.test"));
    let changes = watch.next(Duration::from_secs(30)).unwrap();
    let elsewhere = Storage::new(s.folder.path());
    s.maintainer.take_changes(&elsewhere, &changes);
    assert_ne!(new, shown(&s.store, "own.test"));
    s.maintainer.take_changes(&own(), &changes);
    assert_eq!(new, shown(&s.store, "own.test"));
}
