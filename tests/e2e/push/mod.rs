//! A configuration for several nodes: `sluice run --config etcd://…`, `sluice push` and `sluice fleet`.

mod dashboard;
pub mod engines;
mod faults;
mod http;
pub mod load;
pub mod nodes;

use std::os::unix::fs::PermissionsExt;
use std::thread;

use crate::harness::{Folder, Server, Setup, eventually, text};
use crate::stores::{Kind, SharedStore};
use crate::upgrade::running::Running;
use engines::{Etcd, Redis};
use load::Load;
use nodes::{await_states, bad_site, fleet, node, nodes, push, run, site, verdicts};

/// So many pushes reach five nodes under load, and one in the middle that no node can run changes none.
fn pushes_reach_five_nodes(url: &str, count: usize) {
    let configs = Folder::new();
    let (outcome, _) = push(url, &site("v0"), &["--if-revision", "none"]);
    assert_eq!(outcome["outcome"], "done");
    let servers = nodes(url, 5, &configs);
    let load = Load::start(&servers);
    let mut seconds = Vec::new();
    for number in 1..=count {
        if number == count / 2 {
            let (outcome, said) = push(url, &bad_site(), &["--no-validate"]);
            assert_eq!(outcome["outcome"], "rolled_back", "{said}");
            assert_eq!(outcome["is_restored"], true, "{outcome}");
            assert_eq!(verdicts(&outcome), ["refused"; 5], "{outcome}");
            assert!(
                outcome["nodes"][0]["error"]
                    .to_string()
                    .contains("/no/such.pem")
            );
            assert!(said.contains("5 of 5 nodes refused it"), "{said}");
            continue;
        }
        let (outcome, said) = push(url, &site(&format!("v{number}")), &[]);
        assert_eq!(verdicts(&outcome), ["took"; 5], "{said}");
        let rows = outcome["nodes"].as_array().expect("a list").iter();
        let taken: Vec<f64> = rows.filter_map(|row| row["seconds"].as_f64()).collect();
        seconds.extend(taken);
        assert!(
            servers
                .iter()
                .all(|node| node.ask("/").text() == format!("v{number}"))
        );
    }
    let (served, failed) = load.end();
    assert_eq!(failed, 0, "of {served} requests");
    seconds.sort_by(f64::total_cmp);
    let at = |share: f64| seconds[((seconds.len() - 1) as f64 * share) as usize];
    println!(
        "{served} requests, none failed; {} verdicts, p50 {:.3} s, p99 {:.3} s, longest {:.3} s",
        seconds.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    let refused = |server: &Server| server.stderr().matches("configuration rejected").count();
    assert!(servers.iter().all(|server| refused(server) == 1));
}

#[test]
fn fifty_pushes_reach_five_nodes_under_load_and_a_bad_one_changes_none() {
    let Some(etcd) = Etcd::start() else { return };
    pushes_reach_five_nodes(&etcd.url(""), 50);
}

#[test]
fn pushes_to_redis_reach_five_nodes_under_load_and_a_bad_one_changes_none() {
    let Some(store) = SharedStore::start(Kind::Redis) else {
        return;
    };
    pushes_reach_five_nodes(&store.url(), 10);
}

#[test]
fn pushes_to_postgres_reach_five_nodes_under_load_and_a_bad_one_changes_none() {
    let Some(store) = SharedStore::start(Kind::Postgres) else {
        return;
    };
    pushes_reach_five_nodes(&store.url(), 10);
}

#[test]
fn the_state_of_a_node_is_shown_everywhere() {
    let Some(etcd) = Etcd::start() else { return };
    let (url, configs) = (etcd.url(""), Folder::new());
    push(&url, &site("a"), &[]);
    let servers = nodes(&url, 2, &configs);
    etcd.put(&bad_site());
    await_states(&url, "refuses", 2);
    assert!(servers.iter().all(|node| node.ask("/").text() == "a"));
    let shown = text(&run(&["fleet", "status", &url], &[]).stdout);
    assert!(shown.contains("n1    refuses"), "{shown}");
    assert!(shown.contains("/no/such.pem"), "{shown}");
    let metrics = servers[0].metrics();
    let place = url.as_str();
    for line in [
        "sluice_config_source_changes_total{result=\"refused\"} 1".to_owned(),
        "sluice_config_source_up 1".to_owned(),
        format!("sluice_config_source_info{{source=\"{place}\",node=\"n0\",revision=\""),
    ] {
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let address = format!("localhost:{}", servers[0].admin);
    let status = text(&run(&["status", "--address", &address], &[]).stdout);
    assert!(
        status.contains(&format!("fleet        node n0 of {place}, revision ")),
        "{status}"
    );
    assert!(
        status.contains(&format!("problem      configuration of {place} refused: ")),
        "{status}"
    );
    // A good one ends it.
    push(&url, &site("b"), &[]);
    let fleet = fleet(&url);
    assert_eq!(
        fleet["nodes"][0]["report"]["refused"],
        serde_json::Value::Null,
        "{fleet}"
    );
    assert_eq!(fleet["nodes"][0]["lag"], serde_json::Value::Null);
    let copy = std::fs::read_dir(configs.path().join("n0/sluice")).expect("the folder of copies");
    let copy = copy.flatten().next().expect("a copy").path();
    let mode = std::fs::metadata(&copy)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn of_two_pushes_at_once_one_wins_and_the_other_is_refused() {
    let Some(etcd) = Etcd::start() else { return };
    let (url, configs) = (etcd.url(""), Folder::new());
    push(&url, &site("a"), &[]);
    let servers = nodes(&url, 2, &configs);
    let revision = fleet(&url)["revision"]
        .as_str()
        .expect("a revision")
        .to_owned();
    let writer = |word: &'static str| {
        let (url, revision) = (url.clone(), revision.clone());
        thread::spawn(move || push(&url, &site(word), &["--if-revision", &revision[..6]]))
    };
    let both = [writer("b"), writer("c")].map(|writer| writer.join().expect("it ends"));
    let won = both
        .iter()
        .position(|(outcome, _)| outcome["outcome"] == "done");
    let won = won.unwrap_or_else(|| panic!("{both:?}"));
    let (lost, said) = &both[1 - won];
    assert!(lost.is_null(), "{lost}");
    let reasons = [
        "another push to",
        "somebody else has changed",
        "so nothing was pushed",
    ];
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
    let word = ["b", "c"][won];
    assert!(servers.iter().all(|node| node.ask("/").text() == word));
}

#[test]
fn a_canary_with_errors_is_rolled_back_before_the_others_take_it() {
    let Some(etcd) = Etcd::start() else { return };
    let (url, configs) = (etcd.url(""), Folder::new());
    push(&url, &site("good"), &[]);
    let servers = nodes(&url, 3, &configs);
    let loads: Vec<Load> = servers
        .iter()
        .map(|node| Load::start(std::slice::from_ref(node)))
        .collect();
    let failing = ":{$PORT:8080} {\n\trespond \"broken\" 500\n}\n";
    let flags = ["--canary", "30%", "--observe", "60s"];
    let (outcome, said) = push(&url, failing, &flags);
    let failed = loads.into_iter().map(|load| load.end().1);
    assert_eq!(
        failed.filter(|failed| *failed > 0).count(),
        1,
        "one node took it: {said}"
    );
    assert_eq!(outcome["outcome"], "rolled_back", "{said}");
    assert_eq!(outcome["stage"], "canary");
    assert_eq!(verdicts(&outcome), ["errors_rose"], "{outcome}");
    assert!(
        said.contains("1 of 1 nodes had more errors with it"),
        "{said}"
    );
    assert!(servers.iter().all(|node| node.ask("/").text() == "good"));
    assert_eq!(etcd.text(), site("good"));
    // All of it works with a good one.
    let (outcome, said) = push(&url, &site("better"), &["--canary", "1"]);
    assert_eq!(verdicts(&outcome), ["took"; 3], "{said}");
    assert!(servers.iter().all(|node| node.ask("/").text() == "better"));
}

#[test]
fn a_push_shows_the_differences_and_can_be_undone() {
    let Some(etcd) = Etcd::start() else { return };
    let (url, configs) = (etcd.url(""), Folder::new());
    push(&url, &site("a"), &[]);
    let servers = nodes(&url, 1, &configs);
    let file = [("Caddyfile", &*site("b"))];
    let dry = run(&["push", "Caddyfile", "--to", &url, "--dry-run"], &file);
    assert!(dry.status.success(), "{}", text(&dry.stderr));
    let expected = "  :{$PORT:8080} {\n- \trespond \"a\"\n+ \trespond \"b\"\n  }\n\
                    nothing was written; 1 node would take it\n";
    assert_eq!(text(&dry.stdout), expected);
    let unconfirmed = run(&["push", "Caddyfile", "--to", &url], &file);
    assert_eq!(unconfirmed.status.code(), Some(1));
    assert!(text(&unconfirmed.stderr).contains("add `--yes`"));
    assert_eq!(servers[0].ask("/").text(), "a");
    let done = run(
        &[
            "push",
            "Caddyfile",
            "--to",
            &url,
            "--yes",
            "--observe",
            "0s",
        ],
        &file,
    );
    let said = text(&done.stdout);
    assert!(said.contains("all nodes:\n  n0  took it"), "{said}");
    assert!(said.contains("1 node run"), "{said}");
    assert_eq!(servers[0].ask("/").text(), "b");
    let back = run(
        &[
            "push",
            "--rollback",
            "--to",
            &url,
            "--yes",
            "--observe",
            "0s",
        ],
        &[],
    );
    assert!(back.status.success(), "{}", text(&back.stderr));
    assert_eq!(servers[0].ask("/").text(), "a");
    let again = run(
        &["push", "--rollback", "--to", &url, "--if-revision", "0000"],
        &[],
    );
    assert!(
        text(&again.stderr).contains("so nothing was pushed"),
        "{}",
        text(&again.stderr)
    );
    let invalid = run(
        &["push", "x", "--to", &url, "--yes"],
        &[("x", ":80 {\n\tno_such\n}\n")],
    );
    assert_eq!(invalid.status.code(), Some(1));
    assert!(text(&invalid.stderr).contains("error[unknown-directive]"));
}

#[test]
fn redis_has_a_fleet_as_well() {
    let Some(redis) = Redis::start() else { return };
    let (url, configs) = (redis.url(), Folder::new());
    let with_password = url.replace("redis://", "redis://:hard%20to%20guess@");
    let (outcome, said) = push(&with_password, &site("a"), &[]);
    assert_eq!(outcome["outcome"], "done", "{said}");
    let start = |name: &str| -> Server {
        let setup: Setup = node(&url, name, &configs.path().join(name));
        setup.env("SLUICE_STORE_PASSWORD", Redis::PASSWORD).start()
    };
    let servers = [start("n0"), start("n1")];
    await_states(&with_password, "in_sync", 2);
    let (outcome, said) = push(&with_password, &site("b"), &[]);
    assert_eq!(verdicts(&outcome), ["took"; 2], "{said}");
    let (outcome, said) = push(&with_password, &bad_site(), &["--no-validate"]);
    assert_eq!(outcome["outcome"], "rolled_back", "{said}");
    assert!(servers.iter().all(|node| node.ask("/").text() == "b"));
    assert!(servers.iter().all(|node| !node.stderr().contains("hard")));
}

#[test]
fn a_binary_upgrade_continues_as_the_same_node() {
    let Some(etcd) = Etcd::start() else { return };
    let (url, configs) = (etcd.url(""), Folder::new());
    push(&url, &site("a"), &[]);
    let running = Running::of(node(&url, "n0", configs.path()));
    await_states(&url, "in_sync", 1);
    let instance = || fleet(&url)["nodes"][0]["report"]["instance"].clone();
    let before = instance();
    running.upgrade();
    eventually(
        "the report of the new process",
        || instance() != before,
        || fleet(&url).to_string(),
    );
    await_states(&url, "in_sync", 1);
    let (outcome, said) = push(&url, &site("b"), &[]);
    assert_eq!(verdicts(&outcome), ["took"], "{said}");
    assert_eq!(running.server.ask("/").text(), "b");
}
