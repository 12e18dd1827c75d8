//! Members of an etcd cluster.

use std::process::Command;

use sluice_store::etcd::{EtcdOptions, EtcdStore};

use super::{Engine, SHORT_LEASE};
use crate::abilities::can_run;
use crate::ports::free_port;
use crate::temp_folder::TempFolder;

/// A cluster in a temporary folder.
pub struct Cluster {
    pub members: Vec<Member>,
    folder: TempFolder,
}

pub struct Member {
    engine: Engine,
    port: u16,
    arguments: Vec<String>,
}

impl Cluster {
    /// A cluster of `count` members; `None` if etcd is not installed, which is reported.
    #[track_caller]
    pub fn start(count: usize, more: &[&str]) -> Option<Cluster> {
        if !can_run("etcd", &["--version"]) || !can_run("etcdctl", &["--help"]) {
            return None;
        }
        let folder = TempFolder::in_memory();
        let ports: Vec<(u16, u16)> = (0..count).map(|_| (free_port(), free_port())).collect();
        let names = ports.iter().enumerate();
        let all: Vec<String> = names
            .map(|(at, (_, peer))| format!("m{at}=http://127.0.0.1:{peer}"))
            .collect();
        let members = ports.iter().enumerate().map(|(at, (client, peer))| {
            let scheme = match more.iter().any(|text| text.starts_with("--cert-file")) {
                true => "https",
                false => "http",
            };
            let client_url = format!("{scheme}://127.0.0.1:{client}");
            let data = folder.path().join(format!("m{at}"));
            let mut arguments = vec![
                format!("--name=m{at}"),
                format!("--data-dir={}", data.display()),
                format!("--listen-client-urls={client_url}"),
                format!("--advertise-client-urls={client_url}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-cluster={}", all.join(",")),
                // Nothing of a test survives it.
                "--unsafe-no-fsync".to_owned(),
            ];
            arguments.extend(more.iter().map(|&text| text.to_owned()));
            Member {
                engine: Engine::start(
                    Command::new("etcd").args(&arguments),
                    &folder.path().join(format!("m{at}.log")),
                ),
                port: *client,
                arguments,
            }
        });
        let members = members.collect();
        Some(Cluster { members, folder })
    }

    /// Options that reach all members.
    pub fn options(&self) -> EtcdOptions {
        let urls = self.members.iter().map(Member::url);
        EtcdOptions {
            endpoints: urls.collect(),
            prefix: "/test".to_owned(),
            ..EtcdOptions::default()
        }
    }

    /// A store on all members, once they accept writes.
    pub fn store(&mut self) -> EtcdStore {
        let store = EtcdStore::open(&self.options()).unwrap();
        let is_ready = || sluice_store::Store::break_lease(&store, "ready").is_ok();
        self.members[0].engine.wait_until(is_ready);
        store
    }

    /// Starts a member again that was killed.
    pub fn restart(&mut self, at: usize) {
        let member = &mut self.members[at];
        let log = self.folder.path().join(format!("m{at}-again.log"));
        member.engine = Engine::start(Command::new("etcd").args(&member.arguments), &log);
    }
}

impl Member {
    pub fn url(&self) -> String {
        let is_tls = self
            .arguments
            .iter()
            .any(|text| text.starts_with("--cert-file"));
        let scheme = if is_tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn id(&self) -> u32 {
        self.engine.id()
    }

    pub fn kill(&mut self) {
        self.engine.kill();
    }
}

/// Runs etcdctl and returns its output.
pub fn ctl(url: &str, arguments: &[&str]) -> String {
    let output = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .arg(format!("--endpoints={url}"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A store on one member, with leases of that time.
pub fn open(url: &str) -> EtcdStore {
    let options = EtcdOptions {
        endpoints: vec![url.to_owned()],
        prefix: "/test".to_owned(),
        lease_ttl: SHORT_LEASE,
        ..EtcdOptions::default()
    };
    EtcdStore::open(&options).unwrap()
}
