//! Nodes and pushes on a store in memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use sluice_observe::log::{Level, Log};
use sluice_observe::sources::{ConfigSource, ConfigSourceStanding};
use sluice_store::memory::MemoryStore;
use sluice_store::{
    Change, Entry, Fault, Guard, Key, Lease, Reach, Statistics, Store, StoreError, Value, Watch,
    Write,
};

use super::*;

/// Longer than anything takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

const KEY: &str = "prod";

fn layout() -> Layout {
    Layout::of(KEY).unwrap()
}

fn put(store: &MemoryStore, text: &str) {
    let key = Key::new(KEY).unwrap();
    store
        .save(&[Write::Put(&key, text.as_bytes())], Guard::Always)
        .unwrap();
}

fn text(store: &MemoryStore) -> Option<String> {
    let value = store.load(&[&layout().text]).unwrap().pop().flatten();
    value.map(|value| String::from_utf8(value.bytes).unwrap())
}

/// Waits for a condition; the test fails if it does not become true.
fn wait(what: &str, is_true: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_true() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        // Threads of the store and of the follower make it true.
        thread::sleep(Duration::from_millis(2));
    }
}

/// A node whose server takes texts without `bad` in them, and reports errors while it runs one with `errors`.
struct TestNode {
    follower: Follower,
    offered: Receiver<String>,
    running: Arc<Mutex<String>>,
}

impl TestNode {
    fn start(store: &MemoryStore, name: &str, running: &str) -> TestNode {
        TestNode::start_with(store, name, running, |text| !text.contains("bad"))
    }

    fn start_with(
        store: &(impl Store + Clone + 'static),
        name: &str,
        running: &str,
        takes: impl Fn(&str) -> bool + Send + 'static,
    ) -> TestNode {
        let (sender, offered): (SyncSender<String>, _) = sync_channel(100);
        let state = Arc::new(Mutex::new(running.to_owned()));
        let (own, shown) = (state.clone(), state.clone());
        let offering = move |offered: Offered, reply: Reply| {
            let _ = sender.send(offered.text.clone());
            if takes(&offered.text) {
                *own.lock().unwrap() = offered.text;
                reply.send(Outcome::Applied);
            } else {
                reply.send(Outcome::Refused(format!(
                    "prod:1:1: error: {}",
                    offered.text
                )));
            }
        };
        let count = Mutex::new((0, 0));
        let traffic = move || {
            let mut count = count.lock().unwrap();
            count.0 += 100;
            count.1 += if shown.lock().unwrap().contains("errors") {
                50
            } else {
                1
            };
            Traffic {
                requests: count.0,
                errors: count.1,
            }
        };
        let node = Node {
            place: "memory/prod".into(),
            name: name.into(),
            version: "0.0.0",
            running: (!running.is_empty()).then(|| Revision::of(running)),
            refused: None,
            traffic: Box::new(traffic),
            facts: Box::new(|| Facts {
                locks: vec!["issue_cert_a.test".to_owned()],
                ..Facts::default()
            }),
            log: Log::start(Level::Error).unwrap(),
        };
        let source = Source::of(Arc::new(store.clone()), KEY).unwrap();
        let follower = Follower::start(source, node, Box::new(offering)).unwrap();
        TestNode {
            follower,
            offered,
            running: state,
        }
    }

    fn running(&self) -> String {
        self.running.lock().unwrap().clone()
    }

    fn standing(&self) -> ConfigSourceStanding {
        self.follower.standing().standing()
    }

    fn next_offered(&self) -> String {
        self.offered
            .recv_timeout(TIMEOUT)
            .expect("a text is offered")
    }
}

fn fleet(store: &MemoryStore, count: usize, running: &str) -> Vec<TestNode> {
    put(store, running);
    let nodes: Vec<TestNode> = (0..count)
        .map(|at| TestNode::start(store, &format!("n{at}"), running))
        .collect();
    wait("all nodes to report", || {
        let fleet = Fleet::read(store, &layout()).unwrap();
        let in_sync = fleet
            .nodes
            .iter()
            .filter(|node| node.state == NodeState::InSync);
        in_sync.count() == count
    });
    nodes
}

fn proposal(text: &str) -> Proposal {
    Proposal {
        text: text.into(),
        canary: None,
        timeout: TIMEOUT,
        observe: Duration::ZERO,
    }
}

fn pushed(store: &MemoryStore, proposal: &Proposal) -> Pushed {
    let checked = check(store, &layout()).unwrap();
    push(store, &layout(), &checked, proposal, &mut |_, _| {}).unwrap()
}

fn verdicts(pushed: &Pushed) -> Vec<Verdict> {
    pushed.nodes.iter().map(|row| row.verdict).collect()
}

#[test]
fn a_node_takes_each_change_once_and_reports_it() {
    let store = MemoryStore::new();
    put(&store, "a");
    let node = TestNode::start(&store, "n", "");
    assert_eq!(node.next_offered(), "a");
    put(&store, "b");
    assert_eq!(node.next_offered(), "b");
    put(&store, "bad");
    assert_eq!(node.next_offered(), "bad");
    wait("the refusal", || node.standing().refused == 1);
    assert_eq!(node.running(), "b");
    let standing = node.standing();
    assert_eq!(
        standing.running.as_deref(),
        Some(Revision::of("b").as_str())
    );
    assert_eq!(
        standing.offered.as_deref(),
        Some(Revision::of("bad").as_str())
    );
    assert!(standing.lag().is_some());
    wait("the report", || {
        let fleet = Fleet::read(&store, &layout()).unwrap();
        fleet
            .nodes
            .first()
            .is_some_and(|node| node.state == NodeState::Refuses)
    });
    // The text that runs is back: nothing is offered, and nothing is refused any more.
    put(&store, "b");
    wait("the end of the refusal", || {
        node.standing().refusal.is_none()
    });
    assert!(node.standing().lag().is_none());
    put(&store, "c");
    assert_eq!(
        node.next_offered(),
        "c",
        "neither `bad` nor `b` was offered again"
    );
    node.follower.retry();
    assert_eq!(
        node.next_offered(),
        "c",
        "an operator wants it to be loaded again"
    );
}

#[test]
fn a_store_that_is_away_changes_nothing_and_the_node_catches_up() {
    let store = MemoryStore::new();
    let nodes = fleet(&store, 1, "a");
    store.fail_with(Some(Fault::Away));
    wait("the failure", || nodes[0].standing().failures > 0);
    assert!(!nodes[0].standing().is_reachable);
    assert_eq!(nodes[0].running(), "a");
    store.fail_with(None);
    put(&store, "b");
    assert_eq!(nodes[0].next_offered(), "b");
    wait("contact", || nodes[0].standing().is_reachable);
    assert_eq!(nodes[0].standing().error, None);
}

#[test]
fn a_text_that_was_deleted_stays_in_use() {
    let store = MemoryStore::new();
    let nodes = fleet(&store, 1, "a");
    store
        .save(&[Write::Delete(&layout().text)], Guard::Always)
        .unwrap();
    wait("its absence", || nodes[0].standing().error.is_some());
    assert_eq!(nodes[0].running(), "a");
    put(&store, "b");
    assert_eq!(nodes[0].next_offered(), "b");
}

#[test]
fn a_node_that_leaves_is_not_shown_as_gone() {
    let store = MemoryStore::new();
    let nodes = fleet(&store, 2, "a");
    nodes[0].follower.leave(Leaving::Stopped);
    nodes[1].follower.leave(Leaving::Replaced);
    let fleet = Fleet::read(&store, &layout()).unwrap();
    let states: Vec<_> = fleet
        .nodes
        .iter()
        .map(|node| (&*node.node, node.state))
        .collect();
    assert_eq!(
        states,
        [("n1", NodeState::Gone)],
        "its successor keeps the report"
    );
}

#[test]
fn a_push_is_done_when_all_nodes_run_it() {
    let store = MemoryStore::new();
    let nodes = fleet(&store, 3, "a");
    let done = pushed(&store, &proposal("b"));
    assert_eq!(done.outcome, PushOutcome::Done);
    assert_eq!(verdicts(&done), [Verdict::Took; 3]);
    assert_eq!(done.previous, Some(Revision::of("a")));
    assert!(nodes.iter().all(|node| node.running() == "b"));
    let again = pushed(&store, &proposal("b"));
    assert_eq!(again.outcome, PushOutcome::Unchanged);
    assert_eq!(verdicts(&again), [Verdict::Took; 3]);
}

#[test]
fn a_refused_text_is_rolled_back() {
    let store = MemoryStore::new();
    let nodes = fleet(&store, 3, "a");
    for _ in 0..2 {
        let done = pushed(&store, &proposal("bad"));
        let why = "3 of 3 nodes refused it".to_owned();
        let stage = Stage::All;
        assert_eq!(
            done.outcome,
            PushOutcome::RolledBack {
                stage,
                why,
                is_restored: true
            }
        );
        assert_eq!(text(&store).as_deref(), Some("a"));
        assert!(
            done.nodes
                .iter()
                .all(|row| row.error.as_deref() == Some("prod:1:1: error: bad"))
        );
    }
    assert!(nodes.iter().all(|node| node.running() == "a"));
    let history = layout().history(&store).unwrap();
    assert_eq!(
        history.len(),
        1,
        "the refused text is not in the history: {history:?}"
    );
}

#[test]
fn the_first_text_of_a_fleet_is_removed_if_it_is_refused() {
    let store = MemoryStore::new();
    let _node = TestNode::start(&store, "n", "a");
    wait("the node", || {
        Fleet::read(&store, &layout()).unwrap().living().count() == 1
    });
    let done = pushed(&store, &proposal("bad"));
    assert!(
        matches!(done.outcome, PushOutcome::RolledBack { .. }),
        "{done:?}"
    );
    assert_eq!(text(&store), None);
}

#[test]
fn a_canary_takes_it_first_and_the_others_not_at_all_if_it_refuses() {
    let store = MemoryStore::new();
    let nodes = fleet(&store, 5, "a");
    let canary = Proposal {
        canary: Some(Share::Percent(20)),
        ..proposal("bad")
    };
    let done = pushed(&store, &canary);
    let why = "1 of 1 nodes refused it".to_owned();
    let stage = Stage::Canary;
    assert_eq!(
        done.outcome,
        PushOutcome::RolledBack {
            stage,
            why,
            is_restored: true
        }
    );
    let asked = nodes.iter().filter(|node| node.offered.try_recv().is_ok());
    assert_eq!(asked.count(), 1, "the others have not seen it");
    assert_eq!(store.load(&[&layout().canary]).unwrap(), [None]);
    let mut stages = Vec::new();
    let checked = check(&store, &layout()).unwrap();
    let good = Proposal {
        canary: Some(Share::Nodes(2)),
        ..proposal("b")
    };
    let mut note = |stage, rows: &[NodeVerdict]| {
        let took = rows.iter().filter(|row| row.verdict == Verdict::Took);
        stages.push((stage, took.count()));
    };
    let done = push(&store, &layout(), &checked, &good, &mut note).unwrap();
    assert_eq!(done.outcome, PushOutcome::Done);
    assert!(stages.contains(&(Stage::Canary, 2)), "{stages:?}");
    assert_eq!(stages.last(), Some(&(Stage::All, 5)));
    assert!(nodes.iter().all(|node| node.running() == "b"));
}

#[test]
fn a_jump_of_errors_is_rolled_back() {
    let store = MemoryStore::new();
    let nodes = fleet(&store, 2, "a");
    let observed = Proposal {
        observe: TIMEOUT,
        ..proposal("errors")
    };
    let done = pushed(&store, &observed);
    let PushOutcome::RolledBack {
        why,
        is_restored: true,
        ..
    } = &done.outcome
    else {
        panic!("{done:?}");
    };
    assert!(why.contains("had more errors with it"), "{why}");
    assert!(nodes.iter().all(|node| node.running() == "a"));
}

#[test]
fn a_node_that_says_nothing_fails_the_push() {
    let store = MemoryStore::new();
    let _nodes = fleet(&store, 1, "a");
    // It is alive, but has never reported.
    let _lease = store
        .lease(&layout().node_lease("mute"), Duration::ZERO)
        .unwrap();
    let hasty = Proposal {
        timeout: Duration::from_millis(300),
        ..proposal("b")
    };
    let done = pushed(&store, &hasty);
    let why = "1 of 2 nodes gave no verdict in time".to_owned();
    assert!(
        matches!(&done.outcome, PushOutcome::RolledBack { why: found, .. } if *found == why),
        "{done:?}"
    );
    assert_eq!(text(&store).as_deref(), Some("a"));
}

#[test]
fn a_push_whose_store_goes_away_does_not_succeed() {
    let store = MemoryStore::new();
    put(&store, "a");
    let own = store.clone();
    let _node = TestNode::start_with(&store, "n", "a", move |_| {
        own.fail_with(Some(Fault::Away));
        true
    });
    wait("the node", || {
        Fleet::read(&store, &layout()).unwrap().living().count() == 1
    });
    let hasty = Proposal {
        timeout: Duration::from_millis(300),
        ..proposal("b")
    };
    let done = pushed(&store, &hasty);
    assert!(
        matches!(done.outcome, PushOutcome::Stuck { .. }),
        "{done:?}"
    );
}

#[test]
fn dead_nodes_are_not_waited_for() {
    let store = MemoryStore::new();
    let nodes = fleet(&store, 2, "a");
    nodes[1].follower.leave(Leaving::Replaced);
    let done = pushed(&store, &proposal("b"));
    assert_eq!(done.outcome, PushOutcome::Done);
    assert_eq!(done.nodes.len(), 1);
}

#[test]
fn of_two_writers_one_is_refused() {
    let store = MemoryStore::new();
    put(&store, "a");
    let checked = check(&store, &layout()).unwrap();
    put(&store, "b");
    for canary in [None, Some(Share::Nodes(1))] {
        let late = Proposal {
            canary,
            ..proposal("c")
        };
        let failed = push(&store, &layout(), &checked, &late, &mut |_, _| {}).unwrap_err();
        assert_eq!(failed, PushError::Changed(Some(Revision::of("b"))));
    }
    let _lease = store.lease(&layout().push_lease(), Duration::ZERO).unwrap();
    let checked = check(&store, &layout()).unwrap();
    let failed = push(&store, &layout(), &checked, &proposal("c"), &mut |_, _| {}).unwrap_err();
    assert_eq!(failed, PushError::InProgress);
    assert_eq!(text(&store).as_deref(), Some("b"));
    assert_eq!(
        layout().history(&store).unwrap().len(),
        1,
        "only `a` was in effect"
    );
}

#[test]
fn a_rollback_finds_the_text_before() {
    let store = MemoryStore::new();
    put(&store, "by hand");
    assert_eq!(before_last(&store, &layout(), None).unwrap(), None);
    for text in ["a", "b", "c"] {
        pushed(&store, &proposal(text));
        // The history is sorted by milliseconds.
        thread::sleep(Duration::from_millis(2));
    }
    let found = |digits: Option<&str>| before_last(&store, &layout(), digits).unwrap();
    assert_eq!(found(None).as_deref(), Some("b"));
    assert_eq!(
        found(Some(Revision::of("by hand").as_str())).as_deref(),
        Some("by hand")
    );
    assert_eq!(found(Some("0000")), None);
    pushed(&store, &proposal("b"));
    assert_eq!(
        found(None).as_deref(),
        Some("c"),
        "a second rollback undoes the first"
    );
    put(&store, "by hand again");
    assert_eq!(found(None).as_deref(), Some("b"));
    for number in 0..30 {
        pushed(&store, &proposal(&number.to_string()));
    }
    assert_eq!(
        layout().history(&store).unwrap().len(),
        crate::limits::HISTORY_MAX
    );
}

#[test]
fn canaries_are_the_same_ones_each_time() {
    let names = |count: usize| (0..count).map(|at| format!("n{at}")).collect::<Vec<_>>();
    let first = Share::Percent(10).of(names(20));
    assert_eq!(first.len(), 2);
    let mut turned = names(20);
    turned.reverse();
    assert_eq!(Share::Percent(10).of(turned), first);
    assert_eq!(Share::Percent(1).of(names(5)).len(), 1, "rounded up");
    assert_eq!(Share::Nodes(9).of(names(5)).len(), 5);
    assert_eq!(Share::parse("10%"), Some(Share::Percent(10)));
    assert_eq!(Share::parse("3"), Some(Share::Nodes(3)));
    for wrong in ["0", "0%", "101%", "-1", "x", "%", ""] {
        assert_eq!(Share::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn foreign_values_under_our_keys_are_skipped() {
    let store = MemoryStore::new();
    let nodes = fleet(&store, 1, "a");
    let put = |key: &str, value: &[u8]| {
        let key = Key::new(key).unwrap();
        store
            .save(&[Write::Put(&key, value)], Guard::Always)
            .unwrap();
    };
    put("prod.nodes/garbage", b"\xff");
    put("prod.canary", b"{");
    put("prod", b"\xff\xfe");
    wait("the failure", || nodes[0].standing().error.is_some());
    assert_eq!(nodes[0].running(), "a");
    put("prod", b"b");
    assert_eq!(nodes[0].next_offered(), "b");
    let fleet = Fleet::read(&store, &layout()).unwrap();
    assert_eq!(fleet.nodes.len(), 1);
    assert_eq!(fleet.canary, None);
}

/// A store that may have lost its quorum: it then returns texts that nobody confirms. It also counts how often somebody
/// waits for changes of which a watch does not tell.
#[derive(Clone, Debug, Default)]
struct Probe {
    store: MemoryStore,
    is_cut_off: Arc<AtomicBool>,
    stale_reads: Arc<AtomicU64>,
    /// A watch has begun, and nothing was listed since.
    is_unread: Arc<AtomicBool>,
    watches: Arc<AtomicU64>,
    blind_waits: Arc<AtomicU64>,
}

/// A watch of a [`Probe`].
struct ProbeWatch {
    watch: Box<dyn Watch>,
    probe: Probe,
}

impl Watch for ProbeWatch {
    fn next(&mut self, timeout: Duration) -> Result<Vec<Change>, StoreError> {
        if self.probe.is_unread.load(Ordering::Acquire) {
            self.probe.blind_waits.fetch_add(1, Ordering::AcqRel);
        }
        self.watch.next(timeout)
    }
}

impl Store for Probe {
    fn place(&self) -> &str {
        self.store.place()
    }

    fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        if self.is_cut_off.load(Ordering::Acquire) {
            self.stale_reads.fetch_add(1, Ordering::AcqRel);
        }
        self.store.load(keys)
    }

    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError> {
        self.store.save(writes, guard)
    }

    fn list(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        self.is_unread.store(false, Ordering::Release);
        self.store.list(prefix, reach)
    }

    fn lease(&self, name: &str, timeout: Duration) -> Result<Lease, StoreError> {
        self.store.lease(name, timeout)
    }

    fn break_lease(&self, name: &str) -> Result<bool, StoreError> {
        self.store.break_lease(name)
    }

    fn leases(&self) -> Result<Vec<String>, StoreError> {
        self.store.leases()
    }

    fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, StoreError> {
        let watch = self.store.watch(prefix)?;
        self.is_unread.store(true, Ordering::Release);
        self.watches.fetch_add(1, Ordering::AcqRel);
        Ok(Box::new(ProbeWatch {
            watch,
            probe: self.clone(),
        }))
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            stale_reads: self.stale_reads.load(Ordering::Acquire),
            ..Statistics::default()
        }
    }
}

#[test]
fn an_old_text_that_no_quorum_confirms_is_not_taken() {
    let store = Probe::default();
    put(&store.store, "b");
    let node = TestNode::start_with(&store, "n", "b", |_| true);
    wait("contact", || node.standing().is_reachable);
    store.is_cut_off.store(true, Ordering::Release);
    put(&store.store, "a");
    wait("the failure", || node.standing().failures > 0);
    assert_eq!(node.running(), "b");
    store.is_cut_off.store(false, Ordering::Release);
    assert_eq!(node.next_offered(), "a", "now it is confirmed");
}

#[test]
fn a_push_reads_the_verdicts_again_once_it_watches_them() {
    let store = Probe::default();
    // The nodes use the store itself: only the push is observed.
    let nodes = fleet(&store.store, 2, "a");
    // They respond once the push waits for them: it has looked before.
    let slow = TestNode::start_with(&store.store, "slow", "a", {
        let watches = store.watches.clone();
        move |text| {
            if text == "b" {
                wait("the push", || watches.load(Ordering::Acquire) > 0);
            }
            true
        }
    });
    wait("the slow node", || {
        let fleet = Fleet::read(&store.store, &layout()).unwrap();
        fleet.living().count() == 3
    });
    let checked = check(&store, &layout()).unwrap();
    let done = push(&store, &layout(), &checked, &proposal("b"), &mut |_, _| {}).unwrap();
    assert_eq!(done.outcome, PushOutcome::Done);
    assert_eq!(store.watches.load(Ordering::Acquire), 1);
    assert_eq!(
        store.blind_waits.load(Ordering::Acquire),
        0,
        "what was written before a watch is only seen by another look"
    );
    drop((nodes, slow));
}

#[test]
fn the_canary_of_an_interrupted_push_ends_with_the_next_one() {
    let store = MemoryStore::new();
    let nodes = fleet(&store, 2, "a");
    let past = layout()
        .past(&Revision::of("b"), SystemTime::now())
        .unwrap();
    let canary = Canary {
        revision: Revision::of("b"),
        text: past.to_string(),
        nodes: vec!["n0".into()],
    };
    let json = serde_json::to_vec(&canary).unwrap();
    let writes = [Write::Put(&past, b"b"), Write::Put(&layout().canary, &json)];
    store.save(&writes, Guard::Always).unwrap();
    wait("the canary", || nodes[0].running() == "b");
    assert_eq!(nodes[1].running(), "a");
    let done = pushed(&store, &proposal("a"));
    assert_eq!(done.outcome, PushOutcome::Done, "it is not unchanged");
    assert!(nodes.iter().all(|node| node.running() == "a"));
    assert_eq!(store.load(&[&layout().canary]).unwrap(), [None]);
}
