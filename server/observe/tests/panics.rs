//! Panics in the log. An integration test, and thereby a process of its own, because the panic hook is global.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_observe::limits::{
    PANIC_BACKTRACE_BYTES_MAX, PANIC_LINES_MAX, PANIC_LINES_PERIOD, PANIC_MESSAGE_BYTES_MAX,
};
use sluice_observe::log::{Level, Log, Plan};
use sluice_observe::panics;

/// Creates a log that writes to a file.
fn log_to(path: &Path) -> Log {
    let log = Log::start(Level::Info).expect("threads can be started");
    let logging = serde_json::json!({ "logs": { "default": {
        "writer": { "output": "file", "filename": path },
        "encoder": { "format": "json" },
    } } });
    let logging = serde_json::from_value(logging).expect("the model has these names");
    let plan = Plan::build(Some(&logging), log.outputs()).expect("the file can be made");
    log.replace(Arc::new(plan));
    log
}

#[test]
fn a_flood_of_panics_is_a_few_short_lines() {
    const PANICS: u64 = 1000;
    let folder = std::env::temp_dir().join(format!("sluice-panics-{}", std::process::id()));
    let path = folder.join("log");
    let log = log_to(&path);
    panics::report_to(log.clone()).expect("a thread can be started");
    let start = Instant::now();
    for number in 0..PANICS {
        let caught = std::panic::catch_unwind(|| panic!("number {number} {}", "x".repeat(10_000)));
        assert!(caught.is_err());
    }
    let took = start.elapsed();
    assert_eq!(panics::count(), PANICS);
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    let are_there = || read().lines().count() >= PANIC_LINES_MAX as usize;
    crate::wait::eventually("the lines", are_there, read);
    log.finish(Duration::from_secs(20));
    let text = read();
    let _ = std::fs::remove_dir_all(&folder);
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is an object"))
        .collect();
    // A slow machine may need more than one period.
    let periods = took.as_secs() / PANIC_LINES_PERIOD.as_secs() + 1;
    let lines_max = PANIC_LINES_MAX as usize * (periods as usize + 1);
    assert!((1..=lines_max).contains(&lines.len()), "{text}");
    let traced = |line: &&serde_json::Value| line.get("backtrace").is_some();
    assert_eq!(lines.iter().filter(traced).count(), 1, "{text}");
    let first = &lines[0];
    assert_eq!(first["level"], "error");
    assert_eq!(first["logger"], "panic");
    assert!(
        first["place"]
            .as_str()
            .is_some_and(|place| place.contains("panics.rs:")),
        "{first}"
    );
    assert!(
        first["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("number 0 x")),
        "{first}"
    );
    for line in &lines {
        // JSON escaping makes the backtrace longer.
        let bytes = line.to_string().len();
        assert!(
            bytes < 2 * PANIC_BACKTRACE_BYTES_MAX + 2 * PANIC_MESSAGE_BYTES_MAX,
            "{bytes}"
        );
    }
}
