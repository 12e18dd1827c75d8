//! The store is away, has a bad configuration, or refuses the credentials.

use std::time::Instant;

use crate::harness::{Folder, eventually, finish, sluice, text};

use super::engines::Etcd;
use super::nodes::{await_states, bad_site, leave, node, nodes, push, site};

const AWAY: &str = "the configuration source does not respond";
const BACK: &str = "the configuration source responds again";

#[test]
fn nodes_serve_and_start_while_the_store_is_away_and_then_catch_up() {
    let Some(mut etcd) = Etcd::start() else {
        return;
    };
    let (url, configs) = (etcd.url(""), Folder::new());
    push(&url, &site("a"), &[]);
    let mut servers = nodes(&url, 2, &configs);
    etcd.stop();
    for server in &servers {
        server.wait_for_words(AWAY);
        assert_eq!(server.ask("/").text(), "a");
    }
    // A node that was stopped starts from its copy.
    servers.pop();
    let began = Instant::now();
    let started = node(&url, "n1", &configs.path().join("n1")).start();
    println!(
        "a node started in {:.3} s without its store",
        began.elapsed().as_secs_f64()
    );
    assert_eq!(started.ask("/").text(), "a");
    let words = "starting with the last configuration that worked";
    assert_eq!(
        started.stderr().matches(words).count(),
        1,
        "{}",
        started.stderr()
    );
    servers.push(started);
    // One without a copy cannot, and says why.
    let folder = Folder::new();
    let failed = finish(sluice(&folder).args(["run", "--config", &url, "--node", "n2"]));
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        text(&failed.stderr).contains("does not respond"),
        "{}",
        text(&failed.stderr)
    );
    etcd.resume();
    servers
        .iter()
        .for_each(|server| server.wait_for_words(BACK));
    // The leases have ended meanwhile, or are renewed.
    await_states(&url, "in_sync", 2);
    let (outcome, said) = push(&url, &site("b"), &[]);
    assert_eq!(outcome["outcome"], "done", "{said}");
    for server in &servers {
        assert_eq!(server.ask("/").text(), "b");
        assert_eq!(
            server.stderr().matches(AWAY).count(),
            1,
            "{}",
            server.stderr()
        );
        assert_eq!(
            server.stderr().matches(BACK).count(),
            1,
            "{}",
            server.stderr()
        );
    }
}

#[test]
fn a_node_that_starts_with_a_bad_configuration_runs_its_last_good_one() {
    let Some(etcd) = Etcd::start() else { return };
    let (url, configs) = (etcd.url(""), Folder::new());
    push(&url, &site("a"), &[]);
    nodes(&url, 1, &configs).into_iter().for_each(leave);
    let start = || node(&url, "n0", &configs.path().join("n0")).start();
    for bad in [bad_site(), ":80 {\n\tno_such_directive\n}\n".to_owned()] {
        etcd.put(&bad);
        let server = start();
        assert_eq!(server.ask("/").text(), "a");
        await_states(&url, "refuses", 1);
        etcd.put(&site("b"));
        await_states(&url, "in_sync", 1);
        assert_eq!(server.ask("/").text(), "b");
        etcd.put(&site("a"));
        await_states(&url, "in_sync", 1);
        leave(server);
    }
    // Without a copy there is nothing to fall back to.
    etcd.put(&bad_site());
    let folder = Folder::new();
    let failed = finish(sluice(&folder).args(["run", "--config", &url, "--node", "n1"]));
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        text(&failed.stderr).contains("/no/such.pem"),
        "{}",
        text(&failed.stderr)
    );
}

#[test]
fn a_wrong_password_is_reported_once() {
    let Some(etcd) = Etcd::start() else { return };
    let configs = Folder::new();
    push(&etcd.url(""), &site("a"), &[]);
    nodes(&etcd.url(""), 1, &configs)
        .into_iter()
        .for_each(leave);
    etcd.control(&["user", "add", "root:right"]);
    etcd.control(&["user", "grant-role", "root", "root"]);
    etcd.control(&["auth", "enable"]);
    let right = etcd.url("root:right@");
    let (outcome, said) = push(&right, &site("b"), &[]);
    assert_eq!(outcome["outcome"], "done", "{said}");
    let wrong = etcd.url("root:secret-but-wrong@");
    let server = node(&wrong, "n0", &configs.path().join("n0")).start();
    assert_eq!(
        server.ask("/").text(),
        "a",
        "the copy is found with another password"
    );
    let failures = || server.metric("sluice_config_source_failures_total");
    eventually("several attempts", || failures() >= 3, || server.metrics());
    let words = "refuses the credentials; the configuration stays as it is";
    assert_eq!(
        server.stderr().matches(words).count(),
        1,
        "{}",
        server.stderr()
    );
    assert!(!server.stderr().contains("secret-but-wrong"));
    assert!(!server.metrics().contains("secret-but-wrong"));
    let folder = Folder::new();
    let failed = finish(sluice(&folder).args(["push", "--rollback", "--to", &wrong]));
    assert_eq!(failed.status.code(), Some(1));
    let said = text(&failed.stderr);
    assert!(
        said.contains("refuses the credentials") && !said.contains("secret"),
        "{said}"
    );
    // The right one from the environment.
    let url = etcd.url("root@");
    let setup = node(&url, "n1", &configs.path().join("n1"));
    let server = setup.env("SLUICE_STORE_PASSWORD", "right").start();
    assert_eq!(server.ask("/").text(), "b");
}
