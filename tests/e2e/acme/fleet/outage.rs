//! The store is away while clients send requests: nothing fails, what has to wait waits, and it goes on by itself.
//! Certificates and the configuration are in the same store.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::ClientConfig;

use super::nodes::certificate;
use super::scene::Scene;
use crate::acme::TIMEOUT;
use crate::acme::pebble::{Pebble, Settings};
use crate::client::exchange;
use crate::harness::{Folder, Server, free_port};
use crate::push::load::Load;
use crate::push::nodes::{node, push};
use crate::stores::Kind;
use crate::support::wait::until;

/// What the log says when the store goes and comes, of certificates and of the configuration.
const GONE: [&str; 2] = [
    "the storage is away",
    "the configuration source does not respond",
];
const BACK: [&str; 2] = [
    "the storage is back",
    "the configuration source responds again",
];

/// How the store is away.
#[derive(Clone, Copy)]
pub enum Outage {
    /// It is killed, and started again.
    Killed,
    /// Connections stay open, and nothing responds.
    Frozen,
}

/// Nodes that run one configuration from the store.
pub struct Fleet {
    pub url: String,
    pub servers: Vec<Server>,
    https: Vec<SocketAddr>,
    client: Arc<ClientConfig>,
    _configs: Folder,
}

impl Fleet {
    /// Pushes the configuration for `names`, and starts three nodes. The first one responds to the challenges.
    pub fn start(pebble: &Pebble, url: &str, storage: &str, names: &str) -> Fleet {
        let configs = Folder::new();
        let settings = pebble.settings();
        let text = configuration(settings, storage, names, "v1");
        let (outcome, said) = push(url, &text, &[]);
        assert_eq!(outcome["outcome"], "done", "{said}");
        let mut ports = vec![(settings.http, settings.alpn)];
        ports.extend([(); 2].map(|()| (free_port(), free_port())));
        let start = |(at, (http, https)): (usize, &(u16, u16))| {
            let name = format!("n{at}");
            let setup = node(url, &name, &configs.path().join(&name));
            let setup = setup.env("HTTP", &http.to_string());
            setup.env("HTTPS", &https.to_string()).start()
        };
        Fleet {
            url: url.to_owned(),
            servers: ports.iter().enumerate().map(start).collect(),
            https: (ports.iter())
                .map(|(_, https)| (Ipv4Addr::LOCALHOST, *https).into())
                .collect(),
            client: pebble.client(),
            _configs: configs,
        }
    }

    /// Waits until each node serves `name`.
    pub fn await_certificate(&self, name: &str) {
        for at in 0..self.servers.len() {
            self.await_certificate_at(at, name);
        }
    }

    fn await_certificate_at(&self, at: usize, name: &str) {
        let server = &self.servers[at];
        let look = || certificate(&self.client, self.https[at], name);
        until(TIMEOUT, name, look, || server.stderr());
    }

    fn await_words(&self, all: [&str; 2]) {
        for server in &self.servers {
            for words in all {
                server.wait_for_words_within(words, TIMEOUT);
            }
        }
    }

    /// Waits until the metrics of each node have this line.
    pub fn await_sample(&self, sample: &str) {
        for server in &self.servers {
            server.wait_for_sample(sample);
        }
    }
}

/// A Caddyfile with sites for `names`, and one without TLS that responds with `word`. The ports are those of a node.
pub fn configuration(settings: &Settings, storage: &str, names: &str, word: &str) -> String {
    let options = settings.options_with_admin("{$HTTP:80}", "{$HTTPS:443}");
    format!(
        "{{\n\t{options}\t{storage}\n}}\n{names} {{\n\trespond hello\n}}\n\
         http://:{{$PORT:8080}} {{\n\trespond {word}\n}}\n"
    )
}

/// Loads a configuration in one node, as an operator without the store would.
fn load(server: &Server, caddyfile: &str) {
    let (admin, length) = (server.admin, caddyfile.len());
    let request = format!(
        "POST /load HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Length: {length}\r\n\
         Content-Type: text/caddyfile\r\nConnection: close\r\n\r\n{caddyfile}"
    );
    let response = exchange(admin, request);
    assert_eq!(response.status, 200, "{}", response.text());
}

pub fn nothing_fails(kind: Kind, outage: Outage) {
    let Some(scene) = Scene::open(kind) else {
        return;
    };
    let (first, both) = ("a.example.test", "a.example.test, b.example.test");
    let fleet = scene.fleet(first);
    let Scene { mut store, pebble } = scene;
    let (settings, storage) = (pebble.settings(), store.storage());
    fleet.await_certificate(first);
    store.wait_until_tidy();
    let clients = Load::start(&fleet.servers);
    match outage {
        Outage::Killed => store.kill(),
        Outage::Frozen => store.freeze(),
    }
    fleet.await_words(GONE);
    fleet.await_sample("sluice_config_source_up 0");
    // A certificate that is needed now has to wait, and nothing else does.
    let ordering = &fleet.servers[0];
    load(ordering, &configuration(settings, &storage, both, "v2"));
    assert_eq!(ordering.ask("/").text(), "v2");
    ordering.wait_for_words_within("could not obtain a certificate", TIMEOUT);
    fleet.await_certificate(first);
    assert_eq!(pebble.orders(), 1);
    match outage {
        Outage::Killed => store.restart(),
        Outage::Frozen => store.thaw(),
    }
    fleet.await_words(BACK);
    fleet.await_certificate_at(0, "b.example.test");
    fleet.await_sample("sluice_config_source_up 1");
    let (served, failed) = clients.end();
    println!("{kind:?}: {served} requests, {failed} failed");
    assert_eq!(failed, 0);
    assert_eq!(pebble.orders(), 2);
    store.wait_until_tidy();
    for server in &fleet.servers {
        let said = server.stderr();
        for words in GONE.iter().chain(&BACK) {
            assert_eq!(said.matches(words).count(), 1, "{words}: {said}");
        }
    }
}

/// The store is started again in the middle of an order.
pub fn an_order_goes_on(kind: Kind) {
    let Some(scene) = Scene::open(kind) else {
        return;
    };
    let (first, both) = ("a.example.test", "a.example.test, b.example.test");
    let fleet = scene.fleet(first);
    let Scene { mut store, pebble } = scene;
    let (settings, storage) = (pebble.settings(), store.storage());
    fleet.await_certificate(first);
    let ordering = &fleet.servers[0];
    load(ordering, &configuration(settings, &storage, both, "v2"));
    let ordered = || (pebble.orders() == 2).then_some(());
    until(TIMEOUT, "the order", ordered, || ordering.stderr());
    store.kill();
    store.restart();
    fleet.await_certificate_at(0, "b.example.test");
    let stored = || {
        let keys = store.keys("certificates");
        let has = keys.iter().any(|key| key.ends_with("/b.example.test.crt"));
        has.then_some(())
    };
    until(TIMEOUT, "it is stored", stored, || ordering.stderr());
    store.wait_until_tidy();
    let orders = pebble.orders();
    println!("{kind:?}: {orders} orders for two certificates");
    assert!((2..=3).contains(&orders), "{}", ordering.stderr());
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn an_order_goes_on_when_etcd_is_started_again() {
    an_order_goes_on(Kind::Etcd);
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn requests_survive_an_etcd_that_is_frozen() {
    nothing_fails(Kind::Etcd, Outage::Frozen);
}
