//! Nodes of a fleet, and the commands that write to it.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use sluice_net::sys::process::Signal;

use crate::harness::{Folder, Server, Setup, eventually, finish, sluice, text};

/// A configuration whose site responds with `word`. Each node has its own port.
pub fn site(word: &str) -> String {
    format!(":{{$PORT:8080}} {{\n\trespond \"{word}\"\n}}\n")
}

/// A configuration that can be parsed anywhere, and that no node can run.
pub fn bad_site() -> String {
    "https://a.test:{$PORT:8080} {\n\ttls /no/such.pem /no/such.key\n}\n".to_owned()
}

/// A node that has not started yet; `config` is the folder with its local copy.
pub fn node(url: &str, name: &str, config: &Path) -> Setup {
    let setup = Setup::bare();
    let port = setup.port.to_string();
    setup
        .args(&["--config", url, "--node", name])
        .env("PORT", &port)
        .env("XDG_CONFIG_HOME", &config.to_string_lossy())
}

/// Nodes `n0`, `n1` and so on.
pub fn nodes(url: &str, count: usize, configs: &Folder) -> Vec<Server> {
    let start = |at: usize| {
        let name = format!("n{at}");
        node(url, &name, &configs.path().join(&name)).start()
    };
    let servers: Vec<Server> = (0..count).map(start).collect();
    await_states(url, "in_sync", count);
    servers
}

/// Waits until so many nodes are in this state.
pub fn await_states(url: &str, state: &str, count: usize) {
    let found = || {
        let fleet = fleet(url);
        let nodes = fleet["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().filter(|node| node["state"] == state).count()
    };
    eventually(state, || found() == count, || fleet(url).to_string());
}

/// The state of the fleet.
pub fn fleet(url: &str) -> Value {
    let output = run(&["fleet", "status", url, "--json"], &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Runs a command in a folder of its own, with files in it.
pub fn run(args: &[&str], files: &[(&str, &str)]) -> Output {
    let folder = Folder::new();
    for (name, content) in files {
        folder.write(name, content);
    }
    finish(sluice(&folder).args(args))
}

/// Pushes a configuration; the outcome, and what was said about it.
pub fn push(url: &str, configuration: &str, flags: &[&str]) -> (Value, String) {
    let mut args = vec!["push", "Caddyfile", "--to", url, "--yes", "--json"];
    if !flags.contains(&"--observe") {
        args.extend(["--observe", "0s"]);
    }
    args.extend(flags);
    let output = run(&args, &[("Caddyfile", configuration)]);
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let is_done = matches!(outcome["outcome"].as_str(), Some("done" | "unchanged"));
    let said = text(&output.stderr);
    assert_eq!(output.status.success(), is_done, "{outcome}\n{said}");
    (outcome, said)
}

/// The verdicts in an outcome.
pub fn verdicts(outcome: &Value) -> Vec<&str> {
    let nodes = outcome["nodes"].as_array().map(Vec::as_slice);
    let verdicts = nodes.unwrap_or_default().iter();
    verdicts
        .filter_map(|node| node["verdict"].as_str())
        .collect()
}

/// Stops a node, which leaves its fleet.
pub fn leave(mut node: Server) {
    node.signal(Signal::Terminate);
    assert!(node.wait_for_end().success());
}
