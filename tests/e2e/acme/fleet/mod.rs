//! Several nodes with one storage and one CA.

mod kills;
mod members;
mod network;
mod nodes;
mod on_demand;
mod outage;
mod partition;
mod policies;
mod scene;
mod soak;

use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use super::TIMEOUT;
use super::pebble::Settings;
use crate::harness::{Folder, Setup, free_port, run_to_end, text};
use crate::stores::etcd::ctl;
use crate::stores::{Kind, SharedStore};
use crate::support::program::Program;
use crate::support::servers;
use crate::support::wait::until;
use crate::tls::{connect, get, trusting_local};
use nodes::{Node, names};
use scene::Scene;

/// Three nodes order each certificate once, and serve it while the engine is dead.
fn three_nodes(kind: Kind) {
    let Some(mut scene) = Scene::open(kind) else {
        return;
    };
    let names = names(8);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut running = scene.three_nodes(&names);
    running.await_same(&names);
    assert_eq!(scene.pebble.orders(), names.len());
    assert_eq!(scene.pebble.accounts(), 1);
    // A node serves a certificate of another one before it has had its own turn with the lock.
    scene.store.wait_until_tidy();
    // Without the engine they go on, and start again with all names.
    scene.store.kill();
    let client = running.client.clone();
    for (node, server) in running.nodes.iter().zip(&mut running.servers) {
        node.certificate(&client, names[0])
            .expect("it still serves");
        server.kill();
    }
    for node in &running.nodes {
        let began = Instant::now();
        let server = node.start();
        let ready = began.elapsed();
        println!("a node without {kind:?} is ready after {ready:?}");
        for name in &names {
            assert!(
                node.certificate(&client, name).is_some(),
                "{name}: {}",
                server.stderr()
            );
        }
        server.wait_for_words("the storage is away");
    }
    assert_eq!(scene.pebble.orders(), names.len());
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn three_nodes_order_each_certificate_once_and_serve_it_with_etcd_dead() {
    three_nodes(Kind::Etcd);
}

/// Three nodes that need so many certificates order each of them once.
fn order_once(count: usize) {
    let Some(scene) = Scene::open(Kind::Etcd) else {
        return;
    };
    let names = names(count);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let began = Instant::now();
    let running = scene.three_nodes(&names);
    let all = || (scene.certificates() == count).then_some(());
    let describe = || running.servers[0].stderr();
    until(TIMEOUT, "all certificates", all, describe);
    let ordered = began.elapsed();
    running.await_same(&names);
    println!(
        "{count} certificates after {ordered:?}, served by all nodes after {:?}",
        began.elapsed()
    );
    scene.store.wait_until_tidy();
    assert_eq!(scene.pebble.orders(), count);
    assert_eq!(scene.pebble.accounts(), 1);
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn any_node_responds_to_a_challenge_in_the_handshake() {
    let Some(scene) = Scene::with(Kind::Etcd, Settings::new()) else {
        return;
    };
    let only_alpn = |mut node: Node| {
        let issuer = "\tcert_issuer acme {\n\t\tdisable_http_challenge\n\t}\n}\n";
        node.caddyfile = node.caddyfile.replacen("\n}\n", &format!("\n{issuer}"), 1);
        node
    };
    // It has no certificate to order for, and responds for the other one.
    let responding = only_alpn(scene.responding(&["other.test"]));
    let data = responding.data.path().display().to_string();
    let plain = responding
        .caddyfile
        .replace("other.test {", "other.test {\n\ttls internal");
    let _responding = Setup::new(&plain).env("XDG_DATA_HOME", &data).start();
    let ordering = only_alpn(scene.elsewhere(&["a.example.test"]));
    let server = ordering.start();
    ordering.wait(&scene.pebble.client(), "a.example.test", &server);
    assert_eq!(scene.pebble.orders(), 1);
}

/// Another node orders the certificate of one that has died in the middle of its order, after a lock of full length.
fn a_dead_node_is_followed_by_another() {
    let mut settings = Settings::new();
    // Validation waits for some seconds, so that the order is under way for long enough.
    settings.variables = vec![("PEBBLE_VA_SLEEPTIME", "20".to_owned())];
    let Some(scene) = Scene::with(Kind::Etcd, settings) else {
        return;
    };
    let (etcd, pebble) = (&scene.store, &scene.pebble);
    let first = scene.elsewhere(&["a.example.test"]);
    let mut dying = first.start();
    let lock = || {
        let locks = etcd.locks();
        let has = locks.iter().any(|name| name.contains("issue_cert"));
        has.then_some(())
    };
    until(TIMEOUT, "the lock", lock, || dying.stderr());
    let order = || (pebble.orders() == 1).then_some(());
    until(TIMEOUT, "the order", order, || dying.stderr());
    dying.kill();
    let died = Instant::now();
    let second = scene.responding(&["a.example.test"]);
    let server = second.start();
    let took_over = || (pebble.orders() > 1).then_some(());
    until(TIMEOUT, "another order", took_over, || server.stderr());
    println!(
        "another node orders {:?} after the first one died",
        died.elapsed()
    );
    second.wait(&pebble.client(), "a.example.test", &server);
    assert_eq!(pebble.orders(), 2);
    etcd.wait_until_tidy();
}

/// A site with a certificate of the local CA, kept in `storage`.
fn local_site(port: u16, storage: &str) -> String {
    format!(
        "{{\n\tadmin off\n\thttp_port {}\n\tskip_install_trust\n\t{storage}\n}}\n\
         https://a.localhost:{port} {{\n\ttls internal\n\trespond hello\n}}\n",
        free_port()
    )
}

/// Runs Caddy with the data folder `data/sluice` until it serves; returns the certificate that it presents.
fn certificate_of_caddy(program: PathBuf, folder: &Folder, port: u16) -> Vec<u8> {
    let data = folder.path().join("data/sluice");
    let storage = format!("storage file_system {}", data.display());
    let file = folder.write("Caddyfile.caddy", local_site(port, &storage));
    let mut caddy = Command::new(program);
    caddy
        .args(["run", "--adapter", "caddyfile", "--config"])
        .arg(&file)
        .env("HOME", folder.path());
    let caddy = Program::start(&mut caddy, folder.path().join("caddy.log"));
    let root = data.join("pki/authorities/local/root.crt");
    let is_there = || {
        let client = root.is_file().then(|| trusting_local(folder))?;
        let wire = connect(&client, port, "a.localhost").ok()?;
        Some(wire.stream_certificate())
    };
    until(TIMEOUT, "a certificate of Caddy", is_there, || {
        caddy.output()
    })
}

/// Runs a command that must succeed; returns what it prints.
fn run(folder: &Folder, args: &[&str]) -> String {
    let output = run_to_end(folder, args);
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{args:?}: {said}");
    said
}

#[test]
#[ignore = "needs etcd and a Caddy: cargo xtask acme"]
fn a_folder_of_caddy_is_migrated_to_etcd_and_served_from_there() {
    let (Some(etcd), Some(program)) = (SharedStore::start(Kind::Etcd), servers::caddy()) else {
        return;
    };
    let (folder, port) = (Folder::new(), free_port());
    let shown = certificate_of_caddy(program, &folder, port);
    let caddys = folder.path().join("data/sluice");
    let key = format!("prefix /web\n\t\tencryption_key {}", "a5".repeat(32));
    let sealed = etcd.storage().replace("prefix /web", &key);
    folder.write("Caddyfile.etcd", local_site(port, &sealed));
    let from = caddys.display().to_string();
    let migrate = ["storage", "migrate", "--from-folder", &from];
    let migrate = [&migrate[..], &["--config", "Caddyfile.etcd"]].concat();
    let said = run(&folder, &migrate);
    assert!(
        said.contains("copied ") && !said.contains("copied 0 "),
        "{said}"
    );
    // Again: nothing is left to do.
    assert!(run(&folder, &migrate).contains("copied 0 values"));
    let listed = ["storage", "list", "certificates", "-c", "Caddyfile.etcd"];
    let crt = "certificates/local/a.localhost/a.localhost.crt";
    assert!(run(&folder, &listed).contains(&format!("{crt}\n")));
    // Private keys are of no use to those who can read etcd.
    let mut all = Command::new("etcdctl");
    all.env("ETCDCTL_API", "3")
        .arg(format!("--endpoints={}", etcd.address()))
        .args(["get", "--prefix", "/web/"]);
    let all = text(&all.output().expect("etcdctl starts").stdout);
    assert!(all.contains("BEGIN CERTIFICATE") && !all.contains("PRIVATE KEY"));
    let data = Folder::new();
    let server = Setup::new(&local_site(port, &sealed))
        .env("XDG_DATA_HOME", &data.path().display().to_string())
        .start();
    let client = trusting_local(&folder);
    let wire = connect(&client, port, "a.localhost").expect("Caddy's root counts");
    assert_eq!(wire.stream_certificate(), shown, "{}", server.stderr());
    // Out of etcd into an archive, and back into a folder.
    let archive = folder.path().join("all.tar").display().to_string();
    run(
        &folder,
        &["storage", "export", "-c", "Caddyfile.etcd", "-o", &archive],
    );
    let copy = folder.path().join("copy");
    let storage = format!("storage file_system {}", copy.display());
    folder.write("Caddyfile.copy", local_site(port, &storage));
    run(
        &folder,
        &["storage", "import", "-c", "Caddyfile.copy", "-i", &archive],
    );
    for name in ["pki/authorities/local/root.key", crt] {
        let of = |folder: &PathBuf| std::fs::read(folder.join(name)).expect("it is there");
        assert_eq!(of(&caddys), of(&copy), "{name}");
    }
}

#[test]
#[ignore = "needs etcd: cargo xtask acme"]
fn a_lock_is_listed_and_can_be_ended() {
    let Some(etcd) = SharedStore::start(Kind::Etcd) else {
        return;
    };
    let folder = Folder::new();
    folder.write("Caddyfile", format!("{{\n\t{}\n}}\n", etcd.storage()));
    let unlock = |name: &[&str]| {
        run_to_end(
            &folder,
            &[&["storage", "unlock", "-c", "Caddyfile"], name].concat(),
        )
    };
    assert_eq!(text(&unlock(&[]).stdout), "");
    let put = ["put", "/web.lock/issue_cert_a.test", "x"];
    ctl(&etcd.address(), &put);
    assert_eq!(text(&unlock(&[]).stdout), "issue_cert_a.test\n");
    let wrong = unlock(&["issue_cert_b.test"]);
    let said = text(&wrong.stderr);
    assert!(said.contains("these are held: issue_cert_a.test"), "{said}");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(unlock(&["issue_cert_a.test"]).status.success());
    assert_eq!(etcd.locks(), [""; 0]);
    // An engine that is away is one clear message.
    let port = free_port();
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    folder.write("Dead", format!("{{\n\tstorage etcd 127.0.0.1:{port}\n}}\n"));
    let dead = run_to_end(
        &folder,
        &["storage", "list", "-c", "Dead", "-a", "caddyfile"],
    );
    let said = text(&dead.stderr);
    assert!(
        said.contains("does not respond") && said.contains("help: "),
        "{said}"
    );
    assert_eq!(dead.status.code(), Some(1));
}

#[test]
#[ignore = "needs etcd: cargo xtask acme"]
fn sessions_are_resumed_on_another_node() {
    let Some(etcd) = SharedStore::start(Kind::Etcd) else {
        return;
    };
    let data = Folder::new();
    let node = || {
        Setup::new(&format!(
            "{{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n\t{}\n}}\n\
             https://a.localhost:{{port}} {{\n\ttls internal\n\trespond a\n}}\n\
             https://b.localhost:{{port}} {{\n\ttls internal\n\trespond b\n}}\n",
            etcd.storage()
        ))
        .env("XDG_DATA_HOME", &data.path().display().to_string())
    };
    let tickets = |setup: Setup| {
        let output = run_to_end(setup.folder(), &["adapt", "--config", "Caddyfile"]);
        let mut config: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        config["apps"]["tls"]["session_tickets"] =
            serde_json::json!({"key_source": {"provider": "distributed"}});
        setup.folder().write("config.json", config.to_string());
        setup.args(&["--config", "config.json"]).start()
    };
    let (first, second) = (tickets(node()), tickets(node()));
    let copies = data.path().join("sluice/store_copies");
    let copy = std::fs::read_dir(&copies).expect("copies").next();
    let copy = copy.expect("one").expect("readable").path();
    let root = std::fs::read(copy.join("pki/authorities/local/root.crt")).expect("a root");
    let own = Folder::new();
    std::fs::create_dir_all(own.path().join("data/sluice/pki/authorities/local"))
        .expect("writable");
    own.write("data/sluice/pki/authorities/local/root.crt", root);
    let mut resumed = 0;
    for n in 0..100 {
        // Each client is new, so a session is that of the other node.
        let client = trusting_local(&own);
        let (from, to) = if n % 2 == 0 {
            (&first, &second)
        } else {
            (&second, &first)
        };
        let mut wire = connect(&client, from.port, "a.localhost").expect("a connection");
        assert_eq!(get(&mut wire, "a.localhost", "/").1, "a");
        drop(wire);
        let mut wire = connect(&client, to.port, "a.localhost").expect("a connection");
        assert_eq!(get(&mut wire, "a.localhost", "/").1, "a");
        let kind = wire.stream().conn.handshake_kind();
        resumed += usize::from(kind == Some(rustls::HandshakeKind::Resumed));
    }
    println!("{resumed} of 100 sessions were resumed on the other node");
    assert!(resumed >= 99, "{resumed}");
}

/// The certificate that was presented on a connection.
trait Presented {
    fn stream_certificate(self) -> Vec<u8>;
}

impl Presented for crate::wire::Wire<crate::tls::Secure> {
    fn stream_certificate(mut self) -> Vec<u8> {
        let certs = self.stream().conn.peer_certificates();
        certs.expect("a certificate")[0].to_vec()
    }
}
