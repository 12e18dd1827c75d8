//! The store in PostgreSQL, on real servers.

use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Duration;

use sluice_store::postgres::{PostgresOptions, PostgresStore, SCHEMA, SchemaSetup};
use sluice_store::{Entry, Fault, Guard, Key, Reach, Store, Write};

use crate::conformance;
use crate::plain_calls::{key, put, text};
use crate::servers::SHORT_LEASE;
use crate::servers::certificates::certificates;
use crate::servers::postgres::Server;
use crate::temp_folder::TempFolder;
use crate::wait::{TIMEOUT, eventually};

#[test]
fn postgres_keeps_the_contract() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    // Both create the tables at the same time.
    let (a, b) = (server.store(), server.store());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| put(&a, "first", "1"));
        put(&b, "second", "2").unwrap();
        first.join().unwrap().unwrap();
    });
    conformance::run(&a, &b);
}

/// As an ACME order does, which waits for the CA in a runtime.
#[test]
fn postgres_may_be_called_in_the_runtime_of_something_else() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let store = server.store();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let lease = store.lease("inside", Duration::ZERO).unwrap();
        let name = key("inside");
        let guard = Guard::Held(lease.fence());
        store.save(&[Write::Put(&name, b"1")], guard).unwrap();
        assert_eq!(text(&store, "inside").unwrap().as_deref(), Some("1"));
        assert_eq!(store.leases().unwrap(), ["inside"]);
        drop(lease);
    });
    assert_eq!(text(&store, "inside").unwrap().as_deref(), Some("1"));
}

#[test]
fn postgres_rows_are_those_of_caddy() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    // A fleet of Caddy servers was here before: its tables, without our columns.
    let web = |sql: &str| server.sql("certs", &format!("set role web; {sql}"));
    web(
        "create table certmagic_data (key text primary key, value bytea, \
         modified timestamptz default current_timestamp)",
    );
    let caddy_put = "insert into certmagic_data (key, value) values ('acme/theirs', 'x') \
                     on conflict (key) do update set value = 'x', modified = current_timestamp";
    web(caddy_put);
    let store = server.store();
    let value = store
        .load(&[&key("acme/theirs")])
        .unwrap()
        .remove(0)
        .unwrap();
    assert_eq!(value.bytes, b"x");
    let entries = store.list(&Key::default(), Reach::All).unwrap();
    assert!(
        matches!(&entries[..], [Entry::Value { size: 1, .. }]),
        "{entries:?}"
    );

    // Caddy's writes are announced, and change the version.
    let mut watch = store.watch(&key("acme")).unwrap();
    web(caddy_put);
    let changes = watch.next(TIMEOUT).unwrap();
    assert_eq!(changes[0].key, key("acme/theirs"));
    let unchanged = Guard::Unchanged(&key("acme/theirs"), Some(&value.version));
    let stale = store.save(&[Write::Put(&key("acme/theirs"), b"ours")], unchanged);
    assert_eq!(stale.unwrap_err().fault, Fault::Refused);
    web("delete from certmagic_data where key = 'acme/theirs'");
    assert_eq!(watch.next(TIMEOUT).unwrap()[0].value, None);

    // Its lock excludes us, and what it takes over from us is not ours any more.
    let caddy_lock = "insert into certmagic_locks (key, expires) \
                      values ('issue', current_timestamp + interval '1 minute') \
                      on conflict (key) do update set expires = excluded.expires";
    web(caddy_lock);
    let error = store.lease("issue", Duration::ZERO).unwrap_err();
    assert_eq!(error.fault, Fault::Held);
    assert_eq!(store.leases().unwrap(), ["issue"]);
    web("delete from certmagic_locks where key = 'issue'");
    let held = store.lease("issue", Duration::ZERO).unwrap();
    let write = [Write::Put(&key("a"), b"1")];
    store.save(&write, Guard::Held(held.fence())).unwrap();
    web(caddy_lock);
    let late = store.save(&write, Guard::Held(held.fence()));
    assert_eq!(late.unwrap_err().fault, Fault::Refused);
    drop(held);
    assert_eq!(store.leases().unwrap(), ["issue"]);
    // A Caddy with a role of its own knows nothing of our sequence.
    server.sql(
        "certs",
        "create role caddy; grant select, insert, update, delete on certmagic_data to caddy; \
         grant select, insert, update, delete on certmagic_locks to caddy",
    );
    let own_role = format!("set role caddy; {caddy_put}; {caddy_lock}");
    server.sql("certs", &own_role);
    assert_eq!(watch.next(TIMEOUT).unwrap()[0].key, key("acme/theirs"));
    web("delete from certmagic_data where key = 'acme/theirs'");
    // What is not a key is not shown.
    web("insert into certmagic_data (key) values ('/a'), ('a//b'), ('x/null')");
    let entries = store.list(&Key::default(), Reach::All).unwrap();
    let keys: Vec<&str> = entries.iter().map(|entry| entry.key().as_str()).collect();
    assert_eq!(keys, ["a", "x/null"]);
    assert_eq!(text(&store, "x/null").unwrap().as_deref(), Some(""));
}

#[test]
fn postgres_users_need_their_password_and_their_tables() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let open = |place: &str| PostgresStore::open(&PostgresOptions::parse(place).unwrap()).unwrap();
    let wrong = open(&server.place("sslmode=disable").replace("secret", "guess"));
    let error = put(&wrong, "a", "1").unwrap_err();
    assert_eq!(error.fault, Fault::Credentials, "{error}");
    assert!(!error.to_string().contains("guess"), "{error}");
    assert_eq!(text(&wrong, "a").unwrap_err(), error);
    assert_eq!(wrong.statistics().requests, 1);
    let none = open(&server.place("").replace("password=secret", ""));
    assert_eq!(put(&none, "a", "1").unwrap_err().fault, Fault::Credentials);
    let elsewhere = open(&server.place("").replace("=certs", "=missing"));
    assert_eq!(put(&elsewhere, "a", "1").unwrap_err().fault, Fault::Setting);

    // An operator creates the tables, and the user may only use them.
    let mut options = server.options();
    options.schema = SchemaSetup::Expect;
    let store = PostgresStore::open(&options).unwrap();
    let error = put(&store, "a", "1").unwrap_err();
    assert_eq!(error.fault, Fault::Setting);
    assert!(error.what.contains("missing"), "{error}");
    server.sql("certs", SCHEMA);
    let error = put(&PostgresStore::open(&options).unwrap(), "a", "1").unwrap_err();
    assert_eq!(error.fault, Fault::Credentials, "{error}");
    server.sql(
        "certs",
        "grant select, insert, update, delete on certmagic_data, certmagic_locks to web; \
         grant usage on sequence sluice_revision to web",
    );
    let store = PostgresStore::open(&options).unwrap();
    conformance::run(&store, &PostgresStore::open(&options).unwrap());
}

#[test]
fn postgres_servers_and_clients_show_certificates() {
    let folder = TempFolder::new();
    let ca = certificates(&folder);
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let private = folder.path().join("leaf.key");
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o600)).unwrap();
    // The server runs as another user if this is root; without root it is our own.
    let _ = chown(&private, Some(65_534), Some(65_534));
    let path = |name: &str| folder.path().join(name).display().to_string();
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", path("leaf.pem")),
        format!("ssl_key_file={}", path("leaf.key")),
        format!("ssl_ca_file={}", path("ca.pem")),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let Some(server) = Server::start(&settings) else {
        return;
    };
    let full = |name: &str| {
        let place = server
            .place("sslmode=verify-full")
            .replace("127.0.0.1", name);
        let mut options = PostgresOptions::parse(&place).unwrap();
        options.tls.ca = Some(ca.clone());
        options
    };
    let store = PostgresStore::open(&full("127.0.0.1")).unwrap();
    put(&store, "a", "1").unwrap();
    let encrypted = "select count(*) from pg_stat_ssl s join pg_stat_activity using (pid) \
                     where ssl and usename = 'web'";
    assert_eq!(server.sql("certs", encrypted), "1\n");
    let mut watch = store.watch(&key("a")).unwrap();
    put(&store, "a", "2").unwrap();
    assert!(!watch.next(TIMEOUT).unwrap().is_empty());
    let mut untrusted = full("127.0.0.1");
    untrusted.tls.ca = None;
    let error = put(&PostgresStore::open(&untrusted).unwrap(), "a", "3").unwrap_err();
    assert!(error.what.contains("UnknownIssuer"), "{error}");
    // `require` encrypts and does not verify.
    let any = PostgresOptions::parse(&server.place("sslmode=require")).unwrap();
    put(&PostgresStore::open(&any).unwrap(), "a", "3").unwrap();
    let mut broken = full("127.0.0.1");
    broken.tls.ca = Some(b"nothing".to_vec());
    let error = PostgresStore::open(&broken).unwrap_err();
    assert_eq!(error.fault, Fault::Setting, "{error}");
}

#[test]
fn postgres_lease_of_a_dead_holder_passes_on() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let place = server.place("sslmode=disable");
    let (a, b) = (
        crate::servers::postgres::open(&place),
        crate::servers::postgres::open(&place),
    );
    let held = a.lease("renewed", Duration::ZERO).unwrap();
    crate::takeover::check("postgres", &place, &b, SHORT_LEASE);
    let error = b.lease("renewed", Duration::ZERO).unwrap_err();
    assert_eq!(error.fault, Fault::Held);
    assert!(!held.is_lost());
}

#[test]
fn postgres_that_takes_no_writes_is_read_and_a_crashed_one_is_found_again() {
    let Some(mut server) = Server::start(&[]) else {
        return;
    };
    let store = server.store();
    put(&store, "a", "1").unwrap();
    server.sql(
        "postgres",
        "alter database certs set default_transaction_read_only = on",
    );
    server.sql(
        "postgres",
        "select pg_terminate_backend(pid, 60000) from pg_stat_activity where usename = 'web'",
    );
    assert_eq!(text(&store, "a").unwrap().as_deref(), Some("1"));
    let error = put(&store, "a", "2").unwrap_err();
    assert_eq!(error.fault, Fault::ReadOnly, "{error}");
    let error = store.lease("x", Duration::ZERO).unwrap_err();
    assert_eq!(error.fault, Fault::ReadOnly, "{error}");
    server.sql(
        "postgres",
        "alter database certs reset default_transaction_read_only",
    );
    server.sql(
        "postgres",
        "select pg_terminate_backend(pid, 60000) from pg_stat_activity where usename = 'web'",
    );
    put(&store, "a", "2").unwrap();

    let mut watch = store.watch(&key("a")).unwrap();
    server.crash();
    let describe = || format!("{:?}", put(&store, "a", "3"));
    eventually("a write", || put(&store, "a", "3").is_ok(), describe);
    let error = watch.next(TIMEOUT).unwrap_err();
    assert_eq!(error.fault, Fault::Away, "{error}");
}

#[test]
fn postgres_may_be_slow_silent_or_cut_off() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let open = |port: u16, timeout: Duration| -> Box<dyn Store> {
        let place = server.place("sslmode=disable");
        let place = place.replace(&server.port.to_string(), &port.to_string());
        let mut options = PostgresOptions::parse(&place).unwrap();
        options.timeout = timeout;
        options.lease_ttl = SHORT_LEASE;
        Box::new(PostgresStore::open(&options).unwrap())
    };
    crate::faults::check("postgres", server.port, &server.store(), &open);
}

#[test]
fn postgres_connections_that_die_without_a_sign_are_noticed() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let open = |port: u16, timeout: Duration| -> Box<dyn Store> {
        let place = server.place("sslmode=disable");
        let place = place.replace(&server.port.to_string(), &port.to_string());
        let mut options = PostgresOptions::parse(&place).unwrap();
        options.timeout = timeout;
        options.probe = crate::faults::PROBE;
        Box::new(PostgresStore::open(&options).unwrap())
    };
    crate::faults::check_dead_connections("postgres", server.port, &server.store(), &open);
}

/// More keys are announced at once than have room: the probe of the connection is not held up by them.
#[test]
fn a_watch_in_postgres_is_probed_although_many_keys_are_announced() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let mut options = server.options();
    // Each wait begins with a probe.
    options.probe = Duration::ZERO;
    let store = PostgresStore::open(&options).unwrap();
    let mut watch = store.watch(&key("many")).unwrap();
    let many = 3000;
    let insert = format!(
        "insert into certmagic_data (key, value) \
         select 'many/' || number, 'x' from generate_series(1, {many}) number"
    );
    server.sql("certs", &format!("set role web; {insert}"));
    let mut seen = 0;
    while seen < many {
        let changes = watch.next(TIMEOUT).unwrap();
        assert!(!changes.is_empty(), "{seen} arrived");
        seen += changes.len();
    }
    assert_eq!(seen, many);
}
