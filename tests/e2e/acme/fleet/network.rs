//! A network namespace for one node, with a link to the storage that can be cut, and another one to everything else.

use std::net::Ipv4Addr;
use std::process::Command;

use crate::harness::{free_port, text};
use crate::support::abilities::skipped;

/// A network namespace, removed on drop.
pub struct Network {
    pub name: String,
    /// Where the node reaches the storage.
    pub storage: Link,
    /// Where it reaches the CA, and where it is reached.
    pub rest: Link,
}

/// A pair of connected interfaces, one of them in the namespace.
pub struct Link {
    device: String,
    /// The address of the test.
    pub outer: Ipv4Addr,
    /// The address of the node.
    pub inner: Ipv4Addr,
}

/// The networks of tests: of 10.64.0.0/14, which nothing else uses in a container.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);

impl Network {
    /// Creates it; `None` if that is not permitted here, which is reported.
    #[track_caller]
    pub fn start() -> Option<Network> {
        // A number that no other test has.
        let number = u32::from(free_port());
        let link = |at: u32| {
            let network = u32::from(FIRST) + 8 * number + 4 * at;
            Link {
                device: format!("sluice{number}{}", ["s", "r"][at as usize]),
                outer: Ipv4Addr::from(network + 1),
                inner: Ipv4Addr::from(network + 2),
            }
        };
        let network = Network {
            name: format!("sluice-test-{number}"),
            storage: link(0),
            rest: link(1),
        };
        match network.create() {
            Ok(()) => Some(network),
            Err(what) => {
                skipped(format_args!(
                    "no network namespace can be made here: {what}"
                ));
                None
            }
        }
    }

    fn create(&self) -> Result<(), String> {
        let name = &self.name;
        ip(&format!("netns add {name}"))?;
        ip(&format!("-n {name} link set lo up"))?;
        for link in [&self.storage, &self.rest] {
            let Link {
                device,
                outer,
                inner,
            } = link;
            ip(&format!(
                "link add {device} type veth peer name {device}n netns {name}"
            ))?;
            ip(&format!("addr add {outer}/30 dev {device}"))?;
            ip(&format!("link set {device} up"))?;
            ip(&format!("-n {name} addr add {inner}/30 dev {device}n"))?;
            ip(&format!("-n {name} link set {device}n up"))?;
        }
        Ok(())
    }
}

impl Link {
    /// From now on nothing arrives in either direction.
    pub fn cut(&self) {
        ip(&format!("link set {} down", self.device)).expect("it could be set up");
    }

    /// Ends `cut`.
    pub fn heal(&self) {
        ip(&format!("link set {} up", self.device)).expect("it could be set up");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for link in [&self.storage, &self.rest] {
            // A link that was not created cannot be deleted.
            let _ = ip(&format!("link del {}", link.device));
        }
        let _ = ip(&format!("netns del {}", self.name));
    }
}

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {words}: {}", text(&output.stderr).trim())),
    }
}
