//! The store in Redis, on real servers.

use std::time::Duration;

use sluice_store::redis::{Compression, RedisOptions, RedisServers, RedisStore};
use sluice_store::{
    Entry, Fault, Guard, Reach, ResealOutcome, Store, TlsOptions, TlsVerification, Write,
};

use crate::conformance;
use crate::plain_calls::{key, put, text};
use crate::ports::free_port;
use crate::servers::SHORT_LEASE;
use crate::servers::certificates::certificates;
use crate::servers::redis::Server;
use crate::temp_folder::TempFolder;
use crate::wait::{TIMEOUT, eventually};

#[test]
fn redis_keeps_the_contract() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    conformance::run(&server.store(), &server.store());
    let packed = RedisOptions {
        compression: Compression::Zlib,
        encryption_key: Some([1; 32]),
        prefix: "a/b".to_owned(),
        db: 3,
        ..server.options()
    };
    let open = || RedisStore::open(&packed).unwrap();
    conformance::run(&open(), &open());
}

#[test]
fn redis_values_and_directories_are_those_of_caddy() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let store = server.store();
    put(&store, "certificates/ca/a.test/a.test.crt", "C").unwrap();
    put(&store, "certificates/ca/b.test/b.test.crt", "C").unwrap();
    let members = |key: &str| server.cli(&["ZRANGE", key, "0", "-1"]);
    assert_eq!(members("caddy"), "certificates/\n");
    assert_eq!(members("caddy/certificates/ca"), "a.test/\nb.test/\n");
    assert_eq!(members("caddy/certificates/ca/a.test"), "a.test.crt\n");
    let text = server.cli(&["GET", "caddy/certificates/ca/a.test/a.test.crt"]);
    for part in [
        r#""value":"Qw==""#,
        r#""size":1"#,
        r#""compression":0"#,
        r#""encryption":0"#,
    ] {
        assert!(text.contains(part), "{text}");
    }
    let name = key("certificates/ca/a.test/a.test.crt");
    store.save(&[Write::Delete(&name)], Guard::Always).unwrap();
    assert_eq!(members("caddy/certificates/ca"), "b.test/\n");
    assert_eq!(
        server.cli(&["EXISTS", "caddy/certificates/ca/a.test"]),
        "0\n"
    );

    // A value cannot take the place of a directory, nor lie below a value. Nothing is written then.
    let (above, other) = (key("certificates/ca"), key("other"));
    let writes = [Write::Put(&other, b"x"), Write::Put(&above, b"x")];
    let error = store.save(&writes, Guard::Always).unwrap_err();
    assert_eq!(error.fault, Fault::Foreign, "{error}");
    assert!(error.what.contains("caddy/certificates/ca"), "{error}");
    let error = put(&store, "certificates/ca/b.test/b.test.crt/x", "x").unwrap_err();
    assert_eq!(error.fault, Fault::Foreign, "{error}");
    assert_eq!(store.load(&[&other]).unwrap(), [None]);
    let nested = [Write::Put(&key("n"), b"x"), Write::Put(&key("n/o"), b"x")];
    assert_eq!(
        store.save(&nested, Guard::Always).unwrap_err().fault,
        Fault::Limit
    );

    // The lock of Caddy excludes us, and ours excludes Caddy.
    server.cli(&[
        "SET",
        "caddy/locks/issue_cert_a.test",
        "token",
        "NX",
        "PX",
        "60000",
    ]);
    let error = store
        .lease("issue_cert_a.test", Duration::ZERO)
        .unwrap_err();
    assert_eq!(error.fault, Fault::Held);
    assert_eq!(store.leases().unwrap(), ["issue_cert_a.test"]);
    assert!(store.break_lease("issue_cert_a.test").unwrap());
    let held = store.lease("issue_cert_a.test", Duration::ZERO).unwrap();
    let refused = server.cli(&["SET", "caddy/locks/issue_cert_a.test", "token", "NX"]);
    assert_eq!(refused, "\n");
    // Once Caddy has it after all, it stays theirs.
    server.cli(&["SET", "caddy/locks/issue_cert_a.test", "token"]);
    let late = store.save(&[Write::Put(&other, b"x")], Guard::Held(held.fence()));
    assert_eq!(late.unwrap_err().fault, Fault::Refused);
    drop(held);
    assert_eq!(
        server.cli(&["GET", "caddy/locks/issue_cert_a.test"]),
        "token\n"
    );
}

#[test]
fn redis_watch_finds_the_writes_of_caddy() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let store = server.store();
    put(&store, "acme/before", "x").unwrap();
    let foreign = server.cli(&["GET", "caddy/acme/before"]);
    let foreign = foreign.trim();
    for setting in ["", "KEA"] {
        server.cli(&["CONFIG", "SET", "notify-keyspace-events", setting]);
        // Without notifications the watch has to look for itself; with them it need not.
        let poll = match setting {
            "" => Duration::from_millis(50),
            _ => Duration::from_secs(3600),
        };
        let options = RedisOptions {
            poll,
            ..server.options()
        };
        let watching = RedisStore::open(&options).unwrap();
        let mut watch = watching.watch(&key("acme")).unwrap();
        let name = format!("acme/theirs{setting}");
        server.cli(&["ZADD", "caddy/acme", "1", name.trim_start_matches("acme/")]);
        server.cli(&["SET", &format!("caddy/{name}"), foreign]);
        let changes = watch.next(TIMEOUT).unwrap();
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!(changes[0].key, key(&name));
        assert_eq!(changes[0].value.as_ref().unwrap().bytes, b"x");
        server.cli(&["DEL", &format!("caddy/{name}")]);
        let changes = watch.next(TIMEOUT).unwrap();
        assert_eq!((&changes[0].key, &changes[0].value), (&key(&name), &None));
    }
}

#[test]
fn redis_garbage_under_our_keys_is_named_and_harms_nothing_else() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let store = server.store();
    put(&store, "a/good", "1").unwrap();
    server.cli(&["SET", "caddy/a/garbage", "not json"]);
    server.cli(&[
        "ZADD", "caddy/a", "1", "garbage", "1", "missing", "1", "..", "1", "x\ny",
    ]);
    server.cli(&["LPUSH", "caddy/a/list", "x"]);
    let error = text(&store, "a/garbage").unwrap_err();
    assert_eq!(error.fault, Fault::Foreign);
    assert!(error.to_string().contains("`a/garbage`"), "{error}");
    assert_eq!(text(&store, "a/list").unwrap(), None);
    assert_eq!(text(&store, "a/good").unwrap().as_deref(), Some("1"));
    let entries = store.list(&key("a"), Reach::All).unwrap();
    let keys: Vec<&str> = entries.iter().map(|entry| entry.key().as_str()).collect();
    assert_eq!(keys, ["a/good"]);
    assert!(matches!(entries[0], Entry::Value { size: 1, .. }));
    let mut watch = store.watch(&key("a")).unwrap();
    put(&store, "a/garbage", "ours").unwrap();
    assert_eq!(watch.next(TIMEOUT).unwrap()[0].key, key("a/garbage"));
    // With another key the values are there, and cannot be used.
    let options = |byte: u8| RedisOptions {
        encryption_key: Some([byte; 32]),
        ..server.options()
    };
    let (ours, theirs) = (options(1), options(2));
    put(&RedisStore::open(&ours).unwrap(), "a/sealed", "secret").unwrap();
    assert!(!server.cli(&["GET", "caddy/a/sealed"]).contains("c2VjcmV0"));
    let error = text(&RedisStore::open(&theirs).unwrap(), "a/sealed").unwrap_err();
    assert_eq!(error.fault, Fault::Foreign);
    assert!(error.what.contains("does not decrypt"), "{error}");
}

#[test]
fn redis_values_are_encrypted_anew_with_another_key() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let open = |key: Option<[u8; 32]>, former: &[[u8; 32]]| {
        let options = RedisOptions {
            encryption_key: key,
            former_keys: former.to_vec(),
            ..server.options()
        };
        RedisStore::open(&options).unwrap()
    };
    let outcomes = |store: &RedisStore| {
        let mut found = Vec::new();
        let done = store.reseal(&mut |step| found.push((step.key.to_string(), step.outcome)));
        assert_eq!(done, Ok(()));
        found
    };
    let (old, new) = ([1; 32], [2; 32]);
    put(&open(None, &[]), "a/plain", "1").unwrap();
    put(&open(Some(old), &[]), "a/old", "2").unwrap();
    let store = open(Some(new), &[old]);
    put(&store, "b/new", "3").unwrap();
    let outcome = |name: &str, outcome| (name.to_owned(), outcome);
    let (sealed, current) = (ResealOutcome::Sealed, ResealOutcome::Current);
    assert_eq!(
        outcomes(&store),
        [
            outcome("a/old", sealed.clone()),
            outcome("a/plain", sealed),
            outcome("b/new", current.clone()),
        ]
    );
    assert!(
        outcomes(&store)
            .iter()
            .all(|(_, outcome)| *outcome == current)
    );
    let only_new = open(Some(new), &[]);
    for (name, content) in [("a/plain", "1"), ("a/old", "2"), ("b/new", "3")] {
        assert_eq!(text(&only_new, name).unwrap().as_deref(), Some(content));
    }
    let others = outcomes(&open(Some(old), &[]));
    let is_unusable = |outcome: &ResealOutcome| matches!(outcome, ResealOutcome::Unusable(_));
    assert!(others.iter().all(|(_, outcome)| is_unusable(outcome)));
    let refused = open(None, &[]).reseal(&mut |_| {}).unwrap_err();
    assert_eq!(refused.fault, Fault::Setting);
}

#[test]
fn redis_users_need_their_password() {
    let Some(server) = Server::start(&["--requirepass", "rootpw"]) else {
        return;
    };
    let admin = |arguments: &[&str]| server.cli(&[&["-a", "rootpw"], arguments].concat());
    admin(&[
        "ACL",
        "SETUSER",
        "web",
        "on",
        ">secret",
        "~caddy*",
        "+@all",
        "resetchannels",
    ]);
    let login = |user: Option<&str>, password: &str| {
        RedisStore::open(&RedisOptions {
            username: user.map(str::to_owned),
            password: Some(password.to_owned()),
            ..server.options()
        })
        .unwrap()
    };
    conformance::run(&login(None, "rootpw"), &login(None, "rootpw"));
    // This user may neither publish nor subscribe: its watches only look.
    admin(&["FLUSHALL"]);
    conformance::run(&login(Some("web"), "secret"), &login(Some("web"), "secret"));

    let wrong = login(Some("web"), "guess");
    let error = put(&wrong, "a", "1").unwrap_err();
    assert_eq!(error.fault, Fault::Credentials, "{error}");
    assert!(!error.to_string().contains("guess"), "{error}");
    assert_eq!(text(&wrong, "a").unwrap_err(), error);
    assert_eq!(wrong.statistics().requests, 1);
    let error = put(&server.store(), "a", "1").unwrap_err();
    assert_eq!(error.fault, Fault::Credentials, "{error}");
    let elsewhere = RedisOptions {
        username: Some("web".to_owned()),
        password: Some("secret".to_owned()),
        prefix: "other".to_owned(),
        ..server.options()
    };
    let error = put(&RedisStore::open(&elsewhere).unwrap(), "a", "1").unwrap_err();
    assert_eq!(error.fault, Fault::Credentials, "{error}");
    let far = RedisOptions {
        db: 99,
        password: Some("rootpw".to_owned()),
        ..server.options()
    };
    let error = put(&RedisStore::open(&far).unwrap(), "a", "1").unwrap_err();
    assert_eq!(error.fault, Fault::Setting, "{error}");
}

#[test]
fn redis_servers_and_clients_show_certificates() {
    let folder = TempFolder::new();
    let ca = certificates(&folder);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (ca_path, cert, private) = (path("ca.pem"), path("leaf.pem"), path("leaf.key"));
    let arguments = [
        "--tls-port",
        "PORT",
        "--tls-cert-file",
        &*cert,
        "--tls-key-file",
        &*private,
        "--tls-ca-cert-file",
        &*ca_path,
    ];
    let Some(server) = Server::start(&arguments) else {
        return;
    };
    let pem = |name: &str| folder.read(name).into_bytes();
    let with = |tls: TlsOptions| {
        RedisStore::open(&RedisOptions {
            tls: Some(tls),
            ..server.options()
        })
    };
    let full = TlsOptions {
        ca: Some(ca),
        identity: Some((pem("leaf.pem"), pem("leaf.key"))),
        verification: TlsVerification::Full,
    };
    let store = with(full.clone()).unwrap();
    put(&store, "a", "1").unwrap();
    let mut watch = store.watch(&key("a")).unwrap();
    put(&store, "a", "2").unwrap();
    assert!(!watch.next(TIMEOUT).unwrap().is_empty());
    let anonymous = TlsOptions {
        identity: None,
        ..full.clone()
    };
    let error = put(&with(anonymous).unwrap(), "a", "3").unwrap_err();
    assert_eq!(error.fault, Fault::Away, "{error}");
    let untrusted = TlsOptions {
        ca: None,
        ..full.clone()
    };
    let error = put(&with(untrusted).unwrap(), "a", "3").unwrap_err();
    assert!(error.what.contains("certificate"), "{error}");
    let any = TlsOptions {
        ca: None,
        verification: TlsVerification::None,
        ..full.clone()
    };
    put(&with(any).unwrap(), "a", "3").unwrap();
    let broken = TlsOptions {
        ca: Some(b"-----BEGIN CERTIFICATE-----\nx".to_vec()),
        ..full
    };
    assert_eq!(with(broken).unwrap_err().fault, Fault::Setting);
}

#[test]
fn redis_lease_of_a_dead_holder_passes_on() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let options = RedisOptions {
        lease_ttl: SHORT_LEASE,
        ..server.options()
    };
    let (a, b) = (
        RedisStore::open(&options).unwrap(),
        RedisStore::open(&options).unwrap(),
    );
    let held = a.lease("renewed", Duration::ZERO).unwrap();
    crate::takeover::check("redis", &server.port.to_string(), &b, SHORT_LEASE);
    let error = b.lease("renewed", Duration::ZERO).unwrap_err();
    assert_eq!(error.fault, Fault::Held);
    assert!(!held.is_lost());
}

#[test]
fn redis_that_takes_no_writes_is_read() {
    let Some(mut master) = Server::start(&[]) else {
        return;
    };
    let store = master.store();
    put(&store, "a", "1").unwrap();
    let port = master.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]).unwrap();
    let reader = replica.store();
    let describe = || format!("{:?}", text(&reader, "a"));
    let has = || text(&reader, "a") == Ok(Some("1".to_owned()));
    eventually("the copy", has, describe);
    let error = put(&reader, "a", "2").unwrap_err();
    assert_eq!(error.fault, Fault::ReadOnly, "{error}");
    let error = reader.lease("x", Duration::ZERO).unwrap_err();
    assert_eq!(error.fault, Fault::ReadOnly, "{error}");

    // A full server: what is written together is refused together, and can still be deleted.
    master.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let (one, two) = (key("full/one"), key("full/two"));
    let writes = [
        Write::Delete(&key("none")),
        Write::Put(&one, b"1"),
        Write::Put(&two, b"2"),
    ];
    let error = store.save(&writes, Guard::Always).unwrap_err();
    assert_eq!(error.fault, Fault::ReadOnly, "{error}");
    assert_eq!(store.load(&[&one, &two]).unwrap(), [None, None]);
    assert_eq!(master.cli(&["ZRANGE", "caddy", "0", "-1"]), "a\n");
    store
        .save(&[Write::Delete(&key("a"))], Guard::Always)
        .unwrap();
    master.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    store.save(&writes, Guard::Always).unwrap();

    // Idle connections end with the server; the next call makes a new one.
    master.kill();
    let error = put(&store, "a", "3").unwrap_err();
    assert_eq!(error.fault, Fault::Away, "{error}");
    master.restart();
    put(&store, "a", "3").unwrap();
}

#[test]
fn redis_master_is_found_by_sentinels() {
    let Some(mut first) = Server::start(&[]) else {
        return;
    };
    let first_port = first.port.to_string();
    let second = Server::start(&["--replicaof", "127.0.0.1", &first_port]).unwrap();
    let folder = TempFolder::new();
    let sentinel_port = free_port();
    let text_of = format!(
        "port {sentinel_port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {first_port} 1\n\
         sentinel down-after-milliseconds main 300\nsentinel failover-timeout main 1000\n"
    );
    let path = folder.write("sentinel.conf", text_of).display().to_string();
    let mut sentinel = crate::servers::Engine::start(
        std::process::Command::new("redis-server").args([&*path, "--sentinel"]),
        &folder.path().join("sentinel.log"),
    );
    sentinel.wait_until(|| std::net::TcpStream::connect(("127.0.0.1", sentinel_port)).is_ok());
    let options = |master: &str| RedisOptions {
        servers: RedisServers::Sentinels {
            // The first does not respond.
            sentinels: vec![
                ("127.0.0.1".to_owned(), free_port()),
                ("127.0.0.1".to_owned(), sentinel_port),
            ],
            master: master.to_owned(),
            password: None,
        },
        timeout: Duration::from_secs(2),
        ..RedisOptions::default()
    };
    let store = RedisStore::open(&options("main")).unwrap();
    put(&store, "a", "1").unwrap();
    let unknown = RedisStore::open(&options("other")).unwrap();
    let error = put(&unknown, "a", "1").unwrap_err();
    assert_eq!(error.fault, Fault::Setting, "{error}");
    // The sentinel has to know the replica, and the replica the value, before the master may end.
    let has = || second.cli(&["EXISTS", "caddy/a"]) == "1\n";
    eventually("the copy", has, String::new);
    let port = sentinel_port.to_string();
    let replicas = || {
        let output = std::process::Command::new("redis-cli")
            .args(["-p", &port, "SENTINEL", "replicas", "main"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let second_port = second.port.to_string();
    eventually(
        "the replica",
        || replicas().contains(&second_port),
        replicas,
    );
    first.kill();
    let began = std::time::Instant::now();
    let describe = || format!("{:?}", put(&store, "a", "2"));
    eventually("a write", || put(&store, "a", "2").is_ok(), describe);
    println!(
        "redis: written {:?} after the master was killed",
        began.elapsed()
    );
    assert_eq!(second.cli(&["EXISTS", "caddy/a"]), "1\n");
}

#[test]
fn redis_may_be_slow_silent_or_cut_off() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let open = |port: u16, timeout: Duration| -> Box<dyn Store> {
        let options = RedisOptions {
            servers: RedisServers::Single("127.0.0.1".to_owned(), port),
            timeout,
            lease_ttl: SHORT_LEASE,
            ..server.options()
        };
        Box::new(RedisStore::open(&options).unwrap())
    };
    crate::faults::check("redis", server.port, &server.store(), &open);
}

#[test]
fn redis_connections_that_die_without_a_sign_are_noticed() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let open = |port: u16, timeout: Duration| -> Box<dyn Store> {
        let options = RedisOptions {
            servers: RedisServers::Single("127.0.0.1".to_owned(), port),
            timeout,
            // Only the connection with the subscriptions is there to find anything.
            poll: Duration::from_secs(3600),
            probe: crate::faults::PROBE,
            ..server.options()
        };
        Box::new(RedisStore::open(&options).unwrap())
    };
    crate::faults::check_dead_connections("redis", server.port, &server.store(), &open);
}
