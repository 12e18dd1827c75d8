//! Certificates that clients ask for, on several nodes at once.

use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use super::nodes::Node;
use super::scene::{Nodes, Scene};
use crate::stores::Kind;
use crate::tls::connect_to;
use crate::upstream::Upstream;

const PERMITTED: &str = "yes.example.test";

const REFUSED: &str = "no.example.test";

/// Clients of each node that ask for a name at the same time.
const CLIENTS: usize = 5;

/// An endpoint that permits one name.
struct Permission {
    upstream: Upstream,
    /// The names that it was asked for.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Permission {
    fn start() -> Permission {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let names = asked.clone();
        let upstream = Upstream::start(move |mut wire| {
            while let Some(head) = wire.head() {
                let target = head[0].split(' ').nth(1).unwrap_or_default();
                let (_, name) = target.split_once("?domain=").unwrap_or_default();
                names.lock().expect("unpoisoned").push(name.to_owned());
                let status = match name {
                    PERMITTED => "200 OK",
                    _ => "403 Forbidden",
                };
                let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                if wire.try_send(response).is_err() {
                    return;
                }
            }
        });
        Permission { upstream, asked }
    }

    fn asked_for(&self, name: &str) -> usize {
        let asked = self.asked.lock().expect("unpoisoned");
        asked.iter().filter(|asked| *asked == name).count()
    }

    /// The node, with certificates for whichever name clients ask for.
    fn on_demand(&self, mut node: Node) -> Node {
        let ask = format!(
            "on_demand_tls {{\n\t\task http://127.0.0.1:{}/ask\n\t}}",
            self.upstream.port
        );
        let site = "\ttls {\n\t\ton_demand\n\t}\n\trespond hello";
        node.caddyfile = node
            .caddyfile
            .replacen("\n}\n", &format!("\n\t{ask}\n}}\n"), 1)
            .replace("\trespond hello", site);
        node
    }
}

/// Clients of all nodes ask for `name` at the same time; the certificates that they get.
fn ask_at_once(running: &Nodes, name: &str) -> Vec<Option<Vec<u8>>> {
    let addrs = running.nodes.iter().map(Node::https);
    let addrs: Vec<_> = addrs
        .flat_map(|addr| std::iter::repeat_n(addr, CLIENTS))
        .collect();
    let together = &Barrier::new(addrs.len());
    thread::scope(|scope| {
        let clients = addrs.iter().map(|&addr| {
            scope.spawn(move || {
                together.wait();
                let mut wire = connect_to(&running.client, addr, name).ok()?;
                let shown = wire.stream().conn.peer_certificates()?;
                Some(shown[0].to_vec())
            })
        });
        // All of them are started before one is waited for.
        let clients: Vec<_> = clients.collect();
        let shown = clients.into_iter().map(|client| client.join());
        shown.map(|shown| shown.expect("no panic")).collect()
    })
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn a_name_that_is_asked_for_on_all_nodes_at_once_is_ordered_once() {
    let Some(scene) = Scene::open(Kind::Etcd) else {
        return;
    };
    let permission = Permission::start();
    let mut responding = permission.on_demand(scene.responding(&["https://"]));
    // The CA connects to its plain port.
    let plain = "http://other.test {\n\trespond other\n}\n";
    responding.caddyfile.push_str(plain);
    let elsewhere = || permission.on_demand(scene.elsewhere(&["https://"]));
    let running = scene.run(vec![responding, elsewhere(), elsewhere()]);
    let said = || {
        let said = running.servers.iter().map(|server| server.stderr());
        said.collect::<String>()
    };
    let shown = ask_at_once(&running, PERMITTED);
    let first = shown[0].clone();
    assert!(first.is_some(), "{}", said());
    assert!(shown.iter().all(|one| *one == first), "{}", said());
    assert_eq!(scene.pebble.orders(), 1);
    // Each node has asked once, whatever the number of its clients.
    assert_eq!(permission.asked_for(PERMITTED), running.nodes.len());

    let shown = ask_at_once(&running, REFUSED);
    assert!(shown.iter().all(Option::is_none));
    assert_eq!(permission.asked_for(REFUSED), running.nodes.len());
    assert_eq!(scene.pebble.orders(), 1);

    // Another node finds the certificate in the storage, and asks as well.
    scene.store.wait_until_tidy();
    let late = scene.run(vec![elsewhere()]);
    assert_eq!(ask_at_once(&late, PERMITTED)[0], first);
    assert_eq!(permission.asked_for(PERMITTED), running.nodes.len() + 1);
    assert_eq!(scene.pebble.orders(), 1);
}
