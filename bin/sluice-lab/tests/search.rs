//! `find-limit` and `break` on the cells of an experiment.

use std::fs;
use std::process::{Command, Stdio};

use sluice_load::result::{CellState, RunResult};

use crate::agents::{Agent, TOKEN, served, token_file};
use crate::wait::eventually;
use crate::world::{Backend, Folder, LAB, lab, output_text};

/// Two servers that take 5 ms for a response, and one that is not installed.
pub const EXPERIMENT: &str = r#"
schema = "sluice.lab/1"
name = "limits"
title = "Limits of two servers"
[matrix]
clients = [2]
[load]
duration = "300ms"
[place]
pin = "none"
[test.page]
path = "/"
expect = { status = 200, body = "hello" }
[subject.fast]
run = "{lab} serve respond --listen 127.0.0.1:{port} --body hello --delay 5ms"
[subject.slow]
run = "{lab} serve respond --listen 127.0.0.1:{port} --body hello --delay 20ms"
[subject.absent]
run = "no-such-program-of-the-lab"
"#;

fn read(path: &str) -> RunResult {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn experiment(folder: &Folder) -> String {
    let file = folder.file("limits.toml");
    fs::write(&file, EXPERIMENT).unwrap();
    file
}

#[test]
fn the_limit_of_each_server_of_an_experiment_is_found() {
    let folder = Folder::new("limits");
    let (file, json) = (experiment(&folder), folder.file("limits.json"));
    let slo = ["--slo", "p99<5s,errors<50%", "--step", "300ms"];
    let output = lab(&[&["find-limit", &file, "--json", &json], &slo[..]].concat());
    let text = output_text(&output);
    let result = read(&json);
    let of = |subject: &str| {
        let cells = result.cells.iter();
        let cells: Vec<_> = cells
            .filter(|cell| cell.axis("subject") == subject)
            .collect();
        cells
    };
    assert!(matches!(of("absent")[0].state, CellState::NotInstalled(_)));
    for (subject, most) in [("fast", 480.0), ("slow", 120.0)] {
        let cells = of(subject);
        assert!(cells.len() >= 5, "{subject}: {text}");
        for cell in cells {
            let rate: f64 = cell.axis("rate").parse().unwrap();
            // Two connections, and the delay of each response.
            assert!(rate <= most, "{subject} at {rate}/s: {text}");
            let resources = cell.blocks[0].resources.as_ref().unwrap();
            assert!(resources.subject.rss_peak_bytes > 0, "{subject}");
        }
        let about = format!("2 {subject} page: ");
        let note = result.notes.iter().find(|note| note.starts_with(&about));
        let note = note.unwrap_or_else(|| panic!("{:?}", result.notes));
        assert!(text.contains(note.as_str()), "{text}");
    }
    assert_eq!(result.name, "limits");
    assert!(result.experiment.is_some() && result.subjects.len() == 3);
    // A report draws it like the search on a URL.
    let out = folder.file("out");
    let report = lab(&["report", &json, "--out", &out]);
    assert!(report.status.success(), "{}", output_text(&report));
    // Whatever this machine reaches, the exit code agrees with the notes.
    let found = result
        .notes
        .iter()
        .filter(|note| note.contains(": limit: "));
    assert_eq!(output.status.success(), found.count() == 2, "{text}");
}

#[test]
fn the_overload_of_one_cell_has_a_curve() {
    let folder = Folder::new("overloads");
    let (file, json) = (experiment(&folder), folder.file("break.json"));
    let only = ["--only", "subject=fast", "--step", "200ms", "--json", &json];
    let output = lab(&[&["break", &file], &only[..]].concat());
    let text = output_text(&output);
    let result = read(&json);
    assert_eq!(result.cells.len(), 8, "{text}");
    assert!(text.contains("1 cells to search"), "{text}");
    assert!(
        result
            .cells
            .iter()
            .all(|cell| cell.axis("subject") == "fast")
    );
    assert!(result.notes[0].contains("recover"), "{:?}", result.notes);
}

/// An upstream of known capacity, here the subject itself: five requests at a time, each for 20 ms.
pub const KNOWN: &str = r#"
schema = "sluice.lab/1"
name = "known"
title = "An upstream of known capacity"
[matrix]
clients = [500]
[overload]
capacity = 250
multiples = [2]
target_latency = "100ms"
herd = 60
[place]
pin = "none"
[test.page]
path = "/"
expect = { status = 200, body = "hello" }
[subject.slots]
run = "{lab} serve respond --listen 127.0.0.1:{port} --body hello --delay 20ms --concurrency 5"
"#;

#[test]
fn a_known_capacity_is_exceeded() {
    let folder = Folder::new("known");
    let (file, json) = (folder.file("known.toml"), folder.file("known.json"));
    fs::write(&file, KNOWN).unwrap();
    let output = lab(&["break", &file, "--step", "500ms", "--json", &json]);
    let text = output_text(&output);
    let result = read(&json);
    let [seen] = &result.overload[..] else {
        panic!("one server: {text}");
    };
    let names: Vec<&str> = seen.steps.iter().map(|step| step.load.as_str()).collect();
    assert_eq!(names, ["2 x", "60 clients"], "{text}");
    // A request takes 20 ms at least, so the bound follows from that and from the target.
    assert!(seen.unloaded_p99_ns >= 20e6 && seen.p99_max_ns >= 140e6);
    let herd = &seen.steps[1];
    let counts = [herd.ok, herd.refused, herd.late, herd.broken];
    assert_eq!(counts.iter().sum::<u64>(), 60, "{counts:?}");
    assert!(seen.steps[0].goodput.is_some_and(|share| share > 0.0));
    let loads: Vec<&str> = result.cells.iter().map(|cell| cell.axis("load")).collect();
    assert!(loads.starts_with(&["unloaded", "2 x"]), "{loads:?}");
    // The report has the table.
    let out = folder.file("out");
    let report = lab(&["report", &json, "--out", &out]);
    assert!(report.status.success(), "{}", output_text(&report));
    let page = fs::read_to_string(folder.file("out/report.md")).unwrap();
    assert!(
        page.contains("Overload of an upstream that can serve 250/s"),
        "{page}"
    );
    // Mistakes are found before anything is started.
    let output = lab(&["break", &file, "--agent", "local"]);
    assert_eq!(output.status.code(), Some(2));
    let said =
        "agents do not generate loads whose rate changes, as `break` needs them for [overload]";
    assert!(output_text(&output).contains(said));
    let wrong = KNOWN.replace("multiples = [2]", "multiples = [0.5]");
    fs::write(&file, wrong).unwrap();
    let output = lab(&["break", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output_text(&output).contains("[overload] `multiples` must be above 1"));
}

#[test]
fn agents_generate_the_load_of_a_search() {
    let folder = Folder::new("limits-agents");
    let (file, json) = (experiment(&folder), folder.file("limits.json"));
    let token = token_file(&folder, TOKEN);
    let agent = Agent::start(&token);
    let by = ["--agent", "local", "--token-file", &token];
    let by = [&by[..], &["--agent", &agent.address]].concat();
    let of_file = ["find-limit", &file, "--only", "subject=fast", "--slo"];
    let of_file = [&of_file[..], &["p99<5s,errors<50%", "--step", "200ms"]].concat();
    let backend = Backend::start(&["respond", "--body", "hello", "--delay", "5ms"]);
    let url = backend.url("/");
    let of_url = ["break", &url, "-c", "2", "--step", "200ms"];
    for words in [&of_file[..], &of_url] {
        let output = lab(&[words, &["--json", &json], &by].concat());
        let text = output_text(&output);
        let result = read(&json);
        assert!(result.cells.len() >= 5, "{text}");
        for block in result.cells.iter().flat_map(|cell| &cell.blocks) {
            let load = &block.load;
            let names: Vec<&str> = load.machines.iter().map(|m| m.name.as_str()).collect();
            assert_eq!(names, ["local", agent.address.as_str()], "{text}");
            let ok: u64 = load.machines.iter().map(|machine| machine.ok).sum();
            let connections: usize = load.machines.iter().map(|m| m.connections).sum();
            assert_eq!((load.ok, load.asked.connections), (ok, connections));
            let rates: f64 = load.machines.iter().filter_map(|m| m.rate).sum();
            let due = load.due.unwrap() as f64 / load.window_s;
            assert!((rates - due).abs() <= rates * 0.1 + 10.0, "{rates} {due}");
            let resources = block.resources.as_ref().unwrap();
            assert!(resources.subject.rss_peak_bytes > 0, "{text}");
        }
        // The report says which machine did what.
        let out = folder.file("out");
        let report = lab(&["report", &json, "--out", &out]);
        assert!(report.status.success(), "{}", output_text(&report));
        let page = fs::read_to_string(format!("{out}/report.html")).unwrap();
        assert!(page.contains(&agent.address) && page.contains("clock ahead"));
    }
}

#[test]
fn a_lost_agent_ends_the_search_of_one_cell_and_the_next_is_searched() {
    let folder = Folder::new("limits-lost");
    let (file, json) = (folder.file("limits.toml"), folder.file("limits.json"));
    let counts = folder.file("counts");
    let text = EXPERIMENT.replace("--delay 5ms", &format!("--delay 5ms --counts {counts}"));
    fs::write(&file, text).unwrap();
    let token = token_file(&folder, TOKEN);
    let agent = Agent::start(&token);
    let address = agent.address.clone();
    let mut command = Command::new(LAB);
    command.args(["find-limit", &file, "--json", &json, "--step", "1s"]);
    command.args(["--agent", &address, "--token-file", &token]);
    let searching = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let searching = searching.stderr(Stdio::piped()).spawn().unwrap();
    let is_loaded = || served(&counts) > Some(100);
    eventually("a load", is_loaded, String::new);
    drop(agent);
    let _again = Agent::start_at(&token, &address);
    let output = searching.wait_with_output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lost = format!("2 fast page: agent {address} was lost");
    let result = read(&json);
    let notes = &result.notes;
    assert!(notes.iter().any(|note| note.starts_with(&lost)), "{text}");
    let slow = result.cells.iter();
    let slow = slow.filter(|cell| cell.axis("subject") == "slow");
    assert!(slow.count() >= 5, "{text}");
}

#[test]
fn options_that_the_file_or_the_url_does_not_have_are_named() {
    let folder = Folder::new("search-mistakes");
    let file = experiment(&folder);
    let backend = Backend::start(&["respond"]);
    let url = backend.url("/");
    for (words, part) in [
        (vec!["find-limit", &file, "--h2"], "--h2 applies to a URL"),
        (
            vec!["break", &file, "--timeout", "1s"],
            "--timeout applies to a URL",
        ),
        (
            vec!["break", &url, "--only", "subject=a"],
            "--only needs an experiment instead of a URL",
        ),
        (
            vec!["find-limit", &file, "--only", "subjct=a"],
            "no axis `subjct`",
        ),
        (
            vec!["find-limit", "absent.toml"],
            "absent.toml: No such file",
        ),
        (
            vec!["break", &file, "--only", "subject=absent"],
            "none of the cells can be searched here",
        ),
    ] {
        let output = lab(&words);
        let text = output_text(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = lab(&["find-limit", &file, "--plan"]);
    let text = output_text(&output);
    assert!(
        output.status.success() && text.contains("2 cells to search, about "),
        "{text}"
    );
}
