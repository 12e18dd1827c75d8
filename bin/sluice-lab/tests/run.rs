//! The program as a whole: an experiment with its own upstreams from the file to the result, and the output of `hit`
//! for a server with faults that are counted on both sides.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use sluice_load::result::{CellState, FailureClass, RunResult};

use crate::wait::eventually;
use crate::world::{self, Backend, Folder, LAB, hit, installed, is_there};

static EXPERIMENT: LazyLock<String> = LazyLock::new(|| {
    let tables = "[repeat]\nblocks = 2\n[place]\npin = \"none\"";
    world::experiment("[2, 5]", tables, SERVERS)
});

const SERVERS: &str = r#"
[subject.floor]
run = { direct = "{lab} serve null --listen 127.0.0.1:{port} --body hello", proxied = "{lab} serve relay 127.0.0.1:{backend.hello} --listen 127.0.0.1:{port}" }
[subject.liar]
run = "{lab} serve null --listen 127.0.0.1:{port} --body wrong"
[subject.absent]
run = "no-such-server --port {port}"
"#;

/// The result records how it was produced, and `rerun` repeats it next to itself, unless its file has changed.
fn made_once_more(file: &str, out: &str, result: &RunResult) {
    let again = |more: &[&str]| {
        let words = [&["rerun", out][..], more].concat();
        let output = Command::new(LAB).args(words).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), text)
    };
    let (code, output_text) = again(&[]);
    assert_eq!(code, Some(0), "{output_text}");
    let new: RunResult =
        serde_json::from_slice(&fs::read(format!("{out}-again/result.json")).unwrap()).unwrap();
    let ids = |result: &RunResult| -> Vec<String> {
        result.cells.iter().map(|cell| cell.id.clone()).collect()
    };
    assert_eq!(ids(&new), ids(result));
    fs::write(file, EXPERIMENT.replace("400ms", "410ms")).unwrap();
    let (code, output_text) = again(&["--plan"]);
    assert!(
        code == Some(2) && output_text.contains("has changed since"),
        "{output_text}"
    );
    let (code, output_text) = again(&["--plan", "--force"]);
    assert!(
        code == Some(0) && output_text.contains("--only subject=floor,absent"),
        "{output_text}"
    );
    fs::write(file, EXPERIMENT.as_str()).unwrap();
}

#[test]
fn a_file_goes_before_a_built_in_experiment_of_its_name() {
    let folder = Folder::new("built-in-name");
    fs::write(folder.file("000.toml"), EXPERIMENT.as_str()).unwrap();
    let planned = |name: &str| {
        let mut command = Command::new(LAB);
        command.args(["run", name, "--plan"]).current_dir(&folder.0);
        world::output_text(&command.output().unwrap())
    };
    let text = planned("000.toml");
    assert!(text.contains("The lab's own servers"), "{text}");
    let text = planned("000");
    assert!(text.contains("35 million hot dogs"), "{text}");
}

#[test]
fn an_experiment_runs_from_its_file_to_its_result() {
    let folder = Folder::new("run");
    let file = folder.file("own.toml");
    fs::write(&file, EXPERIMENT.as_str()).unwrap();
    let out = folder.file("out");
    let run = |more: &[&str]| {
        let output = Command::new(LAB)
            .args(["run", &file, "--out", &out])
            .args(more)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let result: RunResult =
            serde_json::from_slice(&fs::read(format!("{out}/result.json")).unwrap()).unwrap();
        (text, result)
    };
    let planned = |more: &[&str]| {
        let words = [&["run", &file, "--out", &out, "--plan"][..], more].concat();
        world::output_text(&world::lab(&words))
    };
    let text = planned(&["--only", "subject=floor", "--budget", "5s"]);
    assert!(text.contains("4 cells x 1 blocks, 4 left"), "{text}");
    let (text, result) = run(&["--only", "subject=floor,absent"]);
    assert!(text.contains("8 cells x 2 blocks, 16 left"), "{text}");
    for cell in &result.cells {
        if cell.axis("subject") == "absent" {
            assert!(
                matches!(&cell.state, CellState::NotInstalled(why) if why.contains("no-such-server"))
            );
            continue;
        }
        assert_eq!((&cell.state, cell.blocks.len()), (&CellState::Measured, 2));
        for block in &cell.blocks {
            assert!(
                block.load.ok > 0 && block.load.failed() == 0,
                "{:?}",
                block.load.failures
            );
            assert!(
                block.checks.iter().all(|check| check.holds == Some(true)),
                "{:?}",
                block.checks
            );
            let resources = block.resources.as_ref().unwrap();
            assert_eq!(resources.backend.is_some(), cell.axis("test") == "proxied");
            assert!(resources.subject.rss_peak_bytes > 0);
            assert!(block.cpu_us_per_ok().is_some());
        }
    }
    made_once_more(&file, &out, &result);
    // Nothing is left to do, and the blocks are the same.
    let (text, again) = run(&["--only", "subject=floor", "--resume"]);
    assert!(text.contains("0 left"), "{text}");
    let floor = |result: &RunResult| {
        let cells = result
            .cells
            .iter()
            .filter(|cell| cell.axis("subject") == "floor");
        cells
            .flat_map(|cell| cell.blocks.iter().map(|block| block.load.ok))
            .collect::<Vec<_>>()
    };
    assert_eq!(floor(&result), floor(&again));
}

#[test]
fn a_server_with_a_wrong_response_did_not_start() {
    let folder = Folder::new("liar");
    let file = folder.file("own.toml");
    fs::write(&file, EXPERIMENT.as_str()).unwrap();
    let words = [
        "run",
        &file,
        "--out",
        &folder.file("out"),
        "--only",
        "subject=liar;test=direct;clients=2",
        "--repeats",
        "1",
    ];
    let output = Command::new(LAB).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("did not start: no correct response") && text.contains("another body"),
        "{text}"
    );
}

#[test]
fn uploads_arrive_as_they_were_sent() {
    let folder = Folder::new("upload");
    let backend = Backend::start(&["respond"]);
    let (_, result) = hit(
        &folder,
        &backend.url("/sum"),
        &["-n", "50", "-c", "5", "--body-bytes", "64KiB"],
    );
    let load = &result.cells[0].blocks[0].load;
    // The response is a digest of the upload, and every one was compared with the first.
    assert_eq!((load.ok, load.failed()), (50, 0));
    assert!(
        load.asked.verify.contains("every byte"),
        "{}",
        load.asked.verify
    );
    assert!(load.transfer.sent_bytes.unwrap() > 50 * 65_536);
}

#[test]
fn injected_faults_are_classified_correctly() {
    let folder = Folder::new("faults");
    // A seed whose first response is complete: a URL without a response is not loaded.
    let words = [
        "respond", "--errors", "0.1", "--resets", "0.1", "--cuts", "0.1", "--seed", "1",
    ];
    let backend = Backend::start(&words);
    let (_, result) = hit(
        &folder,
        &backend.url("/"),
        &[
            "-n",
            "2000",
            "-c",
            "4",
            "--failure-pause",
            "0",
            "--verify",
            "status",
        ],
    );
    let load = &result.cells[0].blocks[0].load;
    let share = |classes: &[FailureClass]| {
        let count: u64 = classes.iter().map(|class| load.failed_in(*class)).sum();
        count as f64 / 2_000.0
    };
    for classes in [
        &[FailureClass::Status][..],
        &[FailureClass::Stale, FailureClass::Reset][..],
        &[FailureClass::BodyCut][..],
    ] {
        assert!(
            (share(classes) - 0.1).abs() < 0.03,
            "{classes:?}: {}",
            share(classes)
        );
    }
    assert_eq!(load.ok + load.failed(), 2_000);
}

#[test]
fn delays_on_purpose_are_measured() {
    let folder = Folder::new("delay");
    let backend = Backend::start(&["respond", "--delay", "30ms"]);
    let (_, result) = hit(&folder, &backend.url("/"), &["-n", "60", "-c", "6"]);
    let load = &result.cells[0].blocks[0].load;
    let median = load.latency.total.percentile(50.0).unwrap() / 1e6;
    // Not below, and above only by what a busy machine adds.
    assert!((30.0..90.0).contains(&median), "{median} ms");
    assert_eq!(load.ok, 60);
}

#[test]
fn a_unix_socket_is_loaded_like_an_address() {
    let folder = Folder::new("unix");
    let socket = folder.file("a.sock");
    let child = Command::new(LAB)
        .args([
            "serve",
            "null",
            "--listen",
            &format!("unix:{socket}"),
            "--body",
            "x",
        ])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let _backend = Backend { child, port: 0 };
    let exists = || PathBuf::from(&socket).exists();
    eventually("the socket", exists, String::new);
    let (_, result) = hit(
        &folder,
        "http://app/",
        &["-n", "200", "-c", "3", "--unix", &socket],
    );
    assert_eq!(result.cells[0].blocks[0].load.ok, 200);
}

const STUDY: &str = r#"
schema = "sluice.lab/1"
name = "study"
title = "A document that is repeated"
notes = ["The document is made up."]
[matrix]
test = ["blocks", "once"]
clients = [2]
config = ["near", "far"]
skip = [{ test = "once", config = "far" }]
[load]
duration = "1s"
warmup = "100ms"
rest = "50ms"
[repeat]
blocks = 3
again = 0
[place]
pin = "none"
[corpus]
count = 6
[[file]]
path = "text"
from = "printed.txt"
[[rewrite]]
from = "the port"
to = "{port}"
[[backend]]
name = "rpc-near"
unix = true
run = "no-such-backend"
instead = "{lab} serve respond --listen unix:{socket} --counts {counts} --corpus 6"
[[backend]]
name = "rpc-far"
unix = true
run = "{lab} serve respond --listen unix:{socket} --counts {counts} --corpus 6 --first-delay 100ms"
[test.blocks]
path = "/"
corpus = true
needs = ["rpc-{config}"]
expect = { status = 200 }
assert = { backend_requests = "== requests" }
[test.once]
path = "/"
host = "document.example"
requests_per_connection = 1
needs = ["nobody-{config}"]
expect = { status = 200, file = "text" }
[subject.relay]
run = "{lab} serve relay unix:{upstream} --listen 127.0.0.1:{port}"
tests = ["blocks"]
[subject.files]
run = "{lab} serve null --listen 127.0.0.1:{port} --body-file {dir}/text"
tests = ["once"]
configs = ["near"]
[[check]]
when = { test = "blocks" }
upstream_reuse = ">= 0.5"
backend_processes = "== 1"
encoding = "none"
[[check]]
when = { test = "once" }
answers_per_connection = "<= 1"
processes = "== 1"
[[beside]]
printed = { subject = "caddy", round = "1" }
here = { subject = "relay", config = "near" }
[table]
shape = "003"
[claims.four-times]
says = "something has an answer"
means = "rate(subject=relay, config=near) > 0"
[claims.bad]
says = "nothing has an answer"
means = "rate(subject=relay) == 0"
[claims.cores]
says = "many processors answer more"
means = "rate(subject=relay) > 1"
cpus = 100_000
[claims.silent]
says = "it feels fast"
words = "No figure tells feelings."
"#;

#[test]
fn a_study_is_repeated_with_its_corpus_checks_and_claims() {
    let folder = Folder::new("study");
    let file = folder.file("study.toml");
    fs::write(&file, STUDY).unwrap();
    fs::write(folder.file("printed.txt"), "listens at the port\n").unwrap();
    let out = folder.file("out");
    let ran = Command::new(LAB)
        .args(["run", &file, "--out", &out])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success(), "{text}");
    let result: RunResult =
        serde_json::from_slice(&fs::read(format!("{out}/result.json")).unwrap()).unwrap();
    assert_eq!(result.cells.len(), 3, "{text}");
    for cell in &result.cells {
        assert_eq!(cell.state, CellState::Measured, "{:?}: {text}", cell.axes);
        let block = &cell.blocks[0];
        let load = &block.load;
        assert!(load.ok > 0 && load.failed() == 0, "{:?}", load.failures);
        let failed = block.checks.iter().find(|check| check.holds != Some(true));
        assert_eq!(failed, None, "{text}");
        let tree = &block.resources.as_ref().unwrap().subject;
        assert!(tree.rss_after_bytes.is_some_and(|bytes| bytes > 0));
        // The corpus has bodies of 1.5 KB to 1.4 MB, and all of them were received.
        let mean = load.transfer.received_bytes as f64 / load.ended_ok as f64;
        assert_eq!(mean > 10_000.0, cell.axis("test") == "blocks", "{mean}");
        if cell.axis("config") == "far" {
            let longest = load.connections.opened;
            assert!(longest >= 2 && block.ready_s.unwrap() >= 0.1);
        }
    }
    assert!(
        result
            .notes
            .iter()
            .any(|note| note.contains("`no-such-backend` is not installed")),
        "{:?}",
        result.notes
    );
    world::quiet(&out);
    let report = Command::new(LAB)
        .args(["report", &out, "--md"])
        .output()
        .unwrap();
    assert!(report.status.success());
    let report = fs::read_to_string(format!("{out}/report.md")).unwrap();
    for row in [
        "| something has an answer | does not hold: 3.51",
        "| nothing has an answer |  | **contradicted** |",
        "| many processors answer more |  | **not comparable here** | It is about 100000 processors",
        "| it feels fast |  | **not comparable here** | No figure tells feelings.",
        "config near, subject relay, test blocks |",
    ] {
        assert!(report.contains(row), "{row}: {report}");
    }
}

#[test]
fn every_scenario_passes_its_check_before_any_load() {
    let folder = Folder::new("scenarios-check");
    let out = folder.file("out");
    let words = ["run", "scenarios", "--check", "--out", &out, "-c", "2"];
    let only = ["--only", "subject=floor,ngx-tuned,ngx-h2,sluice"];
    let output = Command::new(LAB).args(words).args(only).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // nginx and sluice may not be installed here; those that are pass.
    assert!(output.status.success(), "{text}");
    assert!(text.contains("correct, 0 wrong, "), "{text}");
    for test in [
        "synthetic",
        "html-large",
        "proxy-large",
        "websocket",
        "events",
    ] {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("2 floor {test} ")));
        assert!(
            line.is_some_and(|line| line.contains("correct after")),
            "{text}"
        );
    }
    assert!(
        !PathBuf::from(out).exists(),
        "nothing is measured, so nothing is written"
    );
}

#[test]
fn every_kind_of_scenario_is_loaded() {
    if !installed("nginx") {
        return;
    }
    let folder = Folder::new("scenarios");
    let out = folder.file("out");
    let words = ["run", "scenarios", "--quick", "--repeats", "1", "-c", "4"];
    // Long enough for a response on a machine whose CPUs others use.
    let short = ["-d", "600ms", "--warmup", "50ms", "--out", &out, "--only"];
    let only = "subject=floor,ngx-tuned,ngx-h2; test=tls-synthetic,h2-synthetic,h2-upload,fcgi-tcp,fcgi-unix,post-upload,conn-per-request,pipelined,websocket,events,idle,proxy";
    let output = Command::new(LAB)
        .args(words)
        .args(short)
        .arg(only)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let result: RunResult =
        serde_json::from_slice(&fs::read(format!("{out}/result.json")).unwrap()).unwrap();
    assert_eq!(result.cells.len(), 17, "{text}");
    for cell in &result.cells {
        assert_eq!(cell.state, CellState::Measured, "{:?}: {text}", cell.axes);
        let block = &cell.blocks[0];
        let load = &block.load;
        assert!(load.ok > 0 && load.failed() == 0, "{:?}: {text}", cell.axes);
        let wrong = block.checks.iter().find(|check| check.holds == Some(false));
        assert_eq!(wrong, None, "{:?}: {text}", cell.axes);
        let each = load.connections.responses as f64 / load.connections.opened.max(1) as f64;
        let alpn = load.connections.alpn.as_deref();
        match cell.axis("test") {
            "tls-synthetic" => assert!(load.connections.tls_version.is_some(), "{text}"),
            "h2-synthetic" | "h2-upload" => assert_eq!(alpn, Some("h2")),
            "conn-per-request" => assert!(each <= 1.0, "{each}"),
            "pipelined" => assert_eq!(load.asked.depth, 16),
            "websocket" => assert_eq!(load.asked.protocol, "websocket"),
            "events" => assert_eq!(load.asked.protocol, "server-sent events"),
            "idle" => assert_eq!(load.held.as_ref().unwrap().idle_open, 2_000),
            // Requests in flight when the window began were sent before it.
            "post-upload" => assert!(load.transfer.sent_bytes.unwrap() > 65_536 * load.ok / 2),
            _ => {}
        }
    }
}

#[test]
fn a_cell_without_its_backend_says_what_is_missing() {
    let folder = Folder::new("missing");
    let file = folder.file("study.toml");
    let text = STUDY
        .replace("instead = ", "body = ")
        .replace("no-such-backend", "gunicorn-none");
    fs::write(&file, text).unwrap();
    fs::write(folder.file("printed.txt"), "").unwrap();
    let words = [
        "run",
        &file,
        "--out",
        &folder.file("out"),
        "--only",
        "config=near;test=blocks",
    ];
    let output = Command::new(LAB).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("not installed: behind it, `gunicorn-none` is not installed"),
        "{text}"
    );
}

#[test]
fn a_run_that_is_killed_leaves_nothing_behind() {
    let folder = Folder::new("killed");
    let file = folder.file("own.toml");
    fs::write(
        &file,
        EXPERIMENT
            .replace("400ms", "60s")
            .replace("--body hello", "--body hello --counts {dir}/counts"),
    )
    .unwrap();
    let words = [
        "run",
        &file,
        "--out",
        &folder.file("out"),
        "--only",
        "subject=floor;test=direct",
    ];
    let mut child = Command::new(LAB)
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let dir = std::env::temp_dir().join(format!("sluice-lab-{}", child.id()));
    eventually(
        "a server is started",
        || dir.join("floor.log").exists(),
        String::new,
    );
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the folder is removed", || !dir.exists(), String::new);
    let left = || {
        let output_text = fs::read_dir("/proc").unwrap().flatten();
        let lines = output_text.filter_map(|one| fs::read(one.path().join("cmdline")).ok());
        let name = dir.display().to_string();
        lines
            .filter(|line| String::from_utf8_lossy(line).contains(&name))
            .count()
    };
    eventually("the server has ended", || left() == 0, String::new);
}

#[test]
fn the_generator_s_ceiling_and_its_lateness_are_measured() {
    let folder = Folder::new("calibrate");
    let json = folder.file("ceilings.json");
    let output = Command::new(LAB)
        .args(["calibrate", "-d", "200ms", "-c", "2,5", "--json", &json])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    // Six ceilings, and the send delay at three rates.
    assert_eq!(text.lines().count(), 9, "{text}");
    let result: RunResult = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let mut found: Vec<(u64, usize)> = result
        .ceilings
        .iter()
        .map(|ceiling| (ceiling.body_bytes, ceiling.connections))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            (13, 2),
            (13, 5),
            (4_608, 2),
            (4_608, 5),
            (289_812, 2),
            (289_812, 5)
        ]
    );
    for ceiling in &result.ceilings {
        assert!(ceiling.ok_per_s > 0.0 && ceiling.bytes_per_s > ceiling.body_bytes as f64);
    }
}

#[test]
fn a_set_up_says_what_it_would_fetch_and_does_nothing() {
    let folder = Folder::new("setup");
    let dir = folder.file("there");
    let output = Command::new(LAB)
        .args(["setup", "--plan", "--dir", &dir])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("-m venv") && text.contains("flask==3.1.3"),
        "{text}"
    );
    assert!(!PathBuf::from(dir).exists());
}

#[test]
fn a_part_of_the_set_up_that_fails_does_not_stop_the_rest() {
    let folder = Folder::new("setup-part");
    let dir = folder.file("there");
    let words = ["setup", "python", "go", "--python", "no-such-python"];
    let output = Command::new(LAB)
        .args(words)
        .args(["--dir", &dir])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let said = "no Python with the modules `venv` and `ensurepip` (tried no-such-python)";
    assert!(text.contains(said), "{text}");
    assert!(text.contains("python: not installed, see above"), "{text}");
    // The Go program uses only Go's standard library, so it does not need a network.
    let program = PathBuf::from(format!("{dir}/bin/go-001"));
    assert_eq!(program.is_file(), is_there("go"), "{text}");
}

#[test]
fn other_hosts_are_not_loaded_and_mistakes_are_reported() {
    for (words, message) in [
        (&["hit", "http://192.0.2.1/"][..], "--i-own-this-host"),
        (&["hit", "http://127.0.0.1:1/"][..], "connection refused"),
        (&["run", "no-such.toml"][..], "built in:"),
        (&["rerun", "no-such.json"][..], "No such file"),
        (
            &["run", "000", "--only", "subject=nobody"][..],
            "no cells left",
        ),
    ] {
        let output = Command::new(LAB).args(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(message), "{text}");
    }
}
