//! Rates that are shares of the highest one.

use std::fs;

use sluice_load::result::{Cell, CellState, Mode, RateLimit, RunResult};

use crate::world::{Folder, lab, output_text, run};

/// Two servers of different speed, and one that is not installed.
const EXPERIMENT: &str = r#"
schema = "sluice.lab/1"
name = "shares"
title = "Shares of the limit"
[matrix]
test = ["own", "other"]
clients = [2]
[load]
duration = "300ms"
warmup = "0s"
limit = { objective = "p99<5s,errors<50%", step = "300ms" }
[repeat]
blocks = 1
again = 0
[place]
pin = "none"
[test.own]
path = "/"
rate = "50 % of limit"
expect = { status = 200, body = "hello" }
[test.other]
path = "/"
rate = "200 % of limit of slow"
expect = { status = 200, body = "hello" }
[subject.fast]
run = "{lab} serve respond --listen 127.0.0.1:{port} --body hello --delay 5ms"
[subject.slow]
run = "{lab} serve respond --listen 127.0.0.1:{port} --body hello --delay 20ms"
[subject.absent]
run = "no-such-program-of-the-lab"
"#;

fn limit<'a>(result: &'a RunResult, subject: &str, test: &str) -> Option<&'a RateLimit> {
    let mut limits = result.limits.iter();
    limits.find(|limit| limit.axes["subject"] == subject && limit.axes["test"] == test)
}

fn cell<'a>(result: &'a RunResult, subject: &str, test: &str) -> &'a Cell {
    let mut cells = result.cells.iter();
    let found = cells.find(|cell| cell.axis("subject") == subject && cell.axis("test") == test);
    found.unwrap()
}

fn rate(cell: &Cell) -> f64 {
    match cell.blocks[0].load.asked.mode {
        Mode::Open { rate, .. } => rate,
        Mode::Closed => panic!("a closed loop"),
    }
}

#[test]
fn rates_are_shares_of_limits_that_a_continued_run_keeps() {
    let folder = Folder::new("shares");
    let (file, out) = (folder.file("shares.toml"), folder.file("out"));
    fs::write(&file, EXPERIMENT).unwrap();
    let plan = output_text(&lab(&["run", &file, "--plan"]));
    // The one that is not installed is found to be so when its limit is wanted.
    assert!(
        plan.contains("before them 4 limits are searched for"),
        "{plan}"
    );
    let (text, result) = run(&file, &out, &[]);
    // The subject without a program has no limit; the other limit serves two cells.
    assert_eq!(result.limits.len(), 3, "{text}");
    for (subject, test, of, share) in [
        ("fast", "own", "fast", 0.5),
        ("slow", "own", "slow", 0.5),
        ("fast", "other", "slow", 2.0),
        ("slow", "other", "slow", 2.0),
    ] {
        let limit = limit(&result, of, test).unwrap_or_else(|| panic!("{of} {test}: {text}"));
        let cell = cell(&result, subject, test);
        let difference = rate(cell) - limit.per_s * share;
        assert!(difference.abs() <= 0.051, "{subject} {test}: {limit:?}");
        assert!(
            limit
                .tried
                .iter()
                .any(|one| one.broken.is_none() && one.per_s == limit.per_s)
        );
        assert!(limit.closed_per_s > 0.0);
    }
    // Two connections, and 20 ms for each response.
    assert!(limit(&result, "slow", "own").unwrap().per_s <= 120.0);
    assert_eq!(cell(&result, "fast", "own").axis("rate"), "50 % of limit");
    let absent = cell(&result, "absent", "own");
    assert!(matches!(absent.state, CellState::NotInstalled(_)));
    let shown = output_text(&lab(&["show", &out]));
    assert!(
        shown.contains("Limit of clients 2, subject fast, test own: "),
        "{shown}"
    );
    assert!(shown.contains("50 % of limit: "), "{shown}");
    // Without its blocks, as after an interruption.
    let mut cut = result.clone();
    cut.cells.iter_mut().for_each(|cell| cell.blocks.clear());
    fs::write(
        format!("{out}/result.json"),
        serde_json::to_vec(&cut).unwrap(),
    )
    .unwrap();
    let (text, again) = run(&file, &out, &["--resume"]);
    assert!(!text.contains("closed loop: "), "{text}");
    assert_eq!(again.limits, result.limits);
    assert_eq!(
        rate(cell(&again, "fast", "own")),
        rate(cell(&result, "fast", "own"))
    );
    // Another objective is another limit.
    fs::write(&file, EXPERIMENT.replace("p99<5s", "p99<6s")).unwrap();
    let only = ["--resume", "--only", "subject=slow; test=own"];
    let (text, changed) = run(&file, &out, &only);
    assert!(text.contains("closed loop: "), "{text}");
    let objectives = changed.limits.iter().map(|limit| limit.objective.as_str());
    assert!(
        objectives
            .collect::<Vec<_>>()
            .contains(&"p99<6s,errors<50%")
    );
}

#[test]
fn a_share_of_a_limit_that_no_rate_meets_has_no_figures() {
    let folder = Folder::new("shares-none");
    let (file, out) = (folder.file("shares.toml"), folder.file("out"));
    fs::write(&file, EXPERIMENT.replace("p99<5s", "p99<1ms")).unwrap();
    let (text, result) = run(&file, &out, &["--only", "subject=slow; test=own"]);
    assert!(result.limits.is_empty(), "{text}");
    let CellState::Skipped(reason) = &cell(&result, "slow", "own").state else {
        panic!("{text}");
    };
    let said =
        "its rate is a share of a limit, and no rate meets the objective (p99<1ms,errors<50%)";
    assert_eq!(reason, said);
}

#[test]
fn mistakes_in_shares_are_reported() {
    let folder = Folder::new("shares-mistakes");
    let file = folder.file("shares.toml");
    for (from, to, said) in [
        ("50 % of limit", "half", "`half` is not a rate"),
        ("limit of slow", "limit of slw", "there is no [subject.slw]"),
        (
            "[test.own]",
            "[test.own]\ntalk = \"events\"",
            "[test.own] cannot have a rate as a share of the limit: the server, not the clients, sets the rate of events",
        ),
        (
            "pin = \"none\"",
            "pin = \"none\"\nagents = [\"local\"]",
            "would be those of this machine's load generator",
        ),
        ("p99<5s", "p99", "invalid objective `p99`"),
    ] {
        fs::write(&file, EXPERIMENT.replace(from, to)).unwrap();
        let output = lab(&["run", &file, "--plan"]);
        let text = output_text(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(said), "{said}: {text}");
    }
}
