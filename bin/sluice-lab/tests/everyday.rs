//! `hit` in everyday use: interrupted, repeated, with conditions, against a second target; and a run that is interrupted
//! and continued.

use std::fs;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use sluice_load::result::{CellState, RunResult};

use crate::wait::eventually;
use crate::world::{Backend, Folder, LAB, installed, lab, output_text};

fn read(path: &str) -> RunResult {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn start(words: &[&str]) -> Child {
    let mut command = Command::new(LAB);
    command.args(words).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Presses Ctrl-C.
fn interrupt(child: Child) -> Output {
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn an_interrupted_hit_prints_and_writes_what_it_has() {
    let folder = Folder::new("interrupted");
    let counts = folder.file("counts");
    let backend = Backend::start(&["respond", "--counts", &counts]);
    let json = folder.file("hit.json");
    // Of a load of a number of requests all count, so there are figures as soon as the server has any.
    let many = "1000000000";
    let child = start(&["hit", &backend.url("/"), "-n", many, "--json", &json]);
    let served = || {
        let text = fs::read_to_string(&counts).unwrap_or_default();
        let numbers = text.split(|c: char| !c.is_ascii_digit());
        numbers.filter_map(|word| word.parse::<u64>().ok()).max()
    };
    eventually("requests", || served() > Some(1_000), String::new);
    let output = interrupt(child);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    let said = "interrupted: these are the figures until then, of 1,000,000,000 requests";
    assert!(text.contains(said) && text.contains("successful"), "{text}");
    assert!(text.contains("without warm-up"), "{text}");
    let result = read(&json);
    let load = &result.cells[0].blocks[0].load;
    assert!(load.interrupted && load.ok > 0 && load.failed() == 0);
    assert!(
        result.notes[0].contains("interrupted"),
        "{:?}",
        result.notes
    );
}

const EXPERIMENT: &str = r#"
schema = "sluice.lab/1"
name = "short"
title = "Two blocks, and one that is interrupted"
[matrix]
clients = [2]
[load]
duration = "200ms"
warmup = "10ms"
[repeat]
blocks = 3
again = 0
[place]
pin = "none"
[test.direct]
path = "/"
expect = { status = 200, body = "hello" }
[subject.floor]
run = "{lab} serve null --listen 127.0.0.1:{port} --body hello"
"#;

#[test]
fn an_interrupted_run_says_how_to_continue_it_and_continues() {
    let folder = Folder::new("resumed");
    let (file, out) = (folder.file("short.toml"), folder.file("out"));
    fs::write(&file, EXPERIMENT).unwrap();
    let json = format!("{out}/result.json");
    let words = ["run", &file, "--out", &out];
    let child = start(&words);
    eventually(
        "the first block",
        || fs::exists(&json).unwrap(),
        String::new,
    );
    let output = interrupt(child);
    let text = output_text(&output);
    let blocks = |json: &str| read(json).cells[0].blocks.len();
    match output.status.code() {
        Some(130) => {
            assert!(text.contains("Continue with:"), "{text}");
            assert!(
                text.contains(&format!("run {file} --out {out} --resume")),
                "{text}"
            );
            assert!((1..3).contains(&blocks(&json)), "{text}");
        }
        // The machine was so slow, or this test, that all three were done.
        code => assert_eq!((code, blocks(&json)), (Some(0), 3), "{text}"),
    }
    let output = lab(&[&words[..], &["--resume"]].concat());
    assert!(output.status.success(), "{}", output_text(&output));
    assert_eq!(blocks(&json), 3);
}

/// Short windows: what is tested does not depend on figures.
const SHORT: [&str; 6] = ["-c", "2", "-d", "200ms", "--warmup", "0ms"];

#[test]
fn repeated_blocks_are_summed_up_and_conditions_end_with_1() {
    let folder = Folder::new("repeats");
    let backend = Backend::start(&["respond", "--delay", "5ms"]);
    let (url, json) = (backend.url("/"), folder.file("hit.json"));
    let hit = |more: &[&str]| {
        let words = [
            &["hit", &url, "--repeats", "5", "--json", &json],
            &SHORT[..],
            more,
        ]
        .concat();
        let output = lab(&words);
        (output.status.code(), output_text(&output))
    };
    let (code, text) = hit(&["--fail", "median<1ms", "--fail", "errors>0%"]);
    assert_eq!(code, Some(0), "{text}");
    for said in [
        "[5/5] ",
        ", 5 blocks",
        "95 % interval",
        "0 of ",
        "latency, all blocks",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let result = read(&json);
    assert_eq!((result.cells.len(), result.cells[0].blocks.len()), (1, 5));
    // The server runs here, so its costs are known.
    assert!(result.cells[0].blocks[0].resources.is_some());
    let (code, text) = hit(&["--fail", "median>1ms"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("median is 5.") && text.contains("above 1.00 ms"),
        "{text}"
    );
    // A few hundred responses cannot show one in ten thousand.
    let (code, text) = hit(&["--fail", "p99.99>1s"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--fail cannot be decided"), "{text}");
}

#[test]
fn two_targets_are_compared_block_by_block() {
    let folder = Folder::new("two-targets");
    let fast = Backend::start(&["respond", "--delay", "2ms"]);
    let slow = Backend::start(&["respond", "--delay", "20ms"]);
    let (one, two, json) = (fast.url("/"), slow.url("/"), folder.file("hit.json"));
    let output = lab(&[&["hit", &one, &two, "--json", &json], &SHORT[..]].concat());
    let text = output_text(&output);
    assert!(output.status.success(), "{text}");
    let order: Vec<bool> = text
        .lines()
        .filter(|line| line.starts_with('['))
        .map(|line| line.contains(&one))
        .collect();
    let expected = [
        true, false, false, true, true, false, false, true, true, false,
    ];
    assert_eq!(order, expected, "{text}");
    let (_, compared) = text.split_once("second against first").unwrap();
    assert!(
        compared.contains("rps") && compared.contains("slower"),
        "{text}"
    );
    // The result is one that the other commands read.
    let output = lab(&["compare", &json, "--subjects", &format!("{one},{two}")]);
    assert!(
        output_text(&output).contains("slower"),
        "{}",
        output_text(&output)
    );
    let report = lab(&["report", &json, "--html", "--out", &folder.file("out")]);
    assert!(report.status.success(), "{}", output_text(&report));
    let same = lab(&["hit", &one, &one]);
    assert_eq!(same.status.code(), Some(2));
}

/// An experiment meets its own tool: the cells of both generators are in one result.
#[test]
fn an_experiment_is_measured_by_another_generator_as_well() {
    if !installed("wrk") {
        return;
    }
    let folder = Folder::new("engine");
    let (file, out) = (folder.file("short.toml"), folder.file("out"));
    let text = EXPERIMENT.replace("blocks = 3", "blocks = 1");
    let upload = "[test.upload]\npath = \"/\"\nmethod = \"POST\"\nbody_bytes = 10\nexpect = { status = 200 }\n";
    fs::write(&file, format!("{text}{upload}")).unwrap();
    let output = lab(&["run", &file, "--out", &out, "--engine", "wrk"]);
    let text = output_text(&output);
    assert!(output.status.success(), "{text}");
    let result = read(&format!("{out}/result.json"));
    let cell = |engine: &str, test: &str| {
        let mut cells = result.cells.iter();
        let wanted =
            |axis, value| move |cell: &&sluice_load::result::Cell| cell.axis(axis) == value;
        let (engine, test) = (wanted("engine", engine), wanted("test", test));
        cells.find(|cell| engine(cell) && test(cell)).unwrap()
    };
    let block = |engine| &cell(engine, "direct").blocks[0];
    assert_eq!(block("native").load.engine.name, "native");
    let wrk = block("wrk");
    assert!(wrk.load.engine.name == "wrk" && wrk.load.ok > 0, "{text}");
    // The server's costs are measured with either.
    assert!(wrk.cpu_us_per_ok().is_some() && block("native").cpu_us_per_ok().is_some());
    assert!(
        wrk.load
            .engine
            .not_measured
            .iter()
            .any(|field| field == "connections")
    );
    // What it does not support is skipped with the reason.
    let CellState::Skipped(reason) = &cell("wrk", "upload").state else {
        panic!("{text}");
    };
    assert!(
        reason.contains("wrk cannot send a request body"),
        "{reason}"
    );
    assert_eq!(cell("native", "upload").state, CellState::Measured);
    let report = lab(&["report", &out, "--md"]);
    let text = output_text(&report);
    assert!(report.status.success(), "{text}");
    let page = fs::read_to_string(format!("{out}/report.md")).unwrap();
    assert!(
        page.contains("engine-wrk") && page.contains("engine-native"),
        "{page}"
    );
}

#[test]
fn results_are_merged_shown_and_exported() {
    let folder = Folder::new("merged");
    let file = folder.file("short.toml");
    fs::write(&file, EXPERIMENT.replace("blocks = 3", "blocks = 1")).unwrap();
    let (one, two) = (folder.file("one"), folder.file("two"));
    for out in [&one, &two] {
        let output = lab(&["run", &file, "--out", out]);
        assert!(output.status.success(), "{}", output_text(&output));
    }
    let merged = folder.file("merged.json");
    let words = ["merge", &one, &two, "--out", &merged];
    let output = lab(&words);
    assert!(output.status.success(), "{}", output_text(&output));
    let numbers = |path: &str| -> Vec<usize> {
        let blocks = &read(path).cells[0].blocks;
        blocks.iter().map(|block| block.number).collect()
    };
    assert_eq!(numbers(&merged), [0, 1]);
    // Nothing is overwritten.
    assert_eq!(lab(&words).status.code(), Some(2));
    let shown = output_text(&lab(&["show", &merged]));
    assert!(shown.contains("| floor-direct |"), "{shown}");
    for (format, begin, lines) in [
        ("csv", "cell,block,state", 3),
        ("hlog", "#[Histogram log format version 1.3]", 6),
        ("prometheus", "# HELP sluice_lab_responses_per_second", 20),
    ] {
        let text = output_text(&lab(&["export", &merged, "--format", format]));
        assert!(text.starts_with(begin), "{text}");
        assert!(text.lines().count() >= lines, "{text}");
        let path = folder.file(format);
        lab(&["export", &merged, "--format", format, "--out", &path]);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn the_output_of_another_program_becomes_a_result() {
    let folder = Folder::new("import");
    let (one, two) = (folder.file("nginx.md"), folder.file("caddy.md"));
    let row = "| test | requests/s | avg (ms) |\n| --- | --- | --- |";
    let table = |rate: u32| format!("{row}\n| a | {rate} | 5 |\n");
    fs::write(&one, table(1000)).unwrap();
    fs::write(&two, table(2000)).unwrap();
    let json = folder.file("result.json");
    let words = [
        "import",
        &one,
        &two,
        "--seconds",
        "10",
        "--clients",
        "5",
        "--out",
        &json,
    ];
    let output = lab(&words);
    assert!(output.status.success(), "{}", output_text(&output));
    let shown = output_text(&lab(&["show", &json]));
    assert!(
        shown.contains("| nginx-a | 1,000 |") && shown.contains("| caddy-a | 2,000 |"),
        "{shown}"
    );
    // Nothing is overwritten, and a missing window is named.
    assert_eq!(lab(&words).status.code(), Some(2));
    let output = lab(&["import", &one, "--out", &folder.file("other.json")]);
    assert!(
        output_text(&output).contains("--seconds"),
        "{}",
        output_text(&output)
    );
}

#[test]
fn a_list_of_urls_is_one_load_with_figures_for_each() {
    let folder = Folder::new("urls");
    let backend = Backend::start(&["respond"]);
    let (list, json) = (folder.file("urls.txt"), folder.file("hit.json"));
    fs::write(&list, "# of a shop\n3 /products\nHEAD /cart\n").unwrap();
    let url = backend.url("/");
    let hit = |more: &[&str]| {
        let words = [
            &["hit", &url, "--urls", &list, "-n", "400", "-c", "2"][..],
            more,
        ]
        .concat();
        let output = lab(&words);
        (output.status.code(), output_text(&output))
    };
    let (code, text) = hit(&["--json", &json]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("GET /products (weight 3): 300 successful, 0 failed"),
        "{text}"
    );
    assert!(
        text.contains("HEAD /cart (weight 1): 100 successful, 0 failed"),
        "{text}"
    );
    let parts = &read(&json).cells[0].blocks[0].load.parts;
    let counts: Vec<u64> = parts.iter().map(|part| part.latency.count).collect();
    assert_eq!(counts, [300, 100]);
    let report = lab(&["report", &json, "--html", "--out", &folder.file("out")]);
    assert!(report.status.success(), "{}", output_text(&report));
    let page = fs::read_to_string(folder.file("out/report.html")).unwrap();
    assert!(page.contains("<td>GET /products"), "a table of its own");
    fs::write(&list, "products\n").unwrap();
    let (code, text) = hit(&[]);
    assert!(
        code == Some(2) && text.contains("line 1: `products` is not a request"),
        "{text}"
    );
}
