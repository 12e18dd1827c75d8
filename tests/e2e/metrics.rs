//! The Prometheus metrics page and its contents.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Instant;

use sluice_net::sys::process::Signal;

use crate::client::{Client, exchange};
use crate::harness::{Folder, Server, Setup, TIMEOUT, eventually, finish, sluice, text};
use crate::support::abilities::skipped_part;
use crate::tracing::listener;

const SITE: &str = "{\n\tadmin localhost:{admin}\n\tmetrics {\n\t\tper_host\n\t}\n}\n\
                    http://a.test:{port} {\n\tmetrics /metrics {\n\t\tdisable_openmetrics\n\t}\n\
                    \terror /boom 503\n\trespond /ok hello\n}\n\
                    http://*.b.test:{port} {\n\tmetrics /metrics\n\treverse_proxy /up 127.0.0.1:1\n\trespond /wild wild\n}\n";

/// A request whose head has 44 bytes by Caddy's count.
fn get(host: &str, target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

fn page(server: &Server, host: &str, accept: &str) -> String {
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    let response = exchange(server.port, request);
    assert_eq!(response.status, 200);
    String::from_utf8(response.body).expect("the page is text")
}

/// The samples of a page by name and labels; fails on anything that the format does not allow.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut families = BTreeSet::new();
    let mut family = String::new();
    for line in page.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# ") {
            let (word, rest) = rest.split_once(' ').expect("a word");
            let (name, _) = rest.split_once(' ').expect("a name and more");
            assert!(matches!(word, "HELP" | "TYPE"), "{line}");
            if word == "HELP" {
                assert!(families.insert(name.to_owned()), "{name} comes twice");
                family = name.to_owned();
            }
            assert_eq!(name, family, "a family stands together");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let name = series.split('{').next().expect("a name");
        assert!(name.starts_with(&family), "{line} stands below {family}");
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
        assert!(name.bytes().all(valid), "{line}");
        let value = value
            .parse()
            .unwrap_or_else(|_| panic!("{line} has no number"));
        assert!(
            samples.insert(series.to_owned(), value).is_none(),
            "{series} comes twice"
        );
    }
    samples
}

#[test]
fn requests_are_counted_with_caddys_names_and_labels() {
    let server = Server::start(SITE);
    for target in ["/ok", "/ok", "/boom"] {
        exchange(server.port, get("a.test", target));
    }
    exchange(server.port, get("x.b.test", "/up"));
    let ended = r#"caddy_http_requests_total{handler="subroute",host="_other",server="srv0"}"#;
    eventually(
        "the counts",
        || {
            samples(&page(&server, "x.b.test", "*/*"))
                .get(ended)
                .is_some_and(|count| *count >= 1.0)
        },
        || page(&server, "x.b.test", "*/*"),
    );
    let found = samples(&page(&server, "a.test", "text/plain"));
    let sample = |name: &str| {
        *found
            .get(name)
            .unwrap_or_else(|| panic!("{name}: {found:#?}"))
    };
    let of_a = r#"handler="subroute",host="a.test",server="srv0""#;
    assert_eq!(sample(&format!("caddy_http_requests_total{{{of_a}}}")), 3.0);
    assert_eq!(
        sample(&format!("caddy_http_request_errors_total{{{of_a}}}")),
        1.0
    );
    assert_eq!(
        sample(&format!("caddy_http_requests_in_flight{{{of_a}}}")),
        1.0,
        "this one"
    );
    let ok = r#"code="200",handler="subroute",host="a.test",method="GET",server="srv0""#;
    for (name, expected) in [
        ("caddy_http_request_duration_seconds_count", 2.0),
        ("caddy_http_response_duration_seconds_count", 2.0),
        ("caddy_http_request_size_bytes_count", 2.0),
        // `GET`, `/ok`, `HTTP/1.1`, `a.test` and `Connection`, `close`, twice.
        ("caddy_http_request_size_bytes_sum", 70.0),
        ("caddy_http_response_size_bytes_sum", 10.0),
    ] {
        assert_eq!(sample(&format!("{name}{{{ok}}}")), expected, "{name}");
    }
    let all = format!("caddy_http_request_duration_seconds_bucket{{{ok},le=\"+Inf\"}}");
    assert_eq!(sample(&all), 2.0);
    let failed = ok.replace("200", "503");
    assert_eq!(
        sample(&format!(
            "caddy_http_request_duration_seconds_count{{{failed}}}"
        )),
        1.0
    );
    let first_byte = format!("caddy_http_response_duration_seconds_count{{{failed}}}");
    assert!(!found.contains_key(&first_byte), "no handler answered");
    assert_eq!(
        sample(r#"caddy_reverse_proxy_upstreams_healthy{upstream="127.0.0.1:1"}"#),
        1.0
    );
    assert_eq!(sample("caddy_config_last_reload_successful"), 1.0);
    assert!(sample("process_open_fds") > 3.0);
    assert!(sample("sluice_connections_accepted_total") >= 5.0);
    assert!(
        !found.keys().any(|series| series.contains("x.b.test")),
        "hosts of clients are bounded"
    );
}

#[test]
fn both_formats_pass_the_check_of_their_reader() {
    let server = Server::start(SITE);
    exchange(server.port, get("a.test", "/ok"));
    let accept = "application/openmetrics-text; version=1.0.0";
    let open_metrics = page(&server, "x.b.test", accept);
    assert!(open_metrics.ends_with("# EOF\n"));
    assert!(
        open_metrics.contains("# TYPE caddy_http_requests counter\n")
            || !open_metrics.contains("caddy_http_requests_total")
    );
    samples(&open_metrics);
    let plain = page(&server, "a.test", accept);
    assert!(!plain.contains("# EOF"), "`disable_openmetrics` holds");
    samples(&plain);
    // Prometheus's own check, if it is installed.
    let promtool = std::env::var_os("PROMTOOL_BIN").unwrap_or("promtool".into());
    let checked = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut checked) = checked else {
        skipped_part("no promtool is installed: only the test's own parser has read the page");
        return;
    };
    use std::io::Write;
    let mut input = checked.stdin.take().expect("it was asked for");
    input.write_all(plain.as_bytes()).expect("it reads");
    drop(input);
    let output = checked.wait_with_output().expect("it ends");
    // It also checks style (status 3); only unparsable input matters here.
    assert_ne!(
        output.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_control_interface_shows_the_page_and_counts_itself() {
    let server = Server::start(SITE);
    let ask = |path: &str| {
        let mut client = Client::connect(server.admin);
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n",
            server.admin
        ));
        client.response()
    };
    assert_eq!(ask("/config/").status, 200);
    assert_eq!(ask("/nothing").status, 404);
    let response = ask("/metrics");
    let text = String::from_utf8(response.body).expect("the page is text");
    let found = samples(&text);
    for (code, path) in [(200, "/config/"), (404, "/nothing")] {
        let name = format!(
            "caddy_admin_http_requests_total{{code=\"{code}\",handler=\"admin\",method=\"GET\",path=\"{path}\"}}"
        );
        assert_eq!(found.get(&name), Some(&1.0), "{text}");
    }
}

#[test]
fn without_the_option_requests_are_not_counted_per_host() {
    let server = Server::start(":{port} {\n\tmetrics /metrics\n\trespond /ok hello\n}\n");
    exchange(server.port, get("a.test", "/ok"));
    let read = || samples(&page(&server, "a.test", "*/*"));
    let counted = || read()["sluice_requests_total{class=\"2xx\"}"] >= 1.0;
    eventually("the count", counted, || format!("{:#?}", read()));
    assert!(
        !read()
            .keys()
            .any(|series| series.starts_with("caddy_http_"))
    );
}

/// `metrics { otlp }` sends the metrics to the collector named by the environment, and once more at shutdown.
#[test]
fn metrics_are_pushed_to_a_collector() {
    let (collector, messages) =
        listener("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let site = "{\n\tadmin off\n\tmetrics {\n\t\totlp\n\t}\n}\n:{port} {\n\trespond hello\n}\n";
    let mut server = Setup::new(site)
        .env(
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
            &format!("http://127.0.0.1:{collector}/v1/metrics"),
        )
        .env("OTEL_METRIC_EXPORT_INTERVAL", "300")
        .env("OTEL_SERVICE_NAME", "counted")
        .start();
    assert_eq!(server.ask("/").status, 200);
    let has = |message: &[u8], words: &str| {
        let words = words.as_bytes();
        message.windows(words.len()).any(|part| part == words)
    };
    let counted = |message: &[u8]| has(message, "caddy_http_requests_total");
    let began = Instant::now();
    let message = loop {
        let message = messages.recv_timeout(TIMEOUT).expect("a message");
        if counted(&message) {
            break message;
        }
        assert!(began.elapsed() < TIMEOUT, "the request is never counted");
    };
    assert!(message.starts_with(b"POST /v1/metrics HTTP/1.1\r\n"));
    let lower = message.to_ascii_lowercase();
    assert!(has(&lower, "content-type: application/x-protobuf\r\n"));
    for words in [
        "counted",
        "srv0",
        "sluice_connections_open",
        "caddy_http_request_duration_seconds",
    ] {
        assert!(has(&message, words), "{words}");
    }
    while messages.try_recv().is_ok() {}
    server.signal(Signal::Terminate);
    server.wait_for_end();
    let last = messages.recv_timeout(TIMEOUT).expect("a last message");
    assert!(counted(&last));
}

#[test]
fn an_invalid_variable_for_pushed_metrics_is_reported() {
    let folder = Folder::new();
    folder.write(
        "Caddyfile",
        "{\n\tadmin off\n\tmetrics {\n\t\totlp\n\t}\n}\n:1 {\n}\n",
    );
    let mut command = sluice(&folder);
    command.args(["validate"]);
    command.env("OTEL_METRIC_EXPORT_INTERVAL", "soon");
    let said = text(&finish(&mut command).stderr);
    assert!(
        said.contains("OTEL_METRIC_EXPORT_INTERVAL is `soon`"),
        "{said}"
    );
}
