//! The commands around a result: searches that produce one, and those that read it; an experiment generated from a
//! configuration; conversations; and external load generators and servers, if they are installed.

use std::fs;
use std::process::Command;

use sluice_load::result::{CellState, Load, RunResult};

use crate::abilities::skipped_part;
use crate::world::{self, Backend, Folder, hit, installed, is_there, lab, output_text, port};

fn read(path: &str) -> RunResult {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn load(result: &RunResult) -> &Load {
    &result.cells[0].blocks[0].load
}

#[test]
fn the_limit_of_a_slow_server_is_found() {
    let folder = Folder::new("limit");
    // Four connections and 5 ms per response allow at most 800 responses a second.
    let backend = Backend::start(&["respond", "--delay", "5ms"]);
    let json = folder.file("limit.json");
    let output = lab(&[
        "find-limit",
        &backend.url("/"),
        "-c",
        "4",
        "--slo",
        "p99<5s,errors<50%",
        "--step",
        "1s",
        "-d",
        "1s",
        "--json",
        &json,
    ]);
    let text = output_text(&output);
    assert!(text.contains("closed loop: "), "{text}");
    let result = read(&json);
    assert!(result.cells.len() >= 5, "{text}");
    let rates: Vec<f64> = result
        .cells
        .iter()
        .map(|cell| cell.axis("rate").parse().unwrap())
        .collect();
    assert!(rates.windows(2).all(|pair| pair[0] < pair[1]), "{rates:?}");
    assert!(rates.iter().all(|rate| *rate < 960.0), "{rates:?}");
    // Whatever this machine reaches, the note, the exit code and the text agree.
    let note = &result.notes[0];
    assert!(text.contains(note.as_str()), "{text}");
    assert_eq!(
        output.status.success(),
        note.starts_with("limit: "),
        "{text}"
    );
    let report = lab(&["report", &json, "--html", "--out", &folder.file("out")]);
    assert!(report.status.success(), "{}", output_text(&report));
    let page = fs::read_to_string(folder.file("out/report.html")).unwrap();
    assert!(page.contains("<h2>By offered rate</h2>") && page.contains("class=\"diagonal\""));
}

#[test]
fn a_promise_that_no_server_keeps_ends_with_1() {
    let backend = Backend::start(&["respond", "--delay", "2ms"]);
    let words = [
        "find-limit",
        &backend.url("/"),
        "-c",
        "2",
        "--slo",
        "p50<1ms",
        "--step",
        "100ms",
    ];
    let output = lab(&words);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("broken: ") && text.contains("no rate meets the objective"),
        "{text}"
    );
    let output = lab(&["find-limit", &backend.url("/"), "--rate", "5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        output_text(&output).contains("--rate cannot be used here"),
        "{}",
        output_text(&output)
    );
}

#[test]
fn an_overload_has_a_curve_a_reaction_and_a_recovery() {
    let folder = Folder::new("break");
    let backend = Backend::start(&["respond", "--delay", "5ms"]);
    let json = folder.file("break.json");
    let words = [
        "break",
        &backend.url("/"),
        "-c",
        "2",
        "--step",
        "300ms",
        "--timeout",
        "1s",
        "--json",
        &json,
    ];
    let output = lab(&words);
    let text = output_text(&output);
    assert_eq!(text.matches("/s due ").count(), 8, "{text}");
    let calm = ["holds: ", "sheds: ", "queues: "]
        .iter()
        .any(|word| text.contains(word));
    let hard = ["drops: ", "collapses: ", "dies: "]
        .iter()
        .any(|word| text.contains(word));
    assert!(calm != hard, "{text}");
    assert_eq!(output.status.code(), Some(i32::from(hard)), "{text}");
    assert!(text.contains("recover"), "{text}");
    let result = read(&json);
    assert_eq!(result.cells.len(), 8);
    // Two connections and 5 ms per response allow 400 a second, whatever is offered.
    for cell in &result.cells {
        let rate = cell.blocks[0].load.ok_per_s();
        assert!(rate <= 420.0, "{rate} at {:?}", cell.axes);
    }
}

const TWO: &str = r#"
schema = "sluice.lab/1"
name = "two"
title = "A fast and a slow server"
[matrix]
clients = [2]
[load]
duration = "300ms"
warmup = "50ms"
[place]
pin = "none"
[test.hello]
path = "/"
expect = { status = 200, body = "hello" }
[subject.fast]
# Not as fast as it could be: the generator would be full.
run = "{lab} serve respond --listen 127.0.0.1:{port} --body hello --delay 2ms"
[subject.slow]
run = "{lab} serve respond --listen 127.0.0.1:{port} --body hello --delay 40ms"
[claims]
order = "rps(fast) > rps(slow)"
"#;

/// Runs the program, which should exit with this code and print these texts.
fn asked(words: &[&str], code: i32, parts: &[&str]) {
    let output = lab(words);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(code), "{words:?}\n{text}");
    for part in parts {
        assert!(text.contains(part), "{words:?}: `{part}` in\n{text}");
    }
}

/// A gate fails for the slow server, passes for the fast one, and does not judge missing figures.
fn gates(out: &str) {
    let limit = ["--max", "rps:-50%"];
    for (subjects, code, part) in [
        ("fast,slow", 1, "REGRESSION"),
        ("slow,fast", 0, "pass"),
        ("slow,nobody", 2, "cannot judge"),
    ] {
        let words = [&["gate", out, "--subjects", subjects][..], &limit].concat();
        asked(&words, code, &[part]);
    }
    let words = ["gate", out, "--subjects", "fast,slow", "--format", "junit"];
    let parts = ["<testsuite", "failures=\"1\""];
    asked(&[&words[..], &limit].concat(), 1, &parts);
}

/// The keyboard shortcuts of a report, pressed in a real browser if there is one.
fn keys_work(folder: &Folder, page: &str) {
    if !is_there("chromium") {
        skipped_part("chromium is not installed: nobody presses the keys of the report");
        return;
    }
    let (before, after) = page.split_at(page.rfind("</body>").unwrap());
    let pressed = format!(
        "{before}<script>{}</script>{after}",
        include_str!("keys.js")
    );
    fs::write(folder.file("keys.html"), pressed).unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.file("browser")))
        .arg(format!("file://{}", folder.file("keys.html")))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, list) = text
        .split_once("<pre id=\"keys-told\">")
        .unwrap_or_else(|| panic!("the page told nothing: {}", output_text(&output)));
    assert!(!list.contains("WRONG"), "{list}");
    // Theme, charts, and the subject buttons were all there.
    for part in ["ok t goes to dark", "ok chart 2 escape", "ok button on"] {
        assert!(list.contains(part), "{part}: {list}");
    }
}

#[test]
fn results_are_compared_judged_explained_and_reported() {
    let folder = Folder::new("two");
    let file = folder.file("two.toml");
    fs::write(&file, TWO).unwrap();
    let out = folder.file("out");
    let run = lab(&["run", &file, "--out", &out]);
    assert!(run.status.success(), "{}", output_text(&run));
    world::quiet(&out);
    asked(
        &["compare", &out, "--subjects", "fast,slow"],
        0,
        &["rps", "slower"],
    );
    asked(
        &["compare", &out, "--subjects", "slow,fast", "--md"],
        0,
        &["| ", "faster"],
    );
    asked(&["compare", &out], 2, &["two results are needed"]);
    gates(&out);
    asked(
        &["explain", &out, "subject=slow"],
        0,
        &["2 clients in a closed loop"],
    );
    asked(
        &["explain", &out, "subject=nobody"],
        2,
        &["no cells are called"],
    );
    asked(&["audit", &out], 0, &["order"]);
    asked(
        &["report", &out],
        0,
        &["report.html", "report.md", "table.csv"],
    );
    let page = fs::read(folder.file("out/report.html")).unwrap();
    assert!(page.len() < 200_000, "{} bytes", page.len());
    keys_work(&folder, &String::from_utf8(page).unwrap());
    // Another experiment is not the same.
    let other = folder.file("other");
    fs::write(&file, TWO.replace("40ms", "41ms")).unwrap();
    let words = [
        "run",
        &file,
        "--out",
        &other,
        "--repeats",
        "1",
        "--only",
        "subject=fast",
    ];
    assert!(lab(&words).status.success());
    asked(
        &["gate", &out, &other, "--max", "rps:-50%"],
        2,
        &["not the same experiment"],
    );
}

#[test]
fn messages_come_back_through_the_program() {
    let folder = Folder::new("ws");
    let backend = Backend::start(&["websocket"]);
    let url = backend.url("/").replace("http://", "ws://");
    for bytes in ["0", "125", "126", "70000"] {
        let words = ["-n", "60", "-c", "3", "--depth", "2", "--body-bytes", bytes];
        let (text, result) = hit(&folder, &url, &words);
        let load = load(&result);
        assert_eq!((load.ok, load.failed()), (60, 0), "{text}");
        assert_eq!(load.asked.protocol, "websocket");
        assert!(
            text.contains("echoes") && text.contains("round trip") && text.contains("upgrade"),
            "{text}"
        );
    }
    // The same through the lab's relay; and a target that does not speak WebSocket is rejected.
    let relay = Backend::start(&["relay", &format!("127.0.0.1:{}", backend.port)]);
    let (text, _) = hit(
        &folder,
        &relay.url("/"),
        &["--websocket", "-n", "20", "-c", "2"],
    );
    assert!(text.contains("echoes"), "{text}");
    let plain = Backend::start(&["respond"]);
    let output = lab(&["hit", &plain.url("/"), "--websocket", "-n", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        output_text(&output).contains("status 200 instead of 101"),
        "{}",
        output_text(&output)
    );
}

#[test]
fn gaps_of_events_are_measured_through_the_program() {
    let folder = Folder::new("sse");
    let backend = Backend::start(&["events", "--every", "25ms", "--event-bytes", "10"]);
    let (text, result) = hit(
        &folder,
        &backend.url("/"),
        &["--sse", "-c", "4", "-d", "1s"],
    );
    let load = load(&result);
    assert_eq!(load.failed(), 0, "{text}");
    // Events are due every 25 ms whatever happened to earlier ones, so this is the mean on any machine.
    let mean = load.latency.total.mean_ns.unwrap() / 1e6;
    assert!((18.0..40.0).contains(&mean), "{mean} ms\n{text}");
    assert_eq!(load.latency.opening.as_ref().unwrap().count, 4, "{text}");
    assert!(
        text.contains("gap between events") && text.contains("first event"),
        "{text}"
    );
    let output = lab(&["hit", &backend.url("/"), "--sse", "--rate", "5"]);
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
}

#[test]
fn idle_connections_are_held_beside_and_weighed() {
    let folder = Folder::new("idle");
    let backend = Backend::start(&["respond"]);
    let words = ["-c", "2", "-d", "500ms", "--idle", "200", "--slow", "5"];
    let (text, result) = hit(&folder, &backend.url("/"), &words);
    let held = load(&result).held.as_ref().unwrap();
    assert_eq!((held.idle_open, held.slow_open), (200, 5), "{text}");
    assert!(
        held.lost.is_empty() && held.rss_with_bytes.is_some(),
        "{text}"
    );
    assert!(
        text.contains("200 of 200 idle open until the end"),
        "{text}"
    );
    assert!(text.contains("memory of the server: "), "{text}");
    assert_eq!(load(&result).failed(), 0);
}

#[test]
fn unsupported_protocols_are_named() {
    for (words, part) in [
        (&["--h3"][..], "HTTP/3 needs an https:// URL"),
        (&["--h2", "--idle", "5"], "remove --h2"),
        (&["--h2", "--h3"], "cannot be used with"),
        (&["--h3", "--engine", "wrk"], "HTTP/3"),
        (
            &["--engine", "wrk", "--websocket"],
            "only with the lab's own load generator",
        ),
    ] {
        let backend = Backend::start(&["respond"]);
        let url = backend.url("/");
        let all = [&["hit", &url][..], words].concat();
        let output = lab(&all);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            output_text(&output)
        );
        assert!(
            output_text(&output).contains(part),
            "{words:?}: {}",
            output_text(&output)
        );
    }
}

#[test]
fn unmeasured_fields_of_other_generators_read_not_measured() {
    let folder = Folder::new("tools");
    let backend = Backend::start(&["respond", "--body", "hello"]);
    for tool in ["wrk", "hey", "ab", "h2load"] {
        if !is_there(tool) {
            skipped_part(format_args!("{tool} is not installed"));
            continue;
        }
        let words = ["--engine", tool, "-c", "2", "-d", "1s", "--warmup", "0s"];
        let (text, result) = hit(&folder, &backend.url("/"), &words);
        let load = load(&result);
        assert!(load.ok > 0, "{text}");
        assert_eq!(load.engine.name, tool);
        assert!(text.contains("not measured: "), "{text}");
        let not: Vec<&str> = load
            .engine
            .not_measured
            .iter()
            .map(String::as_str)
            .collect();
        assert!(
            not.contains(&"connections") && not.contains(&"generator"),
            "{tool}: {not:?}"
        );
        assert!(load.generator.is_none() && load.series.is_none(), "{tool}");
        // What is not listed was measured, and what is listed was not.
        let there = [
            ("latency.connect", load.latency.connect.is_some()),
            ("latency.first_byte", load.latency.first_byte.is_some()),
            ("latency.service", load.latency.service.is_some()),
        ];
        for (name, is_there) in there {
            assert_ne!(not.contains(&name), is_there, "{tool}: {name}, {not:?}");
        }
        let report = lab(&[
            "report",
            &folder.file("hit.json"),
            "--out",
            &folder.file(tool),
        ]);
        assert!(report.status.success(), "{}", output_text(&report));
        let page = fs::read_to_string(format!("{}/report.html", folder.file(tool))).unwrap();
        assert!(
            page.contains(&format!("<dt>Not measured by {tool}</dt>")),
            "{tool}"
        );
        // Connections and responses of each, in the table of blocks.
        assert!(
            page.contains("<td>–<td>–\n"),
            "{tool}: a dash where nothing was measured"
        );
    }
}

/// The configuration of an nginx with HTTP/2 on two ports, as a single foreground process.
fn two(dir: &str, tls: u16, clear: u16) -> String {
    format!(
        "daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log; events {{}} http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {dir}/b; \
         proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s; \
         server {{ listen 127.0.0.1:{tls} ssl http2; listen 127.0.0.1:{clear} http2; ssl_certificate {dir}/cert.pem; \
         ssl_certificate_key {dir}/key.pem; location / {{ return 200 'hello over two'; }} }} }}"
    )
}

#[test]
fn nginx_is_measured_over_http2() {
    if !installed("nginx") {
        return;
    }
    let folder = Folder::new("h2");
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    fs::write(folder.file("cert.pem"), made.cert.pem()).unwrap();
    fs::write(folder.file("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let (tls, clear) = (port(), port());
    let dir = folder.0.display();
    let conf = two(&dir.to_string(), tls, clear);
    fs::write(folder.file("nginx.conf"), conf).unwrap();
    let mut command = Command::new(sluice_load::process::find("nginx").unwrap());
    command.args([
        "-p",
        &folder.file(""),
        "-e",
        &folder.file("error.log"),
        "-c",
        &folder.file("nginx.conf"),
    ]);
    let nginx = Backend::of(command, tls);
    let Some(_nginx) = nginx else {
        panic!(
            "{}",
            fs::read_to_string(folder.file("error.log")).unwrap_or_default()
        );
    };
    let secure = format!("https://localhost:{tls}/");
    let plain = format!("http://127.0.0.1:{clear}/");
    for (url, more) in [(&secure, &["--insecure"][..]), (&plain, &[])] {
        let words = [&["--h2", "-n", "500", "-c", "3", "--depth", "10"][..], more].concat();
        let (text, result) = hit(&folder, url, &words);
        let load = load(&result);
        assert_eq!((load.ok, load.failed()), (500, 0), "{text}");
        assert_eq!(
            load.connections.opened, 3,
            "streams share connections: {text}"
        );
        assert!(
            load.asked.verify.contains("every byte of a body of 14"),
            "{text}"
        );
        let alpn = (url == &secure).then_some("h2");
        assert_eq!(load.connections.alpn.as_deref(), alpn);
    }
    if !is_there("h2load") {
        skipped_part("h2load is not installed");
    } else {
        let words = [
            "--h2",
            "--insecure",
            "--engine",
            "h2load",
            "-c",
            "3",
            "--depth",
            "10",
            "-d",
            "1s",
            "--warmup",
            "0s",
        ];
        let (text, result) = hit(&folder, &secure, &words);
        assert!(
            load(&result).ok > 0 && load(&result).failed() == 0,
            "{text}"
        );
    }
}

#[test]
fn an_experiment_is_made_for_an_nginx_conf_and_runs_as_written() {
    let folder = Folder::new("init");
    fs::create_dir_all(folder.0.join("www/css")).unwrap();
    fs::create_dir_all(folder.0.join("conf.d")).unwrap();
    fs::write(folder.0.join("www/index.html"), "<p>hello").unwrap();
    fs::write(folder.0.join("www/css/a.css"), "a {}").unwrap();
    let conf = format!(
        "user www-data;\nevents {{ worker_connections 512; }}\nhttp {{\n  upstream app {{ server 10.1.2.3:80; keepalive 4; }}\n  include conf.d/*.conf;\n  server {{\n    listen 80;\n    return 204;\n  }}\n}}\n# root is {}\n",
        folder.0.display()
    );
    let site = format!(
        "server {{\n  listen 443 ssl;\n  server_name a.example;\n  ssl_certificate /none;\n  root {}/www;\n  location / {{ }}\n  location /css/ {{ }}\n  location /api/ {{ proxy_pass http://app; }}\n  location = /up {{ return 200 fine; }}\n  location ~ [.]php$ {{ fastcgi_pass unix:/x; }}\n}}\n",
        folder.0.display()
    );
    fs::write(folder.file("nginx.conf"), conf).unwrap();
    fs::write(folder.file("conf.d/site.conf"), site).unwrap();
    let (file, from) = (folder.file("mine.toml"), folder.file("nginx.conf"));
    let output = lab(&["init", &from, "--out", &file]);
    let text = output_text(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("omitted: location ~ [.]php$") && text.contains("5 locations"),
        "{text}"
    );
    let again = lab(&["init", &from, "--out", &file]);
    assert!(
        output_text(&again).contains("--force overwrites it"),
        "{}",
        output_text(&again)
    );
    let made = fs::read_to_string(&file).unwrap();
    for part in [
        "[test.a-example-css-a-css]",
        "[test.a-example-api]",
        "[[backend]]",
        "[claims]",
        "status = 204",
    ] {
        assert!(made.contains(part), "`{part}` in\n{made}");
    }
    let plan = lab(&["run", &file, "--plan"]);
    assert!(plan.status.success(), "{}", output_text(&plan));
    if !installed("nginx") {
        return;
    }
    let out = folder.file("out");
    let words = [
        "run",
        &file,
        "--out",
        &out,
        "--only",
        "subject=nginx",
        "--clients",
        "2",
        "--repeats",
        "1",
        "-d",
        "200ms",
    ];
    let run = lab(&words);
    assert!(run.status.success(), "{}", output_text(&run));
    let result = read(&format!("{out}/result.json"));
    assert_eq!(result.cells.len(), 5);
    for cell in &result.cells {
        assert_eq!(
            cell.state,
            CellState::Measured,
            "{:?}: {}",
            cell.axes,
            output_text(&run)
        );
        let block = &cell.blocks[0];
        assert!(
            block.load.ok > 0 && block.load.failed() == 0,
            "{:?}",
            cell.axes
        );
        assert!(
            block.checks.iter().all(|check| check.holds == Some(true)),
            "{:?}",
            block.checks
        );
    }
}

#[test]
fn an_experiment_is_made_for_each_server_of_caddy_s_json() {
    let folder = Folder::new("init-json");
    let config = r#"{ "apps": { "tls": {}, "http": { "servers": {
        "web": { "listen": [":443"], "tls_connection_policies": [{}], "routes": [
            { "match": [{ "host": ["a.example"] }], "handle": [{ "handler": "subroute", "routes": [
                { "match": [{ "path": ["/health"] }], "handle": [{ "handler": "static_response", "body": "ok" }] },
                { "match": [{ "header": { "x": ["y"] } }], "handle": [{ "handler": "static_response" }] },
                { "handle": [{ "handler": "reverse_proxy", "upstreams": [{ "dial": "10.0.0.1:80" }],
                    "transport": { "protocol": "http", "tls": {} } }] } ] }] } ] },
        "other": { "listen": [":8080"], "routes": [ { "handle": [{ "handler": "static_response", "status_code": 404 }] } ] }
    } } } }"#;
    fs::write(folder.file("site.json"), config).unwrap();
    let file = folder.file("mine.toml");
    let output = lab(&["init", &folder.file("site.json"), "--out", &file]);
    assert!(output.status.success(), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("omitted: web: a route for `header`"),
        "{}",
        output_text(&output)
    );
    let made = fs::read_to_string(&file).unwrap();
    for part in [
        "conf = \"mine.{kind}.caddy.json\"",
        "kind = \"web\"",
        "host = \"a.example\"",
        "body = \"ok\"",
        "status = 404",
    ] {
        assert!(made.contains(part), "`{part}` in\n{made}");
    }
    let copy = fs::read_to_string(folder.file("mine.web.caddy.json")).unwrap();
    for part in [
        "127.0.0.1:__LAB_PORT__",
        "127.0.0.1:__LAB_APP__",
        "\"disable\": true",
    ] {
        assert!(copy.contains(part), "`{part}` in\n{copy}");
    }
    assert!(
        !copy.contains("10.0.0.1") && !copy.contains("tls_connection") && !copy.contains("8080"),
        "{copy}"
    );
    let plan = lab(&["run", &file, "--plan"]);
    assert!(
        plan.status.success() && output_text(&plan).contains("18 cells x 5 blocks"),
        "{}",
        output_text(&plan)
    );
}
