//! Treatment checks: a setting that takes effect is seen, and so is one that does not.

use std::fs;

use sluice_load::result::{Block, Check, MarkKind, RunResult};

use crate::abilities::skipped_part;
use crate::world::{Folder, installed, is_there, lab, output_text, result};

fn run(experiment: &str, out: &str, words: &[&str]) -> RunResult {
    let short = ["-d", "300ms", "--warmup", "0s", "--repeats", "1", "-c", "4"];
    let words = [&["run", experiment, "--out", out][..], &short, words].concat();
    let output = lab(&words);
    assert!(output.status.success(), "{}", output_text(&output));
    result(out)
}

/// The blocks of a result, each with its test and configuration.
fn blocks(result: &RunResult) -> impl Iterator<Item = (String, &Block)> {
    result.cells.iter().flat_map(|cell| {
        let name = format!("{} {}", cell.axis("test"), cell.axis("config"));
        cell.blocks.iter().map(move |block| (name.clone(), block))
    })
}

#[test]
fn each_setting_of_axes_takes_effect_in_nginx() {
    if !installed("nginx") {
        return;
    }
    let folder = Folder::new("axes");
    let only = "subject=nginx; config=base,access-log,nodelay-off,gzip,routes-1000,no-sendfile,small-buffers,unbuffered,balance-3,tls";
    let result = run("axes", &folder.file("out"), &["--only", only]);
    let traced = is_there("strace");
    if !traced {
        skipped_part("strace is not installed");
    }
    let mut settings = 0;
    for (name, block) in blocks(&result) {
        for check in &block.checks {
            let is_call = check.claim.contains("for each request");
            assert!(
                check.holds == Some(true) || (is_call && !traced),
                "{name}: {check:?}"
            );
        }
        settings += usize::from(!block.checks.is_empty());
        assert_eq!(block.load.failed(), 0, "{name}");
    }
    assert_eq!(settings, 15);
}

#[test]
fn versions_of_tls_and_keys_are_those_of_the_test_in_nginx() {
    if !installed("nginx") {
        return;
    }
    let folder = Folder::new("axes-tls");
    let only = "subject=nginx; test=kept*,full*";
    let result = run("tls", &folder.file("out"), &["--only", only]);
    let mut found = Vec::new();
    for (name, block) in blocks(&result) {
        let held = block.checks.iter().all(|check| check.holds == Some(true));
        assert!(held, "{name}: {:?}", block.checks);
        assert_eq!(block.load.failed(), 0, "{name}");
        let connections = &block.load.connections;
        let of = |value: &Option<String>| value.clone().unwrap_or_default();
        found.push(format!(
            "{name} {} {}",
            of(&connections.tls_version),
            of(&connections.key)
        ));
    }
    let expected = [
        "kept-12 ecdsa TLSv1_2 ECDSA",
        "kept-13 ecdsa TLSv1_3 ECDSA",
        "full-12 ecdsa TLSv1_2 ECDSA",
        "full-12 rsa TLSv1_2 RSA",
        "full-13 ecdsa TLSv1_3 ECDSA",
        "full-13 rsa TLSv1_3 RSA",
    ];
    assert_eq!(found, expected);
}

/// The name of a cell of `workers` and its checks.
fn checks_of(result: &RunResult) -> Vec<(String, &Check)> {
    let cells = result.cells.iter();
    let checks = cells.flat_map(|cell| {
        let name = format!("{} {}", cell.axis("subject"), cell.axis("workers"));
        let checks = cell.blocks.iter().flat_map(|block| &block.checks);
        checks.map(move |check| (name.clone(), check))
    });
    checks.collect()
}

#[test]
fn the_number_of_workers_is_that_of_the_axis() {
    let folder = Folder::new("workers");
    let mut only = Vec::new();
    for (subject, program) in [
        ("nginx", "nginx"),
        ("caddy", "caddy"),
        ("sluice*", "sluice"),
    ] {
        match is_there(program) {
            true => only.push(subject),
            false => skipped_part(format_args!("{program} is not installed")),
        }
    }
    if only.is_empty() {
        return;
    }
    let only = format!("subject={}; test=file; workers=1,4", only.join(","));
    let result = run("workers", &folder.file("out"), &["--only", &only]);
    let found = checks_of(&result);
    assert_eq!(found.len(), result.cells.len());
    for (name, check) in found {
        assert_eq!(check.holds, Some(true), "{name}: {check:?}");
        let workers = name.rsplit(' ').next().unwrap();
        assert!(
            check.claim.contains(&format!("== {workers}")),
            "{name}: {check:?}"
        );
    }
    for cell in &result.cells {
        let failed: u64 = cell.blocks.iter().map(|block| block.load.failed()).sum();
        assert_eq!(failed, 0, "{:?}", cell.axes);
    }
}

#[test]
fn another_number_of_workers_than_that_of_the_axis_is_seen() {
    let folder = Folder::new("workers-none");
    let file = folder.file("own.toml");
    // The lab's own server has one process whatever the axis says, and no metrics.
    let text = r#"
schema = "sluice.lab/1"
name = "workers-none"
title = "A server without workers"
[matrix]
clients = [4]
workers = [1, 2]
[test.plain]
path = "/"
expect = { status = 200 }
[subject.floor]
run = "{lab} serve null --listen 127.0.0.1:{port} --body {workers}"
[[check]]
processes = "== {workers}"
[[check]]
when = { workers = "2" }
threads = { name = "no-such-*", count = "== {workers}" }
metric = { url = "http://127.0.0.1:{port}/metrics", name = "workers", value = "== {workers}" }
"#;
    fs::write(&file, text).unwrap();
    let result = run(&file, &folder.file("out"), &[]);
    let found: Vec<_> = checks_of(&result)
        .into_iter()
        .map(|(name, check)| (name, check.claim.clone(), check.holds))
        .collect();
    let expected = [
        ("floor 1", "processes == 1", Some(true)),
        ("floor 2", "processes == 2", Some(false)),
        ("floor 2", "threads no-such-* == 2", Some(false)),
        ("floor 2", "workers == 2", None),
    ];
    let expected =
        expected.map(|(name, claim, holds)| (name.to_string(), claim.to_string(), holds));
    assert_eq!(found, expected);
    let bodies: Vec<u64> = result
        .cells
        .iter()
        .map(|cell| cell.blocks[0].load.response.as_ref().unwrap().body_bytes)
        .collect();
    assert_eq!(bodies, [1, 1]);
}

#[test]
fn a_setting_without_effect_makes_its_block_unusable() {
    let folder = Folder::new("axes-none");
    let file = folder.file("own.toml");
    let text = r#"
schema = "sluice.lab/1"
name = "none"
title = "Settings without effect"
[matrix]
test = ["plain", "other"]
config = ["base", "changed"]
cells = ["test=plain; config=base,changed"]
clients = [4]
[[file]]
path = "lines"
line = "route {n} of many"
count = 3
[test.plain]
path = "/"
expect = { status = 200, body = "route 1 of many\nroute 2 of many\nroute 3 of many\n" }
[test.other]
path = "/"
expect = { status = 200 }
[subject.floor]
run = "{lab} serve null --listen 127.0.0.1:{port} --body-file {dir}/lines"
[[check]]
when = { config = "changed" }
log_lines = { file = "{dir}/access.log", per_response = ">= 0.99" }
request = { path = "/elsewhere", status = 404 }
calls = { name = "sendfile", per_request = ">= 1" }
nodelay = "off"
tls = "TLSv1_3"
[[check]]
when = { config = "base" }
log_lines = { file = "{dir}/access.log", per_response = "== 0" }
request = { path = "/elsewhere", status = 200 }
calls = { name = "write|sendto|writev|sendmsg", per_request = ">= 1" }
nodelay = "on"
tls = "none"
"#;
    fs::write(&file, text).unwrap();
    let result = run(&file, &folder.file("out"), &[]);
    let found: Vec<_> = blocks(&result).collect();
    assert_eq!(found.len(), 2);
    let traced = is_there("strace");
    if !traced {
        skipped_part("strace is not installed");
    }
    for (name, block) in found {
        let is_base = name == "plain base";
        let holds = |check: &Check| match check.claim.contains("for each request") {
            true if !traced => check.holds.is_none(),
            _ => check.holds == Some(is_base),
        };
        assert_eq!(block.checks.len(), 5, "{name}");
        let as_expected = block.checks.iter().all(holds);
        assert!(as_expected, "{name}: {:?}", block.checks);
        let unusable = block.marks.iter().filter(|m| m.kind == MarkKind::Unusable);
        let expected = if is_base { 0 } else { 4 + usize::from(traced) };
        assert_eq!(unusable.count(), expected, "{:?}", block.marks);
    }
}

/// A server that computes for a moment when its response is sent, and then writes a byte to a file: like a server whose last
/// call has not returned when the client has the response, and one that logs after that.
const LATE_WRITER: &str = r#"
import os, socket, sys, time
log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    peer, _ = listener.accept()
    if not peer.recv(65536):
        continue
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    peer.close()
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        pass
    os.write(log, b"x")
"#;

#[test]
fn calls_that_follow_the_last_response_are_counted() {
    if !installed("python3") || !installed("strace") {
        return;
    }
    let folder = Folder::new("axes-late");
    let (file, program) = (folder.file("own.toml"), folder.file("late.py"));
    fs::write(&program, LATE_WRITER).unwrap();
    let text = format!(
        "schema = \"sluice.lab/1\"\nname = \"late\"\ntitle = \"Calls after the response\"\n[matrix]\nclients = [1]\n\
         [load]\nrequests_per_connection = 1\n[test.plain]\npath = \"/\"\nexpect = {{ status = 200, body = \"ok\" }}\n\
         [subject.late]\nrun = \"python3 {program} {{port}} {{dir}}/log\"\n[[check]]\n\
         calls = {{ name = \"write\", per_request = \"== 1\" }}\n"
    );
    fs::write(&file, text).unwrap();
    let result = run(&file, &folder.file("out"), &[]);
    let checks: Vec<_> = blocks(&result)
        .flat_map(|(_, block)| &block.checks)
        .collect();
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0].seen, "10 calls for 10 requests");
    assert_eq!(checks[0].holds, Some(true));
}

#[test]
fn mistakes_in_checks_and_files_are_reported() {
    let folder = Folder::new("axes-mistakes");
    let file = folder.file("own.toml");
    let with = |more: &str| {
        let text = format!(
            "schema = \"sluice.lab/1\"\nname = \"a\"\ntitle = \"A\"\n[matrix]\nclients = [1]\n[test.plain]\npath = \"/\"\n\
             expect = {{ status = 200 }}\n[subject.floor]\nrun = \"{{lab}} serve null --listen {{address}}:{{port}}\"\n{more}"
        );
        fs::write(&file, text).unwrap();
        let output = lab(&["run", &file, "--plan"]);
        assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
        output_text(&output)
    };
    for (more, said) in [
        (
            "[[check]]\nwhen = { config = \"fast\" }\nnodelay = \"on\"",
            "[[check]] `when` names the config `fast`, which there is not",
        ),
        (
            "[[check]]\nwhen = { subject = \"floor|flor\" }",
            "the subject `flor`, which there is not",
        ),
        (
            "[[check]]\nprocesses = \"== {workers}\"",
            "`== {workers}` uses {workers}, but [matrix] has no `workers`",
        ),
        (
            "[[check]]\nwhen = { workers = \"3\" }\nnodelay = \"on\"",
            "`when` names the workers `3`, which there is not",
        ),
        (
            "[[check]]\nwhen = { colour = \"red\" }",
            "the axis `colour`, which there is not",
        ),
        ("[[check]]\nnodelay = \"maybe\"", "unknown variant `maybe`"),
        (
            "[[check]]\ncalls = { name = \"send file\", per_request = \"> 1\" }",
            "`send file` is not the name of a system call",
        ),
        (
            "[[check]]\ncalls = { name = \"read\", per_request = \"many\" }",
            "`many` is not a comparison",
        ),
        (
            "[[check]]\nlog_lines = { file = \"a\", per_response = \"1\" }",
            "`1` is not a comparison",
        ),
        (
            "[[check]]\nrequest = { path = \"a\", status = 200 }",
            "the path `a` does not begin with `/`",
        ),
        (
            "[[file]]\npath = \"a\"\nline = \"x\"",
            "needs `bytes`, `from`, or `line` with a `count`",
        ),
        (
            "[[file]]\npath = \"a\"\nline = \"x\"\ncount = 5\nbytes = 7",
            "needs `bytes`, `from`, or `line` with a `count`",
        ),
    ] {
        let text = with(more);
        assert!(text.contains(said), "{said}: {text}");
    }
}
