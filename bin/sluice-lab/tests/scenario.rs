//! `hit --scenario`, and scenarios as the load of an experiment.

use std::fs;

use sluice_load::result::{Mode, RunResult};

use crate::world::{Backend, Folder, hit, lab, output_text};

const SHOP: &str = r#"
schema = "sluice.scenario/1"
name = "shop"
[vars.user]
counter = [1, 9]
[[phase]]
name = "ramp"
duration = "200ms"
clients = [0, 4]
[[phase]]
name = "steady"
duration = "200ms"
clients = 4
[[session]]
name = "visit"
[[session.step]]
name = "start"
path = "/?user=${user}"
think = "5ms"
expect = { body = "hello" }
[[session.step]]
name = "order"
path = "/order"
headers = { Content-Type = "application/json" }
body = '{"user": ${user}}'
"#;

fn scenario(folder: &Folder, text: &str) -> String {
    let file = folder.file("shop.toml");
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn a_scenario_has_figures_for_each_step_phase_and_session() {
    let folder = Folder::new("scenario");
    let backend = Backend::start(&["respond", "--body", "hello"]);
    let file = scenario(&folder, SHOP);
    let (text, result) = hit(&folder, &backend.url("/"), &["--scenario", &file]);
    let load = &result.cells[0].blocks[0].load;
    assert_eq!(load.failed(), 0, "{text}");
    assert_eq!(load.asked.scenario.as_deref(), Some("shop"));
    assert_eq!((load.asked.mode, load.asked.connections), (Mode::Closed, 4));
    assert_eq!((load.parts.len(), load.phases.len()), (2, 2));
    let phases: u64 = load.phases.iter().map(|phase| phase.ok).sum();
    assert_eq!(phases, load.ok);
    assert!(load.sessions[0].completed > 0);
    for said in [
        "scenario `shop`",
        "visit: start (weight 1): ",
        "phase ramp (0.2 s, 0 to 4 clients): ",
        "phase steady (0.2 s, 4 clients): ",
        "session visit (weight 1): ",
        "0 failed",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    // The arithmetic of a load that changes is not that of a constant one.
    let json = folder.file("hit.json");
    let audit = lab(&["audit", &json]);
    let audit = output_text(&audit);
    assert!(!audit.contains("Little"), "{audit}");
    let report = lab(&["report", &json, "--out", &folder.file("out")]);
    assert!(report.status.success(), "{}", output_text(&report));
    let page = fs::read_to_string(folder.file("out/report.html")).unwrap();
    for said in ["sessions/s", "steady", "visit", "unfinished"] {
        assert!(page.contains(said) == (said != "sessions/s"), "{said}");
    }
}

#[test]
fn a_rate_of_sessions_is_an_open_loop_and_can_be_repeated() {
    let folder = Folder::new("scenario-open");
    let backend = Backend::start(&["respond", "--body", "hello"]);
    let file = scenario(
        &folder,
        &SHOP
            .replace("clients = [0, 4]", "rate = [0, 100]")
            .replace("clients = 4", "rate = 100"),
    );
    let words = ["--scenario", &file, "--repeats", "2", "--fail", "errors>0%"];
    let (text, result) = hit(&folder, &backend.url("/"), &words);
    let blocks = &result.cells[0].blocks;
    assert_eq!(blocks.len(), 2, "{text}");
    for block in blocks {
        let load = &block.load;
        // 10 sessions below the ramp and 20 after it, of two steps; the last ones may not have begun their second.
        assert_eq!(load.due, Some(load.ok + load.failed()), "{text}");
        assert!(load.parts[0].ok.abs_diff(30) <= 1, "{text}");
        assert!(load.parts[1].ok <= load.parts[0].ok, "{text}");
    }
}

#[test]
fn mistakes_of_a_scenario_are_reported_before_anything_is_sent() {
    let folder = Folder::new("scenario-mistakes");
    let backend = Backend::start(&["respond", "--body", "other"]);
    let url = backend.url("/");
    let wrong = SHOP
        .replace("[0, 4]", "[0, -4]")
        .replace("${user}\"", "${usr}\"");
    let file = scenario(&folder, &wrong);
    let output = lab(&["hit", &url, "--scenario", &file]);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains(&format!("{file}:9:11: `-4` is not")),
        "{text}"
    );
    assert!(
        text.contains(&format!("{file}:18:8: there is no variable `usr`")),
        "{text}"
    );
    for (words, part) in [
        (vec!["--scenario", &file, "-c", "5"], "cannot be used with"),
        (
            vec!["--scenario", "absent.toml"],
            "absent.toml: No such file",
        ),
    ] {
        let output = lab(&[&["hit", &url][..], &words].concat());
        let text = output_text(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(part), "{text}");
    }
    let file = scenario(&folder, &SHOP.replace("body = \"hello\"", "status = 204"));
    let output = lab(&["hit", &url, "--scenario", &file]);
    let text = output_text(&output);
    assert!(
        text.contains("responds to the first step with status 200 instead of 204"),
        "{text}"
    );
    let output = lab(&["find-limit", &url, "--scenario", &file]);
    let text = output_text(&output);
    assert!(text.contains("--scenario cannot be used here"), "{text}");
}

const EXPERIMENT: &str = r#"
schema = "sluice.lab/1"
name = "shops"
title = "A scenario beside a constant load"
[matrix]
clients = [2]
[load]
duration = "200ms"
warmup = "10ms"
[repeat]
blocks = 1
again = 0
[place]
pin = "none"
[test.shop]
path = "/"
scenario = "shop.toml"
expect = { status = 200 }
[test.page]
path = "/"
expect = { status = 200 }
[subject.a]
run = "{lab} serve respond --listen 127.0.0.1:{port} --body hello"
"#;

#[test]
fn a_scenario_is_the_load_of_a_test() {
    let folder = Folder::new("scenario-run");
    scenario(&folder, SHOP);
    let (file, out) = (folder.file("shops.toml"), folder.file("out"));
    fs::write(&file, EXPERIMENT).unwrap();
    let output = lab(&["run", &file, "--out", &out]);
    let text = output_text(&output);
    assert!(output.status.success(), "{text}");
    let bytes = fs::read(format!("{out}/result.json")).unwrap();
    let result: RunResult = serde_json::from_slice(&bytes).unwrap();
    let cell = |test: &str| {
        result
            .cells
            .iter()
            .find(|cell| cell.axis("test") == test)
            .unwrap()
    };
    let shop = &cell("shop").blocks[0].load;
    assert_eq!(cell("shop").axis("clients"), "4");
    assert_eq!((shop.phases.len(), shop.failed()), (2, 0), "{text}");
    assert!(cell("page").blocks[0].load.phases.is_empty());
    let found = lab(&["find-limit", &file, "--only", "test=shop"]);
    let found = output_text(&found);
    assert!(
        found.contains("none of the cells can be searched"),
        "{found}"
    );
    let with_clients = EXPERIMENT.replace("scenario =", "clients = [3]\nscenario =");
    fs::write(&file, with_clients).unwrap();
    let output = lab(&["run", &file, "--out", &out, "--plan"]);
    let text = output_text(&output);
    assert!(text.contains("remove `clients`"), "{text}");
}

#[test]
fn a_recording_and_a_description_become_scenarios_that_run() {
    let folder = Folder::new("scenario-import");
    let backend = Backend::start(&["respond", "--body", "hello"]);
    let har = folder.file("shop.har");
    let entry = |path: &str| {
        format!(
            r#"{{"request": {{"method": "GET", "url": "http://shop.example{path}", "headers":
            [{{"name": "Authorization", "value": "secret"}}]}}, "response": {{"status": 200}}}}"#
        )
    };
    let entries = [entry("/"), entry("/cart?id=1"), entry("/")].join(",");
    fs::write(&har, format!(r#"{{"log": {{"entries": [{entries}]}}}}"#)).unwrap();
    let api = folder.file("api.json");
    let description = r#"{"openapi": "3.1.0", "paths": {"/pets": {"get": {}, "post": {}}}}"#;
    fs::write(&api, description).unwrap();
    for (kind, file, said, names) in [
        (
            "har",
            &har,
            "3 x header `authorization`, a secret",
            vec![
                "recorded: GET /",
                "recorded: GET /cart?id=1",
                "recorded: GET / (2)",
            ],
        ),
        (
            "openapi",
            &api,
            "1 x operation that may change data",
            vec!["request: GET /pets"],
        ),
    ] {
        let out = folder.file(&format!("{kind}.toml"));
        let output = lab(&["import", kind, file, "--out", &out]);
        let text = output_text(&output);
        assert!(output.status.success() && text.contains(said), "{text}");
        let written = fs::read_to_string(&out).unwrap();
        assert!(
            written.contains(said) && !written.contains("= \"secret\""),
            "{written}"
        );
        let short = written
            .replace("duration = \"10s\"", "duration = \"200ms\"")
            .replace("clients = 10", "clients = 2");
        fs::write(&out, short).unwrap();
        let (text, result) = hit(&folder, &backend.url("/"), &["--scenario", &out]);
        let load = &result.cells[0].blocks[0].load;
        let parts: Vec<&str> = load.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(parts, names, "{text}");
        assert!(load.ok > 0 && load.failed() == 0, "{text}");
        let again = lab(&["import", kind, file, "--out", &out]);
        assert!(output_text(&again).contains("already exists"));
    }
    // The same description in YAML is the same scenario.
    let import = |name: &str, content: &str| {
        let file = folder.file(name);
        fs::write(&file, content).unwrap();
        let output = lab(&["import", "openapi", &file]);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        (output.status.code(), text, output_text(&output))
    };
    let (_, from_json, _) = import("same", description);
    let yaml = "openapi: 3.1.0\npaths:\n  /pets:\n    get: {}\n    post: {}\n";
    let (code, from_yaml, text) = import("same", yaml);
    assert_eq!((code, from_yaml), (Some(0), from_json), "{text}");
    let (code, _, text) = import("api.yaml", "openapi: 3.1.0\npaths:\n  /pets: {get: {}\n");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("/api.yaml:4:1: not YAML: "), "{text}");
}
