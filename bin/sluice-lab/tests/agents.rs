//! Agents on this machine: over TCP with a token, and over the standard input and output of a command.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

use sluice_load::result::{Load, Mode, RunResult};

use crate::ports::free_port;
use crate::wait::eventually;
use crate::world::{Backend, Folder, LAB, lab, output_text};

pub const TOKEN: &str = "a token of the tests, long enough";

/// An agent that ends with the test.
pub struct Agent {
    pub child: Child,
    pub address: String,
}

impl Agent {
    pub fn start(token_file: &str) -> Self {
        Agent::start_at(token_file, "127.0.0.1:0")
    }

    pub fn start_at(token_file: &str, address: &str) -> Self {
        Agent::with(token_file, address, &[])
    }

    /// With further options. Instead of port 0 it gets one that it can have again if it is started anew: among those of clients,
    /// which the system chooses from for 0, a connection of another test may have taken it by then.
    pub fn with(token_file: &str, address: &str, words: &[&str]) -> Self {
        let address = match address.strip_suffix(":0") {
            Some(host) => format!("{host}:{}", free_port()),
            None => address.to_string(),
        };
        let mut command = Command::new(LAB);
        command.args(["agent", "--listen", &address, "--token-file", token_file]);
        command.args(words);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap()
            .to_string();
        Agent { child, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn token_file(folder: &Folder, text: &str) -> String {
    let file = folder.file("token");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file
}

fn read(json: &str) -> RunResult {
    serde_json::from_slice(&fs::read(json).unwrap()).unwrap()
}

fn run(words: &[&str]) -> (Option<i32>, String) {
    let output: Output = lab(words);
    (output.status.code(), output_text(&output))
}

/// The sums are those of the machines, and the server saw all of it.
pub fn adds_up(load: &Load, machines: usize, listed: &str, text: &str) {
    assert_eq!(load.machines.len(), machines, "{text}");
    assert_eq!(load.failed(), 0, "{text}");
    let ok: u64 = load.machines.iter().map(|machine| machine.ok).sum();
    assert_eq!((load.ok, load.latency.total.count), (ok, ok), "{text}");
    let connections: usize = load.machines.iter().map(|m| m.connections).sum();
    assert_eq!(load.asked.connections, connections, "{text}");
    for machine in &load.machines {
        assert!(
            machine.ok > 0,
            "{:?} {:?} {text}",
            load.machines,
            load.connections
        );
        // Both clocks are of this machine, so they differ by no more than the bound; the time of day may be adjusted.
        assert!(
            machine.clock_offset_s.abs() <= machine.clock_bound_s + 0.01,
            "{machine:?}"
        );
        assert!(
            listed.is_empty() || listed.contains(&format!("  {}: ", machine.name)),
            "{text}"
        );
    }
}

/// The largest number in a file of counts: the requests.
pub fn served(counts: &str) -> Option<u64> {
    let text = fs::read_to_string(counts).unwrap_or_default();
    let numbers = text.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|word| word.parse::<u64>().ok()).max()
}

#[test]
fn two_agents_share_a_load_and_its_sums_are_exact() {
    let folder = Folder::new("agents");
    let counts = folder.file("counts");
    let backend = Backend::start(&["respond", "--body", "hello", "--counts", &counts]);
    let (url, json) = (backend.url("/"), folder.file("hit.json"));
    let token = token_file(&folder, TOKEN);
    let (one, two) = (Agent::start(&token), Agent::start(&token));
    let words = [
        "hit",
        &url,
        "-r",
        "300",
        "-c",
        "5",
        "-d",
        "400ms",
        "--agent",
        &one.address,
        "--agent",
        &two.address,
        "--token-file",
        &token,
        "--json",
        &json,
    ];
    // The same agents serve one coordinator after the other.
    for _ in 0..2 {
        let (code, text) = run(&words);
        assert_eq!(code, Some(0), "{text}");
        let result = read(&json);
        let load = &result.cells[0].blocks[0].load;
        adds_up(load, 2, &text, &text);
        assert_eq!(load.due, Some(load.ok), "{text}");
        assert!(load.ok.abs_diff(120) <= 2, "{text}");
        let shares: Vec<_> = load
            .machines
            .iter()
            .map(|m| (m.connections, m.rate))
            .collect();
        assert_eq!(shares, [(2, Some(150.0)), (3, Some(150.0))]);
        assert!(matches!(load.asked.mode, Mode::Open { rate, .. } if rate == 300.0));
    }
    // Blocks, and a comparison in a report.
    let more = [&words[..], &["--repeats", "2"]].concat();
    let (code, text) = run(&more);
    assert_eq!(code, Some(0), "{text}");
    let result = read(&json);
    assert_eq!(result.cells[0].blocks.len(), 2);
    assert!(
        result.cells[0]
            .blocks
            .iter()
            .all(|block| block.load.machines.len() == 2)
    );
    let out = folder.file("out");
    let report = lab(&["report", &json, "--out", &out]);
    assert!(report.status.success(), "{}", output_text(&report));
    let page = fs::read_to_string(format!("{out}/report.html")).unwrap();
    assert!(page.contains(&one.address) && page.contains("clock ahead"));
}

#[test]
fn an_agent_runs_over_the_input_and_output_of_a_command() {
    let folder = Folder::new("agents-stdio");
    let backend = Backend::start(&["respond", "--body", "hello"]);
    let (url, json) = (backend.url("/"), folder.file("hit.json"));
    let shell = format!("command:sh -c '{LAB} agent --stdio'");
    let scenario = folder.file("two.toml");
    let text = "schema = \"sluice.scenario/1\"\nname = \"two\"\n[[phase]]\nduration = \"300ms\"\nclients = 3\n\
                [[request]]\npath = \"/a\"\nexpect = { body = \"hello\" }\n[[request]]\npath = \"/b\"\nweight = 3\n";
    fs::write(&scenario, text).unwrap();
    let words = [
        "hit",
        &url,
        "--scenario",
        &scenario,
        "--agent",
        &shell,
        "--agent",
        "local",
        "--json",
        &json,
    ];
    let (code, text) = run(&words);
    assert_eq!(code, Some(0), "{text}");
    let result = read(&json);
    let load = &result.cells[0].blocks[0].load;
    adds_up(load, 2, &text, &text);
    assert_eq!((load.parts.len(), load.phases.len()), (2, 1));
    assert_eq!(load.phases[0].from, 3.0);
    assert_eq!(load.phases[0].ok, load.ok);
    let urls = folder.file("urls");
    fs::write(&urls, "/a\n2 HEAD /b\n").unwrap();
    let words = [
        "hit", &url, "--urls", &urls, "-c", "2", "-d", "200ms", "--agent", &shell, "--agent",
        "local", "--json", &json,
    ];
    let (code, text) = run(&words);
    assert_eq!(code, Some(0), "{text}");
    let result = read(&json);
    let load = &result.cells[0].blocks[0].load;
    adds_up(load, 2, &text, &text);
    let parts: Vec<&str> = load.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(parts, ["GET /a", "HEAD /b"]);
}

#[test]
fn a_lost_agent_fails_the_block() {
    let folder = Folder::new("agents-lost");
    let counts = folder.file("counts");
    let backend = Backend::start(&["respond", "--body", "hello", "--counts", &counts]);
    let (url, json) = (backend.url("/"), folder.file("hit.json"));
    let token = token_file(&folder, TOKEN);
    let (one, mut two) = (Agent::start(&token), Agent::start(&token));
    let mut command = Command::new(LAB);
    command.args([
        "hit",
        &url,
        "-c",
        "4",
        "-d",
        "1h",
        "--agent",
        &one.address,
        "--agent",
        &two.address,
        "--token-file",
        &token,
        "--json",
        &json,
    ]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let coordinator = command.spawn().unwrap();
    eventually("a load", || served(&counts) > Some(1_000), String::new);
    two.child.kill().unwrap();
    let output = coordinator.wait_with_output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    let said = format!("agent {} was lost", two.address);
    assert!(
        text.contains(&said) && text.contains("the load has failed"),
        "{text}"
    );
    assert!(!fs::exists(&json).unwrap(), "there are no figures");
    // The other agent stops its load, and serves the next coordinator.
    let words = [
        "hit",
        &url,
        "-c",
        "2",
        "-d",
        "200ms",
        "--agent",
        &one.address,
        "--token-file",
        &token,
    ];
    let again = || run(&words).0 == Some(0);
    eventually("the other agent", again, String::new);
}

#[test]
fn wrong_tokens_and_tasks_are_refused() {
    let folder = Folder::new("agents-refused");
    let backend = Backend::start(&["respond", "--body", "hello"]);
    let url = backend.url("/");
    let token = token_file(&folder, TOKEN);
    let agent = Agent::start(&token);
    let wrong = Folder::new("agents-wrong");
    let wrong = token_file(&wrong, "another token, also long");
    let at = agent.address.as_str();
    for (words, part) in [
        (
            vec!["--agent", at, "--token-file", &wrong],
            "the token is wrong",
        ),
        (
            vec!["--agent", at],
            "it needs a token: --token-file FILE or SLUICE_LAB_TOKEN",
        ),
        (
            vec!["--agent", at, "--token-file", "absent"],
            "absent: No such file",
        ),
        (vec!["--agent", "nobody"], "`nobody` is not an agent"),
        (
            vec!["--agent", "command:false"],
            "it ended before it was ready",
        ),
        (
            vec!["--agent", "command:no-such-program"],
            "no-such-program: No such file",
        ),
        (vec!["--agent", "local", "-n", "5"], "cannot be used with"),
        (
            vec!["--agent", "local", "--agent", "local", "-c", "1"],
            "1 connections cannot be divided between 2 agents",
        ),
    ] {
        let (code, text) = run(&[&["hit", &url][..], &words].concat());
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(part), "{part}: {text}");
    }
    let (code, text) = run(&["agent", "--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("an agent that listens needs a token"),
        "{text}"
    );
    fs::set_permissions(&token, fs::Permissions::from_mode(0o640)).unwrap();
    let (code, text) = run(&["agent", "--listen", "127.0.0.1:0", "--token-file", &token]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("others can read this token"), "{text}");
    // A token in the environment does as well.
    let mut command = Command::new(LAB);
    command.args(["hit", &url, "-d", "200ms", "-c", "2", "--agent", at]);
    let output = command.env("SLUICE_LAB_TOKEN", TOKEN).output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
}
