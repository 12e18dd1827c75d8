use std::path::PathBuf;

use self::executable::executable;
use super::*;
use sluice_load::result::FailureClass;

#[path = "../../../../tests/support/executable.rs"]
mod executable;

fn task() -> Task {
    Task {
        asked: Asked {
            url: "http://127.0.0.1:8080/".into(),
            method: "GET".into(),
            protocol: "http/1.1".into(),
            connections: 50,
            depth: 1,
            threads: 2,
            duration_s: 3.0,
            timeout_s: 10.0,
            ..Asked::default()
        },
        fields: vec!["X-Hotdogs: aplenty".into()],
        host: None,
        insecure: false,
    }
}

fn line(tool: Tool, task: &Task) -> String {
    let steps = tool.steps(task, std::path::Path::new("/tmp/f")).unwrap();
    let runs: Vec<String> = steps.runs.iter().map(|args| args.join(" ")).collect();
    runs.join(" && ")
}

/// An experiment's host is sent instead of the address of the URL.
#[test]
fn another_host_is_set_as_each_tool_wants_it() {
    let task = Task {
        host: Some("a.example".into()),
        ..task()
    };
    for tool in Tool::ALL {
        let steps = tool.steps(&task, std::path::Path::new("/tmp/f")).unwrap();
        let input = steps.input.unwrap_or_default();
        let text = format!("{} {input}", line(tool, &task));
        let wanted = match tool {
            Tool::Hey => "-host a.example",
            Tool::K6 => "\"Host\": \"a.example\"",
            Tool::Vegeta => "-header Host: a.example",
            Tool::H2load => "--connect-to=127.0.0.1:8080",
            Tool::Ab | Tool::Oha | Tool::Wrk => "-H Host: a.example",
        };
        assert!(text.contains(wanted), "{text}");
        // h2load would send two Host headers.
        let url = text.contains("http://a.example/");
        assert_eq!(url, tool == Tool::H2load, "{text}");
    }
}

#[test]
fn each_tool_gets_the_same_task() {
    let command_of = |tool| line(tool, &task());
    assert_eq!(
        command_of(Tool::Wrk),
        "-t2 -c50 -d3s --latency --timeout 10s -H X-Hotdogs: aplenty http://127.0.0.1:8080/"
    );
    assert_eq!(
        command_of(Tool::Hey),
        "-z 3000ms -c 50 -t 10 -m GET -H X-Hotdogs: aplenty http://127.0.0.1:8080/"
    );
    assert_eq!(
        command_of(Tool::Ab),
        "-q -r -t 3 -n 100000000 -c 50 -s 10 -k -H X-Hotdogs: aplenty http://127.0.0.1:8080/"
    );
    assert_eq!(
        command_of(Tool::H2load),
        "-c 50 -t 2 -m 1 -D 3s --warm-up-time 0s --h1 -H X-Hotdogs: aplenty http://127.0.0.1:8080/"
    );
    assert_eq!(
        command_of(Tool::Oha),
        "--no-tui --output-format json -z 3000ms -c 50 -t 10s -m GET -H X-Hotdogs: aplenty http://127.0.0.1:8080/"
    );
    assert_eq!(
        command_of(Tool::Vegeta),
        "attack -output /tmp/f/attack.bin -duration 3000ms -timeout 10s -max-workers 50 -connections 50 -rate 0 \
         -header X-Hotdogs: aplenty && report -type=json /tmp/f/attack.bin"
    );
    let steps = Tool::K6
        .steps(&task(), std::path::Path::new("/tmp/f"))
        .unwrap();
    let script = steps.input.unwrap();
    assert!(
        script.contains("executor: 'constant-vus', vus: 50, duration: \"3000ms\""),
        "{script}"
    );
    assert!(
        script.contains("headers: { \"X-Hotdogs\": \"aplenty\" }"),
        "{script}"
    );
    assert_eq!(steps.output, Some(PathBuf::from("/tmp/f/summary.json")));
}

#[test]
fn unsupported_tasks_of_a_tool_are_refused_by_name() {
    let refused = |tool: Tool, change: fn(&mut Task)| {
        let mut task = task();
        change(&mut task);
        tool.steps(&task, std::path::Path::new("/tmp/f"))
            .unwrap_err()
    };
    let open = |task: &mut Task| {
        task.asked.mode = Mode::Open {
            rate: 100.0,
            poisson: false,
        }
    };
    assert_eq!(
        refused(Tool::Wrk, open),
        "wrk cannot send at a fixed rate; the lab's own load generator can"
    );
    assert!(
        refused(Tool::Ab, |task| task.asked.method = "PUT".into()).contains("ab cannot send PUT")
    );
    assert!(refused(Tool::Hey, |task| task.asked.protocol = "h2".into()).contains("HTTP/2"));
    assert!(refused(Tool::H2load, |task| task.asked.protocol = "h3".into()).contains("HTTP/3"));
    assert!(refused(Tool::Oha, |task| task.asked.depth = 4).contains("concurrent requests"));
    assert!(refused(Tool::K6, |task| task.asked.request_body_bytes = 1).contains("a request body"));
    assert!(
        refused(Tool::Wrk, |task| task.asked.requests_per_connection_max =
            Some(1))
        .contains("close connections")
    );
    let mut at_rate = task();
    open(&mut at_rate);
    assert!(line(Tool::Vegeta, &at_rate).contains("-rate 100"));
    assert!(
        Tool::K6
            .steps(&at_rate, std::path::Path::new("/"))
            .unwrap()
            .input
            .unwrap()
            .contains("rate: 100")
    );
}

/// A program that runs these shell commands.
fn program(folder: &process::Folder, commands: &str) -> PathBuf {
    executable(folder.path(), "tool", &format!("#!/bin/sh\n{commands}\n"))
}

fn sample(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../audit/tests/golden/tools")
        .join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.split("\n----\n").next().unwrap().to_string()
}

#[test]
fn figures_become_a_load_and_the_rest_is_not_measured() {
    let folder = process::Folder::new().unwrap();
    let tool = program(
        &folder,
        &format!("cat <<'END'\n{}\nEND", sample("wrk-bad-gateway.txt")),
    );
    let load = run_program(Tool::Wrk, &tool, &task()).unwrap();
    assert_eq!(
        (load.ok, load.failed(), load.failed_in(FailureClass::Status)),
        (0, 59_850, 59_850)
    );
    assert_eq!(load.latency.total.mean_ns, Some(1_190_000.0));
    assert_eq!(load.latency.total.min_ns, None);
    let missing = &load.engine.not_measured;
    assert!(missing.iter().any(|field| field == "latency.total.min_ns"));
    assert!(
        missing
            .iter()
            .any(|field| field.contains("failures are included")),
        "{missing:?}"
    );
    assert!(load.engine.raw.is_some() && load.generator.is_none() && load.series.is_none());
}

#[test]
fn every_tool_that_is_read_here_becomes_a_load() {
    for (tool, name, ok) in [
        (Tool::Wrk, "wrk.txt", 31_271),
        (Tool::Ab, "ab.txt", 3_000),
        (Tool::H2load, "h2load.txt", 5_000),
        (Tool::Hey, "hey-bad-gateway.txt", 0),
        (Tool::Oha, "oha.txt", 100_000),
        (Tool::Vegeta, "vegeta.txt", 2_475),
    ] {
        let folder = process::Folder::new().unwrap();
        let program = program(&folder, &format!("cat <<'END'\n{}\nEND", sample(name)));
        let load =
            run_program(tool, &program, &task()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(load.ok, ok, "{name}");
        assert!(load.latency.total.mean_ns.is_some(), "{name}");
    }
    // k6 writes its summary to the argument of `--summary-export`, the seventh.
    let folder = process::Folder::new().unwrap();
    let program = program(
        &folder,
        &format!(
            "cat >/dev/null\ncat > \"$7\" <<'END'\n{}\nEND",
            sample("k6.txt")
        ),
    );
    assert_eq!(
        run_program(Tool::K6, &program, &task()).unwrap().ok,
        225_000
    );
}

#[test]
fn failing_programs_are_reported() {
    let folder = process::Folder::new().unwrap();
    let run = |commands: &str, task: &Task| {
        run_program(Tool::Wrk, &program(&folder, commands), task).unwrap_err()
    };
    assert!(
        run("echo 'unable to connect' >&2; exit 1", &task())
            .ends_with("exit status: 1 and printed: unable to connect")
    );
    assert!(run("echo hello", &task()).contains("wrk: no figures"));
    // Output beyond the limit is still read, so that the program can exit.
    assert!(run("head -c 40000000 /dev/zero", &task()).contains("wrk: no figures"));
    let missing = run_program(Tool::Wrk, &folder.path().join("absent"), &task()).unwrap_err();
    assert!(missing.ends_with("` is not installed"), "{missing}");
}

#[test]
fn a_program_that_does_not_end_is_stopped() {
    let folder = process::Folder::new().unwrap();
    let path = program(&folder, "exec sleep 600");
    let steps = Steps {
        runs: vec![Vec::new()],
        ..Steps::default()
    };
    let began = std::time::Instant::now();
    let error = process::carry_out_within(&path, &steps, std::time::Duration::from_millis(200))
        .unwrap_err();
    assert!(error.contains("was stopped"), "{error}");
    assert!(began.elapsed() < std::time::Duration::from_secs(60));
}

#[test]
fn a_warm_up_is_a_separate_run() {
    let folder = process::Folder::new().unwrap();
    let log = folder.path().join("log");
    let tool = program(
        &folder,
        &format!(
            "echo \"$@\" >> {}\ncat <<'END'\n{}\nEND",
            log.display(),
            sample("wrk.txt")
        ),
    );
    let mut task = task();
    task.asked.warmup_s = 1.0;
    run_program(Tool::Wrk, &tool, &task).unwrap();
    let lines = std::fs::read_to_string(&log).unwrap();
    assert!(lines.lines().next().unwrap().contains("-d1s"), "{lines}");
    assert!(lines.lines().nth(1).unwrap().contains("-d3s"), "{lines}");
}
