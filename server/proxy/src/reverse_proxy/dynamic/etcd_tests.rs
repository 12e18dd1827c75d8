//! Tests of the thread that follows a prefix, on a store in memory.

use std::path::PathBuf;

use sluice_store::memory::MemoryStore;

use super::*;

struct Setup {
    store: MemoryStore,
    prefix: Arc<Prefix>,
    follower: Follower,
    folder: PathBuf,
}

impl Setup {
    fn new(name: &str) -> Setup {
        let name = format!("sluice-etcd-upstreams-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let store = MemoryStore::new();
        let (prefix, follower) = node(&store, &folder);
        Setup {
            store,
            prefix,
            follower,
            folder,
        }
    }

    fn put(&self, name: &str, value: &str) {
        let key = Key::new(name).unwrap();
        let write = [Write::Put(&key, value.as_bytes())];
        self.store.save(&write, Guard::Always).unwrap();
    }

    /// Reads and publishes what the store has.
    fn look(&self) {
        self.follower
            .publish(&self.follower.read(Reading::Latest).unwrap());
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn node(store: &MemoryStore, folder: &Path) -> (Arc<Prefix>, Follower) {
    let prefix = Arc::new(Prefix::at(store.place()));
    let follower = Follower {
        prefix: Arc::downgrade(&prefix),
        store: Box::new(store.clone()),
        copy: Some(FileStore::new(folder)),
        log: None,
    };
    (prefix, follower)
}

fn shown(prefix: &Prefix) -> Option<(u64, Vec<u16>)> {
    let standing = prefix.standing();
    let list = standing.list.as_ref()?;
    let ports = list.records.iter().map(|(_, port)| *port);
    Some((list.version, ports.collect()))
}

fn away() -> StoreError {
    StoreError::new(Fault::Away, "memory", "the test says so")
}

#[test]
fn values_are_listed_in_the_order_of_their_keys_and_others_are_skipped() {
    let s = Setup::new("list");
    for (name, value) in [("b", "h:2"), ("a/x", "h:1"), ("c", "nonsense")] {
        s.put(name, value);
    }
    s.look();
    assert_eq!(shown(&s.prefix), Some((1, vec![1, 2])));
    s.look();
    assert_eq!(shown(&s.prefix), Some((1, vec![1, 2])), "nothing changed");
    s.put("a/x", "gone bad");
    s.look();
    assert_eq!(shown(&s.prefix), Some((2, vec![2])));
}

#[test]
fn too_many_keys_are_refused_and_the_list_stays() {
    let s = Setup::new("many");
    s.put("a", "h:1");
    s.look();
    for number in 0..SOURCE_ETCD_KEYS_MAX {
        s.put(&format!("k{number}"), "h:2");
    }
    assert_eq!(
        s.follower.read(Reading::Latest).unwrap_err().fault,
        Fault::Limit
    );
    assert!(s.follower.away(&away()));
    assert_eq!(shown(&s.prefix), Some((1, vec![1])));
}

#[test]
fn the_copy_of_the_node_stands_in_at_a_start_without_the_store() {
    let s = Setup::new("copy");
    s.put("a", "h:1");
    s.look();
    s.store.fail_with(Some(Fault::Away));
    let (prefix, follower) = node(&s.store, &s.folder);
    let mut pause = Duration::ZERO;
    let error = follower.follow(&mut pause).unwrap_err();
    assert!(follower.away(&error));
    assert_eq!(shown(&prefix), Some((1, vec![1])));
    let totals = prefix.totals();
    assert_eq!((totals.upstreams, totals.failures), (1, 1));
    assert!(totals.is_away);
    follower.back();
    assert!(!prefix.totals().is_away);
}

#[test]
fn without_a_copy_there_is_no_list_and_nobody_waits() {
    let s = Setup::new("nothing");
    assert!(s.follower.away(&away()));
    assert_eq!(shown(&s.prefix), None);
    assert!(s.prefix.standing().is_tried);
}

#[test]
fn changes_are_published_until_nobody_uses_the_prefix() {
    let s = Setup::new("follow");
    s.put("a", "h:1");
    let (prefix, follower) = node(&s.store, &s.folder);
    let mut pause = Duration::ZERO;
    let thread = thread::spawn(move || follower.follow(&mut pause));
    // The thread lists what was there, and then each change.
    until(|| shown(&prefix) == Some((1, vec![1])));
    s.put("b", "h:2");
    until(|| shown(&prefix) == Some((2, vec![1, 2])));
    drop(prefix);
    assert_eq!(thread.join().unwrap(), Ok(()));
}

#[test]
fn without_a_quorum_a_list_is_taken_only_if_there_is_none() {
    let s = Setup::new("quorum");
    s.put("a", "h:1");
    s.store.lose_quorum(true);
    let mut pause = Duration::ZERO;
    let mut follow = || s.follower.follow(&mut pause).unwrap_err().fault;
    assert_eq!(follow(), Fault::Away);
    assert_eq!(shown(&s.prefix), Some((1, vec![1])), "better than nothing");
    // What the member has may be older than the list of this node.
    s.put("a", "h:2");
    assert_eq!(follow(), Fault::Away);
    assert_eq!(shown(&s.prefix), Some((1, vec![1])));
}

fn until(is_true: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never is");
        // The other thread has nothing else to signal with.
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn settings_with_another_secret_are_another_prefix() {
    let of = |password: &str| {
        let config = EtcdUpstreams {
            endpoints: vec!["127.0.0.1:1".to_owned()],
            prefix: "/x".to_owned(),
            username: "u".to_owned(),
            password: password.to_owned(),
            ..EtcdUpstreams::default()
        };
        identity(&options(&config).unwrap())
    };
    assert_eq!(of("a"), of("a"));
    assert_ne!(of("a"), of("b"));
    assert!(options(&EtcdUpstreams::default()).is_err());
}
