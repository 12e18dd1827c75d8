//! The node that holds the lock of an order is killed, again and again.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::nodes::Node;
use super::scene::Scene;
use crate::acme::TIMEOUT;
use crate::harness::Server;
use crate::stores::Kind;
use crate::support::wait::until;

/// How long a lock lasts without its holder here; the default only makes the test longer.
const LOCK: &str = "5s";

/// How far an order has come when its node is killed.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Locked,
    Ordered,
    Published,
}

pub const STEPS: [Step; 3] = [Step::Locked, Step::Ordered, Step::Published];

/// What all rounds have in common.
struct Arena {
    scene: Scene,
    /// The global option, with locks that end soon.
    storage: String,
    client: Arc<ClientConfig>,
}

/// What a kill has cost.
struct Cost {
    takeover: Duration,
    orders: usize,
}

impl Arena {
    fn has(&self, folder: &str, end: &str) -> bool {
        let keys = self.scene.store.keys(folder);
        keys.iter().any(|key| key.ends_with(end))
    }

    /// The holder of the lock for `name`, once its order has come to `step`; or `None` if it was too fast.
    fn holder(
        &self,
        name: &str,
        step: Step,
        before: usize,
        describe: impl Fn() -> String,
    ) -> Option<u32> {
        let look = || {
            let is_there = match step {
                Step::Locked => true,
                Step::Ordered => self.scene.pebble.orders() > before,
                Step::Published => self.has("acme", &format!("/{name}.json")),
            };
            let holder = self.scene.store.holder(&format!("issue_cert_{name}"));
            match holder.filter(|_| is_there) {
                Some(pid) => Some(Some(pid)),
                None => self
                    .has("certificates", &format!("/{name}.crt"))
                    .then_some(None),
            }
        };
        until(TIMEOUT, "the holder of the lock", look, describe)
    }

    /// Two nodes need a certificate, and the one that orders it is killed. `None` if it was too fast.
    fn kill(&self, name: &str, step: Step) -> Option<Cost> {
        let before = self.scene.pebble.orders();
        let settings = self.scene.pebble.settings();
        let nodes = [(); 2].map(|()| Node::elsewhere(settings, &self.storage, &[name]));
        let mut running: Vec<Server> = nodes.iter().map(Node::start).collect();
        let describe = || running[0].stderr() + &running[1].stderr();
        let holder = self.holder(name, step, before, describe)?;
        let at = running.iter().position(|server| server.pid() == holder);
        let at = at.expect("it is one of the two");
        running.remove(at).kill();
        let died = Instant::now();
        let (node, server) = (&nodes[1 - at], &running[0]);
        let next = || {
            let next = self.scene.store.holder(&format!("issue_cert_{name}"));
            let is_other = next.is_some_and(|pid| pid != holder);
            (is_other || node.certificate(&self.client, name).is_some()).then_some(())
        };
        until(TIMEOUT, "another holder", next, || server.stderr());
        let takeover = died.elapsed();
        node.wait(&self.client, name, server);
        self.scene.store.wait_until_tidy();
        Some(Cost {
            takeover,
            orders: self.scene.pebble.orders() - before,
        })
    }
}

/// Kills the holder of the lock at each of these steps. Each time another node takes over, with at most one order more,
/// and nothing of the dead one is left.
pub fn survive_kills(steps: impl IntoIterator<Item = Step>) {
    let Some(scene) = Scene::open(Kind::Postgres) else {
        return;
    };
    let steps: Vec<Step> = steps.into_iter().collect();
    let count = steps.len();
    let place = (Ipv4Addr::LOCALHOST, scene.store.port());
    let storage = scene.store.storage_at(place, LOCK);
    let _responding = Node::only_responding(scene.pebble.settings(), &storage).start();
    let arena = Arena {
        client: scene.pebble.client(),
        scene,
        storage,
    };
    let mut costs = Vec::new();
    for number in 0..2 * count + 10 {
        let Some(step) = steps.get(costs.len()).copied() else {
            break;
        };
        let cost = arena.kill(&format!("k{number}.example.test"), step);
        if let Some(Cost { orders, .. }) = cost {
            assert!((1..=2).contains(&orders), "{orders} orders, {step:?}");
        }
        costs.extend(cost);
    }
    assert_eq!(costs.len(), count, "orders were too fast");
    let more: usize = costs.iter().map(|cost| cost.orders - 1).sum();
    let longest = costs.iter().map(|cost| cost.takeover).max();
    println!("{count} holders killed: {more} more orders, longest takeover {longest:?} ({LOCK})");
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn the_holder_of_a_lock_is_killed_while_its_challenge_is_published() {
    survive_kills([Step::Published]);
}
