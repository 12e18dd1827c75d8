//! The store in etcd, on real members.

use std::time::{Duration, Instant, SystemTime};

use sluice_store::etcd::{EtcdOptions, EtcdStore};
use sluice_store::{Entry, Fault, Guard, Key, Reach, Store, TlsVerification, Write};

use crate::conformance;
use crate::plain_calls::{key, put, text};
use crate::servers::SHORT_LEASE;
use crate::servers::certificates::certificates;
use crate::servers::etcd::{Cluster, ctl};
use crate::temp_folder::TempFolder;
use crate::wait::{TIMEOUT, eventually};

#[test]
fn etcd_keeps_the_contract() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let a = cluster.store();
    let b = EtcdStore::open(&cluster.options()).unwrap();
    conformance::run(&a, &b);
    assert!(a.statistics().requests > 20);
    assert_eq!(a.statistics().stale_reads, 0);
}

#[test]
fn etcd_values_are_those_of_etcdctl() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let store = cluster.store();
    let url = cluster.members[0].url();
    put(&store, "config/ours", "a.test").unwrap();
    assert_eq!(
        ctl(&url, &["get", "/test/config/ours", "--print-value-only"]),
        "a.test\n"
    );
    let mut watch = store.watch(&key("config")).unwrap();
    ctl(&url, &["put", "/test/config/theirs", "b.test"]);
    // What is not one of our keys is not shown.
    ctl(&url, &["put", "/test/config//theirs", "x"]);
    ctl(&url, &["put", "/test/config/../up", "x"]);
    ctl(&url, &["put", "/tests/config/a", "x"]);
    let changes = watch.next(TIMEOUT).unwrap();
    assert_eq!(changes[0].key, key("config/theirs"));
    assert_eq!(
        text(&store, "config/theirs").unwrap().as_deref(),
        Some("b.test")
    );
    let entries = store.list(&Key::default(), Reach::All).unwrap();
    let sizes = entries.iter().map(|entry| match entry {
        Entry::Value {
            key,
            size,
            modified,
        } => (key.to_string(), *size, *modified),
        Entry::Folder(key) => panic!("{key}"),
    });
    let sizes: Vec<_> = sizes.collect();
    assert_eq!(sizes.len(), 2, "{sizes:?}");
    assert_eq!((&*sizes[0].0, sizes[0].1), ("config/ours", 6));
    assert_eq!(
        sizes[1],
        ("config/theirs".to_owned(), 6, SystemTime::UNIX_EPOCH)
    );
    // A write of ours that something else replaced: the metadata is that of the older value.
    ctl(&url, &["put", "/test/config/ours", "longer than before"]);
    let value = store
        .load(&[&key("config/ours")])
        .unwrap()
        .remove(0)
        .unwrap();
    assert_eq!(value.modified, SystemTime::UNIX_EPOCH);
    let unchanged = Guard::Unchanged(&key("config/ours"), Some(&value.version));
    store
        .save(&[Write::Delete(&key("config/ours"))], unchanged)
        .unwrap();
}

#[test]
fn etcd_lists_have_no_gap_between_their_pages() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let store = cluster.store();
    let keys: Vec<Key> = (0..2100).map(|n| key(&format!("many/{n:05}/x"))).collect();
    for part in keys.chunks(64) {
        let writes: Vec<_> = part.iter().map(|key| Write::Put(key, b"v")).collect();
        store.save(&writes, Guard::Always).unwrap();
    }
    let listed = store.list(&key("many"), Reach::All).unwrap();
    let listed: Vec<&Key> = listed.iter().map(Entry::key).collect();
    assert_eq!(listed, keys.iter().collect::<Vec<_>>());
    assert_eq!(
        store.list(&key("many"), Reach::Children).unwrap().len(),
        2100
    );
    let all: Vec<&Key> = keys.iter().collect();
    assert!(store.load(&all).unwrap().iter().all(Option::is_some));
}

#[test]
fn etcd_users_need_their_password() {
    let Some(mut cluster) = Cluster::start(1, &["--auth-token-ttl=1"]) else {
        return;
    };
    drop(cluster.store());
    let url = cluster.members[0].url();
    ctl(&url, &["user", "add", "root:rootpw"]);
    ctl(&url, &["user", "grant-role", "root", "root"]);
    ctl(&url, &["role", "add", "web"]);
    let grant = [
        "role",
        "grant-permission",
        "web",
        "--prefix=true",
        "readwrite",
        "/test",
    ];
    ctl(&url, &grant);
    ctl(&url, &["user", "add", "web:secret"]);
    ctl(&url, &["user", "grant-role", "web", "web"]);
    ctl(&url, &["auth", "enable"]);
    let login = |user: &str, password: &str| {
        EtcdStore::open(&EtcdOptions {
            login: Some((user.to_owned(), password.to_owned())),
            ..cluster.options()
        })
        .unwrap()
    };
    let store = login("web", "secret");
    let other = login("web", "secret");
    conformance::run(&store, &other);

    let wrong = login("web", "guess");
    let error = put(&wrong, "a", "1").unwrap_err();
    assert_eq!(error.fault, Fault::Credentials);
    assert!(!error.to_string().contains("guess"), "{error}");
    assert_eq!(wrong.load(&[&key("a")]).unwrap_err(), error);
    assert_eq!(wrong.statistics().requests, 1);
    let nobody = EtcdStore::open(&cluster.options()).unwrap();
    assert_eq!(
        put(&nobody, "a", "1").unwrap_err().fault,
        Fault::Credentials
    );
    // The role of the user does not reach there.
    let elsewhere = EtcdOptions {
        login: Some(("web".to_owned(), "secret".to_owned())),
        prefix: "/other".to_owned(),
        ..cluster.options()
    };
    let elsewhere = EtcdStore::open(&elsewhere).unwrap();
    let error = put(&elsewhere, "a", "1").unwrap_err();
    assert_eq!(error.fault, Fault::Credentials, "{error}");

    // etcd forgets its tokens when it is started again.
    let mut watch = store.watch(&key("a")).unwrap();
    cluster.members[0].kill();
    cluster.restart(0);
    let describe = || format!("{:?}", put(&store, "a", "2"));
    eventually("writes", || put(&store, "a", "2").is_ok(), describe);
    // The watch has either continued or says that it has ended.
    match watch.next(TIMEOUT) {
        Ok(changes) => assert_eq!(changes[0].key, key("a")),
        Err(error) => assert_eq!(error.fault, Fault::Away),
    }
}

#[test]
fn etcd_members_and_clients_show_certificates() {
    let folder = TempFolder::new();
    let ca = certificates(&folder);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let arguments = [
        format!("--cert-file={}", path("leaf.pem")),
        format!("--key-file={}", path("leaf.key")),
        format!("--trusted-ca-file={}", path("ca.pem")),
        "--client-cert-auth".to_owned(),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some(cluster) = Cluster::start(1, &arguments) else {
        return;
    };
    let pem = |name: &str| folder.read(name).into_bytes();
    let options = EtcdOptions {
        ca: Some(ca),
        identity: Some((pem("leaf.pem"), pem("leaf.key"))),
        ..cluster.options()
    };
    let store = EtcdStore::open(&options).unwrap();
    let describe = || format!("{:?}", put(&store, "a", "1"));
    eventually("a write", || put(&store, "a", "1").is_ok(), describe);
    let mut watch = store.watch(&key("a")).unwrap();
    put(&store, "a", "2").unwrap();
    assert!(!watch.next(TIMEOUT).unwrap().is_empty());
    let anonymous = EtcdOptions {
        identity: None,
        ..options.clone()
    };
    let error = put(&EtcdStore::open(&anonymous).unwrap(), "a", "3").unwrap_err();
    assert_eq!(error.fault, Fault::Away, "{error}");
    let untrusted = EtcdOptions {
        ca: None,
        ..options.clone()
    };
    let error = put(&EtcdStore::open(&untrusted).unwrap(), "a", "3").unwrap_err();
    assert!(error.what.contains("UnknownIssuer"), "{error}");
    let any = EtcdOptions {
        ca: None,
        verification: TlsVerification::None,
        ..options.clone()
    };
    put(&EtcdStore::open(&any).unwrap(), "a", "3").unwrap();
    let mixed = EtcdOptions {
        identity: Some((pem("ca.pem"), pem("leaf.key"))),
        ..options
    };
    assert_eq!(EtcdStore::open(&mixed).unwrap_err().fault, Fault::Setting);
}

#[test]
fn etcd_lease_of_a_dead_holder_passes_on() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    drop(cluster.store());
    let options = EtcdOptions {
        lease_ttl: SHORT_LEASE,
        ..cluster.options()
    };
    let a = EtcdStore::open(&options).unwrap();
    let b = EtcdStore::open(&options).unwrap();
    let held = a.lease("renewed", Duration::ZERO).unwrap();
    let url = cluster.members[0].url();
    crate::takeover::check("etcd", &url, &b, SHORT_LEASE);
    // Meanwhile a lease that is renewed has outlived its time.
    let error = b.lease("renewed", Duration::ZERO).unwrap_err();
    assert_eq!(error.fault, Fault::Held);
    assert!(!held.is_lost());
}

/// The member that is the leader.
fn leader(cluster: &Cluster) -> usize {
    let find = || {
        cluster.members.iter().position(|member| {
            let status = ctl(&member.url(), &["endpoint", "status", "-w", "fields"]);
            let number = |name: &str| {
                let line = status.lines().find(|line| line.starts_with(name));
                line.and_then(|line| line.rsplit(" ").next())
                    .map(str::to_owned)
            };
            number("\"MemberID\"") == number("\"Leader\"")
        })
    };
    crate::wait::until(crate::wait::TIMEOUT, "a leader", find, String::new)
}

#[test]
fn etcd_goes_on_without_its_leader_and_reads_without_a_quorum() {
    let Some(mut cluster) = Cluster::start(3, &[]) else {
        return;
    };
    let store = cluster.store();
    put(&store, "a", "1").unwrap();
    let mut watch = store.watch(&key("a")).unwrap();
    let dead = leader(&cluster);
    let began = Instant::now();
    cluster.members[dead].kill();
    let mut refused = 0;
    let describe = || format!("{:?}", put(&store, "a", "2"));
    let mut write = || {
        let is_written = put(&store, "a", "2").is_ok();
        refused += u32::from(!is_written);
        is_written
    };
    eventually("a write", &mut write, describe);
    println!(
        "etcd: written {:?} after the leader was killed, {refused} calls failed",
        began.elapsed()
    );
    // Either the watch has continued on another member, or a new one finds the value.
    let seen = watch.next(TIMEOUT);
    if let Ok(changes) = &seen {
        assert_eq!(changes[0].key, key("a"));
    }
    assert_eq!(text(&store, "a").unwrap().as_deref(), Some("2"));
    assert_eq!(store.statistics().stale_reads, 0);

    // Without a quorum nothing is written, and what the last member has is read.
    let another = (dead + 1) % 3;
    cluster.members[another].kill();
    let began = Instant::now();
    let error = put(&store, "a", "3").unwrap_err();
    assert_eq!(error.fault, Fault::Away, "{error}");
    assert_eq!(text(&store, "a").unwrap().as_deref(), Some("2"));
    assert_eq!(store.list(&Key::default(), Reach::All).unwrap().len(), 1);
    assert_eq!(store.statistics().stale_reads, 2);
    let error = store.lease("x", Duration::ZERO).unwrap_err();
    assert_eq!(error.fault, Fault::Away, "{error}");
    println!(
        "etcd: four calls without a quorum took {:?}",
        began.elapsed()
    );
    cluster.restart(dead);
    let describe = || format!("{:?}", put(&store, "a", "4"));
    eventually("a write", || put(&store, "a", "4").is_ok(), describe);
    assert_eq!(text(&store, "a").unwrap().as_deref(), Some("4"));
}

#[test]
fn etcd_may_be_slow_silent_or_cut_off() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let direct = cluster.store();
    let options = cluster.options();
    let open = |port: u16, timeout: Duration| -> Box<dyn Store> {
        let options = EtcdOptions {
            endpoints: vec![format!("http://127.0.0.1:{port}")],
            timeout,
            lease_ttl: SHORT_LEASE,
            ..options.clone()
        };
        Box::new(EtcdStore::open(&options).unwrap())
    };
    crate::faults::check("etcd", cluster.members[0].port(), &direct, &open);
    // With a second way the call that was cut is made again, and knows what it did before.
    let two = |port: u16, timeout: Duration| -> Box<dyn Store> {
        let through = format!("http://127.0.0.1:{port}");
        let options = EtcdOptions {
            endpoints: vec![through, cluster.members[0].url()],
            timeout,
            ..options.clone()
        };
        Box::new(EtcdStore::open(&options).unwrap())
    };
    let proxy = crate::servers::proxy::Proxy::new(cluster.members[0].port());
    let lost = crate::faults::nothing_is_torn_by_a_cut("etcd, two ways", &proxy, &direct, &two);
    assert_eq!(lost, 0);
}

#[test]
fn etcd_that_is_full_is_read_and_emptied() {
    let Some(mut cluster) = Cluster::start(1, &["--quota-backend-bytes=2000000"]) else {
        return;
    };
    let store = cluster.store();
    put(&store, "small", "1").unwrap();
    let name = key("large");
    let large = vec![b'x'; 500_000];
    let full = (0..20).find_map(|_| {
        let written = store.save(&[Write::Put(&name, &large)], Guard::Always);
        written.err()
    });
    let error = full.expect("twenty times half a megabyte is too much");
    assert_eq!(error.fault, Fault::ReadOnly, "{error}");
    assert_eq!(
        put(&store, "small", "2").unwrap_err().fault,
        Fault::ReadOnly
    );
    assert_eq!(text(&store, "small").unwrap().as_deref(), Some("1"));
    store.save(&[Write::Delete(&name)], Guard::Always).unwrap();
}

#[test]
fn etcd_connections_that_die_without_a_sign_are_noticed() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let direct = cluster.store();
    let options = cluster.options();
    let open = |port: u16, timeout: Duration| -> Box<dyn Store> {
        let options = EtcdOptions {
            endpoints: vec![format!("http://127.0.0.1:{port}")],
            timeout,
            watch_time: crate::faults::PROBE,
            ..options.clone()
        };
        Box::new(EtcdStore::open(&options).unwrap())
    };
    let port = cluster.members[0].port();
    crate::faults::check_dead_connections("etcd", port, &direct, &open);
}
