//! What happens between the start of a server and its window, and between blocks: warm-up and rest.

use std::fs;
use std::process::{Child, Command};

use sluice_load::result::MarkKind;

use crate::world::{Backend, Folder, hit, lab, output_text, run};

/// One server.
const EXPERIMENT: &str = r#"
schema = "sluice.lab/1"
name = "pace"
title = "Warm-up and rest"
[matrix]
clients = [4]
[load]
duration = "200ms"
warmup = "300 requests"
[repeat]
blocks = 1
again = 0
[place]
pin = "none"
[test.page]
path = "/"
expect = { status = 200, body = "hello" }
[subject.plain]
run = "{lab} serve respond --listen 127.0.0.1:{port} --body hello"
"#;

#[test]
fn a_warmup_of_requests_is_recorded_as_it_took_place() {
    let folder = Folder::new("pace-warmup");
    let file = folder.file("pace.toml");
    fs::write(&file, EXPERIMENT).unwrap();
    let (text, result) = run(&file, &folder.file("out"), &[]);
    let load = &result.cells[0].blocks[0].load;
    assert!(load.warmup_ok.unwrap() >= 300, "{text}");
    assert_eq!(load.asked.warmup_requests, Some(300));
    assert!(load.asked.warmup_s < 60.0 && load.ended_ok > 0, "{text}");
    // More than this server can send in a second: the time ends it, and the block says so.
    let words = ["--warmup", "1000000000 requests within 1s"];
    let (text, result) = run(&file, &folder.file("bounded"), &words);
    let block = &result.cells[0].blocks[0];
    assert!((block.load.asked.warmup_s - 1.0).abs() < 0.5, "{text}");
    let marks = &mut block.marks.iter();
    let cold = marks.find(|mark| mark.text.contains("the warm-up ended after"));
    assert_eq!(
        cold.map(|mark| mark.kind),
        Some(MarkKind::Unsteady),
        "{text}"
    );
    let changes = &result.experiment.as_ref().unwrap().changes;
    assert_eq!(changes[..], ["--warmup 1,000,000,000 requests within 1 s"]);
    let output = lab(&["run", &file, "--agent", "local", "--plan"]);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("agents warm up for a time"), "{text}");
}

#[test]
fn one_target_is_warmed_up_by_requests_as_well() {
    let folder = Folder::new("pace-hit");
    let backend = Backend::start(&["respond"]);
    let words = ["-d", "200ms", "-c", "4", "--warmup", "250 requests"];
    let (text, result) = hit(&folder, &backend.url("/"), &words);
    let load = &result.cells[0].blocks[0].load;
    assert!(load.warmup_ok.unwrap() >= 250, "{text}");
    assert!(text.contains("; 250 requests were to end it)"), "{text}");
    for (words, said) in [
        (["--warmup", "0 requests"], "is not a warm-up"),
        (["--warmup", "soon"], "unknown unit"),
    ] {
        let url = backend.url("/");
        let output = lab(&[&["hit", &url], &words[..]].concat());
        let text = output_text(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(said), "{said}: {text}");
    }
    let words = ["--warmup", "9 requests", "--engine", "wrk"];
    let output = lab(&[&["hit", &backend.url("/")], &words[..]].concat());
    let text = output_text(&output);
    assert!(text.contains("--engine warms up for a time"), "{text}");
}

/// A program that keeps a CPU busy.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_busy_machine_delays_a_block_for_a_time_and_is_recorded() {
    let folder = Folder::new("pace-rest");
    let file = folder.file("pace.toml");
    let text = EXPERIMENT.replace("300 requests", "0s");
    fs::write(&file, &text).unwrap();
    let (text_of_run, result) = run(&file, &folder.file("none"), &[]);
    assert_eq!(result.cells[0].blocks[0].rest, None, "{text_of_run}");
    let mut command = Command::new("sh");
    let busy = Busy(command.args(["-c", "while :; do :; done"]).spawn().unwrap());
    let waits = "[load]\nrest = { memory = \"20ms\", idle = \"600ms\" }";
    fs::write(&file, text.replace("[load]", waits)).unwrap();
    let out = folder.file("busy");
    let (text_of_run, result) = run(&file, &out, &[]);
    let block = &result.cells[0].blocks[0];
    let rest = block.rest.unwrap();
    assert_eq!(rest.idle, Some(false), "{text_of_run}");
    assert!(
        rest.waited_s >= 0.6 && rest.busy.unwrap() > 0.05,
        "{rest:?}"
    );
    let memory = block.resources.as_ref().unwrap().subject.rss_after_bytes;
    assert!(memory.is_some());
    let shown = output_text(&lab(&["show", &out]));
    assert!(
        shown.contains("The machine did not become idle before 1 of 1 blocks"),
        "{shown}"
    );
    // The command line sets it as well.
    let (text_of_run, result) = run(&file, &folder.file("flag"), &["--rest", "1s"]);
    let rest = result.cells[0].blocks[0].rest.unwrap();
    assert!(
        rest.idle == Some(false) && rest.waited_s >= 1.0,
        "{text_of_run}"
    );
    drop(busy);
}
