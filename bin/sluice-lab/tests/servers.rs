//! Servers on another machine: an agent starts them, samples them, and stops them, whatever happens; and only those that it
//! allows.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use sluice_load::result::{CellState, Mode, RunResult};

use crate::abilities::skipped;
use crate::agents::{Agent, TOKEN, served, token_file};
use crate::agents_run::{experiment, run};
use crate::search::{self, KNOWN};
use crate::wait::eventually;
use crate::world::{self, FLOOR, Folder, LAB, lab, output_text, result};

pub static EXPERIMENT: LazyLock<String> = LazyLock::new(|| {
    let tables = "[repeat]\nblocks = 1\nagain = 0\n[place]\npin = \"none\"";
    world::experiment("[5]", tables, FLOOR)
});

/// The option that allows the lab's own servers.
pub const OWN: &str = "--allow-run=sluice-lab";

/// An agent that may start the lab's own servers.
pub fn host(folder: &Folder, address: &str) -> (Agent, String) {
    let token = token_file(folder, TOKEN);
    let agent = Agent::with(&token, address, &[OWN]);
    (agent, token)
}

/// Command lines of processes that name the folder of an agent.
fn left(agent: &Child) -> Vec<String> {
    processes_with(&format!("sluice-lab-{}", agent.id()))
}

/// Command lines of processes that have a name in them.
pub fn processes_with(name: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|one| fs::read(one.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(name)).collect()
}

/// The folder in which an agent's servers work.
fn place(agent: &Child) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("sluice-lab-{}", agent.id()))
}

/// Waits until an agent has stopped its servers and removed their folder.
pub fn is_clean(agent: &Child) {
    let none_left = || left(agent).is_empty() && !place(agent).exists();
    eventually("the servers to stop", none_left, || {
        format!("{:?}", left(agent))
    });
}

/// Everything that is measured of servers here is measured there.
fn is_whole(measured: &RunResult, text: &str) {
    assert_eq!(measured.cells.len(), 2, "{text}");
    for cell in &measured.cells {
        assert_eq!(cell.state, CellState::Measured, "{text}");
        for block in &cell.blocks {
            assert!(block.load.ok > 0 && block.load.failed() == 0, "{text}");
            let held = block.checks.iter().all(|check| check.holds == Some(true));
            assert!(held, "{:?}", block.checks);
            let resources = block.resources.as_ref().unwrap();
            assert!(resources.subject.rss_peak_bytes > 0, "{text}");
            assert!(resources.subject.cpu_user_s + resources.subject.cpu_system_s > 0.0);
            assert!(resources.system.work_us.is_some() && block.ready_s.is_some());
            let is_proxied = cell.axis("test") == "proxied";
            assert_eq!(resources.backend_counts.is_some(), is_proxied);
            let upstream = resources.backend.as_ref();
            assert_eq!(
                upstream.is_some_and(|one| one.rss_peak_bytes > 0),
                is_proxied
            );
        }
        let checks = cell.blocks[0].checks.len();
        assert_eq!(checks, if cell.axis("test") == "proxied" { 2 } else { 0 });
    }
    let floor = &measured.subjects[0];
    assert!(floor.program.is_some() && floor.sha256.is_some());
}

#[test]
fn servers_are_started_sampled_and_stopped_by_an_agent() {
    let (folder, file, out) = experiment("servers", &EXPERIMENT);
    let (agent, token) = host(&folder, "127.0.0.1:0");
    let words = ["--servers", &agent.address, "--token-file", &token];
    let (code, text) = run(&file, &out, &words);
    assert_eq!(code, Some(0), "{text}");
    let measured = result(&out);
    is_whole(&measured, &text);
    let note = format!(
        "The machine described here is that of {}, which ran the servers and their upstreams.",
        agent.address
    );
    assert!(measured.notes.iter().any(|one| one.starts_with(&note)));
    is_clean(&agent.child);
    // Blocks of servers there are not continued by servers here.
    let (_, text) = run(&file, &out, &[&words[..], &["--resume", "--plan"]].concat());
    assert!(text.contains(", 0 left"), "{text}");
    let (_, text) = run(&file, &out, &["--resume", "--plan"]);
    assert!(text.contains(", 2 left"), "{text}");
    // The load comes from agents, too; the agent of the servers takes none.
    let more = ["--resume", "--agent", "local", "--agent", "local"];
    let (code, text) = run(&file, &out, &[&words[..], &more].concat());
    assert_eq!(code, Some(0), "{text}");
    let measured = result(&out);
    is_whole(&measured, &text);
    for block in measured.cells.iter().flat_map(|cell| &cell.blocks) {
        assert_eq!(block.load.machines.len(), 2, "measured anew");
    }
    let (code, text) = run(&file, &out, &[&words[..], &["--check"]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("2 correct, 0 wrong"), "{text}");
    is_clean(&agent.child);
}

#[test]
fn the_limit_of_servers_on_another_machine_is_found() {
    let (folder, file, out) = experiment("servers-limit", &EXPERIMENT);
    let json = folder.file("limit.json");
    let words = ["find-limit", &file, "--servers", "local", "--only"];
    let more = [
        "test=proxied",
        "--step",
        "200ms",
        "-d",
        "200ms",
        "--json",
        &json,
    ];
    let text = output_text(&lab(&[&words[..], &more].concat()));
    let searched: RunResult = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert!(searched.cells.len() >= 5, "{text} {out}");
    for block in searched.cells.iter().flat_map(|cell| &cell.blocks) {
        let resources = block.resources.as_ref().unwrap();
        assert!(resources.subject.rss_peak_bytes > 0, "{text}");
        assert!(resources.backend.is_some(), "{text}");
    }
}

/// A server on the axis `workers` whose responses are its metrics. Its rate is a share of its limit.
const CHECKED: &str = r#"
schema = "sluice.lab/1"
name = "checked"
title = "Checks on the machine of the servers"
[matrix]
clients = [2]
workers = [2]
[load]
duration = "300ms"
warmup = "0s"
rest = { memory = "20ms", idle = "300ms" }
limit = { objective = "p99<5s,errors<50%", step = "300ms" }
[repeat]
blocks = 1
again = 0
[place]
pin = "none"
[test.page]
path = "/"
rate = "50 % of limit"
expect = { status = 200 }
[subject.metrics]
run = "{lab} serve respond --listen {address}:{port} --delay 5ms --body 'workers {workers}'"
[[check]]
processes = "== 1"
threads = { name = "no-such-*", count = "== {workers}" }
metric = { url = "http://127.0.0.1:{port}/", name = "workers", value = "== {workers}" }
log_lines = { file = "{dir}/no-such.log", per_response = "== 0" }
"#;

#[test]
fn checks_rests_and_limits_are_those_of_the_machine_of_the_servers() {
    let folder = Folder::new("servers-checked");
    let (file, out) = (folder.file("own.toml"), folder.file("out"));
    fs::write(&file, CHECKED).unwrap();
    let (agent, token) = host(&folder, "127.0.0.1:0");
    let words = ["--servers", &agent.address, "--token-file", &token];
    let (code, text) = run(&file, &out, &words);
    assert_eq!(code, Some(0), "{text}");
    let measured = result(&out);
    let block = &measured.cells[0].blocks[0];
    let found: Vec<_> = block
        .checks
        .iter()
        .map(|check| (&*check.claim, check.holds))
        .collect();
    for expected in [
        ("processes == 1", Some(true)),
        ("log_lines == 0", Some(true)),
        ("threads no-such-* == 2", Some(false)),
        ("workers == 2", Some(true)),
    ] {
        assert!(found.contains(&expected), "{found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
    let resources = block.resources.as_ref().unwrap();
    assert!(resources.subject.rss_after_bytes.is_some(), "{text}");
    assert!(block.rest.is_some_and(|rest| rest.idle.is_some()), "{text}");
    let [limit] = &measured.limits[..] else {
        panic!("one limit: {text}");
    };
    let Mode::Open { rate, .. } = block.load.asked.mode else {
        panic!("a closed loop: {text}");
    };
    assert!(
        (rate - limit.per_s / 2.0).abs() <= 0.1,
        "{rate} of {}",
        limit.per_s
    );
    // Another port than those of the run is not asked.
    let other = CHECKED.replace(
        "http://127.0.0.1:{port}/\", name",
        "http://127.0.0.1:1/\", name",
    );
    assert_ne!(other, CHECKED);
    fs::write(&file, other).unwrap();
    let (code, text) = run(&file, &out, &[&words[..], &["--check"]].concat());
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("http://127.0.0.1:1/ has no port of the run"),
        "{text}"
    );
    is_clean(&agent.child);
}

#[test]
fn a_known_capacity_of_servers_on_another_machine_is_exceeded() {
    let folder = Folder::new("servers-known");
    let (file, json) = (folder.file("known.toml"), folder.file("known.json"));
    fs::write(&file, KNOWN.replace("127.0.0.1", "{address}")).unwrap();
    let words = ["break", &file, "--servers", "local", "--step", "500ms"];
    let text = output_text(&lab(&[&words[..], &["--json", &json]].concat()));
    let searched: RunResult = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let [seen] = &searched.overload[..] else {
        panic!("one server: {text}");
    };
    let names: Vec<&str> = seen.steps.iter().map(|step| step.load.as_str()).collect();
    assert_eq!(names, ["2 x", "60 clients"], "{text}");
    for block in searched.cells.iter().flat_map(|cell| &cell.blocks) {
        let resources = block.resources.as_ref().unwrap();
        assert!(resources.subject.rss_peak_bytes > 0, "{text}");
    }
}

#[test]
fn an_agent_starts_only_what_it_allows() {
    let (folder, file, out) = experiment("servers-refused", &EXPERIMENT);
    let token = token_file(&folder, TOKEN);
    let asked = |agent: &Agent, file: &str| {
        let words = ["--servers", &agent.address, "--token-file", &token];
        run(file, &out, &[&words[..], &["--check"]].concat())
    };
    let none = Agent::start(&token);
    let (code, text) = asked(&none, &file);
    assert_eq!(code, Some(2), "{text}");
    let said = format!("servers on {}: it starts no servers", none.address);
    assert!(
        text.contains(&said) && text.contains("--allow-run"),
        "{text}"
    );
    let other = Agent::with(&token, "127.0.0.1:0", &["--allow-run=nginx"]);
    let (code, text) = asked(&other, &file);
    assert_eq!(code, Some(1), "{text}");
    let said = "may not start `sluice-lab`; start it with --allow-run=sluice-lab";
    assert!(text.contains(said), "{text}");
    // Other commands of an allowed program, and files outside of the folder of the run.
    let own = Agent::with(&token, "127.0.0.1:0", &[OWN]);
    let touched = folder.file("touched");
    let changed = |from: &str, to: &str| {
        let changed = EXPERIMENT.replace(from, to);
        assert_ne!(changed, *EXPERIMENT);
        fs::write(&file, changed).unwrap();
        asked(&own, &file)
    };
    let shield = format!("direct = \"{{lab}} shield --parent=1 -- touch {touched}\"");
    let respond = "direct = \"{lab} serve respond --listen {address}:{port} --counts {dir}/direct --body hello\"";
    let (code, text) = changed(respond, &shield);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("only `sluice-lab serve`"), "{text}");
    let log = "[subject.floor]\nlog = \"{dir}/../../etc/passwd\"";
    let (code, text) = changed("[subject.floor]", log);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("is not in the folder of the run"), "{text}");
    let escape = "[[file]]\npath = \"../escaped\"\nbytes = 1\n[subject.floor]";
    let (code, text) = changed("[subject.floor]", escape);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("must be a path in the folder"), "{text}");
    assert!(!folder.0.join("touched").exists());
    for agent in [&none, &other, &own] {
        is_clean(&agent.child);
    }
}

/// Starts a run of one long block with servers of an agent, and waits until its server has a load.
fn long_run(name: &str, words: &[&str]) -> (Folder, Agent, Child, String) {
    long_run_with(name, &[OWN], words)
}

/// The same with these options of the agent.
fn long_run_with(name: &str, of_agent: &[&str], words: &[&str]) -> (Folder, Agent, Child, String) {
    let (folder, file, out) = experiment(name, &EXPERIMENT);
    let counts = folder.file("counts");
    let text = EXPERIMENT
        .replace("test = [\"direct\", \"proxied\"]", "test = [\"direct\"]")
        .replace("{dir}/direct", &counts)
        .replace("blocks = 1", "blocks = 3")
        .replace("400ms", "2s");
    fs::write(&file, text).unwrap();
    let token = token_file(&folder, TOKEN);
    let agent = Agent::with(&token, "127.0.0.1:0", of_agent);
    let mut command = Command::new(LAB);
    command.args(["run", &file, "--out", &out, "--servers", &agent.address]);
    command.args(["--token-file", &token]).args(words);
    let running = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let running = running.stderr(Stdio::piped()).spawn().unwrap();
    let is_loaded = || served(&counts) > Some(100);
    eventually("a load", is_loaded, String::new);
    assert!(!left(&agent.child).is_empty());
    (folder, agent, running, out)
}

#[test]
fn servers_stop_when_the_coordinator_is_gone() {
    let (folder, agent, mut running, out) = long_run("servers-orphans", &["-d", "60s"]);
    running.kill().unwrap();
    running.wait().unwrap();
    is_clean(&agent.child);
    // The agent serves the next coordinator.
    let (file, token) = (folder.file("own.toml"), folder.file("token"));
    let words = ["--servers", &agent.address, "--token-file", &token];
    let more = ["-d", "200ms", "--repeats", "1", "--resume"];
    let (code, text) = run(&file, &out, &[&words[..], &more].concat());
    assert_eq!(code, Some(0), "{text}");
}

/// Sends a signal to a process.
fn signal(name: &str, process: &Child) {
    let words = [format!("-{name}"), process.id().to_string()];
    assert!(Command::new("kill").args(words).status().unwrap().success());
}

#[test]
fn servers_stop_when_the_coordinator_is_silent_and_the_run_goes_on_when_it_is_back() {
    // The agent waits for twenty seconds otherwise.
    let of_agent = [OWN, "--silence", "3s"];
    let (_folder, agent, running, out) = long_run_with("servers-silent", &of_agent, &[]);
    signal("STOP", &running);
    is_clean(&agent.child);
    signal("CONT", &running);
    let output = running.wait_with_output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let said = format!("agent {}, which runs the servers, was lost", agent.address);
    assert!(text.contains(&said), "{text}");
    let measured = result(&out);
    assert!(!measured.cells[0].blocks.is_empty(), "{text}");
    is_clean(&agent.child);
}

#[test]
fn servers_stop_with_their_agent_and_the_run_goes_on_with_the_next() {
    let (folder, mut agent, running, out) = long_run("servers-lost", &[]);
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    is_clean(&agent.child);
    let (_again, _) = host(&folder, &agent.address);
    let output = running.wait_with_output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let said = format!("agent {}, which runs the servers, was lost", agent.address);
    assert!(text.contains(&said), "{text}");
    assert!(text.contains("an agent failed in 1 block"), "{text}");
    let measured = result(&out);
    assert_eq!(measured.cells[0].blocks.len(), 2, "{text}");
    assert!(measured.notes.iter().any(|note| note.contains(&said)));
}

/// Starts a command on an experiment whose first server counts its requests, with servers of an agent, and waits until it has a
/// load. The result goes to the last of the words.
fn loaded(name: &str, text: &str, words: &[&str]) -> (Folder, Agent, Child, String) {
    let folder = Folder::new(name);
    let (file, counts) = (folder.file("own.toml"), folder.file("counts"));
    let counted = text
        .replace("127.0.0.1:{port}", "{address}:{port}")
        .replace("--delay 5ms", &format!("--delay 5ms --counts {counts}"));
    fs::write(&file, counted).unwrap();
    let (agent, token) = host(&folder, "127.0.0.1:0");
    let out = folder.file("out");
    let mut command = Command::new(LAB);
    command.args([words[0], &file]).args(&words[1..]).arg(&out);
    command.args(["--servers", &agent.address, "--token-file", &token]);
    let running = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let running = running.stderr(Stdio::piped()).spawn().unwrap();
    let is_loaded = || served(&counts) > Some(10);
    eventually("a load", is_loaded, String::new);
    (folder, agent, running, out)
}

/// Ends an agent as a crash does, and waits until nothing of it is left.
fn crash(agent: &mut Agent) {
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    is_clean(&agent.child);
}

#[test]
fn a_lost_agent_of_servers_ends_the_search_of_one_cell_and_the_next_is_searched() {
    let words = ["find-limit", "--step", "1s", "--json"];
    let (folder, mut agent, searching, json) = loaded("servers-search", search::EXPERIMENT, &words);
    crash(&mut agent);
    let (again, _) = host(&folder, &agent.address);
    let output = searching.wait_with_output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lost = format!("agent {}, which runs the servers, was lost", agent.address);
    let searched: RunResult = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let note = format!("2 fast page: {lost}");
    let mut notes = searched.notes.iter();
    assert!(notes.any(|one| one.starts_with(&note)), "{text}");
    let slow = searched.cells.iter();
    let slow = slow.filter(|cell| cell.axis("subject") == "slow");
    assert!(slow.count() >= 5, "{text}");
    is_clean(&again.child);
}

#[test]
fn a_search_without_its_agent_of_servers_ends_with_what_it_has() {
    let words = ["break", "--step", "1s", "--only", "subject=fast", "--json"];
    let (_folder, mut agent, searching, json) = loaded("servers-break", search::EXPERIMENT, &words);
    // It never comes back, and no other cell needs it.
    crash(&mut agent);
    let output = searching.wait_with_output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lost = format!("agent {}, which runs the servers, was lost", agent.address);
    let searched: RunResult = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert!(
        searched.notes.iter().any(|one| one.contains(&lost)),
        "{text}"
    );
    assert!(text.contains(&lost), "{text}");
}

#[test]
fn the_limit_of_which_a_rate_is_a_share_is_searched_anew_with_the_next_agent() {
    let (text, _) = CHECKED.split_once("[[check]]").unwrap();
    // Long enough that the agent is lost within the search.
    let text = &text.replace("step = \"300ms\"", "step = \"600ms\"");
    let (folder, mut agent, running, out) = loaded("servers-anew", text, &["run", "--out"]);
    crash(&mut agent);
    let (again, _) = host(&folder, &agent.address);
    let output = running.wait_with_output().unwrap();
    let text = output_text(&output);
    let lost = format!("agent {}, which runs the servers, was lost", agent.address);
    let (_, anew) = text.split_once(&lost).expect(&text);
    assert!(anew.contains("closed loop: "), "{text}");
    // Whether there is a limit that a busy machine keeps to: the search ended, and the block with it.
    let measured = result(&out);
    let found = measured.limits.len();
    assert_eq!(measured.cells[0].blocks.len(), found, "{text}");
    let code = Some(i32::from(found == 0));
    assert_eq!(output.status.code(), code, "{text}");
    assert_eq!(
        anew.contains("its rate is a share of a limit, and no rate"),
        found == 0,
        "{text}"
    );
    is_clean(&again.child);
}

#[test]
fn an_agent_that_the_run_started_leaves_no_process_of_a_server() {
    let (folder, file, out) = experiment("servers-group", &EXPERIMENT);
    let counts = folder.file("counts");
    // The server is not the process that was started, but a child of it.
    let text = EXPERIMENT
        .replace("test = [\"direct\", \"proxied\"]", "test = [\"direct\"]")
        .replace("{dir}/direct", &counts)
        .replace("direct = \"{lab}", "direct = \"sh -c '$0 $@ & wait' {lab}");
    fs::write(&file, text).unwrap();
    let words = ["--servers", "local", "-d"];
    let (code, text) = run(&file, &out, &[&words[..], &["200ms"]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(processes_with(&counts).is_empty());
    // Nor if the run is interrupted.
    let mut command = Command::new(LAB);
    command.args(["run", &file, "--resume", "--out", &out, "--repeats", "2"]);
    command.args(words).arg("60s");
    let running = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let running = running.stderr(Stdio::piped()).spawn().unwrap();
    let is_loaded = || served(&counts) > Some(100) && !processes_with(&counts).is_empty();
    eventually("a load", is_loaded, String::new);
    signal("INT", &running);
    let output = running.wait_with_output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("Continue with:"), "{text}");
    // A killed process that is not a child of the agent may take a moment to end.
    let is_gone = || processes_with(&counts).is_empty();
    eventually("the end of the server", is_gone, || text.clone());
}

/// Two network namespaces that a cable connects: this one, and one with its own loopback.
pub struct Cable {
    pub name: String,
    /// Addresses of both ends, which no other test of this machine has.
    pub here: String,
    pub there: String,
}

impl Cable {
    /// The tests of one program take different nets, from 248 to 251.
    pub fn lay(net: u8) -> Option<Self> {
        let id = std::process::id();
        let name = format!("l{net}p{id}");
        let net = format!("10.{net}.{}", (id >> 6) & 255);
        let first = (id & 63) * 4;
        let cable = Cable {
            name,
            here: format!("{net}.{}", first + 1),
            there: format!("{net}.{}", first + 2),
        };
        let (name, far) = (&cable.name, format!("{}b", cable.name));
        let (here, there) = (format!("{}/30", cable.here), format!("{}/30", cable.there));
        let laid = ip(&["netns", "add", name])
            && ip(&["link", "add", name, "type", "veth", "peer", "name", &far])
            && ip(&["link", "set", &far, "netns", name])
            && ip(&["addr", "add", &here, "dev", name])
            && ip(&["link", "set", name, "up"])
            && ip(&["-n", name, "addr", "add", &there, "dev", &far])
            && ip(&["-n", name, "link", "set", &far, "up"])
            && ip(&["-n", name, "link", "set", "lo", "up"]);
        laid.then_some(cable)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        ip(&["link", "del", &self.name]);
        ip(&["netns", "del", &self.name]);
    }
}

fn ip(words: &[&str]) -> bool {
    let output = Command::new("ip").args(words).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn servers_run_behind_a_network() {
    let (_folder, file, out) = experiment("servers-apart", &EXPERIMENT);
    let Some(cable) = Cable::lay(249) else {
        skipped("network namespaces need privileges and `ip`");
        return;
    };
    let name = &cable.name;
    let agent = format!("command:ip netns exec {name} {LAB} agent --stdio {OWN}");
    let (code, text) = run(&file, &out, &["--servers", &agent]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("run on another machine: add --address"),
        "{text}"
    );
    let words = ["--servers", &agent, "--address"];
    let (code, text) = run(&file, &out, &[&words[..], &[cable.here.as_str()]].concat());
    assert_eq!(code, Some(2), "{text}");
    let said = format!("`{}` is not an address of this machine", cable.here);
    assert!(text.contains(&said), "{text}");
    let (code, text) = run(&file, &out, &[&words[..], &[cable.there.as_str()]].concat());
    assert_eq!(code, Some(0), "{text}");
    let measured = result(&out);
    is_whole(&measured, &text);
    let url = format!("http://{}:", cable.there);
    for block in measured.cells.iter().flat_map(|cell| &cell.blocks) {
        assert!(block.load.asked.url.starts_with(&url));
        // The load has crossed the network, where the servers were sampled.
        let system = &block.resources.as_ref().unwrap().system;
        assert!(system.network_bytes > Some(10_000), "{system:?}");
    }
}
