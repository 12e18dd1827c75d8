//! What the tests of a fleet begin with: an engine that its nodes share, a CA, and three nodes.

use std::sync::Arc;

use rustls::ClientConfig;

use super::nodes::Node;
use super::outage::Fleet;
use crate::acme::pebble::{Pebble, Settings};
use crate::harness::Server;
use crate::stores::{Kind, SharedStore};

/// An engine and a CA.
pub struct Scene {
    pub store: SharedStore,
    pub pebble: Pebble,
}

impl Scene {
    /// `None` if the engine is not installed, which is reported. The CA rejects no nonces: a finalization whose nonces are
    /// rejected three times in a row is followed by another order.
    #[track_caller]
    pub fn open(kind: Kind) -> Option<Scene> {
        Scene::with(kind, Settings::calm())
    }

    /// The same with a CA of these settings.
    #[track_caller]
    pub fn with(kind: Kind, settings: Settings) -> Option<Scene> {
        let store = SharedStore::start(kind)?;
        Some(Scene {
            store,
            pebble: settings.start(),
        })
    }

    /// A node that responds to the challenges of all.
    pub fn responding(&self, names: &[&str]) -> Node {
        Node::responding(self.pebble.settings(), &self.store.storage(), names)
    }

    /// A node on ports that the CA does not connect to.
    pub fn elsewhere(&self, names: &[&str]) -> Node {
        Node::elsewhere(self.pebble.settings(), &self.store.storage(), names)
    }

    /// Starts three nodes that need certificates for `names`. The first one responds to the challenges.
    pub fn three_nodes(&self, names: &[&str]) -> Nodes {
        let nodes = vec![
            self.responding(names),
            self.elsewhere(names),
            self.elsewhere(names),
        ];
        self.run(nodes)
    }

    /// Starts nodes.
    pub fn run(&self, nodes: Vec<Node>) -> Nodes {
        Nodes {
            servers: nodes.iter().map(Node::start).collect(),
            nodes,
            client: self.pebble.client(),
        }
    }

    /// Starts three nodes that run one configuration for `names` from the engine.
    pub fn fleet(&self, names: &str) -> Fleet {
        let (url, storage) = (self.store.url(), self.store.storage());
        Fleet::start(&self.pebble, &url, &storage, names)
    }

    /// How many certificates are stored.
    pub fn certificates(&self) -> usize {
        let keys = self.store.keys("certificates").into_iter();
        keys.filter(|key| key.ends_with(".crt")).count()
    }
}

/// Nodes that run.
pub struct Nodes {
    pub nodes: Vec<Node>,
    pub servers: Vec<Server>,
    /// A client that trusts the CA.
    pub client: Arc<ClientConfig>,
}

impl Nodes {
    /// Waits until all of them serve each of `names`, with the same certificate.
    pub fn await_same(&self, names: &[&str]) {
        for name in names {
            let nodes = self.nodes.iter().zip(&self.servers);
            let shown = nodes.map(|(node, server)| node.wait(&self.client, name, server));
            let shown: Vec<Vec<u8>> = shown.collect();
            assert!(shown.iter().all(|one| *one == shown[0]), "{name}");
        }
    }
}
