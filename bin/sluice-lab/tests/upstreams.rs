//! Upstreams on a machine of their own: a second agent starts, samples and stops them, the servers reach them at its address, and
//! checks of what they do are made there.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;

use sluice_load::result::{Block, CellState, RunResult};

use crate::abilities::skipped;
use crate::agents::{Agent, served};
use crate::agents_run::{experiment, run};
use crate::servers::{Cable, EXPERIMENT, OWN, host, is_clean, processes_with};
use crate::wait::eventually;
use crate::world::{Folder, LAB, lab, output_text, result};

/// The agents of two machines: loopback addresses that are not the default one.
struct Machines {
    servers: Agent,
    upstreams: Agent,
    token: String,
}

impl Machines {
    fn start(folder: &Folder, of_upstreams: &[&str]) -> Self {
        let (servers, token) = host(folder, "127.0.0.2:0");
        let upstreams = Agent::with(&token, "127.0.0.3:0", of_upstreams);
        Machines {
            servers,
            upstreams,
            token,
        }
    }

    /// The options of a run.
    fn words(&self) -> [&str; 10] {
        [
            "--servers",
            &self.servers.address,
            "--address",
            "127.0.0.2",
            "--upstreams",
            &self.upstreams.address,
            "--upstream-address",
            "127.0.0.3",
            "--token-file",
            &self.token,
        ]
    }

    fn are_clean(&self) {
        is_clean(&self.servers.child);
        is_clean(&self.upstreams.child);
    }
}

/// The block of a test that has one.
fn block<'a>(measured: &'a RunResult, test: &str) -> &'a Block {
    let mut cells = measured.cells.iter();
    &cells.find(|cell| cell.axis("test") == test).unwrap().blocks[0]
}

/// Everything is measured, each part on its machine.
fn is_whole(measured: &RunResult, text: &str) {
    for cell in &measured.cells {
        assert_eq!(cell.state, CellState::Measured, "{text}");
    }
    for test in ["direct", "proxied"] {
        let block = block(measured, test);
        assert!(block.load.ok > 0 && block.load.failed() == 0, "{text}");
        let resources = block.resources.as_ref().unwrap();
        assert!(resources.subject.rss_peak_bytes > 0, "{text}");
        assert!(resources.system.work_us.is_some(), "{text}");
        // A cell without upstreams has nothing to do with their machine.
        let is_proxied = test == "proxied";
        let upstream = resources.backend.as_ref();
        let rss = upstream.map_or(0, |tree| tree.rss_peak_bytes);
        assert_eq!(rss > 0, is_proxied, "{text}");
        let system = resources.backend_system.as_ref();
        assert_eq!(system.is_some(), is_proxied, "{text}");
        assert!(system.is_none_or(|one| one.work_us.is_some() && one.busy > 0.0));
        assert_eq!(resources.backend_counts.is_some(), is_proxied);
        let held = block.checks.iter().all(|check| check.holds == Some(true));
        assert!(held, "{:?}", block.checks);
        assert_eq!(block.checks.len(), if is_proxied { 2 } else { 0 });
    }
}

#[test]
fn servers_and_upstreams_run_on_machines_of_their_own() {
    let (folder, file, out) = experiment("upstreams", &EXPERIMENT);
    let machines = Machines::start(&folder, &[OWN]);
    let words = machines.words();
    let (code, text) = run(&file, &out, &words);
    assert_eq!(code, Some(0), "{text}");
    let measured = result(&out);
    is_whole(&measured, &text);
    let url = "http://127.0.0.2:";
    let blocks = measured.cells.iter().flat_map(|cell| &cell.blocks);
    assert!(
        blocks
            .clone()
            .all(|one| one.load.asked.url.starts_with(url))
    );
    let (servers, upstreams) = (&machines.servers.address, &machines.upstreams.address);
    let note = format!(
        "The machine described here is that of {servers}, which ran the servers. The machine of {upstreams} ran the upstreams: "
    );
    let is_noted = measured.notes.iter().any(|one| one.starts_with(&note));
    assert!(is_noted, "{:?}", measured.notes);
    let upstream_machine = measured.upstream_machine.as_ref().unwrap();
    assert!(upstream_machine.placement.keys().eq(["backend"]));
    assert!(measured.machine.placement.keys().eq(["subject"]));
    machines.are_clean();
    let report = lab(&["report", &out]);
    assert!(report.status.success(), "{}", output_text(&report));
    let page = fs::read_to_string(format!("{out}/report.html")).unwrap();
    assert!(page.contains("Machine of the upstreams") && page.contains(upstreams.as_str()));
    let layout =
        format!("servers on {servers}; upstreams on {upstreams}; load on the machine of the run");
    assert!(page.contains(&format!("<figcaption>{layout}</figcaption>")));
    assert_eq!(measured.layout, Some(layout));
    // Blocks are continued with upstreams of this machine only.
    let (_, text) = run(&file, &out, &[&words[..], &["--resume", "--plan"]].concat());
    assert!(text.contains(", 0 left"), "{text}");
    let beside = [&words[..4], &words[8..], &["--resume", "--plan"]].concat();
    let (_, text) = run(&file, &out, &beside);
    assert!(text.contains(", 2 left"), "{text}");
    let (code, text) = run(&file, &out, &[&words[..], &["--check"]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("2 correct, 0 wrong"), "{text}");
    machines.are_clean();
}

#[test]
fn servers_of_this_machine_reach_upstreams_of_another() {
    let (folder, file, out) = experiment("upstreams-here", &EXPERIMENT);
    let (agent, token) = host(&folder, "127.0.0.3:0");
    let placed = EXPERIMENT.replace(
        "[place]",
        &format!(
            "[place]\nupstreams = \"{}\"\nupstream_address = \"127.0.0.3\"",
            agent.address
        ),
    );
    fs::write(&file, placed).unwrap();
    let words = ["--token-file", &token];
    let (code, text) = run(&file, &out, &words);
    assert_eq!(code, Some(0), "{text}");
    let measured = result(&out);
    is_whole(&measured, &text);
    let note = format!(
        "The machine described here ran the servers. The machine of {} ran the upstreams: ",
        agent.address
    );
    let mut notes = measured.notes.iter();
    assert!(notes.any(|one| one.starts_with(&note)), "{notes:?}");
    is_clean(&agent.child);
    // The load comes from agents, too, and a limit is searched for.
    let more = ["--resume", "--agent", "local", "--agent", "local"];
    let (code, text) = run(&file, &out, &[&words[..], &more].concat());
    assert_eq!(code, Some(0), "{text}");
    is_whole(&result(&out), &text);
    let json = folder.file("limit.json");
    let search = [
        "find-limit",
        &file,
        "--only",
        "test=proxied",
        "--json",
        &json,
    ];
    let more = [
        "--step",
        "200ms",
        "-d",
        "200ms",
        "--slo",
        "p99<5s,errors<50%",
    ];
    let text = output_text(&lab(&[&search[..], &more, &words].concat()));
    let searched: RunResult = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert!(searched.cells.len() >= 5, "{text}");
    for block in searched.cells.iter().flat_map(|cell| &cell.blocks) {
        let resources = block.resources.as_ref().unwrap();
        assert!(resources.backend.is_some() && resources.backend_system.is_some());
    }
    is_clean(&agent.child);
}

/// An upstream whose responses are its metrics, and which writes a line to its log when it is asked to stop.
const CHECKED: &str = r#"
schema = "sluice.lab/1"
name = "checked"
title = "Checks on the machine of the upstreams"
[matrix]
clients = [2]
[load]
duration = "300ms"
warmup = "0s"
rest = { idle = "300ms" }
[repeat]
blocks = 1
again = 0
[place]
pin = "none"
[[backend]]
name = "hello"
run = "sh -c '\"$0\" \"$@\" & trap \"echo stopped >> {dir}/upstream.log; kill $!\" TERM; wait' {lab} serve respond --listen {upstream.address}:{port} --body 'jobs 7'"
[test.page]
path = "/"
needs = ["hello"]
expect = { status = 200 }
assert = { backend_requests = "== requests" }
[subject.relay]
run = "{lab} serve relay {upstream.address}:{upstream} --listen {address}:{port}"
[[check]]
backend_processes = ">= 2"
processes = "== 1"
metric = { url = "http://{upstream.address}:{backend.hello}/", name = "jobs", value = "== 7" }
log_lines = { file = "{dir}/upstream.log", per_response = "> 0" }
[[check]]
metric = { url = "http://{address}:{port}/", name = "jobs", value = "== 8" }
log_lines = { file = "{dir}/no-such.log", per_response = "== 0" }
"#;

#[test]
fn checks_of_upstreams_are_made_on_their_machine() {
    let folder = Folder::new("upstreams-checked");
    let (file, out) = (folder.file("own.toml"), folder.file("out"));
    fs::write(&file, CHECKED).unwrap();
    let machines = Machines::start(&folder, &[OWN, "--allow-run=sh"]);
    let words = machines.words();
    let (code, text) = run(&file, &out, &words);
    assert_eq!(code, Some(0), "{text}");
    let measured = result(&out);
    let block = block(&measured, "page");
    let found = block.checks.iter();
    let found: Vec<_> = found.map(|check| (&*check.claim, check.holds)).collect();
    let expected = [
        // This upstream has no counters, which nothing else replaces.
        ("backend_requests == requests", None),
        ("processes == 1", Some(true)),
        ("backend_processes >= 2", Some(true)),
        ("log_lines > 0", Some(true)),
        ("jobs == 7", Some(true)),
        // Figures of the same name are distinguished by their URL.
        ("log_lines == 0", Some(true)),
        ("jobs == 8", Some(false)),
    ];
    assert_eq!(found, expected, "{text}");
    assert!(block.rest.is_some_and(|rest| rest.idle.is_some()), "{text}");
    machines.are_clean();
    // What is not of the run is refused on that machine as on that of the servers.
    for (from, to, said) in [
        (
            "http://{upstream.address}:{backend.hello}/",
            "http://127.0.0.1:1/?{upstream}",
            "http://127.0.0.1:1/?",
        ),
        (
            "http://{upstream.address}:{backend.hello}/",
            "http://192.0.2.1:{upstream}/",
            "is not on the machine of the server",
        ),
        (
            "{dir}/no-such.log",
            "/etc/passwd",
            "is not in the folder of the run",
        ),
    ] {
        let changed = CHECKED.replace(from, to);
        assert_ne!(changed, CHECKED);
        fs::write(&file, changed).unwrap();
        let (code, text) = run(&file, &out, &[&words[..], &["--check"]].concat());
        assert_eq!(code, Some(1), "{text}");
        let by = format!("(upstreams on {})", machines.upstreams.address);
        assert!(text.contains(said) && text.contains(&by), "{said}: {text}");
    }
    machines.are_clean();
}

/// An agent of an earlier version.
fn earlier_agent() -> (String, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.3:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let greet = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let hello = br#"{"hello":{"version":3,"nonce":"00"}}"#;
        let length = (hello.len() as u32).to_be_bytes();
        stream.write_all(&[&length[..], hello].concat()).unwrap();
    };
    (address, thread::spawn(greet))
}

/// Checks the experiment with servers of one agent, and upstreams of another at an address.
fn asked(
    (file, out): (&str, &str),
    (servers, token): (&String, &String),
    upstreams: &str,
    address: &str,
) -> (Option<i32>, String) {
    let words = ["--servers", servers, "--address", "127.0.0.2"];
    let more = ["--upstreams", upstreams, "--upstream-address", address];
    let last = ["--token-file", token, "--check"];
    run(file, out, &[&words[..], &more, &last].concat())
}

#[test]
fn agents_of_upstreams_that_are_of_no_use_are_named() {
    let (folder, file, out) = experiment("upstreams-refused", &EXPERIMENT);
    let (servers, token) = host(&folder, "127.0.0.2:0");
    let none = Agent::start_at(&token, "127.0.0.3:0");
    let other = Agent::with(&token, "127.0.0.3:0", &["--allow-run=nginx"]);
    let (earlier, greeted) = earlier_agent();
    let gone = {
        let listener = TcpListener::bind("127.0.0.3:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let placed = (&servers.address, &token);
    let asked = |upstreams: &str, address: &str| asked((&file, &out), placed, upstreams, address);
    for (upstreams, address, code, said) in [
        (&gone, "127.0.0.3", 2, "Connection refused"),
        (
            &earlier,
            "127.0.0.3",
            2,
            "it has version 3 of the protocol, and this program version 4",
        ),
        (&none.address, "127.0.0.3", 2, "it starts no servers"),
        (
            &other.address,
            "192.0.2.1",
            2,
            "`192.0.2.1` is not an address of this machine, where the upstreams run",
        ),
    ] {
        let (found, text) = asked(upstreams, address);
        assert_eq!(found, Some(code), "{text}");
        let named = format!("upstreams on {upstreams}: ");
        assert!(
            text.contains(&named) && text.contains(said),
            "{said}: {text}"
        );
    }
    greeted.join().unwrap();
    let (code, text) = asked(&other.address, "127.0.0.3");
    assert_eq!(code, Some(1), "{text}");
    let said = format!(
        "the agent may not start `sluice-lab`; start it with --allow-run=sluice-lab (upstreams on {})",
        other.address
    );
    assert!(text.contains(&said), "{text}");
    // One agent is not two machines.
    let (code, text) = asked(&servers.address, "127.0.0.3");
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("cannot be the machine of the servers and that of the upstreams"),
        "{text}"
    );
    for agent in [&servers, &none, &other] {
        is_clean(&agent.child);
    }
}

#[test]
fn upstreams_that_another_machine_cannot_reach_are_named() {
    let (folder, file, out) = experiment("upstreams-unreached", &EXPERIMENT);
    let machines = Machines::start(&folder, &[OWN]);
    let placed = (&machines.servers.address, &machines.token);
    let upstreams = machines.upstreams.address.as_str();
    // One that listens elsewhere has a place in the file.
    let loopback = EXPERIMENT.replace(
        "--listen {upstream.address}:{port}",
        "--listen 127.0.0.1:{port}",
    );
    fs::write(&file, &loopback).unwrap();
    let (code, text) = asked((&file, &out), placed, upstreams, "127.0.0.3");
    assert_eq!(code, Some(2), "{text}");
    let said = "[[backend]] `hello` listens on `127.0.0.1:{port}`";
    let at = loopback
        .lines()
        .position(|line| line.contains("--listen 127"))
        .unwrap()
        + 1;
    assert!(
        text.contains(said) && text.contains(&format!("{file}:{at}:")),
        "{text}"
    );
    let sockets = EXPERIMENT
        .replace(
            "--listen {upstream.address}:{port}",
            "--listen unix:{socket}",
        )
        .replace("name = \"hello\"", "name = \"hello\"\nunix = true");
    fs::write(&file, sockets).unwrap();
    let (code, text) = asked((&file, &out), placed, upstreams, "127.0.0.3");
    assert_eq!(code, Some(0), "{text}");
    let said = "skipped: upstream `hello` listens on a unix socket";
    assert!(
        text.contains(said) && text.contains("without --upstreams"),
        "{text}"
    );
    machines.are_clean();
}

/// Starts a run of one long block, and waits until its upstream has a load.
fn long_run(name: &str) -> (Folder, Machines, Child, String) {
    let (folder, file, out) = experiment(name, &EXPERIMENT);
    let counts = folder.file("counts");
    let text = EXPERIMENT
        .replace("test = [\"direct\", \"proxied\"]", "test = [\"proxied\"]")
        .replace(
            "--counts {counts}",
            &format!("--counts {counts} --body-file {{dir}}/body"),
        )
        .replace(
            "[[backend]]",
            "[[file]]\npath = \"body\"\nline = \"from behind\"\ncount = 1\n[[backend]]",
        )
        .replace("body_of = \"hello\"", "file = \"body\"")
        .replace("assert = ", "# assert = ")
        .replace(" --body 'from behind'", "")
        .replace("blocks = 1", "blocks = 3")
        .replace("400ms", "2s");
    fs::write(&file, text).unwrap();
    let machines = Machines::start(&folder, &[OWN]);
    let mut command = Command::new(LAB);
    command
        .args(["run", &file, "--out", &out])
        .args(machines.words());
    let running = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let running = running.stderr(Stdio::piped()).spawn().unwrap();
    let is_loaded = || served(&counts) > Some(100);
    eventually("a load", is_loaded, String::new);
    (folder, machines, running, out)
}

#[test]
fn a_lost_agent_of_upstreams_costs_its_block_and_the_run_goes_on() {
    let (folder, mut machines, running, out) = long_run("upstreams-lost");
    // It works in the folder of its own agent.
    let body = format!("sluice-lab-{}/body", machines.upstreams.child.id());
    assert!(!processes_with(&body).is_empty());
    machines.upstreams.child.kill().unwrap();
    machines.upstreams.child.wait().unwrap();
    is_clean(&machines.upstreams.child);
    let (again, _) = host(&folder, &machines.upstreams.address);
    let output = running.wait_with_output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let said = format!(
        "agent {}, which runs the upstreams, was lost",
        machines.upstreams.address
    );
    assert!(text.contains(&said), "{text}");
    assert!(text.contains("an agent failed in 1 block"), "{text}");
    let measured = result(&out);
    assert_eq!(measured.cells[0].blocks.len(), 2, "{text}");
    for block in &measured.cells[0].blocks {
        assert!(block.load.ok > 0 && block.load.failed() == 0, "{text}");
    }
    assert!(measured.notes.iter().any(|note| note.contains(&said)));
    is_clean(&machines.servers.child);
    is_clean(&again.child);
}

#[test]
fn upstreams_stop_when_the_coordinator_is_gone() {
    let (_folder, machines, mut running, _) = long_run("upstreams-orphans");
    running.kill().unwrap();
    running.wait().unwrap();
    machines.are_clean();
}

#[test]
fn upstreams_run_behind_a_network() {
    // Without counters of its own the connections to the upstream are those that the kernel of its machine counts.
    let text = EXPERIMENT.replace("--counts {counts}", "");
    let (_folder, file, out) = experiment("upstreams-apart", &text);
    let Some(cable) = Cable::lay(250) else {
        skipped("network namespaces need privileges and `ip`");
        return;
    };
    let name = &cable.name;
    let agent = format!("command:ip netns exec {name} {LAB} agent --stdio {OWN}");
    let words = ["--only", "test=proxied", "--upstreams", &agent];
    let (code, text) = run(&file, &out, &words);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("they run on another machine than the servers: add --upstream-address"),
        "{text}"
    );
    let at = |address: &str| {
        let more = ["--upstream-address", address];
        run(&file, &out, &[&words[..], &more].concat())
    };
    let (code, text) = at(&cable.here);
    assert_eq!(code, Some(2), "{text}");
    let said = format!("`{}` is not an address of this machine", cable.here);
    assert!(text.contains(&said), "{text}");
    let (code, text) = at(&cable.there);
    assert_eq!(code, Some(0), "{text}");
    let measured = result(&out);
    let block = block(&measured, "proxied");
    assert!(block.load.ok > 0 && block.load.failed() == 0, "{text}");
    let [requests, reuse] = &block.checks[..] else {
        panic!("{:?}", block.checks);
    };
    assert_eq!((requests.holds, reuse.holds), (None, Some(true)), "{text}");
    assert!(reuse.seen.contains("(counted by the kernel)"), "{reuse:?}");
    // Each client of the relay has one connection, and more than none crossed the network.
    assert!(!reuse.seen.contains("(0 connections"), "{reuse:?}");
    let system = block.resources.as_ref().unwrap().backend_system.as_ref();
    let bytes = system.and_then(|system| system.network_bytes);
    assert!(bytes > Some(10_000), "{system:?}");
}
