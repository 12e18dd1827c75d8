//! A synthetic result for tests: three subjects, one of them twice, two tests, three levels, five blocks. The numbers
//! follow a single-server queue, so that rate and latency are consistent.

use sluice_load::random::Random;
use sluice_load::result::*;

/// Subjects with CPU microseconds per response, and MiB of memory.
const SUBJECTS: [(&str, f64, f64); 4] = [
    ("swift", 9.0, 9.0),
    ("steady", 12.0, 14.0),
    ("steady (again)", 12.0, 14.0),
    ("heavy", 31.0, 48.0),
];

/// The same result every time.
pub fn result() -> RunResult {
    static MADE: std::sync::OnceLock<RunResult> = std::sync::OnceLock::new();
    MADE.get_or_init(make).clone()
}

fn make() -> RunResult {
    let mut result = RunResult {
        schema: SCHEMA.into(),
        name: "example".into(),
        title: "An example that was made up".into(),
        command: ["sluice-lab", "run", "example.toml"].map(String::from).into(),
        started_unix_ms: 1_700_000_000_000,
        duration_s: 412.0,
        seed: 7,
        machine: Machine {
            cpu_model: "A Processor <2>".into(),
            cpus: 2,
            memory_bytes: 24 << 30,
            kernel: "6.1.0".into(),
            os: "Debian 12".into(),
            placement: [("subject".to_string(), vec![0]), ("generator".to_string(), vec![1])].into(),
            ..Machine::default()
        },
        experiment: Some(Experiment {
            file: "example.toml".into(),
            text: "name = \"example\"\n".into(),
            sha256: "ab".repeat(32),
            claims: [
                ("swift-first".to_string(), "goodput(subject=swift, test=proxy, clients=200) > goodput(subject=heavy, test=proxy, clients=200)".to_string()),
                ("falls".to_string(), "goodput(subject=swift, test=fixed) < goodput(subject=swift, test=proxy)".to_string()),
            ]
            .into(),
            ..Experiment::default()
        }),
        notes: vec!["These numbers were made up for tests & examples.".into()],
        ..RunResult::default()
    };
    for (name, _, _) in SUBJECTS {
        result.subjects.push(SubjectFacts {
            name: name.into(),
            command: format!("{name} -c {{conf}}"),
            version: Some(format!("{name} 1.0 <beta>")),
            ..SubjectFacts::default()
        });
    }
    for (test, work) in [("fixed", 1.0), ("proxy", 2.4)] {
        for clients in [10, 200, 1000] {
            for (subject, cpu, memory) in SUBJECTS {
                result
                    .cells
                    .push(cell(subject, test, clients, cpu * work, memory));
            }
        }
    }
    result.cells.push(Cell {
        id: "absent000000".into(),
        axes: axes("absent", "fixed", 10),
        state: CellState::NotInstalled("no program `absent`".into()),
        ..Cell::default()
    });
    result
}

fn axes(subject: &str, test: &str, clients: usize) -> std::collections::BTreeMap<String, String> {
    let all = [
        ("subject", subject.to_string()),
        ("test", test.to_string()),
        ("clients", clients.to_string()),
    ];
    all.map(|(axis, value)| (axis.to_string(), value)).into()
}

fn cell(subject: &str, test: &str, clients: usize, cpu_us: f64, memory: f64) -> Cell {
    let name = format!("{subject}/{test}/{clients}");
    let seed = name.bytes().fold(7_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let mut random = Random::new(seed);
    let blocks = (0..5).map(|number| block(number, subject, clients, cpu_us, memory, &mut random));
    Cell {
        id: format!("{seed:012x}").chars().take(12).collect(),
        axes: axes(subject, test, clients),
        state: CellState::Measured,
        blocks: blocks.collect(),
        failed_starts: Vec::new(),
    }
}

fn block(
    number: usize,
    subject: &str,
    clients: usize,
    cpu_us: f64,
    memory: f64,
    random: &mut Random,
) -> Block {
    // Each block has its own speed, the same for all subjects: other guests on the host.
    let pace = 1.0 + 0.06 * (number as f64 * 2.3).sin() + 0.01 * random.normal();
    let rate = 0.96e6 / cpu_us / pace;
    let mean_ms = clients as f64 / rate * 1000.0;
    let window_s = 3.0;
    let ok = (rate * window_s) as u64;
    let mut histogram = Histogram::new();
    let spread: f64 = if subject == "heavy" { 0.8 } else { 0.45 };
    for _ in 0..4_000 {
        let factor = (random.normal() * spread - spread * spread / 2.0).exp();
        histogram.record((mean_ms * factor * 1e6) as u64);
    }
    let failed = if subject == "heavy" && clients == 1000 {
        ok / 50
    } else {
        0
    };
    Block {
        number,
        position: number,
        load: load(histogram, ok, failed, window_s, clients, rate, random),
        resources: Some(resources(
            window_s,
            cpu_us * ok as f64 / 1e6,
            memory,
            clients,
            random,
        )),
        checks: vec![Check {
            claim: "upstream connections are reused".into(),
            seen: "2 connections for 12,000 requests".into(),
            holds: Some(true),
        }],
        marks: (failed > 0)
            .then(|| Mark {
                kind: MarkKind::Failures,
                text: "2.0 % of the requests failed".into(),
            })
            .into_iter()
            .collect(),
        ..Block::default()
    }
}

fn load(
    histogram: Histogram,
    ok: u64,
    failed: u64,
    window_s: f64,
    clients: usize,
    rate: f64,
    random: &mut Random,
) -> Load {
    let total = Distribution::of(histogram);
    let mean = total.mean_ns.unwrap_or(1.0);
    let points = (0..30).map(|_| slice(rate * 0.1, mean, random)).collect();
    Load {
        engine: Engine {
            name: "native".into(),
            ..Engine::default()
        },
        asked: asked(clients, window_s),
        window_s,
        ok,
        ended_ok: ok,
        failures: (failed > 0)
            .then(|| Failures {
                class: FailureClass::Reset,
                count: failed,
                statuses: Vec::new(),
                latency: Distribution::default(),
                example: Some("connection reset".into()),
            })
            .into_iter()
            .collect(),
        latency: Latencies {
            total,
            ..Latencies::default()
        },
        connections: Connections {
            opened: clients as u64,
            responses: ok,
            ..Connections::default()
        },
        response: Some(FirstResponse {
            status: 200,
            head: "HTTP/1.1 200 OK\r\n".into(),
            head_bytes: 140,
            body_bytes: 13,
            body_sha256: "cd".repeat(32),
            encoding: None,
        }),
        generator: Some(Generator {
            cpu_s: 2.0,
            busiest: 0.6,
            ..Generator::default()
        }),
        series: Some(Series {
            interval_ms: 100,
            points,
        }),
        ..Load::default()
    }
}

/// An interval of 100 ms with about `answers` responses.
fn slice(responses: f64, mean_ns: f64, random: &mut Random) -> Point {
    const SHARES: [f64; 7] = [0.1, 0.3, 0.3, 0.2, 0.07, 0.02, 0.001];
    let responses = responses * (1.0 + 0.05 * random.normal());
    let first = heat_step((mean_ns * 0.4) as u64);
    let steps = SHARES.iter().zip(first..);
    Point {
        ok: responses as u64,
        max_ns: (mean_ns * 4.0) as u64,
        heat: steps
            .map(|(share, step)| (step, (responses * share) as u64))
            .collect(),
        ..Point::default()
    }
}

fn asked(clients: usize, window_s: f64) -> Asked {
    Asked {
        url: "http://127.0.0.1:8080/".into(),
        method: "GET".into(),
        protocol: "http/1.1".into(),
        connections: clients,
        depth: 1,
        threads: 1,
        duration_s: window_s,
        warmup_s: 1.0,
        timeout_s: 10.0,
        verify: "status, length, body".into(),
        ..Asked::default()
    }
}

fn resources(
    window_s: f64,
    cpu_s: f64,
    memory: f64,
    clients: usize,
    random: &mut Random,
) -> Resources {
    let rss = (memory + clients as f64 * 0.02) * 1_048_576.0;
    let point = |at: i64| TreePoint {
        at_ms: at * 100,
        user: (cpu_s / window_s * 0.4 * (1.0 + 0.1 * random.normal())) as f32,
        system: (cpu_s / window_s * 0.6) as f32,
        rss_bytes: (rss * (0.7 + 0.01 * at as f64)) as u64,
        ..TreePoint::default()
    };
    Resources {
        interval_ms: 100,
        subject: Tree {
            cpu_user_s: cpu_s * 0.4,
            cpu_system_s: cpu_s * 0.6,
            rss_peak_bytes: rss as u64,
            points: (-3..30).map(point).collect(),
            ..Tree::default()
        },
        ..Resources::default()
    }
}
