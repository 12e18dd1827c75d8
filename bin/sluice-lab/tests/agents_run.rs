//! Agents in `run`: they generate the load of an experiment's cells, at an address that they reach, and a lost one costs its
//! block.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use sluice_load::result::{CellState, RunResult};

use crate::abilities::skipped;
use crate::agents::{Agent, adds_up, token_file};
use crate::wait::eventually;
use crate::world::{self, FLOOR, Folder, LAB, installed, lab, output_text, result};

static EXPERIMENT: LazyLock<String> =
    LazyLock::new(|| world::experiment("[5]", "[repeat]\nblocks = 2\nagain = 0", FLOOR));

/// Runs the experiment and returns its exit code and its output.
pub fn run(file: &str, out: &str, words: &[&str]) -> (Option<i32>, String) {
    let output = lab(&[&["run", file, "--out", out][..], words].concat());
    (output.status.code(), output_text(&output))
}

/// An experiment in a folder of its own: its file, and where its result goes.
pub fn experiment(name: &str, text: &str) -> (Folder, String, String) {
    let folder = Folder::new(name);
    let (file, out) = (folder.file("own.toml"), folder.file("out"));
    fs::write(&file, text).unwrap();
    (folder, file, out)
}

#[test]
fn the_load_of_every_cell_is_that_of_the_agents() {
    let (folder, file, out) = experiment("agents-cells", &EXPERIMENT);
    let token = token_file(&folder, crate::agents::TOKEN);
    let agent = Agent::start(&token);
    let words = ["--agent", &agent.address, "--agent", "local"];
    let words = [&words[..], &["--token-file", &token]].concat();
    let (code, text) = run(&file, &out, &words);
    assert_eq!(code, Some(0), "{text}");
    let measured = result(&out);
    assert_eq!(measured.cells.len(), 2);
    for block in measured.cells.iter().flat_map(|cell| &cell.blocks) {
        adds_up(&block.load, 2, "", &text);
        let names: Vec<&str> = block
            .load
            .machines
            .iter()
            .map(|m| m.name.as_str())
            .collect();
        assert_eq!(names, [agent.address.as_str(), "local"]);
        // The upstream counts what both sent, and the server is sampled where it runs.
        let held = block.checks.iter().all(|check| check.holds == Some(true));
        assert!(held, "{:?}", block.checks);
        let resources = block.resources.as_ref().unwrap();
        assert!(resources.subject.rss_peak_bytes > 0);
        // The agent that the run started is part of the generator.
        assert!(resources.generator.processes_max >= 2);
    }
    let note = format!("Agents generated the load: {}, local.", agent.address);
    assert!(measured.notes.iter().any(|one| one.starts_with(&note)));
    assert!(measured.cells.iter().all(|cell| cell.blocks.len() == 2));
    let report = lab(&["report", &out]);
    assert!(report.status.success(), "{}", output_text(&report));
    let page = fs::read_to_string(format!("{out}/report.html")).unwrap();
    assert!(page.contains(&agent.address) && page.contains("clock ahead"));
    // Blocks of these agents are not continued by others.
    let (_, text) = run(&file, &out, &[&words[..], &["--resume", "--plan"]].concat());
    assert!(text.contains(", 0 left"), "{text}");
    let (_, text) = run(&file, &out, &["--resume", "--plan"]);
    assert!(text.contains(", 4 left"), "{text}");
}

#[test]
fn agents_of_the_file_reach_the_servers_at_its_address() {
    let placed = EXPERIMENT.replace(
        "[test.direct]",
        "[place]\nagents = [\"local\"]\naddress = \"127.0.0.2\"\n[test.direct]",
    );
    let (_folder, file, out) = experiment("agents-address", &placed);
    let (code, text) = run(&file, &out, &["--repeats", "1"]);
    assert_eq!(code, Some(0), "{text}");
    for block in result(&out).cells.iter().flat_map(|cell| &cell.blocks) {
        assert_eq!(block.load.machines.len(), 1, "{text}");
        assert!(block.load.asked.url.starts_with("http://127.0.0.2:"));
        assert!(block.load.ok > 0 && block.load.failed() == 0);
    }
    let (search, json) = (
        ["find-limit", &file, "--step", "500ms"],
        format!("{out}.json"),
    );
    let more = ["--only", "test=direct", "-d", "200ms", "--json", &json];
    let text = output_text(&lab(&[&search[..], &more].concat()));
    let searched: RunResult = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert!(!searched.cells.is_empty(), "{text}");
    for block in searched.cells.iter().flat_map(|cell| &cell.blocks) {
        assert_eq!(block.load.machines.len(), 1, "{text}");
        assert!(block.load.asked.url.starts_with("http://127.0.0.2:"));
    }
    let listens = placed.replace("--listen {address}", "--listen 127.0.0.1");
    fs::write(&file, listens).unwrap();
    let (code, text) = run(&file, &out, &["--only", "test=direct", "--check"]);
    assert_eq!(code, Some(1), "{text}");
    let said = "it has to listen on 127.0.0.2 (`{address}`)";
    assert!(text.contains("refused") && text.contains(said), "{text}");
    let (code, text) = run(&file, &out, &["--resume", "--address", "192.0.2.1"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("`192.0.2.1` is not an address of this machine"),
        "{text}"
    );
}

#[test]
fn what_agents_cannot_do_is_skipped_with_the_reason() {
    let more = "[test.echo]\npath = \"/\"\ntalk = \"websocket\"\nexpect = { status = 101 }\n\
                [test.idle]\npath = \"/\"\nidle = 5\nexpect = { status = 200 }\n[subject.floor]";
    let text = EXPERIMENT
        .replace(
            "test = [\"direct\", \"proxied\"]",
            "test = [\"direct\", \"echo\", \"idle\"]",
        )
        .replace("clients = [5]", "clients = [1, 5]")
        .replace("[subject.floor]", more);
    let (_folder, file, out) = experiment("agents-skip", &text);
    let agents = ["--agent", "local", "--agent", "local"];
    let (_, text) = run(&file, &out, &[&agents[..], &["--plan"]].concat());
    for reason in [
        "2 cells are skipped: agents do not support WebSocket or events",
        "2 cells are skipped: agents do not support idle connections or slow readers",
        "1 cells are skipped: 1 clients cannot be divided between 2 agents",
    ] {
        assert!(text.contains(reason), "{reason}: {text}");
    }
    let (code, text) = run(&file, &out, &["--agent", "local", "--engine", "wrk"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("cannot be used with"), "{text}");
}

#[test]
fn a_lost_agent_costs_its_block_and_the_run_goes_on() {
    let long = EXPERIMENT
        .replace("test = [\"direct\", \"proxied\"]", "test = [\"direct\"]")
        .replace("400ms", "2s")
        .replace("blocks = 2", "blocks = 3")
        .replace("{dir}/direct", "COUNTS");
    let (folder, file, out) = experiment("agents-lost-block", &long);
    let counts = folder.file("counts");
    fs::write(&file, long.replace("COUNTS", &counts)).unwrap();
    let token = token_file(&folder, crate::agents::TOKEN);
    let (one, two) = (Agent::start(&token), Agent::start(&token));
    let address = two.address.clone();
    let words = ["run", &file, "--out", &out, "--token-file", &token];
    let words = [&words[..], &["--agent", &one.address, "--agent", &address]].concat();
    let mut command = Command::new(LAB);
    command.args(&words).stdin(Stdio::null());
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = running.spawn().unwrap();
    let is_loaded = || crate::agents::served(&counts) > Some(100);
    eventually("a load", is_loaded, String::new);
    // Another agent at the same address: the run finds it before the next block.
    drop(two);
    let _again = Agent::start_at(&token, &address);
    let output = running.wait_with_output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let said = format!("agent {address} was lost");
    assert!(
        text.contains(&said) && text.contains("the load has failed"),
        "{text}"
    );
    assert!(
        text.contains("an agent failed in 1 block, which has no figures; to measure them:"),
        "{text}"
    );
    let measured = result(&out);
    assert_eq!(measured.cells[0].blocks.len(), 2, "{text}");
    assert!(measured.notes.iter().any(|note| note.contains(&said)));
    let last = text.lines().last().unwrap().trim();
    assert!(
        last.starts_with("sluice-lab run") && last.ends_with("--resume"),
        "{text}"
    );
    let output = lab(&[&words[..], &["--resume"]].concat());
    assert!(output.status.success(), "{}", output_text(&output));
    let whole = result(&out);
    assert_eq!(whole.cells[0].blocks.len(), 3);
    assert_eq!(whole.cells[0].state, CellState::Measured);
    assert!(!whole.notes.iter().any(|note| note.contains(&said)));
}

#[test]
fn an_agent_that_stays_away_ends_the_run_and_loses_no_block() {
    let (folder, file, out) = experiment("agents-away", &EXPERIMENT);
    // It works for one block, and never comes back.
    let once = folder.file("once");
    fs::write(&once, "").unwrap();
    let script = folder.file("agent.sh");
    let body = format!("rm '{once}' || exit 1\nexec '{LAB}' agent --stdio\n");
    fs::write(&script, body).unwrap();
    let counts = folder.file("counts");
    let text = EXPERIMENT
        .replace("test = [\"direct\", \"proxied\"]", "test = [\"direct\"]")
        .replace("{dir}/direct", &counts)
        .replace("400ms", "2s");
    fs::write(&file, text).unwrap();
    let agent = format!("command:sh {script}");
    let mut command = Command::new(LAB);
    command.args([
        "run", &file, "--out", &out, "--agent", "local", "--agent", &agent,
    ]);
    let running = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let running = running.stderr(Stdio::piped()).spawn().unwrap();
    let is_loaded = || crate::agents::served(&counts) > Some(100);
    eventually("a load", is_loaded, String::new);
    let words = format!("pgrep -P {} -f 'agent --stdio'", running.id());
    let children = Command::new("sh").args(["-c", &words]).output().unwrap();
    let children = String::from_utf8(children.stdout).unwrap();
    // The last one that was started.
    let child = children.split_whitespace().last().unwrap();
    assert!(
        Command::new("kill")
            .args(["-9", child])
            .status()
            .unwrap()
            .success()
    );
    let output = running.wait_with_output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for part in [
        &format!("agent {agent} was lost"),
        "it ended before it was ready",
        "1 of 2 blocks are done. Continue with:",
        "--resume",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_agent_of_another_machine_needs_an_address() {
    let apart = Command::new("unshare").args(["-n", "true"]).output();
    if !apart.is_ok_and(|output| output.status.success()) {
        skipped("network namespaces need privileges");
        return;
    }
    let (_folder, file, out) = experiment("agents-elsewhere", &EXPERIMENT);
    let agent = format!("command:unshare -n {LAB} agent --stdio");
    let (code, text) = run(&file, &out, &["--agent", &agent]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("runs on another machine") && text.contains("add --address"),
        "{text}"
    );
    let backend = crate::world::Backend::start(&["respond"]);
    let output = lab(&["hit", &backend.url("/"), "-d", "200ms", "--agent", &agent]);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("where 127.0.0.1 is that machine itself"),
        "{text}"
    );
}

#[test]
fn agents_speak_tls_with_the_name_of_the_certificate() {
    if !installed("nginx") {
        return;
    }
    let nginx = r#"
[subject.nginx]
run = "nginx -p {dir} -e {dir}/error.log -c {conf} -g 'daemon off; pid {dir}/nginx.pid; {user}'"
conf = "nginx.conf"
log = "{dir}/error.log"
[[rewrite]]
from = "8443"
to = "{port}"
[[rewrite]]
from = "site."
to = "{dir}/site."
"#;
    let text = EXPERIMENT
        .replace("test = [\"direct\", \"proxied\"]", "test = [\"secret\"]")
        .replace(
            "[subject.floor]\nrun",
            "[test.secret]\npath = \"/\"\ntls = true\nexpect = { status = 200, body = \"localhost\" }\n[subject.floor]\ntests = [\"direct\"]\nrun",
        )
        + nginx;
    let (folder, file, out) = experiment("agents-tls", &text);
    let conf = "events {}\nhttp {\n\taccess_log off;\n\tserver {\n\t\tlisten 8443 ssl;\n\t\tserver_name localhost;\n\
                \t\tssl_certificate site.crt;\n\t\tssl_certificate_key site.key;\n\
                \t\tlocation / {\n\t\t\treturn 200 $host;\n\t\t}\n\t}\n}\n";
    fs::write(folder.file("nginx.conf"), conf).unwrap();
    let words = [
        "--agent",
        "local",
        "--address",
        "127.0.0.2",
        "--repeats",
        "1",
    ];
    // Also if the servers, with their own certificates, run elsewhere: their machine gets the configuration.
    for more in [&[][..], &["--servers", "local", "--resume"]] {
        let (code, text) = run(&file, &out, &[&words[..], more].concat());
        assert_eq!(code, Some(0), "{text}");
        let measured = result(&out);
        let load = &measured.cells[0].blocks[0].load;
        assert!(load.ok > 0 && load.failed() == 0, "{text}");
        assert!(load.connections.tls_version.is_some());
        let configs = &measured.subjects.iter().find(|one| one.name == "nginx");
        let config = &configs.unwrap().configs[0];
        assert!(config.text.contains("ssl_certificate") && config.rewritten.len() == 2);
    }
}
