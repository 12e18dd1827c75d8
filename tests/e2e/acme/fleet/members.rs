//! Three members of etcd with TLS and users: their leader is killed while clients send requests.

use std::process::{Command, Output};

use serde_json::Value;

use super::outage::{Fleet, configuration};
use crate::acme::TIMEOUT;
use crate::acme::pebble::Settings;
use crate::harness::{Folder, text};
use crate::push::load::Load;
use crate::push::nodes::{await_states, push};
use crate::stores::certificates::certificates;
use crate::stores::etcd::{Cluster, Member};
use crate::support::wait::until;

/// A cluster that only users with a password may use.
struct Secured {
    cluster: Cluster,
    folder: Folder,
}

impl Secured {
    /// Starts it; `None` if etcd is not installed, which is reported.
    #[track_caller]
    fn start() -> Option<Secured> {
        let folder = Folder::new();
        certificates(&folder);
        let path = |name: &str| folder.path().join(name).display().to_string();
        let cert = format!("--cert-file={}", path("leaf.pem"));
        let key = format!("--key-file={}", path("leaf.key"));
        let cluster = Cluster::start(3, &[&cert, &key])?;
        let secured = Secured { cluster, folder };
        let is_ready = || (secured.control(&["put", "ready", "1"]).status.success()).then_some(());
        until(TIMEOUT, "the members", is_ready, String::new);
        for words in [
            "user add root:rootpw",
            "user grant-role root root",
            "role add web",
            "role grant-permission web --prefix=true readwrite /sluice",
            "role grant-permission web --prefix=true readwrite /web",
            "user add web:secret",
            "user grant-role web web",
            "auth enable",
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let done = secured.control(&words);
            assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
        }
        Some(secured)
    }

    fn ca(&self) -> String {
        self.folder.path().join("ca.pem").display().to_string()
    }

    fn endpoints(&self, of: impl Fn(&Member) -> String) -> Vec<String> {
        self.cluster.members.iter().map(of).collect()
    }

    fn control(&self, args: &[&str]) -> Output {
        let mut command = Command::new("etcdctl");
        command
            .env("ETCDCTL_API", "3")
            .arg(format!(
                "--endpoints={}",
                self.endpoints(Member::url).join(",")
            ))
            .arg(format!("--cacert={}", self.ca()))
            .args(args);
        command.output().expect("etcdctl starts")
    }

    /// The index of the leader.
    fn leader(&self) -> usize {
        let asked = ["--user=root:rootpw", "endpoint", "status", "-w", "json"];
        let output = self.control(&asked);
        let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let all = all.as_array().expect("a list of members");
        let is_leader = |member: &&Value| {
            let status = &member["Status"];
            status["leader"] == status["header"]["member_id"]
        };
        let leader = all.iter().find(is_leader).expect("there is one");
        let url = &leader["Endpoint"];
        let mut urls = self.endpoints(Member::url).into_iter();
        urls.position(|one| *url == one).expect("it is a member")
    }

    fn hosts(&self) -> Vec<String> {
        self.endpoints(|member| format!("127.0.0.1:{}", member.port()))
    }

    /// The URL of a configuration.
    fn url(&self) -> String {
        let (hosts, ca) = (self.hosts().join(","), self.ca());
        format!("etcds://web:secret@{hosts}/sluice/prod?ca={ca}")
    }

    /// The global option for certificates.
    fn storage(&self) -> String {
        let (hosts, ca) = (self.hosts().join(" "), self.ca());
        format!(
            "storage etcd {hosts} {{\n\t\tprefix /web\n\t\tusername web\n\t\tpassword secret\n\t\ttls_ca {ca}\n\t}}\n"
        )
    }
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn the_leader_of_three_members_is_killed_under_load() {
    let Some(mut etcd) = Secured::start() else {
        return;
    };
    let pebble = Settings::calm().start();
    let settings = pebble.settings();
    let (first, both) = ("a.example.test", "a.example.test, b.example.test");
    let storage = etcd.storage();
    let fleet = Fleet::start(&pebble, &etcd.url(), &storage, first);
    fleet.await_certificate(first);
    let clients = Load::start(&fleet.servers);
    let leader = etcd.leader();
    etcd.cluster.members[leader].kill();
    // The others elect another one. Until then a push may fail, and says so.
    let text = configuration(settings, &storage, both, "v2");
    let pushed = || {
        let (outcome, said) = push(&fleet.url, &text, &[]);
        match outcome["outcome"].as_str() {
            Some("done" | "unchanged") => Some(()),
            _ => {
                println!("not pushed: {}", said.trim());
                None
            }
        }
    };
    until(TIMEOUT, "a push", pushed, String::new);
    await_states(&fleet.url, "in_sync", fleet.servers.len());
    for server in &fleet.servers {
        assert_eq!(server.ask("/").text(), "v2");
    }
    fleet.await_certificate("b.example.test");
    etcd.cluster.restart(leader);
    fleet.await_sample("sluice_config_source_up 1");
    let (served, failed) = clients.end();
    println!("{served} requests, {failed} failed");
    assert_eq!(failed, 0);
    assert_eq!(pebble.orders(), 2);
    for server in &fleet.servers {
        assert!(!server.stderr().contains("secret"), "{}", server.stderr());
    }
}
