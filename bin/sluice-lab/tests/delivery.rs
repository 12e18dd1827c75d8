//! Results for other systems: metrics for a collector, and the recipe for CI.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use crate::executable::executable;
use crate::world::{Backend, Folder, LAB, hit, installed, lab, output_text};

/// A collector that responds with this, and a channel with the requests that it receives.
fn collector(status: &'static str, body: &'static str) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (to, requests) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut held, mut buf) = (Vec::new(), [0; 4096]);
            let whole = |held: &[u8]| {
                let text = String::from_utf8_lossy(held).into_owned();
                let (head, body) = text.split_once("\r\n\r\n")?;
                let mut lines = head.lines();
                let length = lines.find_map(|line| line.strip_prefix("Content-Length: "))?;
                (body.len() >= length.parse::<usize>().unwrap()).then_some(text)
            };
            let request = loop {
                match whole(&held) {
                    Some(request) => break request,
                    None => {
                        let got = stream.read(&mut buf).unwrap();
                        held.extend_from_slice(&buf[..got]);
                    }
                }
            };
            let length = body.len();
            let response = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            stream.write_all(response.as_bytes()).unwrap();
            let _ = to.send(request);
        }
    });
    (url, requests)
}

#[test]
fn metrics_are_sent_to_a_collector() {
    let folder = Folder::new("otlp");
    let backend = Backend::start(&["respond"]);
    hit(&folder, &backend.url("/"), &["-c", "2", "-d", "200ms"]);
    let json = folder.file("hit.json");
    let export = ["export", &json, "--format", "otlp"];
    let printed = lab(&export);
    let printed = String::from_utf8(printed.stdout).unwrap();
    let metrics: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let names = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
        .as_array()
        .unwrap();
    assert!(
        names.iter().any(|one| one["name"] == "sluice_lab.latency"),
        "{printed}"
    );
    let (url, requests) = collector("200 OK", "{}");
    // By the environment, with credentials.
    let mut command = Command::new(LAB);
    command.args(export);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &url);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b,x-other=1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let request = requests.recv().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    for line in ["Content-Type: application/json", "x-key: a b", "x-other: 1"] {
        assert!(head.contains(line), "{head}");
    }
    assert_eq!(body, printed.trim_end());
    let exact = format!("{url}/mine");
    let output = lab(&[&export[..], &["--to", &exact]].concat());
    assert!(output.status.success(), "{}", output_text(&output));
    assert!(requests.recv().unwrap().starts_with("POST /mine "));
}

#[test]
fn what_a_collector_refuses_is_reported() {
    let folder = Folder::new("otlp-refused");
    let backend = Backend::start(&["respond"]);
    hit(&folder, &backend.url("/"), &["-c", "2", "-d", "200ms"]);
    let json = folder.file("hit.json");
    let to = |url: &str, format: &str| {
        let output = lab(&["export", &json, "--format", format, "--to", url]);
        (output.status.code(), output_text(&output))
    };
    let partial =
        "{\"partialSuccess\": {\"rejectedDataPoints\": \"2\", \"errorMessage\": \"too old\"}}";
    for (status, body, part) in [
        ("401 Unauthorized", "who are you", "status 401: who are you"),
        ("200 OK", partial, "2 data points were rejected: too old"),
    ] {
        let (url, _requests) = collector(status, body);
        let (code, text) = to(&url, "otlp");
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(part), "{text}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let (code, text) = to(&format!("http://{nobody}/v1/metrics"), "otlp");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("refused"), "{text}");
    let (code, text) = to("http://127.0.0.1:1/", "csv");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--to and --ca need --format otlp"), "{text}");
}

/// The scripts of the action on the page, run as CI does, with shorter blocks and the lab's own server as both binaries.
#[test]
fn the_recipe_for_ci_works_as_printed() {
    if !installed("bash") {
        return;
    }
    let folder = Folder::new("ci");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes/benchmarks_in_ci.md");
    let page = fs::read_to_string(page).unwrap();
    let block = |name: &str| {
        let (_, after) = page.split_once(name).unwrap();
        let (text, _) = after.trim_start_matches('\n').split_once("\n```").unwrap();
        text.to_string()
    };
    let experiment = block("```toml bench.toml")
        .replace("duration = \"1s\"", "duration = \"100ms\"")
        .replace("warmup = \"300ms\"", "warmup = \"10ms\"")
        .replace("blocks = 20", "blocks = 3")
        .replace("again = 1", "again = 0");
    fs::write(folder.file("bench.toml"), experiment).unwrap();
    let bin = folder.file("bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(LAB, format!("{bin}/sluice-lab")).unwrap();
    for name in ["accepted", "new"] {
        let script = format!("#!/bin/sh\nexec '{LAB}' serve \"$@\"\n");
        executable(&folder.0, name, &script);
    }
    let action = block("```yaml .github/actions/benchmark/action.yml");
    let scripts: Vec<String> = action
        .split("      run: |\n")
        .skip(1)
        .map(|part| {
            let lines = part.lines().take_while(|line| line.starts_with("        "));
            lines.map(|line| format!("{}\n", &line[8..])).collect()
        })
        .collect();
    assert_eq!(scripts.len(), 2, "{action}");
    let summary = folder.file("summary.md");
    for script in scripts {
        let mut command = Command::new("bash");
        // As GitHub runs `shell: bash`.
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script]);
        command.current_dir(&folder.0);
        command.env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap()));
        command
            .env("EXPERIMENT", "bench.toml")
            .env("SUBJECTS", "accepted,new");
        command
            .env("MAX", "rps:-50% p99:+90%")
            .env("UNDECIDED", "warn");
        command.env("GITHUB_STEP_SUMMARY", &summary);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", output_text(&output));
    }
    let summary = fs::read_to_string(summary).unwrap();
    assert!(
        summary.contains("rps") && summary.contains('|'),
        "{summary}"
    );
    assert!(fs::exists(folder.file("lab-results/ci/report.html")).unwrap());
}
