//! The engines that the nodes of a fleet share, with the options and URLs that reach them. Their servers are those of the
//! store's own tests.

#[path = "../../../engine/store/tests/engines/servers/certificates.rs"]
pub mod certificates;
#[path = "../../../engine/store/tests/engines/servers/engine.rs"]
mod engine;
#[path = "../../../engine/store/tests/engines/servers/etcd.rs"]
pub mod etcd;
#[path = "../../../engine/store/tests/engines/servers/postgres.rs"]
mod postgres;
#[path = "../../../engine/store/tests/engines/servers/proxy.rs"]
pub mod proxy;
#[path = "../../../engine/store/tests/engines/servers/redis.rs"]
mod redis;

use std::net::Ipv4Addr;
use std::time::Duration;

use sluice_store::etcd::{EtcdOptions, EtcdStore};
use sluice_store::{Fault, Key, Reach, Store};

use crate::support::program::signal;
use crate::support::wait::eventually;
use engine::{Engine, SHORT_LEASE};

/// The kinds of engines.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Etcd,
    Redis,
    Postgres,
}

/// An engine that the nodes of a fleet share.
pub struct SharedStore {
    server: Server,
    /// Reads and writes what the nodes do.
    store: Box<dyn Store>,
}

enum Server {
    Etcd(etcd::Cluster),
    Redis(redis::Server),
    Postgres(postgres::Server),
}

impl SharedStore {
    /// Starts it; `None` if it is not installed, which is reported.
    #[track_caller]
    pub fn start(kind: Kind) -> Option<SharedStore> {
        Some(match kind {
            Kind::Etcd => {
                // Without it, etcd 3.4 loses the last writes that it has confirmed when it is killed.
                let durable = ["--unsafe-no-fsync=false"];
                let mut cluster = etcd::Cluster::start(1, &durable)?;
                drop(cluster.store());
                let options = EtcdOptions {
                    prefix: "/web".to_owned(),
                    ..cluster.options()
                };
                let store = EtcdStore::open(&options).expect("the options are valid");
                SharedStore {
                    server: Server::Etcd(cluster),
                    store: Box::new(store),
                }
            }
            Kind::Redis => {
                // What it has confirmed outlives it.
                let durable = ["--appendonly", "yes", "--appendfsync", "always"];
                let server = redis::Server::start(&durable)?;
                SharedStore {
                    store: Box::new(server.store()),
                    server: Server::Redis(server),
                }
            }
            Kind::Postgres => {
                let server = postgres::Server::start(&[])?;
                SharedStore {
                    store: Box::new(server.store()),
                    server: Server::Postgres(server),
                }
            }
        })
    }

    pub fn port(&self) -> u16 {
        match &self.server {
            Server::Etcd(cluster) => cluster.members[0].port(),
            Server::Redis(server) => server.port,
            Server::Postgres(server) => server.port,
        }
    }

    /// The address for programs such as etcdctl.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }

    /// The global option for certificates.
    pub fn storage(&self) -> String {
        self.storage_at((Ipv4Addr::LOCALHOST, self.port()), "")
    }

    /// The global option for certificates, with the engine at this address. Locks in PostgreSQL end after `lock_timeout`,
    /// unless that is empty; in the others after 15 seconds.
    pub fn storage_at(&self, (host, port): (Ipv4Addr, u16), lock_timeout: &str) -> String {
        let (name, options) = match &self.server {
            Server::Etcd(_) => (format!("etcd {host}:{port}"), "prefix /web".to_owned()),
            Server::Redis(_) => ("redis".to_owned(), format!("address {host}:{port}")),
            Server::Postgres(_) => {
                let mut options = format!(
                    "host {host}\n\t\tport {port}\n\t\tuser web\n\t\tpassword secret\n\t\tdbname certs\n\
                     \t\tsslmode disable"
                );
                if !lock_timeout.is_empty() {
                    options.push_str(&format!("\n\t\tlock_timeout {lock_timeout}"));
                }
                ("postgres".to_owned(), options)
            }
        };
        format!("storage {name} {{\n\t\t{options}\n\t}}\n")
    }

    /// The URL of a configuration.
    pub fn url(&self) -> String {
        let port = self.port();
        match &self.server {
            Server::Etcd(_) => format!("etcd://127.0.0.1:{port}/sluice/prod"),
            Server::Redis(_) => format!("redis://127.0.0.1:{port}/sluice/prod"),
            Server::Postgres(_) => {
                let user = "web:secret";
                format!("postgres://{user}@127.0.0.1:{port}/certs/sluice/prod?sslmode=disable")
            }
        }
    }

    /// The locks that are held.
    pub fn locks(&self) -> Vec<String> {
        self.store.leases().expect("it runs")
    }

    /// The PID of the process that holds the lock `name`.
    pub fn holder(&self, name: &str) -> Option<u32> {
        if !self.locks().iter().any(|held| held == name) {
            return None;
        }
        match self.store.lease(name, Duration::ZERO) {
            Err(error) if error.fault == Fault::Held => error.what.rsplit('/').next()?.parse().ok(),
            // It has just ended.
            Ok(_) | Err(_) => None,
        }
    }

    /// The keys of the values below `prefix`.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let prefix = Key::new(prefix).expect("a key");
        let entries = self.store.list(&prefix, Reach::All).expect("it runs");
        entries
            .iter()
            .map(|entry| entry.key().to_string())
            .collect()
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Vec<u8> {
        let key = Key::new(key).expect("a key");
        let found = self.store.load(&[&key]).expect("it runs").remove(0);
        found.expect("it is there").bytes
    }

    /// Waits until an order has left neither a lock nor a challenge.
    pub fn wait_until_tidy(&self) {
        let left = || {
            let challenges = self.keys("acme").into_iter();
            let challenges = challenges.filter(|key| key.contains("challenge_tokens"));
            let locks = self.locks().into_iter();
            // PostgreSQL has all locks in one table: those of nodes as well, which last as long as they do.
            let of_orders = ["issue_cert_", "acme_account_"];
            let locks = locks.filter(|name| of_orders.iter().any(|kind| name.starts_with(kind)));
            locks.chain(challenges).collect::<Vec<String>>()
        };
        let describe = || format!("{:?}", left());
        eventually("the end of all locks", || left().is_empty(), describe);
    }

    /// Ends it, as `kill -9` does.
    pub fn kill(&mut self) {
        match &mut self.server {
            Server::Etcd(cluster) => cluster.members[0].kill(),
            Server::Redis(server) => server.kill(),
            Server::Postgres(server) => server.kill(),
        }
    }

    /// Starts it again after it was killed, with what it had.
    pub fn restart(&mut self) {
        match &mut self.server {
            Server::Etcd(cluster) => {
                cluster.restart(0);
                drop(cluster.store());
            }
            Server::Redis(server) => server.restart(),
            Server::Postgres(server) => server.restart(),
        }
    }

    /// Stops it in the middle of what it does: connections stay open, and nothing responds.
    pub fn freeze(&self) {
        signal(self.id(), "STOP");
    }

    /// Ends `freeze`.
    pub fn thaw(&self) {
        signal(self.id(), "CONT");
    }

    fn id(&self) -> u32 {
        match &self.server {
            Server::Etcd(cluster) => cluster.members[0].id(),
            Server::Redis(server) => server.id(),
            Server::Postgres(server) => server.id(),
        }
    }
}
