//! The tests of the worker itself, which are written in Python: `worker/tests/run.py` runs them with other interpreters.

use std::process::Command;

use crate::abilities::{can_run, skipped_part};

#[test]
fn the_worker_passes_its_own_tests() {
    let supported = "import sys; sys.exit(sys.version_info < (3, 9))";
    if !can_run("python3", &["-c", supported]) {
        return;
    }
    let output = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/worker/tests/run.py"))
        .arg("python3")
        .output()
        .expect("python3 runs");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    // The last line counts the tests that need uvloop, gevent or a framework.
    let result = report.lines().last().unwrap_or_default();
    if result.contains("skipped") {
        skipped_part(format_args!("tests of the Python worker: {result}"));
    }
}
