//! A node that is cut off from the storage in the middle of an order, while its lock ends.

use std::net::Ipv4Addr;

use super::network::Network;
use super::nodes::Node;
use crate::acme::TIMEOUT;
use crate::acme::pebble::Settings;
use crate::stores::proxy::Proxy;
use crate::stores::{Kind, SharedStore};
use crate::support::wait::until;

const NAME: &str = "a.example.test";

const LOCK: &str = "issue_cert_a.example.test";

/// The network between the node and the storage.
enum Between {
    /// A relay that drops everything, and afterwards has forgotten its connections, without a sign to either side.
    Relay(Proxy),
    /// A namespace of the node, whose link goes down. The relay in it only lends the storage another address.
    Namespace(Network, Proxy),
}

impl Between {
    /// Where the node finds the storage.
    fn storage(&self) -> (Ipv4Addr, u16) {
        match self {
            Between::Relay(relay) => (Ipv4Addr::LOCALHOST, relay.port),
            Between::Namespace(network, relay) => (network.storage.outer, relay.port),
        }
    }

    /// Where all nodes find the CA.
    fn ca(&self) -> Ipv4Addr {
        match self {
            Between::Relay(_) => Ipv4Addr::LOCALHOST,
            Between::Namespace(network, _) => network.rest.outer,
        }
    }

    fn place(&self, node: Node) -> Node {
        match self {
            Between::Relay(_) => node,
            Between::Namespace(network, _) => node.in_network(&network.name, network.rest.inner),
        }
    }

    fn cut(&self) {
        match self {
            Between::Relay(relay) => {
                relay.lose_connections();
                relay.silence(true);
            }
            Between::Namespace(network, _) => network.storage.cut(),
        }
    }

    fn heal(&self) {
        match self {
            Between::Relay(relay) => relay.silence(false),
            Between::Namespace(network, _) => network.storage.heal(),
        }
    }
}

/// A node is cut off in the middle of its order, which goes on when the network works again. Nothing depends on how long
/// that takes: the order waits for the test.
fn a_node_is_cut_off(store: &SharedStore, between: &Between) {
    let mut settings = Settings::calm_at(between.ca());
    // Neither node is asked: what each of them would respond is tested elsewhere.
    let always = ("PEBBLE_VA_ALWAYS_VALID", "1".to_owned());
    settings.variables.push(always);
    let pebble = settings.start();
    let settings = pebble.settings();
    let through = store.storage_at(between.storage(), "5s");
    let cut_off = between.place(Node::elsewhere(settings, &through, &[NAME]).holding_orders());
    let first = cut_off.start();
    let is_holding = |pid: u32| store.holder(LOCK) == Some(pid);
    let reached = || cut_off.is_held().then_some(());
    until(TIMEOUT, "the order", reached, || first.stderr());
    assert!(is_holding(first.pid()));
    between.cut();
    let direct = store.storage_at((Ipv4Addr::LOCALHOST, store.port()), "5s");
    let other = Node::elsewhere(settings, &direct, &[NAME]);
    let second = other.start();
    // It may have stored its certificate before its lock is seen.
    let took_over =
        || (is_holding(second.pid()) || !store.keys("certificates").is_empty()).then_some(());
    until(TIMEOUT, "another holder", took_over, || second.stderr());
    between.heal();
    cut_off.release();
    // The write of the first one is refused, and it has the certificate of the second one in the end.
    first.wait_for_words_within("refused a write", TIMEOUT);
    let client = pebble.client();
    let stored = other.wait(&client, NAME, &second);
    let is_same = || {
        let shown = cut_off.certificate(&client, NAME);
        (shown.as_ref() == Some(&stored)).then_some(())
    };
    until(TIMEOUT, "the same certificate", is_same, || first.stderr());
    assert_eq!(other.certificate(&client, NAME), Some(stored.clone()));
    assert_eq!(pebble.orders(), 2);
    assert!(!second.stderr().contains("refused a write"));
    store.wait_until_tidy();
}

pub fn by_a_relay(kind: Kind) {
    let Some(store) = SharedStore::start(kind) else {
        return;
    };
    let relay = Between::Relay(Proxy::new(store.port()));
    a_node_is_cut_off(&store, &relay);
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn the_write_of_a_node_that_was_cut_off_is_refused_by_postgres() {
    by_a_relay(Kind::Postgres);
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn the_write_of_a_node_whose_link_was_down_is_refused() {
    let (Some(network), Some(store)) = (Network::start(), SharedStore::start(Kind::Etcd)) else {
        return;
    };
    let relay = Proxy::at(network.storage.outer, store.port());
    let namespace = Between::Namespace(network, relay);
    a_node_is_cut_off(&store, &namespace);
}
