//! Names, command lines and limitations of the tools.

use std::path::{Path, PathBuf};

use super::Task;
use sluice_audit::read::Format;
use sluice_load::result::Mode;

/// An external load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// ApacheBench; it speaks HTTP/1.0.
    Ab,
    /// h2load of nghttp2.
    H2load,
    /// hey, formerly boom.
    Hey,
    /// k6.
    K6,
    /// oha.
    Oha,
    /// vegeta.
    Vegeta,
    /// wrk.
    Wrk,
}

/// The command lines of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// Arguments of the program, for each run.
    pub runs: Vec<Vec<String>>,
    /// Standard input of the first run.
    pub input: Option<String>,
    /// The file with the figures; by default standard output.
    pub output: Option<PathBuf>,
}

impl Tool {
    /// All tools.
    pub const ALL: [Tool; 7] = [
        Tool::Ab,
        Tool::H2load,
        Tool::Hey,
        Tool::K6,
        Tool::Oha,
        Tool::Vegeta,
        Tool::Wrk,
    ];

    /// The tool with this name.
    pub fn of_name(name: &str) -> Result<Tool, String> {
        let names: Vec<&str> = Tool::ALL.iter().map(|tool| tool.name()).collect();
        let found = Tool::ALL.into_iter().find(|tool| tool.name() == name);
        found.ok_or_else(|| {
            format!(
                "`{name}` is not a load generator; known are {}",
                names.join(", ")
            )
        })
    }

    /// The name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Ab => "ab",
            Tool::H2load => "h2load",
            Tool::Hey => "hey",
            Tool::K6 => "k6",
            Tool::Oha => "oha",
            Tool::Vegeta => "vegeta",
            Tool::Wrk => "wrk",
        }
    }

    /// The format of its output.
    pub fn format(self) -> Format {
        match self {
            Tool::Ab => Format::Ab,
            Tool::H2load => Format::H2load,
            Tool::Hey => Format::Hey,
            Tool::K6 => Format::K6,
            Tool::Oha => Format::Oha,
            Tool::Vegeta => Format::Vegeta,
            Tool::Wrk => Format::Wrk,
        }
    }

    /// Arguments that print its version; hey has none.
    pub fn version_args(self) -> &'static [&'static str] {
        match self {
            Tool::Ab => &["-V"],
            Tool::Hey => &[],
            Tool::K6 => &["version"],
            Tool::Wrk => &["-v"],
            Tool::H2load | Tool::Oha | Tool::Vegeta => &["--version"],
        }
    }

    /// Whether it excludes a warm-up from its figures. For the others a separate run is made first and discarded.
    pub fn warms_up(self) -> bool {
        self == Tool::H2load
    }

    /// Whether its latencies include failures.
    pub fn mixes_failures(self) -> bool {
        matches!(
            self,
            Tool::Ab | Tool::Hey | Tool::K6 | Tool::Oha | Tool::Vegeta | Tool::Wrk
        )
    }

    /// What it cannot measure, as names of result fields.
    pub fn not_measured(self) -> Vec<&'static str> {
        let mut fields = vec![
            "verification of response length and body",
            "latency.first_byte",
            "latency.connect",
            "latency.tls",
            "latency.service",
            "censored",
            "connections",
            "generator",
            "series",
        ];
        match self {
            Tool::H2load => fields.push("latency.total.percentiles"),
            Tool::Ab | Tool::Hey | Tool::Oha | Tool::Vegeta | Tool::K6 => {
                fields.push("failures by class")
            }
            Tool::Wrk => fields.push("latency.total.min_ns"),
        }
        fields
    }

    /// The command lines for a task, or what the tool does not support.
    pub fn steps(self, task: &Task, folder: &Path) -> Result<Steps, String> {
        self.refuse(task)?;
        let (runs, input, output) = match self {
            Tool::Wrk => (vec![wrk(task)], None, None),
            Tool::Hey => (vec![hey(task)], None, None),
            Tool::Ab => (vec![ab(task)], None, None),
            Tool::H2load => (vec![h2load(task)], None, None),
            Tool::Oha => (vec![oha(task)], None, None),
            Tool::K6 => {
                let output = folder.join("summary.json");
                (vec![k6(&output)], Some(k6_script(task)), Some(output))
            }
            Tool::Vegeta => {
                let attack = folder.join("attack.bin");
                (vegeta(task, &attack), Some(vegeta_target(task)), None)
            }
        };
        Ok(Steps {
            runs,
            input,
            output,
        })
    }

    fn refuse(self, task: &Task) -> Result<(), String> {
        let asked = &task.asked;
        let cannot = |what: &str| {
            Err(format!(
                "{} cannot {what}; the lab's own load generator can",
                self.name()
            ))
        };
        let h2 = asked.protocol.starts_with("h2");
        if matches!(asked.mode, Mode::Open { .. })
            && !matches!(self, Tool::K6 | Tool::Oha | Tool::Vegeta)
        {
            return cannot("send at a fixed rate");
        }
        if matches!(asked.mode, Mode::Open { poisson: true, .. }) {
            return cannot("send at random times");
        }
        if asked.depth > 1 && self != Tool::H2load {
            return cannot("send concurrent requests on a connection");
        }
        if h2 && !matches!(self, Tool::H2load) {
            return cannot("use HTTP/2");
        }
        if asked.protocol == "h3" {
            return cannot("use HTTP/3");
        }
        if asked.request_body_bytes > 0 {
            return cannot("send a request body here");
        }
        if asked.method != "GET" && !matches!(self, Tool::Hey | Tool::Oha | Tool::K6 | Tool::Vegeta)
        {
            return cannot(&format!("send {}", asked.method));
        }
        let kept = asked.requests_per_connection_max;
        if kept.is_some_and(|most| most > 1)
            || kept == Some(1)
                && !matches!(
                    self,
                    Tool::Ab | Tool::Hey | Tool::Oha | Tool::K6 | Tool::Vegeta
                )
        {
            return cannot("close connections after so many requests");
        }
        if task.insecure && matches!(self, Tool::Ab) {
            return cannot("accept any certificate");
        }
        Ok(())
    }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_string).into()
}

/// Adds each request header with `option`.
fn with_fields(mut args: Vec<String>, option: &str, task: &Task) -> Vec<String> {
    let host = task.host.iter().map(|host| format!("Host: {host}"));
    for field in task.fields.iter().cloned().chain(host) {
        args.extend([option.to_string(), field]);
    }
    args
}

fn closes(task: &Task) -> bool {
    task.asked.requests_per_connection_max == Some(1)
}

/// Whole seconds for tools that take nothing else, at least one.
fn seconds(task: &Task) -> u64 {
    (task.asked.duration_s.ceil() as u64).max(1)
}

fn timeout(task: &Task) -> u64 {
    (task.asked.timeout_s.ceil() as u64).max(1)
}

/// wrk needs at least one connection per thread.
fn threads(task: &Task) -> usize {
    task.asked.threads.clamp(1, task.asked.connections.max(1))
}

fn wrk(task: &Task) -> Vec<String> {
    let args = vec![
        format!("-t{}", threads(task)),
        format!("-c{}", task.asked.connections),
        format!("-d{}s", seconds(task)),
        "--latency".into(),
        "--timeout".into(),
        format!("{}s", timeout(task)),
    ];
    let mut args = with_fields(args, "-H", task);
    args.push(task.asked.url.clone());
    args
}

fn hey(task: &Task) -> Vec<String> {
    let mut args = words(["-z"]);
    args.push(format!("{}ms", (task.asked.duration_s * 1000.0).ceil()));
    args.extend(["-c".into(), task.asked.connections.to_string()]);
    args.extend(["-t".into(), timeout(task).to_string()]);
    args.extend(["-m".into(), task.asked.method.clone()]);
    if closes(task) {
        args.push("-disable-keepalive".into());
    }
    // It ignores a Host header.
    if let Some(host) = &task.host {
        args.extend(["-host".into(), host.clone()]);
    }
    let without = Task {
        host: None,
        ..task.clone()
    };
    let mut args = with_fields(args, "-H", &without);
    args.push(task.asked.url.clone());
    args
}

fn ab(task: &Task) -> Vec<String> {
    // -t sets a number of requests of its own, so -n comes after it. -r continues after a reset.
    let mut args = words(["-q", "-r", "-t"]);
    args.push(seconds(task).to_string());
    args.extend(words(["-n", "100000000", "-c"]));
    args.push(task.asked.connections.to_string());
    args.extend(["-s".into(), timeout(task).to_string()]);
    if !closes(task) {
        args.push("-k".into());
    }
    let mut args = with_fields(args, "-H", task);
    let url = &task.asked.url;
    // It rejects a URL without a path.
    let bare = url
        .split_once("://")
        .is_some_and(|(_, rest)| !rest.contains('/'));
    args.push(if bare { format!("{url}/") } else { url.clone() });
    args
}

fn h2load(task: &Task) -> Vec<String> {
    let asked = &task.asked;
    let mut args = vec![
        "-c".to_string(),
        asked.connections.to_string(),
        "-t".into(),
        threads(task).to_string(),
        "-m".into(),
        asked.depth.max(1).to_string(),
        "-D".into(),
        format!("{}s", seconds(task)),
        "--warm-up-time".into(),
        format!("{}s", asked.warmup_s.ceil()),
    ];
    if !asked.protocol.starts_with("h2") {
        args.push("--h1".into());
    }
    // It would send a Host header in addition to its own, so the URL has the host, and the address is an option.
    let parts = asked.url.split_once("://").and_then(|(scheme, rest)| {
        let at = rest.find('/').unwrap_or(rest.len());
        Some((scheme, &rest[..at], &rest[at..], task.host.as_ref()?))
    });
    let url = match parts {
        Some((scheme, address, path, host)) => {
            args.push(format!("--connect-to={address}"));
            format!("{scheme}://{host}{path}")
        }
        None => asked.url.clone(),
    };
    let without = Task {
        host: None,
        ..task.clone()
    };
    let mut args = with_fields(args, "-H", &without);
    args.push(url);
    args
}

fn oha(task: &Task) -> Vec<String> {
    let asked = &task.asked;
    let mut args = words(["--no-tui", "--output-format", "json", "-z"]);
    args.push(format!("{}ms", (asked.duration_s * 1000.0).ceil()));
    args.extend(["-c".into(), asked.connections.to_string()]);
    args.extend(["-t".into(), format!("{}s", timeout(task))]);
    args.extend(["-m".into(), asked.method.clone()]);
    if let Mode::Open { rate, .. } = asked.mode {
        args.extend([
            "-q".into(),
            format!("{rate}"),
            "--latency-correction".into(),
        ]);
    }
    if closes(task) {
        args.push("--disable-keepalive".into());
    }
    if task.insecure {
        args.push("--insecure".into());
    }
    let mut args = with_fields(args, "-H", task);
    args.push(asked.url.clone());
    args
}

fn k6(output: &Path) -> Vec<String> {
    let mut args = words([
        "run",
        "--quiet",
        "--no-usage-report",
        "--summary-trend-stats",
        "avg,min,med,max,p(90),p(95),p(99)",
        "--summary-export",
    ]);
    args.extend([output.display().to_string(), "-".into()]);
    args
}

/// A script like that of study 000: bodies discarded, exactly status 200 expected.
fn k6_script(task: &Task) -> String {
    let asked = &task.asked;
    let text = |value: &str| serde_json::Value::from(value).to_string();
    let host = task.host.iter().map(|host| format!("Host: {host}"));
    let fields: Vec<String> = task.fields.iter().cloned().chain(host).collect();
    let fields = fields.iter().filter_map(|field| field.split_once(':'));
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("{}: {}", text(name.trim()), text(value.trim())))
        .collect();
    let duration = text(&format!("{}ms", (asked.duration_s * 1000.0).ceil()));
    let scenario = match asked.mode {
        Mode::Closed => format!(
            "executor: 'constant-vus', vus: {}, duration: {duration}",
            asked.connections
        ),
        Mode::Open { rate, .. } => format!(
            "executor: 'constant-arrival-rate', rate: {rate}, timeUnit: '1s', duration: {duration}, preAllocatedVUs: {}",
            asked.connections
        ),
    };
    format!(
        "import http from 'k6/http';\n\
         http.setResponseCallback(http.expectedStatuses(200));\n\
         export const options = {{ discardResponseBodies: true, insecureSkipTLSVerify: {}, noConnectionReuse: {}, \
         scenarios: {{ load: {{ {scenario}, gracefulStop: '0s' }} }} }};\n\
         export default function () {{ http.request({}, {}, null, {{ headers: {{ {} }}, timeout: {} }}); }}\n",
        task.insecure,
        closes(task),
        text(&asked.method),
        text(&asked.url),
        fields.join(", "),
        text(&format!("{}s", timeout(task)))
    )
}

fn vegeta(task: &Task, attack: &Path) -> Vec<Vec<String>> {
    let asked = &task.asked;
    let file = attack.display().to_string();
    let mut args = words(["attack", "-output"]);
    args.push(file.clone());
    args.extend([
        "-duration".into(),
        format!("{}ms", (asked.duration_s * 1000.0).ceil()),
    ]);
    args.extend(["-timeout".into(), format!("{}s", timeout(task))]);
    args.extend(["-max-workers".into(), asked.connections.to_string()]);
    args.extend(["-connections".into(), asked.connections.to_string()]);
    match asked.mode {
        // Rate 0 is as fast as the workers can: a closed loop.
        Mode::Closed => args.extend(words(["-rate", "0"])),
        Mode::Open { rate, .. } => args.extend(["-rate".into(), format!("{rate}")]),
    }
    if closes(task) {
        args.push("-keepalive=false".into());
    }
    if task.insecure {
        args.push("-insecure".into());
    }
    vec![
        with_fields(args, "-header", task),
        vec!["report".into(), "-type=json".into(), file],
    ]
}

fn vegeta_target(task: &Task) -> String {
    format!("{} {}\n", task.asked.method, task.asked.url)
}
